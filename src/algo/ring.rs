//! [`Ring`]: the words beside a state word, as a step reads them.

/// The words beside the state word, as a step reads them.
///
/// A word that was written for the slot's previous key reads as 0, which means that nothing is
/// stored.
///
/// The trait is open: a caller that drives a [`StateMachine`](super::StateMachine) by hand may keep the words anywhere.
/// New methods will have a default.
///
/// ```
/// use tollgate::internals::{NoRing, Ring};
///
/// let cells: &[u64] = &[7, 0];
/// assert_eq!((cells.cell(0), NoRing.cell(0)), (7, 0));
/// ```
pub trait Ring: Copy {
    /// Its words.
    type Cells: Copy;

    /// The ring as values that a call passes in registers. A `Ring` of more than two words would be passed in
    /// memory, and stored there before every decision that may make the call.
    fn parts(self) -> (Self::Cells, u64);

    /// The ring of which these are the parts.
    fn of_parts(cells: Self::Cells, life: u64) -> Self;

    /// The content at `place`, which is below [`ring_cells`](super::StateMachine::ring_cells).
    fn cell(self, place: usize) -> u64;

    /// The exclusive or of the content at `place` and `content`, of 54 bits. If the stored word was
    /// written for an earlier key, and so counts for nothing, higher bits may be set.
    #[inline(always)]
    fn xor(self, place: usize, content: u64) -> u64 {
        self.cell(place) ^ content
    }

    /// The last note that was written, if the ring has one: some earlier note, or 0.
    fn note(self) -> u64 {
        0
    }
}

/// The ring of an algorithm without a ring, and of a key that was never seen.
///
/// ```
/// use tollgate::internals::{NoRing, Ring};
/// assert_eq!(NoRing.cell(3), 0);
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "it is a value to be named")]
pub struct NoRing;

impl Ring for NoRing {
    type Cells = ();

    #[inline(always)]
    fn parts(self) -> ((), u64) {
        ((), 0)
    }

    #[inline(always)]
    fn of_parts((): (), _: u64) -> Self {
        Self
    }

    #[inline(always)]
    fn cell(self, _: usize) -> u64 {
        0
    }
}

impl Ring for &[u64] {
    type Cells = Self;

    fn parts(self) -> (Self, u64) {
        (self, 0)
    }

    fn of_parts(cells: Self, _: u64) -> Self {
        cells
    }

    fn cell(self, place: usize) -> u64 {
        self[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_never_seen_has_stored_nothing() {
        assert_eq!([0, 1, 70].map(|place| NoRing.cell(place)), [0; 3]);
        assert_eq!((NoRing.xor(3, 9), NoRing.note()), (9, 0));
    }
}
