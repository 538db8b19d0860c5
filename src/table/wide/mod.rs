//! Wide slots: a key's fingerprint in one word, its state in another, for every algorithm.
//!
//! # Layout
//!
//! ```text
//! owner  bits 63..10 fingerprint of the key | bits 9..0 generation
//! head   bits 63..54 generation | bit 53 provisional | bits 52..0 state
//! ```
//!
//! Eight slots are a bucket of two cache lines. A lookup begins with the line of the slot that the
//! hash prefers.
//!
//! An algorithm that needs more than a word gives every slot a ring of words. The rings are apart
//! from the buckets: a lookup touches no more lines than without them, and a decision that the head
//! alone can make touches none of them. [`cell`](crate::cell) keeps them true to the head.
//!
//! # What a slot's words say
//!
//! | owner and head | provisional | the slot is |
//! |---|---|---|
//! | fingerprint 0 | no | vacant: never used |
//! | generations differ | no | vacant: given up by its last key |
//! | generations differ | yes | taken, without an owner yet: the next owner written has it |
//! | generations agree | yes | claimed by the owner, nothing charged yet |
//! | generations agree | no | the owner's |
//!
//! # Guarded by
//!
//! `loom-tests/tests/claim.rs`, `take_over.rs` and `ring_take_over.rs`, run by `ci/check.sh loom`: see
//! [`claim`](super::claim).

mod ranking;
mod slot;
mod snapshot;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;

use core::ptr;

#[cfg(feature = "shared-memory")]
use super::block::piece_bytes;
use super::counters::Counters;
use super::memory::{LINE_WORDS, OutOfMemory, RingWords, Slots, prefetch};
use super::probe::{LINE, Order, Probe};
use super::ranking::Ranking;
use super::slack::slack_factor;
use super::slot_kind::{FoundSlot, SlotKind, SlotRef};
use super::source::Source;
use super::{BUCKET, CANDIDATES};
use crate::algo::StateMachine;
use crate::cell::{ChargeReceipt, Head, HeadCell, SlotRing, StateWord};
use crate::sync::{AtomicU64, Fault, planted};
use ranking::WideCandidate;
use slot::Owner;
pub(super) use slot::Slot;
#[cfg(feature = "shared-memory")]
pub(super) use slot::holds_key;

/// The slots of a wide table. See the [module](self).
pub(super) struct WideSlots {
    slots: Slots,
    /// Nearly every key is in the slot it prefers.
    has_slack: bool,
    ring_words: RingWords,
    /// Whether the last word of each ring is a note.
    has_note: bool,
}

/// The ring beside each slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLayout {
    words: usize,
    /// Whether the last word is a note.
    has_note: bool,
}

impl RingLayout {
    pub(crate) fn of<M: StateMachine>(machine: &M) -> Self {
        Self { words: machine.ring_cells(), has_note: machine.has_note() }
    }

    /// Words that are part of the state: all but the note.
    fn kept_words(self) -> usize {
        self.words - usize::from(self.has_note)
    }

    /// The buckets that there are, with slack.
    fn buckets_for(self, stated_buckets: u32) -> u32 {
        stated_buckets * slack_factor(stated_buckets, self.bucket_bytes())
    }

    /// The memory of a bucket with its rings.
    fn bucket_bytes(self) -> usize {
        BUCKET * (size_of::<Slot>() + self.words * size_of::<u64>())
    }
}

impl WideSlots {
    /// Slots of `stated_buckets` buckets, or of more with [slack](crate::table::slack).
    pub(super) fn new(
        stated_buckets: u32,
        ring: RingLayout,
        source: &Source,
    ) -> Result<Self, OutOfMemory> {
        let buckets = ring.buckets_for(stated_buckets);
        let slots = Slots::zeroed(buckets, source)?;
        let ring_words = RingWords::zeroed(buckets as usize * BUCKET, ring.words, source)?;
        let (has_slack, has_note) = (buckets > stated_buckets, ring.has_note);
        Ok(Self { slots, has_slack, ring_words, has_note })
    }

    fn ring_layout(&self) -> RingLayout {
        RingLayout { words: self.ring_words.length(), has_note: self.has_note }
    }

    /// The part of a block that [`new`](Self::new) takes.
    #[cfg(feature = "shared-memory")]
    pub(super) fn block_bytes(stated_buckets: u32, ring: RingLayout) -> usize {
        let buckets = ring.buckets_for(stated_buckets) as usize;
        let words = buckets.saturating_mul(BUCKET).saturating_mul(ring.words);
        piece_bytes::<[Slot; BUCKET]>(buckets).saturating_add(RingWords::block_bytes(words))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.bucket_count() as usize * self.ring_layout().bucket_bytes()
    }

    /// The index of a slot, by its head.
    #[inline(always)]
    fn index_of(&self, head: &HeadCell) -> usize {
        (ptr::from_ref(head).addr() - self.slots.address()) / size_of::<Slot>()
    }

    /// The first and the last word of a slot's ring, if it has one of a line's length at most, which
    /// may lie in two.
    #[inline(always)]
    fn ends_of_short_ring(&self, head: &HeadCell) -> Option<[&AtomicU64; 2]> {
        let length = self.ring_words.length();
        if !(1..=LINE_WORDS).contains(&length) {
            return None;
        }
        let first = self.index_of(head) * length;
        let words = self.ring_words.all();
        Some([words.get(first)?, words.get(first + length - 1)?])
    }

    /// Asks for the cache line that a first look reads; and for the ring of the slot that the key
    /// prefers, if that is a short one.
    #[inline(always)]
    pub(super) fn prefetch(&self, probe: Probe) {
        let preferred = self.slots.preferred(probe);
        prefetch(preferred);
        if let Some([first, last]) = self.ends_of_short_ring(&preferred.head) {
            prefetch(first);
            prefetch(last);
        }
    }

    /// Whether a candidate has the key's fingerprint.
    #[inline(never)]
    fn has_alike(&self, probe: Probe) -> bool {
        let (key, count) = (Owner::of(probe.hash()), self.slots.bucket_count());
        let [first, second] = [probe.first(count), probe.second(count)];
        let in_bucket = |index| self.slots.bucket(index).iter().any(|slot| slot.owner().is(key));
        in_bucket(first) || (second != first && in_bucket(second))
    }

    #[inline(never)]
    fn first_matching(&self, probe: Probe) -> Option<SlotRef<'_, Head>> {
        self.matching(probe).next()
    }

    #[cold]
    #[inline(never)]
    fn find_beside_claims(&self, probe: Probe) -> Option<SlotRef<'_, Head>> {
        self.matching(probe)
            .find(|slot| !slot.word.is_provisional() || planted(Fault::ClaimHidesSlot))
            .filter(|slot| !slot.word.is_provisional())
    }
}

/// `left`, less one for each slot of the bucket that has the key's fingerprint, in whichever generation.
///
/// Four instructions a slot, and no branch. If the answers were added up instead, the compiler would use vector
/// instructions, twice as many.
#[inline(always)]
fn less_alike(left: usize, bucket: &[Slot; BUCKET], key: Owner) -> usize {
    bucket.iter().fold(left, |left, slot| left - usize::from(slot.owner().is(key)))
}

/// The slot of a line that has the key's fingerprint; any other of the line if none has.
///
/// Without a branch: which slot of the line it is cannot be predicted.
#[inline(always)]
#[allow(clippy::reversed_empty_ranges, reason = "a model's line is one slot")]
fn likely_in(bucket: &[Slot; BUCKET], key: Owner, line: usize) -> &Slot {
    // If none of the others matches, the last one is read.
    let mut matching: usize = 1;
    for place in (0..LINE - 1).rev() {
        matching = matching * 2 + usize::from(bucket[line + place].owner().is(key));
    }
    &bucket[(line + matching.trailing_zeros() as usize) % BUCKET]
}

impl SlotKind for WideSlots {
    type Word = Head;
    type Slot = Slot;
    type Candidate<'a> = WideCandidate<'a>;

    #[inline(always)]
    fn bucket_count(&self) -> u32 {
        self.slots.bucket_count()
    }

    #[inline(always)]
    fn bucket(&self, index: u32) -> &[Slot; BUCKET] {
        self.slots.bucket(index)
    }

    #[inline(always)]
    fn ring<M: StateMachine>(&self, head: &HeadCell) -> SlotRing<'_> {
        if !M::RINGED {
            return SlotRing::NONE;
        }
        SlotRing::new(self.ring_words.of_slot(self.index_of(head)))
    }

    #[inline(always)]
    fn has_slack(&self) -> bool {
        self.has_slack
    }

    #[inline(always)]
    fn find_preferred(&self, probe: Probe) -> Option<FoundSlot<'_, Head>> {
        self.slots.preferred(probe).committed_for(probe)
    }

    /// At the stated capacity 72 of 100 keys are in the slot they prefer, 94 in its cache line,
    /// which the decision needs anyway.
    #[inline(always)]
    fn find_in_line(&self, probe: Probe) -> Option<FoundSlot<'_, Head>> {
        let line = Order::beginning_at(self.slots.home(probe)).first_of_line();
        let likely = likely_in(self.slots.first_bucket(probe), Owner::of(probe.hash()), line);
        likely.committed_for(probe)
    }

    /// The first of the key's slot and its claims in probing order. Nearly always it has none.
    #[inline]
    fn find_elsewhere(&self, probe: Probe) -> Option<SlotRef<'_, Head>> {
        if self.has_alike(probe) { self.first_matching(probe) } else { None }
    }

    #[inline(always)]
    fn find_committed(&self, probe: Probe) -> Option<SlotRef<'_, Head>> {
        match self.find_at_once(probe) {
            Some(found) => Some(found.slot()),
            None => self.find_beside_claims(probe),
        }
    }

    fn count_alike(&self, probe: Probe) -> usize {
        let (key, count) = (Owner::of(probe.hash()), self.slots.bucket_count());
        let [first, second] = [probe.first(count), probe.second(count)];
        let left = less_alike(CANDIDATES, self.slots.first_bucket(probe), key);
        // A table of one bucket (in a model) has no second.
        if second == first {
            return CANDIDATES - left;
        }
        CANDIDATES - less_alike(left, self.slots.bucket(second), key)
    }

    fn matching(&self, probe: Probe) -> impl Iterator<Item = SlotRef<'_, Head>> {
        let count = self.slots.bucket_count();
        let (buckets, order) = (probe.buckets(count), probe.order(count));
        let slots = buckets.flat_map(move |bucket| order.slots(self.slots.bucket(bucket)));
        slots.filter_map(move |slot| slot.seen_for(probe))
    }

    fn committed_in(&self, bucket: u32) -> impl Iterator<Item = SlotRef<'_, Head>> {
        self.slots.bucket(bucket).iter().filter_map(|slot| Some(slot.committed()?.1))
    }

    #[inline(always)]
    fn candidate(slot: &Slot) -> Option<WideCandidate<'_>> {
        WideCandidate::of(slot)
    }

    #[inline]
    fn victim<'a, M: StateMachine>(
        &'a self,
        machine: &M,
        ranking: &Ranking,
        least: WideCandidate<'a>,
    ) -> Option<WideCandidate<'a>> {
        if M::OWED_BY_RING { self.lightest(machine, ranking) } else { Some(least) }
    }

    fn take<'a>(
        &'a self,
        candidate: WideCandidate<'a>,
        _: Probe,
        fresh: u64,
        _: &Counters,
    ) -> Option<SlotRef<'a, Head>> {
        let WideCandidate { slot, head, .. } = candidate;
        if candidate.has_no_owner_yet() {
            return Some(SlotRef { cell: &slot.head, word: head });
        }
        let generation = match planted(Fault::GenerationKept) {
            true => head.generation(),
            false => head.next_generation(),
        };
        let claim = Head::provisional(generation, fresh);
        slot.head.swap(head, claim).ok()?;
        Some(SlotRef { cell: &slot.head, word: claim })
    }

    fn hand_over(&self, candidate: WideCandidate<'_>, claim: Head, probe: Probe) -> bool {
        let owner = Owner::of(probe.hash()).in_generation(claim.generation());
        candidate.slot.hand_over(candidate.owner, owner)
    }

    fn vacated(head: Head) -> Head {
        Head::committed(head.next_generation(), head.state())
    }

    /// The claim has the state, stamped with the time of the claim.
    fn state_of_claim(claim: Head, _: u64) -> u64 {
        claim.state()
    }

    fn place_of(&self, slot: SlotRef<'_, Head>) -> (u64, usize) {
        (slot.word.generation(), self.index_of(slot.cell))
    }

    #[expect(clippy::cast_possible_truncation, reason = "below the number of buckets")]
    fn charged_slot(
        &self,
        probe: Option<Probe>,
        paid: &ChargeReceipt,
    ) -> Option<SlotRef<'_, Head>> {
        let bucket = self.slots.bucket((paid.place / BUCKET) as u32);
        let slot = &bucket[paid.place % BUCKET];
        // Generations recur after 1,024 owners, which a flood of keys has in seconds.
        let owner = |probe: Probe| Owner::of(probe.hash()).in_generation(paid.generation);
        if probe.is_some_and(|probe| slot.owner() != owner(probe)) {
            return None;
        }
        let cell = &slot.head;
        cell.load_in(paid.generation).map(|word| SlotRef { cell, word })
    }
}
