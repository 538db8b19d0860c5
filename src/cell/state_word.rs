//! The word of a cell: an algorithm's state, and above it the bits that tell whose state it is.

use core::marker::PhantomData;

use crate::word::Field;

/// A packed word: an algorithm's state in the lowest bits, above it a bit that says whether the
/// word is provisional, and above that what tells one life of the word from another.
pub(crate) trait StateWord: Copy + Eq + core::fmt::Debug {
    /// The algorithm's state.
    const STATE: Field;
    /// 1 while nothing has been charged here.
    const PROVISIONAL: Field = Self::STATE.above(1);

    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;

    /// The generation that the words of a ring must have to belong to this word.
    fn generation(self) -> u64;

    #[inline(always)]
    fn state(self) -> u64 {
        Self::STATE.lowest_of(self.bits())
    }

    #[inline(always)]
    fn is_provisional(self) -> bool {
        Self::PROVISIONAL.of(self.bits()) == 1
    }

    /// Whether the word belongs to the same key, in the same generation, as the committed word
    /// `first`, and is committed itself.
    #[inline(always)]
    fn is_same_life(self, first: Self) -> bool {
        debug_assert!(!first.is_provisional());
        self.bits() ^ first.bits() <= Self::STATE.max()
    }

    /// This word with another state, which has no bits above its field.
    #[inline(always)]
    fn with_state(self, state: u64) -> Self {
        debug_assert!(state <= Self::STATE.max());
        Self::from_bits(self.bits() ^ self.state() ^ state)
    }

    /// The committed word that a claim becomes.
    fn commit(self, state: u64) -> Self {
        Self::from_bits(Self::PROVISIONAL.set(self.with_state(state).bits(), 0))
    }
}

/// A committed word that a lookup has found, as two numbers: its state, and the bits above the state, which
/// the lookup has compared with the expected ones. So neither has to be masked out of the word.
#[derive(Clone, Copy)]
pub(crate) struct Seen<W> {
    life: u64,
    pub(super) state: u64,
    word: PhantomData<W>,
}

impl<W: StateWord> Seen<W> {
    #[inline(always)]
    pub(super) fn in_life(life: u64, state: u64) -> Self {
        Self { life, state, word: PhantomData }
    }

    /// A committed word, of which nothing was known.
    #[cfg(test)]
    pub(super) fn of(word: W) -> Self {
        let state = word.state();
        Self::in_life(word.bits() ^ state, state)
    }

    #[inline(always)]
    pub(crate) fn word(self) -> W {
        self.with_state(self.state)
    }

    /// The word with another state, which has no bits above its field.
    #[inline(always)]
    pub(super) fn with_state(self, state: u64) -> W {
        debug_assert!(state <= W::STATE.max());
        W::from_bits(self.life ^ state)
    }
}
