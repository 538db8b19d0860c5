//! Limits whose quota depends on the request.

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

use http::request;
use tollgate::algorithm::Algorithm;
use tollgate::plan::{Plan, Plannable};
use tollgate::{Clock, Gcra, Quota, QuotaError};

use super::{Asked, Limit};
use crate::headers::Policy;
use crate::key::Extractor;

/// A quota that some requests of a [`Limit`] go by instead of the limit's own: made by [`Limit::plan`],
/// used by [`Limit::plans`].
///
/// It is a [`Plan`] and the [`Policy`] that the response shows. Clones share the policy's text.
pub struct LimitPlan<A: Algorithm = Gcra> {
    policy: Policy,
    plan: Plan<A>,
}

impl<A: Algorithm> LimitPlan<A> {
    /// The limit's name with the plan's quota.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

impl<E, Q, A, C> Limit<E, Q, A, C>
where
    E: Extractor<Key: Borrow<Q>>,
    Q: Hash + ?Sized,
    A: Plannable,
    C: Clock + Send + Sync,
{
    /// A quota for some of the requests, in the table of the limit's limiter: see [`Plan`].
    ///
    /// # Errors
    ///
    /// The quota is out of range, or the states of the limiter cannot represent it; the error says what to
    /// do. Build the limiter with the fastest quota there is, and
    /// [for plans](tollgate::Gcra::for_plans).
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// assert!(limit.plan(Quota::per_second(5)).is_ok());
    /// assert!(limit.plan(Quota::per_second(300_000)).is_err());
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn plan(&self, quota: Quota) -> Result<LimitPlan<A>, QuotaError> {
        Ok(LimitPlan { policy: self.policy.with_quota(&quota), plan: self.limiter.plan(quota)? })
    }

    /// Decides about a request by the plan that `plan` finds; by the limit's own quota if it finds none.
    /// It is called for requests that have a key. The response shows the plan's quota.
    ///
    /// A key should have one plan at a time. If that changes, the key keeps its debt or its count: see
    /// [`Plan`].
    ///
    /// # Panics
    ///
    /// A request panics, and nothing is charged, if its plan is of a limiter that counts time in other
    /// units.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Gcra, Limiter, Quota};
    /// use tollgate_http::key::Header;
    /// use tollgate_http::{Limit, Policy};
    ///
    /// // The fastest quota that any tenant has.
    /// let fastest = Quota::per_second(100);
    /// let limiter: Limiter<str> =
    ///     Limiter::builder(fastest).algorithm(Gcra::new().for_plans()).build()?;
    /// let policy = Policy::new("per tenant", &fastest)?;
    /// let limit = Limit::new(policy, Arc::new(limiter), Header::new("x-tenant")?);
    /// let (gold, free) = (limit.plan(Quota::per_second(50))?, limit.plan(Quota::per_minute(10))?);
    /// // The gateway has verified this field.
    /// let limit = limit.plans(move |request| match request.headers.get("x-plan") {
    ///     Some(plan) if plan == "gold" => Some(gold.clone()),
    ///     _ => Some(free.clone()),
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn plans<F>(self, plan: F) -> Self
    where
        F: Fn(&request::Parts) -> Option<LimitPlan<A>> + Send + Sync + 'static,
    {
        let set: SetPlan<Q, A, C> = |ask, plan| ask.plan(&plan.plan);
        Self { plans: Some(Plans { find: Box::new(plan), set }), ..self }
    }
}

type FindPlan<A> = Box<dyn Fn(&request::Parts) -> Option<LimitPlan<A>> + Send + Sync>;
type SetPlan<Q, A, C> = for<'a> fn(Asked<'a, Q, A, C>, &'a LimitPlan<A>) -> Asked<'a, Q, A, C>;

/// The plans of a limit: how a request's is found, and how a request to the limiter takes it.
pub(super) struct Plans<Q: ?Sized, A: Algorithm, C> {
    find: FindPlan<A>,
    /// A limit of any algorithm may call it; only one of an algorithm with plans makes it.
    set: SetPlan<Q, A, C>,
}

impl<Q: Hash + ?Sized, A: Algorithm, C: Clock> Plans<Q, A, C> {
    pub(super) fn plan_for(&self, request: &request::Parts) -> Option<LimitPlan<A>> {
        (self.find)(request)
    }

    pub(super) fn set<'a>(
        &self,
        ask: Asked<'a, Q, A, C>,
        plan: &'a LimitPlan<A>,
    ) -> Asked<'a, Q, A, C> {
        (self.set)(ask, plan)
    }
}

impl<A: Algorithm> Clone for LimitPlan<A> {
    fn clone(&self) -> Self {
        Self { policy: self.policy.clone(), plan: self.plan.clone() }
    }
}

impl<A: Algorithm> fmt::Debug for LimitPlan<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitPlan").field("policy", &self.policy).finish_non_exhaustive()
    }
}
