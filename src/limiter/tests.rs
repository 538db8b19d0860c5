//! One caller: batches, resets, clocks with a coarse time, and what is counted.

use core::error::Error;
use core::time::Duration;

use super::Limiter;
use super::builder::BuildError;
use super::direct::Direct;
use super::stats::Occupancy;
use crate::algo::leaky_queue::LeakyQueue;
use crate::quota::{Quota, QuotaError};
use crate::sync::RelaxedCounter;
use crate::time::{Clock, ManualClock, Tick};

fn at(seconds: u64) -> Tick {
    Tick::from_duration(Duration::from_secs(seconds))
}

/// The coarse time is that of the start. The precise one is that of the clock within, and how often it was read
/// is counted.
struct Tiers(ManualClock, RelaxedCounter);

impl Tiers {
    fn new() -> Self {
        Self(ManualClock::new(), RelaxedCounter::default())
    }

    fn reads(&self) -> u64 {
        self.1.read()
    }
}

impl Clock for Tiers {
    fn now(&self) -> Tick {
        self.1.add_one();
        self.0.now()
    }

    fn coarse(&self) -> Option<Tick> {
        Some(at(0))
    }
}

#[test]
fn a_request_that_a_coarse_time_admits_reads_no_precise_one() {
    let begun = || Limiter::<u64>::builder(Quota::per_hour(3)).clock(Tiers::new());
    let counting = begun().count_decisions().build().expect("in range");
    for gate in [&begun().build().expect("in range"), &counting] {
        assert!(gate.check(&7).is_ok());
        assert_eq!(gate.clock().reads(), 1, "a new key needs the time");
        assert!(gate.check(&7).is_ok() && gate.allow(&7));
        assert_eq!(gate.clock().reads(), 1);
    }
    assert_eq!((counting.stats().admitted, counting.stats().denied), (Some(3), Some(0)));
}

#[test]
fn a_request_that_a_coarse_time_denies_is_decided_by_the_precise_one_and_counted_once() {
    let builder = Limiter::<u64>::builder(Quota::per_second(1)).count_decisions();
    let gate = builder.clock(Tiers::new()).build().expect("in range");
    assert!(gate.check(&7).is_ok() && gate.check(&7).is_err());
    gate.clock().0.set(at(1));
    assert!(gate.check(&7).is_ok());
    assert_eq!((gate.stats().admitted, gate.stats().denied), (Some(2), Some(1)));
}

#[test]
fn a_request_that_bounds_its_delay_is_counted() {
    let builder = Limiter::<u64>::builder(Quota::per_second(1)).algorithm(LeakyQueue::new());
    let gate = builder.clock(ManualClock::new()).count_decisions().build().expect("in range");
    let ask = || gate.ask(&7).at(at(0)).max_delay(Duration::ZERO);
    assert!(ask().check().is_ok() && ask().check().is_err() && !ask().allow());
    assert_eq!((gate.stats().admitted, gate.stats().denied), (Some(1), Some(2)));
}

/// In a table that is larger than the caches, 16 lookups are begun at a time.
#[test]
fn a_batch_tells_each_decision_with_the_index_of_its_item() {
    let gate: Limiter<u64> =
        Limiter::builder(Quota::per_hour(3)).capacity(200_000).build().expect("in range");
    let keys: Vec<u64> = (0..40).map(|index| index % 9).collect();
    let mut told = Vec::new();
    gate.ask_each(&keys, |key| key).at(at(0)).check(|index, decision| {
        told.push((index, decision.is_ok()));
    });
    let expected: Vec<_> = (0..40).map(|index| (index, index < 27)).collect();
    assert_eq!(told, expected);
}

#[test]
fn a_bucket_that_is_reset_is_as_if_never_asked() {
    let gate = Direct::builder(Quota::per_hour(2)).clock(ManualClock::new());
    let gate = gate.build().expect("in range");
    assert!(gate.check_n(2).is_ok() && gate.check().is_err());
    gate.reset();
    assert_eq!(gate.check().expect("full").remaining(), 1);
}

#[test]
fn a_limiter_is_empty_until_a_key_is_live() {
    let gate = Limiter::<u64>::builder(Quota::per_second(1)).clock(ManualClock::new());
    let gate = gate.capacity(100).build().expect("in range");
    assert!(gate.is_empty());
    assert!(gate.check(&7).is_ok());
    assert!(!gate.is_empty());
    gate.clock().set(at(2));
    assert!(gate.is_empty(), "idle is absent");
}

#[test]
#[allow(clippy::float_cmp, reason = "both are exact")]
fn the_load_is_the_share_of_the_slots_with_live_keys() {
    assert_eq!(Occupancy::default().load(), 0.0);
    assert_eq!(Occupancy { live: 3, capacity: 4, slots: 8 }.load(), 0.375);
}

#[test]
fn an_error_about_a_quota_names_the_one_of_the_quota() {
    let quota = QuotaError::ZeroLimit;
    for error in [
        BuildError::Quota(quota),
        BuildError::OverflowQuota(quota),
        BuildError::StrikesQuota(quota),
    ] {
        let source = error.source().expect("that of the quota");
        assert_eq!(source.downcast_ref(), Some(&quota), "{error}");
    }
    assert!(BuildError::ZeroCapacity.source().is_none());
}
