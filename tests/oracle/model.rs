//! Random operations compared with one oracle for each key.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::limiter::SlotLayout;
use tollgate::stats::Stats;
use tollgate::{Gcra, OnFull, Quota, SlidingCounter, SubWindows, Tick};

use crate::bodies::choice::{Choice, Cost, Kind, LogRates, ORIGIN_2025, with_algorithm};
use crate::bodies::keyed::{Keyed, Operation, Setup};
use crate::bodies::numbers::Listed;
use crate::bodies::run;
use crate::choice::cases;

/// A kind whose state is one word, with any options.
fn choices() -> impl Strategy<Value = Choice> {
    any::<[u64; 13]>().prop_map(|numbers| Kind::draw_one_word(&mut Listed(&numbers)))
}

/// Options that suit a quota, with the others of the setup.
fn choices_with_setups() -> impl Strategy<Value = (Choice, Setup)> {
    (choices(), setups()).prop_filter("the algorithm keeps the quota", |(choice, setup)| {
        with_algorithm!(*choice, algorithm => algorithm.params(&setup.quota, ORIGIN_2025).is_ok())
    })
}

fn quotas() -> impl Strategy<Value = Quota> {
    prop::sample::select(vec![
        "1/s",
        "10/s burst 3",
        "5/min",
        "1000/s burst 20",
        "3/ns",
        "1/y burst 4",
        "1000003/s burst 7",
        "600000000/s burst 10",
        "1000000000/s burst 1",
    ])
    .prop_map(|text| match text {
        "3/ns" => Quota::new(3, Duration::from_nanos(7)),
        text => text.parse().expect("a quota"),
    })
}

fn policies() -> impl Strategy<Value = OnFull> {
    prop_oneof![
        Just(OnFull::EvictNearestIdle),
        Just(OnFull::Deny),
        Just(OnFull::Admit),
        quotas().prop_map(OnFull::SharedOverflow),
    ]
}

fn setups() -> impl Strategy<Value = Setup> {
    let skews = prop_oneof![Just(0), Just(1_000_000), 0_u64..4_000, 0_u64..10_000_000_000];
    let starts = prop_oneof![
        Just(0),
        Just(3_600_000_000_000),
        any::<u64>(),
        (1_u64..1 << 40).prop_map(|before| u64::MAX - before),
    ];
    (quotas(), policies(), 1_u64..20, skews, any::<u64>(), starts).prop_map(
        |(quota, on_full, capacity, skew, seed, start)| Setup {
            quota,
            on_full,
            capacity,
            slots: SlotLayout::Wide,
            skew: Duration::from_nanos(skew),
            seed,
            start: Tick::from_nanos(start),
        },
    )
}

fn costs() -> impl Strategy<Value = Cost> {
    (0_u8..15, 0_u64..4, any::<u8>()).prop_map(|(kind, few, share)| match kind {
        0..6 => Cost::Few(few),
        6..9 => Cost::TheRest,
        9..11 => Cost::All,
        11 => Cost::OneTooMany,
        12 => Cost::Huge,
        _ => Cost::Share(share),
    })
}

/// Each draws the numbers of all kinds. `prop_oneof!` would prepare a generator of its own for each kind, which takes
/// longer than the operation.
fn operations() -> impl Strategy<Value = Operation> {
    let numbers = (0_u8..30, 0_u32..120, 0_u64..1 << 10);
    (0_u8..33, 0_u16..60, costs(), numbers).prop_map(|(kind, key, cost, (few, bits, span))| {
        match kind {
            0..20 => Operation::Check { key, cost },
            20..24 => Operation::Allow { key, cost },
            24..26 => Operation::Peek { key, cost },
            26 => Operation::Reset { key },
            27 => Operation::Count,
            28 => Operation::ToRetry(few % 3),
            29 => Operation::ToReset(few % 3),
            30 => Operation::Forward(span << (bits % 40)),
            31 => Operation::ForwardIntervals(few % 10),
            _ => Operation::Back(span << (bits % 30)),
        }
    })
}

/// Algorithms with a ring, and quotas whose rings wrap around.
fn rings() -> impl Strategy<Value = (Choice, Quota)> {
    let quotas = prop::sample::select(vec!["1/s", "10/s", "5/min", "3/h", "64/s", "7/d"]);
    let rates = prop::collection::vec((1_u64..9, 1_u32..9, 1_u32..9), 0..4);
    let quotas = quotas.prop_map(|text| text.parse::<Quota>().expect("a quota"));
    (quotas, 0..4_u8, 1_u32..9, rates, any::<bool>()).prop_map(
        |(quota, kind, few, rates, count)| {
            let choice = match kind {
                0 => Choice::SubWindows(SubWindows::new().count(few + 1)),
                1 => Choice::Counter(SlidingCounter::new().older(few)),
                _ => Choice::Log(LogRates::beside(&quota, &rates, count)),
            };
            (choice, quota)
        },
    )
}

proptest! {
    #![proptest_config(cases(5_000))]

    /// Slots change hands all the time, and each life must start with an empty ring.
    #[test]
    fn every_key_with_a_slot_and_a_ring_equals_its_oracle(
        (choice, quota) in rings(),
        setup in setups(),
        operations in prop::collection::vec(operations(), 1..250),
    ) {
        let on_full = match setup.on_full {
            OnFull::SharedOverflow(_) => OnFull::SharedOverflow(quota),
            other => other,
        };
        run(choice, &Setup { quota, on_full, ..setup }, &operations);
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn every_key_with_a_slot_equals_its_oracle(
        (choice, setup) in choices_with_setups(),
        operations in prop::collection::vec(operations(), 1..250),
    ) {
        run(choice, &setup, &operations);
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// The same in compact slots, if algorithm and quota fit them. The few seeds are chosen so that
    /// no two of the keys share a fingerprint.
    #[test]
    fn every_key_with_a_compact_slot_equals_its_oracle(
        (choice, setup) in choices_with_setups().prop_filter("has compact states", |(choice, _)| {
            let small = Quota::per_second(10);
            with_algorithm!(*choice, algorithm => {
                algorithm.compact_params(&small, ORIGIN_2025).is_ok_and(|narrow| narrow.is_some())
            })
        }),
        operations in prop::collection::vec(operations(), 1..250),
    ) {
        let setup = Setup { slots: SlotLayout::Auto, seed: setup.seed % 256, ..setup };
        run(choice, &setup, &operations);
    }
}

/// The model needs contention to test: forty keys compete for sixteen slots.
fn run_crowded(on_full: OnFull, slots: SlotLayout) -> Stats {
    let setup = Setup {
        quota: Quota::per_second(10).burst(5),
        on_full,
        capacity: 1,
        slots,
        skew: Duration::from_millis(1),
        seed: 7,
        start: Tick::from_nanos(1_000_000_000),
    };
    let choice = Choice::Bucket(Gcra::new());
    let mut keyed = Keyed::new(Gcra::new(), choice, &setup).expect("in range");
    for turn in 0..2_000_u64 {
        let key = u16::try_from(turn * 17 % 41).expect("below 41");
        keyed.apply(&Operation::Check { key, cost: Cost::Few(1 + turn % 3) });
        // A pause now and then, in which all keys become idle.
        let pause = if turn % 300 == 299 { 2_000_000_000 } else { 3_000_000 };
        keyed.apply(&Operation::Forward(pause));
        keyed.apply(&Operation::Back(turn % 1_000_000));
    }
    keyed.finish();
    keyed.stats()
}

fn check_policies(slots: SlotLayout) {
    let evict = run_crowded(OnFull::EvictNearestIdle, slots);
    assert!(evict.evicted > 100 && evict.claimed > evict.evicted, "{evict:?}");
    assert_eq!((evict.denied_full, evict.admitted_full, evict.overflowed), (0, 0, 0));

    let deny = run_crowded(OnFull::Deny, slots);
    assert!(deny.denied_full > 100 && deny.claimed > 16, "{deny:?}");
    assert_eq!((deny.evicted, deny.admitted_full, deny.overflowed), (0, 0, 0));

    let admit = run_crowded(OnFull::Admit, slots);
    assert!(admit.admitted_full > 100, "{admit:?}");
    assert_eq!((admit.evicted, admit.denied_full, admit.overflowed), (0, 0, 0));

    let share = run_crowded(OnFull::SharedOverflow(Quota::per_second(50).burst(9)), slots);
    assert!(share.overflowed > 100, "{share:?}");
    assert_eq!((share.evicted, share.denied_full, share.admitted_full), (0, 0, 0));
}

#[test]
fn each_policy_is_exercised_and_counts_only_its_own_events() {
    check_policies(SlotLayout::Wide);
    check_policies(SlotLayout::Compact);
}
