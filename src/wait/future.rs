//! Tasks that wait.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::WaitQueue;
use super::error::{WaitError, Waited};
use super::queue::Request;
use super::source::{Place, Waitable, sealed::Gate};
use super::ticket::{Entry, Look, Nap, Ticket};

impl<S: Waitable> WaitQueue<S> {
    /// A future that waits until `n` cells of `key` have been charged, at most for `max_wait`. It
    /// stands in line, and its time runs, from its first poll on; dropped, it leaves.
    ///
    /// `sleep` makes what it sleeps by, such as `tokio::time::sleep`, `smol::Timer::after`, or
    /// a [`Timer`](super::Timer)'s. It should not end early, though that costs no more than another
    /// sleep.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// The future panics if it is polled again after it was ready.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Limiter, Quota};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(200).burst(1)).build()?;
    /// let line = WaitQueue::new(gate);
    /// for _request in 0..3 {
    ///     line.wait_async("account", 1, Duration::from_secs(1), tokio::time::sleep).await?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_async<F, T>(
        &self,
        key: &S::Key,
        n: u64,
        max_wait: Duration,
        sleep: F,
    ) -> Wait<'_, S, F, T>
    where
        F: FnMut(Duration) -> T,
        T: Future,
    {
        let place = self.limiter.gate().place(key);
        Wait { line: self, stage: Stage::New { place, n, max_wait }, sleep, sleeping: None }
    }
}

/// A task that waits for its turn: see [`WaitQueue::wait_async`].
///
/// Dropped, it leaves the line. Leaked, it never does: its place counts among those who wait for as long
/// as the line lasts, and its cells are spent when its turn comes.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::{Timer, WaitQueue};
/// use tollgate::{Direct, Quota};
///
/// let line = WaitQueue::new(Direct::new(Quota::per_second(9))?);
/// let timer = Timer::start()?; // a thread
/// let wait = line.wait_async(&(), 1, Duration::from_secs(1), |span| timer.sleep(span));
/// drop(wait); // was not polled, and is as if it had never been
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a future does nothing unless it is polled"]
pub struct Wait<'a, S: Waitable, F, T> {
    line: &'a WaitQueue<S>,
    stage: Stage<'a, S>,
    sleep: F,
    sleeping: Option<(Nap, Pin<Box<T>>)>,
}

enum Stage<'a, S: Waitable> {
    New { place: Place, n: u64, max_wait: Duration },
    Standing(Ticket<'a, S>),
    Over,
}

/// Nothing in it is pinned but what has a box of its own.
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
        if let Stage::New { place, n, max_wait } = this.stage {
            this.stage = Stage::Over;
            let deadline = this.line.now().saturating_add(max_wait);
            match this.line.enter(Request { place, n, deadline }) {
                Ok(Entry::MustWait(ticket)) => this.stage = Stage::Standing(ticket),
                Ok(Entry::Admitted(waited)) => return Poll::Ready(Ok(waited)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        // Twice: what it slept by has ended, and its turn has come.
        for _ in 0..2 {
            let Stage::Standing(ticket) = &mut this.stage else {
                panic!("a wait was polled after it was ready");
            };
            let (nap, span) = match ticket.look(context.waker()) {
                Look::Asleep(nap, span) => (nap, span),
                Look::Ended(result) => {
                    this.stage = Stage::Over;
                    this.sleeping = None;
                    return Poll::Ready(result);
                }
            };
            if this.sleeps_on(nap, span, context).is_pending() {
                return Poll::Pending;
            }
        }
        // What it sleeps by ends too early. Others shall have their turn.
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
    /// Sleeps for `span`, or goes on doing so. Ready once.
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
            Stage::New { .. } => "not polled yet",
            Stage::Standing(_) => "in line",
            Stage::Over => "over",
        };
        f.debug_struct("Wait").field("stage", &stage).finish_non_exhaustive()
    }
}
