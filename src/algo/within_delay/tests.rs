//! Queues and warm-ups with a bound on the wait.

use super::*;
use crate::algo::any::tests::said;
use crate::algo::{Algorithm, NoRing};
use crate::{AnyAlgorithm, Gcra, LeakyQueue, Quota, SlidingLog, WarmUp};

/// The answers to requests at one instant, one after the other.
fn answers<M: StateMachine>(
    machine: M,
    max_delay_ms: u64,
    costs: &[u64],
) -> Vec<Result<u128, Denied>> {
    let bound = WithinDelay::new(&machine, Duration::from_millis(max_delay_ms));
    let now = Tick::from_nanos(1_000_000_000);
    let mut word = bound.fresh(now);
    let mut answer = |n: &u64| {
        let view = bound.read(word, NoRing, now, *n);
        if let Step::Admit { next } = bound.step(view, now, *n) {
            word = next;
        }
        bound.answer(view, now, *n).map(|permit| permit.delay().as_millis())
    };
    costs.iter().map(&mut answer).collect()
}

fn queue(immediate: u64) -> impl StateMachine {
    let quota = Quota::per_second(10).burst(6);
    LeakyQueue::new().immediate(immediate).params(&quota, 0).expect("in range")
}

fn delays(answers: &[Result<u128, Denied>]) -> Vec<Option<u128>> {
    answers.iter().map(|answer| answer.ok()).collect()
}

#[test]
fn requests_within_the_bound_are_admitted_and_others_denied() {
    const ONES: &[u64] = &[1; 7];
    type Case = (u64, u64, &'static [u64], &'static [Option<u128>]);
    let cases: [Case; 6] = [
        (1, 0, ONES, &[Some(0), None, None, None, None, None, None]),
        (4, 0, ONES, &[Some(0), Some(0), Some(0), Some(0), None, None, None]),
        (1, 200, ONES, &[Some(0), Some(100), Some(200), None, None, None, None]),
        (1, 199, ONES, &[Some(0), Some(100), None, None, None, None, None]),
        (1, 10_000, ONES, &[Some(0), Some(100), Some(200), Some(300), Some(400), Some(500), None]),
        (1, 0, &[3, 0, 1, 7], &[Some(0), Some(0), None, None]),
    ];
    for (immediate, max_delay_ms, costs, expected) in cases {
        let found = delays(&answers(queue(immediate), max_delay_ms, costs));
        assert_eq!(found, expected, "{immediate} at once, {max_delay_ms} ms, {costs:?}");
    }
}

#[test]
fn a_denial_for_its_delay_has_remaining_cells_and_a_retry_time() {
    let found = answers(queue(1), 150, &[1, 1, 1, 7]);
    let denied = found[2].expect_err("its turn is in 200 ms");
    assert_eq!((denied.limit(), denied.remaining()), (6, 4));
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(50)));
    assert_eq!(denied.reset_after(), Duration::from_millis(200));
    assert_eq!(found[3].expect_err("more than fit").retry_after(), None);
}

#[test]
fn the_delay_of_a_warm_up_is_bounded_too() {
    let warm_up = WarmUp::new(Duration::from_secs(10)).max_wait(Duration::from_secs(1));
    let machine = || warm_up.params(&Quota::per_second(100), 0).expect("in range");
    assert_eq!(delays(&answers(machine(), 1_000, &[1, 1])), [Some(0), Some(30)]);
    assert_eq!(delays(&answers(machine(), 29, &[1, 1])), [Some(0), None]);
}

/// Of each algorithm, as one of any: those that never delay have no other machine.
#[test]
fn a_bound_on_the_wait_changes_nothing_that_a_machine_reports_of_itself() {
    let named = AnyAlgorithm::NAMES.iter().map(|name| name.parse().expect("one of the names"));
    let more: [AnyAlgorithm; 3] = [
        Gcra::start_empty().into(),
        SlidingLog::new().count_denials().into(),
        WarmUp::new(Duration::from_secs(9)).max_wait(Duration::from_secs(60)).into(),
    ];
    for algorithm in named.chain(more) {
        for quota in [Quota::per_minute(2), Quota::per_second(1_000_000).burst(9)] {
            let Ok(machine) = algorithm.params(&quota, 0) else { continue };
            let bound = WithinDelay::new(&machine, Duration::MAX);
            assert_eq!(said(&bound), said(&machine), "{algorithm:?} of {quota}");
        }
    }
}
