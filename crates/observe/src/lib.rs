#![cfg_attr(all(feature = "metrics", feature = "tracing"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "metrics", feature = "tracing")),
    doc = "Figures and events of tollgate's limiters: see the README, which uses both features."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "tracing")]
mod events;
#[cfg(feature = "metrics")]
mod figures;
#[cfg(feature = "metrics")]
mod names;

#[cfg(feature = "tracing")]
pub use events::{DenialLog, log_top};
#[cfg(feature = "metrics")]
pub use figures::{describe, record, record_count};
#[cfg(feature = "metrics")]
pub use names::TopFigures;
