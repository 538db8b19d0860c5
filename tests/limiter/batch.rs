//! A batch decides like single checks, one after the other; `allow` decides like a check.

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::{
    AnyAlgorithm, Direct, Gcra, Limiter, ManualClock, Quota, SlidingCounter, SlidingLog,
    SubWindows, Tick,
};

/// The capacities: a table that fits the cache (lookups are not prefetched), and a larger one.
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
    fn a_batch_decides_like_single_checks(
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

fn allows_as_it_checks<A: Algorithm + Clone>(algorithm: A, batches: &[(Vec<u64>, u64, u64)]) {
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
    fn allow_charges_and_admits_like_check(
        batches in prop::collection::vec(
            (prop::collection::vec(0_u64..30, 0..50), 0_u64..4, 0_u64..700),
            1..12,
        ),
    ) {
        allows_as_it_checks(Gcra::start_empty(), &batches);
        allows_as_it_checks(SubWindows::new(), &batches);
        allows_as_it_checks(SlidingCounter::new(), &batches);
        allows_as_it_checks(SlidingLog::new().and(Quota::per_minute(9)), &batches);
        allows_as_it_checks(SlidingLog::new().count_denials(), &batches);
        allows_as_it_checks(AnyAlgorithm::from(SlidingLog::new()), &batches);
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
