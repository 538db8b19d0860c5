//! An algorithm by its type, and costs by what they mean.

use std::time::Duration;

use tollgate::{FixedWindow, Gcra, LeakyQueue, Quota, WarmUp};

/// A Unix time in 2025, for windows aligned to the wall clock.
pub(crate) const ORIGIN_2025: u64 = 1_735_700_000_123_456_789;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Bucket(Gcra),
    Queue(LeakyQueue),
    Window(FixedWindow),
    WarmUp(Pace),
}

/// What a warm-up is made from.
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

impl Choice {
    /// The most cells at once.
    pub(crate) fn fits(self, quota: &Quota) -> u64 {
        match self {
            Self::Bucket(_) | Self::Queue(_) | Self::WarmUp(_) => quota.burst_cells(),
            Self::Window(_) => quota.limit(),
        }
    }

    /// The most cells at one instant, in as many requests as one likes.
    pub(crate) fn granted_max(self, quota: &Quota) -> u64 {
        let Self::WarmUp(pace) = self else { return self.fits(quota) };
        // All but the last request have to fit into the longest wait.
        let longest = pace.max_wait.as_nanos() * u128::from(quota.limit());
        let cells = longest / quota.period().as_nanos();
        self.fits(quota).saturating_add(u64::try_from(cells).unwrap_or(u64::MAX))
    }
}

/// How many cells to ask for, seen from what fits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Few(u64),
    TheRest,
    All,
    OneTooMany,
    Huge,
    /// In 255ths of all.
    Share(u8),
}

impl Cost {
    /// `fits` is what the algorithm lets pass at once, `rest` what it said is left.
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
