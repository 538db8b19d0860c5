//! Draws cases from the same ranges as `tests/oracle/choice.rs`, without proptest, which takes
//! longer to draw a step than a limiter takes to decide.

use std::time::Duration;

use tollgate::Quota;
use tollgate::algorithm::Algorithm;

use crate::bodies::choice::{
    Choice, Cost, EXTREMES, Kind, LogRates, ORIGIN_2025, SECOND, YEAR, with_algorithm,
};
use crate::bodies::moves::Move;
use crate::bodies::numbers::Numbers;
use crate::chance::Chance;

/// The algorithm of a kind, and a quota that it accepts.
pub(crate) fn choice_with_quota(kind: Kind, chance: &mut Chance) -> (Choice, Quota) {
    loop {
        let (choice, quota) = match kind.draw(chance) {
            // A log's further rates depend on its quota.
            Choice::Log(_) => log(chance),
            choice => (choice, quota(chance)),
        };
        let accepted = quota.validate().is_ok()
            && with_algorithm!(choice, algorithm => {
                algorithm.params(&quota, ORIGIN_2025).is_ok()
            });
        if accepted {
            return (choice, quota);
        }
    }
}

fn log(chance: &mut Chance) -> (Choice, Quota) {
    let limit = match chance.below(16) {
        0 => chance.within(1, 300),
        _ => chance.within(1, 20),
    };
    let quota = Quota::new(limit, Duration::from_nanos(period_nanos(chance)));
    let rates = chance.few(4);
    let shares: Vec<_> = (0..rates)
        .map(|_| (chance.within(1, 12), 1 + chance.few(24), 1 + chance.few(60)))
        .collect();
    (Choice::Log(LogRates::beside(&quota, &shares, chance.below(2) == 0)), quota)
}

fn period_nanos(chance: &mut Chance) -> u64 {
    const DAY: u64 = 24 * 3_600 * SECOND;
    match chance.below(3) {
        0 => chance.scaled(62),
        _ => chance.one_of(&[1, SECOND, 60 * SECOND, 3_600 * SECOND, DAY, 7 * DAY, YEAR]),
    }
}

fn quota(chance: &mut Chance) -> Quota {
    let (limit, period) = match chance.below(8) {
        0..=2 => (chance.within(1, 4_999), period_nanos(chance)),
        3 | 4 => (chance.scaled(30), chance.scaled(62)),
        5 | 6 => (chance.within(1, 19), chance.within(1, 199)),
        _ => chance.one_of(&EXTREMES),
    };
    let quota = Quota::new(limit, Duration::from_nanos(period));
    match chance.below(9) {
        0..=2 => quota,
        3 => quota.burst(1),
        4 | 5 => quota.burst(chance.within(1, 99)),
        6 | 7 => quota.burst(chance.scaled(33)),
        _ => quota.burst(1 << 32),
    }
}

/// Draws the instant at which a sequence begins.
pub(crate) fn start(chance: &mut Chance) -> u64 {
    match chance.below(4) {
        0 => 0,
        1 => chance.scaled(50),
        2 => chance.any(),
        _ => u64::MAX - chance.below(1_000_000),
    }
}

/// Draws the next move of the clock: mostly forward and to instants at which answers change, sometimes back
/// or anywhere. From the last tick it is mostly back, since time cannot go on.
pub(crate) fn next_move(chance: &mut Chance, now: u64) -> Move {
    let kinds = if now == u64::MAX && chance.below(8) > 0 { 46..56 } else { 0..56 };
    match chance.within(kinds.start, kinds.end - 1) {
        0..=9 => Move::Stay,
        10..=16 => Move::Forward(chance.scaled(62)),
        17..=21 => Move::Intervals(chance.below(4), chance.off()),
        22 | 23 => Move::Periods(chance.below(3), chance.off()),
        24 | 25 => Move::Bursts(chance.below(3), chance.off()),
        26..=30 => Move::Parts(chance.few(20), 1 + chance.few(19), chance.off()),
        31..=40 => Move::Retry(chance.off()),
        41..=45 => Move::Reset(chance.off()),
        46..=49 => Move::Back(chance.scaled(62)),
        50..=53 => Move::BackIntervals(chance.below(4), chance.off()),
        54 => Move::Anywhere(chance.scaled(64)),
        _ => Move::NearTheEnd(chance.below(1_000)),
    }
}

pub(crate) fn cost(chance: &mut Chance) -> Cost {
    match chance.below(12) {
        0..=4 => Cost::Few(chance.below(4)),
        5 => Cost::All,
        6 => Cost::OneTooMany,
        7 | 8 => Cost::Share(u8::try_from(chance.below(256)).expect("a byte")),
        9 | 10 => Cost::TheRest,
        _ => Cost::Huge,
    }
}
