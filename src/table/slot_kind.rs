//! The operations in which kinds of slots differ: lookup, ranking, and the two steps of a claim.

use super::BUCKET;
use super::counters::Counters;
use super::probe::Probe;
use super::ranking::{Rank, Ranking};
use crate::algo::StateMachine;
use crate::cell::{ChargeReceipt, Loaded, Seen, SlotRing, StateCell, StateWord};

/// A slot's state word, and its value when it was read.
pub(super) struct SlotRef<'a, W> {
    pub(crate) cell: &'a StateCell<W>,
    pub(super) word: W,
}

impl<W: Copy> Clone for SlotRef<'_, W> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy> Copy for SlotRef<'_, W> {}

impl<W: StateWord> SlotRef<'_, W> {
    /// Whether it is the same slot, with the same value.
    pub(super) fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self.cell, other.cell) && self.word == other.word
    }
}

/// A key's committed slot, as a first look has found it.
#[derive(Clone, Copy)]
pub(super) struct FoundSlot<'a, W> {
    pub(super) cell: &'a StateCell<W>,
    pub(super) seen: Seen<W>,
}

impl<'a, W: StateWord> FoundSlot<'a, W> {
    #[inline(always)]
    pub(super) fn slot(self) -> SlotRef<'a, W> {
        SlotRef { cell: self.cell, word: self.seen.word() }
    }
}

/// A slot that an absent key might take, as it was read.
pub(super) trait Candidate<'a, W>: Copy {
    /// The slot's state word, and its value when it was ranked.
    fn seen(self) -> SlotRef<'a, W>;

    /// Whether it is another key's claim, which has charged nothing yet.
    fn is_claim(self) -> bool;

    /// Whether the slot is no key's.
    fn is_vacant(self) -> bool;

    /// Whether the slot is the key's, committed or claimed.
    fn is_of(self, probe: Probe) -> bool;

    /// Whether the slot has the key's fingerprint, if only from its last life.
    fn is_alike(self, probe: Probe) -> bool;

    /// How good the slot is to take. A claim ranks no higher than `claims`.
    fn rank<M: StateMachine>(self, machine: &M, instant: u64, claims: Rank) -> Rank;
}

/// The slots of a table. The [claim protocol](super::claim) is written once, over this trait.
pub(super) trait SlotKind {
    type Word: StateWord;
    type Slot;
    type Candidate<'a>: Candidate<'a, Self::Word>
    where
        Self: 'a;

    fn bucket_count(&self) -> u32;

    fn bucket(&self, index: u32) -> &[Self::Slot; BUCKET];

    /// The ring of a slot.
    fn ring<M: StateMachine>(&self, cell: &StateCell<Self::Word>) -> SlotRing<'_>;

    /// The word that was read in a slot, and the slot's ring.
    #[inline(always)]
    fn loaded<M: StateMachine>(&self, slot: SlotRef<'_, Self::Word>) -> Loaded<'_, Self::Word> {
        Loaded { word: slot.word, ring: self.ring::<M>(slot.cell) }
    }

    /// Whether there is [slack](crate::table::slack).
    fn has_slack(&self) -> bool;

    /// The key's committed slot, if it is the one that the key prefers.
    fn find_preferred(&self, probe: Probe) -> Option<FoundSlot<'_, Self::Word>>;

    /// The key's committed slot, if it is in the cache line of the one that the key prefers.
    fn find_in_line(&self, probe: Probe) -> Option<FoundSlot<'_, Self::Word>>;

    /// The key's committed slot, if it is where a first look finds most keys.
    #[inline(always)]
    fn find_at_once(&self, probe: Probe) -> Option<FoundSlot<'_, Self::Word>> {
        let preferred = if self.has_slack() { self.find_preferred(probe) } else { None };
        match preferred {
            Some(slot) => Some(slot),
            None => self.find_in_line(probe),
        }
    }

    /// The key's slot, committed or claimed, if a first look has not found it.
    fn find_elsewhere(&self, probe: Probe) -> Option<SlotRef<'_, Self::Word>>;

    /// The key's committed slot, in any of its candidates.
    fn find_committed(&self, probe: Probe) -> Option<SlotRef<'_, Self::Word>>;

    /// How many candidates have the key's fingerprint: at least as many as [match](Self::matching).
    fn count_alike(&self, probe: Probe) -> usize;

    /// The candidates with the key's fingerprint, committed or claimed, in probing order.
    fn matching(&self, probe: Probe) -> impl Iterator<Item = SlotRef<'_, Self::Word>>;

    /// The committed slots of a bucket.
    fn committed_in(&self, bucket: u32) -> impl Iterator<Item = SlotRef<'_, Self::Word>>;

    /// Reads a slot that an absent key might take. `None`: another thread was changing it.
    fn candidate(slot: &Self::Slot) -> Option<Self::Candidate<'_>>;

    /// The live slot to evict; `least` has the least debt by its state word. `None`: the key may
    /// have a slot by now, and the caller scans again.
    fn victim<'a, M: StateMachine>(
        &'a self,
        machine: &M,
        ranking: &Ranking,
        least: Self::Candidate<'a>,
    ) -> Option<Self::Candidate<'a>> {
        let _ = (machine, ranking);
        Some(least)
    }

    /// Claims a slot: the first step, after which its last key has lost it. `None`: another thread
    /// has changed the slot.
    fn take<'a>(
        &'a self,
        candidate: Self::Candidate<'a>,
        probe: Probe,
        fresh: u64,
        counters: &Counters,
    ) -> Option<SlotRef<'a, Self::Word>>;

    /// Claims a slot: the second step, after which it is the key's. False: another thread has
    /// written its key first.
    fn hand_over(&self, candidate: Self::Candidate<'_>, claim: Self::Word, probe: Probe) -> bool;

    /// The word that leaves a slot vacant.
    fn vacated(word: Self::Word) -> Self::Word;

    /// The state that a claim starts from, of a thread for which `fresh` is a fresh state.
    fn state_of_claim(claim: Self::Word, fresh: u64) -> u64;

    /// A charged word's generation, and its slot's index.
    fn place_of(&self, slot: SlotRef<'_, Self::Word>) -> (u64, usize);

    /// The slot that was charged, if the key still has it. Without the key's probe, a wide slot is found by its
    /// place and generation alone, and a compact one is not found.
    fn charged_slot(
        &self,
        probe: Option<Probe>,
        paid: &ChargeReceipt,
    ) -> Option<SlotRef<'_, Self::Word>>;
}
