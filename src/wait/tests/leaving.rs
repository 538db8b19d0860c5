//! Waiters behind one that leaves, and waiters whose key was reset or has lost its slot.

use super::*;

/// The refund of the waiter before it is not taken for one to others.
#[test]
fn a_waiter_that_moved_up_and_leaves_is_refunded_from_its_new_turn() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 4));
    assert!(queue.limiter().check_n(4).is_ok());
    let [first, mut second] = waiters(&queue, [1, 4]);
    // The first is granted, and the second is booked for the time of five cells.
    clock.set(at(CELL));
    assert!(poll_once(&mut second).is_pending());
    drop(first);
    clock.set(at(4 * CELL));
    drop(second);
    assert_eq!(state(queue.limiter(), 4 * CELL).0, 4);
}

/// Otherwise it would go ahead by the turn that the other requests have.
#[test]
fn a_waiter_that_was_booked_before_a_reset_keeps_its_turn_when_the_one_before_it_leaves() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 10));
    assert!(queue.limiter().check_n(10).is_ok());
    let [first, mut second] = waiters(&queue, [10, 10]);
    clock.set(at(10 * CELL));
    assert!(poll_once(&mut second).is_pending(), "the first is granted, the second is booked");
    clock.set(at(11 * CELL));
    queue.limiter().reset();
    assert!(queue.limiter().check_n(10).is_ok());
    drop(first);
    assert!(poll_once(&mut second).is_pending());
    clock.set(at(20 * CELL));
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
    let owed = state(queue.limiter(), 20 * CELL).1;
    assert_eq!(owed, Duration::from_nanos(11 * CELL), "the second is charged to the present state");
}

/// A receipt of a compact slot does not name the life that was charged.
#[test]
fn a_waiter_in_a_compact_slot_that_was_booked_before_a_reset_keeps_its_turn() {
    let clock = ManualClock::new();
    let limiter = Limiter::<u64>::builder(Quota::per_second(1).burst(10)).clock(&clock);
    let limiter = limiter.slots(SlotLayout::Compact).build().expect("in range");
    let queue = WaitQueue::new(&limiter);
    let wait = || queue.ask(&1).cells(10).wait_async(|_| pending::<()>());
    assert!(limiter.check_n(&1, 10).is_ok());
    let [mut first, mut second] = [wait(), wait()];
    assert!(poll_once(&mut first).is_pending());
    assert!(poll_once(&mut second).is_pending());
    clock.set(at(10 * SECOND));
    assert!(poll_once(&mut second).is_pending(), "the first is granted");
    clock.set(at(11 * SECOND));
    limiter.reset(&1);
    assert!(limiter.check_n(&1, 10).is_ok());
    drop(first);
    assert!(poll_once(&mut second).is_pending());
    clock.set(at(20 * SECOND));
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
}

/// The refund of the waiter before them is not taken for one to others.
#[test]
fn a_granted_waiter_behind_one_that_leaves_is_refunded_from_its_turn() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 4));
    assert!(queue.limiter().check_n(4).is_ok());
    let [first, second, mut third] = waiters(&queue, [4, 1, 1]);
    // The first is granted at 4 and the second at 5, by polls of the third.
    for cells in [4, 5] {
        clock.set(at(cells * CELL));
        assert!(poll_once(&mut third).is_pending());
    }
    drop(third);
    let owed = || state(queue.limiter(), 5 * CELL).1;
    assert_eq!(owed(), Duration::from_nanos(4 * CELL));
    drop(first);
    assert_eq!(owed(), Duration::from_nanos(CELL), "three of four cells are refunded");
    drop(second);
    assert_eq!(owed(), Duration::ZERO);
}

/// The key is idle while no waiter polls, and other keys take its slot.
#[test]
fn a_waiter_whose_key_has_lost_its_slot_is_charged_when_it_goes_ahead() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let clock = ManualClock::new();
        let limiter = Limiter::<u64>::builder(Quota::per_second(1).burst(4)).clock(&clock);
        let limiter = limiter.capacity(1).slots(slots).hash_seed(7).build().expect("in range");
        let queue = WaitQueue::new(&limiter);
        let wait = || queue.ask(&1).cells(4).wait_async(|_| pending::<()>());
        assert!(limiter.check_n(&1, 4).is_ok());
        let [mut first, mut second] = [wait(), wait()];
        assert!(poll_once(&mut first).is_pending());
        assert!(poll_once(&mut second).is_pending());
        clock.set(at(20 * SECOND));
        (100..140).for_each(|key| assert!(limiter.check_n(&key, 4).is_ok()));
        clock.set(at(60 * SECOND));
        assert!(poll_once(&mut second).is_pending(), "{slots:?}");
        assert!(matches!(poll_once(&mut first), Poll::Ready(Ok(_))));
        clock.set(at(64 * SECOND));
        assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
    }
}
