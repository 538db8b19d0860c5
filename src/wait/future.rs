//! Waiting tasks.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::WaitQueue;
use super::ask::Unqueued;
use super::error::{WaitError, Waited};
use super::source::Waitable;
use super::ticket::{Entry, Nap, PollResult, Ticket};
use crate::limiter::ask::Ask;

impl<'g, S: Waitable> Ask<'g, '_, WaitQueue<S>> {
    /// A future that waits until the cells have been charged. It joins the queue, and its time
    /// starts, at its first poll. Dropping it leaves the queue.
    ///
    /// `sleep` returns the future to sleep by, such as `tokio::time::sleep`, `smol::Timer::after`,
    /// or [`Timer::sleep`](crate::wait::Timer::sleep). That future should not end early; if it does,
    /// the waiter only sleeps again.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// The future panics if it is polled after it was ready.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Limiter, Quota};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let limiter: Limiter<str> = Limiter::builder(Quota::per_second(200).burst(1)).build()?;
    /// let queue = WaitQueue::new(limiter);
    /// let max_delay = Duration::from_secs(1);
    /// for _request in 0..3 {
    ///     queue.ask("account").max_delay(max_delay).wait_async(tokio::time::sleep).await?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_async<F, T>(self, sleep: F) -> Wait<'g, S, F, T>
    where
        F: FnMut(Duration) -> T,
        T: Future,
    {
        Wait { queue: self.gate, stage: Stage::New(self.unqueued()), sleep, sleeping: None }
    }
}

/// A task that waits for its turn: see [`Ask::wait_async`].
///
/// A `Wait` that is dropped leaves the queue. One that is leaked never leaves: it counts as a
/// waiter for as long as the queue exists, and its cells are spent when its turn comes.
///
/// ```
/// use tollgate::wait::{Timer, WaitQueue};
/// use tollgate::{Direct, Quota};
///
/// let queue = WaitQueue::new(Direct::new(Quota::per_second(9))?);
/// let timer = Timer::start()?; // a thread
/// let wait = queue.ask(&()).wait_async(|span| timer.sleep(span));
/// drop(wait); // never polled, so it has no effect
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a future does nothing unless it is polled"]
pub struct Wait<'a, S: Waitable, F, T> {
    queue: &'a WaitQueue<S>,
    stage: Stage<'a, S>,
    sleep: F,
    sleeping: Option<(Nap, Pin<Box<T>>)>,
}

enum Stage<'a, S: Waitable> {
    New(Unqueued),
    Queued(Ticket<'a, S>),
    Done,
}

/// Only the sleep is pinned, and it has a box of its own.
impl<S: Waitable, F, T> Unpin for Wait<'_, S, F, T> {}

impl<S, F, T> Future for Wait<'_, S, F, T>
where
    S: Waitable,
    F: FnMut(Duration) -> T,
    T: Future,
{
    type Output = Result<Waited, WaitError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Stage::New(unqueued) = this.stage {
            this.stage = Stage::Done;
            match this.queue.enter(unqueued.start(this.queue.now())) {
                Ok(Entry::MustWait(ticket)) => this.stage = Stage::Queued(ticket),
                Ok(Entry::Admitted(waited)) => return Poll::Ready(Ok(waited)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        // Two rounds: in the first the sleep may end, in the second the turn has come.
        for _ in 0..2 {
            let Stage::Queued(ticket) = &mut this.stage else {
                panic!("a wait was polled after it was ready");
            };
            let (nap, span) = match ticket.poll(context.waker()) {
                PollResult::Asleep(nap, span) => (nap, span),
                PollResult::Ended(result) => {
                    this.stage = Stage::Done;
                    this.sleeping = None;
                    return Poll::Ready(result);
                }
            };
            if this.sleeps_on(nap, span, context).is_pending() {
                return Poll::Pending;
            }
        }
        // The sleep ends too early every time. Yield, so that other tasks can run.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S, F, T> Wait<'_, S, F, T>
where
    S: Waitable,
    F: FnMut(Duration) -> T,
    T: Future,
{
    /// Polls the sleep of `span`, starting it if needed. Ready once.
    fn sleeps_on(&mut self, nap: Nap, span: Duration, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleeping {
            Some((sleeping, _)) if *sleeping == nap => {}
            Some((other, sleep)) => {
                sleep.set((self.sleep)(span));
                *other = nap;
            }
            none => *none = Some((nap, Box::pin((self.sleep)(span)))),
        }
        let Some((_, sleep)) = &mut self.sleeping else { return Poll::Ready(()) };
        let polled = sleep.as_mut().poll(context).map(drop);
        if polled.is_ready() {
            self.sleeping = None;
        }
        polled
    }
}

impl<S: Waitable, F, T> fmt::Debug for Wait<'_, S, F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::New(_) => "not polled yet",
            Stage::Queued(_) => "queued",
            Stage::Done => "done",
        };
        f.debug_struct("Wait").field("stage", &stage).finish_non_exhaustive()
    }
}
