//! Receipts of charges that can be refunded.

use super::ruling::{Request, Ruling};
use crate::algo::{Receipt, Refund, Step};
use crate::decision::Denied;
use crate::time::Tick;

/// A [`Receipt`], with the place and the generation of the word that was charged. In another generation
/// the word belongs to another key, or to a later life of the same key, and is not refunded. Compact
/// slots have no generations: there the key's word is looked up again.
#[derive(Clone, Copy, Debug)]
pub struct ChargeReceipt {
    pub(crate) charge: Receipt,
    pub(crate) generation: u64,
    /// The slot's index in its table; 0 where there is one word.
    pub(crate) place: usize,
}

impl ChargeReceipt {
    /// No word has this generation.
    pub(crate) const NO_LIFE: u64 = u64::MAX;

    /// The receipt of no charge.
    pub(crate) const NOTHING: Self = Self {
        charge: Receipt { cells: 0, at: Tick::ZERO, next: 0 },
        generation: Self::NO_LIFE,
        place: 0,
    };

    /// The cells that were charged.
    pub(crate) fn cells(&self) -> u64 {
        self.charge.cells
    }
}

impl<V: Copy> Ruling<V> {
    /// The receipt of an admission.
    pub(crate) fn receipt<M: Refund<View = V>>(
        self,
        machine: &M,
        request: Request,
        generation: u64,
        place: usize,
    ) -> Result<ChargeReceipt, Denied> {
        let Request { now, cells } = request;
        match self {
            Self::Denied(view) => Err(machine.denied(view, now, cells)),
            Self::Admitted(view) => match machine.step(view, now, cells) {
                Step::Admit { next } => Ok(ChargeReceipt {
                    charge: Receipt { cells, at: now, next },
                    generation,
                    place,
                }),
                // A step is pure: it admits again what it has admitted.
                Step::Deny | Step::DenyCounted { .. } => Err(machine.denied(view, now, cells)),
            },
        }
    }
}
