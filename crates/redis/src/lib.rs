#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod algorithm;
mod answer;
mod batch;
mod breaker;
mod redis_limiter;
mod script_codec;
mod with_fallback;
mod health;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
mod lease;
mod pool;
mod bounded_map;
mod remote;
#[doc(hidden)]
pub mod reply;
mod redis_membership;
mod script;
mod server_key;
mod share;
mod stats;
mod store;
mod sync;
mod unavailable;
mod windows;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use answer::{Answer, Origin};
pub use batch::{BatchError, BatchStats, Batched, BatchedBuilder, Charge, CounterStore, WindowCount};
pub use redis_limiter::{RedisLimiter, RedisLimiterBuilder, RedisLimiterError};
pub use with_fallback::{Fallback, FallbackStats, WithFallback};
pub use health::Health;
pub use lease::{Grant, LeaseError, LeaseSource, LeaseStats, Leased, LeasedBuilder, LeaseRequest};
pub use remote::Remote;
pub use redis_membership::RedisMembership;
pub use share::{WithoutPart, Heartbeat, Membership, Share, ShareBuilder, ShareError, ShareStats};
pub use stats::StoreStats;
pub use store::{Store, StoreBuilder, StoreError};
pub use unavailable::Unavailable;
pub use windows::{Windows, WindowsError};

#[cfg(tollgate_loom)]
#[doc(hidden)]
pub use {
    batch::{AskOutcome, PendingCounts},
    lease::{CallEnd, CallState, LeaseCell, Until},
    sync::{PlantedFault, plant},
};
