//! A state in one word.

use super::ring::Cells;
use crate::algo::{NoRing, PAYLOAD_BITS, StateMachine, Step};
use crate::decision::{Decision, OutOfLine, Permit};
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::time::Tick;
use crate::word::Field;

/// Bits of a generation, here and in a slot's owner.
pub(crate) const GENERATION_BITS: u32 = 10;
const PAYLOAD: Field = Field::new(0, PAYLOAD_BITS);
const PROVISIONAL: Field = PAYLOAD.above(1);
const GENERATION: Field = PROVISIONAL.above(GENERATION_BITS);
/// Generation and provisional bit together.
const STANDING: Field = PAYLOAD.above(1 + GENERATION_BITS);

/// A state word.
///
/// ```text
/// bits 63..54 generation | bit 53 provisional | bits 52..0 payload, the algorithm's state
/// ```
///
/// Zero is generation 0 with the state 0. Generations wrap from 1023 to 0. *Provisional* means
/// that no decision has been charged here yet; the payload is then a fresh state, stamped with
/// the time of the claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head(u64);

impl Head {
    pub(crate) const GENERATION_MAX: u64 = GENERATION.max();

    #[inline]
    pub(crate) const fn committed(generation: u64, payload: u64) -> Self {
        Self(GENERATION.set(PAYLOAD.of(payload), generation))
    }

    pub(crate) const fn provisional(generation: u64, payload: u64) -> Self {
        Self(PROVISIONAL.set(Self::committed(generation, payload).0, 1))
    }

    #[inline]
    pub(crate) const fn generation(self) -> u64 {
        GENERATION.of(self.0)
    }

    #[inline]
    pub(crate) const fn next_generation(self) -> u64 {
        (self.generation() + 1) & GENERATION.max()
    }

    #[inline]
    pub(crate) const fn is_provisional(self) -> bool {
        PROVISIONAL.of(self.0) == 1
    }

    /// Whether the generation is this one and the word is not provisional.
    #[inline(always)]
    pub(crate) const fn is_committed_in(self, generation: u64) -> bool {
        STANDING.of(self.0) == generation << 1
    }

    #[inline]
    pub(crate) const fn payload(self) -> u64 {
        PAYLOAD.of(self.0)
    }

    /// This committed word with another payload, which has no bits above its field.
    #[inline(always)]
    const fn with_payload(self, payload: u64) -> Self {
        debug_assert!(payload <= PAYLOAD.max());
        Self(self.0 ^ self.payload() ^ payload)
    }
}

impl core::fmt::Debug for Head {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Head")
            .field("generation", &self.generation())
            .field("provisional", &self.is_provisional())
            .field("payload", &self.payload())
            .finish()
    }
}

/// Admitted or denied, with what it was judged by.
///
/// Two registers where that is one word. The 64 bytes of a [`Decision`] are made from it where
/// they are asked for, in the caller's own frame: returned through memory they cost more than
/// deciding.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ruling<S> {
    Admitted(S),
    Denied(S),
}

impl<S> Ruling<S> {
    #[inline(always)]
    pub(crate) fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted(_))
    }

    /// All that there is to tell of it.
    #[inline(always)]
    pub(crate) fn explain<A: StateMachine<View = S>>(
        self,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Decision {
        match self {
            Self::Admitted(seen) => Ok(algo.permit(seen, now, n)),
            Self::Denied(seen) => Err(algo.denied(seen, now, n)),
        }
    }
}

/// What became of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Charge<S> {
    Decided(Ruling<S>),
    /// The word has another generation now: it belongs to somebody else.
    Moved,
}

/// Pauses between two tries, at most: on processors where one takes 140 cycles, a third of a
/// microsecond. Longer ones gain nothing, and the time that the decision is made by gets old.
const PAUSES_MAX: u32 = 8;

/// What a thread does that has lost a race, before it tries again.
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) const FIRST: Self = Self(1);

    /// Pauses, and twice as long the next time. A model's threads need no pause, and loom would
    /// take it for waiting.
    pub(super) fn pause(&mut self) {
        if cfg!(not(tollgate_loom)) {
            (0..self.0).for_each(|_| core::hint::spin_loop());
        }
        self.0 = (2 * self.0).min(PAUSES_MAX);
    }
}

/// A [`Head`] that several threads change.
pub(crate) struct HeadCell(AtomicU64);

impl HeadCell {
    pub(crate) fn new(head: Head) -> Self {
        Self(AtomicU64::new(head.0))
    }

    #[inline]
    pub(crate) fn load(&self) -> Head {
        Head(self.0.load(Ordering::Acquire))
    }

    /// Replaces `seen` by `next`; `Err` holds what stands there instead.
    #[inline]
    pub(crate) fn swap(&self, seen: Head, next: Head) -> Result<(), Head> {
        match self.0.compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(actual) => Err(Head(actual)),
        }
    }

    /// Decides about `n` cells on a committed word, as last seen, and its ring.
    ///
    /// A denial, and a charge of nothing, write nothing. Lock-free, not wait-free: a lost race
    /// means that another thread's charge went through.
    #[inline(always)]
    pub(crate) fn charge<A: StateMachine>(
        &self,
        seen: Head,
        cells: Cells<'_>,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Charge<A::View> {
        match self.try_charge(seen, cells, algo, now, n, true) {
            Ok(ruling) => Charge::Decided(ruling),
            Err(actual) => {
                let OutOfLine(charge) =
                    self.charge_again(seen.generation(), actual, cells, algo, now, n);
                charge
            }
        }
    }

    /// The same with all that there is to tell of it, worked out apart for each of the ways to
    /// get there: what was judged by then stays in registers. `None` is [`Charge::Moved`].
    #[inline(always)]
    pub(crate) fn decide<A: StateMachine>(
        &self,
        seen: Head,
        cells: Cells<'_>,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<Decision> {
        match self.try_charge(seen, cells, algo, now, n, true) {
            Ok(ruling) => Some(ruling.explain(algo, now, n)),
            Err(actual) => {
                let OutOfLine(charge) =
                    self.charge_again(seen.generation(), actual, cells, algo, now, n);
                match charge {
                    Charge::Decided(ruling) => Some(ruling.explain(algo, now, n)),
                    Charge::Moved => None,
                }
            }
        }
    }

    /// One try; `Err` holds the head that another thread has put there. Where nothing is to be told
    /// of it but yes or no, no more is read.
    #[inline(always)]
    fn try_charge<A: StateMachine>(
        &self,
        head: Head,
        cells: Cells<'_>,
        algo: &A,
        now: Tick,
        n: u64,
        telling: bool,
    ) -> Result<Ruling<A::View>, Head> {
        debug_assert!(!head.is_provisional());
        let n = if planted(Fault::CellsWrap) { n & u64::from(u32::MAX) } else { n };
        let ring = cells.of_generation(head.generation());
        let seen = match telling {
            true => algo.read(head.payload(), ring, now, n),
            false => algo.read_brief(head.payload(), ring, now, n),
        };
        let (next, ruling) = match algo.step(seen, now, n) {
            Step::Admit { next } => (next, Ruling::Admitted(seen)),
            Step::DenyCounted { next } => (next, Ruling::Denied(seen)),
            Step::Deny => (head.payload(), Ruling::Denied(seen)),
        };
        self.move_on(head, cells, algo, seen, next, telling.then_some(n))?;
        Ok(ruling)
    }

    /// As [`charge`](Self::charge), where nobody asks for more than yes or no; `None` is
    /// [`Charge::Moved`].
    #[inline(always)]
    pub(crate) fn allow<A: StateMachine>(
        &self,
        head: Head,
        cells: Cells<'_>,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<bool> {
        match self.try_charge(head, cells, algo, now, n, false) {
            Ok(ruling) => Some(ruling.is_admitted()),
            Err(actual) => {
                let OutOfLine(charge) =
                    self.charge_again(head.generation(), actual, cells, algo, now, n);
                match charge {
                    Charge::Decided(ruling) => Some(ruling.is_admitted()),
                    Charge::Moved => None,
                }
            }
        }
    }

    /// Admits `n` cells if a first try does, and leaves all else to be decided anew: `None` wrote
    /// nothing that counts.
    #[inline(always)]
    pub(crate) fn admit<A: StateMachine>(
        &self,
        head: Head,
        cells: Cells<'_>,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<Permit> {
        let seen = algo.read(head.payload(), cells.of_generation(head.generation()), now, n);
        let Step::Admit { next } = algo.step(seen, now, n) else { return None };
        self.move_on(head, cells, algo, seen, next, Some(n)).ok()?;
        Some(algo.permit(seen, now, n))
    }

    /// Charges more than `n` cells of a committed word, as last seen, that has no ring: up to `most`,
    /// as far as that is a quarter of those that are left; just `n` only if `or_just_n`. Returns how
    /// many, and the state that the charge left; `None` wrote nothing.
    pub(crate) fn charge_ahead<A: StateMachine>(
        &self,
        mut head: Head,
        algo: &A,
        now: Tick,
        n: u64,
        most: u64,
        or_just_n: bool,
    ) -> Option<(u64, u64)> {
        debug_assert!(!A::RINGED && n > 0);
        let generation = head.generation();
        let mut pauses = Backoff::FIRST;
        while head.is_committed_in(generation) {
            let seen = algo.read(head.payload(), NoRing, now, n);
            let left = algo.permit(seen, now, 0).remaining();
            let take = most.min(left / 4).max(n);
            if take == n && !or_just_n {
                return None;
            }
            let Step::Admit { next } = algo.step(seen, now, take) else { return None };
            match self.swap(head, head.with_payload(next)) {
                Ok(()) => return Some((take, next)),
                Err(actual) => head = actual,
            }
            pauses.pause();
        }
        None
    }

    /// Moves the head on to a payload that follows from what was seen; and where that was all there
    /// is to see, notes the cells that were asked for.
    #[inline(always)]
    fn move_on<A: StateMachine>(
        &self,
        head: Head,
        cells: Cells<'_>,
        algo: &A,
        seen: A::View,
        next: u64,
        noted: Option<u64>,
    ) -> Result<(), Head> {
        if next == head.payload() {
            // Nothing to write; but cells belong to the head only if it still stands.
            if A::RINGED && !cells.is_none() && !planted(Fault::RecheckSkipped) {
                self.expect(head)?;
            }
            return Ok(());
        }
        if A::RINGED && !cells.is_none() {
            let ring = cells.of_generation(head.generation());
            let put = |place, content| self.put(head, cells, place, content);
            if !algo.publish(seen, ring, put) {
                return Err(self.load());
            }
        }
        self.swap(head, head.with_payload(next))?;
        if let Some(n) = noted
            && A::RINGED
            && !cells.is_none()
            && algo.has_note()
        {
            cells.write_note(algo.note(seen, n));
        }
        Ok(())
    }

    /// Replaces the payload of a committed word by what `next` makes of it, while the word is of
    /// this generation.
    pub(crate) fn revise(&self, generation: u64, next: impl Fn(u64) -> u64) {
        let mut head = self.load();
        let is_same_life =
            |head: Head| head.generation() == generation || planted(Fault::LifeUnchecked);
        let first = head;
        while is_same_life(head) && !head.is_provisional() {
            let from = if planted(Fault::RevisionStale) { first } else { head };
            let next = next(from.payload());
            if next == head.payload() {
                return;
            }
            match self.swap(head, head.with_payload(next)) {
                Ok(()) => return,
                Err(actual) => head = actual,
            }
        }
    }

    /// Whether `head` still stands; `Err` holds what stands there instead.
    #[inline(always)]
    fn expect(&self, head: Head) -> Result<(), Head> {
        let actual = self.load();
        if actual == head { Ok(()) } else { Err(actual) }
    }

    /// The first try lost a race.
    #[cold]
    #[inline(never)]
    fn charge_again<A: StateMachine>(
        &self,
        generation: u64,
        mut head: Head,
        cells: Cells<'_>,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> OutOfLine<Charge<A::View>> {
        let mut pauses = Backoff::FIRST;
        while head.generation() == generation && !head.is_provisional() {
            // Another thread charged. Its line is here now; a short pause lets it go first
            // again, which on two threads costs less than two lines in flight.
            pauses.pause();
            match self.try_charge(head, cells, algo, now, n, true) {
                Ok(ruling) => return OutOfLine(Charge::Decided(ruling)),
                Err(actual) => head = actual,
            }
        }
        OutOfLine(Charge::Moved)
    }

    /// What a decision about `n` cells would be judged by, on a committed word as last seen and
    /// its ring; `None` if the word belongs to somebody else by now.
    pub(crate) fn peek<A: StateMachine>(
        &self,
        mut head: Head,
        cells: Cells<'_>,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<A::View> {
        let generation = head.generation();
        while head.generation() == generation && !head.is_provisional() {
            let seen = algo.read(head.payload(), cells.of_generation(generation), now, n);
            if A::RINGED
                && !planted(Fault::RecheckSkipped)
                && let Err(actual) = self.expect(head)
            {
                head = actual;
                continue;
            }
            return Some(seen);
        }
        None
    }

    /// Decides about `n` cells on a provisional word, whose state is `state`, and commits it.
    ///
    /// A denial leaves the word provisional, unless the algorithm starts in debt, when the debt
    /// has to be remembered.
    pub(crate) fn commit<A: StateMachine>(
        &self,
        head: Head,
        cells: Cells<'_>,
        state: u64,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Charge<A::View> {
        debug_assert!(head.is_provisional());
        let seen = algo.read(state, NoRing, now, n);
        let (next, ruling) = match algo.step(seen, now, n) {
            Step::Admit { next } => (next, Ruling::Admitted(seen)),
            Step::DenyCounted { next } => (next, Ruling::Denied(seen)),
            Step::Deny => (state, Ruling::Denied(seen)),
        };
        if next == state && !algo.starts_in_debt() {
            return Charge::Decided(ruling);
        }
        if A::RINGED {
            let put = |place, content| self.put(head, cells, place, content);
            if !self.clear(head, cells, algo.cells_to_clear()) || !algo.publish(seen, NoRing, put) {
                return Charge::Moved;
            }
        }
        match self.swap(head, Head::committed(head.generation(), next)) {
            Ok(()) => Charge::Decided(ruling),
            Err(_) => Charge::Moved,
        }
    }
}

impl core::fmt::Debug for HeadCell {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.load().fmt(f)
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word() {
        assert!(tile(&[PAYLOAD, PROVISIONAL, GENERATION], 64));
    }

    proptest! {
        #[test]
        fn every_field_round_trips(generation in 0..=Head::GENERATION_MAX, payload: u64) {
            let payload = PAYLOAD.of(payload);
            for (head, provisional) in [
                (Head::committed(generation, payload), false),
                (Head::provisional(generation, payload), true),
            ] {
                prop_assert_eq!(head.generation(), generation);
                prop_assert_eq!(head.is_provisional(), provisional);
                prop_assert_eq!(head.payload(), payload);
                prop_assert_eq!(head.next_generation(), (generation + 1) % 1_024);
                prop_assert_eq!(head.is_committed_in(generation), !provisional);
                prop_assert!(!head.is_committed_in(generation ^ 1));
                prop_assert_eq!(head.with_payload(!payload & PAYLOAD.max()).generation(), generation);
            }
        }
    }
}
