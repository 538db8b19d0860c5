//! Waiting: cells booked ahead of their time, and refunded, while others ask.
//!
//! The protocol is in `src/wait/queue.rs`.

#![cfg(tollgate_loom)]

use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::thread;
use loom_tests::{Preemptions, at, burst, catch_two, each_of, explore_four, explore_two_to};
use tollgate::internals::{Fault, plant};
use tollgate::wait::{Wait, WaitQueue};
use tollgate::{Clock, Direct, Gcra, Tick};

const BURST: u64 = 2;

/// A clock of seconds, set by the thread that waits. The other threads give the time of each request.
#[derive(Clone, Debug, Default)]
struct Seconds(Arc<AtomicU64>);

impl Clock for Seconds {
    fn now(&self) -> Tick {
        at(self.0.load(Ordering::Relaxed))
    }
}

type Gate = Arc<Direct<Gcra, Seconds>>;
type Waiter<'a> = Wait<'a, Gate, fn(Duration) -> Pending<()>, Pending<()>>;

/// A bucket that is empty at the start, a queue for it, and its clock.
fn empty() -> (Gate, WaitQueue<Gate>, Seconds) {
    let clock = Seconds::default();
    let gate = Direct::builder(burst(BURST)).clock(clock.clone()).build().expect("in range");
    assert!(gate.ask().cells(BURST).at(at(0)).check().is_ok());
    let gate = Arc::new(gate);
    (Arc::clone(&gate), WaitQueue::new(gate), clock)
}

fn wait(queue: &WaitQueue<Gate>) -> Waiter<'_> {
    queue.ask(&()).wait_async(|_| pending())
}

/// Polls the waiter, and returns whether its turn has come.
fn poll(waiter: &mut Waiter<'_>) -> bool {
    match Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(admission) => admission.is_ok(),
        Poll::Pending => false,
    }
}

fn left(gate: &Gate, now: Tick) -> u64 {
    gate.ask().cells(0).at(now).peek().expect("nothing is asked for").remaining()
}

#[test]
fn a_booking_that_is_refunded_while_others_ask_is_granted_once() {
    explore_two_to("waiting: a booking refunded", 3, Preemptions::Any, || {
        let (gate, queue, _) = empty();
        let other = Arc::clone(&gate);
        let ask = move || (0..2).filter(|_| other.ask().at(at(1)).check().is_ok()).count() as u64;
        let thread = thread::spawn(ask);
        let mut waiter = wait(&queue);
        // At 0 the waiter books the cell of 1, unless that is spent by then.
        assert!(!poll(&mut waiter));
        drop(waiter);
        assert_eq!(thread.join().unwrap() + left(&gate, at(1)), 1, "granted and left");
    });
}

/// The waiter's turn comes at 1, and the waiter leaves at 3 without having been polled again.
fn leaves_after_its_turn() {
    let (gate, queue, clock) = empty();
    let mut waiter = wait(&queue);
    assert!(!poll(&mut waiter));
    let other = Arc::clone(&gate);
    let thread =
        thread::spawn(move || u64::from(other.ask().cells(BURST).at(at(3)).check().is_ok()));
    clock.0.store(3, Ordering::Relaxed);
    drop(waiter);
    let granted = BURST * thread.join().unwrap();
    assert_eq!(granted + left(&gate, at(3)), BURST, "granted and left");
}

#[test]
fn a_booking_that_is_refunded_after_its_turn_is_granted_once() {
    explore_two_to(
        "waiting: a booking refunded after its turn",
        3,
        Preemptions::Any,
        leaves_after_its_turn,
    );
}

/// The planted fault: cells that time has restored since the turn are refunded once more.
#[test]
#[should_panic(expected = "granted and left")]
fn refunded_at_the_time_of_its_turn_a_cell_is_granted_twice() {
    plant(Fault::RefundedAtOldTime);
    catch_two("waiting: refunded at an old time", leaves_after_its_turn);
}

/// A waiter of four cells is booked behind a reservation of all four, and leaves at 3, before its turn at 4. Another
/// thread refunds the reservation and asks for three of the cells.
#[test]
fn a_booking_and_a_reservation_before_it_that_are_both_refunded_are_granted_once() {
    explore_two_to("waiting: refunded behind a refund", 3, Preemptions::Any, || {
        const ALL: u64 = 4;
        let clock = Seconds::default();
        let gate = Direct::builder(burst(ALL)).clock(clock.clone()).build().expect("in range");
        let gate: Gate = Arc::new(gate);
        let queue = WaitQueue::new(Arc::clone(&gate));
        let reserved = gate.ask().cells(ALL).reserve_owned(&gate).expect("the bucket is full");
        let mut waiter = queue.ask(&()).cells(ALL).wait_async((|_| pending()) as fn(_) -> _);
        assert!(!poll(&mut waiter));
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || {
            reserved.refund_at(at(0));
            3 * u64::from(other.ask().cells(3).at(at(3)).check().is_ok())
        });
        clock.0.store(3, Ordering::Relaxed);
        drop(waiter);
        let granted = thread.join().unwrap();
        assert_eq!(granted + left(&gate, at(3)), ALL, "granted and left");
    });
}

/// Two waiters are woken a second after their turns, while another thread asks.
#[test]
fn two_waiters_that_are_woken_late_keep_their_turns() {
    explore_two_to("waiting: two woken late, another asks", 3, Preemptions::Any, || {
        let (gate, queue, clock) = empty();
        let wait = |seconds| {
            let ask = queue.ask(&()).max_delay(Duration::from_secs(seconds));
            ask.wait_async((|_| pending()) as fn(_) -> _)
        };
        let [mut first, mut second] = [1, 2].map(wait);
        assert!(!poll(&mut first) && !poll(&mut second));
        let other = Arc::clone(&gate);
        let ask = move || (0..2).filter(|_| other.ask().at(at(2)).check().is_ok()).count() as u64;
        let thread = thread::spawn(ask);
        clock.0.store(2, Ordering::Relaxed);
        assert!(poll(&mut first), "a turn that was booked is not lost");
        let both = 1 + u64::from(poll(&mut second));
        assert_eq!(both + thread.join().unwrap() + left(&gate, at(2)), BURST, "granted and left");
    });
}

#[test]
fn the_second_waiter_moves_up_when_the_first_leaves() {
    explore_two_to("waiting: two in the queue, one leaves", 3, Preemptions::Any, || {
        let (gate, queue, clock) = empty();
        let queue = Arc::new(queue);
        let other = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            let mut waiter = wait(&other);
            assert!(!poll(&mut waiter));
        });
        let mut waiter = wait(&queue);
        assert!(!poll(&mut waiter));
        thread.join().unwrap();
        clock.0.store(1, Ordering::Relaxed);
        assert!(poll(&mut waiter), "the second waiter is first in the queue now");
        assert_eq!(left(&gate, at(1)), 0, "the cell of its turn is spent");
        assert_eq!(left(&gate, at(2)), 1, "and no other cell is");
    });
}

/// Two waiters leave before their turns, in any order, while two threads ask for the booked cells.
#[test]
#[ignore = "4 threads: in the full run"]
fn cells_of_two_waiters_that_leave_are_granted_once() {
    explore_four("waiting: two leave, two ask, 4 threads", || {
        let (gate, queue, _) = empty();
        let queue = Arc::new(queue);
        let shared = Arc::new((gate, queue));
        let granted = each_of(4, &shared, |(gate, queue), number| {
            if number < 2 {
                let mut waiter = wait(queue);
                assert!(!poll(&mut waiter), "no cell is there at 0");
                return 0;
            }
            u64::from(gate.ask().at(at(1)).check().is_ok())
        });
        let (gate, queue) = &*shared;
        assert_eq!(granted.iter().sum::<u64>() + left(gate, at(1)), 1, "granted and left");
        assert_eq!(queue.waiting(), 0, "the queue is empty");
    });
}
