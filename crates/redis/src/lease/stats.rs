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
    pub from_source: u64,
    /// Requests that no decision was found for: the bank is unavailable.
    pub unavailable: u64,
    /// Calls to the bank, those in the background too.
    pub calls: u64,
    /// Of these, the ones that nobody waited for.
    pub prefetches: u64,
    /// Cells that the bank gave.
    pub cells_taken: u64,
    /// Of these, the ones that were found too old, or dropped for newer ones.
    pub cells_lapsed: u64,
    /// Requests that found no place for their key, and went to the bank each.
    pub untracked: u64,
    /// Keys that have a place.
    pub keys: u64,
}

impl LeaseStats {
    /// Requests that were decided.
    ///
    /// ```
    /// # use tollgate_redis::LeaseStats;
    /// let mut stats = LeaseStats::default();
    /// (stats.from_lease, stats.from_source) = (90, 10);
    /// assert_eq!(stats.decisions(), 100);
    /// ```
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.from_lease + self.from_memory + self.from_source
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stat {
    FromLease,
    FromMemory,
    FromSource,
    Unavailable,
    Calls,
    Prefetches,
    CellsTaken,
    CellsLapsed,
    Untracked,
}

const STATS: usize = 9;
const STRIPES: usize = 8;

/// Counts on lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([RelaxedCounter; STATS]);

/// Counts that threads do not contend for, as long as there are few of them.
#[derive(Debug, Default)]
pub(crate) struct StripedStats([Stripe; STRIPES]);

impl StripedStats {
    pub(crate) fn add(&self, stat: Stat, more: u64) {
        self.0[stripe()].0[stat as usize].add(more);
    }

    pub(crate) fn one(&self, stat: Stat) {
        self.add(stat, 1);
    }

    pub(crate) fn read(&self, keys: u64) -> LeaseStats {
        let sum = |stat: Stat| self.0.iter().map(|stripe| stripe.0[stat as usize].read()).sum();
        LeaseStats {
            from_lease: sum(Stat::FromLease),
            from_memory: sum(Stat::FromMemory),
            from_source: sum(Stat::FromSource),
            unavailable: sum(Stat::Unavailable),
            calls: sum(Stat::Calls),
            prefetches: sum(Stat::Prefetches),
            cells_taken: sum(Stat::CellsTaken),
            cells_lapsed: sum(Stat::CellsLapsed),
            untracked: sum(Stat::Untracked),
            keys,
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
        let tally = StripedStats::default();
        std::thread::scope(|scope| {
            for _ in 0..3 * STRIPES {
                scope.spawn(|| tally.add(Stat::CellsTaken, 5));
            }
        });
        tally.one(Stat::Untracked);
        let stats = tally.read(7);
        assert_eq!((stats.cells_taken, stats.untracked, stats.keys), (120, 1, 7));
        assert_eq!(stats.decisions(), 0);
    }
}
