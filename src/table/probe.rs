//! Where a key's slot may be, and whether it is there.

use super::Table;
use super::layout::{BUCKET, Owner, Slot};
use crate::cell::Head;

/// A key's hash, from which its fingerprint, its two buckets and the slot it prefers in both
/// follow. They are worked out when needed: the usual lookup needs no second bucket.
///
/// The probing order is the same for every thread: the first bucket from the preferred slot on,
/// staying in its cache line first, then the second bucket likewise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    hash: u64,
    buckets: u32,
}

/// A key's slot, and its head as it was when it was found.
#[derive(Clone, Copy)]
pub(crate) struct Seat<'a> {
    pub(crate) slot: &'a Slot,
    pub(crate) head: Head,
}

/// Spreads the bits that chose the first bucket over those that choose the second.
const SECOND_BUCKET_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Probe {
    #[inline(always)]
    pub(crate) fn new(hash: u64, buckets: u32) -> Self {
        Self { hash, buckets }
    }

    #[inline(always)]
    fn fingerprint(&self) -> u64 {
        Owner::fingerprint_of(self.hash)
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        scaled(self.hash, self.buckets)
    }

    /// Another bucket than the first, unless there is only one.
    fn second(&self) -> u32 {
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
        Owner::new(self.fingerprint(), generation)
    }

    /// The buckets, the first first. A table of one bucket (in a model) has no second.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = u32> {
        let (first, second) = (self.first(), self.second());
        [first].into_iter().chain((second != first).then_some(second))
    }

    /// The slots of a bucket in probing order.
    #[inline]
    pub(crate) fn order<'a>(&self, bucket: &'a [Slot; BUCKET]) -> impl Iterator<Item = &'a Slot> {
        let preferred = self.preferred();
        (0..BUCKET).map(move |index| &bucket[(index ^ preferred) % BUCKET])
    }

    /// The slot, seen as this key's; `None` where it is not.
    #[inline(always)]
    pub(crate) fn seat<'a>(&self, slot: &'a Slot) -> Option<Seat<'a>> {
        let owner = slot.owner();
        if owner.fingerprint() != self.fingerprint() {
            return None;
        }
        let head = slot.head.load();
        (head.generation() == owner.generation()).then_some(Seat { slot, head })
    }
}

/// `hash` scaled down to `0..range` by its upper half.
#[inline]
fn scaled(hash: u64, range: u32) -> u32 {
    (((hash >> 32) * u64::from(range)) >> 32) as u32
}

impl Table {
    /// The key's slot, committed or claimed, if it has one.
    ///
    /// The usual case is decided by the first comparison, in the one cache line that the
    /// decision needs anyway.
    #[inline(always)]
    pub(crate) fn find(&self, probe: &Probe) -> Option<Seat<'_>> {
        let preferred = &self.slots.bucket(probe.first())[probe.preferred()];
        match probe.seat(preferred) {
            Some(seat) => Some(seat),
            None => self.find_elsewhere(*probe),
        }
    }

    #[inline(never)]
    fn find_elsewhere(&self, probe: Probe) -> Option<Seat<'_>> {
        probe
            .buckets()
            .flat_map(|bucket| probe.order(self.slots.bucket(bucket)))
            .find_map(|slot| probe.seat(slot))
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
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
        let slots = crate::table::memory::Slots::zeroed(1).expect("memory");
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
}
