//! Ranking: which slot of a bucket an absent key takes.

use super::slot::Owner;
use super::{Slot, WideSlots};
use crate::algo::{Liveness, StateMachine};
use crate::cell::{Head, StateWord};
use crate::sync::{Fault, planted};
use crate::table::BUCKET;
use crate::table::probe::{LINE, Probe};
use crate::table::slot_kind::{BestSlots, Candidate, Ranking, SlotKind, SlotRef};

/// A slot that the key might take, as it was read.
#[derive(Clone, Copy)]
pub(in crate::table) struct WideCandidate<'a> {
    pub(super) slot: &'a Slot,
    pub(super) owner: Owner,
    pub(super) head: Head,
}

/// The rank of a live slot, the lowest: taking it would forget a key.
const LIVE: u64 = 0;
/// The rank of another key's claim, which is about to be committed: taken only if no slot is free.
const CLAIMED: u64 = 1;
/// The rank of an idle slot, plus the units that it has been idle.
const IDLE: u64 = 2;
/// The rank of a vacant slot, the highest.
const VACANT: u64 = u64::MAX;

impl<'a> WideCandidate<'a> {
    /// Reads both words, the head first. `None` if another thread was changing them.
    ///
    /// A head changes before its owner does, so an owner that does not fit the head read before it
    /// shows that the head has changed, and a swap of it will fail. (In the other order, the last
    /// owner beside a head just committed for the next key looks like a vacant slot.) If the
    /// owner is to be changed, and not the head, then the head must not have changed.
    #[inline(always)]
    fn of(slot: &'a Slot) -> Option<Self> {
        let head = slot.head.load();
        let owner = slot.owner();
        let candidate = Self { slot, owner, head };
        (!candidate.has_no_owner_yet() || slot.head.load() == head).then_some(candidate)
    }

    /// How good the slot is to take, and what would be forgotten with it. A claim is no better than
    /// `claim_rank`, and its debt has the bits of `claim_debt`.
    #[inline(always)]
    fn rank<M: StateMachine>(
        &self,
        machine: &M,
        instant: u64,
        (claim_rank, claim_debt): (u64, u64),
    ) -> (u64, u64) {
        let head = self.head;
        let (rank, debt) = match machine.liveness(head.state(), instant) {
            Liveness::Idle { units } => (units.saturating_add(IDLE).min(VACANT - 1), u64::MAX),
            Liveness::Live { debt } => (LIVE, debt),
        };
        let (rank, debt) = match head.is_provisional() {
            true => (rank.min(claim_rank), debt | claim_debt),
            false => (rank, debt),
        };
        if self.is_vacant() { (VACANT, u64::MAX) } else { (rank, debt) }
    }

    /// Whether the slot is no key's.
    #[inline(always)]
    fn is_vacant(&self) -> bool {
        !self.owner.is_a_key() || self.owner.generation() != self.head.generation()
    }

    /// Whether the slot is taken, and waits for its owner to be written.
    pub(super) fn has_no_owner_yet(&self) -> bool {
        self.head.is_provisional() && self.head.generation() != self.owner.generation()
    }
}

impl<'a> Candidate<'a, Head> for WideCandidate<'a> {
    fn seen(self) -> SlotRef<'a, Head> {
        SlotRef { cell: &self.slot.head, word: self.head }
    }

    fn is_claim(self) -> bool {
        self.head.is_provisional() && !self.has_no_owner_yet()
    }
}

/// Whether a slot with these words is the key's, committed or claimed.
fn is_of(probe: Probe, owner: Owner, head: Head) -> bool {
    owner.is(Owner::of(probe.hash())) && owner.generation() == head.generation()
}

impl WideSlots {
    /// The first vacant slot of the preferred cache line, if there is another vacant one in it: so many
    /// places mean that the second bucket is not looked at, and no slot ranks above a vacant one.
    ///
    /// A model's line is one slot, so models rank every slot: the protocol holds for any choice, and
    /// histories show a planted mistake sooner.
    #[inline]
    pub(super) fn first_of_two_vacant(&self, probe: Probe) -> Option<WideCandidate<'_>> {
        let bucket = self.slots.first_bucket(probe);
        let line = probe.order(self.slots.bucket_count()).slots(bucket).take(LINE);
        let mut vacant = line.filter_map(WideCandidate::of).filter(WideCandidate::is_vacant);
        let first = vacant.next()?;
        vacant.next().map(|_| first)
    }

    /// Ranks all slots of a bucket, as far as possible without a branch: what they hold cannot be
    /// predicted. The key's own slot is looked for only if nothing is free.
    #[inline]
    pub(super) fn rank_bucket<M: StateMachine>(
        &self,
        bucket: u32,
        machine: &M,
        ranking: &Ranking,
    ) -> BestSlots<WideCandidate<'_>> {
        let &Ranking { probe, instant, may_displace } = ranking;
        // A claim that may not be displaced is not to be taken at all.
        let claims = if may_displace { (CLAIMED, 0) } else { (LIVE, u64::MAX) };
        let (slots, order) = (self.slots.bucket(bucket), probe.order(self.slots.bucket_count()));
        let mut seen = [(Owner::NONE, Head::committed(0, 0)); BUCKET];
        let (mut reusable, mut best, mut free) = (0, LIVE, BUCKET);
        let (mut least, mut live) = (u64::MAX, BUCKET);
        for (index, slot) in order.slots(slots).enumerate() {
            let Some(candidate) = WideCandidate::of(slot) else { continue };
            seen[index] = (candidate.owner, candidate.head);
            let (rank, debt) = candidate.rank(machine, instant, claims);
            reusable += usize::from(rank >= IDLE);
            (best, free) = if rank > best { (rank, index) } else { (best, free) };
            (least, live) = if debt < least { (debt, index) } else { (least, live) };
        }
        let candidate = |index: usize| {
            let &(owner, head) = seen.get(index)?;
            Some(WideCandidate { slot: order.slot(slots, index), owner, head })
        };
        let is_own = |&(owner, head): &(Owner, Head)| is_of(probe, owner, head);
        let has_own = free == BUCKET && seen.iter().any(is_own);
        let has_claims = !may_displace && seen.iter().any(|(_, head)| head.is_provisional());
        let live = candidate(live).map(|live| (least, live));
        BestSlots { reusable, free: candidate(free), live, has_own, has_claims }
    }

    /// The live slot whose key owes least, where nothing is free and the heads alone do not tell:
    /// the candidates are read again, with their rings.
    ///
    /// A ring whose head advances while it is read may rank its slot wrongly. That slot then cannot
    /// be taken, and all others are still the live slots of other keys.
    ///
    /// A log's eviction takes 5,480 instructions by it instead of 3,280 where all 16 candidates hold
    /// one event, and 8,530 where they hold three. A claim of a free slot takes as many as without
    /// it.
    #[cold]
    #[inline(never)]
    pub(super) fn lightest<M: StateMachine>(
        &self,
        machine: &M,
        ranking: &Ranking,
    ) -> Option<WideCandidate<'_>> {
        let &Ranking { probe, instant, .. } = ranking;
        let (buckets, order) =
            (probe.buckets(self.slots.bucket_count()), probe.order(self.slots.bucket_count()));
        let slots = buckets.flat_map(|bucket| order.slots(self.slots.bucket(bucket)));
        let mut lightest: Option<(u64, WideCandidate<'_>)> = None;
        for candidate in slots.filter_map(WideCandidate::of) {
            let WideCandidate { slot, owner, head } = candidate;
            if is_of(probe, owner, head) && !planted(Fault::OwnSlotUnseen) {
                return None;
            }
            if head.is_provisional() || owner.generation() != head.generation() {
                continue;
            }
            let ring = self.ring::<M>(&slot.head).of(head);
            let owed = machine.owed(head.state(), ring, instant);
            if lightest.as_ref().is_none_or(|(least, _)| owed < *least) {
                lightest = Some((owed, candidate));
            }
        }
        lightest.map(|(_, candidate)| candidate)
    }
}
