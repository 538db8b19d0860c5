//! The values that the properties draw: algorithms with quotas, instants, costs.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::{Quota, SlidingCounter, SubWindows};

use crate::bodies::choice::{
    Choice, Cost, EXTREMES, Kind, LogRates, ORIGIN_2025, SECOND, YEAR, with_algorithm,
};
pub(crate) use crate::bodies::moves::{Last, Move};
use crate::bodies::numbers::Listed;

/// A configuration with `count` cases, unless `PROPTEST_CASES` asks for another number. No files of
/// seeds are kept: a failure is printed in full and then becomes a test of its own.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let default = ProptestConfig {
        failure_persistence: None,
        max_local_rejects: u32::MAX,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return default;
    }
    ProptestConfig { cases: count, ..default }
}

fn accepts(choice: Choice, quota: &Quota) -> bool {
    with_algorithm!(choice, algorithm => algorithm.params(quota, ORIGIN_2025).is_ok())
}

/// Any kind whose state is one word, with any options.
pub(crate) fn one_word() -> impl Strategy<Value = Choice> {
    any::<[u64; 13]>().prop_map(|numbers| Kind::draw_one_word(&mut Listed(&numbers)))
}

/// A kind with any options.
pub(crate) fn choices(kind: Kind) -> impl Strategy<Value = Choice> {
    any::<[u64; 12]>().prop_map(move |numbers| kind.draw(&mut Listed(&numbers)))
}

fn offsets() -> impl Strategy<Value = i32> {
    prop_oneof![3 => Just(0), 1 => -86_399..86_400]
}

fn counts(min: u32) -> impl Strategy<Value = u32> {
    prop_oneof![4 => min..10, 2 => min..=256, 1 => Just(256)]
}

pub(crate) fn sub_windows() -> impl Strategy<Value = Choice> {
    (counts(2), offsets()).prop_map(|(count, secs)| {
        Choice::SubWindows(SubWindows::new().count(count).utc_offset_secs(secs))
    })
}

pub(crate) fn counters() -> impl Strategy<Value = Choice> {
    (prop_oneof![1 => Just(1), 1 => counts(1)], offsets()).prop_map(|(older, secs)| {
        Choice::Counter(SlidingCounter::new().older(older).utc_offset_secs(secs))
    })
}

/// A log of up to four rates of at most `max` cells, with the quota that it accepts.
pub(crate) fn logs(max: u64) -> impl Strategy<Value = (Choice, Quota)> {
    let limits = prop_oneof![3 => 1_u64..30, 2 => 1..=max, 1 => Just(max)];
    let share = (prop_oneof![3 => 1_u64..12, 1 => 1..=max], 1_u32..25, 1_u32..61);
    (limits, periods(), prop::collection::vec(share, 0..4), any::<bool>())
        .prop_map(|(limit, period, shares, count_denials)| {
            let quota = Quota::new(limit, Duration::from_nanos(period));
            (Choice::Log(LogRates::beside(&quota, &shares, count_denials)), quota)
        })
        .prop_filter("the algorithm keeps the quota", |(choice, quota)| accepts(*choice, quota))
}

/// An algorithm, and a quota that it accepts.
pub(crate) fn quotas(
    choices: impl Strategy<Value = Choice>,
) -> impl Strategy<Value = (Choice, Quota)> {
    (choices, any_quota())
        .prop_filter("the algorithm keeps the quota", |(choice, quota)| accepts(*choice, quota))
}

/// A number below `2^bits`, small ones as likely as large ones.
pub(crate) fn scales(bits: u32) -> impl Strategy<Value = u64> {
    (0..bits, any::<u64>()).prop_map(|(bits, random)| (1 << bits) | (random & ((1 << bits) - 1)))
}

fn periods() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(1),
        Just(SECOND),
        Just(60 * SECOND),
        Just(3_600 * SECOND),
        Just(24 * 3_600 * SECOND),
        Just(7 * 24 * 3_600 * SECOND),
        Just(YEAR),
        scales(62),
    ]
}

/// The largest burst that a quota may have.
const CELLS_MAX: u64 = 1 << 40;

pub(crate) fn any_quota() -> impl Strategy<Value = Quota> {
    let bursts = prop_oneof![
        3 => Just(None),
        1 => Just(Some(1)),
        2 => (1_u64..100).prop_map(Some),
        2 => scales(40).prop_map(Some),
        1 => proptest::sample::select(&[1 << 32, CELLS_MAX][..]).prop_map(Some),
    ];
    let small = (1_u64..20, 1_u64..200);
    let extreme = proptest::sample::select(&EXTREMES[..]);
    let rates = prop_oneof![
        3 => (1_u64..5_000, periods()),
        2 => (scales(30), scales(62)),
        2 => small,
        1 => extreme,
    ];
    (rates, bursts)
        .prop_map(|((limit, period), burst)| {
            let quota = Quota::new(limit, Duration::from_nanos(period));
            burst.map_or(quota, |cells| quota.burst(cells))
        })
        .prop_filter("the quota is valid", |quota| quota.validate().is_ok())
}

/// Moves of the kinds that these numbers choose: 38 for moves forward, and 20 for others. Each draws the numbers of
/// all kinds. `prop_oneof!` would prepare a generator of its own for each kind, which takes several times as long as
/// the move.
fn moves_of(kinds: std::ops::Range<u8>) -> impl Strategy<Value = Move> {
    let (count, part, off) = (0_u64..12, (0_u32..20, 1_u32..20), -1..=1_i64);
    (kinds, count, part, off, scales(62), any::<u64>()).prop_map(
        |(kind, count, (n, of), off, span, random)| match kind {
            0..8 => Move::Stay,
            8..14 => Move::Forward(span),
            14..18 => Move::Intervals(count % 4, off),
            18..20 => Move::Periods(count % 3, off),
            20..22 => Move::Bursts(count % 3, off),
            22..26 => Move::Parts(n, of, off),
            26..34 => Move::Retry(off),
            34..38 => Move::Reset(off),
            38..46 => Move::Back(span),
            46..50 => Move::BackIntervals(count % 4, off),
            50..54 => Move::Anywhere(random),
            _ => Move::NearTheEnd(random % 1_000),
        },
    )
}

/// Moves that never go back.
pub(crate) fn forward() -> impl Strategy<Value = Move> {
    moves_of(0..38)
}

/// Moves anywhere.
pub(crate) fn moves() -> impl Strategy<Value = Move> {
    moves_of(0..58)
}

/// The instant at which a sequence begins.
pub(crate) fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        scales(50),
        any::<u64>(),
        (0_u64..1_000_000).prop_map(|off| u64::MAX - off)
    ]
}

pub(crate) fn costs() -> impl Strategy<Value = Cost> {
    (0_u8..12, 0_u64..4, any::<u8>()).prop_map(|(kind, few, share)| match kind {
        0..5 => Cost::Few(few),
        5 => Cost::All,
        6 => Cost::OneTooMany,
        7..9 => Cost::Share(share),
        9..11 => Cost::TheRest,
        _ => Cost::Huge,
    })
}
