//! How well keys find a place: forced evictions at the stated capacity, and what eviction takes.

use std::time::Duration;

use tollgate::{Limiter, ManualClock, OnFull, Quota, SlidingLog, SubWindows, Tick};

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

/// A log with a ring beside each slot finds places like any other: a key is live for one window.
#[test]
fn logs_at_capacity_find_places_too() {
    const KEYS: u64 = 20_000;
    let gate: Limiter<u64, _, _> = Limiter::builder(Quota::per_second(3))
        .algorithm(SlidingLog::new())
        .clock(ManualClock::new())
        .capacity(KEYS)
        .on_full(OnFull::Refuse)
        .max_clock_skew(Duration::ZERO)
        .hash_seed(7)
        .build()
        .expect("in range");
    let spacing_nanos = 1_000_000_000 / KEYS;
    let arrivals = 10 * KEYS;
    for key in 0..arrivals {
        let _ = gate.check_at(&key, 1 + key % 3, Tick::from_nanos(key * spacing_nanos));
    }
    let live = gate.len_at(Tick::from_nanos(arrivals * spacing_nanos));
    assert!(KEYS.abs_diff(live as u64) < KEYS / 20, "{live} live keys");
    let refused = gate.stats().refused_full;
    assert!(refused * 5_000 < arrivals, "{refused} of {arrivals} found no place");
}

/// Among counts that leave at the same time, the largest is the last to be forgotten.
#[test]
fn heavy_offenders_among_sub_windows_are_the_last_to_be_forgotten() {
    let gate: Limiter<u64, _, _> = Limiter::builder(Quota::per_minute(100))
        .algorithm(SubWindows::new())
        .clock(ManualClock::new())
        .capacity(1_000)
        .hash_seed(7)
        .build()
        .expect("in range");
    let now = Tick::from_nanos(1_000_000_000);
    for key in 0..100_u64 {
        assert!(gate.check_at(&key, 100, now).is_ok());
    }
    for key in 1_000..51_000_u64 {
        assert!(gate.check_at(&key, 1, now).is_ok(), "a new key is served during the flood");
    }
    assert!(gate.stats().evicted > 45_000);
    for key in 0..100_u64 {
        assert!(gate.check_at(&key, 1, now).is_err(), "offender {key} was forgotten");
    }
}
