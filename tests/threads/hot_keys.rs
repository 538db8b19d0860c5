//! Hot keys leased to threads: the totals stay exact.
//!
//! How often threads contend depends on the scheduler, so no test asserts it. The models of
//! `loom-tests/tests/hot_key_leases.rs` and the unit tests of `src/limiter/hot_keys/` cover each race.

use tollgate::{Gcra, Limiter, ManualClock, Quota, Tick};

use crate::{Random, drain, together};

const START: Tick = Tick::from_nanos(3_600_000_000_000);
const THREADS: u64 = 8;
const TAKE: u64 = 64;

fn gate(burst: u64) -> Limiter<usize, Gcra, ManualClock> {
    Limiter::builder(Quota::per_hour(burst).burst(burst + TAKE))
        .algorithm(Gcra::new().leases(TAKE))
        .clock(ManualClock::new())
        .capacity(1_000)
        .lease_hot_keys()
        .build()
        .expect("in range")
}

fn left(gate: &Limiter<usize, Gcra, ManualClock>, key: usize) -> u64 {
    gate.ask(&key).cells(0).at(START).peek().expect("no cells").remaining()
}

/// With a frozen clock no lease expires, and a thread is denied a cell only when its lease is
/// empty.
#[test]
fn eight_threads_on_one_hot_key_are_granted_exactly_the_burst() {
    const BURST: u64 = 200_000;
    let mut shared = 0;
    for round in 0..20 {
        let gate = gate(BURST);
        let granted: u64 = together(THREADS, |index| {
            let mut random = Random::new(index + THREADS * round);
            let mut granted = 0;
            for _ in 0..20_000 {
                let n = random.below(3);
                granted += if gate.ask(&7).cells(n).at(START).check().is_ok() { n } else { 0 };
            }
            let granted = granted + drain(|| gate.ask(&7).at(START).check().is_ok());
            assert_eq!(gate.ask(&7).at(START).held(), 0);
            granted
        })
        .iter()
        .sum();
        assert_eq!((granted, left(&gate, 7)), (BURST, 0));
        shared += gate.stats().leased;
    }
    println!("{shared} leases");
}

/// If keys compete for the same lease cell, leased cells of one may be lost, but no cell is granted
/// twice.
#[test]
fn eight_threads_on_several_hot_keys_are_granted_at_most_the_burst() {
    const BURST: u64 = 20_000;
    const KEYS: usize = 20;
    let mut shared = 0;
    for round in 0..10 {
        let gate = gate(BURST);
        let results = together(THREADS, |index| {
            let mut random = Random::new(index + THREADS * round);
            let mut granted = [0; KEYS];
            for _ in 0..100_000 {
                let key = random.below(2) * random.below(KEYS as u64);
                let key = usize::try_from(key).expect("below 20");
                let n = random.below(3);
                granted[key] +=
                    if gate.ask(&key).cells(n).at(START).check().is_ok() { n } else { 0 };
            }
            granted
        });
        for key in 0..KEYS {
            let granted: u64 = results.iter().map(|granted| granted[key]).sum();
            assert!(granted + left(&gate, key) <= BURST, "{key}: {granted}");
        }
        shared += gate.stats().leased;
    }
    println!("{shared} leases");
}
