//! Rows of a snapshot: what both kinds of slot have in common.
//!
//! A row is a bucket's live slots, read while other threads decide. Its slots are not of one moment:
//! a key that moves while the table is written may be in two rows, or in none.

use super::BUCKET;
use crate::algo::{Liveness, StateMachine};

/// The live slots of a bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) bucket: u32,
    /// A bit for each slot that is live.
    pub(crate) places: u8,
    /// The words of those slots, one slot's after the other's.
    words: [u64; 2 * BUCKET],
    count: usize,
    /// The contents of the rings of those slots, one slot's after the other's.
    pub(crate) rings: Vec<u64>,
}

impl Row {
    pub(crate) fn of(bucket: u32) -> Self {
        Self { bucket, ..Self::default() }
    }

    /// The places that have their bit in `places`.
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

/// A key is where its fingerprint cannot be, or its words are not those of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misplaced;

/// How often a state with a ring is read before it is left out, because it changes meanwhile.
pub(crate) const TRIES: usize = 256;

/// A slot of a snapshot, and where it goes.
pub(crate) struct SavedSlot<'a> {
    pub(crate) bucket: u32,
    pub(crate) place: usize,
    /// The slot's words, as in a [`Row`].
    pub(crate) words: &'a [u64],
    /// The contents of its ring, which restoring replaces.
    pub(crate) ring: &'a mut [u64],
}

/// The debt that would be forgotten with a state; 0 if it is idle.
pub(super) fn debt_of<M: StateMachine>(state: u64, machine: &M, instant: u64) -> u64 {
    match machine.liveness(state, instant) {
        Liveness::Idle { .. } => 0,
        Liveness::Live { debt } => debt,
    }
}
