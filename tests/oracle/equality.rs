//! Every answer is the oracle's, in every field.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::{Direct, ManualClock, Quota, Tick};

use crate::bodies::choice::{Choice, Cost, ORIGIN_2025, each_one_word_kind, with_algorithm};
use crate::bodies::grid::{horizon, ring_horizon};
use crate::choice::{
    Last, Move, cases, choices, costs, counters, logs, moves, quotas, starts, sub_windows,
};

fn equals_its_oracle<A: Algorithm>(
    algorithm: A,
    (choice, quota): (Choice, Quota),
    start: u64,
    steps: &[(Move, Cost)],
) -> TestCaseResult {
    let gate = Direct::builder(quota)
        .algorithm(algorithm)
        .clock(ManualClock::starting_at_unix_nanos(ORIGIN_2025))
        .build()
        .expect("an accepted quota");
    let fits = choice.fits(&quota);
    let mut oracle = gate.params().oracle();
    let (mut now, mut rest, mut last) = (start, fits, Last::default());
    // The latest instant and the first at which a state was written.
    let mut written: Option<(u64, u64)> = None;
    for (step, (towards, cost)) in steps.iter().enumerate() {
        now = towards.apply(now, &quota, &last);
        if let Some((written, first)) = written {
            let (min, max) = horizon(gate.params(), written);
            now = now.clamp(min, max.min(ring_horizon(gate.params(), choice, &quota, first)));
        }
        let n = cost.cells(fits, rest);
        let tick = Tick::from_nanos(now);
        let peeked = capped(Verdict::from(&gate.ask().cells(n).at(tick).peek()));
        prop_assert_eq!(peeked, capped(oracle.clone().decide(tick, n)), "peek, step {}", step);
        let answer = capped(Verdict::from(&gate.ask().cells(n).at(tick).check()));
        prop_assert_eq!(answer, capped(oracle.decide(tick, n)), "step {}: {} at {}", step, n, now);
        prop_assert_eq!(answer, peeked);
        // A denial of any other kind, and a request of 0 cells, write no state.
        let counted = answer.admitted || choice.counts_denials() && n <= fits;
        if counted && n > 0 || gate.params().starts_in_debt() && written.is_none() {
            written = match written {
                None => Some((now, now)),
                Some((latest, first)) => Some((latest.max(now), first.min(now))),
            };
        }
        rest = answer.remaining;
        last = Last {
            retry_after: answer.retry_after.unwrap_or_default(),
            reset_after: answer.reset_after,
        };
    }
    Ok(())
}

/// Some oracles use the longest span for "never", so waits are capped one below it.
fn capped(verdict: Verdict) -> Verdict {
    let longest = Duration::from_nanos(u64::MAX - 1);
    Verdict { retry_after: verdict.retry_after.map(|wait| wait.min(longest)), ..verdict }
}

fn one_equals_its_oracle(
    (choice, quota): (Choice, Quota),
    start: u64,
    steps: &[(Move, Cost)],
) -> TestCaseResult {
    with_algorithm!(choice, algorithm => {
        equals_its_oracle(algorithm, (choice, quota), start, steps)
    })
}

macro_rules! one_word_equals_its_oracle {
    ($name:ident, $kind:expr) => {
        proptest! {
            #![proptest_config(cases(20_000))]

            #[test]
            fn $name(
                chosen in quotas(choices($kind)),
                start in starts(),
                steps in prop::collection::vec((moves(), costs()), 1..60),
            ) {
                one_equals_its_oracle(chosen, start, &steps)?;
            }
        }
    };
}

mod one_word_equals_its_oracle_wherever_time_goes {
    use super::*;

    each_one_word_kind!(one_word_equals_its_oracle);
}

proptest! {
    #![proptest_config(cases(12_000))]

    #[test]
    fn sub_windows_equal_their_oracle_wherever_time_goes(
        chosen in quotas(sub_windows()),
        start in starts(),
        steps in prop::collection::vec((moves(), costs()), 1..60),
    ) {
        one_equals_its_oracle(chosen, start, &steps)?;
    }

    #[test]
    fn a_counter_equals_its_oracle_wherever_time_goes(
        chosen in quotas(counters()),
        start in starts(),
        steps in prop::collection::vec((moves(), costs()), 1..60),
    ) {
        one_equals_its_oracle(chosen, start, &steps)?;
    }

    #[test]
    fn a_log_equals_its_oracle_wherever_time_goes(
        chosen in logs(300),
        start in starts(),
        steps in prop::collection::vec((moves(), costs()), 1..80),
    ) {
        one_equals_its_oracle(chosen, start, &steps)?;
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// The largest logs fill their ring once or twice.
    #[test]
    fn a_large_log_equals_its_oracle_wherever_time_goes(
        chosen in logs(1 << 16),
        start in starts(),
        steps in prop::collection::vec((moves(), costs()), 1..30),
    ) {
        one_equals_its_oracle(chosen, start, &steps)?;
    }
}

/// A clock may be behind by all of the tolerance, to the nanosecond.
#[test]
fn a_clock_behind_by_the_whole_skew_tolerance_is_still_denied() {
    for text in ["1000000000/s burst 1", "999999937/s burst 3", "600000000/s burst 10"] {
        let gate = Direct::new(text.parse().expect("a quota")).expect("in range");
        let tolerance = gate.params().grid().skew_tolerance().expect("a wrapping grid");
        let burst =
            gate.ask().cells(0).at(Tick::ZERO).peek().expect("nothing is asked for").limit();
        let wrote = Tick::from_nanos(3_600_000_000_007);
        assert!(gate.ask().cells(burst).at(wrote).check().is_ok(), "{text}: a full bucket");
        let stale = wrote.saturating_sub(tolerance);
        assert!(gate.ask().at(stale).check().is_err(), "{text}: {tolerance:?} behind");
    }
}
