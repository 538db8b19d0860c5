//! Compact slots: a key and its state in one word, eight of them to a cache line.
//!
//! # Layout
//!
//! ```text
//! bits 63..38 fingerprint of the key | bit 37 provisional | bits 36..0 state, or a nonce
//! ```
//!
//! Zero is vacant. Eight words are a bucket of one cache line.
//!
//! # Guarded by
//!
//! `loom-tests/tests/claim.rs` and `take_over.rs`, run by `ci/check.sh loom`: see [`claim`](super::claim).

mod ranking;
mod snapshot;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;

#[cfg(feature = "shared-memory")]
use super::block::piece_bytes;
use super::counters::Counters;
use super::memory::{Lines, OutOfMemory, prefetch};
use super::probe::Probe;
use super::slack::slack_factor;
use super::slot_kind::{FoundSlot, SlotKind, SlotRef};
use super::source::Source;
use super::{BUCKET, CANDIDATES};
use crate::algo::StateMachine;
use crate::cell::{ChargeReceipt, CompactCell, CompactWord, Fingerprint, SlotRing, StateWord};
use crate::sync::{Fault, planted};

type Bucket = [CompactCell; BUCKET];

/// The slots of a compact table. See the [module](self).
pub(super) struct CompactSlots {
    lines: Lines,
    /// Nearly every key is in the slot it prefers.
    has_slack: bool,
}

impl CompactSlots {
    /// Slots of `stated_buckets` buckets, or of more with [slack](crate::table::slack).
    pub(super) fn new(stated_buckets: u32, source: &Source) -> Result<Self, OutOfMemory> {
        let factor = slack_factor(stated_buckets, size_of::<Bucket>());
        let lines = Lines::zeroed(stated_buckets * factor, source)?;
        Ok(Self { lines, has_slack: factor > 1 })
    }

    /// The part of a block that [`new`](Self::new) takes.
    #[cfg(feature = "shared-memory")]
    pub(super) fn block_bytes(stated_buckets: u32) -> usize {
        let factor = slack_factor(stated_buckets, size_of::<Bucket>());
        piece_bytes::<Bucket>((stated_buckets * factor) as usize)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.bucket_count() as usize * size_of::<Bucket>()
    }

    /// Asks for the cache line that a first look reads.
    #[inline(always)]
    pub(super) fn prefetch(&self, probe: Probe) {
        prefetch(self.lines.first_bucket(probe));
    }
}

/// The slot, if it is the key's and committed.
#[inline(always)]
fn committed_at(
    cell: &CompactCell,
    fingerprint: Fingerprint,
) -> Option<FoundSlot<'_, CompactWord>> {
    let seen = cell.load_in_life(fingerprint.life())?;
    Some(FoundSlot { cell, seen })
}

/// The key's committed slot in a bucket.
///
/// The processor cannot predict which of the eight slots it is. So all but the last are compared without a
/// branch, and the last one is read if none of them is the key's.
#[inline(always)]
fn find_in(bucket: &Bucket, fingerprint: Fingerprint) -> Option<FoundSlot<'_, CompactWord>> {
    // A load that decides nothing would only multiply a model's interleavings.
    if cfg!(tollgate_loom) {
        return bucket.iter().find_map(|cell| committed_at(cell, fingerprint));
    }
    let mut matching: usize = 1;
    for cell in bucket[..BUCKET - 1].iter().rev() {
        matching = matching * 2 + usize::from(cell.seems_in_life(fingerprint.life()));
    }
    committed_at(&bucket[matching.trailing_zeros() as usize % BUCKET], fingerprint)
}

/// `left`, less one for each slot of the bucket that has the key's fingerprint: see
/// [`wide`](crate::table::wide).
#[inline(always)]
fn less_alike(left: usize, bucket: &Bucket, key: Fingerprint) -> usize {
    bucket.iter().fold(left, |left, cell| left - usize::from(cell.load().is_of(key)))
}

impl SlotKind for CompactSlots {
    type Word = CompactWord;
    type Slot = CompactCell;
    type Candidate<'a> = SlotRef<'a, CompactWord>;

    fn bucket_count(&self) -> u32 {
        self.lines.bucket_count()
    }

    #[inline(always)]
    fn bucket(&self, index: u32) -> &Bucket {
        self.lines.bucket(index)
    }

    #[inline(always)]
    fn ring<M: StateMachine>(&self, _: &CompactCell) -> SlotRing<'_> {
        SlotRing::NONE
    }

    #[inline(always)]
    fn has_slack(&self) -> bool {
        self.has_slack
    }

    #[inline(always)]
    fn find_preferred(&self, probe: Probe) -> Option<FoundSlot<'_, CompactWord>> {
        committed_at(self.lines.preferred(probe), Fingerprint::of(probe.hash()))
    }

    /// A line is a bucket.
    #[inline(always)]
    fn find_in_line(&self, probe: Probe) -> Option<FoundSlot<'_, CompactWord>> {
        find_in(self.lines.first_bucket(probe), Fingerprint::of(probe.hash()))
    }

    /// The key's committed slot, if it is in its second bucket.
    fn find_elsewhere(&self, probe: Probe) -> Option<SlotRef<'_, CompactWord>> {
        // A model has one bucket.
        let (first, second) = (probe.first(self.bucket_count()), probe.second(self.bucket_count()));
        if second == first {
            return None;
        }
        find_in(self.lines.bucket(second), Fingerprint::of(probe.hash())).map(FoundSlot::slot)
    }

    #[inline]
    fn find_committed(&self, probe: Probe) -> Option<SlotRef<'_, CompactWord>> {
        match self.find_at_once(probe) {
            Some(found) => Some(found.slot()),
            None => self.find_elsewhere(probe),
        }
    }

    fn count_alike(&self, probe: Probe) -> usize {
        let (fingerprint, count) = (Fingerprint::of(probe.hash()), self.bucket_count());
        let [first, second] = [probe.first(count), probe.second(count)];
        let left = less_alike(CANDIDATES, self.lines.first_bucket(probe), fingerprint);
        // A model has one bucket.
        if second == first {
            return CANDIDATES - left;
        }
        CANDIDATES - less_alike(left, self.lines.bucket(second), fingerprint)
    }

    fn matching(&self, probe: Probe) -> impl Iterator<Item = SlotRef<'_, CompactWord>> {
        let fingerprint = Fingerprint::of(probe.hash());
        let cells = probe.buckets(self.bucket_count()).flat_map(|bucket| self.lines.bucket(bucket));
        let slots = cells.map(|cell| SlotRef { cell, word: cell.load() });
        slots.filter(move |slot| slot.word.is_of(fingerprint))
    }

    fn committed_in(&self, bucket: u32) -> impl Iterator<Item = SlotRef<'_, CompactWord>> {
        let slots = self.lines.bucket(bucket).iter();
        let slots = slots.map(|cell| SlotRef { cell, word: cell.load() });
        slots.filter(|slot| !slot.word.is_vacant() && !slot.word.is_provisional())
    }

    #[inline(always)]
    fn candidate(cell: &CompactCell) -> Option<SlotRef<'_, CompactWord>> {
        Some(SlotRef { cell, word: cell.load() })
    }

    fn take<'a>(
        &'a self,
        candidate: SlotRef<'a, CompactWord>,
        probe: Probe,
        _: u64,
        counters: &Counters,
    ) -> Option<SlotRef<'a, CompactWord>> {
        let nonce = if planted(Fault::NonceKept) { 0 } else { counters.nonce() };
        let claim = CompactWord::provisional(Fingerprint::of(probe.hash()), nonce);
        candidate.cell.swap(candidate.word, claim).ok()?;
        Some(SlotRef { cell: candidate.cell, word: claim })
    }

    /// The word names the key already.
    #[inline]
    fn hand_over(&self, _: SlotRef<'_, CompactWord>, _: CompactWord, _: Probe) -> bool {
        true
    }

    fn vacated(_: CompactWord) -> CompactWord {
        CompactWord::VACANT
    }

    /// The claim has a nonce in place of a state.
    #[inline]
    fn state_of_claim(_: CompactWord, fresh: u64) -> u64 {
        fresh
    }

    fn place_of(&self, _: SlotRef<'_, CompactWord>) -> (u64, usize) {
        (0, 0)
    }

    fn charged_slot(
        &self,
        probe: Option<Probe>,
        _: &ChargeReceipt,
    ) -> Option<SlotRef<'_, CompactWord>> {
        self.find_committed(probe?)
    }
}
