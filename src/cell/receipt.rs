//! Charges that may be taken back.

use super::state_cell::Ruling;
use crate::algo::{Receipt, Refund, Step};
use crate::decision::Denied;
use crate::time::Tick;

/// A [`Receipt`], and which word was charged in which generation: in another the word belongs to
/// somebody else, or to a later life of the key, and nothing is owed. In compact slots there is no
/// generation, and the word is looked for again.
#[derive(Clone, Copy, Debug)]
pub struct Paid {
    pub(crate) receipt: Receipt,
    pub(crate) generation: u64,
    /// The slot's number in its table; 0 where there is one word.
    pub(crate) place: usize,
}

impl Paid {
    /// No word has this generation.
    pub(crate) const NO_LIFE: u64 = u64::MAX;

    /// Nothing was charged.
    pub(crate) const NOTHING: Self = Self {
        receipt: Receipt { cells: 0, at: Tick::ZERO, next: 0 },
        generation: Self::NO_LIFE,
        place: 0,
    };

    /// Cells that were charged.
    pub(crate) fn cells(&self) -> u64 {
        self.receipt.cells
    }
}

impl<S: Copy> Ruling<S> {
    /// What to remember of it.
    pub(crate) fn receipt<A: Refund<View = S>>(
        self,
        algo: &A,
        now: Tick,
        n: u64,
        generation: u64,
        place: usize,
    ) -> Result<Paid, Denied> {
        match self {
            Self::Denied(seen) => Err(algo.denied(seen, now, n)),
            Self::Admitted(seen) => match algo.step(seen, now, n) {
                Step::Admit { next } => {
                    let receipt = Receipt { cells: n, at: now, next };
                    Ok(Paid { receipt, generation, place })
                }
                // A step is pure: what it admitted it admits.
                Step::Deny | Step::DenyCounted { .. } => Err(algo.denied(seen, now, n)),
            },
        }
    }
}
