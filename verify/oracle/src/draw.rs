//! Draws cases from the same ranges as `tests/oracle/choice.rs`, without proptest, which takes
//! longer to draw a step than a limiter takes to decide.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::{FixedWindow, Gcra, LeakyQueue, Quota, SlidingCounter, SubWindows};

use crate::bodies::choice::{
    Choice, Cost, EXTREMES, LogRates, ORIGIN_2025, Pace, SECOND, YEAR, with_algorithm,
};
use crate::bodies::moves::Move;
use crate::chance::Chance;

/// An algorithm, without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Bucket,
    Queue,
    WarmUp,
    Window,
    SubWindows,
    Counter,
    Log,
}

impl Family {
    /// Each family, its name, and how many cases of 100 are drawn of it. Oracles with a ring take
    /// ten times as long, so fewer cases are drawn of them.
    const TABLE: [(Self, &str, u64); 7] = [
        (Self::Bucket, "bucket", 35),
        (Self::Queue, "queue", 15),
        (Self::WarmUp, "warm-up", 12),
        (Self::Window, "fixed window", 26),
        (Self::SubWindows, "sub-windows", 4),
        (Self::Counter, "counter", 4),
        (Self::Log, "log", 4),
    ];

    pub(crate) const COUNT: usize = Self::TABLE.len();

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.iter().map(|(family, ..)| *family)
    }

    pub(crate) fn any(chance: &mut Chance) -> Self {
        let mut drawn = chance.below(Self::TABLE.iter().map(|(.., share)| share).sum());
        for (family, _, share) in Self::TABLE {
            match drawn.checked_sub(share) {
                Some(rest) => drawn = rest,
                None => return family,
            }
        }
        unreachable!("the shares add up to more than what is drawn")
    }

    pub(crate) fn index(self) -> usize {
        Self::all().position(|family| family == self).expect("the table lists every family")
    }

    pub(crate) fn name(self) -> &'static str {
        Self::TABLE[self.index()].1
    }

    /// The algorithm, and a quota that it accepts.
    pub(crate) fn draw(self, chance: &mut Chance) -> (Choice, Quota) {
        loop {
            let (choice, quota) = self.choice(chance);
            let accepted = quota.validate().is_ok()
                && with_algorithm!(choice, algorithm => {
                    algorithm.params(&quota, ORIGIN_2025).is_ok()
                });
            if accepted {
                return (choice, quota);
            }
        }
    }

    fn choice(self, chance: &mut Chance) -> (Choice, Quota) {
        let choice = match self {
            Self::Bucket if chance.below(4) == 0 => Choice::Bucket(Gcra::start_empty()),
            Self::Bucket => Choice::Bucket(Gcra::new()),
            Self::Queue => Choice::Queue(queue(chance)),
            Self::WarmUp => Choice::WarmUp(pace(chance)),
            Self::Window => Choice::Window(window(chance)),
            Self::SubWindows => {
                let windows = SubWindows::new().count(count(chance, 2));
                Choice::SubWindows(windows.utc_offset_secs(offset_secs(chance)))
            }
            Self::Counter => {
                let counter = SlidingCounter::new().older(count(chance, 1));
                Choice::Counter(counter.utc_offset_secs(offset_secs(chance)))
            }
            // A log's further rates depend on its quota.
            Self::Log => return log(chance),
        };
        (choice, quota(chance))
    }
}

fn queue(chance: &mut Chance) -> LeakyQueue {
    match chance.below(8) {
        0..=3 => LeakyQueue::new(),
        4 | 5 => LeakyQueue::new().immediate(chance.below(100)),
        6 => LeakyQueue::new().immediate(chance.scaled(34)),
        _ => LeakyQueue::new().immediate(u64::MAX),
    }
}

fn pace(chance: &mut Chance) -> Pace {
    let period = match chance.below(6) {
        0 => Duration::ZERO,
        1 | 2 => Duration::from_secs(chance.within(1, 99)),
        _ => Duration::from_nanos(chance.scaled(50)),
    };
    let max_wait = match chance.below(5) {
        0 | 1 => Duration::ZERO,
        2 => Duration::from_secs(chance.within(1, 9)),
        _ => Duration::from_nanos(chance.scaled(50)),
    };
    let cold_factor = match chance.below(7) {
        0..=2 => 3,
        3..=5 => 1 + chance.few(11),
        _ => 1 + chance.few(100),
    };
    Pace { period, cold_factor, max_wait }
}

fn window(chance: &mut Chance) -> FixedWindow {
    match chance.below(4) {
        0 | 1 => FixedWindow::anchored(),
        2 => FixedWindow::aligned(),
        _ => FixedWindow::aligned().utc_offset_secs(offset_secs(chance)),
    }
}

fn offset_secs(chance: &mut Chance) -> i32 {
    let day = 24 * 3_600 - 1;
    match chance.below(4) {
        0 => {
            i32::try_from(chance.below(2 * day + 1)).expect("seconds of two days")
                - i32::try_from(day).expect("seconds of a day")
        }
        _ => 0,
    }
}

/// A number of sub-windows. Many of them make an oracle slow.
fn count(chance: &mut Chance, min: u32) -> u32 {
    match chance.below(32) {
        0 => min + chance.few(257 - min),
        1 => 256,
        _ => min + chance.few(9),
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
