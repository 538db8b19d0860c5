//! The wakers of other tasks: they run code of their executors, which may panic.

use core::panic::AssertUnwindSafe;
use core::task::Waker;
use std::panic::catch_unwind;

/// Wakers to use, or only to drop, once no lock is held: both may run arbitrary code.
#[derive(Default)]
pub(super) struct Wakers {
    wake: Vec<Waker>,
    retired: Vec<Waker>,
}

impl Wakers {
    /// Wakes all tasks.
    pub(super) fn wake(self) {
        self.wake.into_iter().for_each(wake);
    }

    /// Adds a waker to use.
    pub(super) fn add(&mut self, waker: Option<Waker>) {
        self.wake.extend(waker);
    }

    /// Adds a waker to drop.
    pub(super) fn retire(&mut self, waker: Option<Waker>) {
        self.retired.extend(waker);
    }
}

/// Wakes a task. If its waker panics, the panic has been reported, and concerns no other task.
pub(super) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

#[cfg(test)]
mod tests {
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Poll};
    use core::time::Duration;
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;
    use crate::limiter::direct::Direct;
    use crate::quota::Quota;
    use crate::time::ManualClock;
    use crate::wait::{Timer, WaitQueue};

    /// The waker of an executor that has ended.
    struct Ended;

    impl Wake for Ended {
        fn wake(self: Arc<Self>) {
            panic!("the executor has ended");
        }
    }

    #[test]
    fn a_waker_that_panics_keeps_no_waiter_from_its_turn_and_no_place_of_the_queue() {
        let clock = ManualClock::new();
        let gate = Direct::builder(Quota::per_second(1).burst(1)).clock(clock.clone());
        let queue = WaitQueue::new(gate.build().expect("in range")).max_waiters(2);
        let sleep = |_: Duration| core::future::pending::<()>();
        let ended = Waker::from(Arc::new(Ended));
        let poll = |wait: core::pin::Pin<&mut dyn Future<Output = _>>, waker: &Waker| {
            wait.poll(&mut Context::from_waker(waker))
        };
        let _ = queue.limiter().check().expect("the burst");
        {
            let mut first = pin!(queue.ask(&()).wait_async(sleep));
            let mut second = pin!(queue.ask(&()).wait_async(sleep));
            let mut late = pin!(queue.ask(&()).wait_async(sleep));
            assert!(poll(first.as_mut(), Waker::noop()).is_pending());
            assert!(poll(second.as_mut(), &ended).is_pending());
            assert!(matches!(poll(late.as_mut(), Waker::noop()), Poll::Ready(Err(_))), "two wait");
            clock.advance(Duration::from_secs(1));
            assert!(matches!(poll(first.as_mut(), Waker::noop()), Poll::Ready(Ok(_))));
            clock.advance(Duration::from_secs(1));
            assert!(matches!(poll(second.as_mut(), &ended), Poll::Ready(Ok(_))));
        }
        let mut waits = [(); 2].map(|()| Box::pin(queue.ask(&()).wait_async(sleep)));
        for wait in &mut waits {
            assert!(poll(wait.as_mut(), Waker::noop()).is_pending(), "both places are free");
        }
    }

    #[test]
    fn a_waker_that_panics_does_not_end_the_timer() {
        let timer = Timer::start().expect("a thread");
        let mut lost = pin!(timer.sleep(Duration::from_millis(1)));
        let ended = Waker::from(Arc::new(Ended));
        assert!(lost.as_mut().poll(&mut Context::from_waker(&ended)).is_pending());
        async_io::block_on(timer.sleep(Duration::from_millis(20)));
    }
}
