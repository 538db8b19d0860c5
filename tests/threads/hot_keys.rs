//! Hot keys leased to threads: the totals stay exact.
//!
//! How often threads contend depends on the scheduler, so no test asserts it. The models of
//! `loom-tests/tests/hot_key_leases.rs` and the unit tests of `src/limiter/hot_keys/` cover each race.

use tollgate::algorithm::Algorithm;
use tollgate::{FixedWindow, Gcra, Limiter, ManualClock, Quota, SlidingCounter, SubWindows, Tick};

use crate::{Random, drain, together};

const START: Tick = Tick::from_nanos(3_600_000_000_000);
const THREADS: u64 = 8;
const TAKE: u64 = 64;

type Gate<A = Gcra> = Limiter<usize, A, ManualClock>;

fn gate(burst: u64) -> Gate {
    gate_of(Gcra::new().leases(TAKE), Quota::per_hour(burst).burst(burst + TAKE))
}

fn gate_of<A: Algorithm>(algorithm: A, quota: Quota) -> Gate<A> {
    Limiter::builder(quota)
        .algorithm(algorithm)
        .clock(ManualClock::new())
        .capacity(1_000)
        .lease_hot_keys()
        .build()
        .expect("in range")
}

fn left(gate: &Gate<impl Algorithm>, key: usize) -> u64 {
    gate.ask(&key).cells(0).at(START).peek().expect("no cells").remaining()
}

/// With a frozen clock no lease expires, and a thread is denied a cell only when its lease is
/// empty.
#[test]
fn eight_threads_on_one_hot_key_are_granted_exactly_the_burst() {
    const BURST: u64 = 200_000;
    let shared: u64 = (0..20).map(|round| emptied(&gate(BURST), BURST, round)).sum();
    println!("{shared} leases");
}

#[test]
fn eight_threads_on_one_hot_key_of_a_window_are_granted_exactly_its_limit() {
    const LIMIT: u64 = 200_000;
    let quota = Quota::per_hour(LIMIT);
    let shared: u64 = (0..5)
        .map(|round| {
            emptied(&gate_of(FixedWindow::aligned().leases(TAKE), quota), LIMIT, round)
                + emptied(&gate_of(FixedWindow::anchored().leases(TAKE), quota), LIMIT, round)
                + emptied(&gate_of(SubWindows::new().leases(TAKE), quota), LIMIT, round)
                + emptied(&gate_of(SlidingCounter::new().leases(TAKE), quota), LIMIT, round)
        })
        .sum();
    println!("{shared} leases");
}

/// Eight threads ask until nothing is left of `cells`. Returns how many leases they took.
fn emptied(gate: &Gate<impl Algorithm>, cells: u64, round: u64) -> u64 {
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
    assert_eq!((granted, left(gate, 7)), (cells, 0));
    gate.stats().leased
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
