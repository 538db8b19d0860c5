//! The sliding log, as a list of instants.

use core::time::Duration;
use std::collections::VecDeque;

use super::{Oracle, Units, Verdict};
use crate::time::Tick;

/// A log of events: the time of each of the latest cells.
///
/// A rate `(limit, window)` is kept iff fewer than `window` units have passed since at most `limit`
/// cells, including those asked for; an event later than `now` counts, too. `n` cells are admitted
/// iff all rates are kept. They are entered at `now`, or at the time of the last event if that is
/// later. A cell within a unit is entered at its end, so that it never leaves too early. A minimum
/// gap between two cells is a rate of 1. If denials are counted, denied cells that could fit are
/// entered as if they had been admitted.
///
/// Only the latest cells are kept, as many as the largest limit. That is enough: the log is in the
/// order of time, so a window covers its latest part, and a count beyond a rate's limit does not
/// change the rate's answer. (So a denied attempt that finds the whole log at its own instant
/// changes nothing.)
#[derive(Clone, Debug)]
pub struct EventLog {
    grid: Units,
    rates: Vec<Rate>,
    count_denials: bool,
    /// The unit of each cell, oldest first.
    events: VecDeque<u128>,
}

/// At most `limit` cells in any `window` units.
#[derive(Clone, Copy, Debug)]
struct Rate {
    limit: u64,
    window: u128,
}

impl EventLog {
    pub(in crate::algo) fn new(
        grid: (u64, u64),
        rates: Vec<(u64, u64)>,
        count_denials: bool,
    ) -> Self {
        assert!(!rates.is_empty(), "without a rate nothing is limited");
        let rate = |(limit, window): (u64, u64)| Rate { limit, window: window.into() };
        Self {
            grid: Units::of(grid),
            rates: rates.into_iter().map(rate).collect(),
            count_denials,
            events: VecDeque::new(),
        }
    }

    fn min_limit(&self) -> u64 {
        self.rates.iter().map(|rate| rate.limit).min().expect("there is a rate")
    }

    /// Cells that are still in the rate's window: they leave exactly one window after they came.
    fn inside(&self, rate: Rate, unit: u128) -> u64 {
        let inside = self.events.iter().filter(|event| **event + rate.window > unit);
        u64::try_from(inside.count()).expect("a length")
    }

    fn keeps(&self, rate: Rate, unit: u128, n: u64) -> bool {
        u128::from(self.inside(rate, unit)) + u128::from(n) <= rate.limit.into()
    }

    fn enter(&mut self, now: Tick, n: u64) {
        let unit = self.grid.ended(now);
        let at = self.events.back().map_or(unit, |last| unit.max(*last));
        self.events.extend((0..n).map(|_| at));
        let most = self.rates.iter().map(|rate| rate.limit).max().expect("there is a rate");
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.events.drain(..self.events.len().saturating_sub(most));
    }

    /// The first unit from `unit` on at which the rate is kept for `n` more cells (at most its
    /// limit). If that is not `unit` itself, it is when an event leaves the window; and once kept,
    /// the rate stays kept.
    fn first_kept(&self, rate: Rate, unit: u128, n: u64) -> u128 {
        if self.keeps(rate, unit, n) {
            return unit;
        }
        let not_yet = |event: &u128| !self.keeps(rate, event + rate.window, n);
        self.events[self.events.partition_point(not_yet)] + rate.window
    }
}

impl Oracle for EventLog {
    fn decide(&mut self, now: Tick, n: u64) -> Verdict {
        let unit = self.grid.begun(now);
        let possible = n <= self.min_limit();
        let admitted = n == 0 || self.rates.iter().all(|rate| self.keeps(*rate, unit, n));
        if possible && (admitted || self.count_denials) {
            self.enter(now, n);
        }
        let room = |rate: &Rate| rate.limit.saturating_sub(self.inside(*rate, unit));
        let wait = |last: &u128| {
            let windows = self.rates.iter().map(|rate| rate.window);
            self.grid.until(now, last + windows.max().expect("there is a rate"))
        };
        let kept = |rate: &Rate| self.first_kept(*rate, unit, n);
        Verdict {
            admitted,
            delay: Duration::ZERO,
            remaining: self.rates.iter().map(room).min().expect("there is a rate"),
            reset_after: self.events.back().map_or(Duration::ZERO, wait),
            retry_after: match admitted {
                true => Some(Duration::ZERO),
                false if !possible => None,
                false => self.rates.iter().map(kept).max().map(|at| self.grid.until(now, at)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::brute::{Lcg, fits_first_after};
    use super::*;

    const SEC: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn tick(nanos: u64) -> Tick {
        Tick::from_nanos(nanos)
    }

    fn ms(ms: u64) -> Tick {
        tick(ms * MS)
    }

    /// Rates in milliseconds, on a grid of them, with denials counted, as ClassDojo does.
    fn rolling(rates: &[(u64, u64)]) -> EventLog {
        EventLog::new((1, MS), rates.to_vec(), true)
    }

    /// The answer, without a change of the log.
    fn peek(log: &EventLog, now: Tick, n: u64) -> Verdict {
        log.clone().decide(now, n)
    }

    #[test]
    fn no_interval_holds_more_than_the_limit() {
        let mut log = rolling(&[(2, 10)]);
        assert!(log.decide(ms(0), 1).admitted);
        assert!(peek(&log, ms(1), 1).admitted);
        assert!(log.decide(ms(1), 1).admitted);
        assert!(!peek(&log, ms(9), 1).admitted);
        assert!(!peek(&log, tick(10 * MS - 1), 1).admitted);
        assert!(peek(&log, ms(10), 1).admitted);
        assert!(log.decide(ms(10), 1).admitted);
    }

    #[test]
    fn a_minimum_gap_is_a_rate_of_one() {
        let mut log = rolling(&[(4, 10), (1, 2)]);
        let admitted = [0, 0, 1, 3, 3].map(|at| log.decide(ms(at), 1).admitted);
        assert_eq!(admitted, [true, false, false, true, false]);
        // The denials count: the gap begins again with each.
        let denied = log.decide(ms(4), 1);
        assert_eq!(
            denied.retry_after,
            Some(Duration::from_millis(7)),
            "of 1, 3, 3, 4 the first leaves at 11"
        );
        let mut log = rolling(&[(9, 10), (1, 2)]);
        let admitted = [0, 1, 2, 3, 4, 6].map(|at| log.decide(ms(at), 1).admitted);
        assert_eq!(admitted, [true, false, false, false, false, true]);
    }

    #[test]
    fn attempts_and_peeks_have_the_expected_answers() {
        let mut log = rolling(&[(3, 10)]);
        // ms, peeked only, admitted, ms until another would be, remaining
        let rows = [
            (0, false, true, 0, 2),
            (4, false, true, 0, 1),
            (5, false, true, 5, 0),
            (8, false, false, 6, 0),
            (11, true, false, 4, 0),
            (17, true, true, 0, 1),
        ];
        for (at, read, admitted, until_another, remaining) in rows {
            // A peek answers what the attempt would: a denied one counts itself.
            let mut state = log.clone();
            let verdict = state.decide(ms(at), 1);
            assert_eq!((verdict.admitted, verdict.remaining), (admitted, remaining), "at {at}");
            let another = (0..20).find(|wait| peek(&state, ms(at + wait), 1).admitted);
            assert_eq!(another, Some(until_another), "at {at}");
            if !admitted {
                assert_eq!(verdict.retry_after, Some(Duration::from_millis(until_another)));
            }
            if !read {
                log = state;
            }
        }
    }

    #[test]
    fn denials_count_only_if_asked_for() {
        for (count_denials, retry_after) in [(false, 2 * MS), (true, 10 * MS)] {
            let mut log = EventLog::new((1, MS), vec![(2, 10)], count_denials);
            assert!(log.decide(ms(0), 2).admitted);
            assert_eq!(log.decide(ms(8), 3).retry_after, None, "no attempt: it cannot fit");
            assert_eq!(log.events, [0, 0]);
            let denied = log.decide(ms(8), 2);
            assert_eq!(denied.retry_after, Some(Duration::from_nanos(retry_after)));
            assert_eq!(denied.reset_after, Duration::from_nanos(retry_after));
            // A second one at the same instant has nothing to add.
            assert_eq!(log.decide(ms(8), 2), denied);
            assert_eq!(log.decide(ms(8), 0).remaining, 0);
            assert_eq!(log.decide(ms(10), 2).admitted, !count_denials);
        }
    }

    #[test]
    fn part_of_a_denied_attempt_can_fill_the_log() {
        let mut log = rolling(&[(3, 10)]);
        assert!(log.decide(ms(0), 2).admitted);
        let denied = log.decide(ms(4), 2);
        assert_eq!((denied.admitted, denied.remaining), (false, 0));
        assert_eq!(log.events, [0, 4, 4]);
        assert_eq!(denied.retry_after, Some(Duration::from_millis(10)), "one place at 10 ms");
        assert_eq!(peek(&log, ms(10), 0).remaining, 1);
    }

    #[test]
    fn an_event_leaves_exactly_one_window_after_its_unit_ended() {
        let mut log = EventLog::new((2, 3), vec![(1, 4)], false);
        // Its unit ends at 3 ns; it has left at 9.
        let first = log.decide(tick(2), 1);
        assert_eq!(first.reset_after, Duration::from_nanos(7));
        let denied = log.decide(tick(7), 1);
        assert_eq!(denied.retry_after, Some(Duration::from_nanos(2)));
        assert!(!log.decide(tick(8), 1).admitted);
        let gone = log.decide(tick(9), 0);
        assert_eq!((gone.remaining, gone.reset_after), (1, Duration::ZERO));
        // On a unit's beginning, it is exactly one window.
        assert!(log.decide(tick(9), 1).admitted);
        assert!(!log.decide(tick(14), 1).admitted && log.decide(tick(15), 1).admitted);
    }

    #[test]
    fn both_of_two_rates_hold() {
        let mut log = EventLog::new((1, MS), vec![(10, 60_000), (2, 3_000)], false);
        assert_eq!(log.decide(ms(0), 3).retry_after, None, "never three at once");
        for pair in 0..5 {
            let at = pair * 3_000;
            let verdict = log.decide(ms(at), 2);
            assert_eq!((verdict.admitted, verdict.remaining), (true, 0));
            assert_eq!(verdict.reset_after, Duration::from_secs(60));
            let denied = log.decide(ms(at + 1), 1);
            let expected = if pair < 4 { 2_999 } else { 60_000 - at - 1 };
            assert_eq!(denied.retry_after, Some(Duration::from_millis(expected)));
        }
        // The ten leave two by two, from 60 s on.
        assert_eq!(log.decide(ms(59_999), 1).retry_after, Some(Duration::from_millis(1)));
        assert_eq!(log.decide(ms(60_000), 1).remaining, 1);
        let denied = log.decide(ms(60_000), 2);
        assert_eq!(denied.retry_after, Some(Duration::from_secs(3)), "both rates, at 63 s");
        assert_eq!(log.decide(ms(62_999), 1).remaining, 0);
    }

    #[test]
    fn a_clock_behind_the_last_event_enters_with_it() {
        let mut log = EventLog::new((1, SEC), vec![(3, 10)], false);
        assert!(log.decide(tick(100 * SEC), 1).admitted);
        let stale = log.decide(tick(5 * SEC), 1);
        assert_eq!((stale.admitted, stale.remaining), (true, 1), "what lies ahead counts");
        assert_eq!(stale.reset_after, Duration::from_secs(105));
        assert_eq!(log.events, [100, 100]);
        let denied = log.decide(tick(5 * SEC), 2);
        assert_eq!(denied.retry_after, Some(Duration::from_secs(105)));
        assert!(log.decide(tick(110 * SEC), 3).admitted);
    }

    /// A clock that is behind sees the windows as they were: with events that have left since, and
    /// all that lies ahead of it.
    #[test]
    fn a_clock_behind_the_last_event_still_sees_what_has_left_since() {
        let mut log = EventLog::new((1, SEC), vec![(2, 10)], false);
        assert!(log.decide(tick(0), 1).admitted);
        assert!(log.decide(tick(12 * SEC), 1).admitted);
        let denied = log.decide(tick(9 * SEC), 1);
        assert_eq!(denied.retry_after, Some(Duration::from_secs(1)));
        assert!(log.decide(tick(10 * SEC), 1).admitted);
        assert_eq!(log.events, [12, 12]);
    }

    #[test]
    fn extreme_instants_and_costs_do_not_overflow() {
        let nanos = i64::MAX as u64;
        for grid in [(1, 1), (1, nanos), (nanos - 1, nanos)] {
            for count_denials in [false, true] {
                let rates = vec![(2, u64::MAX), (3, 1)];
                let mut log = EventLog::new(grid, rates, count_denials);
                assert_eq!(log.decide(Tick::MAX, u64::MAX).retry_after, None);
                assert!(log.decide(Tick::MAX, 2).admitted);
                for now in [Tick::MAX, Tick::ZERO, tick(77)] {
                    assert_eq!(log.decide(now, u64::MAX).retry_after, None);
                    let denied = log.decide(now, 1);
                    assert_eq!(denied.retry_after, Some(Duration::from_nanos(u64::MAX)));
                    assert!(log.decide(now, 0).admitted);
                }
            }
        }
        let mut none = EventLog::new((1, 1), vec![(0, 5)], true);
        assert_eq!(none.decide(Tick::ZERO, 1).retry_after, None);
        assert_eq!(none.decide(Tick::ZERO, 0).reset_after, Duration::ZERO);
    }

    /// The definition, over every event since the beginning.
    fn admits(events: &mut Vec<u128>, model: &EventLog, nanos: u64, n: u64) -> bool {
        let unit = u128::from(nanos) * model.grid.units / model.grid.nanos;
        let kept = |rate: &Rate| {
            let left = |event: u128| event <= unit && unit - event >= rate.window;
            let inside = events.iter().filter(|event| !left(**event)).count() as u64;
            inside + n <= rate.limit
        };
        let admitted = n == 0 || model.rates.iter().all(kept);
        let possible = model.rates.iter().all(|rate| n <= rate.limit);
        if possible && (admitted || model.count_denials) {
            let ended = (u128::from(nanos) * model.grid.units).div_ceil(model.grid.nanos);
            let at = ended.max(events.last().copied().unwrap_or(0));
            events.extend((0..n).map(|_| at));
        }
        admitted
    }

    #[test]
    fn decisions_equal_the_definition_and_waits_are_minimal() {
        let mut random = Lcg::new(8);
        for round in 0..600 {
            let nanos = 1 + random.below(5);
            let grid = (1 + random.below(nanos), nanos);
            let mut rate = || (random.below(6), 1 + random.below(9));
            let rates: Vec<_> = (0..=round % 3).map(|_| rate()).collect();
            let most = rates.iter().map(|(limit, _)| *limit).max().expect("there is a rate");
            let mut model = EventLog::new(grid, rates, round % 2 == 0);
            let (mut events, mut now) = (Vec::new(), 0);
            for _ in 0..60 {
                now = random.moved(now, 2 * nanos);
                let n = random.below(most + 2);
                let expected = admits(&mut events, &model, now, n);
                let verdict = model.decide(tick(now), n);
                assert_eq!(verdict.admitted, expected, "{model:?}: {n} at {now}");
                assert!(model.events.len() as u64 <= most);
                fits_first_after(&model, tick(now), n, &verdict);
                let reset = tick(now).saturating_add(verdict.reset_after);
                let unit = model.grid.begun(reset);
                assert!(model.rates.iter().all(|rate| model.inside(*rate, unit) == 0));
                if reset > tick(now) {
                    let unit = model.grid.begun(reset.saturating_sub(Duration::from_nanos(1)));
                    assert!(model.rates.iter().any(|rate| model.inside(*rate, unit) > 0));
                }
            }
        }
    }
}
