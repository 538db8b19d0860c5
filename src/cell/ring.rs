//! The words beside a state word, as threads publish them.
//!
//! # How a ring stays true to its head
//!
//! The head says which words of the ring count, and what for. Two rules make a decision by both
//! exact:
//!
//! 1. Publish, then advance. Before advancing the head, a thread copies into the ring whatever only
//!    the head recorded ([`StateCell::publish_cell`]). That value is a function of the head, so all threads
//!    that race to advance it write the same value.
//! 2. While a head is current, no ring word that it counts by changes.
//!
//! So ring words that were read after a head belong to it if it is still current afterwards. An
//! admission learns that from its compare-and-swap; a denial loads the head again.
//!
//! # Why a late write does no harm
//!
//! `publish_cell` loads the cell, then checks that the head is still current, then swaps the cell from the
//! value that it loaded. That value was written for this head or an earlier one. (If it had been
//! written for a later head, the load would have synchronised with a thread that had seen that
//! head, and the check would have failed.) The head may advance between the check and the swap. Then
//! either the advancing thread has written its own value to the cell, and the swap fails; or it
//! needed nothing there, and no thread reads the cell before it is written again. A late write for
//! the slot's last key does no harm either: its word has that key's generation and reads as empty.
//!
//! The cell cannot return to the loaded value either (ABA): every algorithm's words carry a time or
//! an index that only increases. The exception is the [table](crate::table)'s recurrence: 1,024
//! changes of hands within one unit of that time.
//!
//! # Guarded by
//!
//! `loom-tests/tests/windows.rs`, `log.rs`, `ring_take_over.rs` and, for a thread that stops for ever,
//! `stopped/ring.rs`, run by `ci/check.sh loom`. Ordinary tests do not notice a mistake here.

use super::head::GENERATION_BITS;
use super::state_cell::StateCell;
use super::state_word::StateWord;
use crate::algo::Ring;
use crate::sync::{AtomicU64, Fault, Ordering, planted, wait_for_others};
use crate::word::Field;

/// The algorithm's content of a cell; 0 means empty.
const CONTENT: Field = Field::new(0, 64 - GENERATION_BITS);
/// The generation of the head that it was written for.
const GENERATION: Field = CONTENT.above(GENERATION_BITS);

/// The ring words of one slot.
///
/// ```text
/// bits 63..54 generation | bits 53..0 content
/// ```
///
/// The last of them is a note, if the algorithm has one. This type does not say so: two registers
/// hold a slice, and with a third word the compiler puts the ring into memory before every decision.
#[derive(Clone, Copy)]
pub(crate) struct SlotRing<'a>(&'a [AtomicU64]);

impl<'a> SlotRing<'a> {
    pub(crate) const NONE: Self = Self(&[]);

    #[inline(always)]
    pub(crate) fn new(cells: &'a [AtomicU64]) -> Self {
        Self(cells)
    }

    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.0.is_empty()
    }

    /// Writes the ring of a life that no other thread reads yet, and that is empty.
    pub(crate) fn fill(self, generation: u64, contents: &[u64]) {
        for (cell, content) in self.0.iter().zip(contents).filter(|(_, content)| **content > 0) {
            cell.store(GENERATION.set(CONTENT.of(*content), generation), Ordering::Relaxed);
        }
    }

    /// The ring of the word `seen`, and true to it while that word is current.
    pub(crate) fn of(self, seen: impl StateWord) -> impl Ring {
        self.of_generation(seen.generation())
    }

    #[inline(always)]
    pub(super) fn of_generation(self, generation: u64) -> LiveRing<'a> {
        LiveRing { cells: self.0, life: GENERATION.set(0, generation) }
    }

    /// Writes the note of an algorithm that has one. It is no part of any protocol: a reader verifies
    /// it before it relies on it.
    #[inline(always)]
    pub(super) fn write_note(self, note: u64) {
        // Under loom it would only multiply the interleavings.
        if let (false, [.., place]) = (cfg!(tollgate_loom), self.0) {
            place.store(note, Ordering::Relaxed);
        }
    }
}

/// A state word, as it was last loaded, and the ring beside it.
#[derive(Clone, Copy)]
pub(crate) struct Loaded<'a, W> {
    pub(crate) word: W,
    pub(crate) ring: SlotRing<'a>,
}

impl<'a, W: StateWord> Loaded<'a, W> {
    /// The ring as the word counts it, and true to it while that word is current.
    #[inline(always)]
    pub(super) fn live(self) -> LiveRing<'a> {
        self.ring.of_generation(self.word.generation())
    }
}

/// The ring of one life of a slot: words of another generation read as empty.
#[derive(Clone, Copy)]
pub(super) struct LiveRing<'a> {
    cells: &'a [AtomicU64],
    /// Its generation, in the bits where a word has it.
    life: u64,
}

impl<'a> Ring for LiveRing<'a> {
    type Cells = &'a [AtomicU64];

    #[inline(always)]
    fn parts(self) -> (&'a [AtomicU64], u64) {
        (self.cells, self.life)
    }

    #[inline(always)]
    fn of_parts(cells: &'a [AtomicU64], life: u64) -> Self {
        Self { cells, life }
    }

    #[inline(always)]
    fn cell(self, place: usize) -> u64 {
        let content = self.xor(place, 0);
        if content <= CONTENT.max() { content } else { 0 }
    }

    #[inline(always)]
    fn xor(self, place: usize, content: u64) -> u64 {
        self.cells[place].load(Ordering::Acquire) ^ self.life ^ content
    }

    /// Only algorithms that have a note call this.
    #[inline(always)]
    fn note(self) -> u64 {
        match (cfg!(tollgate_loom), self.cells) {
            (false, [.., place]) => place.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}

impl<W: StateWord> StateCell<W> {
    /// Makes `content` the content of the cell at `place`, as the word `seen` demands. False: that
    /// word is not current any more.
    pub(super) fn publish_cell(
        &self,
        seen: W,
        ring: SlotRing<'_>,
        place: usize,
        content: u64,
    ) -> bool {
        debug_assert!(content <= CONTENT.max());
        if planted(Fault::PublishLeftOut) {
            return true;
        }
        let word = GENERATION.set(content, seen.generation());
        let cell = &ring.0[place];
        let mut there = cell.load(Ordering::Acquire);
        if there == word && planted(Fault::PublisherAwaited) {
            wait_for_others();
            return false;
        }
        while there != word {
            if !planted(Fault::PublishUnchecked) && self.load() != seen {
                return false;
            }
            match cell.compare_exchange(there, word, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(actual) => there = actual,
            }
        }
        true
    }

    /// Clears the first `count` cells of what a life of the same generation, 1,024 lives ago, has
    /// left there. False: the loaded word is not current any more.
    pub(super) fn clear(&self, loaded: Loaded<'_, W>, count: usize) -> bool {
        let (Loaded { word, ring }, live) = (loaded, loaded.live());
        (0..count).all(|place| live.cell(place) == 0 || self.publish_cell(word, ring, place, 0))
    }

    /// Appends the first `count` cells of the ring of the loaded word. False, and nothing appended:
    /// that word is not current any more.
    pub(crate) fn copy_ring(&self, loaded: Loaded<'_, W>, count: usize, to: &mut Vec<u64>) -> bool {
        let begun = to.len();
        let live = loaded.live();
        to.extend((0..count).map(|place| live.cell(place)));
        let is_current = loaded.ring.is_none() || self.load() == loaded.word;
        if !is_current {
            to.truncate(begun);
        }
        is_current
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::cell::{Head, HeadCell};
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word() {
        assert!(tile(&[CONTENT, GENERATION], 64));
        assert_eq!(GENERATION.max(), Head::GENERATION_MAX);
    }

    #[test]
    fn a_ring_is_copied_beside_its_own_word_only() {
        let seen = Head::committed(3, 77);
        let words = [5, 6].map(|content| AtomicU64::new(GENERATION.set(content, 3)));
        let (ring, head, mut copied) = (SlotRing::new(&words), HeadCell::new(seen), vec![9]);
        let with = |word| Loaded { word, ring };
        assert!(head.copy_ring(with(seen), 2, &mut copied));
        assert_eq!(copied, [9, 5, 6]);
        assert!(!head.copy_ring(with(Head::committed(3, 78)), 2, &mut copied));
        assert_eq!(copied, [9, 5, 6], "nothing of another word");
    }

    proptest! {
        #[test]
        fn a_cell_round_trips_in_its_own_generation_only(
            generation in 0..=Head::GENERATION_MAX, other in 0..=Head::GENERATION_MAX,
            left: u64, content: u64, payload: u64,
        ) {
            let content = CONTENT.of(content);
            let words = [AtomicU64::new(left), AtomicU64::new(left)];
            let ring = SlotRing::new(&words);
            let seen = Loaded { word: Head::committed(generation, payload), ring };
            let head = HeadCell::new(seen.word);
            prop_assert!(head.publish_cell(seen.word, ring, 1, content));
            prop_assert_eq!(ring.of_generation(generation).cell(1), content);
            let elsewhere = if other == generation { content } else { 0 };
            prop_assert_eq!(ring.of_generation(other).cell(1), elsewhere);
            prop_assert_eq!(words[0].load(Ordering::Relaxed), left);
            // Once the head has advanced, a publication writes nothing.
            let late = Head::committed(generation, !payload);
            prop_assert!(!head.publish_cell(late, ring, 1, content ^ 1));
            prop_assert_eq!(ring.of_generation(generation).cell(1), content);
            prop_assert!(head.clear(seen, 2));
            prop_assert_eq!(ring.of_generation(generation).cell(1), 0);
        }
    }
}
