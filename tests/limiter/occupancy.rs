//! The reported occupancy of a limiter.

use tollgate::limiter::SlotLayout;
use tollgate::{FixedWindow, Gcra, Limiter, ManualClock, OnFull, Quota, Tick};

fn gate(capacity: u64, slots: SlotLayout) -> Limiter<u64, Gcra, ManualClock> {
    Limiter::builder(Quota::per_hour(10))
        .clock(ManualClock::new())
        .capacity(capacity)
        .slots(slots)
        .on_full(OnFull::Deny)
        .build()
        .expect("in range")
}

#[test]
fn the_capacity_is_the_requested_one_rounded_up_to_whole_buckets() {
    for (slots, slot_bytes) in [(SlotLayout::Wide, 16), (SlotLayout::Compact, 8)] {
        for capacity in [1_u64, 7, 8, 9, 10, 100, 101, 999, 12_345, 100_000, 1_000_000] {
            let occupancy = gate(capacity, slots).occupancy();
            let asked = usize::try_from(capacity).expect("64 bits");
            assert!((asked..=(asked + 5).max(8)).contains(&occupancy.capacity), "{occupancy:?}");
            let bytes = occupancy.slots * slot_bytes;
            assert_eq!(bytes, gate(capacity, slots).memory_bytes());
            let needed = (occupancy.capacity * 100).div_ceil(55).next_multiple_of(8);
            let factor = match (capacity, slots) {
                (100 | 101, _) | (999, SlotLayout::Compact) => 8,
                (999, _) => 4,
                _ => 1,
            };
            assert_eq!(occupancy.slots, factor * needed);
            assert!(factor == 1 || bytes <= 128 << 10);
            assert!(occupancy.live == 0 && occupancy.load() == 0.0);
        }
    }
}

#[test]
fn a_key_is_live_until_time_has_restored_its_cells() {
    let gate = gate(1_000, SlotLayout::Wide);
    let at = |minutes: u64| Tick::from_nanos(minutes * 60_000_000_000);
    for key in 0..500 {
        // Each cell takes a tenth of an hour: the first half of the keys becomes idle before the
        // other.
        assert!(gate.ask(&key).cells(1 + key / 250).at(at(0)).check().is_ok());
    }
    let live = [0, 5, 7, 11, 13].map(|minutes| gate.occupancy_at(at(minutes)).live);
    assert_eq!(live, [500, 500, 250, 250, 0]);
}

#[test]
fn a_table_can_hold_more_keys_than_its_capacity() {
    let gate = gate(1, SlotLayout::Compact);
    let admitted = (0..100).filter(|key| gate.check(key).is_ok()).count();
    let occupancy = gate.occupancy();
    assert_eq!((admitted, occupancy.live, occupancy.slots), (16, 16, 16));
    assert_eq!((occupancy.capacity, occupancy.load()), (8, 1.0));
    assert_eq!(gate.stats().denied_full, 84);
}

#[test]
fn the_occupancy_does_not_count_rings() {
    let windows = Limiter::<u64>::builder(Quota::per_hour(10))
        .algorithm(FixedWindow::anchored())
        .capacity(100)
        .build()
        .expect("in range");
    let rings = Limiter::<u64>::builder(Quota::per_hour(10))
        .algorithm(tollgate::SubWindows::new())
        .capacity(100)
        .build()
        .expect("in range");
    assert_eq!(rings.occupancy().slots, windows.occupancy().slots);
}
