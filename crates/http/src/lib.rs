//! A tower [`Layer`](tower_layer::Layer) that limits the rate of HTTP requests with [`tollgate`].
//!
//! | part | what |
//! |---|---|
//! | [`RateLimitLayer`] | the layer, for axum, hyper, tonic and whatever else speaks tower and `http` |
//! | [`Limit`] | a limiter, a [key] for each request, and what a request costs |
//! | [`Penalized`] | a limit that bans a key for failures, such as wrong passwords |
//! | [`Several`] | several limits, all of which must admit |
//! | [`Shadow`] | a limit on trial |
//! | [`Gate`] | what all of these are, and what you can write yourself |
//! | [`denial`] | the answers to requests that may not go ahead |
//!
//! ```
//! use tollgate::Quota;
//! use tollgate_http::{Limit, RateLimitLayer, key::PeerIp};
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
//! # Features
//!
//! `axum`: the peer's address from axum's `ConnectInfo`, and `key::Matched`, the template of the
//! route that axum has chosen. Without it, put the peer's `SocketAddr` into the request's
//! extensions.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod body;
pub mod denial;
mod enforcer;
mod future;
mod gate;
mod headers;
pub mod key;
mod layer;
mod limit;
mod penalized;
mod pending;
mod policy;
mod service;
mod several;
mod shadow;
mod stats;

pub use pending::{Asking, Ruling};
pub use body::Body;
pub use denial::{Denial, Reason};
pub use future::ResponseFuture;
pub use gate::{Admission, Charge, Gate, Reading, Report, Verdict};
pub use key::KeyError;
pub use layer::{LayerBuilder, RateLimitLayer};
pub use limit::{Limit, LimitError, WithoutKey};
pub use penalized::Penalized;
pub use policy::{Policy, PolicyError};
pub use service::RateLimit;
pub use several::Several;
pub use shadow::Shadow;
pub use stats::Stats;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
