// The first definition of a link counts: the README's own leads into the repository's folders.
#![doc = concat!("[docs/distributed.md]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/docs/distributed.md")]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod algorithm;
mod answer;
mod batch;
mod bounded_map;
mod breaker;
mod health;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
mod lease;
mod open;
mod pool;
mod redis_limiter;
mod redis_membership;
mod remote;
#[doc(hidden)]
pub mod reply;
mod script;
mod server_key;
mod share;
mod stats;
mod store;
mod sync;
mod unavailable;
mod windows;
mod with_fallback;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use answer::{Answer, Origin};
pub use batch::{
    BatchError, BatchStats, Batched, BatchedBuilder, Charge, CounterStore, WindowCount,
};
pub use health::Health;
pub use lease::{Grant, LeaseError, LeaseRequest, LeaseSource, LeaseStats, Leased, LeasedBuilder};
pub use open::OpenError;
pub use redis_limiter::{RedisLimiter, RedisLimiterBuilder, RedisLimiterError};
pub use redis_membership::RedisMembership;
pub use remote::Remote;
pub use share::{Heartbeat, Membership, Share, ShareBuilder, ShareError, ShareStats, WithoutPart};
pub use stats::StoreStats;
pub use store::{Store, StoreBuilder, StoreError};
#[doc(no_inline)]
pub use tollgate::{self, Decision, Denied, Permit, Quota};
pub use unavailable::Unavailable;
pub use windows::{Windows, WindowsError};
pub use with_fallback::{Fallback, FallbackStats, WithFallback};
