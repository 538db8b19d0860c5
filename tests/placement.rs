//! How well keys find a place: forced evictions at the stated capacity, and what eviction takes.

use std::time::Duration;

use tollgate::{Limiter, ManualClock, OnFull, Quota, Tick};

const CAPACITY: u64 = 100_000;

/// New keys arrive evenly while old ones run out, so that `CAPACITY` keys are live at any time.
#[test]
fn at_capacity_one_new_key_in_thousands_finds_no_place() {
    let gate: Limiter<u64, _, _> = Limiter::builder(Quota::per_second(1).burst(1))
        .clock(ManualClock::new())
        .capacity(CAPACITY)
        .on_full(OnFull::Refuse)
        .max_clock_skew(Duration::ZERO)
        .hash_seed(7)
        .build()
        .expect("in range");
    let spacing_nanos = 1_000_000_000 / CAPACITY;
    let arrivals = 10 * CAPACITY;
    for key in 0..arrivals {
        let _ = gate.check_at(&key, 1, Tick::from_nanos(key * spacing_nanos));
    }
    let live = gate.len_at(Tick::from_nanos(arrivals * spacing_nanos));
    assert!((CAPACITY - live as u64) < CAPACITY / 20, "{live} live keys");
    let refused = gate.stats().refused_full;
    assert!(refused * 5_000 < arrivals, "{refused} of {arrivals} found no place");
}

/// A flood of new keys through a full table takes the place of those with the least debt.
#[test]
fn heavy_offenders_are_the_last_to_be_forgotten() {
    let gate: Limiter<u64, _, _> = Limiter::builder(Quota::per_second(10).burst(100))
        .clock(ManualClock::new())
        .capacity(1_000)
        .hash_seed(7)
        .build()
        .expect("in range");
    let now = Tick::from_nanos(1_000_000_000);
    let offenders = 0..100_u64;
    for key in offenders.clone() {
        assert!(gate.check_at(&key, 100, now).is_ok());
    }
    for key in 1_000..101_000_u64 {
        assert!(gate.check_at(&key, 1, now).is_ok(), "a new key is served during the flood");
    }
    assert!(gate.stats().evicted > 90_000);
    for key in offenders {
        assert!(gate.check_at(&key, 1, now).is_err(), "offender {key} was forgotten");
    }
}
