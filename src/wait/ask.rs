//! Requests to a queue: the settings. The verbs are in `blocking.rs` and `future.rs`.

use core::time::Duration;

use super::WaitQueue;
use super::queue::WaitRequest;
use super::source::{Bookable, KeyProbe, Waitable, sealed::LimiterOps};
use crate::algo::gcra::{Gcra, GcraParams};
use crate::limiter::ask::{Ask, sealed::Askable};
use crate::limiter::plan::Plan;
use crate::time::Tick;

impl<S: Waitable> Askable for WaitQueue<S> {
    type Key = S::Key;
    type Params = GcraParams;
    type Time = Deadline;
}

/// The latest turn that a request accepts; `None`: any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline(Option<Tick>);

impl<S: Waitable> WaitQueue<S> {
    /// Begins a request for `key`: one cell, and any wait, unless the [`Ask`] says otherwise.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Limiter, Quota};
    ///
    /// let limiter: Limiter<str> = Limiter::builder(Quota::per_second(50).burst(5)).build()?;
    /// let queue = WaitQueue::new(limiter);
    /// queue.ask("account").cells(3).max_delay(Duration::from_secs(1)).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask<'g, 'k>(&'g self, key: &'k S::Key) -> Ask<'g, 'k, Self> {
        Ask::new(self, key)
    }
}

impl<S: Waitable> Ask<'_, '_, WaitQueue<S>> {
    /// Waits for at most `max_delay`, from the call of [`wait`](Self::wait), or from the first poll of
    /// the future of [`wait_async`](Self::wait_async). With zero, the request gets its cells at once
    /// or not at all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::{WaitError, WaitQueue};
    /// use tollgate::{Direct, Quota};
    ///
    /// let queue = WaitQueue::new(Direct::new(Quota::per_minute(1))?);
    /// queue.ask(&()).max_delay(Duration::ZERO).wait()?;
    /// let error = queue.ask(&()).max_delay(Duration::from_secs(1)).wait().unwrap_err();
    /// assert!(matches!(error, WaitError::TooLate { wait } if wait > Duration::from_secs(58)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_delay(self, max_delay: Duration) -> Self {
        Self { max_delay: Some(max_delay), ..self }
    }

    /// Accepts no turn after the instant `deadline` of the limiter's clock. After the deadline, a
    /// request gets its cells at once or not at all. If a [`max_delay`](Self::max_delay) is set too,
    /// both hold.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::WaitQueue;
    /// use tollgate::{Clock, Direct, Quota};
    ///
    /// let queue = WaitQueue::new(Direct::new(Quota::per_minute(1))?);
    /// let deadline = queue.limiter().clock().now().saturating_add(Duration::from_secs(5));
    /// queue.ask(&()).deadline(deadline).wait()?; // does not wait
    /// assert!(queue.ask(&()).deadline(deadline).wait().is_err()); // its turn is in a minute
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(self, deadline: Tick) -> Self {
        Self { at: Deadline(Some(deadline)), ..self }
    }

    pub(super) fn unqueued(&self) -> Unqueued {
        Unqueued {
            probe: self.gate.limiter.ops().probe(self.key),
            n: self.cells,
            plan: self.plan.copied(),
            max_delay: self.max_delay.unwrap_or(Duration::MAX),
            deadline: self.at.0.unwrap_or(Tick::MAX),
        }
    }
}

impl<'k, S: Waitable<Ops: Bookable>> Ask<'_, 'k, WaitQueue<S>> {
    /// Waits for cells of a [`Plan`] of the queue's limiter, which has a token bucket, and not for those of the
    /// limiter's own quota.
    ///
    /// If all requests of a key have one plan, they are granted what a queue before a limiter of that quota
    /// grants. If the plans of a key differ, its waiters are still granted their cells in the order of their
    /// arrival; a caller outside the queue whose plan has a larger burst may get ahead of them.
    ///
    /// # Panics
    ///
    /// If the plan is of a limiter whose states mean something else.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::{WaitError, WaitQueue};
    /// use tollgate::{Gcra, Limiter, Quota};
    ///
    /// let limiter: Limiter<str> =
    ///     Limiter::builder(Quota::per_second(50)).algorithm(Gcra::new().for_plans()).build()?;
    /// let free = limiter.plan(Quota::per_minute(1))?;
    /// let queue = WaitQueue::new(limiter);
    /// let ask = || queue.ask("account").plan(&free).max_delay(Duration::from_secs(5));
    /// ask().wait()?; // does not wait
    /// assert!(matches!(ask().wait(), Err(WaitError::TooLate { .. }))); // its turn is in a minute
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan(self, plan: &'k Plan<Gcra>) -> Self {
        Self { plan: Some(plan.params_for(self.gate.limiter.ops().algo())), ..self }
    }
}

/// A request whose time has not started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unqueued {
    probe: KeyProbe,
    n: u64,
    plan: Option<GcraParams>,
    max_delay: Duration,
    deadline: Tick,
}

impl Unqueued {
    /// The request of a caller that starts to wait at `now`.
    pub(super) fn start(self, now: Tick) -> WaitRequest {
        let Self { probe, n, plan, max_delay, deadline } = self;
        WaitRequest { probe, n, plan, deadline: now.saturating_add(max_delay).min(deadline) }
    }
}
