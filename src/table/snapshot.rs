//! A table's live slots, read while others decide, and put back into a table nobody shares yet.
//!
//! A slot's two words are one moment's: the owner is read first, and a head that was committed in
//! its generation is its own. A ring belongs to the head that was read before it if that still
//! stands afterwards, as for a denial; else both are read again. The slots are not of one moment: a
//! key that moves while it is written may be met twice, or not at all.

use super::layout::{BUCKET, Owner, Slot};
use super::probe::{Probe, SECOND_BUCKET_FACTOR};
use super::{Wide, given_up};
use crate::algo::{PAYLOAD_BITS, Standing, StateMachine};
use crate::cell::{GENERATION_BITS, Head};

/// The live slots of a bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) bucket: u32,
    /// A bit for each slot that is live.
    pub(crate) places: u8,
    /// The words of those slots, one slot's after the other's.
    words: [u64; 2 * BUCKET],
    count: usize,
    /// What stands in the rings of those slots, one after the other.
    pub(crate) rings: Vec<u64>,
}

impl Row {
    pub(crate) fn of(bucket: u32) -> Self {
        Self { bucket, ..Self::default() }
    }

    /// Those that have their bit in `places`.
    pub(crate) fn places_in(places: u8) -> impl Iterator<Item = usize> {
        (0..BUCKET).filter(move |place| places >> place & 1 == 1)
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }

    pub(crate) fn add<const N: usize>(&mut self, place: usize, words: [u64; N]) {
        self.places |= 1 << place;
        self.words[self.count..][..N].copy_from_slice(&words);
        self.count += N;
    }
}

/// A key stands where its fingerprint cannot be, or its words are none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misplaced;

/// How often a state with a ring is read that changes meanwhile, before it is left out.
pub(crate) const TRIES: usize = 256;

/// The generation of all slots that are put back.
const GENERATION: u64 = 1;

impl Wide {
    /// The live slots of a bucket.
    pub(super) fn row<A: StateMachine>(&self, bucket: u32, algo: &A, instant: u64) -> Row {
        let mut row = Row::of(bucket);
        for (place, slot) in self.slots.bucket(bucket).iter().enumerate() {
            let cells = self.cells::<A>(slot);
            for _ in 0..TRIES {
                let owner = slot.owner();
                let head = slot.head.load();
                let taken = owner.belongs() && head.is_committed_in(owner.generation());
                if !taken || debt_of(head.payload(), algo, instant) == 0 {
                    break;
                }
                if slot.head.copy_ring(head, cells, self.ring.kept_cells, &mut row.rings) {
                    row.add(place, [owner.fingerprint(), head.payload()]);
                    break;
                }
                core::hint::spin_loop();
            }
        }
        row
    }

    /// Puts a key back into a slot that nobody has used, with the state that `rebase` makes of its
    /// own and its ring's contents, if there is one: bucket after bucket, in ascending order. Of a
    /// key that has another slot already, the state with more debt is kept.
    pub(super) fn put_back<A: StateMachine>(
        &self,
        bucket: u32,
        place: usize,
        ([fingerprint, state], ring): ([u64; 2], &mut [u64]),
        algo: &A,
        instant: u64,
        rebase: impl Fn(u64, &mut [u64]) -> Option<u64>,
    ) -> Result<(), Misplaced> {
        let owner = Owner::of(fingerprint).in_generation(GENERATION);
        if fingerprint != owner.fingerprint() || state >> PAYLOAD_BITS != 0 {
            return Err(Misplaced);
        }
        let buckets = self.slots.bucket_count();
        let mut hashes = hashes_in(fingerprint, bucket, buckets).peekable();
        hashes.peek().ok_or(Misplaced)?;
        let Some(state) = rebase(state, ring) else { return Ok(()) };
        let debt = debt_of(state, algo, instant);
        // Buckets after this one are empty yet.
        let others = hashes.flat_map(|hash| Probe::new(hash, buckets).buckets());
        for other in not_after(bucket, others) {
            for slot in self.slots.bucket(other).iter().filter(|slot| slot.owner() == owner) {
                let head = slot.head.load();
                if !head.is_committed_in(GENERATION) {
                    continue;
                }
                if debt_of(head.payload(), algo, instant) >= debt {
                    return Ok(());
                }
                // Nobody else is here: no swap fails.
                let _ = slot.head.swap(head, given_up(head));
            }
        }
        let slot: &Slot = &self.slots.bucket(bucket)[place];
        let taken = slot.head.swap(Head::committed(0, 0), Head::committed(GENERATION, state));
        let handed_over = slot.hand_over(Owner::NOBODY, owner);
        self.cells::<A>(slot).fill(GENERATION, ring);
        debug_assert!(taken.is_ok() && handed_over, "put back twice");
        Ok(())
    }
}

/// Those of the buckets that are not after this one. Of a small table each is told once, since a
/// thousand hashes name the same few; in a large one none is named often.
fn not_after(bucket: u32, named: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let is_small = bucket < u64::BITS;
    // A bit for each that has not been told.
    let left = if is_small { u64::MAX >> (u64::BITS - 1 - bucket) } else { u64::MAX };
    let told = move |left: &mut u64, other: u32| {
        if *left == 0 {
            return None;
        }
        let its = if is_small { 1 << other } else { 0 };
        let is_new = !is_small || *left & its > 0;
        *left &= !its;
        Some(is_new.then_some(other))
    };
    named.filter(move |other| *other <= bucket).scan(left, told).flatten()
}

/// What would be forgotten with a state; 0 where it is idle.
pub(super) fn debt_of<A: StateMachine>(state: u64, algo: &A, instant: u64) -> u64 {
    match algo.standing(state, instant) {
        Standing::Idle { .. } => 0,
        Standing::Live { debt } => debt,
    }
}

/// Bits of a hash that stand in the fingerprint: all but the topmost, which choose the bucket.
const KNOWN_BITS: u32 = u64::BITS - GENERATION_BITS;
const KNOWN: u64 = u64::MAX >> GENERATION_BITS;

/// The hashes with this fingerprint whose key may be in the bucket, some more than once.
///
/// The topmost ten bits are to be found: for its first bucket they are those of the hash, for the
/// second those of the product that chooses it, in which they are multiplied by an odd number.
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
        let mut chosen = Probe::new(*hash, buckets).buckets();
        chosen.any(|chosen| chosen == bucket)
    })
}

/// The numbers with these bits below the topmost ten that are scaled down to `bucket`: their
/// topmost ten.
#[expect(clippy::cast_possible_truncation, reason = "at most 2^10")]
fn tops(low: u64, bucket: u32, buckets: u32) -> core::ops::Range<u64> {
    let top = |bucket: u64| {
        let begin = u128::from((bucket << 32).div_ceil(u64::from(buckets))) << 32;
        (begin.saturating_sub(low.into()) + u128::from(KNOWN)) >> KNOWN_BITS
    };
    top(u64::from(bucket)) as u64..top(u64::from(bucket) + 1) as u64
}

/// What undoes a multiplication by the factor, of the lowest bits. Each step doubles how many are
/// right, from three on.
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
        fn the_hidden_bits_are_found(
            hash: u64, few in 2_u32..3_000, many in 2_u32..=u32::MAX, is_few: bool, another: u32,
        ) {
            let buckets = if is_few { few } else { many };
            let fingerprint = Owner::of(hash).fingerprint();
            let chosen: Vec<u32> = Probe::new(hash, buckets).buckets().collect();
            for bucket in chosen.into_iter().chain([another % buckets, 0, buckets - 1]) {
                let mut found: Vec<u64> = hashes_in(fingerprint, bucket, buckets).collect();
                found.sort_unstable();
                found.dedup();
                let all = (0..1_u64 << GENERATION_BITS).map(|top| top << KNOWN_BITS | fingerprint);
                let may = |hash: &u64| Probe::new(*hash, buckets).buckets().any(|b| b == bucket);
                prop_assert_eq!(found, all.filter(may).collect::<Vec<_>>());
            }
        }

        #[test]
        fn each_bucket_that_is_named_is_told(
            named in prop::collection::vec(0_u32..80, 0..300), bucket in 0_u32..80,
        ) {
            let mut told: Vec<u32> = not_after(bucket, named.iter().copied()).collect();
            let mut expected: Vec<u32> = named.iter().copied().filter(|its| *its <= bucket).collect();
            if bucket < u64::BITS {
                expected.sort_unstable();
                expected.dedup();
                told.sort_unstable();
            }
            prop_assert_eq!(told, expected);
        }
    }
}
