//! Every answer is the oracle's, in every field.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algo::oracle::{Oracle, Verdict};
use tollgate::algo::{Algorithm, Machine};
use tollgate::{Direct, ManualClock, Quota, Tick};

use crate::bodies::choice::{Choice, Cost, ORIGIN_2025};
use crate::bodies::grid::{horizon, reach};
use crate::choice::{
    Last, Move, buckets, cases, costs, moves, queues, quotas, starts, warm_ups, windows,
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
    let (fits, reach) = (choice.fits(&quota), reach(gate.params(), choice, &quota));
    let mut oracle = gate.params().oracle();
    let (mut now, mut rest, mut last) = (start, fits, Last::default());
    let mut written: Option<u64> = None;
    for (step, (towards, cost)) in steps.iter().enumerate() {
        now = towards.apply(now, &quota, &last);
        if let Some(written) = written {
            let (least, most) = horizon(gate.params(), reach, written);
            now = now.clamp(least, most);
        }
        let n = cost.cells(fits, rest);
        let tick = Tick::from_nanos(now);
        let peeked = Verdict::from(&gate.peek_at(n, tick));
        prop_assert_eq!(peeked, oracle.clone().decide(tick, n), "peek, step {}", step);
        let answer = Verdict::from(&gate.check_at(n, tick));
        prop_assert_eq!(answer, oracle.decide(tick, n), "step {}: {} at {}", step, n, now);
        prop_assert_eq!(answer, peeked);
        // Nothing else writes a state: no refusal, and no charge of nothing.
        if answer.admitted && n > 0 || gate.params().starts_in_debt() && written.is_none() {
            written = Some(written.unwrap_or(0).max(now));
        }
        rest = answer.remaining;
        last = Last {
            retry_after: answer.retry_after.unwrap_or_default(),
            reset_after: answer.reset_after,
        };
    }
    Ok(())
}

fn one_equals_its_oracle(
    (choice, quota): (Choice, Quota),
    start: u64,
    steps: &[(Move, Cost)],
) -> TestCaseResult {
    match choice {
        Choice::Bucket(gcra) => equals_its_oracle(gcra, (choice, quota), start, steps),
        Choice::Queue(queue) => equals_its_oracle(queue, (choice, quota), start, steps),
        Choice::WarmUp(pace) => equals_its_oracle(pace.algorithm(), (choice, quota), start, steps),
        Choice::Window(window) => equals_its_oracle(window, (choice, quota), start, steps),
    }
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn a_bucket_equals_its_oracle_wherever_time_goes(
        chosen in quotas(buckets()),
        start in starts(),
        steps in prop::collection::vec((moves(), costs()), 1..60),
    ) {
        one_equals_its_oracle(chosen, start, &steps)?;
    }

    #[test]
    fn a_queue_equals_its_oracle_wherever_time_goes(
        chosen in quotas(queues()),
        start in starts(),
        steps in prop::collection::vec((moves(), costs()), 1..60),
    ) {
        one_equals_its_oracle(chosen, start, &steps)?;
    }

    #[test]
    fn a_warm_up_equals_its_oracle_wherever_time_goes(
        chosen in quotas(warm_ups()),
        start in starts(),
        steps in prop::collection::vec((moves(), costs()), 1..60),
    ) {
        one_equals_its_oracle(chosen, start, &steps)?;
    }

    #[test]
    fn a_window_equals_its_oracle_wherever_time_goes(
        chosen in quotas(windows()),
        start in starts(),
        steps in prop::collection::vec((moves(), costs()), 1..60),
    ) {
        one_equals_its_oracle(chosen, start, &steps)?;
    }
}

/// A clock may be behind by all of the tolerance, to the nanosecond.
#[test]
fn the_skew_tolerance_holds_at_its_very_edge() {
    for text in ["1000000000/s burst 1", "999999937/s burst 3", "600000000/s burst 10"] {
        let gate = Direct::new(text.parse().expect("a quota")).expect("in range");
        let tolerance = gate.params().grid().skew_tolerance().expect("a wrapping grid");
        let burst = gate.peek_at(0, Tick::ZERO).expect("nothing is asked for").limit();
        let wrote = Tick::from_nanos(3_600_000_000_007);
        assert!(gate.check_at(burst, wrote).is_ok(), "{text}: a full bucket");
        let stale = wrote.saturating_sub(tolerance);
        assert!(gate.check_at(1, stale).is_err(), "{text}: {tolerance:?} behind");
    }
}
