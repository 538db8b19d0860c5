//! The settings of a layer.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Method, Response, request};

use super::RateLimitLayer;
use crate::denial::Denial;
use crate::enforcer::Enforcer;
use crate::gate::Gate;
use crate::headers::{Dialect, Report, XForm};
use crate::stats::Queue;

/// The settings of a layer: see [`RateLimitLayer::builder`].
///
/// ```
/// use http::Method;
/// use tollgate::Quota;
/// use tollgate_http::{Limit, RateLimitLayer, key::PeerIp};
///
/// let layer = RateLimitLayer::builder(Limit::gcra("a", Quota::per_second(10), PeerIp::new())?)
///     .skip(|request| request.uri.path() == "/health")
///     .inspect(|request, report| {
///         for reading in report.readings().filter(|reading| reading.denied) {
///             eprintln!("{} over {}", request.uri, reading.policy);
///         }
///     })
///     .build();
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
#[must_use = "nothing is limited before the layer is built"]
pub struct LayerBuilder<G>(pub(crate) Enforcer<G>);

impl<G: Gate> LayerBuilder<G> {
    /// Adds `X-RateLimit-Limit`, `-Remaining` and `-Reset` to responses. `Reset` is the time in seconds
    /// until the key has its whole quota again. Of several limits, they show the one that denied with the
    /// longest wait. If none denied, they show the one with the fewest cells left.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).x_rate_limit().build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn x_rate_limit(mut self) -> Self {
        self.0.wanted.x = Some(XForm::Seconds);
        self
    }

    /// Writes fields in another form, as some clients expect: see [`Dialect`]. `Draft7` replaces `RateLimit-Policy`
    /// and `RateLimit`; `Envoy` and `GitHub` add `X-RateLimit-*`, or replace those of
    /// [`x_rate_limit`](Self::x_rate_limit).
    ///
    /// ```
    /// # use tollgate_http::{Dialect, Limit, Quota, RateLimitLayer, key::PeerIp};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit)
    ///     .without_rate_limit_fields()
    ///     .dialect(Dialect::GitHub)
    ///     .build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.0.wanted.add(dialect);
        self
    }

    /// Leaves out `RateLimit-Policy` and `RateLimit`. `Retry-After` stays.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).without_rate_limit_fields().build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn without_rate_limit_fields(mut self) -> Self {
        self.0.wanted.rate_limit = None;
        self
    }

    /// Lengthens the waits in denials by up to `percent` percent, at random; 0 by default. So clients that are
    /// denied together, as at the end of a window, do not all return together.
    ///
    /// `Retry-After`, `grpc-retry-pushback-ms` and `RetryInfo` only grow, so no client returns too early. The `t`
    /// of `RateLimit` stays exact, and clients follow `Retry-After` before it. The resets of other
    /// [dialects](Self::dialect) are never before `Retry-After`.
    ///
    /// ```
    /// # use tollgate_http::{Limit, Quota, RateLimitLayer, key::PeerIp};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// // Where the wait is 10 s, `Retry-After` is 10, 11 or 12.
    /// let layer = RateLimitLayer::builder(limit).retry_after_jitter_percent(20).build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn retry_after_jitter_percent(mut self, percent: u32) -> Self {
        self.0.jitter.percent = percent;
        self
    }

    /// Writes the responses to denied requests; the default is
    /// [`by_protocol`](crate::denial::by_protocol). The layer adds `Retry-After`, unless the response
    /// has one, and the `RateLimit` fields.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp, denial}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).deny_with(denial::grpc).build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn deny_with<F>(mut self, write: F) -> Self
    where
        F: Fn(&Denial<'_>) -> Response<Bytes> + Send + Sync + 'static,
    {
        self.0.write = Box::new(write);
        self
    }

    /// Finds the peer's address where the server keeps it, for [`PeerIp`](crate::key::PeerIp) and
    /// [`ClientIp`](crate::key::ClientIp). A server that puts a `SocketAddr` into the extensions of requests
    /// needs no such function, and neither does axum with the feature `axum`.
    ///
    /// The address that `find` returns comes before axum's `ConnectInfo`, so behind a load balancer `find` may
    /// return what the PROXY protocol says. If `find` returns `None`, the address is read as without it.
    ///
    /// ```
    /// # use tollgate_http::{Limit, Quota, RateLimitLayer, key::PeerIp};
    /// use tonic::transport::server::TcpConnectInfo;
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit)
    ///     .peer(|extensions| extensions.get::<TcpConnectInfo>()?.remote_addr())
    ///     .build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn peer<F>(mut self, find: F) -> Self
    where
        F: Fn(&Extensions) -> Option<SocketAddr> + Send + Sync + 'static,
    {
        self.0.find_peer = Some(Box::new(find));
        self
    }

    /// Does not limit requests for which `skip` returns `true`.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let health = |request: &http::request::Parts| request.uri.path() == "/health";
    /// let layer = RateLimitLayer::builder(limit).skip(health).build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn skip(mut self, skip: impl Fn(&request::Parts) -> bool + Send + Sync + 'static) -> Self {
        self.0.skip = Some(match self.0.skip.take() {
            None => Box::new(skip),
            Some(others) => Box::new(move |request| others(request) || skip(request)),
        });
        self
    }

    /// Does not limit requests with one of these methods.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// use http::Method;
    /// let layer = RateLimitLayer::builder(limit).skip_methods([Method::HEAD, Method::OPTIONS]).build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn skip_methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods: Vec<_> = methods.into_iter().collect();
        self.skip(move |request| methods.contains(&request.method))
    }

    /// Does not limit CORS preflights: `OPTIONS` with `Origin` and `Access-Control-Request-Method`.
    /// They are limited by default.
    ///
    /// A browser sends preflights by itself, so limiting them halves what a page may request across
    /// origins.
    ///
    /// **Risk.** Any client can send such requests, to any path, and no limit applies to them. Call this
    /// only if something cheap, such as a CORS layer directly inside this layer, answers all preflights before
    /// they reach the application. It is better to put the CORS layer outside: then it answers
    /// preflights, and they never reach this layer.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).skip_preflights().build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn skip_preflights(mut self) -> Self {
        self.0.skip_preflight = true;
        self
    }

    /// Lets requests wait for their turn if a limit delays them, as a
    /// [`LeakyQueue`](tollgate::LeakyQueue) does. `sleep` is the sleep function of the runtime, such as
    /// `tokio::time::sleep`. Without it, such requests are denied.
    ///
    /// The queue of a key is as long as its burst, but by default at most 128 requests: see
    /// [`max_waiting_per_key`](Self::max_waiting_per_key). Further requests get 429. Over all keys, at
    /// most 1,024 requests wait by default: see [`max_waiting`](Self::max_waiting). Further requests that
    /// would have to wait get 503. A request that need not wait is admitted however many others wait.
    ///
    /// **Guarantee.** A [`Limit`](crate::Limit) charges nothing for a request that is denied because it
    /// may not wait or too many do, except after a pending verdict, as below. A request that waits does not
    /// hold the inner service ready: the layer waits for its readiness again after the delay.
    ///
    /// **Not guaranteed.**
    ///
    /// - A client that leaves while it waits frees its place in the queue of all keys at once. Its turn
    ///   passes unused: what every limit charged for it stays charged.
    /// - A gate of your own that delays requests charges those that may not wait, unless it implements
    ///   [`decide_queued`](Gate::decide_queued) or its charge can be refunded.
    /// - If one of [`Several`](crate::Several) limits denies a request that may not wait, the limits
    ///   before it charge it unless they are [`refundable`](crate::Limit::refundable).
    /// - If one of [`Several`](crate::Several) limits has a [pending](crate::Verdict::Pending) verdict, a
    ///   request takes its place in the queue only after that verdict. If other requests have filled the
    ///   queue by then, it gets 503, and what a [`LeakyQueue`](tollgate::LeakyQueue) has charged it stays
    ///   charged.
    ///
    /// ```
    /// use std::net::IpAddr;
    /// use std::sync::Arc;
    /// use tollgate::{LeakyQueue, Limiter, Quota};
    /// use tollgate_http::{Limit, Policy, RateLimitLayer, key::PeerIp};
    ///
    /// let quota = Quota::per_second(10).burst(50);
    /// let limiter: Limiter<IpAddr, LeakyQueue> =
    ///     Limiter::builder(quota).algorithm(LeakyQueue::new()).build()?;
    /// let limit = Limit::new(Policy::new("paced", &quota)?, Arc::new(limiter), PeerIp::new());
    /// let layer = RateLimitLayer::builder(limit).wait(tokio::time::sleep).build();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait<F, S>(mut self, sleep: F) -> Self
    where
        F: Fn(Duration) -> S + Send + Sync + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        self.0.sleep = Some(Box::new(move |delay| Box::pin(sleep(delay))));
        self
    }

    /// How many requests may wait at a time, over all keys; 1,024 by default.
    ///
    /// Several threads that decide at the same moment may all take the last place. Then the queue
    /// exceeds its bound by at most the number of threads less one.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).wait(tokio::time::sleep).max_waiting(100).build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn max_waiting(mut self, requests: usize) -> Self {
        self.0.queue = Queue::new(requests);
        self
    }

    /// How many requests of one key may wait at a time; 128 by default. With 0, none may: a request that
    /// would have to wait gets 429, as without [`wait`](Self::wait).
    ///
    /// A bound below [`max_waiting`](Self::max_waiting) keeps one key from taking all places. The
    /// length of a key's queue is measured in time, at one cell for each request. A request that costs
    /// more takes several places, and the turn of a client that left still takes its place.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit)
    ///     .wait(tokio::time::sleep)
    ///     .max_waiting_per_key(10)
    ///     .build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn max_waiting_per_key(mut self, requests: u64) -> Self {
        self.0.max_waiting_per_key = requests;
        self
    }

    /// Calls `inspect` for each decided request with what the limits report, for example to log denials
    /// or shadow denials.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// let shadow = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?.shadow();
    /// let layer = RateLimitLayer::builder(shadow)
    ///     .inspect(|request, report| {
    ///         for reading in report.shadow_denials() {
    ///             eprintln!("{} would deny {}", reading.policy.name(), request.uri);
    ///         }
    ///     })
    ///     .build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn inspect(
        mut self,
        inspect: impl Fn(&request::Parts, &Report) + Send + Sync + 'static,
    ) -> Self {
        self.0.inspect = Some(Box::new(inspect));
        self
    }

    /// Builds the layer.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn build(self) -> RateLimitLayer<G> {
        RateLimitLayer { enforcer: Arc::new(self.0) }
    }
}

impl<G: fmt::Debug> fmt::Debug for LayerBuilder<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LayerBuilder").field(&self.0).finish()
    }
}
