//! The peer governor, configured as its users do for speed.

use std::hash::Hash;
use std::num::NonZeroU32;

use ahash::RandomState;
use governor::clock::{Clock, DefaultClock, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

/// The peer's name, with the version in `Cargo.toml`.
pub const GOVERNOR: &str = "governor 0.10";

/// governor's keyed limiter on a `DashMap` with ahash, without middleware.
pub type Keyed<K, C = DefaultClock> =
    RateLimiter<K, DashMapStateStore<K, RandomState>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// With its own clock, quanta's.
#[must_use]
pub fn keyed<K: Hash + Eq + Clone>(quota: Quota) -> Keyed<K> {
    RateLimiter::dashmap_with_hasher(quota, RandomState::new())
}

/// With governor's clock for tests, which lets the caller set the time.
#[must_use]
pub fn keyed_with_time_given<K: Hash + Eq + Clone>(
    quota: Quota,
    clock: FakeRelativeClock,
) -> Keyed<K, FakeRelativeClock> {
    RateLimiter::dashmap_with_clock_and_hasher(quota, clock, RandomState::new())
}

/// Converts a number that must not be zero.
///
/// # Panics
///
/// If it is zero.
#[must_use]
pub fn nonzero(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_version_is_the_one_in_the_manifest() {
        let (name, version) = GOVERNOR.split_once(' ').expect("a name and a version");
        let asked = format!("{name} = {{ version = \"{version}\"");
        assert!(include_str!("../Cargo.toml").contains(&asked), "no {asked}");
    }
}
