//! A window that advances by sub-windows, as counts by the number of the sub-window.

use core::time::Duration;
use std::collections::BTreeMap;

use super::{Oracle, Units, Verdict, span};
use crate::time::Tick;

/// A window of sub-windows: the cells counted in each.
///
/// The current sub-window is the one that contains `now`, or the latest that was charged, if that
/// is later. The estimate is the sum of its count and of the counts of the `older` sub-windows before it. If
/// the window is *weighed*, the oldest sub-window counts only in part: in the proportion of the current
/// sub-window that has not passed yet. `n` cells are admitted iff `floor(estimate)
/// + n <= limit`, and are counted in the current sub-window.
#[derive(Clone, Debug)]
pub struct SubWindowCounts {
    /// A unit is a sub-window.
    grid: Units,
    /// Added to every instant.
    ahead_nanos: u64,
    limit: u64,
    older: u128,
    weighed: bool,
    /// The charged cells of each sub-window by its number, unless it has left the window for ever.
    counts: BTreeMap<u128, u64>,
}

impl SubWindowCounts {
    pub(in crate::algo) fn new(
        grid: (u64, u64),
        ahead_nanos: u64,
        limit: u64,
        older: u64,
        weighed: bool,
    ) -> Self {
        assert!(older > 0 || !weighed, "the current sub-window always counts in full");
        Self {
            grid: Units::of(grid),
            ahead_nanos,
            limit,
            older: older.into(),
            weighed,
            counts: BTreeMap::new(),
        }
    }

    fn latest(&self) -> Option<u128> {
        self.counts.keys().next_back().copied()
    }

    /// The current sub-window at an instant, and how much of it has passed, in parts of which it
    /// has `grid.nanos`.
    fn current(&self, nanos: u128) -> (u128, u128) {
        let placed = nanos * self.grid.units;
        let (begun, passed) = (placed / self.grid.nanos, placed % self.grid.nanos);
        match self.latest() {
            Some(latest) if latest > begun => (latest, 0),
            _ => (begun, passed),
        }
    }

    /// The estimate at an instant, rounded down to whole cells.
    fn estimate(&self, nanos: u128) -> u128 {
        let (current, passed) = self.current(nanos);
        let newer = self.counts.iter().filter(|(index, _)| **index + self.older > current);
        let newer: u128 = newer.map(|(_, count)| u128::from(*count)).sum();
        let oldest = current.checked_sub(self.older).and_then(|index| self.counts.get(&index));
        let oldest = oldest.map_or(0, |count| u128::from(*count));
        if self.weighed {
            // The newer counts are whole cells, so only this summand is rounded.
            newer + oldest * (self.grid.nanos - passed) / self.grid.nanos
        } else {
            newer + oldest
        }
    }

    fn fits(&self, nanos: u128, n: u64) -> bool {
        n <= self.limit && self.estimate(nanos) + u128::from(n) <= self.limit.into()
    }

    fn charge(&mut self, nanos: u128, n: u64) {
        let (current, _) = self.current(nanos);
        *self.counts.entry(current).or_default() += n;
        // The current sub-window is never earlier than this from now on.
        self.counts.retain(|index, _| index + self.older >= current);
    }

    /// The sub-window from which on no charge counts any more.
    fn all_left(&self) -> Option<u128> {
        Some(self.latest()? + self.older + 1)
    }

    /// The first instant at which `n` cells fit, if they do not fit at `denied` but do in an empty
    /// window. While nothing is charged, an estimate never rises: cells that fit once fit later.
    fn first_fitting(&self, denied: u128, n: u64) -> u128 {
        let left = self.all_left().expect("an empty window does not deny what can fit");
        let mut too_early = denied;
        let mut fitting = self.grid.beginning(left);
        while fitting - too_early > 1 {
            let between = too_early + (fitting - too_early) / 2;
            if self.fits(between, n) {
                fitting = between;
            } else {
                too_early = between;
            }
        }
        fitting
    }
}

impl Oracle for SubWindowCounts {
    fn decide(&mut self, now: Tick, n: u64) -> Verdict {
        let now = now.saturating_add(Duration::from_nanos(self.ahead_nanos));
        let nanos = u128::from(now.as_nanos());
        let admitted = n == 0 || self.fits(nanos, n);
        if admitted && n > 0 {
            self.charge(nanos, n);
        }
        let room = u128::from(self.limit).saturating_sub(self.estimate(nanos));
        Verdict {
            admitted,
            delay: Duration::ZERO,
            remaining: u64::try_from(room).expect("at most the limit"),
            reset_after: self.all_left().map_or(Duration::ZERO, |left| self.grid.until(now, left)),
            retry_after: match admitted {
                true => Some(Duration::ZERO),
                false if n > self.limit => None,
                false => Some(span(self.first_fitting(nanos, n) - nanos)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::EventLog;
    use super::super::brute::{Lcg, fits_first_after};
    use super::*;

    const SEC: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn tick(nanos: u64) -> Tick {
        Tick::from_nanos(nanos)
    }

    fn counter(limit: u64, window_nanos: u64) -> SubWindowCounts {
        SubWindowCounts::new((1, window_nanos), 0, limit, 1, true)
    }

    /// A counter with a count of `previous` in one window, and of `current` by `now` in the next.
    fn counted(limit: u64, window: u64, previous: u64, current: u64, now: u64) -> SubWindowCounts {
        let mut counter = counter(limit, window);
        assert!(counter.decide(Tick::ZERO, previous).admitted);
        assert!(counter.decide(tick(window + now), current).admitted);
        counter
    }

    #[test]
    fn the_textbook_example_is_reproduced() {
        let now = tick(78 * SEC);
        let mut counter = counted(7, 60 * SEC, 5, 3, 18 * SEC);
        // 3 + 5 * 0.7 = 6.5, "rounded down to 6".
        let first = counter.decide(now, 1);
        assert!(first.admitted);
        assert_eq!(first.remaining, 0);
        assert_eq!(first.reset_after, Duration::from_secs(102));
        // 7.5 now; 7 exactly at 24 s, which still leaves no room for one.
        let second = counter.decide(now, 1);
        assert!(!second.admitted);
        assert_eq!(second.remaining, 0);
        assert_eq!(second.retry_after, Some(Duration::from_nanos(6 * SEC + 1)));
        assert!(!counter.clone().decide(tick(84 * SEC), 1).admitted);
        assert!(counter.clone().decide(tick(84 * SEC + 1), 1).admitted);
    }

    #[test]
    fn upstash_rows_are_reproduced() {
        // limit, previous, current, now and window in ms, n, remaining or `None`: denied
        let rows = [
            (7, 5, 3, 18_000, 60_000, 1, Some(0)),
            (7, 5, 4, 18_000, 60_000, 1, None),
            (10, 10, 0, 0, 1_000, 1, None),
            (10, 10, 0, 100, 1_000, 1, Some(0)),
            (10, 10, 9, 999, 1_000, 1, Some(0)),
            // Their script admits this one: it leaves the cost out of the comparison.
            (10, 0, 9, 0, 1_000, 100, None),
        ];
        for (limit, previous, current, now_ms, window_ms, n, expected) in rows {
            let window = window_ms * MS;
            let mut counter = counted(limit, window, previous, current, now_ms * MS);
            let verdict = counter.decide(tick(window + now_ms * MS), n);
            let remaining = verdict.admitted.then_some(verdict.remaining);
            assert_eq!(remaining, expected, "{previous}, {current} at {now_ms}: {n}");
        }
    }

    #[test]
    fn a_cost_above_the_rest_waits_and_a_cost_above_the_limit_never_fits() {
        let mut counter = counted(10, SEC, 0, 9, 0);
        let never = counter.decide(tick(SEC), 100);
        assert_eq!((never.admitted, never.remaining, never.retry_after), (false, 1, None));
        assert_eq!(counter.decide(tick(SEC), u64::MAX).retry_after, None);
        // All ten fit when the nine weigh less than one: 8/9 into the next window, and later.
        let later = counter.decide(tick(SEC), 10);
        assert_eq!(later.retry_after, Some(Duration::from_nanos(SEC + SEC * 8 / 9 + 1)));
        assert_eq!(counter.decide(tick(SEC), 1).remaining, 0);
    }

    /// Ten at the end of a window, then one a millisecond: the approximation grants twice the
    /// limit to the worst window, which an exact log never does.
    #[test]
    fn overshoot_is_at_most_one_limit() {
        let offered = [999; 10].into_iter().chain(1_000..2_000);
        let worst = |decide: &mut dyn FnMut(Tick, u64) -> Verdict| {
            let granted: Vec<u64> =
                offered.clone().filter(|at| decide(tick(at * MS), 1).admitted).collect();
            let within = |first: usize| {
                granted[first..].iter().filter(|at| *at - granted[first] < 1_000).count()
            };
            (0..granted.len()).map(within).max()
        };
        let mut counter = counter(10, SEC);
        assert_eq!(worst(&mut |now, n| counter.decide(now, n)), Some(20));
        let mut log = EventLog::new((1, MS), vec![(10, 1_000)], false);
        assert_eq!(worst(&mut |now, n| log.decide(now, n)), Some(10));
    }

    #[test]
    fn a_sub_window_leaves_exactly_when_the_window_has_passed_it() {
        // Ten seconds, in fifths.
        let mut windows = SubWindowCounts::new((1, 2 * SEC), 0, 3, 4, false);
        assert!(windows.decide(tick(2 * SEC - 1), 1).admitted);
        assert!(windows.decide(tick(2 * SEC), 2).admitted);
        let denied = windows.decide(tick(3 * SEC), 1);
        assert_eq!(denied.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(denied.reset_after, Duration::from_secs(9));
        let denied = windows.decide(tick(3 * SEC), 2);
        assert_eq!(denied.retry_after, Some(Duration::from_secs(9)), "one is not enough");
        assert_eq!(windows.decide(tick(10 * SEC - 1), 0).remaining, 0);
        assert_eq!(windows.decide(tick(10 * SEC), 0).remaining, 1);
        assert_eq!(windows.decide(tick(12 * SEC - 1), 0).remaining, 1);
        let empty = windows.decide(tick(12 * SEC), 0);
        assert_eq!((empty.remaining, empty.reset_after), (3, Duration::ZERO));
        assert!(windows.decide(tick(12 * SEC), 3).admitted);
    }

    #[test]
    fn a_weighed_sub_window_leaves_exactly_when_the_window_has_passed_it() {
        let mut counter = counter(4, SEC);
        let spent = counter.decide(tick(SEC - 1), 4);
        assert_eq!(spent.reset_after, Duration::from_nanos(SEC + 1));
        assert_eq!(counter.decide(tick(SEC), 0).remaining, 0, "whole at the boundary");
        assert_eq!(counter.decide(tick(SEC + 1), 0).remaining, 1, "just below 4");
        assert_eq!(counter.decide(tick(SEC + SEC * 3 / 4), 0).remaining, 3);
        let last = counter.decide(tick(2 * SEC - 1), 0);
        assert_eq!((last.remaining, last.reset_after), (4, Duration::from_nanos(1)));
        assert_eq!(counter.decide(tick(2 * SEC), 0).reset_after, Duration::ZERO);
    }

    #[test]
    fn the_oldest_of_several_is_weighed() {
        let mut windows = SubWindowCounts::new((1, SEC), 0, 9, 3, true);
        assert!(windows.decide(tick(0), 4).admitted);
        assert!(windows.decide(tick(SEC), 2).admitted);
        assert_eq!(windows.decide(tick(3 * SEC), 0).remaining, 3);
        assert_eq!(windows.decide(tick(3 * SEC + SEC / 2), 0).remaining, 5);
        assert_eq!(windows.decide(tick(4 * SEC), 0).remaining, 7);
        assert_eq!(windows.decide(tick(4 * SEC + SEC / 2), 0).remaining, 8);
    }

    #[test]
    fn windows_are_aligned_by_what_the_clock_is_ahead() {
        let mut windows = SubWindowCounts::new((1, SEC), SEC - 5, 1, 0, false);
        assert!(windows.decide(tick(4), 1).admitted);
        assert!(windows.decide(tick(5), 1).admitted);
        let denied = windows.decide(tick(5), 1);
        assert_eq!(denied.retry_after, Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_clock_behind_the_latest_charge_counts_in_its_sub_window() {
        for weighed in [false, true] {
            let mut windows = SubWindowCounts::new((1, SEC), 0, 4, 1, weighed);
            assert!(windows.decide(tick(9 * SEC), 1).admitted);
            assert!(windows.decide(tick(10 * SEC + SEC / 2), 1).admitted);
            let stale = windows.decide(tick(3 * SEC), 1);
            assert_eq!((stale.admitted, stale.remaining), (true, 1), "nothing of it has passed");
            assert_eq!(stale.reset_after, Duration::from_secs(9));
            assert_eq!(windows.counts, BTreeMap::from([(9, 1), (10, 2)]));
            let denied = windows.decide(tick(3 * SEC), 2);
            let retry_after = if weighed { 7 * SEC + 1 } else { 8 * SEC };
            assert_eq!(denied.retry_after, Some(Duration::from_nanos(retry_after)));
        }
    }

    /// Within the current sub-window, the estimate is that of the clock that asks.
    #[test]
    fn a_clock_behind_in_the_same_sub_window_sees_more_of_the_oldest() {
        let mut counter = counted(4, SEC, 4, 3, SEC * 9 / 10);
        let denied = counter.decide(tick(SEC + SEC / 10), 1);
        assert_eq!((denied.admitted, denied.remaining), (false, 0), "6.6 of 4");
        // 3 + 4 * 1/4 at 0.75, and less than that after it.
        assert_eq!(denied.retry_after, Some(Duration::from_nanos(SEC * 65 / 100 + 1)));
    }

    #[test]
    fn a_cost_of_zero_charges_nothing() {
        let mut counter = counter(0, SEC);
        let nothing = counter.decide(Tick::MAX, 0);
        assert!(nothing.admitted);
        assert_eq!((nothing.remaining, nothing.reset_after), (0, Duration::ZERO));
        assert_eq!(counter.decide(Tick::ZERO, 1).retry_after, None);
        assert!(counter.counts.is_empty());
    }

    #[test]
    fn extreme_instants_and_costs_do_not_overflow() {
        for weighed in [false, true] {
            for grid in [(1, 1), (1, i64::MAX as u64), (i64::MAX as u64 - 1, i64::MAX as u64)] {
                let mut windows = SubWindowCounts::new(grid, u64::MAX, u64::MAX, 3, weighed);
                assert!(windows.decide(Tick::MAX, u64::MAX).admitted);
                for (now, n) in [(Tick::MAX, u64::MAX), (Tick::ZERO, 1), (tick(77), u64::MAX)] {
                    let denied = windows.decide(now, n);
                    assert_eq!((denied.admitted, denied.remaining), (false, 0));
                    assert!(denied.retry_after > Some(Duration::ZERO));
                }
            }
        }
    }

    /// The definition, over every charge since the beginning.
    #[derive(Default)]
    struct Definition {
        charges: Vec<(u128, u128)>,
    }

    impl Definition {
        fn admits(&mut self, model: &SubWindowCounts, nanos: u64, n: u64) -> bool {
            let Units { units, nanos: parts } = model.grid;
            let (placed, n) = (u128::from(nanos) * units, u128::from(n));
            let latest = self.charges.iter().map(|(index, _)| *index).max().unwrap_or(0);
            let current = latest.max(placed / parts);
            let passed = placed.saturating_sub(current * parts);
            let weight = |index: u128| match current - index {
                age if age < model.older => parts,
                age if age > model.older => 0,
                _ if model.weighed => parts - passed,
                _ => parts,
            };
            // The estimate times `parts`, and so the limit: `floor(e) <= k` iff `e < k + 1`.
            let estimate: u128 = self.charges.iter().map(|(index, n)| n * weight(*index)).sum();
            let admitted = n == 0 || estimate + n * parts < (u128::from(model.limit) + 1) * parts;
            if admitted && n > 0 {
                self.charges.push((current, n));
            }
            admitted
        }
    }

    #[test]
    fn decisions_equal_the_definition_and_waits_are_minimal() {
        let mut random = Lcg::new(7);
        for round in 0..600 {
            let nanos = 1 + random.below(9);
            let grid = (1 + random.below(nanos), nanos);
            let (weighed, limit) = (round % 2 == 0, random.below(7));
            let older = u64::from(weighed) + random.below(3);
            let mut model = SubWindowCounts::new(grid, 0, limit, older, weighed);
            let mut definition = Definition::default();
            let mut now = 0;
            for _ in 0..60 {
                now = random.moved(now, nanos);
                let n = random.below(limit + 2);
                let expected = definition.admits(&model, now, n);
                let verdict = model.decide(tick(now), n);
                assert_eq!(verdict.admitted, expected, "{model:?}: {n} at {now}");
                fits_first_after(&model, tick(now), n, &verdict);
                let reset = u128::from(now) + verdict.reset_after.as_nanos();
                assert_eq!(model.estimate(reset), 0, "{model:?} at {now}");
                if !weighed && reset > now.into() {
                    assert!(model.estimate(reset - 1) > 0, "{model:?} at {now}");
                }
            }
        }
    }
}
