//! A state in one word.

#[cfg(not(tollgate_loom))]
use crossbeam_utils::Backoff;

use crate::algo::{OneWord, PAYLOAD_BITS, Step};
use crate::decision::Decision;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Tick;
use crate::word::Field;

const PAYLOAD: Field = Field::new(0, PAYLOAD_BITS);
const PROVISIONAL: Field = PAYLOAD.above(1);
const GENERATION: Field = PROVISIONAL.above(10);

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
    #[cfg(all(test, not(tollgate_loom)))]
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

    #[inline]
    pub(crate) const fn payload(self) -> u64 {
        PAYLOAD.of(self.0)
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

/// What became of a charge.
#[derive(Debug)]
pub(crate) enum Charge {
    Decided(Decision),
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
    #[inline]
    pub(crate) fn charge<A: OneWord>(&self, seen: Head, algo: &A, now: Tick, n: u64) -> Charge {
        let generation = seen.generation();
        let mut seen = seen;
        #[cfg(not(tollgate_loom))]
        let backoff = Backoff::new();
        loop {
            debug_assert!(!seen.is_provisional());
            let (next, permit) = match algo.step(seen.payload(), now, n) {
                Step::Refuse(denied) => return Charge::Decided(Err(denied)),
                Step::Admit { next, permit } => (next, permit),
            };
            if next == seen.payload() {
                return Charge::Decided(Ok(permit));
            }
            match self.swap(seen, Head::committed(generation, next)) {
                Ok(()) => return Charge::Decided(Ok(permit)),
                Err(actual) => seen = actual,
            }
            if seen.generation() != generation || seen.is_provisional() {
                return Charge::Moved;
            }
            // Another thread charged. Its line is here now; a short pause lets it go first
            // again, which on two threads costs less than two lines in flight.
            #[cfg(not(tollgate_loom))]
            backoff.spin();
        }
    }

    /// Decides about `n` cells on a provisional word, whose state is `state`, and commits it.
    ///
    /// `None` if the word has changed meanwhile. A refusal leaves the word provisional, unless
    /// the algorithm starts in debt, when the debt has to be remembered.
    pub(crate) fn commit<A: OneWord>(
        &self,
        seen: Head,
        state: u64,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<Decision> {
        debug_assert!(seen.is_provisional());
        let (state, decision) = match algo.step(state, now, n) {
            Step::Admit { permit, .. } if n == 0 && !algo.starts_in_debt() => {
                return Some(Ok(permit));
            }
            Step::Admit { next, permit } => (next, Ok(permit)),
            Step::Refuse(denied) if algo.starts_in_debt() => (state, Err(denied)),
            Step::Refuse(denied) => return Some(Err(denied)),
        };
        self.swap(seen, Head::committed(seen.generation(), state)).ok().map(|()| decision)
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
            }
        }
    }
}
