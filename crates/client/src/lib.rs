//! A tower [`Layer`](tower_layer::Layer) for clients of a server that limits its callers.
//!
//! A [`Pacer`] lets requests go at a rate that it finds by itself: the rate grows by a constant while the
//! server admits (additive increase), and shrinks by a factor when the server answers 429 or 503
//! (multiplicative decrease). It obeys `Retry-After`, and the `RateLimit` and `X-RateLimit-*` fields.
//!
//! | part | purpose |
//! |---|---|
//! | [`PaceLayer`] | the layer: one pacer for all requests, or one for each host |
//! | [`Pacer`] | the rate, and the queue of requests that wait for their turn |
//! | [`Settings`] | how fast the rate moves, and between which bounds |
//! | [`Advice`] | what the header fields of a response say |
//!
//! ```
//! use tollgate_client::{PaceLayer, Pacer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let send = service_fn(async |_: http::Request<()>| {
//!     Ok::<_, std::convert::Infallible>(http::Response::new(()))
//! });
//! let pacer = Pacer::new(Settings::new(50.0))?; // it begins with 50 requests a second
//! let client = PaceLayer::new(pacer).layer(send);
//! let response = client.oneshot(http::Request::new(())).await?;
//! assert_eq!(response.status(), 200);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod advice;
mod error;
mod layer;
mod pacer;
mod places;
mod rate;
mod settings;
mod structured;

pub use advice::Advice;
pub use error::{PacerError, SettingsError};
pub use layer::{PaceLayer, PaceService};
pub use pacer::{Pacer, PacerStats, Turn};
pub use settings::Settings;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
