//! The first waiter of a limiter that is asked again sleeps for as long as its denial says, and so do those
//! behind it.

use std::cell::RefCell;
use std::future::{Future, Pending, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::wait::{WaitError, WaitQueue};
use tollgate::{Direct, FixedWindow, Limiter, ManualClock, OnFull, Quota};

type Gate = Limiter<u64, FixedWindow, ManualClock>;

/// A full table, a key that finds no slot in it, and the wait of that key's denial.
fn full(on_full: OnFull, clock: &ManualClock) -> (Gate, u64, Duration) {
    let gate: Gate = Limiter::builder(Quota::per_minute(5))
        .algorithm(FixedWindow::anchored())
        .capacity(1)
        .hash_seed(7)
        .on_full(on_full)
        .clock(clock.clone())
        .build()
        .expect("in range");
    let key = (0..10_000).find(|key| gate.check(key).is_err()).expect("the table is full");
    clock.advance(Duration::from_secs(1));
    let wait = gate.check(&key).expect_err("no slot").retry_after().expect("a time");
    (gate, key, wait)
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[test]
fn a_key_without_a_slot_sleeps_once_and_then_goes_ahead() {
    for on_full in [OnFull::Deny, OnFull::SharedOverflow(Quota::per_minute(1))] {
        let clock = ManualClock::new();
        let (gate, key, told) = full(on_full, &clock);
        let (queue, naps) = (WaitQueue::new(&gate), RefCell::new(vec![]));
        let sleep = |span: Duration| -> Pending<()> {
            naps.borrow_mut().push(span);
            pending()
        };
        let mut wait = pin!(queue.ask(&key).wait_async(sleep));
        assert_eq!(wait.as_mut().poll(&mut context()), Poll::Pending);
        assert_eq!(*naps.borrow(), [told]);
        clock.advance(told);
        assert!(matches!(wait.as_mut().poll(&mut context()), Poll::Ready(Ok(_))));
        assert_eq!(naps.borrow().len(), 1);
    }
}

#[test]
fn those_behind_a_key_without_a_slot_sleep_until_its_turn() {
    for on_full in [OnFull::Deny, OnFull::SharedOverflow(Quota::per_minute(2))] {
        let clock = ManualClock::new();
        let (gate, key, told) = full(on_full, &clock);
        let (queue, naps) = (WaitQueue::new(&gate), RefCell::new(vec![]));
        let mut first = pin!(queue.ask(&key).wait_async(|_| pending::<()>()));
        assert_eq!(first.as_mut().poll(&mut context()), Poll::Pending);
        let mut second = pin!(queue.ask(&key).wait_async(|span| {
            naps.borrow_mut().push(span);
            pending::<()>()
        }));
        for _ in 0..3 {
            assert_eq!(second.as_mut().poll(&mut context()), Poll::Pending);
            assert_eq!(*naps.borrow(), [told]);
        }
        let error = queue.ask(&key).max_delay(told - Duration::from_nanos(1)).wait();
        assert_eq!(error.map(|_| ()), Err(WaitError::TooLate { wait: told }));
        clock.advance(told);
        assert!(matches!(first.as_mut().poll(&mut context()), Poll::Ready(Ok(_))));
        assert!(matches!(second.as_mut().poll(&mut context()), Poll::Ready(Ok(_))));
    }
}

#[test]
fn a_key_without_a_slot_fails_at_once_if_its_denial_lasts_too_long() {
    for on_full in [OnFull::Deny, OnFull::SharedOverflow(Quota::per_minute(1))] {
        let (gate, key, told) = full(on_full, &ManualClock::new());
        let queue = WaitQueue::new(&gate);
        let error = queue.ask(&key).max_delay(told - Duration::from_nanos(1)).wait();
        assert_eq!(error.map(|_| ()), Err(WaitError::TooLate { wait: told }));
    }
}

#[test]
fn a_first_waiter_that_never_fits_any_more_ends_and_those_behind_it_go_ahead() {
    let clock = ManualClock::new();
    let gate = Direct::builder(Quota::per_second(10).burst(10))
        .algorithm(DynamicGcra::new())
        .clock(clock.clone())
        .build()
        .expect("in range");
    assert!(gate.check_n(10).is_ok());
    let queue = WaitQueue::new(&gate);
    let mut first = pin!(queue.ask(&()).cells(10).wait_async(|_| pending::<()>()));
    let mut second = pin!(queue.ask(&()).cells(1).wait_async(|_| pending::<()>()));
    assert_eq!(first.as_mut().poll(&mut context()), Poll::Pending);
    assert_eq!(second.as_mut().poll(&mut context()), Poll::Pending);
    gate.set_quota(Quota::per_second(10).burst(5), Inherit::AsIs).expect("in range");
    clock.advance(Duration::from_secs(2));
    let ended = first.as_mut().poll(&mut context()).map(|answer| answer.map(|_| ()));
    assert_eq!(ended, Poll::Ready(Err(WaitError::NeverFits { burst: 5 })));
    assert!(matches!(second.as_mut().poll(&mut context()), Poll::Ready(Ok(_))));
}

/// Notes that the waiter was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A waiter would have slept for a day.
#[test]
fn waiters_learn_of_a_faster_quota_and_of_a_reset_when_the_queue_wakes_them() {
    type Change = fn(&Limiter<u64, DynamicGcra, ManualClock>);
    let faster: Change = |gate| {
        gate.set_quota(Quota::per_hour(1), Inherit::AsIs).expect("in range");
    };
    let reset: Change = |gate| gate.reset(&7);
    for (change, waits) in [(faster, Duration::from_secs(3_600)), (reset, Duration::ZERO)] {
        let clock = ManualClock::new();
        let gate = Limiter::builder(Quota::per_day(1)).algorithm(DynamicGcra::new());
        let gate = gate.clock(clock.clone()).build().expect("in range");
        assert!(gate.check(&7).is_ok());
        let (queue, naps) = (WaitQueue::new(&gate), RefCell::new(vec![]));
        let sleep = |span: Duration| -> Pending<()> {
            naps.borrow_mut().push(span);
            pending()
        };
        let woken = [(); 2].map(|()| Arc::new(Woken::default()));
        let is_woken = |number: usize| woken[number].0.swap(false, Ordering::Relaxed);
        let wakers = woken.each_ref().map(|woken| Waker::from(Arc::clone(woken)));
        let [mut first, mut second] = wakers.each_ref().map(Context::from_waker);
        let mut ahead = pin!(queue.ask(&7).wait_async(sleep));
        let mut behind = pin!(queue.ask(&7).wait_async(|_| pending::<()>()));
        assert_eq!(ahead.as_mut().poll(&mut first), Poll::Pending);
        assert_eq!(behind.as_mut().poll(&mut second), Poll::Pending);
        queue.wake_all();
        assert!(!is_woken(0) && !is_woken(1), "nothing has changed");

        change(&gate);
        assert!(!is_woken(0), "the limiter does not know the queue");
        queue.wake_all();
        assert!(is_woken(0));
        if !waits.is_zero() {
            assert_eq!(ahead.as_mut().poll(&mut first), Poll::Pending);
            let told = *naps.borrow().last().expect("it sleeps");
            assert!(told.abs_diff(waits) < Duration::from_secs(5), "{told:?}");
            clock.advance(told);
        }
        assert!(matches!(ahead.as_mut().poll(&mut first), Poll::Ready(Ok(_))));
        assert_eq!(behind.as_mut().poll(&mut second), Poll::Pending);
        assert_eq!(is_woken(1), !waits.is_zero(), "its turn is earlier only by the faster quota");
    }
}
