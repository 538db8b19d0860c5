#![cfg_attr(all(feature = "futures", feature = "http-body"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "futures", feature = "http-body")),
    doc = "Paces the bytes of tokio streams by tollgate's limiters: see the README."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "http-body")]
mod body;
mod bucket;
mod chunk;
mod direction;
mod error;
#[cfg(feature = "futures")]
mod items;
mod pace;
mod stream;

#[cfg(feature = "http-body")]
pub use body::PacedBody;
pub use bucket::TokenBucket;
pub use error::PaceError;
#[cfg(feature = "futures")]
#[cfg_attr(docsrs, doc(cfg(feature = "futures")))]
pub use items::{PacedSink, PacedStream};
pub use pace::Pace;
pub use stream::Paced;
#[doc(no_inline)]
pub use tollgate::{self, Limiter, Quota};
