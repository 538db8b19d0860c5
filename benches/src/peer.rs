//! The peer: governor, set up as its users set it up for speed.

use std::hash::Hash;
use std::num::NonZeroU32;

use ahash::RandomState;
use governor::clock::{Clock, DefaultClock, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

/// The peer by name, with the version that is asked for in `Cargo.toml`.
pub const GOVERNOR: &str = "governor 0.10";

/// governor's keyed limiter on a `DashMap` with ahash, and no middleware.
pub type Keyed<K, C = DefaultClock> =
    RateLimiter<K, DashMapStateStore<K, RandomState>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// With its own clock, which is quanta's.
#[must_use]
pub fn keyed<K: Hash + Eq + Clone>(quota: Quota) -> Keyed<K> {
    RateLimiter::dashmap_with_hasher(quota, RandomState::new())
}

/// With the clock that governor has for tests, and with which the caller can give the time.
#[must_use]
pub fn keyed_with_time_given<K: Hash + Eq + Clone>(
    quota: Quota,
    clock: FakeRelativeClock,
) -> Keyed<K, FakeRelativeClock> {
    RateLimiter::dashmap_with_clock_and_hasher(quota, clock, RandomState::new())
}

/// A number that is not zero.
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
    fn the_version_is_the_one_that_is_asked_for() {
        let (name, version) = GOVERNOR.split_once(' ').expect("a name and a version");
        let asked = format!("{name} = {{ version = \"{version}\"");
        assert!(include_str!("../Cargo.toml").contains(&asked), "no {asked}");
    }
}
