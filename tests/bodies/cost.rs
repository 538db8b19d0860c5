//! The cells that a request asks for.

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
