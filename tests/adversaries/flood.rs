//! Floods of millions of invented keys.

use tollgate::algorithm::Algorithm;
use tollgate::limiter::SlotLayout;
use tollgate::{
    FixedWindow, Gcra, Limiter, ManualClock, OnFull, Quota, SlidingLog, SubWindows, Tick,
};

const NOW: Tick = Tick::from_nanos(3_600_000_000_000);

/// Bytes of this process that are resident in memory.
#[cfg(target_os = "linux")]
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).expect("a field").parse().expect("a number");
    pages * 4096
}

/// Bound: the table as built, and no more for any number of keys.
#[test]
#[cfg(target_os = "linux")]
fn ten_million_keys_do_not_grow_the_memory() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let gate: Limiter<u64, _, _> = Limiter::builder(Quota::per_second(10))
            .clock(ManualClock::new())
            .capacity(100_000)
            .slots(slots)
            .build()
            .expect("in range");
        let ask = |key: u64| gate.ask(&key).at(NOW).check().is_ok();
        // The system provides a page when it is first written.
        assert!((0..1_000_000).all(ask));
        let (before, parts) = (resident_bytes(), gate.memory_bytes());
        assert!((1_000_000..10_000_000).all(ask), "a new key is served during the flood");
        let grown = resident_bytes().saturating_sub(before);
        assert_eq!(gate.memory_bytes(), parts);
        // Nine million keys of 15 bytes would be 135 MB; other tests run meanwhile.
        assert!(grown < 16 << 20, "{grown} bytes more, {slots:?}");
        assert!(gate.stats().evicted > 9_000_000, "each eviction was counted: {:?}", gate.stats());
    }
}

/// Bound: a newcomer evicts one key, and no other candidate owed less.
#[test]
fn an_evicted_key_owes_no_more_than_any_other_candidate() {
    the_key_that_owes_least_is_evicted(Gcra::new());
    the_key_that_owes_least_is_evicted(FixedWindow::anchored());
    the_key_that_owes_least_is_evicted(SubWindows::new());
    the_key_that_owes_least_is_evicted(SlidingLog::new());
}

fn the_key_that_owes_least_is_evicted<A: Algorithm + core::fmt::Debug>(algorithm: A) {
    const BURST: u64 = 1_000;
    let name = format!("{algorithm:?}");
    let gate: Limiter<u64, A, _> = Limiter::builder(Quota::per_day(BURST))
        .algorithm(algorithm)
        .clock(ManualClock::new())
        .capacity(1)
        .slots(SlotLayout::Wide)
        .on_full(OnFull::EvictNearestIdle)
        .hash_seed(7)
        .build()
        .expect("in range");
    let slots = gate.occupancy_at(NOW).slots;
    let mut live: Vec<(u64, u64)> = Vec::new();
    let mut random = 1_u64;
    for key in 0..3_000_u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let debt = 1 + (random >> 33) % BURST;
        assert!(gate.ask(&key).cells(debt).at(NOW).check().is_ok());
        let owed =
            |key: u64| BURST - gate.ask(&key).cells(0).at(NOW).peek().expect("nothing").remaining();
        live.push((key, debt));
        let (kept, evicted): (Vec<_>, Vec<_>) =
            live.iter().copied().partition(|(key, _)| owed(*key) > 0);
        assert!(kept.iter().all(|(key, debt)| owed(*key) == *debt), "the debts of the others stay");
        assert!(kept.len() <= slots && evicted.len() <= 1);
        for (gone, debt) in evicted {
            let min = kept.iter().filter(|(other, _)| *other != key).map(|(_, debt)| *debt).min();
            assert!(Some(debt) <= min, "{gone} owed {debt}, another {min:?}: {name}");
        }
        live = kept;
    }
    assert_eq!(live.len(), slots);
}
