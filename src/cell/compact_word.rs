//! A key and its state in one word.

use super::state_cell::{Backoff, Charge, Ruling};
use crate::algo::{COMPACT_BITS, NoRing, StateMachine, Step};
use crate::decision::{Decision, OutOfLine, Permit};
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::time::Tick;
use crate::word::Field;

const STATE: Field = Field::new(0, COMPACT_BITS);
const PROVISIONAL: Field = STATE.above(1);
const FINGERPRINT: Field = PROVISIONAL.above(63 - COMPACT_BITS);
/// State and provisional bit together.
const CONTENT: Field = Field::new(0, COMPACT_BITS + 1);

/// Whose a word is: the low 26 bits of the key's hash, never 0, where they stand in the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    #[inline(always)]
    pub(crate) const fn of(hash: u64) -> Self {
        let bits = FINGERPRINT.set(0, hash);
        Self(if bits == 0 { FINGERPRINT.set(0, 1) } else { bits })
    }
}

/// A compact slot's word.
///
/// ```text
/// bits 63..38 fingerprint | bit 37 provisional | bits 36..0 the algorithm's state, or a nonce
/// ```
///
/// Zero is vacant; no other word has the fingerprint 0. *Provisional* means that nothing has been
/// charged here yet; in place of a state stands then a number that no other claim bears.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    pub(crate) const VACANT: Self = Self(0);

    pub(crate) const fn committed(fingerprint: Fingerprint, state: u64) -> Self {
        Self(fingerprint.0 | STATE.of(state))
    }

    /// A claim; of the nonce the low 37 bits count.
    pub(crate) const fn provisional(fingerprint: Fingerprint, nonce: u64) -> Self {
        Self(PROVISIONAL.set(Self::committed(fingerprint, nonce).0, 1))
    }

    /// A committed word as it is kept; `None` where those bits are none.
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        let word = Self(bits);
        let is_committed = FINGERPRINT.of(bits) != 0 && !word.is_provisional();
        if is_committed { Some(word) } else { None }
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn fingerprint(self) -> Fingerprint {
        Fingerprint(self.0 & !CONTENT.max())
    }

    pub(crate) const fn is_vacant(self) -> bool {
        self.0 == 0
    }

    /// Whether it is that key's, committed or claimed.
    pub(crate) const fn is_of(self, fingerprint: Fingerprint) -> bool {
        self.0 ^ fingerprint.0 <= CONTENT.max()
    }

    /// Whether it is that key's, and not provisional.
    #[inline(always)]
    pub(crate) const fn is_committed_of(self, fingerprint: Fingerprint) -> bool {
        self.0 ^ fingerprint.0 <= STATE.max()
    }

    pub(crate) const fn is_provisional(self) -> bool {
        PROVISIONAL.of(self.0) == 1
    }

    #[inline(always)]
    pub(crate) const fn state(self) -> u64 {
        STATE.of(self.0)
    }

    /// This committed word with another state, which has no bits above its field.
    #[inline(always)]
    const fn with_state(self, state: u64) -> Self {
        debug_assert!(state <= STATE.max());
        Self(self.0 ^ self.state() ^ state)
    }

    /// Whether the two are of one key, and neither is provisional.
    const fn is_later_of(self, earlier: Self) -> bool {
        self.0 ^ earlier.0 <= STATE.max()
    }
}

impl core::fmt::Debug for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Word")
            .field("fingerprint", &FINGERPRINT.of(self.0))
            .field("provisional", &self.is_provisional())
            .field("state", &self.state())
            .finish()
    }
}

/// A [`Word`] that several threads change.
#[repr(transparent)]
pub(crate) struct WordCell(AtomicU64);

impl WordCell {
    #[cfg(any(tollgate_loom, test))]
    pub(crate) fn vacant() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The word, to be loaded again before anything is made of it.
    #[inline(always)]
    pub(crate) fn read_brief(&self) -> Word {
        Word(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Replaces `seen` by `next`; `Err` holds what stands there instead.
    #[inline(always)]
    pub(crate) fn swap(&self, seen: Word, next: Word) -> Result<(), Word> {
        match self.0.compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(actual) => Err(Word(actual)),
        }
    }

    /// Decides about `n` cells on a committed word, as last seen. `None`: it has changed hands.
    ///
    /// A denial, and a charge of nothing, write nothing. Lock-free, not wait-free: a lost race
    /// means that another thread's charge went through.
    #[inline(always)]
    pub(crate) fn decide<A: StateMachine>(
        &self,
        word: Word,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<Decision> {
        match self.try_charge(word, algo, now, n) {
            Ok(ruling) => Some(ruling.explain(algo, now, n)),
            Err(actual) => {
                let OutOfLine(charge) = self.charge_again(word, actual, algo, now, n);
                match charge {
                    Charge::Decided(ruling) => Some(ruling.explain(algo, now, n)),
                    Charge::Moved => None,
                }
            }
        }
    }

    /// The same, without what there is to tell of it.
    pub(crate) fn charge<A: StateMachine>(
        &self,
        word: Word,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Charge<A::View> {
        match self.try_charge(word, algo, now, n) {
            Ok(ruling) => Charge::Decided(ruling),
            Err(actual) => {
                let OutOfLine(charge) = self.charge_again(word, actual, algo, now, n);
                charge
            }
        }
    }

    /// Admits `n` cells if a first try does; `None` wrote nothing.
    #[inline(always)]
    pub(crate) fn admit<A: StateMachine>(
        &self,
        word: Word,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<Permit> {
        let seen = algo.read(word.state(), NoRing, now, n);
        let Step::Admit { next } = algo.step(seen, now, n) else { return None };
        if next != word.state() {
            self.swap(word, word.with_state(next)).ok()?;
        }
        Some(algo.permit(seen, now, n))
    }

    /// One try; `Err` holds the word that another thread has put there.
    #[inline(always)]
    fn try_charge<A: StateMachine>(
        &self,
        word: Word,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Result<Ruling<A::View>, Word> {
        debug_assert!(!word.is_provisional() && !word.is_vacant());
        let seen = algo.read(word.state(), NoRing, now, n);
        let (next, ruling) = match algo.step(seen, now, n) {
            Step::Admit { next } => (next, Ruling::Admitted(seen)),
            Step::DenyCounted { next } => (next, Ruling::Denied(seen)),
            Step::Deny => (word.state(), Ruling::Denied(seen)),
        };
        if next != word.state() {
            self.swap(word, word.with_state(next))?;
        }
        Ok(ruling)
    }

    /// The first try lost a race.
    #[cold]
    #[inline(never)]
    fn charge_again<A: StateMachine>(
        &self,
        first: Word,
        mut word: Word,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> OutOfLine<Charge<A::View>> {
        let mut pauses = Backoff::FIRST;
        while word.is_later_of(first) {
            // As for a head: see there.
            pauses.pause();
            match self.try_charge(word, algo, now, n) {
                Ok(ruling) => return OutOfLine(Charge::Decided(ruling)),
                Err(actual) => word = actual,
            }
        }
        OutOfLine(Charge::Moved)
    }

    /// Replaces the state of a committed word, as last seen, by what `next` makes of it, while the
    /// word is the key's.
    pub(crate) fn revise(&self, first: Word, next: impl Fn(u64) -> u64) {
        let mut word = first;
        while word.is_later_of(first) || planted(Fault::LifeUnchecked) {
            let from = if planted(Fault::RevisionStale) { first } else { word };
            let next = next(from.state());
            if next == word.state() {
                return;
            }
            match self.swap(word, word.with_state(next)) {
                Ok(()) => return,
                Err(actual) => word = actual,
            }
        }
    }

    /// Decides about `n` cells on a claim, from a fresh state, and commits it.
    ///
    /// A denial leaves the claim, unless the algorithm starts in debt, when the debt has to be
    /// remembered.
    pub(crate) fn commit<A: StateMachine>(
        &self,
        claim: Word,
        fingerprint: Fingerprint,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Charge<A::View> {
        debug_assert!(claim.is_provisional() && claim.is_of(fingerprint));
        let state = algo.fresh(now);
        let seen = algo.read(state, NoRing, now, n);
        let (next, ruling) = match algo.step(seen, now, n) {
            Step::Admit { next } => (next, Ruling::Admitted(seen)),
            Step::DenyCounted { next } => (next, Ruling::Denied(seen)),
            Step::Deny => (state, Ruling::Denied(seen)),
        };
        if next == state && !algo.starts_in_debt() {
            return Charge::Decided(ruling);
        }
        match self.swap(claim, Word::committed(fingerprint, next)) {
            Ok(()) => Charge::Decided(ruling),
            Err(_) => Charge::Moved,
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word() {
        assert!(tile(&[STATE, PROVISIONAL, FINGERPRINT], 64));
        assert!(FINGERPRINT.bits() >= 26, "the chance that is documented");
    }

    #[test]
    fn a_hash_of_zero_still_names_a_key() {
        for hash in [0, 1 << 26, 1 << 63] {
            let word = Word::committed(Fingerprint::of(hash), 0);
            assert!(!word.is_vacant() && word.is_committed_of(Fingerprint::of(hash)));
            assert!(!Word::VACANT.is_of(Fingerprint::of(hash)));
        }
    }

    proptest! {
        #[test]
        fn every_field_round_trips(hash: u64, other: u64, state: u64, nonce: u64) {
            let (mine, others) = (Fingerprint::of(hash), Fingerprint::of(other));
            let committed = Word::committed(mine, state);
            let claim = Word::provisional(mine, nonce);
            prop_assert_eq!(committed.state(), STATE.of(state));
            prop_assert_eq!(claim.state(), STATE.of(nonce));
            prop_assert!(!committed.is_provisional() && claim.is_provisional());
            prop_assert!(committed.is_committed_of(mine) && !claim.is_committed_of(mine));
            prop_assert!(committed.is_of(mine) && claim.is_of(mine));
            prop_assert_eq!(committed.is_of(others), mine == others);
            prop_assert_eq!(claim.is_of(others), mine == others);
            let next = committed.with_state(STATE.of(nonce));
            prop_assert_eq!(next, Word::committed(mine, nonce));
            prop_assert!(next.is_later_of(committed) && !claim.is_later_of(committed));
        }
    }
}
