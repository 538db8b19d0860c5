//! A timer for executors that have none.

#![allow(clippy::disallowed_types, reason = "no decision takes the lock")]

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use super::wakers::wake;
use crate::sync::OwnThread;
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

/// A thread that wakes tasks on time, for executors without a timer. The thread ends when the last
/// clone of the timer and the last sleep are dropped.
///
/// Clones share the thread, which sleeps until the next task is due. The memory is bounded by the
/// number of sleeping tasks.
///
/// **Not guaranteed.** A forked child does not have the thread: its sleeps never end. Start the timer after the fork.
///
/// ```
/// use tollgate::wait::{Timer, WaitQueue};
/// use tollgate::{Direct, Quota};
///
/// let queue = WaitQueue::new(Direct::new(Quota::per_second(100).burst(1))?);
/// let timer = Timer::start()?;
/// async_io::block_on(async {
///     for _request in 0..3 {
///         queue.ask(&()).wait_async(|span| timer.sleep(span)).await?;
///     }
///     Ok::<(), tollgate::wait::WaitError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timer {
    owner: Arc<Owner>,
}

impl Timer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The operating system could not start the thread.
    ///
    /// ```
    /// let timer = tollgate::wait::Timer::start()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            sleepers: Mutex::default(),
            changed: Condvar::new(),
            clock: QuantaClock::new(),
        });
        let served = Arc::clone(&shared);
        let thread = Builder::new().name("tollgate-timer".into()).spawn(move || served.serve())?;
        Ok(Self { owner: Arc::new(Owner { shared, thread: OwnThread::new(thread) }) })
    }

    /// A future that is ready after `span` from now.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let timer = tollgate::wait::Timer::start()?;
    /// async_io::block_on(timer.sleep(Duration::from_millis(1)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sleep(&self, span: Duration) -> Sleep {
        let end = self.owner.shared.clock.now().saturating_add(span);
        Sleep { owner: Arc::clone(&self.owner), end, number: None }
    }
}

/// A future that is ready after a given time: see [`Timer::sleep`].
///
/// ```
/// # use std::time::Duration;
/// let sleep: tollgate::wait::Sleep = tollgate::wait::Timer::start()?.sleep(Duration::ZERO);
/// async_io::block_on(sleep);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a future does nothing unless it is polled"]
#[derive(Debug)]
pub struct Sleep {
    owner: Arc<Owner>,
    end: Tick,
    /// The number among the sleepers, once polled.
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = &self.owner.shared;
        if shared.clock.now() >= self.end {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let mut sleepers = shared.lock();
        let number = self.number.unwrap_or(sleepers.next_number);
        sleepers.next_number = sleepers.next_number.max(number + 1);
        let replaced = sleepers.wakers.insert((self.end, number), waker);
        let is_first = sleepers.wakers.keys().next() == Some(&(self.end, number));
        drop(sleepers);
        if is_first {
            shared.changed.notify_one();
        }
        // After the lock is released: dropping a waker may drop a task, and with it another sleep.
        drop(replaced);
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && self.owner.thread.is_of_this_process()
        {
            let waker = self.owner.shared.lock().wakers.remove(&(self.end, number));
            drop(waker);
        }
    }
}

/// Stops the thread when dropped.
#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    /// A task that it woke may hold the last sleep, and so drop this.
    thread: OwnThread,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Otherwise the thread may have held the lock at the fork.
        if self.thread.is_of_this_process() {
            self.shared.lock().stopped = true;
            self.shared.changed.notify_one();
        }
    }
}

#[derive(Debug)]
struct Shared {
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
    clock: QuantaClock,
}

#[derive(Debug, Default)]
struct Sleepers {
    wakers: BTreeMap<(Tick, u64), Waker>,
    next_number: u64,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all tasks that are due, until the timer is stopped.
    fn serve(&self) {
        let mut sleepers = self.lock();
        while !sleepers.stopped {
            let now = self.clock.now();
            let next = sleepers.wakers.first_key_value().map(|(&(end, _), _)| end.since(now));
            sleepers = match next {
                None => self.changed.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
                Some(span) if span.is_zero() => {
                    let due = sleepers.wakers.pop_first();
                    drop(sleepers);
                    due.into_iter().for_each(|(_, waker)| wake(waker));
                    self.lock()
                }
                Some(span) => {
                    let waited = self.changed.wait_timeout(sleepers, span);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
