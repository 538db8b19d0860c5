// The first definition of a link counts: the README's own leads into the repository's folders.
#![doc = concat!("[docs/metrics.md]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/docs/metrics.md")]
#![doc = ""]
#![cfg_attr(all(feature = "metrics", feature = "tracing"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "metrics", feature = "tracing")),
    doc = "Metrics and events of tollgate's limiters: see the README, which uses both features."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "tracing")]
mod denial_log;
#[cfg(feature = "metrics")]
mod recorder;
#[cfg(feature = "metrics")]
mod top_keys;

#[cfg(feature = "tracing")]
pub use denial_log::{DenialLog, log_top};
#[cfg(feature = "metrics")]
pub use recorder::{describe, record, record_count};
#[cfg(feature = "metrics")]
pub use top_keys::TopKeysRecorder;
