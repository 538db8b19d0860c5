//! Requests that bound their delay: with one bucket, with keys, and with keys that share a bucket.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::limiter::SlotLayout;
use tollgate::{
    AnyAlgorithm, Direct, LeakyQueue, Limiter, ManualClock, OnFull, Quota, Tick, WarmUp,
};

const MILLI: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum Verb {
    Check,
    Allow,
    Peek,
}

/// A request, some milliseconds after the last one.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap_ms: u64,
    cells: u64,
    max_delay: Option<Duration>,
    verb: Verb,
    /// Whether the request names its instant, or has the limiter read its clock.
    names_instant: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap_ms = prop_oneof![4 => Just(0), 4 => 0..150_u64, 1 => 0..3_000_u64];
    let delay = prop_oneof![1 => Just(0), 4 => 0..900_u64, 1 => Just(u64::MAX)];
    let max_delay = prop::option::weighted(0.7, delay.prop_map(Duration::from_millis));
    let verb = prop_oneof![3 => Just(Verb::Check), 1 => Just(Verb::Allow), 1 => Just(Verb::Peek)];
    let step = (gap_ms, 0..5_u64, max_delay, verb, any::<bool>());
    let step = step.prop_map(|(gap_ms, cells, max_delay, verb, names_instant)| Step {
        gap_ms,
        cells,
        max_delay,
        verb,
        names_instant,
    });
    prop::collection::vec(step, 1..80)
}

/// One bucket and a limiter with one key answer the same. A peek answers as the check after it, and
/// so does `allow`. Returns how many requests were admitted late, and how many came too late.
fn compare<A: Algorithm + Clone>(
    algorithm: A,
    quota: Quota,
    steps: &[Step],
) -> Result<[usize; 2], TestCaseError> {
    let clock = ManualClock::new();
    let keyed: Limiter<str, A, _> = Limiter::builder(quota)
        .algorithm(algorithm.clone())
        .clock(&clock)
        .slots(SlotLayout::Wide)
        .build()
        .expect("in range");
    let one = Direct::builder(quota).algorithm(algorithm).clock(&clock).build().expect("in range");
    let (mut now, mut late, mut too_late) = (0, 0, 0);
    for &Step { gap_ms, cells, max_delay, verb, names_instant } in steps {
        now += gap_ms * MILLI;
        let at = Tick::from_nanos(now);
        clock.set(at);
        let (mut by_key, mut alone) = (keyed.ask("key").cells(cells), one.ask().cells(cells));
        if names_instant {
            (by_key, alone) = (by_key.at(at), alone.at(at));
        }
        if let Some(max_delay) = max_delay {
            (by_key, alone) = (by_key.max_delay(max_delay), alone.max_delay(max_delay));
        }
        let peeked = alone.peek();
        prop_assert_eq!(by_key.peek(), peeked);
        match verb {
            Verb::Peek => continue,
            Verb::Check => {
                let decision = alone.check();
                prop_assert_eq!(by_key.check(), decision);
                prop_assert_eq!(decision.is_ok(), peeked.is_ok());
                prop_assert_eq!(decision.map(|it| it.delay()), peeked.map(|it| it.delay()));
            }
            Verb::Allow => {
                prop_assert_eq!(alone.allow(), peeked.is_ok());
                prop_assert_eq!(by_key.allow(), peeked.is_ok());
            }
        }
        match peeked {
            Ok(permit) => {
                prop_assert!(permit.delay() <= max_delay.unwrap_or(Duration::MAX));
                late += usize::from(!permit.delay().is_zero());
            }
            Err(denied) => too_late += usize::from(denied.remaining() >= cells),
        }
    }
    Ok([late, too_late])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn one_bucket_bounds_the_delay_of_a_queue_as_a_limiter_with_one_key_does(
        immediate in 1_u64..4, burst in 4_u64..9, steps in steps(),
    ) {
        let quota = Quota::per_second(10).burst(burst);
        compare(LeakyQueue::new().immediate(immediate), quota, &steps)?;
        compare(AnyAlgorithm::from(LeakyQueue::new().immediate(immediate)), quota, &steps)?;
    }

    #[test]
    fn one_bucket_bounds_the_delay_of_a_warm_up_as_a_limiter_with_one_key_does(
        period_ms in 100_u64..5_000, max_wait_ms in 0_u64..2_000, steps in steps(),
    ) {
        let warm_up = WarmUp::new(Duration::from_millis(period_ms));
        let warm_up = warm_up.max_wait(Duration::from_millis(max_wait_ms));
        compare(warm_up, Quota::per_second(10), &steps)?;
        compare(AnyAlgorithm::from(warm_up), Quota::per_second(10), &steps)?;
    }
}

/// The requests of the properties above include delays and denials for a turn that comes too late.
#[test]
fn a_bound_is_met_by_late_turns_and_by_denials() {
    let step = |max_delay_ms| Step {
        gap_ms: 0,
        cells: 1,
        max_delay: Some(Duration::from_millis(max_delay_ms)),
        verb: Verb::Check,
        names_instant: true,
    };
    let steps = [0, 0, 100, 100, 200].map(step);
    let found = compare(LeakyQueue::new(), Quota::per_second(10).burst(8), &steps);
    assert_eq!(found.expect("the same answers"), [2, 2]);
}

#[test]
fn keys_that_share_the_overflow_limiter_wait_no_longer_than_they_accept() {
    let quota = Quota::per_second(10).burst(5);
    let gate: Limiter<u64, _> = Limiter::builder(quota)
        .algorithm(LeakyQueue::new())
        .capacity(1)
        .on_full(OnFull::SharedOverflow(quota))
        .build()
        .expect("in range");
    let keys: Vec<u64> = (0..22).collect();
    let ask = |key: usize| gate.ask(&keys[key]).at(Tick::ZERO);
    for key in 0..16 {
        assert!(ask(key).check().is_ok(), "{key} has a slot");
    }
    let bound = Duration::from_millis(150);
    let delays = [16, 17, 18, 19].map(|key| {
        let decision = ask(key).max_delay(bound).check();
        decision.map(|permit| permit.delay()).map_err(|denied| denied.retry_after())
    });
    let late = Err(Some(Duration::from_millis(50)));
    assert_eq!(delays, [Ok(Duration::ZERO), Ok(Duration::from_millis(100)), late, late]);
    assert!(!ask(20).max_delay(bound).allow());
    assert_eq!(gate.stats().overflowed, 5);
    // A request without a bound has its turn behind them.
    let behind = ask(21).check().expect("there is room in the queue");
    assert_eq!(behind.delay(), Duration::from_millis(200));
}
