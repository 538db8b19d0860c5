//! The cold path: a key without a slot gets one, by the protocol in the [module](super).

use super::layout::{BUCKET, Owner, Slot};
use super::probe::{Probe, SlotRef};
use super::{Event, Wide, given_up};
use crate::algo::{NoRing, Standing, StateMachine, Step};
use crate::cell::{Charge, Head, Ruling};
use crate::sync::{Fault, Ordering, fence, planted};
use crate::time::Tick;

/// What the table says of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome<S> {
    Decided(Ruling<S>),
    /// All candidates hold live keys of others; the state nearest to idle is this one.
    Full {
        nearest: u64,
    },
}

/// What a survey finds of a key.
enum Scan<'a> {
    Absent,
    /// One claim, nothing committed.
    Claimed(SlotRef<'a>),
    /// Committed, and no claim beside it.
    Seated(SlotRef<'a>),
    /// A claim that must be given up, for something better elsewhere: what is kept, if that is a
    /// claim.
    Surplus(SlotRef<'a>, Option<SlotRef<'a>>),
}

/// A slot that the key might take, as it was seen.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    slot: &'a Slot,
    owner: Owner,
    head: Head,
}

impl<'a> Candidate<'a> {
    /// Reads both words, the head first. `None` if they were being changed.
    ///
    /// A head changes before its owner does, so an owner that does not fit the head read before
    /// it shows that the head has changed, and a CAS on it will fail. (The other way round, the
    /// last owner beside a head just committed for the next looks like a vacant slot.) Where
    /// the owner is to be changed, and not the head, the head must not have moved on.
    #[inline(always)]
    fn of(slot: &'a Slot) -> Option<Self> {
        let head = slot.head.load();
        let owner = slot.owner();
        let candidate = Self { slot, owner, head };
        (!candidate.is_nobodys() || slot.head.load() == head).then_some(candidate)
    }

    /// How good the slot is to have, and what would be forgotten. A claim that may not be displaced is
    /// not to be had at all.
    #[inline(always)]
    fn rank<A: StateMachine>(&self, algo: &A, instant: u64, may_displace: bool) -> (u64, u64) {
        let Self { owner, head, .. } = *self;
        let is_vacant = !owner.belongs() || owner.generation() != head.generation();
        let (rank, debt) = match algo.standing(head.payload(), instant) {
            Standing::Idle { units } => (units.saturating_add(IDLE).min(VACANT - 1), u64::MAX),
            Standing::Live { debt } => (LIVE, debt),
        };
        let (rank, debt) = match head.is_provisional() {
            true if may_displace => (rank.min(CLAIMED), debt),
            true => (LIVE, u64::MAX),
            false => (rank, debt),
        };
        if is_vacant { (VACANT, u64::MAX) } else { (rank, debt) }
    }

    /// Whether it is this key's, committed or claimed.
    fn is_of(&self, probe: &Probe) -> bool {
        is_of(probe, self.owner, self.head)
    }

    /// Whether it is another's, that has charged nothing yet.
    fn is_claimed(&self) -> bool {
        self.head.is_provisional() && !self.is_nobodys()
    }

    /// Whether the slot is taken, and waits for an owner to be written.
    fn is_nobodys(&self) -> bool {
        self.head.is_provisional() && self.head.generation() != self.owner.generation()
    }
}

/// What the candidate slots of one bucket offer, the best of each kind.
struct BestSlots<'a> {
    /// Slots that could be had without forgetting anything.
    reusable: usize,
    /// The best of those: a vacant one, or the one that has been idle longest; else another key's
    /// claim.
    free: Option<Candidate<'a>>,
    /// The one with the least debt, and that.
    live: Option<(u64, Candidate<'a>)>,
    /// Whether nothing is free, and one is the key's: it got it since it was looked for.
    has_its_own: bool,
    /// Whether there are claims that may not be displaced.
    has_claims: bool,
}

/// How good a slot is to have: not at all, if that forgets something.
const LIVE: u64 = 0;
/// Another key's claim, about to be committed: taken only if nothing else is.
const CLAIMED: u64 = 1;
/// Idle, for so many units more.
const IDLE: u64 = 2;
/// Nobody's.
const VACANT: u64 = u64::MAX;

impl Wide {
    /// Decides about a key that has no committed slot where it was looked for, and tells where it
    /// was charged.
    #[cold]
    #[inline(never)]
    pub(crate) fn decide_cold<'a, A: StateMachine>(
        &'a self,
        probe: &Probe,
        found: Option<SlotRef<'a>>,
        algo: &A,
        now: Tick,
        n: u64,
        evict: bool,
    ) -> (Outcome<A::View>, Option<SlotRef<'a>>) {
        // The lookup that found nothing stands for a first survey: whatever it missed, the
        // survey after the claim sees.
        let mut survey = if found.is_none() { Scan::Absent } else { self.survey(probe, found) };
        let mut may_displace = true;
        loop {
            // A claim that this thread has written, or read, by now.
            let known = match survey {
                Scan::Surplus(seat, kept) => {
                    // Lost: its own thread committed it, or gave it up. The next survey tells.
                    let _ = seat.slot.head.swap(seat.head, given_up(seat.head));
                    kept
                }
                Scan::Seated(seat @ SlotRef { slot, head }) => {
                    let cells = self.cells::<A>(slot);
                    if let Charge::Decided(ruling) = slot.head.charge(head, cells, algo, now, n) {
                        return (Outcome::Decided(ruling), Some(seat));
                    }
                    None
                }
                Scan::Claimed(seat @ SlotRef { slot, head }) => {
                    let cells = self.cells::<A>(slot);
                    let charge = slot.head.commit(head, cells, head.payload(), algo, now, n);
                    if let Charge::Decided(ruling) = charge {
                        return (Outcome::Decided(ruling), Some(seat));
                    }
                    None
                }
                Scan::Absent => match self.claim(probe, algo, now, n, evict, &mut may_displace) {
                    Ok(known) => known,
                    Err(outcome) => return (outcome, None),
                },
            };
            survey = self.survey(probe, known);
        }
    }

    /// Looks through all candidates for the key. `known` is a claim of it that this thread had
    /// written or read before; one that it sees now for the first time is surveyed for again.
    fn survey<'a>(&'a self, probe: &Probe, mut known: Option<SlotRef<'a>>) -> Scan<'a> {
        loop {
            match self.survey_once(probe) {
                Scan::Claimed(claim)
                    if known.is_none_or(|known| !known.is(&claim))
                        && !planted(Fault::ClaimJustSeen)
                        && !planted(Fault::SurveySkipped) =>
                {
                    known = Some(claim);
                }
                survey => return survey,
            }
        }
    }

    fn survey_once(&self, probe: &Probe) -> Scan<'_> {
        // SeqCst: orders the claim that this thread has written or seen (a slot's `owner`)
        // before the loads of all other candidates' `owner`. See the argument in the module.
        if !planted(Fault::FenceLeftOut) {
            fence(Ordering::SeqCst);
        }
        let mut claimed: Option<SlotRef<'_>> = None;
        let mut seated: Option<SlotRef<'_>> = None;
        for seat in self.bearers(*probe).filter_map(|slot| probe.seat(slot)) {
            if planted(Fault::SurveySkipped) {
                return if seat.head.is_provisional() {
                    Scan::Claimed(seat)
                } else {
                    Scan::Seated(seat)
                };
            }
            match (seat.head.is_provisional(), claimed) {
                (true, Some(kept)) => return Scan::Surplus(seat, Some(kept)),
                (true, None) => claimed = Some(seat),
                (false, _) => seated = seated.or(Some(seat)),
            }
        }
        match (seated, claimed) {
            (Some(_), Some(claim)) => Scan::Surplus(claim, None),
            (Some(seat), None) => Scan::Seated(seat),
            (None, Some(claim)) => Scan::Claimed(claim),
            (None, None) => Scan::Absent,
        }
    }

    /// Steps 1 and 2 for an absent key. `Ok` asks for a survey: the claim in it stands, or another
    /// thread was faster. `Err` is the answer: nothing to remember, or no slot to be had.
    fn claim<A: StateMachine>(
        &self,
        probe: &Probe,
        algo: &A,
        now: Tick,
        n: u64,
        evict: bool,
        may_displace: &mut bool,
    ) -> Result<Option<SlotRef<'_>>, Outcome<A::View>> {
        let fresh = algo.fresh(now);
        let seen = algo.read(fresh, NoRing, now, n);
        match algo.step(seen, now, n) {
            // A bucket that starts in debt has to be remembered, unless waiting is no use.
            Step::Deny if !algo.starts_in_debt() || algo.denied(seen, now, n).is_final() => {
                return Err(Outcome::Decided(Ruling::Denied(seen)));
            }
            Step::Admit { .. } if n == 0 => return Err(Outcome::Decided(Ruling::Admitted(seen))),
            _ => {}
        }
        let chosen = self.choose(probe, algo, now, evict, *may_displace);
        let Some((candidate, event)) = chosen.map_err(|nearest| Outcome::Full { nearest })? else {
            return Ok(None);
        };
        let Candidate { slot, owner, head } = candidate;
        let taken = if candidate.is_nobodys() {
            head
        } else {
            let taken = Head::provisional(claimed_generation(head), fresh);
            if slot.head.swap(head, taken).is_err() {
                return Ok(None);
            }
            *may_displace &= !candidate.is_claimed() || planted(Fault::DisplacesAgain);
            if let Some(event) = event {
                self.counters.count(event);
            }
            taken
        };
        if !slot.hand_over(owner, probe.owner(taken.generation())) {
            return Ok(None);
        }
        self.counters.count(Event::Claimed);
        Ok(Some(SlotRef { slot, head: taken }))
    }

    /// Whether a key without a slot would get one without an eviction. `Err` holds the state nearest to
    /// idle.
    pub(super) fn has_place<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
    ) -> Result<(), u64> {
        self.choose(&probe, algo, now, false, true).map(drop)
    }

    /// The slot to take, and what to count if it is taken; `None` if every candidate was being
    /// changed just then; `Err` with the state nearest to idle, if none may be taken.
    fn choose<A: StateMachine>(
        &self,
        probe: &Probe,
        algo: &A,
        now: Tick,
        evict: bool,
        may_displace: bool,
    ) -> Result<Option<(Candidate<'_>, Option<Event>)>, u64> {
        let instant = algo.instant(self.beyond_skew(now));
        let offer = |bucket| self.offer(probe, bucket, algo, instant, may_displace);
        let mut buckets = probe.buckets().map(offer);
        let Some(mut best) = buckets.next() else { return Ok(None) };
        // The first bucket while it has two places, so that a lookup seldom needs the second.
        if best.reusable < 2
            && let Some(second) = buckets.next()
        {
            best = best.or(second);
        }
        if let Some(candidate) = best.free {
            return Ok(Some((candidate, None)));
        }
        match best.live {
            // Nothing but claims, and one was displaced already.
            None if best.has_claims && !best.has_its_own => Err(algo.fresh(now)),
            None => Ok(None),
            Some(_) if best.has_its_own && !planted(Fault::OwnSlotUnseen) => Ok(None),
            Some(_) if evict && A::OWED_BY_RING => Ok(self.lightest(probe, algo, instant)),
            Some((_, candidate)) if evict => Ok(Some((candidate, Some(Event::Evicted)))),
            Some((_, candidate)) => Err(candidate.head.payload()),
        }
    }

    /// As [`choose`](Self::choose), where nothing is free and the heads alone do not tell which key
    /// owes least: the candidates are looked at again, with their rings.
    ///
    /// A ring whose head moves on while it is read may rank its slot wrongly. That slot then cannot
    /// be taken, and all others are still the live slots of other keys.
    ///
    /// A log's eviction takes 5,480 instructions by it instead of 3,280 where all 16 candidates hold one
    /// event, and 8,530 where they hold three. A claim of a free slot takes as many as without it.
    #[cold]
    #[inline(never)]
    fn lightest<A: StateMachine>(
        &self,
        probe: &Probe,
        algo: &A,
        instant: u64,
    ) -> Option<(Candidate<'_>, Option<Event>)> {
        let slots = probe.buckets().flat_map(|bucket| probe.order(self.slots.bucket(bucket)));
        let mut lightest: Option<(u64, Candidate<'_>)> = None;
        for candidate in slots.filter_map(Candidate::of) {
            let Candidate { slot, owner, head } = candidate;
            if candidate.is_of(probe) && !planted(Fault::OwnSlotUnseen) {
                return None;
            }
            if head.is_provisional() || owner.generation() != head.generation() {
                continue;
            }
            let owed = algo.owed(head.payload(), self.cells::<A>(slot).of(head), instant);
            if lightest.as_ref().is_none_or(|(least, _)| owed < *least) {
                lightest = Some((owed, candidate));
            }
        }
        lightest.map(|(_, candidate)| (candidate, Some(Event::Evicted)))
    }

    /// Looks at all slots of a bucket, as far as can be without a branch: what they hold cannot be
    /// predicted.
    fn offer<A: StateMachine>(
        &self,
        probe: &Probe,
        bucket: u32,
        algo: &A,
        instant: u64,
        may_displace: bool,
    ) -> BestSlots<'_> {
        let slots = self.slots.bucket(bucket);
        let mut seen = [(Owner::NOBODY, Head::committed(0, 0)); BUCKET];
        let (mut reusable, mut best, mut free) = (0, LIVE, BUCKET);
        let (mut least, mut live) = (u64::MAX, BUCKET);
        for (index, slot) in probe.order(slots).enumerate() {
            let Some(candidate) = Candidate::of(slot) else { continue };
            seen[index] = (candidate.owner, candidate.head);
            let (rank, debt) = candidate.rank(algo, instant, may_displace);
            reusable += usize::from(rank >= IDLE);
            (best, free) = if rank > best { (rank, index) } else { (best, free) };
            (least, live) = if debt < least { (debt, index) } else { (least, live) };
        }
        let candidate = |index: usize| {
            let &(owner, head) = seen.get(index)?;
            Some(Candidate { slot: probe.in_order(slots, index), owner, head })
        };
        let is_its_own = |&(owner, head): &(Owner, Head)| is_of(probe, owner, head);
        let has_its_own = free == BUCKET && seen.iter().any(is_its_own);
        let has_claims = !may_displace && seen.iter().any(|(_, head)| head.is_provisional());
        let live = candidate(live).map(|live| (least, live));
        BestSlots { reusable, free: candidate(free), live, has_its_own, has_claims }
    }
}

/// Whether a slot with these words is this key's, committed or claimed.
fn is_of(probe: &Probe, owner: Owner, head: Head) -> bool {
    owner == probe.owner(owner.generation()) && owner.generation() == head.generation()
}

/// The generation under which a slot is claimed.
fn claimed_generation(head: Head) -> u64 {
    if planted(Fault::GenerationKept) { head.generation() } else { head.next_generation() }
}

impl<'a> BestSlots<'a> {
    /// The better of two buckets' offers, this one being of the bucket preferred.
    fn or(self, other: Self) -> Self {
        let other_is_better = other.reusable > self.reusable;
        let (best, rest) = if other_is_better { (other, self) } else { (self, other) };
        let live = match (best.live, rest.live) {
            (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
            (a, b) => a.or(b),
        };
        let has_its_own = best.has_its_own || rest.has_its_own;
        let has_claims = best.has_claims || rest.has_claims;
        BestSlots { free: best.free.or(rest.free), live, has_its_own, has_claims, ..best }
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;
