//! A new life of a slot begins with an empty ring, whatever earlier lives left in it.
//!
//! A ring cell carries the generation of its life, and generations repeat after 1,024 lives. A life
//! must not take an old count or event of the same generation for its own.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::limiter::SlotLayout;
use tollgate::{
    Decision, Direct, FixedWindow, Limiter, ManualClock, Quota, SlidingCounter, SlidingLog,
    SubWindows, Tick,
};

const LIVES: u64 = 2 * 1_024 + 10;
const SECOND: u64 = 1_000_000_000;

/// The first life writes to the ring. Each later one decides like a fresh oracle, for a window.
fn lives_are_independent<O: Oracle>(
    fresh: &O,
    check: impl Fn(u64, Tick) -> Decision,
    peek: impl Fn(u64, Tick) -> Decision,
    reset: impl Fn(),
) {
    let at = |tenths: u64| Tick::from_nanos(1_000 * SECOND + tenths * SECOND / 10);
    for (tenths, n) in [(0, 5), (10, 1), (11, 1), (20, 2)] {
        assert!(check(n, at(tenths)).is_ok());
    }
    for life in 0..LIVES {
        reset();
        let mut oracle = fresh.clone();
        let decision = Verdict::from(&check(3, at(21)));
        assert_eq!(decision, oracle.decide(at(21), 3), "life {life}");
        for later in 21..90 {
            let peeked = Verdict::from(&peek(1, at(later)));
            assert_eq!(peeked, oracle.clone().decide(at(later), 1), "life {life} at {later}");
        }
    }
}

fn run<A: Algorithm + Copy>(algorithm: A) {
    let quota = Quota::new(12, Duration::from_secs(6));
    let direct = Direct::builder(quota).algorithm(algorithm).clock(ManualClock::new());
    let direct = direct.build().expect("in range");
    lives_are_independent(
        &direct.params().oracle(),
        |n, now| direct.ask().cells(n).at(now).check(),
        |n, now| direct.ask().cells(n).at(now).peek(),
        || direct.reset(),
    );
    // A key that is reset gives up its slot, and claims the same one again.
    let keyed: Limiter<u64, A, _> = Limiter::builder(quota)
        .algorithm(algorithm)
        .clock(ManualClock::new())
        .capacity(1)
        .hash_seed(7)
        .build()
        .expect("in range");
    lives_are_independent(
        &keyed.params().oracle(),
        |n, now| keyed.ask(&1).cells(n).at(now).check(),
        |n, now| keyed.ask(&1).cells(n).at(now).peek(),
        || keyed.reset(&1),
    );
    assert_eq!(keyed.stats().claimed, LIVES + 1);
}

#[test]
fn sub_windows_ignore_counts_of_an_earlier_life_with_the_same_generation() {
    run(SubWindows::new());
}

#[test]
fn a_sliding_counter_ignores_counts_of_an_earlier_life_with_the_same_generation() {
    run(SlidingCounter::new().older(6));
    run(SlidingCounter::new().older(3));
}

#[test]
fn a_log_ignores_events_of_an_earlier_life_with_the_same_generation() {
    run(SlidingLog::new());
    run(SlidingLog::new().count_denials().and(Quota::new(10, Duration::from_secs(3))));
}

/// Of the keys that take another key's slot 1,024 lives later, some prefer that slot.
#[test]
fn a_refund_reaches_no_other_key_that_has_the_slot_1024_lives_later() {
    let gate: Limiter<u64, FixedWindow, _> = Limiter::builder(Quota::per_day(10))
        .algorithm(FixedWindow::anchored())
        .slots(SlotLayout::Wide)
        .capacity(1)
        .hash_seed(7)
        .clock(ManualClock::new())
        .build()
        .expect("in range");
    for other in 1..200_u64 {
        let reserved = gate.ask(&0).cells(7).reserve().expect("10 are there");
        gate.reset(&0);
        for _ in 0..511 {
            // Each takes the slot, and gives it up.
            assert!(gate.check(&0).is_ok());
            gate.reset(&0);
        }
        assert!(gate.check_n(&other, 10).is_ok());
        drop(reserved);
        let left = gate.ask(&other).cells(0).peek().expect("a peek").remaining();
        assert_eq!(left, 0, "key {other}");
        gate.reset(&other);
    }
}
