//! A tower [`Layer`](tower_layer::Layer) that limits the rate of HTTP requests with [`tollgate`].
//!
//! | part | purpose |
//! |---|---|
//! | [`RateLimitLayer`] | the layer, for axum, hyper, tonic and every other service of tower and `http` |
//! | [`Limit`] | a limiter, a [key] for each request, and the cost of a request |
//! | [`InFlightLimit`] | how many requests of a key may be in flight |
//! | [`AdaptiveInFlightLimit`] | how many requests may be in flight, found by how the responses come |
//! | [`Penalized`] | a limit that bans a key for failures, such as wrong passwords |
//! | [`Several`] | several limits, all of which must admit |
//! | [`ShadowGate`] | a limit that is decided but not enforced |
//! | [`Gate`] | the trait of all of these, to implement for your own |
//! | [`denial`] | responses to denied requests |
//!
//! ```
//! use tollgate_http::{Limit, Quota, RateLimitLayer, key::PeerIp};
//!
//! let limit = Limit::gcra("per-client", Quota::per_second(10).burst(20), PeerIp::new())?;
//! let layer = RateLimitLayer::new(limit);
//! let app: axum::Router = axum::Router::new()
//!     .route("/", axum::routing::get(|| async { "hello" }))
//!     .layer(layer.clone());
//! println!("{:?}", layer.stats());
//! # Ok::<(), tollgate_http::LimitError>(())
//! ```
//!
//! [`Quota`] and [`Limiter`] come from `tollgate`, and so does all else that a limit may need: the whole crate
//! is re-exported, so one dependency is enough. Features of `tollgate` (`serde`, `shared-memory`, `tokio`) have no twin
//! here: `cargo add tollgate --features serde` beside this crate switches one on for both.
//!
//! # Features
//!
//! `axum`: the peer's address from axum's `ConnectInfo`, and `key::Matched`, the template of the route
//! that axum has matched. Without the feature, put the peer's `SocketAddr` into the request's extensions.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod adaptive;
mod body;
pub mod denial;
mod enforcer;
mod future;
mod gate;
mod headers;
mod in_flight;
mod jitter;
pub mod key;
mod layer;
mod limit;
mod penalized;
mod service;
mod several;
mod shadow;
mod stats;

pub use adaptive::AdaptiveInFlightLimit;
pub use body::Body;
pub use denial::{Denial, Reason};
pub use future::ResponseFuture;
pub use gate::{Charge, Gate, GateDecision, GatePermit, PendingVerdict, Verdict};
pub use headers::{Dialect, Policy, PolicyError, Reading, Report};
pub use in_flight::InFlightLimit;
pub use key::KeyError;
pub use layer::{LayerBuilder, RateLimitLayer};
pub use limit::{Limit, LimitError, LimitPlan, OnNoKey};
pub use penalized::Penalized;
pub use service::RateLimit;
pub use several::Several;
pub use shadow::ShadowGate;
pub use stats::Stats;
#[doc(no_inline)]
pub use tollgate::{self, Limiter, Quota};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
