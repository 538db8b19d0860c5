//! Against a real server, which each test starts for itself.
//!
//! Without `redis-server` the tests are skipped, and say so; with `CI` or `TOLLGATE_REQUIRE_REDIS`
//! set they fail instead. Each test's comment states how many cells may be granted at most.

#![allow(clippy::disallowed_types, reason = "a test's clock")]

mod batched;
mod faults;
#[cfg(feature = "cluster")]
mod cluster;
mod exact;
mod outages;
mod forget;
mod harness;
#[cfg(feature = "http")]
mod http;
mod idle;
mod take;
mod leased;
mod many;
mod names;
mod quota_model;
mod proxy;
mod quotas;
mod replies;
mod shared;
mod transcript;
mod workers;
