//! The words beside a state word.

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
    #[inline(always)]
    fn cell(self, _: usize) -> u64 {
        0
    }
}

impl Ring for &[u64] {
    fn cell(self, place: usize) -> u64 {
        self[place]
    }
}
