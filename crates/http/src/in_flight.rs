//! A limit of requests in flight: from the decision until the body of the response has ended.

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;
use std::sync::Arc;

use http::{StatusCode, request, response};
use tollgate::Clock;
use tollgate::clock::QuantaClock;
use tollgate::concurrency::{ConcurrencyDenied, ConcurrencyLimiter, OwnedGuard};

use crate::gate::{Charge, Gate, GatePermit, Verdict};
use crate::headers::{Policy, Reading, Report};
use crate::key::Extractor;
use crate::limit::{LimitError, OnNoKey};
use crate::shadow::ShadowGate;

/// A limit of the requests of each key that are in flight.
///
/// A request is in flight from its admission until the body of its response has been sent, has failed, or
/// was dropped because the client left; or until the service returns an error. A request that
/// [waits](crate::LayerBuilder::wait) for its turn by another limit is in flight meanwhile.
///
/// The `RateLimit` fields have the quota unit `concurrent-requests` and no time. A denial has the status
/// 429, and `Retry-After: 1`, since when a request ends is not known. A gRPC response asks for a second, too.
///
/// **Guarantee.** That of [`ConcurrencyLimiter`]: never more of a key than the limit, over all clones of the
/// layer. It costs an allocation for each request.
///
/// **Not guaranteed.** A connection that a response has upgraded (a WebSocket) is in flight no more. A body
/// that the server keeps without polling it stays in flight; let the limiter have a
/// [longest hold](tollgate::concurrency::ConcurrencyBuilder::max_hold) where that may happen.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::{InFlightLimit, Limit, RateLimitLayer, Several, key::PeerIp};
///
/// let layer = RateLimitLayer::new(
///     Several::new()
///         .and(InFlightLimit::per_key("at once", 10, PeerIp::new())?)
///         .and(Limit::gcra("rate", Quota::per_second(100), PeerIp::new())?),
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InFlightLimit<E: Extractor, Q: ?Sized = <E as Extractor>::Key, C = QuantaClock> {
    policy: Policy,
    limiter: Arc<ConcurrencyLimiter<Q, C>>,
    key: E,
    on_no_key: OnNoKey,
}

impl<E: Extractor> InFlightLimit<E>
where
    E::Key: Hash + 'static,
{
    /// A limit of `limit` requests in flight for each key, with the limiter's defaults.
    ///
    /// # Errors
    ///
    /// The name does not fit the `RateLimit` fields, or the limit is out of range.
    ///
    /// ```
    /// use tollgate_http::{InFlightLimit, key::PeerIp};
    /// assert!(InFlightLimit::per_key("at once", 10, PeerIp::new()).is_ok());
    /// assert!(InFlightLimit::per_key("at once", 0, PeerIp::new()).is_err());
    /// ```
    pub fn per_key(name: &str, limit: u64, key: E) -> Result<Self, LimitError> {
        let policy = Policy::of_requests_in_flight(name, limit).map_err(LimitError::Name)?;
        let limiter = ConcurrencyLimiter::builder(limit).build().map_err(LimitError::InFlight)?;
        Ok(Self::new(policy, Arc::new(limiter), key))
    }
}

impl<E, Q, C> InFlightLimit<E, Q, C>
where
    E: Extractor<Key: Borrow<Q>>,
    Q: Hash + ?Sized + 'static,
    C: Clock + Send + Sync + 'static,
{
    /// Counts each request in `limiter`. Limiter and policy should have the same limit: the `RateLimit`
    /// fields show the policy.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::concurrency::ConcurrencyLimiter;
    /// use tollgate_http::{InFlightLimit, Policy, key::Header};
    ///
    /// let limiter: ConcurrencyLimiter<str> =
    ///     ConcurrencyLimiter::builder(4).max_hold(Duration::from_secs(600)).build()?;
    /// let policy = Policy::of_requests_in_flight("per key", 4)?;
    /// let limit = InFlightLimit::new(policy, Arc::new(limiter), Header::new("x-api-key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(policy: Policy, limiter: Arc<ConcurrencyLimiter<Q, C>>, key: E) -> Self {
        Self { policy, limiter, key, on_no_key: OnNoKey::default() }
    }

    /// Sets the treatment of requests that have no key; the default is [`OnNoKey::Deny`].
    #[must_use]
    pub fn on_no_key(self, choice: OnNoKey) -> Self {
        Self { on_no_key: choice, ..self }
    }

    /// Puts the limit in shadow: see [`ShadowGate`]. It still counts the requests that it would admit.
    pub fn shadow(self) -> ShadowGate<Self> {
        ShadowGate::new(self)
    }

    /// The limiter. Others may share it, and its limit may be changed.
    pub fn limiter(&self) -> &Arc<ConcurrencyLimiter<Q, C>> {
        &self.limiter
    }

    fn denied(&self, denied: ConcurrencyDenied) -> Reading {
        let remaining = denied.limit().saturating_sub(denied.in_flight());
        let remaining = if denied.found_no_slot() { 0 } else { remaining };
        let reading = Reading::new(self.policy.clone(), denied.limit(), remaining);
        Reading { denied: true, retry_after: Some(Duration::ZERO), ..reading }
    }
}

impl<E, Q, C> Gate for InFlightLimit<E, Q, C>
where
    E: Extractor<Key: Borrow<Q>>,
    Q: Hash + ?Sized + 'static,
    C: Clock + Send + Sync + 'static,
{
    fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict {
        let key = match self.key.extract(request) {
            Ok(key) => key,
            Err(error) => return self.on_no_key.decide(error, report),
        };
        match self.limiter.ask(key.borrow()).enter_owned(&self.limiter) {
            Ok(guard) => {
                let limit = self.limiter.limit();
                let remaining = limit.saturating_sub(guard.in_flight());
                report.note(Reading::new(self.policy.clone(), limit, remaining));
                let charge: Option<Box<dyn Charge>> = Some(Box::new(InFlightCharge(guard)));
                Verdict::Admit(GatePermit { charge, ..GatePermit::default() })
            }
            Err(denied) => {
                report.note(self.denied(denied));
                Verdict::Deny
            }
        }
    }

    fn peek(&self, request: &request::Parts, _: u64, report: &mut Report) {
        let Some(key) = self.on_no_key.peek(self.key.extract(request), report) else { return };
        if let Err(denied) = self.limiter.ask(key.borrow()).peek() {
            report.note(self.denied(denied));
        }
    }
}

/// A request in flight. Dropping it, wherever that happens, ends it.
struct InFlightCharge<Q: ?Sized + Hash, C: Clock>(OwnedGuard<ConcurrencyLimiter<Q, C>>);

impl<Q, C> Charge for InFlightCharge<Q, C>
where
    Q: Hash + ?Sized + 'static,
    C: Clock + Send + Sync + 'static,
{
    fn refund(self: Box<Self>) {}

    /// Stays until the body has ended. After an upgrade, a server may keep the other protocol as the body.
    fn answered(self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>> {
        (response.status != StatusCode::SWITCHING_PROTOCOLS).then_some(self as Box<dyn Charge>)
    }

    fn sent(self: Box<Self>, _: u64) {}
}

impl<Q: ?Sized + Hash, C: Clock> fmt::Debug for InFlightCharge<Q, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightCharge").field(&self.0).finish()
    }
}

impl<E: Extractor + fmt::Debug, Q: ?Sized, C> fmt::Debug for InFlightLimit<E, Q, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightLimit")
            .field("policy", &self.policy)
            .field("key", &self.key)
            .field("on_no_key", &self.on_no_key)
            .finish_non_exhaustive()
    }
}
