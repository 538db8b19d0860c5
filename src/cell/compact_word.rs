//! A key and its state in one word.

use super::state_cell::StateCell;
use super::state_word::StateWord;
use crate::algo::COMPACT_BITS;
use crate::word::Field;

const STATE: Field = Field::new(0, COMPACT_BITS);
const FINGERPRINT: Field = CompactWord::PROVISIONAL.above(63 - COMPACT_BITS);
/// State and provisional bit together.
const CONTENT: Field = Field::new(0, COMPACT_BITS + 1);

/// A key's part of a compact word: the low 26 bits of its hash, never 0, shifted to where the word
/// has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    #[inline(always)]
    pub(crate) const fn of(hash: u64) -> Self {
        let bits = FINGERPRINT.set(0, hash);
        Self(if bits == 0 { FINGERPRINT.set(0, 1) } else { bits })
    }

    /// The bits above the state of a committed word with this fingerprint.
    #[inline(always)]
    pub(crate) const fn life(self) -> u64 {
        self.0
    }
}

/// A compact slot's word.
///
/// ```text
/// bits 63..38 fingerprint | bit 37 provisional | bits 36..0 the algorithm's state, or a nonce
/// ```
///
/// Zero is vacant; no other word has the fingerprint 0. *Provisional* means that nothing has been
/// charged here yet. Such a word has a nonce in place of the state, which no other claim has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompactWord(u64);

/// A [`CompactWord`] that several threads change.
pub(crate) type CompactCell = StateCell<CompactWord>;

impl CompactWord {
    pub(crate) const VACANT: Self = Self(0);

    pub(crate) const fn committed(fingerprint: Fingerprint, state: u64) -> Self {
        Self(fingerprint.0 | STATE.of(state))
    }

    /// A claim, with the low 37 bits of the nonce.
    pub(crate) const fn provisional(fingerprint: Fingerprint, nonce: u64) -> Self {
        Self(Self::PROVISIONAL.set(Self::committed(fingerprint, nonce).0, 1))
    }

    /// A committed word as a snapshot stores it; `None` if the bits are not those of one.
    pub(crate) fn committed_from_bits(bits: u64) -> Option<Self> {
        let word = Self(bits);
        let is_committed = FINGERPRINT.of(bits) != 0 && !word.is_provisional();
        is_committed.then_some(word)
    }

    pub(crate) const fn fingerprint(self) -> Fingerprint {
        Fingerprint(self.0 & !CONTENT.max())
    }

    pub(crate) const fn is_vacant(self) -> bool {
        self.0 == 0
    }

    /// Whether the word has this fingerprint, committed or claimed.
    pub(crate) const fn is_of(self, fingerprint: Fingerprint) -> bool {
        self.0 ^ fingerprint.0 <= CONTENT.max()
    }

    /// Whether the word has this fingerprint and is not provisional.
    #[inline(always)]
    pub(crate) const fn is_committed_of(self, fingerprint: Fingerprint) -> bool {
        self.0 ^ fingerprint.0 <= STATE.max()
    }
}

impl StateWord for CompactWord {
    const STATE: Field = STATE;

    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }

    /// Compact slots have neither generations nor rings.
    #[inline(always)]
    fn generation(self) -> u64 {
        0
    }
}

impl core::fmt::Debug for CompactWord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CompactWord")
            .field("fingerprint", &FINGERPRINT.of(self.0))
            .field("provisional", &self.is_provisional())
            .field("state", &self.state())
            .finish()
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::super::Seen;
    use super::*;
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word() {
        assert!(tile(&[STATE, CompactWord::PROVISIONAL, FINGERPRINT], 64));
        assert!(FINGERPRINT.bits() >= 26, "the documented chance that two keys coincide");
    }

    #[test]
    fn a_hash_of_zero_has_a_fingerprint_that_is_not_zero() {
        for hash in [0, 1 << 26, 1 << 63] {
            let word = CompactWord::committed(Fingerprint::of(hash), 0);
            assert!(!word.is_vacant() && word.is_committed_of(Fingerprint::of(hash)));
            assert!(!CompactWord::VACANT.is_of(Fingerprint::of(hash)));
        }
    }

    #[test]
    fn a_state_or_a_nonce_may_be_the_largest() {
        let (mine, largest) = (Fingerprint::of(7), STATE.max());
        let committed = CompactWord::committed(mine, largest);
        let cell = CompactCell::new(committed);
        assert!(committed.is_committed_of(mine) && committed.is_of(mine));
        assert_eq!(cell.load_in_life(mine.life()).map(Seen::word), Some(committed));
        assert!(cell.seems_in_life(mine.life()));
        assert!(CompactWord::provisional(mine, largest).is_of(mine));
        for others in [Fingerprint::of(6), Fingerprint::of(8)] {
            assert!(!committed.is_of(others) && !cell.seems_in_life(others.life()));
        }
    }

    proptest! {
        #[test]
        fn every_field_round_trips(hash: u64, other: u64, state: u64, nonce: u64) {
            let (mine, others) = (Fingerprint::of(hash), Fingerprint::of(other));
            let committed = CompactWord::committed(mine, state);
            let claim = CompactWord::provisional(mine, nonce);
            prop_assert_eq!(committed.state(), STATE.of(state));
            prop_assert_eq!(claim.state(), STATE.of(nonce));
            prop_assert!(!committed.is_provisional() && claim.is_provisional());
            prop_assert!(committed.is_committed_of(mine) && !claim.is_committed_of(mine));
            prop_assert!(committed.is_of(mine) && claim.is_of(mine));
            let see = |word, key: Fingerprint| CompactCell::new(word).load_in_life(key.life());
            prop_assert_eq!(see(committed, mine).map(Seen::word), Some(committed));
            prop_assert!(see(claim, mine).is_none() && see(CompactWord::VACANT, mine).is_none());
            prop_assert_eq!(see(committed, others).is_some(), mine == others);
            prop_assert_eq!(CompactCell::new(committed).seems_in_life(others.life()), mine == others);
            prop_assert!(!CompactCell::new(claim).seems_in_life(mine.life()));
            prop_assert_eq!(committed.is_of(others), mine == others);
            prop_assert_eq!(claim.is_of(others), mine == others);
            let next = committed.with_state(STATE.of(nonce));
            prop_assert_eq!(next, CompactWord::committed(mine, nonce));
            prop_assert!(next.is_same_life(committed) && !claim.is_same_life(committed));
            prop_assert_eq!(claim.commit(STATE.of(state)), committed);
        }
    }
}
