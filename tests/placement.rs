//! How well keys find a place: forced evictions at the stated capacity, and what eviction takes.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::limiter::SlotLayout;
use tollgate::{Builder, Limiter, ManualClock, OnFull, Quota, SlidingLog, SubWindows, Tick};

/// New keys arrive evenly, `capacity` of them a second, while old ones run out after a second.
/// Tells how many are live in the end, after few have found no place.
fn come_and_go<A: Algorithm>(
    begun: Builder<u64, A>,
    capacity: u64,
    cells: impl Fn(u64) -> u64,
) -> u64 {
    let gate = begun
        .clock(ManualClock::new())
        .capacity(capacity)
        .on_full(OnFull::Deny)
        .max_clock_skew(Duration::ZERO)
        .hash_seed(7)
        .build()
        .expect("in range");
    let spacing_nanos = 1_000_000_000 / capacity;
    let arrivals = 10 * capacity;
    for key in 0..arrivals {
        let _ = gate.ask(&key).cells(cells(key)).at(Tick::from_nanos(key * spacing_nanos)).check();
    }
    let denied = gate.stats().denied_full;
    assert!(denied * 5_000 < arrivals, "{denied} of {arrivals} found no place");
    gate.len_at(Tick::from_nanos(arrivals * spacing_nanos)) as u64
}

/// `newcomers` keys flood a table of a thousand, in which a hundred keys have spent all 100 cells.
fn flood<A: Algorithm>(begun: Builder<u64, A>, newcomers: u64, evicted_min: u64) {
    let gate =
        begun.clock(ManualClock::new()).capacity(1_000).hash_seed(7).build().expect("in range");
    let now = Tick::from_nanos(1_000_000_000);
    let offenders = 0..100_u64;
    for key in offenders.clone() {
        assert!(gate.ask(&key).cells(100).at(now).check().is_ok());
    }
    for key in 1_000..1_000 + newcomers {
        assert!(gate.ask(&key).at(now).check().is_ok(), "a new key is served during the flood");
    }
    assert!(gate.stats().evicted > evicted_min);
    for key in offenders {
        assert!(gate.ask(&key).at(now).check().is_err(), "offender {key} was forgotten");
    }
}

#[test]
fn at_capacity_one_new_key_in_thousands_finds_no_place() {
    const CAPACITY: u64 = 100_000;
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let begun = Limiter::builder(Quota::per_second(1).burst(1)).slots(slots);
        let live = come_and_go(begun, CAPACITY, |_| 1);
        assert!((CAPACITY - live) < CAPACITY / 20, "{live} live keys, {slots:?}");
    }
}

/// A log with a ring beside each slot finds places like any other: a key is live for one window.
#[test]
fn logs_at_capacity_find_places_too() {
    const CAPACITY: u64 = 20_000;
    let begun = Limiter::builder(Quota::per_second(3)).algorithm(SlidingLog::new());
    let live = come_and_go(begun, CAPACITY, |key| 1 + key % 3);
    assert!(CAPACITY.abs_diff(live) < CAPACITY / 20, "{live} live keys");
}

/// A flood of new keys through a full table takes the place of those with the least debt.
#[test]
fn heavy_offenders_are_the_last_to_be_forgotten() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let begun = Limiter::builder(Quota::per_second(10).burst(100)).slots(slots);
        flood(begun, 100_000, 90_000);
    }
}

/// Among counts that leave at the same time, the largest is the last to be forgotten.
#[test]
fn heavy_offenders_among_sub_windows_are_the_last_to_be_forgotten() {
    let begun = Limiter::builder(Quota::per_minute(100)).algorithm(SubWindows::new());
    flood(begun, 50_000, 45_000);
}
