//! Wait queues in real time: threads, and tasks on three executors. A busy machine may serve a waiter
//! late, so the tests assert that none is served early.

#![allow(clippy::disallowed_types, reason = "a test may lock")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tollgate::wait::{Timer, WaitError, WaitQueue};
use tollgate::{Clock, Direct, Limiter, Quota, SlidingLog};

type Gate = Arc<Direct>;

/// A queue whose limiter has spent its burst of one cell.
fn busy(quota: Quota) -> Arc<WaitQueue<Gate>> {
    let gate = Direct::new(quota.burst(1)).expect("in range");
    assert!(gate.check().is_ok());
    Arc::new(WaitQueue::new(Arc::new(gate)))
}

/// Runs a future on this thread, without a timer.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Parked(Thread);
    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls all of its futures whenever one of them is woken, and returns their indices in the order
/// in which they became ready.
struct Together<F>(Vec<(usize, Pin<Box<F>>)>, Vec<usize>);

impl<F: Future<Output = Result<tollgate::wait::Waited, WaitError>>> Future for Together<F> {
    type Output = Vec<usize>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<usize>> {
        let Self(futures, ready) = self.get_mut();
        futures.retain_mut(|(index, future)| match future.as_mut().poll(context) {
            Poll::Ready(result) => {
                result.expect("in time");
                ready.push(*index);
                false
            }
            Poll::Pending => true,
        });
        if futures.is_empty() { Poll::Ready(ready.clone()) } else { Poll::Pending }
    }
}

#[test]
fn threads_are_served_in_the_order_of_their_arrival() {
    let begun = Instant::now();
    let queue = busy(Quota::per_second(10));
    let served = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for index in 0..5_u8 {
            let (queue, served) = (&queue, &served);
            scope.spawn(move || {
                queue.ask(&()).wait().expect("in time");
                let at = begun.elapsed();
                served.lock().expect("no panic").push((index, at));
            });
            while queue.waiting() + served.lock().expect("no panic").len() <= usize::from(index) {
                thread::yield_now();
            }
        }
    });
    let mut served = served.into_inner().expect("no panic");
    served.sort_unstable();
    assert_eq!(served.len(), 5);
    // A busy machine may run a thread later than the next one, but none before its turn.
    for (index, at) in &served {
        let turn = Duration::from_millis(100) * u32::from(index + 1);
        assert!(*at >= turn - Duration::from_millis(1), "{served:?}");
    }
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn tasks_without_a_runtime_are_woken_by_a_timer() {
    let queue = busy(Quota::per_second(100));
    let timer = Timer::start().expect("a thread");
    let wait = || queue.ask(&()).wait_async(|span| timer.sleep(span));
    let waits = (0..6).map(|index| (index, Box::pin(wait()))).collect();
    let start = queue.limiter().clock().now();
    assert_eq!(block_on(Together(waits, Vec::new())), [0, 1, 2, 3, 4, 5]);
    let spent = queue.limiter().clock().now().since(start);
    assert!(spent >= Duration::from_millis(49), "five more came at 10 ms: {spent:?}");
}

#[cfg(feature = "tokio")]
#[test]
fn a_task_of_tokio_awaits_its_turn_without_naming_a_timer() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("one");
    let queue = busy(Quota::per_second(100));
    runtime.block_on(async {
        let start = queue.limiter().clock().now();
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move { queue.ready(&()).await })
            })
            .collect();
        for task in tasks {
            let waited = task.await.expect("no panic").expect("in time").waited();
            assert!(waited > Duration::ZERO);
        }
        let spent = queue.limiter().clock().now().since(start);
        assert!(spent >= Duration::from_millis(29), "three more came at 10 ms: {spent:?}");
        let hurried = queue.ask(&()).cells(1).max_delay(Duration::ZERO).ready().await;
        assert!(matches!(hurried, Err(WaitError::TooLate { .. })), "{hurried:?}");
    });
}

#[test]
fn tasks_of_tokio_wait_and_a_timeout_refunds_the_booking() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("one");
    let queue = busy(Quota::per_second(100));
    runtime.block_on(async {
        let start = queue.limiter().clock().now();
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move { queue.ask(&()).wait_async(tokio::time::sleep).await })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic").expect("in time");
        }
        let spent = queue.limiter().clock().now().since(start);
        assert!(spent >= Duration::from_millis(29), "three more came at 10 ms: {spent:?}");
    });
    let queue = busy(Quota::per_hour(1));
    runtime.block_on(async {
        let wait = queue.ask(&()).wait_async(tokio::time::sleep);
        let gave_up = tokio::time::timeout(Duration::from_millis(20), wait).await;
        assert!(gave_up.is_err(), "its turn comes in an hour");
    });
    let gate = queue.limiter();
    let left = gate.ask().cells(0).peek().expect("a peek for no cells succeeds");
    assert!(left.reset_after() <= Duration::from_secs(3_600), "the booking was refunded");
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn tasks_of_smol_wait_and_fail_at_once_if_the_deadline_is_too_early() {
    let queue = busy(Quota::per_second(5));
    async_io::block_on(async {
        let wait = queue.ask(&()).wait_async(async_io::Timer::after);
        assert!(wait.await.expect("in time").waited() > Duration::ZERO);
        let queue = busy(Quota::per_hour(1));
        let hasty = queue.ask(&()).max_delay(Duration::from_millis(1));
        let error = hasty.wait_async(async_io::Timer::after).await;
        assert!(matches!(error, Err(WaitError::TooLate { .. })), "{error:?}");
    });
}

/// Threads and tasks wait, and leave at any moment; other requests ask without waiting.
#[test]
fn waiters_that_leave_at_any_moment_neither_exceed_the_quota_nor_get_lost() {
    const RATE: u64 = 20_000;
    const BURST: u64 = 10;
    let gate: Limiter<u64> =
        Limiter::builder(Quota::per_second(RATE).burst(BURST)).build().expect("in range");
    let queue = WaitQueue::new(gate);
    let timer = Timer::start().expect("a thread");
    let start = queue.limiter().clock().now();
    let worker = &|thread: u64| {
        let mut granted = 0;
        for round in 0..300_u64 {
            let (n, step) = (1 + (round + thread) % 3, round * 7 + thread);
            match step % 4 {
                0 => granted += queue.ask(&1).cells(n).wait().map(|_| n).expect("in time"),
                1 => granted += u64::from(queue.limiter().check(&1).is_ok()),
                2 => {
                    let wait = queue.ask(&1).cells(n).wait_async(|span| timer.sleep(span));
                    granted += block_on(wait).map(|_| n).expect("in time");
                }
                _ => {
                    let wait = queue.ask(&1).cells(n).wait_async(|span| timer.sleep(span));
                    let mut wait = pin!(wait);
                    let mut context = Context::from_waker(Waker::noop());
                    // Some leave after their turn has come, before they learn of it.
                    for pause in [0, step % 5 * 30] {
                        match wait.as_mut().poll(&mut context) {
                            Poll::Ready(result) => {
                                granted += result.map(|_| n).expect("in time");
                                break;
                            }
                            Poll::Pending => thread::sleep(Duration::from_micros(pause)),
                        }
                    }
                }
            }
        }
        granted
    };
    let granted: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || worker(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let nanos = queue.limiter().clock().now().since(start).as_nanos() + 50_000;
    let max = u128::from(BURST) + u128::from(RATE) * nanos / 1_000_000_000;
    assert!(u128::from(granted) <= max, "{granted} of {max}");
    assert_eq!(queue.waiting(), 0);
}

/// Threads in front of a log, which cannot be charged ahead: each is served, and the limit holds.
#[test]
fn threads_wait_their_turns_in_front_of_a_log() {
    const LIMIT: u64 = 5;
    let period = Duration::from_millis(20);
    let limiter = Direct::builder(Quota::new(LIMIT, period)).algorithm(SlidingLog::new()).build();
    let queue = WaitQueue::new(limiter.expect("in range"));
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10).for_each(|_| assert!(queue.ask(&()).wait().is_ok())));
        }
    });
    // 80 requests, 5 in any 20 ms: the last five are at least 15 periods after the first five.
    assert!(begin.elapsed() >= period * 15, "{:?}", begin.elapsed());
    assert_eq!(queue.waiting(), 0);
}
