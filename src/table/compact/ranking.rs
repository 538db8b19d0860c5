//! The rank of a compact slot, for an absent key.

use crate::algo::StateMachine;
use crate::cell::{CompactWord, Fingerprint, StateWord};
use crate::table::probe::Probe;
use crate::table::ranking::Rank;
use crate::table::slot_kind::{Candidate, SlotRef};

impl<'a> Candidate<'a, CompactWord> for SlotRef<'a, CompactWord> {
    fn seen(self) -> SlotRef<'a, CompactWord> {
        self
    }

    fn is_claim(self) -> bool {
        self.word.is_provisional()
    }

    #[inline(always)]
    fn is_vacant(self) -> bool {
        self.word.is_vacant()
    }

    #[inline(always)]
    fn is_of(self, probe: Probe) -> bool {
        self.word.is_of(Fingerprint::of(probe.hash()))
    }

    #[inline(always)]
    fn is_alike(self, probe: Probe) -> bool {
        self.is_of(probe)
    }

    /// A claim has no state, but a nonce.
    #[inline(always)]
    fn rank<M: StateMachine>(self, machine: &M, instant: u64, claims: Rank) -> Rank {
        let rank = Rank::of(machine.liveness(self.word.state(), instant));
        let rank = if self.word.is_provisional() { claims } else { rank };
        if self.is_vacant() { Rank::VACANT } else { rank }
    }
}
