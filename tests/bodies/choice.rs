//! An algorithm by its type, and costs by what they mean.

use tollgate::{FixedWindow, Gcra, Quota};

/// A Unix time in 2025, for windows aligned to the wall clock.
pub(crate) const ORIGIN_2025: u64 = 1_735_700_000_123_456_789;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Bucket(Gcra),
    Window(FixedWindow),
}

impl Choice {
    /// The most cells at once.
    pub(crate) fn fits(self, quota: &Quota) -> u64 {
        match self {
            Self::Bucket(_) => quota.burst_cells(),
            Self::Window(_) => quota.limit(),
        }
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
