//! A limiter with penalties as a [`Gate`]: responses that are failures ban the key.

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;
use std::sync::Arc;

use http::{request, response};
use tollgate::algorithm::Algorithm;
use tollgate::clock::QuantaClock;
use tollgate::penalty::{Penalties, PenaltyDenied};
use tollgate::{Clock, Gcra};

use crate::gate::{Charge, Gate, GatePermit, Verdict};
use crate::headers::{Policy, Reading, Report};
use crate::key::Extractor;
use crate::limit::{OnNoKey, comes_too_late, denial};

type IsFailure = dyn Fn(&response::Parts) -> bool + Send + Sync;

/// A limiter that bans keys whose requests fail: after three wrong passwords, the client is denied for
/// a while. It has a key for each request, and a function that tells which responses are failures.
///
/// A request costs one cell. While its key is banned it is denied. `Retry-After` is then the end of the
/// ban, or the time until the limiter has a cell for the key if that is later. The problem type of that
/// denial is `abnormal-usage-detected`. Each failure is a strike of the key. So is each denial, unless the
/// penalties count [failures only](tollgate::penalty::PenaltiesBuilder::failures_only).
///
/// A handler that answers every request with 200 can mark a failure with a value of its own in the
/// extensions of the response. A handler can also share the [`Penalties`] and call
/// [`strike`](Penalties::strike) itself.
///
/// **Not guaranteed.**
///
/// - Requests in flight are all admitted before the first of them fails. Only the limiter bounds their
///   number, so give it a small burst.
/// - A request whose future is dropped before its response is no failure.
/// - Over a limiter that delays requests, a denial because the turn comes too late is a strike too, also where other
///   keys fill the queue: count [failures only](tollgate::penalty::PenaltiesBuilder::failures_only) there.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use axum::body::Body;
/// use axum::extract::Request;
/// use http::StatusCode;
/// use tollgate::penalty::Penalties;
/// use tollgate::{Limiter, Quota};
/// use tollgate_http::key::Header;
/// use tollgate_http::{Penalized, Policy, RateLimitLayer};
/// use tower::ServiceExt;
///
/// // Ten tries a minute. Three wrong passwords within a minute: banned for ten minutes.
/// let quota = Quota::per_minute(10);
/// let limiter: Limiter<str> = Limiter::builder(quota).build()?;
/// let penalties = Penalties::builder(limiter, Quota::per_minute(3), Duration::from_secs(600))
///     .failures_only()
///     .build()?;
/// let gate = Penalized::new(
///     Policy::new("login", &quota)?,
///     Arc::new(penalties),
///     Header::new("x-user")?,
///     |response| response.status == StatusCode::UNAUTHORIZED,
/// );
///
/// async fn login(password: String) -> StatusCode {
///     if password == "correct horse" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
/// }
/// let app = axum::Router::new()
///     .route("/login", axum::routing::post(login))
///     .layer(RateLimitLayer::new(gate));
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let post = async |user, password: &'static str| {
///     let request = Request::post("/login").header("x-user", user).body(Body::from(password));
///     app.clone().oneshot(request.expect("a request")).await.expect("infallible").status().as_u16()
/// };
/// for wrong in ["swordfish", "123456", "letmein"] {
///     assert_eq!(post("ada", wrong).await, 401);
/// }
/// assert_eq!(post("ada", "correct horse").await, 429);
/// assert_eq!(post("bob", "correct horse").await, 200);
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Penalized<
    E: Extractor,
    Q: ?Sized = <E as Extractor>::Key,
    A: Algorithm = Gcra,
    C = QuantaClock,
> {
    policy: Policy,
    penalties: Arc<Penalties<Q, A, C>>,
    key: E,
    is_failure: Arc<IsFailure>,
    on_no_key: OnNoKey,
}

impl<E, Q, A, C> Penalized<E, Q, A, C>
where
    E: Extractor<Key: Borrow<Q> + Send + 'static>,
    Q: Hash + ?Sized + 'static,
    A: Algorithm + 'static,
    C: Clock + Send + Sync + 'static,
{
    /// Charges a cell of `penalties` for each request, and a strike for each response for which
    /// `is_failure` returns `true`. Limiter and policy should have the same quota: the `RateLimit` fields
    /// show the policy.
    ///
    /// ```
    /// # use std::{net::IpAddr, sync::Arc, time::Duration};
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # use tollgate_http::{Penalized, Policy, key::PeerIp};
    /// let quota = Quota::per_second(5);
    /// let limiter: Limiter<IpAddr> = Limiter::builder(quota).build()?;
    /// let penalties =
    ///     Penalties::builder(limiter, Quota::per_minute(20), Duration::from_secs(60)).build()?;
    /// let policy = Policy::new("scans", &quota)?;
    /// let gate = Penalized::new(policy, Arc::new(penalties), PeerIp::new(), |response| {
    ///     response.status == http::StatusCode::NOT_FOUND
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new<F>(policy: Policy, penalties: Arc<Penalties<Q, A, C>>, key: E, is_failure: F) -> Self
    where
        F: Fn(&response::Parts) -> bool + Send + Sync + 'static,
    {
        let (is_failure, on_no_key) = (Arc::new(is_failure), OnNoKey::default());
        Self { policy, penalties, key, is_failure, on_no_key }
    }

    /// Sets the treatment of requests that have no key; the default is [`OnNoKey::Deny`].
    ///
    /// ```
    /// # use std::{net::IpAddr, sync::Arc, time::Duration};
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # use tollgate_http::{Penalized, Policy, OnNoKey, key::PeerIp};
    /// # let quota = Quota::per_second(5);
    /// # let limiter: Limiter<IpAddr> = Limiter::builder(quota).build()?;
    /// # let penalties =
    /// #     Penalties::builder(limiter, Quota::per_minute(20), Duration::from_secs(60)).build()?;
    /// # let policy = Policy::new("scans", &quota)?;
    /// let gate = Penalized::new(policy, Arc::new(penalties), PeerIp::new(), |_| false)
    ///     .on_no_key(OnNoKey::Admit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_no_key(self, choice: OnNoKey) -> Self {
        Self { on_no_key: choice, ..self }
    }

    /// The limiter with its penalties. Others may share it.
    pub fn penalties(&self) -> &Arc<Penalties<Q, A, C>> {
        &self.penalties
    }

    /// When the ban ends, the limiter may still lack a cell, or delay the request for too long, so its own wait counts
    /// too.
    fn banned(&self, key: &Q, ends_in: Duration, max_delay: Duration) -> Reading {
        let ask = self.penalties.limiter().ask(key).max_delay(max_delay);
        let own_wait = match ask.peek() {
            Ok(_) => Some(Duration::ZERO),
            Err(denied) => denied.retry_after(),
        };
        let (limit, own_reset) = match ask.cells(0).peek() {
            Ok(permit) => (permit.limit(), permit.reset_after()),
            Err(denied) => (denied.limit(), denied.reset_after()),
        };
        Reading {
            reset_after: own_reset.max(ends_in),
            denied: true,
            banned: true,
            retry_after: own_wait.map(|wait| wait.max(ends_in)),
            ..Reading::new(self.policy.clone(), limit, 0)
        }
    }
}

impl<E, Q, A, C> Gate for Penalized<E, Q, A, C>
where
    E: Extractor<Key: Borrow<Q> + Send + 'static>,
    Q: Hash + ?Sized + 'static,
    A: Algorithm + 'static,
    C: Clock + Send + Sync + 'static,
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
        let max_delay = self.policy.time_of(max_waiting);
        match self.penalties.ask(key.borrow()).max_delay(max_delay).check() {
            Ok(permit) => {
                report.note(Reading::of(self.policy.clone(), &Ok(permit)));
                let (penalties, is_failure) = (Arc::clone(&self.penalties), &self.is_failure);
                let strike = PendingStrike { penalties, key, is_failure: Arc::clone(is_failure) };
                Verdict::Admit(GatePermit { delay: permit.delay(), charge: Some(Box::new(strike)) })
            }
            Err(PenaltyDenied::Limited(denied)) => {
                report.note(denial(&self.policy, &denied, 1));
                if comes_too_late(&denied, 1) { Verdict::QueueFull } else { Verdict::Deny }
            }
            Err(PenaltyDenied::Banned(ban)) => {
                report.note(self.banned(key.borrow(), ban.ends_in(), max_delay));
                Verdict::Deny
            }
        }
    }

    fn peek(&self, request: &request::Parts, max_waiting: u64, report: &mut Report) {
        let Some(key) = self.on_no_key.peek(self.key.extract(request), report) else { return };
        let max_delay = self.policy.time_of(max_waiting);
        if let Some(ends_in) = self.penalties.banned(key.borrow()) {
            return report.note(self.banned(key.borrow(), ends_in, max_delay));
        }
        let ask = self.penalties.limiter().ask(key.borrow()).max_delay(max_delay);
        if let Err(denied) = ask.peek() {
            report.note(denial(&self.policy, &denied, 1));
        }
    }
}

impl<E, Q, A, C> fmt::Debug for Penalized<E, Q, A, C>
where
    E: Extractor + fmt::Debug,
    Q: ?Sized,
    A: Algorithm,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Penalized")
            .field("policy", &self.policy)
            .field("key", &self.key)
            .field("on_no_key", &self.on_no_key)
            .finish_non_exhaustive()
    }
}

/// A request that was admitted, until its response is known to be a failure or not.
struct PendingStrike<K, Q: ?Sized, A: Algorithm, C> {
    penalties: Arc<Penalties<Q, A, C>>,
    key: K,
    is_failure: Arc<IsFailure>,
}

impl<K, Q, A, C> Charge for PendingStrike<K, Q, A, C>
where
    K: Borrow<Q> + Send + 'static,
    Q: Hash + ?Sized + 'static,
    A: Algorithm + 'static,
    C: Clock + Send + Sync + 'static,
{
    /// The cell stays charged, because not every algorithm can refund.
    fn refund(self: Box<Self>) {}

    fn answered(self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>> {
        if (self.is_failure)(response) {
            let _ = self.penalties.strike(self.key.borrow());
        }
        None
    }

    fn sent(self: Box<Self>, _: u64) {}
}

impl<K, Q: ?Sized, A: Algorithm, C> fmt::Debug for PendingStrike<K, Q, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingStrike").finish_non_exhaustive()
    }
}
