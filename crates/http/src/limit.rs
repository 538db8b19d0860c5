//! One limiter as a [`Gate`]: key from the request, cost from the request, settled by the response.

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;
use std::sync::Arc;

use http::request;
use tollgate::algorithm::Algorithm;
use tollgate::clock::QuantaClock;
use tollgate::internals::Refund;
use tollgate::{BuildError, Clock, Denied, Gcra, Limiter, Permit, Quota};

use crate::gate::{Admission, Charge, Gate, Reading, Report, Verdict};
use crate::key::{Extractor, KeyError};
use crate::policy::{Policy, PolicyError};
use crate::settle::{Settle, reserve};
use crate::shadow::Shadow;

/// A limiter, a key for each request, and what a request costs.
///
/// It works with any limiter whose keys a request's key can be borrowed as: `Limiter<IpAddr>` for
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
    cost: Option<Cost>,
    without_key: WithoutKey,
    take: Take<Q, A, C>,
    settle: Settle,
}

type Cost = Box<dyn Fn(&request::Parts) -> u64 + Send + Sync>;

/// How cells are taken: see [`pass`] and [`reserve`].
type Take<Q, A, C> = fn(&Arc<Limiter<Q, A, C>>, &Q, Ask, &Settle) -> Result<Taken, Denied>;

/// What is asked of a limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) cells: u64,
    /// How long the request may wait for its turn.
    pub(crate) max_delay: Duration,
}

/// Cells that were taken.
pub(crate) struct Taken {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_after: Duration,
    pub(crate) delay: Duration,
    pub(crate) charge: Option<Box<dyn Charge>>,
}

/// What to do with a request that has no key.
///
/// ```
/// use tollgate_http::WithoutKey;
/// assert_eq!(WithoutKey::default(), WithoutKey::Deny);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutKey {
    /// Fail closed. The answer is 400, or 500 where the server itself lacks what the key needs.
    #[default]
    Deny,
    /// Fail open: this limit does not apply.
    Admit,
}

impl WithoutKey {
    /// What becomes of a request of which the key could not be told, for a [`Gate`] of your own.
    ///
    /// ```
    /// use tollgate_http::{KeyError, Report, Verdict, WithoutKey};
    ///
    /// let mut report = Report::default();
    /// let verdict = WithoutKey::Admit.decide(KeyError::Missing, &mut report);
    /// assert!(matches!(verdict, Verdict::Admit(_)));
    /// assert_eq!(report.without_key().count(), 1);
    /// ```
    pub fn decide(self, error: KeyError, report: &mut Report) -> Verdict {
        report.note_without_key(error);
        match self {
            Self::Deny => Verdict::WithoutKey(error),
            Self::Admit => Verdict::Admit(Admission::default()),
        }
    }
}

impl<E: Extractor> Limit<E>
where
    E::Key: Hash,
{
    /// A token bucket ([`Gcra`]) of `quota` for each key, with the limiter's defaults.
    ///
    /// # Errors
    ///
    /// The name cannot be told to clients, or the quota is out of range.
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
    /// Asks `limiter` for a cell of each request's key. Limiter and policy should have the same
    /// quota; the policy is what clients are told.
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
        let without_key = WithoutKey::default();
        Self { policy, limiter, key, cost: None, without_key, take: pass, settle: Settle::Never }
    }

    /// Charges `cost(request)` cells instead of one. A request that costs 0 is never denied.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?
    ///     .cost(|request| if request.method == http::Method::POST { 5 } else { 1 });
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Fn(&request::Parts) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Box::new(cost)), ..self }
    }

    /// What to do with requests that have no key; [`WithoutKey::Deny`] unless said otherwise.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, WithoutKey, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?
    ///     .without_key(WithoutKey::Admit);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn without_key(self, choice: WithoutKey) -> Self {
        Self { without_key: choice, ..self }
    }

    /// Puts the limit on trial: see [`Shadow`].
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// let trial = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?.shadow();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn shadow(self) -> Shadow<Self> {
        Shadow::new(self)
    }

    /// The limiter, which may be shared with others.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// assert_eq!(limit.limiter().stats().claimed, 0);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn limiter(&self) -> &Arc<Limiter<Q, A, C>> {
        &self.limiter
    }
}

impl<E, Q, A, C> Limit<E, Q, A, C>
where
    E: Extractor<Key: Borrow<Q>>,
    Q: Hash + ?Sized + 'static,
    A: Algorithm<Params: Refund> + 'static,
    C: Clock + Send + Sync + 'static,
{
    /// Gives cells back where another of [`Several`](crate::Several) limits denies the request.
    /// Costs an allocation and a second lookup for each request.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?.returnable();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn returnable(self) -> Self {
        Self { take: reserve, ..self }
    }

    /// Settles by the head of the response: `actual(response)` cells instead of what
    /// [`cost`](Self::cost) estimated. What is missing is charged whatever the limit, what was too
    /// much is given back as far as time has not restored it.
    ///
    /// Where no response comes, the estimate stays charged.
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
        Self { take: reserve, settle: Settle::Head(Arc::new(actual)), ..self }
    }

    /// Settles by the bytes of the response's body: `actual(bytes)` cells instead of what
    /// [`cost`](Self::cost) estimated. More is charged whatever the limit; less is given back as far
    /// as time has not restored it. Bytes count as sent when the server takes them from the body.
    ///
    /// | what becomes of the body | cells |
    /// |---|---|
    /// | sent to its end; empty, as with 204 and 304 | `actual(bytes)`, with 0 bytes where it is empty |
    /// | it fails, or the client leaves | `actual(bytes)` of those sent until then, but at least the estimate |
    /// | there is none to count: `HEAD`, `CONNECT`, an upgrade (101) | the estimate |
    /// | no response comes | the estimate |
    ///
    /// So a client that leaves early never pays less than the estimate. Where empty responses should
    /// cost something, let `actual` do so: `|bytes| bytes.max(100)`.
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
        Self { take: reserve, settle: Settle::Bytes(Arc::new(actual)), ..self }
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
            Err(error) => return self.without_key.decide(error, report),
        };
        let ask = self.ask(request, max_waiting);
        let settle = self.settle.of(request);
        match (self.take)(&self.limiter, key.borrow(), ask, settle) {
            Ok(Taken { limit, remaining, reset_after, delay, charge }) => {
                let reading = Reading::new(self.policy.clone(), limit, remaining);
                report.note(Reading { reset_after, delay, ..reading });
                Verdict::Admit(Admission { delay, charge })
            }
            Err(denied) => {
                report.note(Reading::of_denial(self.policy.clone(), &denied));
                // It has the cells, so its turn is what comes too late.
                let fits = denied.remaining() >= ask.cells;
                if fits { Verdict::QueueFull } else { Verdict::Deny }
            }
        }
    }

    fn peek(&self, request: &request::Parts, max_waiting: u64, report: &mut Report) {
        let Ok(key) = self.key.extract(request) else { return };
        let Ask { cells, max_delay } = self.ask(request, max_waiting);
        let now = self.limiter.clock().now();
        let seen = self.limiter.ask(key.borrow()).cells(cells).max_delay(max_delay).at(now).peek();
        if let Err(denied) = seen {
            report.note(Reading::of_denial(self.policy.clone(), &denied));
        }
    }
}

impl<E: Extractor, Q: ?Sized, A: Algorithm, C> Limit<E, Q, A, C> {
    /// A request waits for no longer than as many others of its key take, at one cell each.
    fn ask(&self, request: &request::Parts, max_waiting: u64) -> Ask {
        let cells = self.cost.as_ref().map_or(1, |cost| cost(request));
        Ask { cells, max_delay: self.policy.time_of(max_waiting) }
    }
}

/// Takes cells for good.
fn pass<Q, A, C>(
    limiter: &Arc<Limiter<Q, A, C>>,
    key: &Q,
    Ask { cells, max_delay }: Ask,
    _: &Settle,
) -> Result<Taken, Denied>
where
    Q: Hash + ?Sized,
    A: Algorithm,
    C: Clock,
{
    let permit: Permit = limiter.ask(key).cells(cells).max_delay(max_delay).check()?;
    Ok(Taken {
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
        let Self { policy, key, without_key, settle, .. } = self;
        f.debug_struct("Limit")
            .field("policy", policy)
            .field("key", key)
            .field("without_key", without_key)
            .field("settle", settle)
            .finish_non_exhaustive()
    }
}

/// Why a [`Limit`] cannot be made.
///
/// ```
/// # use {tollgate::Quota, tollgate_http::{Limit, LimitError, key::PeerIp}};
/// let error = Limit::gcra("a", Quota::per_second(0), PeerIp::new()).unwrap_err();
/// assert!(matches!(error, LimitError::Limiter(_)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum LimitError {
    /// The name cannot be told to clients.
    Name(PolicyError),
    /// The limiter cannot be built.
    Limiter(BuildError),
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Limiter(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LimitError {}
