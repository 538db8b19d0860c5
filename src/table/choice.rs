//! The choice of a slot for an absent key: its first vacant slot, else the slot that has been idle longest, else
//! another key's.

use super::probe::Probe;
use super::ranking::{BestSlot, Rank, Ranking};
use super::request::{Full, KeyRequest};
use super::slot_kind::{Candidate, SlotKind};
use super::slot_table::SlotTable;
use crate::algo::StateMachine;
use crate::cell::{Request, StateWord};
use crate::sync::{Fault, planted};
use crate::time::Tick;

/// Where an absent key can be put.
pub(super) enum Choice<C> {
    /// In this slot. The flag says whether that evicts a live key.
    Take(C, bool),
    /// Scan again: the key has a slot, or a claim, by now, or other threads were changing the
    /// candidates.
    Rescan,
    Full(Full),
}

impl<K: SlotKind> SlotTable<K> {
    /// Whether a key without a slot would get one without an eviction.
    pub(super) fn has_place<M: StateMachine>(
        &self,
        probe: Probe,
        machine: &M,
        now: Tick,
    ) -> Result<(), Full> {
        let request = Request { now, cells: 1 };
        match self.choose(&KeyRequest { probe, machine, request }, true, false) {
            Choice::Full(full) => Err(full),
            Choice::Take(..) | Choice::Rescan => Ok(()),
        }
    }

    /// Chooses a slot for an absent key.
    pub(super) fn choose<M: StateMachine>(
        &self,
        asked: &KeyRequest<'_, M>,
        may_displace: bool,
        may_evict: bool,
    ) -> Choice<K::Candidate<'_>> {
        let &KeyRequest { probe, machine, request: Request { now, .. } } = asked;
        if let Some(candidate) = self.first_of_two_vacant(probe) {
            return Choice::Take(candidate, false);
        }
        let instant = machine.instant(now.saturating_sub(self.take_over.skew));
        let claims = if may_displace { Rank::CLAIMED } else { Rank::NONE };
        let ranking = Ranking { probe, instant, claims };
        let mut buckets = probe.buckets(self.slots.bucket_count());
        let mut best = BestSlot::NONE;
        // Two-choice hashing, with a preference: the first bucket while it has two places, so that a
        // lookup seldom needs the second.
        while best.reusable < 2
            && let Some(bucket) = buckets.next()
        {
            best = best.or(self.rank(bucket, machine, &ranking));
        }
        // A live slot with the key's fingerprint may be the key's own, which it must not evict.
        let is_unseen = planted(Fault::OwnSlotUnseen);
        match best.slot {
            Some(slot) if best.rank.is_reusable() || best.alike == 0 || is_unseen => {
                let seen = K::candidate(slot).filter(|seen| {
                    let may_be_own = !best.rank.is_reusable() && !is_unseen && seen.is_alike(probe);
                    !may_be_own && seen.rank(machine, instant, claims) == best.rank
                });
                match seen {
                    Some(free) if best.rank.is_free() => Choice::Take(free, false),
                    Some(least) => self.choose_live(machine, &ranking, least, may_evict),
                    // Another thread has changed the slot meanwhile.
                    None => Choice::Rescan,
                }
            }
            _ => self.choose_with_care(asked, &ranking, may_evict),
        }
    }

    /// Chooses where all slots are live keys': `least` has the least debt.
    #[inline(always)]
    fn choose_live<'a, M: StateMachine>(
        &'a self,
        machine: &M,
        ranking: &Ranking,
        least: K::Candidate<'a>,
        may_evict: bool,
    ) -> Choice<K::Candidate<'a>> {
        if !may_evict {
            let nearest_idle = match M::DEBT_IS_TIME {
                true => least.seen().word.state(),
                false => self.nearest_idle(machine, ranking, least),
            };
            return Choice::Full(Full { nearest_idle });
        }
        match self.slots.victim(machine, ranking, least) {
            Some(candidate) => Choice::Take(candidate, true),
            None => Choice::Rescan,
        }
    }

    /// The live state that is idle first, where that need not be `least`, the one with the least debt.
    #[cold]
    #[inline(never)]
    fn nearest_idle<'a, M: StateMachine>(
        &'a self,
        machine: &M,
        ranking: &Ranking,
        least: K::Candidate<'a>,
    ) -> u64 {
        let &Ranking { probe, instant, .. } = ranking;
        let buckets = probe.buckets(self.slots.bucket_count());
        let seen = buckets.flat_map(|bucket| self.candidates(bucket, probe)).flatten();
        let live = seen.map(|seen| seen.seen().word).filter(|word| !word.is_provisional());
        let first = live.map(StateWord::state).min_by_key(|state| machine.idle_in(*state, instant));
        first.unwrap_or(least.seen().word.state())
    }

    /// Chooses where no slot was vacant or idle, and one may be the key's own, or none may be taken.
    ///
    /// It reads each slot once more, in a single pass. Two passes, one for the least debt and then one for the key's
    /// own slot, could both miss a slot of the key that is reset between them: the first pass would take it for
    /// another key's live slot, and the second one would not find it. The key would then be denied for lack of a place.
    #[cold]
    #[inline(never)]
    fn choose_with_care<M: StateMachine>(
        &self,
        asked: &KeyRequest<'_, M>,
        ranking: &Ranking,
        may_evict: bool,
    ) -> Choice<K::Candidate<'_>> {
        let &KeyRequest { probe, machine, request: Request { now, .. } } = asked;
        let (mut highest, mut best, mut has_claims) = (Rank::NONE, None, false);
        let buckets = probe.buckets(self.slots.bucket_count());
        for seen in buckets.flat_map(|bucket| self.candidates(bucket, probe)).flatten() {
            // The key has got a slot, or a claim, after its lookup.
            if seen.is_of(probe) && !planted(Fault::OwnSlotUnseen) {
                return Choice::Rescan;
            }
            has_claims |= seen.seen().word.is_provisional();
            let rank = seen.rank(machine, ranking.instant, ranking.claims);
            if rank > highest {
                (highest, best) = (rank, Some(seen));
            }
        }
        match best {
            Some(free) if highest.is_free() => Choice::Take(free, false),
            Some(least) => self.choose_live(machine, ranking, least, may_evict),
            // Nothing but claims, and this request has displaced one already.
            None if has_claims => Choice::Full(Full { nearest_idle: machine.fresh(now) }),
            None => Choice::Rescan,
        }
    }
}
