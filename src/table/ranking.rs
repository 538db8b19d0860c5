//! Ranking: which slot of a bucket an absent key takes.

use super::BUCKET;
use super::probe::{LINE, Probe};
use super::slot_kind::{Candidate, SlotKind};
use super::slot_table::SlotTable;
use crate::algo::{Liveness, StateMachine};

/// How good a slot is to take: the higher, the better.
///
/// ```text
/// 2^64 - 1          vacant
/// 2^63 + n          idle for n units
/// 2^63 - 1          another key's claim, which is about to be committed
/// 2^63 - 2 - debt   live: taking it would forget a key; at least 1
/// 0                 not to be taken at all
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u64);

impl Rank {
    pub(super) const VACANT: Self = Self(u64::MAX);
    const IDLE: Self = Self(1 << 63);
    pub(super) const CLAIMED: Self = Self(Self::IDLE.0 - 1);
    pub(super) const NONE: Self = Self(0);

    /// The rank of a key's slot.
    #[inline(always)]
    pub(super) fn of(liveness: Liveness) -> Self {
        let (amount, is_live) = match liveness {
            Liveness::Idle { units } => (units, false),
            Liveness::Live { debt } => (debt, true),
        };
        let amount = amount.min(Self::IDLE.0 - 3);
        // `IDLE + amount` or `IDLE - 2 - amount`, without a branch.
        let flip = u64::from(is_live).wrapping_neg();
        Self((amount ^ flip).wrapping_add(flip).wrapping_add(Self::IDLE.0))
    }

    /// Whether nothing is forgotten with the slot.
    #[inline(always)]
    pub(super) fn is_reusable(self) -> bool {
        self >= Self::IDLE
    }

    /// Whether the slot is taken before any live one.
    #[inline(always)]
    pub(super) fn is_free(self) -> bool {
        self >= Self::CLAIMED
    }
}

/// The data by which the slots of a bucket are ranked.
pub(super) struct Ranking {
    pub(super) probe: Probe,
    /// The request's time put back by the allowed skew: a key that was idle then is idle on every
    /// thread's clock.
    pub(super) instant: u64,
    /// The highest rank of another key's claim: [`CLAIMED`](Rank::CLAIMED), or [`NONE`](Rank::NONE) if it
    /// may not be displaced.
    pub(super) claims: Rank,
}

/// The best slot of one bucket for an absent key, or of two.
pub(super) struct BestSlot<'a, S> {
    /// Slots of the bucket that can be taken without forgetting anything.
    pub(super) reusable: usize,
    /// Slots that have the key's fingerprint.
    pub(super) alike: usize,
    pub(super) rank: Rank,
    /// The slot that had that rank, the first one in probing order. `None`: none may be taken.
    pub(super) slot: Option<&'a S>,
}

impl<S> BestSlot<'_, S> {
    pub(super) const NONE: Self = Self { reusable: 0, alike: 0, rank: Rank::NONE, slot: None };

    /// The better of two buckets' slots; `self` is of the bucket that comes first.
    #[inline]
    pub(super) fn or(self, other: Self) -> Self {
        let other_is_better = other.reusable > self.reusable;
        let (best, rest) = if other_is_better { (other, self) } else { (self, other) };
        let alike = best.alike + rest.alike;
        let keeps = best.rank.is_free() || best.rank >= rest.rank;
        if keeps { Self { alike, ..best } } else { Self { alike, ..rest } }
    }
}

impl<K: SlotKind> SlotTable<K> {
    /// The slots of a bucket in the key's probing order. `None`: another thread was changing the slot.
    #[inline(always)]
    pub(super) fn candidates(
        &self,
        bucket: u32,
        probe: Probe,
    ) -> impl Iterator<Item = Option<K::Candidate<'_>>> {
        let order = probe.order(self.slots.bucket_count());
        order.slots(self.slots.bucket(bucket)).map(K::candidate)
    }

    /// The first vacant slot of the preferred line (or half of one), if that has two. With two vacant slots the
    /// second bucket is not scanned, and no slot ranks above a vacant one.
    ///
    /// A model's line is one slot, so models rank every slot: the protocol holds for any choice, and
    /// histories show a planted fault sooner.
    #[inline(always)]
    pub(super) fn first_of_two_vacant(&self, probe: Probe) -> Option<K::Candidate<'_>> {
        let near = self.candidates(probe.first(self.slots.bucket_count()), probe).take(LINE);
        let mut vacant = near.flatten().filter(|candidate| candidate.is_vacant());
        let first = vacant.next()?;
        vacant.next().map(|_| first)
    }

    /// Ranks all slots of a bucket, as far as possible without a branch: no branch predictor knows their content.
    ///
    /// Of equal slots, the first in probing order is the best. So keys have the slots they prefer, and of
    /// keys with equal debts any is as likely to be forgotten as any other, whenever it arrived.
    #[inline(never)]
    pub(super) fn rank<M: StateMachine>(
        &self,
        bucket: u32,
        machine: &M,
        ranking: &Ranking,
    ) -> BestSlot<'_, K::Slot> {
        let &Ranking { probe, instant, claims } = ranking;
        let (order, bucket) = (probe.order(self.slots.bucket_count()), self.slots.bucket(bucket));
        let (mut reusable, mut alike) = (0, 0);
        let (mut best, mut best_place) = (Rank::NONE, 0);
        for place in 0..BUCKET {
            let Some(candidate) = K::candidate(order.slot(bucket, place)) else { continue };
            let rank = candidate.rank(machine, instant, claims);
            reusable += usize::from(rank.is_reusable());
            alike += usize::from(candidate.is_alike(probe));
            (best, best_place) = if rank > best { (rank, place) } else { (best, best_place) };
        }
        let slot = (best > Rank::NONE).then(|| order.slot(bucket, best_place));
        BestSlot { reusable, alike, rank: best, slot }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_vacant_slot_ranks_above_idle_ones_and_those_above_claims_and_those_above_live_ones(
            units in 0..1_u64 << 63, debt: u64,
        ) {
            let idle = Rank::of(Liveness::Idle { units });
            let live = Rank::of(Liveness::Live { debt });
            prop_assert!(Rank::VACANT > idle && idle > Rank::CLAIMED);
            prop_assert!(Rank::CLAIMED > live && live > Rank::NONE);
            prop_assert!(idle.is_reusable() && idle.is_free() && Rank::CLAIMED.is_free());
            prop_assert!(!Rank::CLAIMED.is_reusable() && !live.is_free());
        }

        #[test]
        fn the_longer_idle_or_the_less_in_debt_the_higher(less in 0..1_u64 << 62, more in 1..1_u64 << 62) {
            let idle = |units| Rank::of(Liveness::Idle { units });
            let live = |debt| Rank::of(Liveness::Live { debt });
            prop_assert!(idle(less + more) > idle(less));
            prop_assert!(live(less + more) < live(less));
        }
    }
}
