//! Waiting threads.

use core::time::Duration;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

use super::WaitQueue;
use super::error::{WaitError, Waited};
use super::source::Waitable;
use super::ticket::{Entry, PollResult};
use crate::time::Tick;

impl<S: Waitable> WaitQueue<S> {
    /// Blocks the thread until `n` cells of `key` have been charged, for at most `max_wait`.
    ///
    /// # Errors
    ///
    /// Nothing is charged in any of these cases: the turn would come too late, too many are
    /// waiting, the limiter denies a key for which it has no slot, or `n` is above the burst.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Direct, Quota};
    ///
    /// let queue = WaitQueue::new(Direct::new(Quota::per_second(10).burst(1))?);
    /// let waited = |max_wait| queue.wait(&(), 1, max_wait).map(|waited| waited.waited());
    /// assert_eq!(waited(Duration::ZERO)?, Duration::ZERO);
    /// assert!(waited(Duration::from_millis(1)).is_err()); // fails immediately
    /// assert!(waited(Duration::from_secs(1))? > Duration::from_millis(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self, key: &S::Key, n: u64, max_wait: Duration) -> Result<Waited, WaitError> {
        self.wait_until(key, n, self.now().saturating_add(max_wait))
    }

    /// Like [`wait`](Self::wait), until a `deadline` by the limiter's clock.
    ///
    /// # Errors
    ///
    /// As for `wait`.
    ///
    /// ```
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Direct, Quota, Tick};
    /// let queue = WaitQueue::new(Direct::new(Quota::per_minute(1))?);
    /// queue.wait_until(&(), 1, Tick::ZERO)?; // does not wait
    /// assert!(queue.wait_until(&(), 1, Tick::ZERO).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_until(&self, key: &S::Key, n: u64, deadline: Tick) -> Result<Waited, WaitError> {
        let mut ticket = match self.enter(self.request(key, n, deadline))? {
            Entry::Admitted(waited) => return Ok(waited),
            Entry::MustWait(ticket) => ticket,
        };
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        loop {
            match ticket.poll(&waker) {
                PollResult::Ended(result) => return result,
                PollResult::Asleep(_, span) => thread::park_timeout(span),
            }
        }
    }
}

/// Unparks a thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
