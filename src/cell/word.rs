//! A state in one word.

#[cfg(not(tollgate_loom))]
use crossbeam_utils::Backoff;

use crate::algo::{OneWord, PAYLOAD_BITS, Step};
use crate::decision::Decision;
use crate::sync::{AtomicU64, Ordering};
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

/// Admitted or refused, with the state that was decided upon.
///
/// Two registers. The 64 bytes of a [`Decision`] are made from it where they are asked for, in
/// the caller's own frame: returned through memory they cost more than deciding.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ruling {
    Admitted(u64),
    Refused(u64),
}

impl Ruling {
    /// All that there is to tell of it.
    #[inline(always)]
    pub(crate) fn explain<A: OneWord>(self, algo: &A, now: Tick, n: u64) -> Decision {
        match self {
            Self::Admitted(state) => Ok(algo.permit(state, now, n)),
            Self::Refused(state) => Err(algo.denied(state, now, n)),
        }
    }
}

/// What became of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Charge {
    Decided(Ruling),
    /// The word has another generation now: it belongs to somebody else.
    Moved,
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

    /// Decides about `n` cells on a committed word, as last seen.
    ///
    /// A refusal, and a charge of nothing, write nothing. Lock-free, not wait-free: a lost race
    /// means that another thread's charge went through.
    #[inline(always)]
    pub(crate) fn charge<A: OneWord>(&self, seen: Head, algo: &A, now: Tick, n: u64) -> Charge {
        match self.try_charge(seen, algo, now, n) {
            Ok(ruling) => Charge::Decided(ruling),
            Err(actual) => self.charge_again(seen.generation(), actual, algo, now, n),
        }
    }

    /// One try; `Err` holds the head that another thread has put there.
    #[inline(always)]
    fn try_charge<A: OneWord>(
        &self,
        seen: Head,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Result<Ruling, Head> {
        debug_assert!(!seen.is_provisional());
        match algo.step(seen.payload(), now, n) {
            Step::Refuse => return Ok(Ruling::Refused(seen.payload())),
            Step::Admit { next } if next == seen.payload() => {}
            Step::Admit { next } => self.swap(seen, seen.with_payload(next))?,
        }
        Ok(Ruling::Admitted(seen.payload()))
    }

    /// The first try lost a race.
    #[cold]
    #[inline(never)]
    fn charge_again<A: OneWord>(
        &self,
        generation: u64,
        mut seen: Head,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Charge {
        #[cfg(not(tollgate_loom))]
        let backoff = Backoff::new();
        while seen.generation() == generation && !seen.is_provisional() {
            // Another thread charged. Its line is here now; a short pause lets it go first
            // again, which on two threads costs less than two lines in flight.
            #[cfg(not(tollgate_loom))]
            backoff.spin();
            match self.try_charge(seen, algo, now, n) {
                Ok(ruling) => return Charge::Decided(ruling),
                Err(actual) => seen = actual,
            }
        }
        Charge::Moved
    }

    /// Decides about `n` cells on a provisional word, whose state is `state`, and commits it.
    ///
    /// A refusal leaves the word provisional, unless the algorithm starts in debt, when the debt
    /// has to be remembered.
    pub(crate) fn commit<A: OneWord>(
        &self,
        seen: Head,
        state: u64,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Charge {
        debug_assert!(seen.is_provisional());
        let (next, ruling) = match algo.step(state, now, n) {
            Step::Admit { next } => (next, Ruling::Admitted(state)),
            Step::Refuse => (state, Ruling::Refused(state)),
        };
        let nothing_to_remember = n == 0 || matches!(ruling, Ruling::Refused(_));
        if nothing_to_remember && !algo.starts_in_debt() {
            return Charge::Decided(ruling);
        }
        match self.swap(seen, Head::committed(seen.generation(), next)) {
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
