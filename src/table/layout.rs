//! A slot, and the word that says whose it is.

use crate::cell::{GENERATION_BITS, HeadCell};
use crate::sync::{AtomicU64, MODEL, Ordering};
use crate::word::Field;

/// Slots in a bucket. A model has fewer.
pub(crate) const BUCKET: usize = if MODEL { 2 } else { 8 };

const GENERATION: Field = Field::new(0, GENERATION_BITS);
const FINGERPRINT: Field = GENERATION.above(64 - GENERATION_BITS);

/// Whose a slot is, if the generation agrees with the head's.
///
/// ```text
/// bits 63..10 fingerprint (54 bits of the key's hash, never 0) | bits 9..0 generation
/// ```
///
/// Zero is a slot that was never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    /// Of a slot that was never used.
    pub(crate) const NOBODY: Self = Self(0);

    /// The owner of that hash, in generation 0.
    #[inline(always)]
    pub(crate) const fn of(hash: u64) -> Self {
        let bits = hash & FINGERPRINT.max();
        Self(FINGERPRINT.set(0, if bits == 0 { 1 } else { bits }))
    }

    /// The same owner in another generation.
    #[inline]
    pub(crate) const fn in_generation(self, generation: u64) -> Self {
        Self(GENERATION.set(self.0, generation))
    }

    /// The generation, if this is `first` (an owner in generation 0) in some generation; else a
    /// number above all generations.
    #[inline(always)]
    pub(crate) const fn generation_of(self, first: Self) -> u64 {
        self.0 ^ first.0
    }

    /// Whether this is `first` (an owner in generation 0) in some generation.
    #[inline(always)]
    pub(crate) const fn is(self, first: Self) -> bool {
        self.generation_of(first) <= GENERATION.max()
    }

    #[inline]
    pub(crate) const fn generation(self) -> u64 {
        GENERATION.of(self.0)
    }

    /// The bits of the key's hash.
    pub(crate) const fn fingerprint(self) -> u64 {
        FINGERPRINT.of(self.0)
    }

    /// Whether the slot was ever somebody's.
    pub(crate) const fn belongs(self) -> bool {
        FINGERPRINT.of(self.0) != 0
    }
}

/// One place for one key.
#[repr(C)]
pub(crate) struct Slot {
    owner: AtomicU64,
    pub(crate) head: HeadCell,
}

#[cfg(not(tollgate_loom))]
const _: () = assert!(size_of::<Slot>() == 16);

impl Slot {
    #[cfg(tollgate_loom)]
    pub(crate) fn new() -> Self {
        Self { owner: AtomicU64::new(0), head: HeadCell::new(crate::cell::Head::committed(0, 0)) }
    }

    #[inline]
    pub(crate) fn owner(&self) -> Owner {
        Owner(self.owner.load(Ordering::Acquire))
    }

    /// Writes the next owner; false if somebody else has written one since `seen`.
    pub(crate) fn hand_over(&self, seen: Owner, next: Owner) -> bool {
        let swapped =
            self.owner.compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Relaxed);
        swapped.is_ok()
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::cell::Head;
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word_and_the_generations_are_alike() {
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
            prop_assert!(owner.is(first) && owner.belongs());
            prop_assert_eq!(owner.is(Owner::of(other)), (hash ^ other) & FINGERPRINT.max() == 0);
        }
    }

    #[test]
    fn a_hash_of_zero_still_names_an_owner() {
        assert!(Owner::of(0).belongs());
        assert!(Owner::of(1 << 54).belongs());
        assert!(!Owner(0).is(Owner::of(0)), "a slot that was never used is nobody's");
    }
}
