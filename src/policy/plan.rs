//! Quotas that differ from key to key.

use core::fmt;
use core::hash::Hash;

use crate::algo::{Algorithm, PerKey, StateMachine};
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::quota::{Quota, QuotaError};
use crate::time::{Clock, Tick};

/// A quota that some keys of a [`Limiter`] have instead of the limiter's own: made by
/// [`Limiter::plan`], used by [`Limiter::check_with`].
///
/// What a key's state holds is absolute time, or a plain count, so the quota may come with the call,
/// and keys of all plans share one table. A plan is checked once, when it is made, and costs a
/// decision nothing. It is for that limiter only.
///
/// **Guarantee.** A key that is always asked for with the same plan is granted what a limiter of that
/// quota grants. A token bucket's rate may be rounded, down, by a thousandth at most: its states count
/// time in the units of the limiter's own quota. If the plan of a key changes from one request to the
/// next, nothing is lost: with [`Gcra`](crate::Gcra) the time stays that its debt takes to be paid,
/// with [`FixedWindow`](crate::FixedWindow) the count and the end of the window.
///
/// **Not guaranteed.**
///
/// - [`reserve`](Limiter::reserve), [`drain`](Limiter::drain), [leases](crate::lease::LocalLease) and the rest go
///   by the limiter's own quota.
/// - A rate above the limiter's own, or a burst that takes far longer to come back, may be denied when
///   the plan is made: build the limiter with the fastest quota there is, and
///   [for plans](crate::Gcra::for_plans).
///
/// ```
/// use tollgate::{Gcra, Limiter, Quota};
///
/// // The most that anybody may; most keys have less.
/// let gate: Limiter<str> =
///     Limiter::builder(Quota::per_second(100)).algorithm(Gcra::new().for_plans()).build()?;
/// let free = gate.plan(Quota::per_minute(10))?;
/// let gold = gate.plan(Quota::per_second(50).burst(80))?;
/// let plan_of = |tenant: &str| if tenant.starts_with("gold") { &gold } else { &free };
///
/// assert_eq!(gate.check_with("gold-7", plan_of("gold-7"))?.remaining(), 79);
/// assert_eq!(gate.check_with("somebody", plan_of("somebody"))?.remaining(), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plan<A: Algorithm> {
    params: A::Params,
    quota: Quota,
}

impl<A: Algorithm> Plan<A> {
    /// The quota, as given.
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota};
    /// let gate: Limiter<str> =
    ///     Limiter::builder(Quota::per_second(100)).algorithm(Gcra::new().for_plans()).build()?;
    /// assert_eq!(gate.plan(Quota::per_minute(10))?.quota(), Quota::per_minute(10));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.quota
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

impl<K: Hash + ?Sized, A: Algorithm<Params: PerKey>, C: Clock> Limiter<K, A, C> {
    /// A quota for some of the keys: see [`Plan`].
    ///
    /// # Errors
    ///
    /// The quota is out of range, or cannot be told by the states of this limiter; the error says
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

    /// Asks for one cell for `key`, now, by the quota of a [`Plan`].
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// # Panics
    ///
    /// If the plan is of a limiter that counts time in other units.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_minute(10)).build()?;
    /// let strict = gate.plan(Quota::per_minute(1))?;
    /// assert!(gate.check_with("a", &strict).is_ok());
    /// assert!(gate.check_with("a", &strict).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_with(&self, key: &K, plan: &Plan<A>) -> Decision {
        self.check_with_at(key, plan, 1, self.clock().now())
    }

    /// Asks for `n` cells for `key` at once, at the instant `now`, by the quota of a [`Plan`]: as
    /// [`check_at`](Self::check_at).
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// # Panics
    ///
    /// If the plan is of a limiter that counts time in other units.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// let (one, two) = (gate.plan(Quota::per_second(1))?, gate.plan(Quota::per_second(2))?);
    /// assert!(gate.check_with_at("a", &one, 1, Tick::ZERO).is_ok());
    /// // What it owes takes a second to be paid, whatever the plan.
    /// let denied = gate.check_with_at("a", &two, 1, Tick::ZERO).unwrap_err();
    /// assert_eq!(denied.retry_after().unwrap().as_millis(), 500);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_with_at(&self, key: &K, plan: &Plan<A>, n: u64, now: Tick) -> Decision {
        self.assert_own(plan);
        let (probe, lookup) = self.look_up(key);
        self.decide_by(&plan.params, probe, lookup, n, now)
    }

    /// What [`check_with_at`](Self::check_with_at) would answer, without charging anything.
    ///
    /// # Errors
    ///
    /// The denial that it would give.
    ///
    /// # Panics
    ///
    /// If the plan is of a limiter that counts time in other units.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// let plan = gate.plan(Quota::per_second(3))?;
    /// assert_eq!(gate.peek_with_at("a", &plan, 0, Tick::ZERO).unwrap().remaining(), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek_with_at(&self, key: &K, plan: &Plan<A>, n: u64, now: Tick) -> Decision {
        self.assert_own(plan);
        self.peek_by(&plan.params, self.probe(key), n, now)
    }

    #[inline]
    fn assert_own(&self, plan: &Plan<A>) {
        let (its, own) = (plan.params.grid(), self.params().grid());
        assert!(its.counts_as(own), "a plan is for the limiter that made it");
    }
}
