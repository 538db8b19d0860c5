//! Algorithms chosen by their type, and costs chosen relative to the quota.

use std::time::Duration;

use tollgate::internals::StateMachine;
use tollgate::{
    FixedWindow, Gcra, LeakyQueue, Quota, SlidingCounter, SlidingLog, SubWindows, WarmUp,
};

use super::grid::{units_in_cell, units_in_window, units_within};

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

/// The compiler finds each place in this file that needs a line for a new algorithm.
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

impl Choice {
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

    /// Whether there are words beside the state word.
    pub(crate) fn has_ring(self) -> bool {
        match self {
            Self::SubWindows(_) | Self::Counter(_) | Self::Log(_) => true,
            Self::Bucket(_) | Self::Queue(_) | Self::Window(_) | Self::WarmUp(_) => false,
        }
    }

    /// Whether a denial of a request that could fit is written into the state.
    pub(crate) fn counts_denials(self) -> bool {
        matches!(self, Self::Log(LogRates { count_denials: true, .. }))
    }
}

/// The further rates of a log. (A [`SlidingLog`] does not return them.)
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogRates {
    pub(crate) more: [Option<Quota>; 3],
    pub(crate) count_denials: bool,
}

impl LogRates {
    /// Further rates, given as a limit and a fraction of the quota's period.
    pub(crate) fn beside(quota: &Quota, shares: &[(u64, u32, u32)], count_denials: bool) -> Self {
        let mut more = [None; 3];
        for (rate, (limit, times, of)) in more.iter_mut().zip(shares) {
            let period = quota.period().saturating_mul(*times) / *of;
            *rate = Some(Quota::new(*limit, period.max(Duration::from_nanos(1))));
        }
        Self { more, count_denials }
    }

    pub(crate) fn all(self, quota: &Quota) -> impl Iterator<Item = Quota> {
        std::iter::once(*quota).chain(self.more.into_iter().flatten())
    }

    /// A rate of one event is a minimum gap.
    pub(crate) fn algorithm(self) -> SlidingLog {
        let log = self.more.into_iter().flatten().fold(SlidingLog::new(), |log, rate| {
            if rate.limit() == 1 { log.min_gap(rate.period()) } else { log.and(rate) }
        });
        if self.count_denials { log.count_denials() } else { log }
    }
}

/// The cells to ask for, relative to what fits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Few(u64),
    TheRest,
    All,
    OneTooMany,
    Huge,
    /// In 255ths of the maximum.
    Share(u8),
}

impl Cost {
    /// `fits` is the maximum that the algorithm admits at once, `rest` the cells that it reported
    /// as left.
    pub(crate) fn cells(self, fits: u64, rest: u64) -> u64 {
        match self {
            Self::Few(cells) => cells,
            Self::TheRest => rest,
            Self::All => fits,
            Self::OneTooMany => fits + 1,
            Self::Huge => u64::MAX,
            Self::Share(share) => u64::try_from(u128::from(fits) * u128::from(share) / 255)
                .expect("a share of what fits"),
        }
    }
}
