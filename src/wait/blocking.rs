//! Waiting threads.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

use super::WaitQueue;
use super::error::{WaitError, Waited};
use super::source::Waitable;
use super::ticket::{Entry, PollResult};
use crate::limiter::ask::Ask;

impl<S: Waitable> Ask<'_, '_, WaitQueue<S>> {
    /// Blocks the thread until the cells have been charged.
    ///
    /// # Errors
    ///
    /// Nothing is charged in any of these cases: the turn would come too late, too many are
    /// waiting, the limiter denies a key for which it has no slot, or the cells are more than the
    /// burst.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Direct, Quota};
    ///
    /// let queue = WaitQueue::new(Direct::new(Quota::per_second(2).burst(1))?);
    /// assert_eq!(queue.ask(&()).wait()?.waited(), Duration::ZERO);
    /// assert!(queue.ask(&()).max_delay(Duration::from_millis(1)).wait().is_err()); // at once
    /// assert!(queue.ask(&()).wait()?.waited() > Duration::from_millis(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(self) -> Result<Waited, WaitError> {
        let request = self.unqueued().start(self.gate.now());
        let mut ticket = match self.gate.enter(request)? {
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
