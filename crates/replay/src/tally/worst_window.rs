//! The worst window of a limiter: the most cells that it admitted to one key within one period.
//!
//! A window is `(t - period, t]`, as an exact log counts it: an admission leaves the window one
//! period later, to the nanosecond. Each maximum is reached by an admission, so the window is
//! examined only then.
//!
//! Memory: one entry for each key and instant of the last period with an admission, and one for each
//! delayed admission. A key without an entry is forgotten.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// Cells that one key was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AdmittedCells {
    /// When the request was let through.
    pub(super) unix_nanos: u64,
    /// The index of the key.
    pub(super) key: usize,
    /// The number of cells.
    pub(super) cells: u64,
}

/// The worst window so far: its cells, its end, and the key that reached this number of cells first.
pub(super) type KeyWindow = AdmittedCells;

/// Follows the admissions of one limiter.
#[derive(Debug)]
pub(super) struct WorstWindow {
    period_nanos: u64,
    /// Admissions that are still delayed.
    waiting: BinaryHeap<Reverse<AdmittedCells>>,
    /// Admissions of the last period, the oldest first.
    recent: VecDeque<AdmittedCells>,
    /// The number of entries that have left `recent`, and so the number of its first entry.
    left: u64,
    /// The keys in `recent`.
    live: HashMap<usize, Live, BuildHasherDefault<KeyNumberHasher>>,
    worst: Option<KeyWindow>,
}

/// The admissions of one key within the last period.
#[derive(Debug)]
struct Live {
    /// Saturates. This is exact enough: no window can be worse than `u64::MAX`.
    cells: u64,
    /// The number of the latest entry of this key.
    latest: u64,
}

impl WorstWindow {
    /// No admission yet.
    pub(super) fn new(period: Duration) -> Self {
        Self {
            period_nanos: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
            waiting: BinaryHeap::new(),
            recent: VecDeque::new(),
            left: 0,
            live: HashMap::default(),
            worst: None,
        }
    }

    /// Counts an admission that is let through after `delay`. `unix_nanos` never goes back from one
    /// call to the next.
    pub(super) fn admit(&mut self, admission: AdmittedCells, delay: Duration) {
        let now = admission.unix_nanos;
        while self.waiting.peek().is_some_and(|Reverse(first)| first.unix_nanos <= now) {
            self.next_waiting();
        }
        if delay.is_zero() {
            self.let_through(admission);
        } else {
            let delay_nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
            let unix_nanos = now.saturating_add(delay_nanos);
            self.waiting.push(Reverse(AdmittedCells { unix_nanos, ..admission }));
        }
    }

    /// Counts all admissions that are still delayed. No admission may follow.
    pub(super) fn finish(&mut self) {
        while !self.waiting.is_empty() {
            self.next_waiting();
        }
    }

    /// The window with the most cells of one key; `None` if nothing was admitted.
    pub(super) fn worst(&self) -> Option<KeyWindow> {
        self.worst
    }

    fn next_waiting(&mut self) {
        if let Some(Reverse(admission)) = self.waiting.pop() {
            self.let_through(admission);
        }
    }

    /// Moves the window to the admission, and counts it.
    fn let_through(&mut self, admission: AdmittedCells) {
        self.forget_before(admission.unix_nanos);
        if admission.cells == 0 {
            return;
        }
        let next = self.left + self.recent.len() as u64;
        let live = self.live.entry(admission.key).or_insert(Live { cells: 0, latest: next });
        live.cells = live.cells.saturating_add(admission.cells);
        let cells = live.cells;
        let latest = usize::try_from(live.latest - self.left).expect("an index of `recent`");
        match self.recent.get_mut(latest) {
            Some(entry) if entry.unix_nanos == admission.unix_nanos => {
                entry.cells = entry.cells.saturating_add(admission.cells);
            }
            _ => {
                live.latest = next;
                self.recent.push_back(admission);
            }
        }
        if self.worst.is_none_or(|worst| worst.cells < cells) {
            self.worst = Some(KeyWindow { cells, ..admission });
        }
    }

    /// Drops the admissions of one period ago and earlier.
    fn forget_before(&mut self, now: u64) {
        let Some(gone) = now.checked_sub(self.period_nanos) else { return };
        while let Some(first) = self.recent.front().filter(|first| first.unix_nanos <= gone) {
            let live = self.live.get_mut(&first.key).expect("a key with an entry is live");
            if live.latest == self.left {
                self.live.remove(&first.key);
            } else {
                live.cells = live.cells.saturating_sub(first.cells);
            }
            self.recent.pop_front();
            self.left += 1;
        }
    }
}

/// Hashes the index of a key. Indices count up from 0, so a log cannot choose them to collide.
#[derive(Debug, Default)]
struct KeyNumberHasher(u64);

impl Hasher for KeyNumberHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("the index of a key is one word");
    }

    fn write_usize(&mut self, number: usize) {
        // An odd factor keeps the low bits of neighbours apart; 2^64 divided by the golden ratio
        // spreads them over the high bits too.
        self.0 = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Time of admission, key, cells, and delay.
    type Admitted = (u64, usize, u64, u64);

    fn worst_of(period_nanos: u64, admissions: &[Admitted]) -> WorstWindow {
        let mut window = WorstWindow::new(Duration::from_nanos(period_nanos));
        for (unix_nanos, key, cells, delay) in admissions.iter().copied() {
            let admission = AdmittedCells { unix_nanos, key, cells };
            window.admit(admission, Duration::from_nanos(delay));
        }
        window.finish();
        window
    }

    /// Counts each window that ends with an admission from scratch.
    fn max_by_recounting(period_nanos: u64, admissions: &[Admitted]) -> u64 {
        let departures: Vec<AdmittedCells> = admissions
            .iter()
            .map(|(at, key, cells, delay)| AdmittedCells {
                unix_nanos: at + delay,
                key: *key,
                cells: *cells,
            })
            .collect();
        let in_window = |end: &AdmittedCells| {
            let is_in = |one: &&AdmittedCells| {
                one.key == end.key
                    && one.unix_nanos <= end.unix_nanos
                    && end.unix_nanos - one.unix_nanos < period_nanos
            };
            departures.iter().filter(is_in).map(|one| one.cells).sum()
        };
        departures.iter().map(in_window).max().unwrap_or(0)
    }

    #[test]
    fn an_admission_leaves_exactly_one_period_later() {
        for (second, cells) in [(60 * SECOND - 1, 5), (60 * SECOND, 3), (60 * SECOND + 1, 3)] {
            let window = worst_of(60 * SECOND, &[(0, 0, 2, 0), (second, 0, 3, 0)]);
            assert_eq!(
                window.worst(),
                Some(KeyWindow { unix_nanos: second, key: 0, cells }),
                "{second}"
            );
        }
    }

    #[test]
    fn a_double_burst_around_an_edge_is_one_window() {
        let window = worst_of(60 * SECOND, &[(59 * SECOND, 7, 20, 0), (61 * SECOND, 7, 20, 0)]);
        assert_eq!(window.worst(), Some(KeyWindow { unix_nanos: 61 * SECOND, key: 7, cells: 40 }));
    }

    #[test]
    fn the_first_of_several_equal_windows_is_kept() {
        let window = worst_of(SECOND, &[(1, 4, 2, 0), (2, 3, 2, 0), (2 + SECOND, 4, 2, 0)]);
        assert_eq!(window.worst(), Some(KeyWindow { unix_nanos: 1, key: 4, cells: 2 }));
        assert_eq!(worst_of(SECOND, &[]).worst(), None);
        assert_eq!(worst_of(SECOND, &[(1, 4, 0, 0)]).worst(), None);
    }

    #[test]
    fn a_delayed_request_counts_when_it_is_let_through() {
        // Ten at once, drained one each second: no second sees more than one.
        let drained: Vec<_> = (0..10).map(|place| (0, 0, 1, place * SECOND)).collect();
        assert_eq!(worst_of(SECOND, &drained).worst().unwrap().cells, 1);
        let window = worst_of(SECOND, &[(0, 0, 1, 5 * SECOND), (5 * SECOND, 0, 1, 0)]);
        assert_eq!(window.worst(), Some(KeyWindow { unix_nanos: 5 * SECOND, key: 0, cells: 2 }));
    }

    #[test]
    fn memory_is_bounded_by_the_admissions_of_the_last_period() {
        let flood: Vec<_> = (0..100_000).map(|key| (key as u64 * SECOND, key, 1, 0)).collect();
        let window = worst_of(60 * SECOND, &flood);
        assert_eq!((window.live.len(), window.recent.len()), (60, 60));
        let instant = vec![(5, 0, 1, 0); 100_000];
        let window = worst_of(60 * SECOND, &instant);
        assert_eq!((window.live.len(), window.recent.len()), (1, 1));
        assert_eq!(window.worst().unwrap().cells, 100_000);
    }

    #[test]
    fn huge_costs_saturate() {
        let huge = u64::MAX - 1;
        let costs = [(0, 0, huge, 0), (0, 0, huge, 0), (SECOND - 1, 0, 1, 0), (SECOND, 0, 5, 0)];
        let window = worst_of(SECOND, &costs);
        assert_eq!(window.worst().unwrap().cells, u64::MAX);
        worst_of(u64::MAX, &[(u64::MAX, 0, 1, u64::MAX), (u64::MAX, 0, 1, 0)]);
    }

    proptest! {
        /// Small numbers, so that instants and keys coincide and windows meet their edges.
        #[test]
        fn the_worst_window_equals_that_of_a_naive_count(
            mut admissions in prop::collection::vec(
                (0_u64..60, 0_usize..3, 0_u64..4, prop_oneof![3 => Just(0), 1 => 0_u64..20]),
                0..80),
            period in 1_u64..25,
            scale in prop_oneof![Just(1), Just(1_000_003), Just(SECOND)],
        ) {
            for (at, _, _, delay) in &mut admissions {
                (*at, *delay) = (*at * scale, *delay * scale);
            }
            admissions.sort_by_key(|(at, ..)| *at);
            let window = worst_of(period * scale, &admissions);
            let cells = window.worst().map_or(0, |worst| worst.cells);
            prop_assert_eq!(cells, max_by_recounting(period * scale, &admissions));
            // The named window has that many cells.
            if let Some(worst) = window.worst() {
                let of_key: Vec<_> = admissions
                    .iter()
                    .filter(|(at, key, ..)| *key == worst.key && *at <= worst.unix_nanos)
                    .filter(|(at, _, _, delay)| at + delay <= worst.unix_nanos)
                    .filter(|(at, _, _, delay)| at + delay + period * scale > worst.unix_nanos)
                    .collect();
                prop_assert_eq!(of_key.iter().map(|one| one.2).sum::<u64>(), cells);
            }
        }
    }
}
