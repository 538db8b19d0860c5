//! Counters of a leasing process.

use core::cell::Cell;

use crate::sync::RelaxedCounter;

/// Counters since a [`Leased`](crate::Leased) was built. Reading them stops no thread.
///
/// While other threads work, the counters may be of slightly different moments.
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
    /// Requests admitted from cells held here.
    pub from_lease: u64,
    /// Requests answered by an earlier reply of the source.
    pub from_memory: u64,
    /// Requests that a call to the source was made for.
    pub from_source: u64,
    /// Requests without a decision, because the source is unavailable.
    pub unavailable: u64,
    /// Calls to the source, including those in the background.
    pub calls: u64,
    /// Calls in the background, that no request waited for.
    pub prefetches: u64,
    /// Cells that the source granted.
    pub cells_taken: u64,
    /// Taken cells that expired, or were dropped for newer ones.
    pub cells_lapsed: u64,
    /// Requests for keys that found no room. Each cost a call.
    pub untracked: u64,
    /// Keys that have room.
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

/// The counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stat {
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

/// Counters on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([RelaxedCounter; STATS]);

/// Counters that threads rarely contend for, as long as there are few threads.
#[derive(Debug, Default)]
pub(super) struct StripedStats([Stripe; STRIPES]);

impl StripedStats {
    pub(super) fn add(&self, stat: Stat, more: u64) {
        self.0[stripe()].0[stat as usize].add(more);
    }

    pub(super) fn one(&self, stat: Stat) {
        self.add(stat, 1);
    }

    pub(super) fn read(&self, keys: u64) -> LeaseStats {
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
