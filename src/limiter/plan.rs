//! Quotas that differ from key to key.

use core::fmt;
use core::hash::Hash;

use crate::algo::{Algorithm, PerKey, StateMachine};
use crate::limiter::Limiter;
use crate::limiter::ask::Ask;
use crate::quota::{Quota, QuotaError};
use crate::time::Clock;

/// A quota that some keys of a [`Limiter`] have instead of the limiter's own: made by
/// [`Limiter::plan`], used by [`Ask::plan`].
///
/// A key's state holds an absolute time, or a plain count. So the quota may come with the request, and
/// keys of all plans share one table. A plan is checked once, when it is made, and costs a decision
/// nothing. It is for that limiter only, and is copied in some nanoseconds. All verbs of an [`Ask`] take
/// it; a [reservation](crate::reservation::Reservation) is settled by the plan that it was made with. So do
/// [batches](crate::limiter::AskEach::plan), [composites](crate::composite::CompositeBuilder::keyed_planned)
/// and, before a token bucket, [wait queues](crate::wait::WaitQueue).
///
/// **Guarantee.** A key that is always asked for with the same plan is granted what a limiter of that
/// quota grants. A token bucket's rate may be rounded, down, by a thousandth at most: its states count
/// time in the units of the limiter's own quota. If the plan of a key changes from one request to the
/// next, nothing is lost: with [`Gcra`](crate::Gcra) the key keeps the time that its debt takes to be
/// paid, with [`FixedWindow`](crate::FixedWindow) the count and the end of the window.
///
/// **Not guaranteed.**
///
/// - [Leases](crate::lease::LocalLease) go by the limiter's own quota, and so do keys that
///   [find no slot](crate::OnFull).
/// - A token bucket's [debt](Ask::charge) is bounded by what the limiter's states can hold: often by 16
///   bursts of the limiter's own quota, the plan's burst included. With a plan whose burst is as large as that, a key
///   owes nothing beyond the burst, and a wait queue books no waiter ahead of its turn. A limiter
///   [for plans](crate::Gcra::for_plans) has room for them.
/// - A plan whose rate is above the limiter's own, or whose burst takes far longer to come back, may be an
///   error when it is made. Build the limiter with the fastest quota of any key, and
///   [for plans](crate::Gcra::for_plans).
///
/// ```
/// use tollgate::{Gcra, Limiter, Quota};
///
/// // The fastest quota that any key has; most keys have less.
/// let gate: Limiter<str> =
///     Limiter::builder(Quota::per_second(100)).algorithm(Gcra::new().for_plans()).build()?;
/// let free = gate.plan(Quota::per_minute(10))?;
/// let gold = gate.plan(Quota::per_second(50).burst(80))?;
/// let plan_of = |tenant: &str| if tenant.starts_with("gold") { &gold } else { &free };
///
/// assert_eq!(gate.ask("gold-7").plan(plan_of("gold-7")).check()?.remaining(), 79);
/// assert_eq!(gate.ask("somebody").plan(plan_of("somebody")).check()?.remaining(), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plan<A: Algorithm> {
    params: A::Params,
    quota: Quota,
}

/// An algorithm whose keys may have plans: [`Gcra`](crate::Gcra) and [`FixedWindow`](crate::FixedWindow).
///
/// It is sealed: a method may be added.
///
/// ```
/// use tollgate::plan::{Plan, Plannable};
/// use tollgate::{Gcra, Limiter, Quota, QuotaError};
/// fn halved<A: Plannable>(gate: &Limiter<str, A>, quota: Quota) -> Result<Plan<A>, QuotaError> {
///     gate.plan(Quota::new(quota.limit().div_ceil(2), quota.period()))
/// }
/// let quota = Quota::per_second(9);
/// let gate: Limiter<str> = Limiter::builder(quota).algorithm(Gcra::new().for_plans()).build()?;
/// assert_eq!(halved(&gate, quota)?.quota().limit(), 5);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub trait Plannable: Algorithm<Params: PerKey> {}

impl<A: Algorithm<Params: PerKey>> Plannable for A {}

impl<A: Algorithm> Plan<A> {
    /// The quota, as given.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The quota worked in, for a limiter with the parameters `own`.
    ///
    /// # Panics
    ///
    /// If its states mean something else to that limiter.
    #[inline(always)]
    pub(crate) fn params_for(&self, own: &A::Params) -> &A::Params {
        assert!(self.params.reads_as(own), "a plan is for the limiter that made it");
        &self.params
    }
}

impl<A: Algorithm> Clone for Plan<A> {
    fn clone(&self) -> Self {
        Self { params: self.params.clone(), quota: self.quota }
    }
}

impl<A: Algorithm> fmt::Debug for Plan<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("quota", &self.quota).finish_non_exhaustive()
    }
}

impl<K: Hash + ?Sized, A: Plannable, C: Clock> Limiter<K, A, C> {
    /// A quota for some of the keys: see [`Plan`].
    ///
    /// # Errors
    ///
    /// The quota is out of range, or the states of this limiter cannot represent it; the error says
    /// what to do.
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota, QuotaError};
    /// let gate: Limiter<str> =
    ///     Limiter::builder(Quota::per_minute(1)).algorithm(Gcra::new().for_plans()).build()?;
    /// assert!(gate.plan(Quota::per_hour(1)).is_ok());
    /// assert_eq!(gate.plan(Quota::per_second(300_000)).unwrap_err(), QuotaError::PlanTooFast);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn plan(&self, quota: Quota) -> Result<Plan<A>, QuotaError> {
        Ok(Plan { params: self.params().with_quota(&quota)?, quota })
    }
}

impl<'k, K: Hash + ?Sized, A: Plannable, C: Clock> Ask<'_, 'k, Limiter<K, A, C>> {
    /// Asks by the quota of a [`Plan`], and not by the limiter's own.
    ///
    /// # Panics
    ///
    /// If the plan is of a limiter whose states mean something else.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// let (one, two) = (gate.plan(Quota::per_second(1))?, gate.plan(Quota::per_second(2))?);
    /// let ask = || gate.ask("a").at(Tick::ZERO);
    /// assert!(ask().plan(&one).check().is_ok());
    /// // The key's debt takes a second to be paid, whatever the plan.
    /// let denied = ask().plan(&two).check().unwrap_err();
    /// assert_eq!(denied.retry_after().unwrap().as_millis(), 500);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn plan(self, plan: &'k Plan<A>) -> Self {
        Self { plan: Some(plan.params_for(self.gate.params())), ..self }
    }
}
