//! Where a key's slot may be, and whether it is there.

use super::Wide;
use super::layout::{BUCKET, Owner, Slot};
use super::memory::prefetch;
use crate::cell::Head;
use crate::sync::{Fault, planted};

/// A key's hash, from which its fingerprint, its two buckets and the slot it prefers in both
/// follow. They are worked out when needed: the usual lookup needs no second bucket.
///
/// The probing order is the same for every thread: the first bucket from the preferred slot on,
/// staying in its cache line first, then the second bucket likewise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    hash: u64,
    buckets: u32,
}

/// A key's slot, and its head as it was when it was found.
#[derive(Clone, Copy)]
pub(crate) struct SlotRef<'a> {
    pub(crate) slot: &'a Slot,
    pub(crate) head: Head,
}

impl SlotRef<'_> {
    /// Whether it is the same slot, seen in the same state.
    pub(crate) fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self.slot, other.slot) && self.head == other.head
    }
}

/// Slots in a cache line.
const LINE: usize = BUCKET / 2;

/// Spreads the bits that chose the first bucket over those that choose the second.
pub(super) const SECOND_BUCKET_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Probe {
    #[inline(always)]
    pub(crate) fn new(hash: u64, buckets: u32) -> Self {
        Self { hash, buckets }
    }

    /// The key as an owner, in generation 0.
    #[inline(always)]
    fn first_owner(&self) -> Owner {
        Owner::of(self.hash)
    }

    #[inline(always)]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    #[inline(always)]
    pub(crate) fn first(&self) -> u32 {
        scaled(self.hash, self.buckets)
    }

    /// Another bucket than the first, unless there is only one.
    pub(crate) fn second(&self) -> u32 {
        let first = self.first();
        let mixed = scaled(self.hash.wrapping_mul(SECOND_BUCKET_FACTOR), self.buckets);
        match () {
            () if mixed != first => mixed,
            () if first + 1 < self.buckets => first + 1,
            () => 0,
        }
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn preferred(&self) -> usize {
        self.hash as usize % BUCKET
    }

    pub(crate) fn owner(&self, generation: u64) -> Owner {
        self.first_owner().in_generation(generation)
    }

    /// The buckets, the first first. A table of one bucket (in a model) has no second.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = u32> + use<> {
        let (first, second) = (self.first(), self.second());
        [first].into_iter().chain((second != first).then_some(second))
    }

    /// Which slots of a bucket bear this key's fingerprint: a bit for each, in probing order.
    ///
    /// Without a branch: nearly always it is none, but where there is one, which it is cannot be
    /// predicted.
    #[inline(always)]
    fn bearers(&self, bucket: &[Slot; BUCKET]) -> u32 {
        let owner = self.first_owner();
        (0..BUCKET).fold(0, |bearers, index| {
            let bears = self.in_order(bucket, index).owner().is(owner);
            bearers | u32::from(bears) << index
        })
    }

    /// The slots of a bucket in probing order.
    #[inline]
    pub(crate) fn order<'a>(&self, bucket: &'a [Slot; BUCKET]) -> impl Iterator<Item = &'a Slot> {
        let probe = *self;
        (0..BUCKET).map(move |index| probe.in_order(bucket, index))
    }

    /// The slot of a bucket that comes so late in probing order.
    #[inline(always)]
    pub(crate) fn in_order<'a>(&self, bucket: &'a [Slot; BUCKET], index: usize) -> &'a Slot {
        &bucket[self.turn(index)]
    }

    /// Which slot of a bucket comes so late in probing order; and in which turn that slot comes.
    #[inline(always)]
    pub(super) fn turn(&self, index: usize) -> usize {
        (index ^ self.preferred()) % BUCKET
    }

    /// The cache line of a bucket in which the preferred slot lies, by its first slot.
    #[inline(always)]
    fn preferred_line(&self) -> usize {
        self.preferred() & !(LINE - 1)
    }

    /// The slot of a line that bears this key's fingerprint; any other of it if none does.
    ///
    /// Without a branch: which slot of the line it is cannot be predicted.
    #[inline(always)]
    #[allow(clippy::reversed_empty_ranges, reason = "a model's line is one slot")]
    fn likely<'a>(&self, bucket: &'a [Slot; BUCKET], line: usize) -> &'a Slot {
        let mut bearers: usize = 0;
        for place in 0..LINE - 1 {
            let bears = bucket[line + place].owner().is(self.first_owner());
            bearers |= usize::from(bears) << place;
        }
        // If none of the others bears it, the last one is looked at.
        let place = (bearers | 1 << (LINE - 1)).trailing_zeros() as usize;
        &bucket[(line + place) % BUCKET]
    }

    /// The slot, seen as this key's, committed or claimed; `None` where it is not.
    #[inline]
    pub(crate) fn seat<'a>(&self, slot: &'a Slot) -> Option<SlotRef<'a>> {
        let owner = slot.owner();
        if !owner.is(self.first_owner()) {
            return None;
        }
        let head = slot.head.load();
        let is_its_own = head.generation() == owner.generation();
        (is_its_own || planted(Fault::GenerationUnchecked)).then_some(SlotRef { slot, head })
    }

    /// The slot, seen as this key's and committed.
    #[inline(always)]
    fn committed_seat<'a>(&self, slot: &'a Slot) -> Option<SlotRef<'a>> {
        let generation = slot.owner().generation_of(self.first_owner());
        // A load that decides nothing would only multiply a model's interleavings.
        if cfg!(tollgate_loom) && generation > Head::GENERATION_MAX {
            return None;
        }
        let head = slot.head.load();
        head.is_committed_in(generation).then_some(SlotRef { slot, head })
    }
}

/// `hash` scaled down to `0..range` by its upper half.
#[inline]
fn scaled(hash: u64, range: u32) -> u32 {
    (((hash >> 32) * u64::from(range)) >> 32) as u32
}

impl Wide {
    /// Asks for the cache line that [`find_at_once`](Self::find_at_once) looks at; and for the ring of
    /// the slot that the key prefers, if that is a short one.
    #[inline(always)]
    pub(crate) fn prefetch(&self, probe: Probe) {
        let preferred = &self.slots.bucket(probe.first())[probe.preferred()];
        prefetch(preferred);
        if let Some([first, last]) = self.ends_of_short_ring(preferred) {
            prefetch(first);
            prefetch(last);
        }
    }

    /// The key's committed slot, if it stands where the key would first be put.
    ///
    /// At the stated capacity 72 of 100 keys sit in the slot they prefer, 94 in its cache line,
    /// which the decision needs anyway.
    #[inline(always)]
    pub(crate) fn find_at_once(&self, probe: Probe) -> Option<SlotRef<'_>> {
        let bucket = self.slots.bucket(probe.first());
        probe.committed_seat(probe.likely(bucket, probe.preferred_line()))
    }

    /// The key's slot, committed or claimed, wherever it is; the first in probing order, if a claim
    /// was made beside it.
    pub(crate) fn find(&self, probe: Probe) -> Option<SlotRef<'_>> {
        self.bearers(probe).find_map(|slot| probe.seat(slot))
    }

    /// The key's committed slot, wherever it is, and whatever claims were made beside it.
    #[inline(always)]
    pub(crate) fn find_committed(&self, probe: Probe) -> Option<SlotRef<'_>> {
        match self.find_at_once(probe) {
            Some(seat) => Some(seat),
            None => self.find_beside_claims(probe),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_beside_claims(&self, probe: Probe) -> Option<SlotRef<'_>> {
        let mut seats = self.bearers(probe).filter_map(|slot| probe.seat(slot));
        seats
            .find(|seat| !seat.head.is_provisional() || planted(Fault::ClaimHidesSlot))
            .filter(|seat| !seat.head.is_provisional())
    }

    /// The candidates that bear the key's fingerprint, in probing order.
    #[inline(always)]
    pub(crate) fn bearers(&self, probe: Probe) -> impl Iterator<Item = &Slot> {
        let indices = [probe.first(), probe.second()];
        let buckets = indices.map(|index| self.slots.bucket(index));
        // A table of one bucket (in a model) has no second.
        let second = if indices[0] == indices[1] { 0 } else { probe.bearers(buckets[1]) };
        let mut left = probe.bearers(buckets[0]) | second << BUCKET;
        std::iter::from_fn(move || {
            let next = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            Some(probe.in_order(buckets.get(next / BUCKET)?, next))
        })
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::table::HugePages;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_probe_stays_in_the_table_and_visits_each_candidate_once(
            hash: u64, buckets in 2_u32..=u32::MAX,
        ) {
            let probe = Probe::new(hash, buckets);
            prop_assert!(probe.first() < buckets && probe.second() < buckets);
            prop_assert_ne!(probe.first(), probe.second());
            prop_assert_eq!(probe.buckets().count(), 2);
        }
    }

    #[test]
    fn the_order_is_a_permutation_that_begins_with_the_preferred_line() {
        let slots = crate::table::memory::Slots::zeroed(1, HugePages(false)).expect("memory");
        let bucket = slots.bucket(0);
        for hash in 0..BUCKET as u64 {
            let probe = Probe::new(hash, 2);
            let index = |slot: &Slot| {
                (std::ptr::from_ref(slot).addr() - std::ptr::from_ref(bucket).addr()) / 16
            };
            let order: Vec<usize> = probe.order(bucket).map(index).collect();
            assert_eq!(order[0], probe.preferred());
            assert!(order[..4].iter().all(|slot| slot / 4 == probe.preferred() / 4));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..BUCKET).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_seat_is_another_if_its_slot_or_its_head_is() {
        let slots = crate::table::memory::Slots::zeroed(1, HugePages(false)).expect("memory");
        let (head, another) = (Head::committed(1, 5), Head::committed(1, 6));
        let seat = SlotRef { slot: &slots.bucket(0)[0], head };
        assert!(seat.is(&SlotRef { slot: &slots.bucket(0)[0], head }));
        assert!(!seat.is(&SlotRef { slot: &slots.bucket(0)[1], head }));
        assert!(!seat.is(&SlotRef { slot: &slots.bucket(0)[0], head: another }));
    }
}
