//! The layer.

mod builder;

use core::fmt;
use std::sync::Arc;

use tower_layer::Layer;

pub use self::builder::LayerBuilder;
use crate::denial::by_protocol;
use crate::enforcer::Enforcer;
use crate::gate::Gate;
use crate::headers::Wanted;
use crate::jitter::Jitter;
use crate::service::RateLimit;
use crate::stats::{Counters, Queue, Stats};

/// How many requests may wait at a time by default.
const WAITING_MAX: usize = 1_024;
/// How many of one key: an eighth, so that a few keys cannot take all places.
const WAITING_PER_KEY_MAX: u64 = 128;

/// Limits the rate of requests to a service.
///
/// **Guarantee.** All clones of the layer and of its services share one state: a quota of 5 admits 5,
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
    pub(crate) enforcer: Arc<Enforcer<G>>,
}

impl<G: Gate> RateLimitLayer<G> {
    /// A layer with the default settings. [`builder`](Self::builder) has others.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_second(10), PeerIp::new())?);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn new(gate: G) -> Self {
        Self::builder(gate).build()
    }

    /// A layer with settings to choose.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, RateLimitLayer, key::PeerIp}};
    /// let limit = Limit::gcra("a", Quota::per_second(10), PeerIp::new())?;
    /// let layer = RateLimitLayer::builder(limit).x_rate_limit().build();
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    pub fn builder(gate: G) -> LayerBuilder<G> {
        LayerBuilder(Enforcer {
            gate,
            wanted: Wanted::NEWEST,
            jitter: Jitter::NONE,
            write: Box::new(by_protocol),
            find_peer: None,
            skip: None,
            skip_preflight: false,
            inspect: None,
            sleep: None,
            queue: Queue::new(WAITING_MAX),
            max_waiting_per_key: WAITING_PER_KEY_MAX,
            counters: Counters::default(),
        })
    }

    /// Counts over all clones.
    pub fn stats(&self) -> Stats {
        self.enforcer.counters.read()
    }

    /// The gate, which decides.
    pub fn gate(&self) -> &G {
        &self.enforcer.gate
    }
}

impl<G> Clone for RateLimitLayer<G> {
    fn clone(&self) -> Self {
        Self { enforcer: Arc::clone(&self.enforcer) }
    }
}

impl<S, G> Layer<S> for RateLimitLayer<G> {
    type Service = RateLimit<S, G>;

    fn layer(&self, inner: S) -> RateLimit<S, G> {
        RateLimit::new(inner, Arc::clone(&self.enforcer))
    }
}

impl<G: fmt::Debug> fmt::Debug for RateLimitLayer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimitLayer").field(&self.enforcer).finish()
    }
}
