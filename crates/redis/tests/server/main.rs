//! Tests against a real server, which each test starts for itself.
//!
//! Without `redis-server` the tests are skipped, and say so. With `CI` or `TOLLGATE_REQUIRE_REDIS`
//! set they fail instead. Each test's comment states how many cells may be granted at most.

#![allow(clippy::disallowed_types, reason = "a test's clock")]

mod batched;
#[cfg(feature = "cluster")]
mod cluster;
mod exact;
mod faults;
mod forget;
mod harness;
#[cfg(feature = "http")]
mod http;
mod idle;
mod leased;
mod many;
mod moving_log;
mod names;
mod open;
mod outages;
mod proxy;
mod quota_model;
mod quotas;
mod replies;
mod rights;
mod shared;
mod take;
mod transcript;
mod workers;
