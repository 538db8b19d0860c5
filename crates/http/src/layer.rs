//! The layer, and what can be chosen.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, request};
use tower_layer::Layer;

use crate::denial::{Denial, by_protocol};
use crate::gate::{Gate, Report};
use crate::headers::Wanted;
use crate::enforcer::Judge;
use crate::service::RateLimit;
use crate::stats::{Counters, Queue, Stats};

/// Requests that wait at a time, unless said otherwise.
const WAITING_MAX: usize = 1_024;
/// Of one key. An eighth, so that no few keys can take all places.
const WAITING_PER_KEY_MAX: u64 = 128;

/// Limits the requests to a service.
///
/// **Guarantee.** One state for all clones of the layer and of its services: a quota of 5 admits 5,
/// over all routes and connections.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::{Limit, RateLimitLayer, key::PeerIp};
///
/// let limit = Limit::gcra("per-client", Quota::per_second(10).burst(20), PeerIp::new())?;
/// let app: axum::Router = axum::Router::new()
///     .route("/", axum::routing::get(|| async { "hello" }))
///     .layer(RateLimitLayer::new(limit));
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
pub struct RateLimitLayer<G> {
    judge: Arc<Judge<G>>,
}

impl<G: Gate> RateLimitLayer<G> {
    /// The layer as it is unless something else is chosen with a [`LayerBuilder`].
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_second(10), PeerIp::new())?);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn new(gate: G) -> Self {
        Self::builder(gate).build()
    }

    /// Begins a layer.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).x_rate_limit().build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn builder(gate: G) -> LayerBuilder<G> {
        LayerBuilder(Judge {
            gate,
            wanted: Wanted { ietf: true, x: false },
            write: Box::new(by_protocol),
            skip: None,
            skip_preflight: false,
            inspect: None,
            sleep: None,
            queue: Queue::new(WAITING_MAX),
            max_waiting_per_key: WAITING_PER_KEY_MAX,
            counters: Counters::default(),
        })
    }

    /// Counts of what happened, over all clones.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_second(10), PeerIp::new())?);
    /// assert_eq!(layer.stats().admitted, 0);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.judge.counters.read()
    }

    /// What decides.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_second(10), PeerIp::new())?);
    /// assert!(layer.gate().limiter().is_empty());
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn gate(&self) -> &G {
        &self.judge.gate
    }
}

impl<G> Clone for RateLimitLayer<G> {
    fn clone(&self) -> Self {
        Self { judge: Arc::clone(&self.judge) }
    }
}

impl<S, G> Layer<S> for RateLimitLayer<G> {
    type Service = RateLimit<S, G>;

    fn layer(&self, inner: S) -> RateLimit<S, G> {
        RateLimit::new(inner, Arc::clone(&self.judge))
    }
}

impl<G: fmt::Debug> fmt::Debug for RateLimitLayer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimitLayer").field(&self.judge).finish()
    }
}

/// A layer being put together: made by [`RateLimitLayer::builder`].
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
pub struct LayerBuilder<G>(Judge<G>);

impl<G: Gate> LayerBuilder<G> {
    /// Adds `X-RateLimit-Limit`, `-Remaining` and `-Reset` to responses. `Reset` is in seconds from
    /// now, until all is back. Of several limits they tell of that which denied, or else of that
    /// with the least left.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).x_rate_limit().build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn x_rate_limit(mut self) -> Self {
        self.0.wanted.x = true;
        self
    }

    /// Leaves `RateLimit-Policy` and `RateLimit` out. `Retry-After` stays.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).without_rate_limit_fields().build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn without_rate_limit_fields(mut self) -> Self {
        self.0.wanted.ietf = false;
        self
    }

    /// What requests are answered that may not go ahead; [`by_protocol`] unless said otherwise. The
    /// layer adds `Retry-After`, unless the answer has one, and the `RateLimit` fields.
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

    /// Does not limit requests of which `skip` is true.
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
    /// They are limited unless this is called.
    ///
    /// A browser sends preflights of itself, so that limiting them halves what a page may ask for
    /// across origins.
    ///
    /// **Risk.** Any client can send such requests, to any path, without limit: they pass this layer
    /// whatever their key. Call this only where something cheap answers all of them before they reach
    /// the application, such as a CORS layer directly inside this one. Better, put the CORS layer
    /// outside: then it answers them, and they never come here.
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

    /// Lets requests wait for their turn, where a limit says so: those of a
    /// [`LeakyQueue`](tollgate::LeakyQueue). `sleep` is the runtime's, such as
    /// `tokio::time::sleep`. Without it, such requests are denied.
    ///
    /// A key's queue is as long as its burst, and at most 128 requests unless
    /// [`max_waiting_per_key`](Self::max_waiting_per_key) says otherwise; further ones are answered
    /// 429. Over all keys at most 1,024 requests wait, unless [`max_waiting`](Self::max_waiting) says
    /// otherwise; further ones that would have to wait are answered 503. Requests with nothing to wait
    /// for go ahead however many others wait.
    ///
    /// **Guarantee.** A request that is turned away, because it may not wait or because too many do, is
    /// charged nothing by a [`Limit`](crate::Limit). A request that waits does not hold the inner
    /// service ready: the layer asks it for readiness again after the wait.
    ///
    /// **Not guaranteed.**
    ///
    /// - A client that leaves while it waits frees its place in the queue of all keys at once. But its
    ///   turn goes to nobody: what its request was charged, by every limit, stays charged.
    /// - A gate of your own that delays requests charges those that are turned away, unless it
    ///   implements [`decide_queued`](Gate::decide_queued), or its charge can be cancelled.
    /// - Of [`Several`](crate::Several) limits, those before the one that turns a request away are
    ///   charged unless they are [`returnable`](crate::Limit::returnable).
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

    /// How many requests may wait at a time, over all keys; 1,024 unless said otherwise.
    ///
    /// Requests that are decided at the same moment, on several threads, may take the last place
    /// together: then as many more wait as there are threads, less one.
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

    /// How many requests of one key may wait at a time; 128 unless said otherwise. With 0, none may.
    ///
    /// A bound below [`max_waiting`](Self::max_waiting) keeps one key from taking the places of all
    /// others. The key's place in the queue is what counts, at one cell for each request: requests
    /// that cost more, and the turns of clients that left, take the places of as many as fit into
    /// their time.
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

    /// Looks at each request that was decided, and at what the limits said: for a log of denials,
    /// or of what limits on trial would have denied.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// let trial = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?.shadow();
    /// let layer = RateLimitLayer::builder(trial)
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

    /// The layer.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// # let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn build(self) -> RateLimitLayer<G> {
        RateLimitLayer { judge: Arc::new(self.0) }
    }
}

impl<G: fmt::Debug> fmt::Debug for LayerBuilder<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LayerBuilder").field(&self.0).finish()
    }
}
