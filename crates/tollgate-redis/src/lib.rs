#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod answer;
mod breaker;
mod central;
mod count;
mod counting;
mod guarded;
mod link;
mod script;
mod stats;
mod store;
mod unavailable;

pub use answer::{Answer, Origin};
pub use central::{Central, CentralBuilder, CentralError, Taken};
pub use counting::{Counting, UnknownCounting};
pub use guarded::{Guarded, GuardedStats, OnDown};
pub use stats::StoreStats;
pub use store::{Store, StoreBuilder, StoreError};
pub use unavailable::Unavailable;
