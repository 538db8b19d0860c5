//! A batch is as many decisions one by one; yes or no is as much of a decision.

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::{
    AnyAlgorithm, Direct, Gcra, Limiter, ManualClock, Quota, SlidingCounter, SlidingLog,
    SubWindows, Tick,
};

/// Tables near at hand (whose lookups are not begun ahead), and larger ones.
const CAPACITIES: [u64; 2] = [20, 100_000];

fn twins<A: Algorithm + Clone>(algorithm: A, capacity: u64) -> [Limiter<u64, A, ManualClock>; 2] {
    [(); 2].map(|()| {
        Limiter::<u64>::builder(Quota::per_second(3))
            .algorithm(algorithm.clone())
            .clock(ManualClock::new())
            .capacity(capacity)
            .hash_seed(7)
            .build()
            .expect("in range")
    })
}

fn agree<A: Algorithm + Clone>(algorithm: A, capacity: u64, batches: &[(Vec<u64>, u64, u64)]) {
    let [together, apart] = twins(algorithm, capacity);
    let mut now = Tick::ZERO;
    for (keys, n, millis) in batches {
        now = Tick::from_nanos(now.as_nanos() + millis * 1_000_000);
        let mut decisions = Vec::new();
        together.ask_each(keys, |key| key).cells(*n).at(now).check(|index, decision| {
            assert_eq!(index, decisions.len());
            decisions.push(decision);
        });
        let expected: Vec<_> =
            keys.iter().map(|key| apart.ask(key).cells(*n).at(now).check()).collect();
        assert_eq!(decisions, expected);
    }
    assert_eq!(together.stats(), apart.stats());
}

proptest! {
    #[test]
    fn a_batch_decides_as_one_by_one(
        batches in prop::collection::vec(
            (prop::collection::vec(0_u64..60, 0..50), 0_u64..4, 0_u64..700),
            1..12,
        ),
    ) {
        for capacity in CAPACITIES {
            agree(Gcra::new(), capacity, &batches);
            agree(SlidingLog::new(), capacity, &batches);
        }
    }
}

fn allowed_as_checked<A: Algorithm + Clone>(algorithm: A, batches: &[(Vec<u64>, u64, u64)]) {
    let [brief, whole] = twins(algorithm.clone(), 20);
    let one = || {
        let built = Direct::builder(Quota::per_second(3)).algorithm(algorithm.clone());
        built.clock(ManualClock::new()).build().expect("in range")
    };
    let (brief_one, whole_one) = (one(), one());
    let mut now = Tick::ZERO;
    for (keys, n, millis) in batches {
        now = Tick::from_nanos(now.as_nanos() + millis * 1_000_000);
        for key in keys {
            assert_eq!(
                brief.ask(key).cells(*n).at(now).allow(),
                whole.ask(key).cells(*n).at(now).check().is_ok()
            );
            assert_eq!(
                brief.ask(key).cells(*n).at(now).peek(),
                whole.ask(key).cells(*n).at(now).peek()
            );
        }
        assert_eq!(
            brief_one.ask().cells(*n).at(now).allow(),
            whole_one.ask().cells(*n).at(now).check().is_ok()
        );
        assert_eq!(
            brief_one.ask().cells(*n).at(now).peek(),
            whole_one.ask().cells(*n).at(now).peek()
        );
    }
    assert_eq!(brief.stats(), whole.stats());
}

proptest! {
    #[test]
    fn yes_or_no_charges_and_admits_as_a_whole_decision(
        batches in prop::collection::vec(
            (prop::collection::vec(0_u64..30, 0..50), 0_u64..4, 0_u64..700),
            1..12,
        ),
    ) {
        allowed_as_checked(Gcra::start_empty(), &batches);
        allowed_as_checked(SubWindows::new(), &batches);
        allowed_as_checked(SlidingCounter::new(), &batches);
        allowed_as_checked(SlidingLog::new().and(Quota::per_minute(9)), &batches);
        allowed_as_checked(SlidingLog::new().count_denials(), &batches);
        allowed_as_checked(AnyAlgorithm::from(SlidingLog::new()), &batches);
    }
}

#[test]
fn a_batch_reads_the_clock_once_and_takes_borrowed_keys() {
    let clock = ManualClock::new();
    let gate: Limiter<str, Gcra, _> =
        Limiter::builder(Quota::per_second(1)).clock(&clock).build().expect("in range");
    let mut admitted = Vec::new();
    gate.ask_each(&["a", "b", "a"], |key| key).check(|_, decision| admitted.push(decision.is_ok()));
    let owned = ["a".to_owned(), "c".to_owned()];
    gate.ask_each(&owned, |key| key).check(|_, decision| admitted.push(decision.is_ok()));
    assert_eq!(admitted, [true, true, false, false, true]);
}
