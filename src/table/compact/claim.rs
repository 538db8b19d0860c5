//! The cold path: a key without a slot gets one, by the protocol in the [module](super).

use super::{Compact, SlotRef};
use crate::algo::{NoRing, Standing, StateMachine, Step};
use crate::cell::{Charge, Fingerprint, Ruling, Word, WordCell};
use crate::sync::{Fault, Ordering, fence, planted};
use crate::table::claim::Outcome;
use crate::table::layout::BUCKET;
use crate::table::{Event, Probe};
use crate::time::Tick;

/// What is asked of the table.
pub(super) struct Request<'a, A> {
    pub(super) probe: Probe,
    pub(super) algo: &'a A,
    pub(super) now: Tick,
    pub(super) n: u64,
    pub(super) evict: bool,
}

impl<A> Request<'_, A> {
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.probe.hash())
    }
}

/// What a survey finds of a key.
enum Scan<'a> {
    Absent,
    /// One claim, nothing committed.
    Claimed(SlotRef<'a>),
    /// Committed, and no claim beside it.
    Seated(SlotRef<'a>),
    /// A claim that must be given up: something better stands elsewhere. That is `kept`, if it
    /// is a claim.
    Surplus {
        seat: SlotRef<'a>,
        kept: Option<SlotRef<'a>>,
    },
}

/// Where a key may be put.
enum Place<'a> {
    /// Here, and what to count if it is taken.
    Take(SlotRef<'a>, Option<Event>),
    /// It has a slot, or a claim, by now.
    Its(SlotRef<'a>),
    /// Nowhere. The state nearest to idle is this one.
    Full { nearest: u64 },
}

/// What the candidate slots of one bucket offer, the best of each kind.
#[derive(Default)]
struct BestSlots<'a> {
    /// Slots that could be had without forgetting anything.
    reusable: usize,
    vacant: Option<SlotRef<'a>>,
    /// The one that has been idle longest, and for how long.
    idle: Option<(u64, SlotRef<'a>)>,
    /// Another key's claim.
    claimed: Option<SlotRef<'a>>,
    /// The one with the least debt.
    live: Option<(u64, SlotRef<'a>)>,
    /// The key's own.
    its: Option<SlotRef<'a>>,
}

impl Compact {
    #[cold]
    #[inline(never)]
    pub(super) fn decide_cold<A: StateMachine>(
        &self,
        request: &Request<'_, A>,
    ) -> Outcome<A::View> {
        let &Request { algo, now, n, .. } = request;
        // The lookup that found nothing stands for a first survey: whatever it missed, the
        // survey after the claim sees.
        let mut survey = Scan::Absent;
        let mut may_displace = true;
        loop {
            // A claim that this thread has written, or read, by now.
            let known = match survey {
                Scan::Surplus { seat, kept } => {
                    // Lost: its own thread committed it, or gave it up. The next survey tells.
                    let _ = seat.cell.swap(seat.word, Word::VACANT);
                    kept
                }
                Scan::Seated(SlotRef { cell, word }) => match cell.charge(word, algo, now, n) {
                    Charge::Decided(ruling) => return Outcome::Decided(ruling),
                    Charge::Moved => None,
                },
                Scan::Claimed(SlotRef { cell, word }) => {
                    match cell.commit(word, request.fingerprint(), algo, now, n) {
                        Charge::Decided(ruling) => return Outcome::Decided(ruling),
                        Charge::Moved => None,
                    }
                }
                Scan::Absent => match self.claim(request, &mut may_displace) {
                    Ok(known) => known,
                    Err(outcome) => return outcome,
                },
            };
            survey = self.survey(request.probe, known);
        }
    }

    /// The key's candidates, in probing order.
    fn candidates(&self, probe: Probe) -> impl Iterator<Item = &WordCell> {
        probe.buckets().flat_map(|bucket| self.lines.bucket(bucket))
    }

    /// Looks through all candidates for the key. `known` is a claim of it that this thread had
    /// written or read before.
    fn survey<'a>(&'a self, probe: Probe, mut known: Option<SlotRef<'a>>) -> Scan<'a> {
        let fingerprint = Fingerprint::of(probe.hash());
        loop {
            // SeqCst: orders the claim that this thread has written or seen before the loads of
            // all other candidates. See the argument in the module.
            if !planted(Fault::FenceLeftOut) {
                fence(Ordering::SeqCst);
            }
            let mut claimed: Option<SlotRef<'a>> = None;
            let mut seated: Option<SlotRef<'a>> = None;
            for cell in self.candidates(probe) {
                let word = cell.load();
                if !word.is_of(fingerprint) {
                    continue;
                }
                let seat = SlotRef { cell, word };
                match (word.is_provisional(), claimed) {
                    (true, Some(kept)) => return Scan::Surplus { seat, kept: Some(kept) },
                    (true, None) => claimed = Some(seat),
                    (false, _) => seated = seated.or(Some(seat)),
                }
                if planted(Fault::SurveySkipped) {
                    break;
                }
            }
            match (seated, claimed) {
                (Some(_), Some(seat)) => return Scan::Surplus { seat, kept: None },
                (Some(seat), None) => return Scan::Seated(seat),
                (None, None) => return Scan::Absent,
                (None, Some(claim)) => {
                    if known.is_some_and(|known| known.is(&claim)) || planted(Fault::ClaimJustSeen)
                    {
                        return Scan::Claimed(claim);
                    }
                    known = Some(claim);
                }
            }
        }
    }

    /// Step 1 for an absent key. `Ok` asks for a survey: the claim in it stands, or another
    /// thread was faster. `Err` is the answer: nothing to remember, or no slot to be had.
    fn claim<A: StateMachine>(
        &self,
        request: &Request<'_, A>,
        may_displace: &mut bool,
    ) -> Result<Option<SlotRef<'_>>, Outcome<A::View>> {
        let &Request { algo, now, n, .. } = request;
        let seen = algo.read(algo.fresh(now), NoRing, now, n);
        match algo.step(seen, now, n) {
            // A bucket that starts in debt has to be remembered, unless waiting is no use.
            Step::Deny if !algo.starts_in_debt() || algo.denied(seen, now, n).is_final() => {
                return Err(Outcome::Decided(Ruling::Denied(seen)));
            }
            Step::Admit { .. } if n == 0 => return Err(Outcome::Decided(Ruling::Admitted(seen))),
            _ => {}
        }
        let (SlotRef { cell, word }, event) = match self.choose(request, *may_displace) {
            Place::Take(seat, event) => (seat, event),
            Place::Its(seat) => return Ok(Some(seat)),
            Place::Full { nearest } => return Err(Outcome::Full { nearest }),
        };
        let nonce = if planted(Fault::NonceKept) { 0 } else { self.counters.nonce() };
        let claim = Word::provisional(request.fingerprint(), nonce);
        if cell.swap(word, claim).is_err() {
            return Ok(None);
        }
        *may_displace &= !word.is_provisional();
        if let Some(event) = event {
            self.counters.count(event);
        }
        self.counters.count(Event::Claimed);
        Ok(Some(SlotRef { cell, word: claim }))
    }

    /// Whether a key without a slot would get one without an eviction. `Err` holds the state nearest to
    /// idle.
    pub(in crate::table) fn has_place<A: StateMachine>(
        &self,
        probe: Probe,
        algo: &A,
        now: Tick,
    ) -> Result<(), u64> {
        match self.choose(&Request { probe, algo, now, n: 1, evict: false }, true) {
            Place::Full { nearest } => Err(nearest),
            Place::Take(..) | Place::Its(_) => Ok(()),
        }
    }

    /// Where to put an absent key.
    fn choose<A: StateMachine>(&self, request: &Request<'_, A>, may_displace: bool) -> Place<'_> {
        let &Request { probe, algo, now, evict, .. } = request;
        // The clock put back by the allowed skew: what was idle then is idle for all.
        let instant = algo.instant(now.saturating_sub(self.skew));
        let mut best = BestSlots::default();
        for bucket in probe.buckets() {
            best = best.or(self.offer(request, bucket, instant));
            if let Some(seat) = best.its {
                return Place::Its(seat);
            }
            // The first bucket while it has two places, so that a lookup seldom needs the second.
            if best.reusable >= 2 {
                break;
            }
        }
        let displaced = best.claimed.filter(|_| may_displace);
        let free = best.vacant.or(best.idle.map(|(_, seat)| seat)).or(displaced);
        match (free, best.live) {
            (Some(seat), _) => Place::Take(seat, None),
            (None, Some((_, seat))) if evict => Place::Take(seat, Some(Event::Evicted)),
            (None, Some((_, seat))) => Place::Full { nearest: seat.word.state() },
            // Nothing but claims, and one was displaced already.
            (None, None) => Place::Full { nearest: algo.fresh(now) },
        }
    }

    /// Vacant slots are taken in the bucket's order, so the first keys to arrive have the first slots. Of
    /// live slots with equal debts the one that the new key's hash prefers is offered instead: any key
    /// is then as likely to be forgotten as any other, whenever it came.
    fn offer<A: StateMachine>(
        &self,
        request: &Request<'_, A>,
        bucket: u32,
        instant: u64,
    ) -> BestSlots<'_> {
        let mut offer = BestSlots::default();
        let mut least = (u64::MAX, BUCKET);
        for (index, cell) in self.lines.bucket(bucket).iter().enumerate() {
            let word = cell.load();
            let seat = SlotRef { cell, word };
            if word.is_of(request.fingerprint()) {
                return BestSlots { its: Some(seat), ..offer };
            }
            if word.is_vacant() {
                offer.reusable += 1;
                offer.vacant = offer.vacant.or(Some(seat));
                continue;
            }
            if word.is_provisional() {
                offer.claimed = offer.claimed.or(Some(seat));
                continue;
            }
            match request.algo.standing(word.state(), instant) {
                Standing::Idle { units } => {
                    offer.reusable += 1;
                    if offer.idle.is_none_or(|(most, _)| units > most) {
                        offer.idle = Some((units, seat));
                    }
                }
                Standing::Live { debt } => {
                    let order = (debt, request.probe.turn(index));
                    if order < least {
                        least = order;
                        offer.live = Some((debt, seat));
                    }
                }
            }
        }
        offer
    }
}

impl BestSlots<'_> {
    /// The better of two buckets' offers, this one being of the bucket preferred.
    fn or(self, other: Self) -> Self {
        let other_is_better = other.reusable > self.reusable;
        let (best, rest) = if other_is_better { (other, self) } else { (self, other) };
        let live = match (best.live, rest.live) {
            (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
            (a, b) => a.or(b),
        };
        let claimed = best.claimed.or(rest.claimed);
        BestSlots { claimed, live, its: best.its.or(rest.its), ..best }
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;
