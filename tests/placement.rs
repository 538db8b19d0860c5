//! The share of keys that find a slot: evictions at the stated capacity, and the cost of eviction.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::limiter::SlotLayout;
use tollgate::{Builder, Limiter, ManualClock, OnFull, Quota, SlidingLog, SubWindows, Tick};

/// New keys arrive evenly, `capacity` of them a second, and old ones become idle after a second.
/// Few of them may find no slot. Returns how many are live at the end.
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
    assert!(denied * 5_000 < arrivals, "{denied} of {arrivals} found no slot");
    gate.len_at(Tick::from_nanos(arrivals * spacing_nanos)) as u64
}

/// `newcomers` keys flood a table of a thousand, in which a hundred keys have spent all 100 cells.
fn flood<A: Algorithm>(begun: Builder<u64, A>, newcomers: u64) {
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
    // All of them are live, and no two have one slot.
    let least = newcomers + 100 - gate.occupancy_at(now).slots as u64;
    assert!(gate.stats().evicted >= least && least > newcomers / 2, "{:?}", gate.stats());
    for key in offenders {
        assert!(gate.ask(&key).at(now).check().is_err(), "offender {key} was evicted");
    }
}

/// Sixteen keys have all the slots, and have spent everything. A new key that is denied was taken for one of
/// them. In compact slots, one in four million is: any more than six of so many would be a chance of 1 in
/// 10,000 with 26 bits of fingerprint, and are expected with 22.
#[test]
fn few_keys_are_taken_for_one_of_the_sixteen_in_a_full_table() {
    for (slots, max) in [(SlotLayout::Wide, 0), (SlotLayout::Compact, 6)] {
        let gate = Limiter::<u64>::builder(Quota::per_day(1))
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(OnFull::Deny)
            .slots(slots)
            .hash_seed(7)
            .build()
            .expect("in range");
        assert!((0..16).all(|key| gate.ask(&key).at(Tick::ZERO).check().is_ok()));
        let is_denied = |key: &u64| gate.ask(key).at(Tick::ZERO).peek().is_err();
        assert!((0..16).all(|key| is_denied(&key)), "{slots:?}: each has its slot");
        let taken_for_another = (16..1 << 22).filter(is_denied).count();
        assert!(taken_for_another <= max, "{slots:?}: {taken_for_another}");
    }
}

#[test]
fn at_capacity_at_most_one_new_key_in_5000_finds_no_slot() {
    const CAPACITY: u64 = 100_000;
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let begun = Limiter::builder(Quota::per_second(1).burst(1)).slots(slots);
        let live = come_and_go(begun, CAPACITY, |_| 1);
        assert!((CAPACITY - live) < CAPACITY / 20, "{live} live keys, {slots:?}");
    }
}

/// A log with a ring beside each slot finds slots like any other algorithm: a key is live for one
/// window.
#[test]
fn at_capacity_logs_find_slots_as_often() {
    const CAPACITY: u64 = 20_000;
    let begun = Limiter::builder(Quota::per_second(3)).algorithm(SlidingLog::new());
    let live = come_and_go(begun, CAPACITY, |key| 1 + key % 3);
    assert!(CAPACITY.abs_diff(live) < CAPACITY / 20, "{live} live keys");
}

/// A flood of new keys through a full table evicts the keys with the least debt.
#[test]
fn a_flood_through_a_full_table_evicts_no_heavy_offender() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let begun = Limiter::builder(Quota::per_second(10).burst(100)).slots(slots);
        flood(begun, 100_000);
    }
}

/// Of counts that leave at the same time, the largest is evicted last.
#[test]
fn a_flood_through_full_sub_windows_evicts_no_heavy_offender() {
    let begun = Limiter::builder(Quota::per_minute(100)).algorithm(SubWindows::new());
    flood(begun, 50_000);
}
