//! What a waiter restores that leaves.

use super::*;

/// A plan of the bucket's own states, ten times as fast.
#[test]
fn a_planned_waiter_before_one_bucket_is_refunded_by_its_plan_when_it_leaves() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(RATE);
    let keyed: Limiter<u64> =
        Limiter::builder(quota).slots(SlotLayout::Wide).build().expect("in range");
    let fast = keyed.plan(Quota::per_second(10 * RATE).burst(1)).expect("on the same grid");
    let queue = WaitQueue::new(gate(&clock, RATE));
    assert!(queue.limiter().check_n(RATE).is_ok());
    let before = state(queue.limiter(), 0);
    let mut waiter: Waiter<'_, '_> = queue.ask(&()).plan(&fast).wait_async(|_| pending());
    assert!(poll_once(&mut waiter).is_pending());
    drop(waiter);
    assert_eq!(state(queue.limiter(), 0), before);
}
