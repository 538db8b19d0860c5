//! Live wide slots, read while other threads decide, and restored into a table that no other thread
//! shares yet.
//!
//! A ring belongs to the head that was read before it if that head is still current afterwards, as
//! for a denial; else both are read again.

use super::slot::Owner;
use super::{Slot, WideSlots};
use crate::algo::{PAYLOAD_BITS, StateMachine};
use crate::cell::{GENERATION_BITS, Head, Loaded, StateWord};
use crate::table::probe::{Probe, SECOND_BUCKET_FACTOR};
use crate::table::slot_kind::{SlotKind, SlotRef};
use crate::table::snapshot::{Misplaced, Row, SavedSlot, TRIES, debt_of};

/// The generation of all restored slots.
const GENERATION: u64 = 1;

impl WideSlots {
    /// The live slots of a bucket.
    pub(in crate::table) fn row<M: StateMachine>(
        &self,
        bucket: u32,
        machine: &M,
        instant: u64,
    ) -> Row {
        let mut row = Row::of(bucket);
        for (place, slot) in self.slots.bucket(bucket).iter().enumerate() {
            let ring = self.ring::<M>(&slot.head);
            for _ in 0..TRIES {
                let Some((owner, SlotRef { cell, word })) = slot.committed() else { break };
                if debt_of(word.state(), machine, instant) == 0 {
                    break;
                }
                let loaded = Loaded { word, ring };
                if cell.copy_ring(loaded, self.ring_layout().kept_words(), &mut row.rings) {
                    row.add(place, [owner.fingerprint(), word.state()]);
                    break;
                }
                core::hint::spin_loop();
            }
        }
        row
    }

    /// Restores a key into a slot that has not been used. `rebase` returns the state to store, from the saved
    /// state and ring; after `None`, the key is left out. Keys are restored bucket after bucket, in ascending
    /// order. If the key has another slot already, the state with more debt is kept.
    pub(in crate::table) fn restore<M: StateMachine>(
        &self,
        saved: SavedSlot<'_>,
        machine: &M,
        instant: u64,
        rebase: impl Fn(u64, &mut [u64]) -> Option<u64>,
    ) -> Result<(), Misplaced> {
        let SavedSlot { bucket, place, words, ring } = saved;
        let &[fingerprint, state] = words else { return Err(Misplaced) };
        let owner = Owner::of(fingerprint).in_generation(GENERATION);
        if fingerprint != owner.fingerprint() || state >> PAYLOAD_BITS != 0 {
            return Err(Misplaced);
        }
        let buckets = self.slots.bucket_count();
        let mut hashes = hashes_in(fingerprint, bucket, buckets).peekable();
        hashes.peek().ok_or(Misplaced)?;
        let Some(state) = rebase(state, ring) else { return Ok(()) };
        let debt = debt_of(state, machine, instant);
        // Buckets after this one are still empty.
        let others = hashes.flat_map(|hash| Probe::new(hash).buckets(buckets));
        for other in not_after(bucket, others) {
            for slot in self.slots.bucket(other).iter().filter(|slot| slot.owner() == owner) {
                let head = slot.head.load();
                if !head.is_committed_in(GENERATION) {
                    continue;
                }
                if debt_of(head.state(), machine, instant) >= debt {
                    return Ok(());
                }
                // No other thread is here, so no swap fails.
                let _ = slot.head.swap(head, Self::vacated(head));
            }
        }
        let slot: &Slot = &self.slots.bucket(bucket)[place];
        let taken = slot.head.swap(Head::committed(0, 0), Head::committed(GENERATION, state));
        let handed_over = slot.hand_over(Owner::NONE, owner);
        self.ring::<M>(&slot.head).fill(GENERATION, ring);
        debug_assert!(taken.is_ok() && handed_over, "restored twice");
        Ok(())
    }
}

/// The named buckets up to this one. In a small table each is returned once, since a thousand hashes
/// name the same few. In a large table few are named twice, so none is remembered.
fn not_after(bucket: u32, named: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let is_small = bucket < u64::BITS;
    // A bit for each that has not been returned.
    let left = if is_small { u64::MAX >> (u64::BITS - 1 - bucket) } else { u64::MAX };
    let unseen = move |left: &mut u64, other: u32| {
        if *left == 0 {
            return None;
        }
        let its = if is_small { 1 << other } else { 0 };
        let is_new = !is_small || *left & its > 0;
        *left &= !its;
        Some(is_new.then_some(other))
    };
    named.filter(move |other| *other <= bucket).scan(left, unseen).flatten()
}

/// Bits of a hash that are in the fingerprint: all but the topmost, which choose the bucket.
const KNOWN_BITS: u32 = u64::BITS - GENERATION_BITS;
const KNOWN: u64 = u64::MAX >> GENERATION_BITS;

/// The hashes with this fingerprint whose key may be in the bucket, some more than once.
///
/// The fingerprint lacks the topmost ten bits of the hash. The hash chooses a key's first bucket, and its
/// product with an odd factor the second. The topmost bits of the product are a known part plus the
/// missing bits times the factor, so the inverse of the factor finds the missing bits.
fn hashes_in(fingerprint: u64, bucket: u32, buckets: u32) -> impl Iterator<Item = u64> {
    let product = fingerprint.wrapping_mul(SECOND_BUCKET_FACTOR);
    let (base, low) = (product >> KNOWN_BITS, product & KNOWN);
    let first = tops(fingerprint & KNOWN, bucket, buckets);
    // The second is the one after the first where both would be the same.
    let before = bucket.checked_sub(1).unwrap_or(buckets - 1);
    let second = tops(low, bucket, buckets).chain(tops(low, before, buckets));
    let second = second.map(move |top| top.wrapping_sub(base).wrapping_mul(FACTOR_INVERSE));
    let hash = move |top: u64| top << KNOWN_BITS | fingerprint & KNOWN;
    first.chain(second).map(hash).filter(move |hash| {
        let mut chosen = Probe::new(*hash).buckets(buckets);
        chosen.any(|chosen| chosen == bucket)
    })
}

/// The topmost ten bits of the numbers that have `low` below them and are scaled down to `bucket`.
#[expect(clippy::cast_possible_truncation, reason = "at most 2^10")]
fn tops(low: u64, bucket: u32, buckets: u32) -> core::ops::Range<u64> {
    let top = |bucket: u64| {
        let begin = (u128::from(bucket) << 64).div_ceil(buckets.into());
        (begin.saturating_sub(low.into()) + u128::from(KNOWN)) >> KNOWN_BITS
    };
    top(u64::from(bucket)) as u64..top(u64::from(bucket) + 1) as u64
}

/// The inverse of the factor modulo 2^64. Each step doubles how many of the lowest bits are right,
/// from three on.
const FACTOR_INVERSE: u64 = {
    let (mut inverse, mut step) = (SECOND_BUCKET_FACTOR, 0);
    while step < 5 {
        let error = 2_u64.wrapping_sub(SECOND_BUCKET_FACTOR.wrapping_mul(inverse));
        inverse = inverse.wrapping_mul(error);
        step += 1;
    }
    inverse
};

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_bits_that_a_fingerprint_lacks_are_found(
            hash: u64, few in 2_u32..3_000, many in 2_u32..=u32::MAX, is_few: bool, another: u32,
        ) {
            let buckets = if is_few { few } else { many };
            let fingerprint = Owner::of(hash).fingerprint();
            let chosen: Vec<u32> = Probe::new(hash).buckets(buckets).collect();
            for bucket in chosen.into_iter().chain([another % buckets, 0, buckets - 1]) {
                let mut found: Vec<u64> = hashes_in(fingerprint, bucket, buckets).collect();
                found.sort_unstable();
                found.dedup();
                let all = (0..1_u64 << GENERATION_BITS).map(|top| top << KNOWN_BITS | fingerprint);
                let may = |hash: &u64| Probe::new(*hash).buckets(buckets).any(|b| b == bucket);
                prop_assert_eq!(found, all.filter(may).collect::<Vec<_>>());
            }
        }

        #[test]
        fn each_named_bucket_that_is_not_after_is_returned(
            named in prop::collection::vec(0_u32..80, 0..300), bucket in 0_u32..80,
        ) {
            let mut returned: Vec<u32> = not_after(bucket, named.iter().copied()).collect();
            let mut expected: Vec<u32> = named.iter().copied().filter(|its| *its <= bucket).collect();
            if bucket < u64::BITS {
                expected.sort_unstable();
                expected.dedup();
                returned.sort_unstable();
            }
            prop_assert_eq!(returned, expected);
        }
    }
}
