//! The cases: the requests, the keys, and how much each algorithm admits.

use std::hint::black_box;
use std::time::Duration;

use tollgate::Quota;
use tollgate_benches::keys::Draw;
use tollgate_benches::locked::{Keyed, Kind, Locked, One};
use tollgate_benches::report::Bound;

use crate::rows::BehindLock;

pub(crate) const SECOND_NANOS: u64 = 1_000_000_000;
/// The length of a window. No event leaves it while the benchmark runs.
pub(crate) const HOUR_NANOS: u64 = 3_600 * SECOND_NANOS;
/// The step between two given times.
pub(crate) const STEP_NANOS: u64 = 32;

/// The requests of a comparison, and their keys.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Whether there are keys at all.
    pub(crate) keyed: bool,
    pub(crate) draw: Draw,
    pub(crate) keys: usize,
    pub(crate) threads: usize,
    pub(crate) decisions: usize,
    pub(crate) ask: Ask,
    /// Cells in a window that denies, and in a log.
    pub(crate) small: usize,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ask {
    Admit,
    Deny,
}

pub(crate) const BUCKET: Case = Case {
    name: "one bucket",
    keyed: false,
    draw: Draw::One,
    keys: 1,
    threads: 1,
    decisions: 50_000,
    ask: Ask::Admit,
    small: 1_000,
};
pub(crate) const HOT: Case = Case { name: "one hot key", keyed: true, ..BUCKET };
pub(crate) const ZIPF: Case =
    Case { name: "1,000 keys, zipf 0.99", draw: Draw::Zipf, keys: 1_000, small: 100, ..HOT };
pub(crate) const UNIFORM: Case = Case {
    name: "100,000 keys, uniform",
    draw: Draw::Uniform,
    keys: 100_000,
    decisions: 200_000,
    small: 10,
    ..HOT
};

impl Case {
    pub(crate) fn title(self, what: &str) -> String {
        let ask = match self.ask {
            Ask::Admit => "admitted",
            Ask::Deny => "denied",
        };
        format!("{what}, {}, {ask}, {} thread(s)", self.name, self.threads)
    }

    /// The case with one thread and with two, admitted and denied.
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        let threads = [(1, self.decisions), (2, self.decisions.max(100_000))];
        threads.into_iter().flat_map(move |(threads, decisions)| {
            [Ask::Admit, Ask::Deny].map(|ask| Self { threads, decisions, ask, ..self })
        })
    }

    /// A bucket that is always in debt and never full, or one that is full for the next hour.
    pub(crate) fn bucket(self) -> Limit {
        match self.ask {
            Ask::Admit => Limit { cells: 4_000_000_000, period_nanos: 40_000 * SECOND_NANOS },
            Ask::Deny => Limit { cells: 1, period_nanos: HOUR_NANOS },
        }
    }

    /// A window that ends sometimes, with room for all; or a full one.
    pub(crate) fn window(self) -> Limit {
        match self.ask {
            Ask::Admit => Limit { cells: 250_000_000, period_nanos: 6 * SECOND_NANOS },
            Ask::Deny => Limit { cells: self.small, period_nanos: HOUR_NANOS },
        }
    }

    /// A log of which the most frequent key asks for an eighth in a window; or a full one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 10^8")]
    pub(crate) fn log(self) -> Limit {
        let decisions = (self.draw.weights(self.keys) * 1_000.0) as u64 * self.small as u64 / 8_000;
        let period_nanos = match self.ask {
            Ask::Admit => decisions * STEP_NANOS,
            Ask::Deny => HOUR_NANOS,
        };
        Limit { cells: self.small, period_nanos }
    }

    /// The required ratio of the best lock's time over ours.
    pub(crate) fn bound(self) -> Bound {
        let hot = self.draw == Draw::One && self.ask == Ask::Deny && self.threads == 2;
        Bound::AtLeast(if hot { 3.0 } else { 1.0 })
    }
}

/// The maximum cells in a period, and at once.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) cells: usize,
    pub(crate) period_nanos: u64,
}

impl Limit {
    pub(crate) fn quota(self) -> Quota {
        let cells = self.cells as u64;
        black_box(Quota::new(cells, Duration::from_nanos(self.period_nanos)).burst(cells))
    }

    pub(crate) fn period(self) -> Duration {
        Duration::from_nanos(self.period_nanos)
    }

    pub(crate) fn one<L: Locked, K: Kind>(self) -> BehindLock<One<L, K>> {
        let Self { cells, period_nanos } = black_box(self);
        BehindLock::new(One::new(cells, period_nanos))
    }

    pub(crate) fn maps<L: Locked, K: Kind>(self, shards: usize) -> BehindLock<Keyed<L, K>> {
        let Self { cells, period_nanos } = black_box(self);
        BehindLock::new(Keyed::with_shards(shards, cells, period_nanos))
    }
}
