//! A wide slot's state word.

use super::state_cell::StateCell;
use super::state_word::{Seen, StateWord};
use crate::algo::PAYLOAD_BITS;
use crate::sync::{Fault, planted};
use crate::word::Field;

/// Bits of a generation, here and in a slot's owner.
pub(crate) const GENERATION_BITS: u32 = 10;
const PAYLOAD: Field = Field::new(0, PAYLOAD_BITS);
const GENERATION: Field = Head::PROVISIONAL.above(GENERATION_BITS);
/// Generation and provisional bit together.
const LIFE: Field = PAYLOAD.above(1 + GENERATION_BITS);

/// A state word of a slot whose key is in another word, and of a bucket without keys.
///
/// ```text
/// bits 63..54 generation | bit 53 provisional | bits 52..0 payload, the algorithm's state
/// ```
///
/// Zero is generation 0 with the state 0. Generations wrap from 1023 to 0. *Provisional* means
/// that no decision has been charged here yet; the payload is then a fresh state, stamped with
/// the time of the claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head(u64);

/// A [`Head`] that several threads change.
pub(crate) type HeadCell = StateCell<Head>;

impl Head {
    pub(crate) const GENERATION_MAX: u64 = GENERATION.max();

    #[inline]
    pub(crate) const fn committed(generation: u64, payload: u64) -> Self {
        Self(GENERATION.set(PAYLOAD.of(payload), generation))
    }

    pub(crate) const fn provisional(generation: u64, payload: u64) -> Self {
        Self(Self::PROVISIONAL.set(Self::committed(generation, payload).0, 1))
    }

    #[inline]
    pub(crate) const fn next_generation(self) -> u64 {
        (GENERATION.of(self.0) + 1) & GENERATION.max()
    }

    /// Whether the word is committed in this generation. No word is in one above the largest.
    #[inline(always)]
    pub(crate) fn is_committed_in(self, generation: u64) -> bool {
        generation <= Self::GENERATION_MAX && LIFE.of(self.0) == 2 * generation
    }
}

impl HeadCell {
    /// The word, if it is committed in this generation, which is at most the largest.
    #[inline(always)]
    pub(crate) fn see_in(&self, generation: u64) -> Option<Seen<Head>> {
        // The field is the topmost one.
        self.load_in_life(generation << (u64::BITS - GENERATION_BITS))
    }

    /// The word, if it is committed in this generation. No word is in one above the largest.
    pub(crate) fn load_in(&self, generation: u64) -> Option<Head> {
        let head = self.load();
        let is_any = planted(Fault::LifeUnchecked) && !head.is_provisional();
        (head.is_committed_in(generation) || is_any).then_some(head)
    }

    /// Replaces the state by `next` of it, while the word is committed in this generation. `false`: it is no longer.
    pub(super) fn revise_in(&self, generation: u64, next: impl Fn(u64) -> u64) -> bool {
        self.load_in(generation).is_some_and(|head| self.revise(head, next))
    }
}

impl StateWord for Head {
    const STATE: Field = PAYLOAD;

    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    fn generation(self) -> u64 {
        GENERATION.of(self.0)
    }
}

impl core::fmt::Debug for Head {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Head")
            .field("generation", &self.generation())
            .field("provisional", &self.is_provisional())
            .field("payload", &self.state())
            .finish()
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word() {
        assert!(tile(&[PAYLOAD, Head::PROVISIONAL, GENERATION], 64));
    }

    proptest! {
        #[test]
        fn every_field_round_trips(generation in 0..=Head::GENERATION_MAX, payload: u64) {
            let payload = PAYLOAD.of(payload);
            let committed = Head::committed(generation, payload);
            for (head, provisional) in [
                (committed, false),
                (Head::provisional(generation, payload), true),
            ] {
                prop_assert_eq!(head.generation(), generation);
                prop_assert_eq!(head.is_provisional(), provisional);
                prop_assert_eq!(head.state(), payload);
                prop_assert_eq!(head.next_generation(), (generation + 1) % 1_024);
                prop_assert_eq!(head.is_committed_in(generation), !provisional);
                prop_assert!(!head.is_committed_in(generation ^ 1));
                prop_assert!((10..64).all(|bit| !head.is_committed_in(generation ^ 1 << bit)));
                prop_assert_eq!(head.with_state(!payload & PAYLOAD.max()).generation(), generation);
                prop_assert_eq!(head.commit(payload), committed);
                prop_assert_eq!(head.is_same_life(committed), !provisional);
                let seen = HeadCell::new(head).see_in(generation);
                prop_assert_eq!(seen.map(Seen::word), (!provisional).then_some(head));
                prop_assert!((0..10).all(|bit| HeadCell::new(head).see_in(generation ^ 1 << bit).is_none()));
                let later = Head::committed(generation ^ 1, payload);
                prop_assert!(!head.is_same_life(later) && !later.is_same_life(committed));
            }
        }
    }
}
