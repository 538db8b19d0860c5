//! Windows against plain counting, in exact arithmetic.

use proptest::prelude::*;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::Verdict;
use tollgate::{Direct, FixedWindow, ManualClock, Tick};

use crate::bodies::choice::{Choice, ORIGIN_2025};
use crate::bodies::grid::horizon;
use crate::choice::{Last, cases, costs, forward, quotas, starts};

const DAY_NANOS: i128 = 24 * 3_600 * 1_000_000_000;

/// The number of the wall clock's window, counted from the epoch, or for weeks from the Monday
/// before it.
fn window_of_the_wall(period: i128, origin: u64, offset_secs: i32, now: u64) -> i128 {
    let local = i128::from(now) + i128::from(origin) + i128::from(offset_secs) * 1_000_000_000;
    let into_week = if period % (7 * DAY_NANOS) == 0 { 3 * DAY_NANOS } else { 0 };
    (local + into_week).div_euclid(period)
}

fn last_of(answer: &Verdict) -> Last {
    Last { retry_after: answer.retry_after.unwrap_or_default(), reset_after: answer.reset_after }
}

proptest! {
    #![proptest_config(cases(12_000))]

    /// Every window of the wall clock grants exactly what fits its limit.
    #[test]
    fn an_aligned_window_counts_by_the_wall_clock(
        offset_secs in prop_oneof![Just(0), -86_399..86_400],
        origin in prop_oneof![Just(0), Just(ORIGIN_2025), any::<u64>()],
        (_, quota) in quotas(Just(Choice::Window(FixedWindow::aligned()))),
        start in starts(),
        steps in prop::collection::vec((forward(), costs()), 1..80),
    ) {
        let gate = Direct::builder(quota)
            .algorithm(FixedWindow::aligned().utc_offset_secs(offset_secs))
            .clock(ManualClock::starting_at_unix_nanos(origin))
            .build()
            .expect("accepted");
        let period = i128::try_from(quota.period().as_nanos()).expect("a short period");
        let (mut now, mut rest, mut last) = (start, quota.limit(), Last::default());
        let (mut window, mut counted, mut written) = (None, 0, start);
        for (towards, cost) in steps {
            now = towards.apply(now, &quota, &last).min(horizon(gate.params(), written).1);
            // Within a period of the last tick, the last window never ends.
            if i128::from(now) + period > i128::from(u64::MAX) {
                break;
            }
            let present = window_of_the_wall(period, origin, offset_secs, now);
            if window != Some(present) {
                (window, counted) = (Some(present), 0);
            }
            let n = cost.cells(quota.limit(), rest);
            let answer = Verdict::from(&gate.ask().cells(n).at(Tick::from_nanos(now)).check());
            let fits = u128::from(counted) + u128::from(n) <= u128::from(quota.limit());
            prop_assert_eq!(answer.admitted, fits, "{} at {}", n, now);
            if answer.admitted {
                counted += n;
                written = if n > 0 { now } else { written };
            } else if n <= quota.limit() {
                let wait = answer.retry_after.expect("the next window comes").as_nanos();
                let wait = u64::try_from(wait).expect("below a period");
                let next = window_of_the_wall(period, origin, offset_secs, now + wait);
                let before = window_of_the_wall(period, origin, offset_secs, now + wait - 1);
                prop_assert_eq!((before, next), (present, present + 1));
            }
            prop_assert_eq!(answer.remaining, quota.limit() - counted);
            (rest, last) = (answer.remaining, last_of(&answer));
        }
    }

    /// Windows that the first event opens last a period, less at most one unit of the grid, and
    /// each grants at most the limit.
    #[test]
    fn an_anchored_window_lasts_a_period_but_for_a_unit(
        (_, quota) in quotas(Just(Choice::Window(FixedWindow::anchored()))),
        start in starts(),
        steps in prop::collection::vec((forward(), costs()), 1..80),
    ) {
        let gate = Direct::builder(quota)
            .algorithm(FixedWindow::anchored())
            .clock(ManualClock::new())
            .build()
            .expect("accepted");
        let period = quota.period().as_nanos();
        let (units, per_nanos) = gate.params().grid().ratio();
        let (units, per_nanos) = (u128::from(units), u128::from(per_nanos));
        let (mut now, mut rest, mut last) = (start, quota.limit(), Last::default());
        let mut open: Option<(u64, u64)> = None;
        for (towards, cost) in steps {
            let written = open.map_or(start, |(opened, _)| opened);
            now = towards.apply(now, &quota, &last).min(horizon(gate.params(), written).1);
            let n = cost.cells(quota.limit(), rest);
            let answer = Verdict::from(&gate.ask().cells(n).at(Tick::from_nanos(now)).check());
            let since = |opened: u64| u128::from(now - opened);
            if answer.admitted && n > 0 {
                let counted = quota.limit() - answer.remaining;
                let opens = counted == n;
                match open {
                    Some((opened, before)) if !opens => {
                        prop_assert!(since(opened) < period, "counted into a window that is over");
                        prop_assert_eq!(counted, before + n);
                        open = Some((opened, counted));
                    }
                    // One unit is `per_nanos / units` nanoseconds.
                    Some((opened, _)) => prop_assert!(
                        (since(opened) + 1) * units > period * units - per_nanos,
                        "opened {} ns after {}", since(opened), opened,
                    ),
                    None => prop_assert!(opens),
                }
                if opens {
                    open = Some((now, n));
                }
                prop_assert!(counted <= quota.limit());
            } else if !answer.admitted && n <= quota.limit() {
                let (opened, counted) = open.expect("a fresh window denies nothing that fits");
                prop_assert!(since(opened) < period, "denied by a window that is over");
                prop_assert!(counted > quota.limit() - n);
            }
            (rest, last) = (answer.remaining, last_of(&answer));
        }
    }
}
