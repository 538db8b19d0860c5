//! A limit on a server as a gate of [`tollgate_http`].

#[cfg(test)]
mod tests;

use core::fmt;
use core::fmt::Display;

use http::request;
use tollgate_http::key::Extractor;
use tollgate_http::{
    Gate, GatePermit, OnNoKey, PendingVerdict, Policy, Reading, Reason, Report, ShadowGate, Verdict,
};

use crate::answer::Origin;
use crate::redis_limiter::RedisLimiter;
use crate::remote::Remote;
use crate::with_fallback::WithFallback;

/// A [`WithFallback`] limiter, a key for each request, and a request's cost. It is to a limiter on
/// a server what [`tollgate_http::Limit`] is to a limiter in this process.
///
/// If the limiter knows the answer, for example from a lease, requests do not wait. Otherwise they
/// wait for the server, no longer than the store's deadline. A request that
/// [`Fallback::Deny`](crate::Fallback::Deny) denies is answered with 503, because it may be within
/// the limit.
///
/// ```
/// use tollgate_http::{Policy, RateLimitLayer, key::Header};
/// use tollgate_redis::{Quota, WithFallback, http::RemoteLimit};
///
/// let quota = Quota::per_hour(1_000);
/// let gate = WithFallback::open("redis://127.0.0.1:6379", "hourly", quota, 4)?;
/// let limit = RemoteLimit::new(Policy::new("hourly", &quota)?, gate, Header::new("x-api-key")?);
/// let layer = RateLimitLayer::new(limit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RemoteLimit<E: Extractor, R = RedisLimiter> {
    policy: Policy,
    limiter: WithFallback<R>,
    key: E,
    bytes: fn(&E::Key) -> Vec<u8>,
    cost: Option<Cost>,
    on_no_key: OnNoKey,
}

type Cost = Box<dyn Fn(&request::Parts) -> u64 + Send + Sync>;

impl<E: Extractor<Key: AsRef<[u8]>>, R: Remote> RemoteLimit<E, R> {
    /// Asks `limiter` for one cell of each request's key, which is sent as it is. Limiter and
    /// policy should have the same quota: clients see the policy.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_http::{Policy, key::Header};
    /// # use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store, http::RemoteLimit};
    /// # let quota = Quota::per_second(5);
    /// # let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// # let gate = WithFallback::new(RedisLimiter::builder(&store, "a", quota).build()?, Fallback::Deny);
    /// let limit = RemoteLimit::new(Policy::new("a", &quota)?, gate, Header::new("x-user")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(policy: Policy, limiter: WithFallback<R>, key: E) -> Self {
        Self::with_bytes(policy, limiter, key, |key| key.as_ref().to_vec())
    }
}

impl<E: Extractor<Key: Display>, R: Remote> RemoteLimit<E, R> {
    /// As [`new`](Self::new), for keys that are not bytes, for example addresses. The server
    /// receives their displayed form.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_http::{Policy, key::PeerIp};
    /// # use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store, http::RemoteLimit};
    /// # let quota = Quota::per_second(5);
    /// # let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// # let gate = WithFallback::new(RedisLimiter::builder(&store, "a", quota).build()?, Fallback::Deny);
    /// let limit = RemoteLimit::displayed(Policy::new("a", &quota)?, gate, PeerIp::new());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn displayed(policy: Policy, limiter: WithFallback<R>, key: E) -> Self {
        Self::with_bytes(policy, limiter, key, |key| key.to_string().into_bytes())
    }
}

impl<E: Extractor, R: Remote> RemoteLimit<E, R> {
    fn with_bytes(
        policy: Policy,
        limiter: WithFallback<R>,
        key: E,
        bytes: fn(&E::Key) -> Vec<u8>,
    ) -> Self {
        Self { policy, limiter, key, bytes, cost: None, on_no_key: OnNoKey::default() }
    }

    /// Charges `cost(request)` cells instead of one.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_http::{Policy, key::Header};
    /// # use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store, http::RemoteLimit};
    /// # let quota = Quota::per_second(5);
    /// # let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// # let gate = WithFallback::new(RedisLimiter::builder(&store, "a", quota).build()?, Fallback::Deny);
    /// let limit = RemoteLimit::new(Policy::new("a", &quota)?, gate, Header::new("x-user")?)
    ///     .cost(|request| if request.method == "POST" { 5 } else { 1 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Fn(&request::Parts) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Box::new(cost)), ..self }
    }

    /// Sets the treatment of requests that have no key. The default is [`OnNoKey::Deny`].
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_http::{Policy, OnNoKey, key::Header};
    /// # use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store, http::RemoteLimit};
    /// # let quota = Quota::per_second(5);
    /// # let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// # let gate = WithFallback::new(RedisLimiter::builder(&store, "a", quota).build()?, Fallback::Deny);
    /// let limit = RemoteLimit::new(Policy::new("a", &quota)?, gate, Header::new("x-user")?)
    ///     .on_no_key(OnNoKey::Admit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_no_key(self, choice: OnNoKey) -> Self {
        Self { on_no_key: choice, ..self }
    }

    /// Decides without enforcing: see [`ShadowGate`].
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_http::{Policy, key::Header};
    /// # use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store, http::RemoteLimit};
    /// # let quota = Quota::per_second(5);
    /// # let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// # let gate = WithFallback::new(RedisLimiter::builder(&store, "a", quota).build()?, Fallback::Deny);
    /// let trial = RemoteLimit::new(Policy::new("a", &quota)?, gate, Header::new("x-user")?).shadow();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shadow(self) -> ShadowGate<Self> {
        ShadowGate::new(self)
    }

    /// The limiter, which may be shared.
    pub fn limiter(&self) -> &WithFallback<R> {
        &self.limiter
    }
}

impl<E: Extractor, R: Remote> Gate for RemoteLimit<E, R> {
    fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict {
        let key = match self.key.extract(request) {
            Ok(key) => (self.bytes)(&key),
            Err(error) => return self.on_no_key.decide(error, report),
        };
        let cells = self.cost.as_ref().map_or(1, |cost| cost(request));
        if let Some(answer) = self.limiter.try_check_n(&key, cells) {
            report.note(Reading::of(self.policy.clone(), &answer.decision));
            return match answer.decision {
                Ok(permit) => Verdict::Admit(GatePermit { delay: permit.delay(), charge: None }),
                Err(_) => Verdict::Deny,
            };
        }
        let (limiter, policy) = (self.limiter.clone(), self.policy.clone());
        Verdict::Pending(PendingVerdict::new(async move {
            let answer = limiter.check_n(key, cells).await;
            let mut report = Report::default();
            let ruling = match &answer.decision {
                Ok(permit) => Ok(GatePermit { delay: permit.delay(), charge: None }),
                // Whether the request is over the limit is unknown.
                Err(_) if answer.origin == Origin::Fallback && limiter.denies_when_down() => {
                    return (Err(Reason::Unavailable), report);
                }
                Err(_) => Err(Reason::OverLimit),
            };
            report.note(Reading::of(policy, &answer.decision));
            (ruling, report)
        }))
    }
}

impl<E: Extractor + fmt::Debug, R: fmt::Debug> fmt::Debug for RemoteLimit<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, limiter, key, on_no_key, .. } = self;
        f.debug_struct("RemoteLimit")
            .field("policy", policy)
            .field("limiter", limiter)
            .field("key", key)
            .field("on_no_key", on_no_key)
            .finish_non_exhaustive()
    }
}
