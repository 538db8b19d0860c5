//! A wide slot, and the word that names its key.
//!
//! # Guarded by
//!
//! `loom-tests/tests/claim.rs` and `take_over.rs`, run by `ci/check.sh loom`: they fail if a thread reads the owner
//! before the head. Ordinary tests do not.

use crate::cell::{GENERATION_BITS, Head, HeadCell, StateWord};
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::table::probe::Probe;
use crate::table::slot_kind::{FoundSlot, SlotRef};
use crate::word::Field;

const GENERATION: Field = Field::new(0, GENERATION_BITS);
const FINGERPRINT: Field = GENERATION.above(64 - GENERATION_BITS);

/// The key of a slot, if the generation agrees with the head's.
///
/// ```text
/// bits 63..10 fingerprint (54 bits of the key's hash, never 0) | bits 9..0 generation
/// ```
///
/// Zero is a slot that was never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct Owner(u64);

impl Owner {
    /// The owner of a slot that was never used.
    pub(super) const NONE: Self = Self(0);

    /// The owner with that hash, in generation 0.
    #[inline(always)]
    pub(super) const fn of(hash: u64) -> Self {
        // The field is the topmost one: the shift leaves its bits alone.
        let bits = hash << GENERATION_BITS;
        Self(if bits == 0 { 1 << GENERATION_BITS } else { bits })
    }

    /// The same, but `None` for the few hashes whose owner is not a mere shift of them.
    #[inline(always)]
    const fn of_most(hash: u64) -> Option<Self> {
        let bits = hash << GENERATION_BITS;
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// The same owner in another generation.
    #[inline]
    pub(super) const fn in_generation(self, generation: u64) -> Self {
        Self(GENERATION.set(self.0, generation))
    }

    /// The generation, if this is `first` (an owner in generation 0) in some generation; else a
    /// number above all generations.
    #[inline(always)]
    const fn generation_of(self, first: Self) -> u64 {
        self.0 ^ first.0
    }

    /// Whether this is `first` (an owner in generation 0) in some generation.
    #[inline(always)]
    pub(super) const fn is(self, first: Self) -> bool {
        self.generation_of(first) <= GENERATION.max()
    }

    #[inline]
    pub(super) const fn generation(self) -> u64 {
        GENERATION.of(self.0)
    }

    /// The bits of the key's hash.
    pub(super) const fn fingerprint(self) -> u64 {
        FINGERPRINT.of(self.0)
    }

    /// Whether the slot was ever a key's.
    pub(in crate::table) const fn is_a_key(self) -> bool {
        self.0 > GENERATION.max()
    }
}

/// Whether a slot with these words is a key's, committed.
#[cfg(feature = "shared-memory")]
pub(in crate::table) fn holds_key(head: u64, owner: u64) -> bool {
    let owner = Owner(owner);
    owner.is_a_key() && Head::from_bits(head).is_committed_in(owner.generation())
}

/// A slot for one key.
#[repr(C)]
pub(in crate::table) struct Slot {
    /// At the slot's own address, which a charge needs.
    pub(super) head: HeadCell,
    owner: AtomicU64,
}

#[cfg(not(tollgate_loom))]
const _: () = assert!(size_of::<Slot>() == 16);

impl Slot {
    #[cfg(tollgate_loom)]
    pub(in crate::table) fn new() -> Self {
        Self { owner: AtomicU64::new(0), head: HeadCell::new(Head::committed(0, 0)) }
    }

    #[inline]
    pub(in crate::table) fn owner(&self) -> Owner {
        Owner(self.owner.load(Ordering::Acquire))
    }

    /// Replaces the owner `seen` by `next`; false if another thread has replaced it first.
    pub(super) fn hand_over(&self, seen: Owner, next: Owner) -> bool {
        let swapped =
            self.owner.compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Relaxed);
        swapped.is_ok()
    }

    /// The slot, if it is the key's, committed or claimed.
    #[inline]
    pub(super) fn seen_for(&self, probe: Probe) -> Option<SlotRef<'_, Head>> {
        let owner = self.owner();
        if !owner.is(Owner::of(probe.hash())) {
            return None;
        }
        let word = self.head.load();
        let is_its_own = word.generation() == owner.generation();
        let found = SlotRef { cell: &self.head, word };
        (is_its_own || planted(Fault::GenerationUnchecked)).then_some(found)
    }

    /// The slot, if it is the key's and committed. It may miss the key of one fingerprint in 2^54, which
    /// [`seen_for`](Self::seen_for) does not.
    #[inline(always)]
    pub(super) fn committed_for(&self, probe: Probe) -> Option<FoundSlot<'_, Head>> {
        let generation = self.owner().generation_of(Owner::of_most(probe.hash())?);
        if generation > Head::GENERATION_MAX {
            return None;
        }
        let seen = self.head.see_in(generation)?;
        Some(FoundSlot { cell: &self.head, seen })
    }

    /// The slot and its owner, if it is some key's and committed.
    ///
    /// The two words are one moment's: the owner is read first, and a head that was committed in
    /// its generation is its own.
    pub(super) fn committed(&self) -> Option<(Owner, SlotRef<'_, Head>)> {
        let owner = self.owner();
        let word = self.head.load();
        let is_its_own = owner.is_a_key() && word.is_committed_in(owner.generation());
        is_its_own.then_some((owner, SlotRef { cell: &self.head, word }))
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word_and_generations_are_as_wide_as_a_heads() {
        assert!(tile(&[GENERATION, FINGERPRINT], 64));
        assert_eq!(GENERATION.max(), Head::GENERATION_MAX);
    }

    proptest! {
        #[test]
        fn every_field_round_trips(
            hash: u64, other: u64, generation in 0..=Head::GENERATION_MAX,
        ) {
            let first = Owner::of(hash);
            let owner = first.in_generation(generation);
            prop_assert_eq!(FINGERPRINT.of(owner.0), hash & FINGERPRINT.max());
            prop_assert_eq!(owner.generation(), generation);
            prop_assert_eq!(owner.generation_of(first), generation);
            prop_assert!(owner.is(first) && owner.is_a_key());
            prop_assert_eq!(owner.is(Owner::of(other)), (hash ^ other) & FINGERPRINT.max() == 0);
        }
    }

    #[test]
    fn a_hash_of_zero_has_an_owner_that_is_a_key() {
        assert!(Owner::of(0).is_a_key());
        assert!(Owner::of(1 << 54).is_a_key());
        assert!(!Owner(0).is(Owner::of(0)), "a slot that was never used has no key");
    }
}
