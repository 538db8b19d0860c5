//! One limiter as a [`Gate`]: key and cost come from the request, and the response may settle the cost.

mod error;
mod on_no_key;
mod plan;
mod settle;

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;
use std::sync::Arc;

use http::request;
use tollgate::algorithm::Algorithm;
use tollgate::clock::QuantaClock;
use tollgate::reservation::Chargeable;
use tollgate::{Ask, Clock, Denied, Gcra, Limiter, Permit, Quota};

use crate::gate::{Charge, Gate, GatePermit, Verdict};
use crate::headers::{Policy, Reading, Report};
use crate::key::Extractor;
use crate::shadow::ShadowGate;
pub use error::LimitError;
pub use on_no_key::OnNoKey;
pub use plan::LimitPlan;
use plan::Plans;
use settle::{Settle, reserve};

/// A limiter, a key for each request, and what a request costs.
///
/// The limiter's key type is one that the request's key can be borrowed as: `Limiter<IpAddr>` for
/// addresses, `Limiter<str>` for a [`Header`](crate::key::Header).
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{FixedWindow, Limiter, Quota};
/// use tollgate_http::key::Header;
/// use tollgate_http::{Limit, Policy};
///
/// let quota = Quota::per_hour(1_000);
/// let limiter: Arc<Limiter<str, FixedWindow>> = Arc::new(
///     Limiter::builder(quota).algorithm(FixedWindow::anchored()).build()?,
/// );
/// let limit = Limit::new(Policy::new("hourly", &quota)?, limiter, Header::new("x-api-key")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limit<
    E: Extractor,
    Q: ?Sized = <E as Extractor>::Key,
    A: Algorithm = Gcra,
    C = QuantaClock,
> {
    policy: Policy,
    limiter: Arc<Limiter<Q, A, C>>,
    key: E,
    estimate: Option<Estimate>,
    on_no_key: OnNoKey,
    plans: Option<Plans<Q, A, C>>,
    charge: ChargeFn<Q, A, C>,
    settle: Settle,
}

type Estimate = Box<dyn Fn(&request::Parts) -> u64 + Send + Sync>;

/// How cells are charged: see [`charge`] and [`reserve`].
type ChargeFn<Q, A, C> =
    fn(Asked<'_, Q, A, C>, &Arc<Limiter<Q, A, C>>, &Settle) -> Result<Charged, Denied>;

/// A request to the limiter, with its cells, its plan and its longest wait.
type Asked<'a, Q, A, C> = Ask<'a, 'a, Limiter<Q, A, C>>;

/// Cells that were charged, and what is left.
struct Charged {
    limit: u64,
    remaining: u64,
    reset_after: Duration,
    delay: Duration,
    charge: Option<Box<dyn Charge>>,
}

impl<E: Extractor> Limit<E>
where
    E::Key: Hash,
{
    /// A limit by a token bucket ([`Gcra`]) of `quota` for each key, with the limiter's defaults.
    ///
    /// # Errors
    ///
    /// The name does not fit the `RateLimit` fields, or the quota is out of range.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_http::{Limit, key::PeerIp};
    /// let limit = Limit::gcra("per-client", Quota::per_second(10).burst(20), PeerIp::new())?;
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn gcra(name: &str, quota: Quota, key: E) -> Result<Self, LimitError> {
        let policy = Policy::new(name, &quota).map_err(LimitError::Name)?;
        let limiter = Limiter::builder(quota).build().map_err(LimitError::Limiter)?;
        Ok(Self::new(policy, Arc::new(limiter), key))
    }
}

impl<E, Q, A, C> Limit<E, Q, A, C>
where
    E: Extractor<Key: Borrow<Q>>,
    Q: Hash + ?Sized,
    A: Algorithm,
    C: Clock + Send + Sync,
{
    /// Charges a cell of `limiter` for each request. Limiter and policy should have the same quota: the
    /// `RateLimit` fields show the policy.
    ///
    /// ```
    /// # use std::{net::IpAddr, sync::Arc};
    /// # use tollgate::{Limiter, Quota};
    /// # use tollgate_http::{Limit, Policy, key::PeerIp};
    /// let quota = Quota::per_second(10);
    /// let limiter: Arc<Limiter<IpAddr>> = Arc::new(Limiter::builder(quota).build()?);
    /// let limit = Limit::new(Policy::new("a", &quota)?, Arc::clone(&limiter), PeerIp::new());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(policy: Policy, limiter: Arc<Limiter<Q, A, C>>, key: E) -> Self {
        let on_no_key = OnNoKey::default();
        let settle = Settle::Never;
        Self { policy, limiter, key, estimate: None, on_no_key, plans: None, charge, settle }
    }

    /// Charges `cost(request)` cells instead of one. A request that costs 0 is never denied, so let a cost that
    /// clients can choose be at least 1.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?
    ///     .cost(|request| if request.method == http::Method::POST { 5 } else { 1 });
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Fn(&request::Parts) -> u64 + Send + Sync + 'static) -> Self {
        Self { estimate: Some(Box::new(cost)), ..self }
    }

    /// Sets the treatment of requests that have no key; the default is [`OnNoKey::Deny`].
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, OnNoKey, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?
    ///     .on_no_key(OnNoKey::Admit);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn on_no_key(self, choice: OnNoKey) -> Self {
        Self { on_no_key: choice, ..self }
    }

    /// Puts the limit in shadow: see [`ShadowGate`].
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// let shadow = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?.shadow();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn shadow(self) -> ShadowGate<Self> {
        ShadowGate::new(self)
    }

    /// The limiter. Others may share it.
    pub fn limiter(&self) -> &Arc<Limiter<Q, A, C>> {
        &self.limiter
    }
}

impl<E, Q, A, C> Limit<E, Q, A, C>
where
    E: Extractor<Key: Borrow<Q>>,
    Q: Hash + ?Sized + 'static,
    A: Algorithm + 'static,
    C: Clock + Send + Sync + 'static,
    Limiter<Q, A, C>: Chargeable,
{
    /// Refunds cells if another of [`Several`](crate::Several) limits denies the request. It costs an
    /// allocation and a second lookup for each request.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?.refundable();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn refundable(self) -> Self {
        Self { charge: reserve, ..self }
    }

    /// Settles by the head of the response: the request costs `actual(response)` cells instead of the
    /// estimate of [`cost`](Self::cost). If it costs more, the rest is charged even over the limit. If
    /// it costs less, the difference is refunded, as far as time has not restored it.
    ///
    /// If there is no response, the estimate stays charged.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// // Only failures count.
    /// let limit = Limit::gcra("failed", Quota::per_minute(10), PeerIp::new())?
    ///     .settle(|response| u64::from(!response.status.is_success()));
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn settle<F>(self, actual: F) -> Self
    where
        F: Fn(&http::response::Parts) -> u64 + Send + Sync + 'static,
    {
        Self { charge: reserve, settle: Settle::Head(Arc::new(actual)), ..self }
    }

    /// Settles by the bytes of the response's body: the request costs `actual(bytes)` cells instead of
    /// the estimate of [`cost`](Self::cost). If it costs more, the rest is charged even over the limit.
    /// If it costs less, the difference is refunded, as far as time has not restored it. Bytes count as
    /// sent when the server takes them from the body.
    ///
    /// | body | cells |
    /// |---|---|
    /// | sent to its end; or empty, as with 204 and 304 | `actual(bytes)`; 0 bytes if it is empty |
    /// | failed, or the client left | `actual(bytes)` of the bytes sent, but at least the estimate |
    /// | none to count: `HEAD`, `CONNECT`, an upgrade (101) | the estimate |
    /// | no response | the estimate |
    ///
    /// So a client that leaves early never pays less than the estimate. If empty responses should cost
    /// something, let `actual` return it: `|bytes| bytes.max(100)`.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// // A cell is a byte; a request must have 1,000 to begin with.
    /// let limit = Limit::gcra("volume", Quota::per_minute(1_000_000), PeerIp::new())?
    ///     .cost(|_| 1_000)
    ///     .settle_bytes(|bytes| bytes);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn settle_bytes(self, actual: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self { charge: reserve, settle: Settle::Bytes(Arc::new(actual)), ..self }
    }
}

impl<E, Q, A, C> Gate for Limit<E, Q, A, C>
where
    E: Extractor<Key: Borrow<Q>>,
    Q: Hash + ?Sized,
    A: Algorithm,
    C: Clock + Send + Sync,
{
    fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict {
        self.decide_queued(request, u64::MAX, report)
    }

    fn decide_queued(
        &self,
        request: &request::Parts,
        max_waiting: u64,
        report: &mut Report,
    ) -> Verdict {
        let key = match self.key.extract(request) {
            Ok(key) => key,
            Err(error) => return self.on_no_key.decide(error, report),
        };
        let plan = self.plan_for(request);
        let policy = plan.as_ref().map_or(&self.policy, LimitPlan::policy);
        let cells = self.cells_of(request);
        let ask = self.ask(key.borrow(), plan.as_ref(), cells, policy.time_of(max_waiting));
        match (self.charge)(ask, &self.limiter, self.settle.of(request)) {
            Ok(Charged { limit, remaining, reset_after, delay, charge }) => {
                let reading = Reading::new(policy.clone(), limit, remaining);
                report.note(Reading { reset_after, delay, ..reading });
                Verdict::Admit(GatePermit { delay, charge })
            }
            Err(denied) => {
                report.note(denial(policy, &denied, cells));
                if comes_too_late(&denied, cells) { Verdict::QueueFull } else { Verdict::Deny }
            }
        }
    }

    fn peek(&self, request: &request::Parts, max_waiting: u64, report: &mut Report) {
        let Some(key) = self.on_no_key.peek(self.key.extract(request), report) else { return };
        let plan = self.plan_for(request);
        let policy = plan.as_ref().map_or(&self.policy, LimitPlan::policy);
        let max_delay = policy.time_of(max_waiting);
        let cells = self.cells_of(request);
        if let Err(denied) = self.ask(key.borrow(), plan.as_ref(), cells, max_delay).peek() {
            report.note(denial(policy, &denied, cells));
        }
    }
}

impl<E: Extractor, Q: Hash + ?Sized, A: Algorithm, C: Clock> Limit<E, Q, A, C> {
    fn cells_of(&self, request: &request::Parts) -> u64 {
        self.estimate.as_ref().map_or(1, |cost| cost(request))
    }

    fn plan_for(&self, request: &request::Parts) -> Option<LimitPlan<A>> {
        self.plans.as_ref()?.plan_for(request)
    }

    fn ask<'a>(
        &'a self,
        key: &'a Q,
        plan: Option<&'a LimitPlan<A>>,
        cells: u64,
        max_delay: Duration,
    ) -> Asked<'a, Q, A, C> {
        let ask = self.limiter.ask(key).cells(cells).max_delay(max_delay);
        match (&self.plans, plan) {
            (Some(plans), Some(plan)) => plans.set(ask, plan),
            _ => ask,
        }
    }
}

/// Whether the key has the cells, and only its turn in the queue would come too late.
pub(crate) fn comes_too_late(denied: &Denied, cells: u64) -> bool {
    denied.remaining() >= cells
}

/// The reading of a denial. A queue that no request may join now has no cells left for the client.
pub(crate) fn denial(policy: &Policy, denied: &Denied, cells: u64) -> Reading {
    let reading = Reading::of_denial(policy.clone(), denied);
    let remaining = if comes_too_late(denied, cells) { 0 } else { reading.remaining };
    Reading { remaining, ..reading }
}

/// Charges cells without a later settlement.
fn charge<Q, A, C>(
    ask: Asked<'_, Q, A, C>,
    _: &Arc<Limiter<Q, A, C>>,
    _: &Settle,
) -> Result<Charged, Denied>
where
    Q: Hash + ?Sized,
    A: Algorithm,
    C: Clock,
{
    let permit: Permit = ask.check()?;
    Ok(Charged {
        limit: permit.limit(),
        remaining: permit.remaining(),
        reset_after: permit.reset_after(),
        delay: permit.delay(),
        charge: None,
    })
}

impl<E, Q, A, C> fmt::Debug for Limit<E, Q, A, C>
where
    E: Extractor + fmt::Debug,
    Q: ?Sized,
    A: Algorithm,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, key, on_no_key, settle, .. } = self;
        f.debug_struct("Limit")
            .field("policy", policy)
            .field("key", key)
            .field("on_no_key", on_no_key)
            .field("settle", settle)
            .finish_non_exhaustive()
    }
}
