//! A slot, and the word that says whose it is.

use crate::cell::HeadCell;
use crate::sync::{AtomicU64, Ordering};
use crate::word::Field;

/// Slots in a bucket. Loom explores fewer.
pub(crate) const BUCKET: usize = if cfg!(tollgate_loom) { 2 } else { 8 };

const GENERATION: Field = Field::new(0, 10);
const FINGERPRINT: Field = GENERATION.above(54);

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
    /// The fingerprint's bits of a hash.
    #[inline]
    pub(crate) const fn fingerprint_of(hash: u64) -> u64 {
        let bits = hash & FINGERPRINT.max();
        if bits == 0 { 1 } else { bits }
    }

    #[inline]
    pub(crate) const fn new(fingerprint: u64, generation: u64) -> Self {
        Self(FINGERPRINT.set(GENERATION.of(generation), fingerprint))
    }

    #[inline]
    pub(crate) const fn fingerprint(self) -> u64 {
        FINGERPRINT.of(self.0)
    }

    #[inline]
    pub(crate) const fn generation(self) -> u64 {
        GENERATION.of(self.0)
    }

    /// Whether the slot was ever somebody's.
    pub(crate) const fn belongs(self) -> bool {
        self.fingerprint() != 0
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
        fn every_field_round_trips(hash: u64, generation in 0..=Head::GENERATION_MAX) {
            let fingerprint = Owner::fingerprint_of(hash);
            let owner = Owner::new(fingerprint, generation);
            prop_assert_eq!(owner.fingerprint(), fingerprint);
            prop_assert_eq!(owner.generation(), generation);
            prop_assert!(owner.belongs());
        }
    }

    #[test]
    fn a_hash_of_zero_still_names_an_owner() {
        assert!(Owner::new(Owner::fingerprint_of(0), 0).belongs());
    }
}
