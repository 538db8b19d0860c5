//! Waiting tasks of tokio, which need not name a timer.

use super::WaitQueue;
use super::error::{WaitError, Waited};
use super::source::Waitable;
use crate::limiter::ask::Ask;

impl<S: Waitable> WaitQueue<S> {
    /// Waits, in a task of tokio, until a cell of `key` has been charged. This is short for
    /// [`ask`](Self::ask) and [`wait_async`](Ask::wait_async) with `tokio::time::sleep`.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Ask::wait).
    ///
    /// # Panics
    ///
    /// The future panics if it has to wait outside of a tokio runtime, or in one whose timers are not enabled.
    ///
    /// ```
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Limiter, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter: Limiter<str> = Limiter::builder(Quota::per_second(200).burst(1)).build()?;
    /// let queue = WaitQueue::new(limiter);
    /// for _request in 0..3 {
    ///     queue.ready("account").await?;
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn ready<'g>(
        &'g self,
        key: &S::Key,
    ) -> impl Future<Output = Result<Waited, WaitError>> + use<'g, S> {
        self.ask(key).ready()
    }
}

impl<'g, S: Waitable> Ask<'g, '_, WaitQueue<S>> {
    /// Waits, in a task of tokio, until the cells have been charged. This is short for
    /// [`wait_async`](Self::wait_async) with `tokio::time::sleep`.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As for [`WaitQueue::ready`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::{WaitError, WaitQueue};
    /// use tollgate::{Direct, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = WaitQueue::new(Direct::new(Quota::per_minute(10))?);
    /// let ask = || queue.ask(&()).cells(10).max_delay(Duration::from_secs(1));
    /// ask().ready().await?;
    /// assert!(matches!(ask().ready().await, Err(WaitError::TooLate { .. }))); // at once
    /// # Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn ready(self) -> impl Future<Output = Result<Waited, WaitError>> + use<'g, S> {
        self.wait_async(::tokio::time::sleep)
    }
}
