//! What a process counts about its leases.

use core::cell::Cell;

use crate::sync::RelaxedCounter;

/// Counts since a [`Leased`](crate::Leased) was built, read without stopping anybody.
///
/// While others work, the counts may be of slightly different moments.
///
/// ```
/// use tollgate_redis::LeaseStats;
///
/// let stats = LeaseStats::default();
/// assert_eq!(stats.decisions(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStats {
    /// Requests admitted from cells in hand.
    pub from_lease: u64,
    /// Requests answered by what the bank had said a moment ago.
    pub from_memory: u64,
    /// Requests that a call to the bank was made for.
    pub from_bank: u64,
    /// Requests that no decision was found for: the bank is unavailable.
    pub unavailable: u64,
    /// Calls to the bank, those in the background too.
    pub calls: u64,
    /// Of these, the ones that nobody waited for.
    pub calls_ahead: u64,
    /// Cells that the bank gave.
    pub cells_taken: u64,
    /// Of these, the ones that were found too old, or dropped for newer ones.
    pub cells_lapsed: u64,
    /// Requests that found no place for their key, and went to the bank each.
    pub without_purse: u64,
    /// Keys that have a place.
    pub purses: u64,
}

impl LeaseStats {
    /// Requests that were decided.
    ///
    /// ```
    /// # use tollgate_redis::LeaseStats;
    /// let mut stats = LeaseStats::default();
    /// (stats.from_lease, stats.from_bank) = (90, 10);
    /// assert_eq!(stats.decisions(), 100);
    /// ```
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.from_lease + self.from_memory + self.from_bank
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    FromLease,
    FromMemory,
    FromBank,
    Unavailable,
    Calls,
    CallsAhead,
    CellsTaken,
    CellsLapsed,
    WithoutPurse,
}

const COUNTS: usize = 9;
const STRIPES: usize = 8;

/// Counts on lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([RelaxedCounter; COUNTS]);

/// Counts that threads do not contend for, as long as there are few of them.
#[derive(Debug, Default)]
pub(crate) struct Tally([Stripe; STRIPES]);

impl Tally {
    pub(crate) fn add(&self, count: Count, more: u64) {
        self.0[stripe()].0[count as usize].add(more);
    }

    pub(crate) fn one(&self, count: Count) {
        self.add(count, 1);
    }

    pub(crate) fn read(&self, purses: u64) -> LeaseStats {
        let sum = |count: Count| self.0.iter().map(|stripe| stripe.0[count as usize].read()).sum();
        LeaseStats {
            from_lease: sum(Count::FromLease),
            from_memory: sum(Count::FromMemory),
            from_bank: sum(Count::FromBank),
            unavailable: sum(Count::Unavailable),
            calls: sum(Count::Calls),
            calls_ahead: sum(Count::CallsAhead),
            cells_taken: sum(Count::CellsTaken),
            cells_lapsed: sum(Count::CellsLapsed),
            without_purse: sum(Count::WithoutPurse),
            purses,
        }
    }
}

/// This thread's stripe.
fn stripe() -> usize {
    static THREADS: RelaxedCounter = RelaxedCounter::new();
    std::thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    match MINE.get() {
        usize::MAX => {
            let mine = usize::try_from(THREADS.add(1)).unwrap_or(0) % STRIPES;
            MINE.set(mine);
            mine
        }
        mine => mine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_are_counted() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for _ in 0..3 * STRIPES {
                scope.spawn(|| tally.add(Count::CellsTaken, 5));
            }
        });
        tally.one(Count::WithoutPurse);
        let stats = tally.read(7);
        assert_eq!((stats.cells_taken, stats.without_purse, stats.purses), (120, 1, 7));
        assert_eq!(stats.decisions(), 0);
    }
}
