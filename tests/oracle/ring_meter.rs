//! Logs, sub-windows and counters against plain counting of all admissions, in exact arithmetic,
//! without a grid and with no state but the list.
//!
//! - A log never has more than a rate's limit in any span of its window (less a unit of the grid),
//!   and denies nothing that exactly fits.
//! - No row of sub-windows grants more than the limit, and what fits is granted.
//! - A counter decides by its estimate as an exact fraction.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::Verdict;
use tollgate::{Direct, ManualClock, Quota, SlidingCounter, SubWindows, Tick};

use crate::bodies::choice::{Choice, Cost, LogRates};
use crate::bodies::grid::{horizon, ring_horizon};
use crate::choice::{Last, Move, any_quota, cases, costs, forward, logs, starts};

const DAY_NANOS: u128 = 24 * 3_600 * 1_000_000_000;

/// A limiter, and all its admissions: instants and cells. Time never goes back.
struct Metered<A: Algorithm> {
    gate: Direct<A, ManualClock>,
    chosen: (Choice, Quota),
    now: u64,
    rest: u64,
    last: Last,
    entered: Vec<(u64, u64)>,
}

impl<A: Algorithm> Metered<A> {
    fn new(algorithm: A, (choice, quota): (Choice, Quota), start: u64) -> Self {
        let clock = ManualClock::new();
        let gate = Direct::builder(quota).algorithm(algorithm).clock(clock).build();
        let rest = choice.fits(&quota);
        Self {
            gate: gate.expect("accepted"),
            chosen: (choice, quota),
            now: start,
            rest,
            last: Last::default(),
            entered: Vec::new(),
        }
    }

    /// Advances, but not beyond what a wrapping grid can tell apart, and asks.
    fn ask(&mut self, towards: Move, cost: Cost) -> (u64, Verdict) {
        let (choice, quota) = self.chosen;
        self.now = towards.apply(self.now, &quota, &self.last);
        if let (Some((first, _)), Some((latest, _))) = (self.entered.first(), self.entered.last()) {
            let word = horizon(self.gate.params(), *latest).1;
            let ring = ring_horizon(self.gate.params(), choice, &quota, *first);
            self.now = self.now.min(word).min(ring);
        }
        let n = cost.cells(choice.fits(&quota), self.rest);
        let answer =
            Verdict::from(&self.gate.ask().cells(n).at(Tick::from_nanos(self.now)).check());
        self.rest = answer.remaining;
        self.last = Last {
            retry_after: answer.retry_after.unwrap_or_default(),
            reset_after: answer.reset_after,
        };
        let fits = choice.fits(&quota);
        if n > 0 && (answer.admitted || choice.counts_denials() && n <= fits) {
            self.entered.push((self.now, n));
        }
        (n, answer)
    }
}

/// The cells admitted from an instant on.
fn since(entered: &[(u64, u64)], begin: u128) -> u128 {
    let inside = entered.iter().rev().take_while(|(at, _)| u128::from(*at) >= begin);
    inside.map(|(_, n)| u128::from(*n)).sum()
}

/// The first nanosecond that is less than `window` before `now`, and the first that is less than `window` and a
/// unit of the grid before it. An event that is older than the first instant may still be counted if it is not
/// older than the second one, because its time is rounded to a unit.
fn window_begins(params: &impl StateMachine, window: u128, now: u64) -> (u128, u128) {
    let (units, per_nanos) = params.grid().ratio();
    let unit = u128::from(per_nanos.div_ceil(units));
    let after = u128::from(now) + 1;
    (after.saturating_sub(window), after.saturating_sub(window + unit))
}

fn log_keeps_to_the_meter(
    (rates, quota): (LogRates, Quota),
    start: u64,
    steps: &[(Move, Cost)],
) -> TestCaseResult {
    let chosen = (Choice::Log(rates), quota);
    let fits = chosen.0.fits(&quota);
    let mut metered = Metered::new(rates.algorithm(), chosen, start);
    for (towards, cost) in steps {
        let before = metered.entered.len();
        let (n, answer) = metered.ask(*towards, *cost);
        let now = metered.now;
        let entered = &metered.entered[..before];
        let mut kept = true;
        for rate in rates.all(&quota) {
            let (begin, a_unit_more) =
                window_begins(metered.gate.params(), rate.period().as_nanos(), now);
            let limit = u128::from(rate.limit());
            let inside = since(entered, begin) + u128::from(n);
            if answer.admitted && n > 0 {
                prop_assert!(inside <= limit, "{} of {} at {}", inside, rate, now);
            }
            kept &= since(entered, a_unit_more) + u128::from(n) <= limit;
        }
        if !answer.admitted {
            prop_assert!(!kept, "{} at {} was denied, which exactly fits", n, now);
            prop_assert_eq!(answer.retry_after.is_none(), n > fits);
        }
    }
    Ok(())
}

/// The number of the sub-window at an instant, for `in_period` sub-windows in a period, and how
/// much of it has passed: in shares, of which it has as many as the period has nanoseconds. Weeks
/// begin on a Monday.
fn sub_window(quota: &Quota, in_period: u128, now: u64) -> (u128, u128) {
    let period = quota.period().as_nanos();
    let into_week = if period.is_multiple_of(7 * DAY_NANOS) { 3 * DAY_NANOS } else { 0 };
    let placed = (u128::from(now) + into_week) * in_period;
    (placed / period, placed % period)
}

/// The estimate in shares of a cell: the whole counts, and the oldest in proportion to what is left
/// of it.
fn estimate(
    (quota, in_period, older): (&Quota, u128, u128),
    weighed: bool,
    entered: &[(u64, u64)],
    now: u64,
) -> u128 {
    let period = quota.period().as_nanos();
    let (current, passed) = sub_window(quota, in_period, now);
    let weight = |at: u64| match current - sub_window(quota, in_period, at).0 {
        age if age < older => period,
        age if age > older => 0,
        _ if weighed => period - passed,
        _ => period,
    };
    entered.iter().map(|(at, n)| u128::from(*n) * weight(*at)).sum()
}

/// A request is admitted iff `floor(estimate) + n <= limit`, and the remaining cells are the limit
/// less that floor.
fn sub_windows_keep_to_the_meter<A: Algorithm>(
    algorithm: A,
    (chosen, in_period, older): ((Choice, Quota), u128, u128),
    start: u64,
    steps: &[(Move, Cost)],
) -> TestCaseResult {
    let quota = chosen.1;
    let weighed = matches!(chosen.0, Choice::Counter(_));
    let (limit, period) = (u128::from(quota.limit()), quota.period().as_nanos());
    let mut metered = Metered::new(algorithm, chosen, start);
    for (towards, cost) in steps {
        let before = metered.entered.len();
        let (n, answer) = metered.ask(*towards, *cost);
        // Within two periods of the last tick, the last windows never end.
        if u128::from(metered.now) + 2 * period > u128::from(u64::MAX) {
            break;
        }
        let (now, windows) = (metered.now, (&quota, in_period, older));
        let counted = estimate(windows, weighed, &metered.entered[..before], now) / period;
        let fits = n == 0 || counted + u128::from(n) <= limit;
        prop_assert_eq!(answer.admitted, fits, "{} at {}, {} counted", n, now, counted);
        let after = counted + u128::from(if answer.admitted { n } else { 0 });
        prop_assert_eq!(u128::from(answer.remaining), limit.saturating_sub(after));
        if let (false, Some(wait)) = (answer.admitted, answer.retry_after) {
            let wait = u64::try_from(wait.as_nanos()).expect("two periods");
            let then = now + wait;
            let counted = |at| estimate(windows, weighed, &metered.entered, at) / period;
            prop_assert!(counted(then) + u128::from(n) <= limit, "{} is not enough", wait);
            prop_assert!(counted(then - 1) + u128::from(n) > limit, "{} is too much", wait);
        }
    }
    // For all rows of successive sub-windows together, at no particular instant.
    for (at, _) in metered.entered.iter().filter(|_| !weighed) {
        let last = sub_window(&quota, in_period, *at).0;
        let age = |at: u64| last.wrapping_sub(sub_window(&quota, in_period, at).0);
        let row = metered.entered.iter().filter(|(at, _)| age(*at) <= older);
        let granted: u128 = row.map(|(_, n)| u128::from(*n)).sum();
        prop_assert!(granted <= limit, "{} in a row of sub-windows", granted);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(6_000))]

    #[test]
    fn a_log_is_never_over_in_any_window_and_never_denies_what_exactly_fits(
        (choice, quota) in logs(300),
        start in starts(),
        steps in prop::collection::vec((forward(), costs()), 1..100),
    ) {
        let Choice::Log(rates) = choice else { unreachable!("only logs are drawn") };
        log_keeps_to_the_meter((rates, quota), start, &steps)?;
    }

    #[test]
    fn a_row_of_sub_windows_is_never_over_and_never_denies_what_exactly_fits(
        (count, quota) in (prop_oneof![2_u32..8, 2_u32..=256], any_quota())
            .prop_filter("accepted", |(count, quota)| {
                SubWindows::new().count(*count).params(quota, 0).is_ok()
            }),
        start in starts(),
        steps in prop::collection::vec((forward(), costs()), 1..100),
    ) {
        let algorithm = SubWindows::new().count(count);
        let chosen = (Choice::SubWindows(algorithm), quota);
        let row = (chosen, u128::from(count), u128::from(count) - 1);
        sub_windows_keep_to_the_meter(algorithm, row, start, &steps)?;
    }

    #[test]
    fn a_counter_decides_by_its_estimate(
        (older, quota) in (prop_oneof![Just(1), 1_u32..8, 1_u32..=256], any_quota())
            .prop_filter("accepted", |(older, quota)| {
                SlidingCounter::new().older(*older).params(quota, 0).is_ok()
            }),
        start in starts(),
        steps in prop::collection::vec((forward(), costs()), 1..100),
    ) {
        let algorithm = SlidingCounter::new().older(older);
        let chosen = (Choice::Counter(algorithm), quota);
        let windows = (chosen, u128::from(older), u128::from(older));
        sub_windows_keep_to_the_meter(algorithm, windows, start, &steps)?;
    }
}
