//! Algorithms with any options, and what tests must know of each.

use std::time::Duration;

use tollgate::internals::StateMachine;
use tollgate::{FixedWindow, Gcra, LeakyQueue, Quota, SlidingCounter, SubWindows, WarmUp};

pub(crate) use super::cost::Cost;
use super::grid::{nanos, ring_horizon, units_in_cell, units_in_window, units_within};
pub(crate) use super::log_rates::LogRates;
use super::numbers::Numbers;

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const YEAR: u64 = 365 * 24 * 3_600 * SECOND;

/// Rates that are awkward for every grid: limit, and period in nanoseconds.
pub(crate) const EXTREMES: [(u64, u64); 10] = [
    (1, YEAR),
    (1, 366 * 24 * 3_600 * SECOND),
    (3, YEAR),
    (1_000_000_000, SECOND),
    (999_999_937, SECOND),
    (600_000_000, SECOND),
    (1, 1),
    (1_000_003, SECOND),
    (1 << 40, 24 * 3_600 * SECOND),
    ((1 << 30) - 1, 3_600 * SECOND),
];

/// A Unix time in 2025, for windows aligned to the wall clock.
pub(crate) const ORIGIN_2025: u64 = 1_735_700_000_123_456_789;

/// The kinds of algorithms, and what is generated from their rows.
macro_rules! kinds {
    ($d:tt one word { $($test:ident $kind:ident $text:literal $share:literal;)* }
        with a ring { $($ringed:ident $ringed_text:literal $ringed_share:literal;)* }) => {
        /// An algorithm, without its options.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)*
            $($ringed,)*
        }

        impl Kind {
            const TABLE: &[(Self, &'static str, u64)] = &[
                $((Self::$kind, $text, $share),)*
                $((Self::$ringed, $ringed_text, $ringed_share),)*
            ];

            /// Whether there are words beside the state word.
            pub(crate) fn has_ring(self) -> bool {
                match self {
                    $(Self::$kind => false,)*
                    $(Self::$ringed => true,)*
                }
            }
        }

        /// Calls `$property!(test, kind)` for each kind whose state is one word.
        #[allow(unused_macros, reason = "properties call it")]
        macro_rules! each_one_word_kind {
            ($d property:ident) => {
                $($d property!($test, $crate::bodies::choice::Kind::$kind);)*
            };
        }
        #[allow(unused_imports, reason = "properties call it")]
        pub(crate) use each_one_word_kind;
    };
}

// A row: the name of the kind's tests, the kind, its name, and how many cases of 100 are drawn of it where cases are
// drawn of all. Oracles with a ring take ten times as long, so fewer cases are drawn of them. The first four kinds of
// one word, and those with a ring, have the bytes that `Cursor::choice` lists; other kinds of one word have the bytes
// from 252 on.
kinds! { $
    one word {
        bucket Bucket "bucket" 35;
        queue Queue "queue" 15;
        warm_up WarmUp "warm-up" 12;
        window Window "fixed window" 26;
    }
    with a ring {
        SubWindows "sub-windows" 4;
        Counter "counter" 4;
        Log "log" 4;
    }
}

impl Kind {
    pub(crate) const COUNT: usize = Self::TABLE.len();

    pub(crate) fn all() -> impl Iterator<Item = Self> + Clone {
        Self::TABLE.iter().map(|(kind, ..)| *kind)
    }

    /// Any kind whose state is one word, with any options.
    pub(crate) fn draw_one_word(numbers: &mut impl Numbers) -> Choice {
        let kinds = Self::all().filter(|kind| !kind.has_ring());
        Self::any_of(kinds, numbers).draw(numbers)
    }

    pub(crate) fn any_of(
        kinds: impl Iterator<Item = Self> + Clone,
        numbers: &mut impl Numbers,
    ) -> Self {
        let shares = kinds.map(|kind| (kind, Self::TABLE[kind.index()].2));
        let mut drawn = numbers.below(shares.clone().map(|(_, share)| share).sum());
        for (kind, share) in shares {
            match drawn.checked_sub(share) {
                Some(rest) => drawn = rest,
                None => return kind,
            }
        }
        unreachable!("the shares add up to more than what is drawn")
    }

    pub(crate) fn index(self) -> usize {
        Self::all().position(|kind| kind == self).expect("the table lists every kind")
    }

    pub(crate) fn name(self) -> &'static str {
        Self::TABLE[self.index()].1
    }

    /// The algorithm with any options. The further rates of a log are drawn with its quota.
    pub(crate) fn draw(self, numbers: &mut impl Numbers) -> Choice {
        match self {
            Self::Bucket if numbers.below(4) == 3 => Choice::Bucket(Gcra::start_empty()),
            Self::Bucket => Choice::Bucket(Gcra::new()),
            Self::Queue => Choice::Queue(queue(numbers)),
            Self::WarmUp => Choice::WarmUp(pace(numbers)),
            Self::Window => Choice::Window(match numbers.below(4) {
                0 | 1 => FixedWindow::anchored(),
                2 => FixedWindow::aligned(),
                _ => FixedWindow::aligned().utc_offset_secs(any_offset_secs(numbers)),
            }),
            Self::SubWindows => {
                let windows = SubWindows::new().count(sub_window_count(numbers, 2));
                Choice::SubWindows(windows.utc_offset_secs(offset_secs(numbers)))
            }
            Self::Counter => {
                let counter = SlidingCounter::new().older(sub_window_count(numbers, 1));
                Choice::Counter(counter.utc_offset_secs(offset_secs(numbers)))
            }
            Self::Log => Choice::Log(LogRates::default()),
        }
    }
}

fn queue(numbers: &mut impl Numbers) -> LeakyQueue {
    let immediate = match numbers.below(8) {
        0..=3 => return LeakyQueue::new(),
        4 => numbers.below(5),
        5 => numbers.below(100),
        6 => numbers.scaled(34),
        _ => u64::MAX,
    };
    LeakyQueue::new().immediate(immediate)
}

fn pace(numbers: &mut impl Numbers) -> Pace {
    let period = match numbers.below(6) {
        0 => Duration::ZERO,
        1 | 2 => Duration::from_secs(numbers.within(1, 99)),
        _ => Duration::from_nanos(numbers.scaled(50)),
    };
    let cold_factor = match numbers.below(7) {
        0..=2 => 3,
        3..=5 => 1 + numbers.few(11),
        _ => 1 + numbers.few(100),
    };
    let max_wait = match numbers.below(5) {
        0 | 1 => Duration::ZERO,
        2 => Duration::from_secs(numbers.within(1, 9)),
        _ => Duration::from_nanos(numbers.scaled(50)),
    };
    Pace { period, cold_factor, max_wait }
}

/// None in three of four.
fn offset_secs(numbers: &mut impl Numbers) -> i32 {
    if numbers.below(4) == 3 { any_offset_secs(numbers) } else { 0 }
}

fn any_offset_secs(numbers: &mut impl Numbers) -> i32 {
    const DAY: i32 = 24 * 3_600 - 1;
    i32::try_from(numbers.below(2 * u64::from(DAY.unsigned_abs()) + 1)).expect("two days") - DAY
}

/// A number of sub-windows. Many of them make an oracle slow.
fn sub_window_count(numbers: &mut impl Numbers, min: u32) -> u32 {
    match numbers.below(32) {
        30 => min + numbers.few(257 - min),
        31 => 256,
        _ => min + numbers.few(9),
    }
}

/// An algorithm with its options. The compiler finds each place in this file that needs a line for a new algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Bucket(Gcra),
    Queue(LeakyQueue),
    Window(FixedWindow),
    WarmUp(Pace),
    SubWindows(SubWindows),
    Counter(SlidingCounter),
    Log(LogRates),
}

/// The parameters of a warm-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) period: Duration,
    pub(crate) cold_factor: u32,
    pub(crate) max_wait: Duration,
}

impl Pace {
    pub(crate) fn algorithm(self) -> WarmUp {
        WarmUp::new(self.period).cold_factor(self.cold_factor).max_wait(self.max_wait)
    }
}

/// Evaluates `$body` with `$algorithm` bound to the algorithm chosen, of its own type.
macro_rules! with_algorithm {
    ($choice:expr, $algorithm:ident => $body:expr) => {
        match $choice {
            $crate::bodies::choice::Choice::Bucket($algorithm) => $body,
            $crate::bodies::choice::Choice::Queue($algorithm) => $body,
            $crate::bodies::choice::Choice::Window($algorithm) => $body,
            $crate::bodies::choice::Choice::WarmUp(pace) => {
                let $algorithm = pace.algorithm();
                $body
            }
            $crate::bodies::choice::Choice::SubWindows($algorithm) => $body,
            $crate::bodies::choice::Choice::Counter($algorithm) => $body,
            $crate::bodies::choice::Choice::Log(rates) => {
                let $algorithm = rates.algorithm();
                $body
            }
        }
    };
}
pub(crate) use with_algorithm;

/// The algorithm of a choice, if it can refund.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refunding {
    Bucket(Gcra),
    Window(FixedWindow),
    None,
}

impl Choice {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Bucket(_) => Kind::Bucket,
            Self::Queue(_) => Kind::Queue,
            Self::Window(_) => Kind::Window,
            Self::WarmUp(_) => Kind::WarmUp,
            Self::SubWindows(_) => Kind::SubWindows,
            Self::Counter(_) => Kind::Counter,
            Self::Log(_) => Kind::Log,
        }
    }

    pub(crate) fn refunding(self) -> Refunding {
        match self {
            Self::Bucket(bucket) => Refunding::Bucket(bucket),
            Self::Window(window) => Refunding::Window(window),
            Self::Queue(_)
            | Self::WarmUp(_)
            | Self::SubWindows(_)
            | Self::Counter(_)
            | Self::Log(_) => Refunding::None,
        }
    }

    /// The maximum cells of one request: for a log, the minimum over its rates.
    pub(crate) fn fits(self, quota: &Quota) -> u64 {
        match self {
            Self::Bucket(_) | Self::Queue(_) | Self::WarmUp(_) => quota.burst_cells(),
            Self::Log(rates) => rates.all(quota).map(|rate| rate.limit()).min().expect("a rate"),
            Self::Window(_) | Self::SubWindows(_) | Self::Counter(_) => quota.limit(),
        }
    }

    /// The maximum cells at one instant, in any number of requests.
    pub(crate) fn max_granted(self, quota: &Quota) -> u64 {
        let Self::WarmUp(pace) = self else { return self.fits(quota) };
        // All requests but the last have to fit into the longest wait.
        let longest = pace.max_wait.as_nanos() * u128::from(quota.limit());
        let cells = longest / quota.period().as_nanos();
        self.fits(quota).saturating_add(u64::try_from(cells).unwrap_or(u64::MAX))
    }

    /// Units that the algorithm may write ahead of its clock, or that end a state: a bucket's
    /// burst, a window, a log's longest window, the sub-windows that count.
    pub(crate) fn reach<P: StateMachine>(self, params: &P, quota: &Quota) -> u64 {
        match self {
            Self::Bucket(_) | Self::Queue(_) => units_in_cell(params, quota) * quota.burst_cells(),
            Self::Window(_) => units_in_window(params, quota),
            Self::WarmUp(pace) => {
                let parts = 2 * (5 + u64::from(pace.cold_factor));
                let spans = units_within(params, pace.period * 2 + pace.max_wait) + 2;
                units_in_cell(params, quota) * quota.burst_cells() + spans + parts
            }
            // One for each sub-window that counts, or some more.
            Self::SubWindows(_) | Self::Counter(_) => params.ring_cells() as u64,
            Self::Log(rates) => {
                let windows = rates.all(quota).map(|rate| units_in_window(params, &rate));
                windows.max().expect("a rate")
            }
        }
    }

    /// Units within which a cell of the ring is distinguished from a later one, of those that a grid distinguishes;
    /// `None`: nothing bounds them, or there is no ring.
    pub(crate) fn ring_units(self, told_apart: Option<u128>) -> Option<u128> {
        match self {
            Self::Bucket(_) | Self::Queue(_) | Self::Window(_) | Self::WarmUp(_) => None,
            // 52 bits of time, half of them before and half of them after the beginning of a life.
            Self::Log(_) => Some(told_apart.unwrap_or(u128::MAX).min((1 << 51) - 2)),
            Self::SubWindows(_) | Self::Counter(_) => told_apart,
        }
    }

    /// The last instant at which waits can be tried, as far as its word does not bound it. The time of windows aligned
    /// to the wall clock ends less than a period before ours (for sub-windows, two). The empty ring of a log began at
    /// the origin; an event half of its range later seems to be before it.
    pub(crate) fn waits_end<P: StateMachine>(self, params: &P, quota: &Quota) -> u64 {
        match self {
            Self::Bucket(_) | Self::Queue(_) | Self::WarmUp(_) => u64::MAX,
            Self::Window(_) => u64::MAX - nanos(quota.period()),
            Self::SubWindows(_) | Self::Counter(_) => u64::MAX - 2 * nanos(quota.period()),
            Self::Log(_) => ring_horizon(params, self, quota, 0),
        }
    }

    /// Whether a denial of a request that could fit is written into the state.
    pub(crate) fn counts_denials(self) -> bool {
        match self {
            Self::Log(rates) => rates.count_denials,
            Self::Bucket(_)
            | Self::Queue(_)
            | Self::Window(_)
            | Self::WarmUp(_)
            | Self::SubWindows(_)
            | Self::Counter(_) => false,
        }
    }
}
