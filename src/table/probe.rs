//! The slots that a key may have, and the order in which they are tried.

use super::BUCKET;

/// A key's hash. It determines the key's fingerprint, its two buckets, and the slot that it prefers
/// in both, each computed when it is needed: the usual lookup needs no second bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    hash: u64,
}

/// The order in which a key's slots are probed, the same for every thread: the first bucket from the
/// preferred slot on, starting with the slots of its cache line, then the second bucket in the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    preferred: usize,
}

/// Slots in a cache line of a wide table.
pub(super) const LINE: usize = BUCKET / 2;

/// Spreads the bits that choose the first bucket over those that choose the second.
pub(super) const SECOND_BUCKET_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of slots in `buckets` buckets.
#[inline(always)]
pub(super) fn slots_of(buckets: u32) -> u64 {
    u64::from(buckets) * BUCKET as u64
}

impl Probe {
    #[inline(always)]
    pub(crate) fn new(hash: u64) -> Self {
        Self { hash }
    }

    #[inline(always)]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The first of the key's buckets, in a table of `of` buckets.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of buckets")]
    pub(super) fn first(&self, of: u32) -> u32 {
        (self.home(slots_of(of)) / BUCKET) as u32
    }

    /// The slot that the key prefers in a table of `slots` slots: `hash / 2^64 * slots`, which is below `slots`.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
    pub(super) fn home(&self, slots: u64) -> usize {
        ((u128::from(self.hash) * u128::from(slots)) >> 64) as usize
    }

    /// The order in which the key's slots are probed, in a table of `of` buckets.
    #[inline(always)]
    pub(super) fn order(&self, of: u32) -> Order {
        Order::beginning_at(self.home(slots_of(of)))
    }

    /// Another bucket than the first, unless there is only one.
    pub(super) fn second(&self, of: u32) -> u32 {
        let first = self.first(of);
        let mixed = Self::new(self.hash.wrapping_mul(SECOND_BUCKET_FACTOR)).first(of);
        match () {
            () if mixed != first => mixed,
            () if first + 1 < of => first + 1,
            () => 0,
        }
    }

    /// The key's buckets, the first one first. A table of one bucket (in a model) has no second.
    pub(super) fn buckets(&self, of: u32) -> impl Iterator<Item = u32> + use<> {
        let (first, second) = (self.first(of), self.second(of));
        [first].into_iter().chain((second != first).then_some(second))
    }
}

impl Order {
    /// The order of a key that prefers the slot of this index.
    #[inline(always)]
    pub(super) fn beginning_at(home: usize) -> Self {
        Self { preferred: home % BUCKET }
    }

    /// The slots of a bucket in this order.
    #[inline]
    pub(super) fn slots<S>(self, bucket: &[S; BUCKET]) -> impl Iterator<Item = &S> {
        (0..BUCKET).map(move |position| self.slot(bucket, position))
    }

    /// The slot of a bucket that is at this position.
    #[inline(always)]
    pub(super) fn slot<S>(self, bucket: &[S; BUCKET], position: usize) -> &S {
        &bucket[(position ^ self.preferred) % BUCKET]
    }

    /// The first slot of the cache line that the preferred slot is in.
    #[inline(always)]
    pub(super) fn first_of_line(self) -> usize {
        self.preferred & !(LINE - 1)
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
            let probe = Probe::new(hash);
            prop_assert!(probe.first(buckets) < buckets && probe.second(buckets) < buckets);
            prop_assert_ne!(probe.first(buckets), probe.second(buckets));
            prop_assert_eq!(probe.buckets(buckets).count(), 2);
            prop_assert!(probe.home(slots_of(buckets)) < buckets as usize * BUCKET);
            prop_assert_eq!(probe.home(slots_of(buckets)) / BUCKET, probe.first(buckets) as usize);
        }
    }

    #[test]
    fn the_probing_order_is_a_permutation_that_begins_with_the_preferred_line() {
        let bucket: [usize; BUCKET] = core::array::from_fn(|index| index);
        for preferred in 0..BUCKET {
            let order: Vec<usize> = Order { preferred }.slots(&bucket).copied().collect();
            assert_eq!(order[0], preferred);
            assert!(order[..4].iter().all(|slot| slot / 4 == preferred / 4));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..BUCKET).collect::<Vec<_>>());
        }
    }
}
