//! The words beside a state word, for algorithms that need more than one.
//!
//! # How a ring stays true to its head
//!
//! Which cells count, and as what, the head says. Two rules make a decision by both exact:
//!
//! 1. Before a head moves on, what it alone knew is in the ring ([`HeadCell::put`]): every
//!    thread that is about to move the same head on puts the same words there.
//! 2. While a head stands, no cell that it counts by changes.
//!
//! So cells read after the head belong to it if it still stands afterwards. An admission learns
//! that from its compare-and-swap, a denial loads the head again.
//!
//! # Why a late put does no harm
//!
//! `put` loads the cell, then finds that the head still stands, then swaps the cell from what it
//! loaded. What it loaded was put there for this head or an earlier one: had it been for a later
//! one, the load would have synchronised with a thread that had seen that one, and the head
//! would have been found changed. If the head moves on between that finding and the swap, then
//! the mover has put its own word there, and the swap fails; or it needed nothing there, and then
//! nobody reads the cell before it is put again. The same holds for a thread of the slot's last
//! key: its late word bears that key's generation, and reads as empty.
//!
//! Nor can the cell come back to what was loaded: every algorithm's words carry a time or an index
//! that only moves forward. The exception is what the [table](crate::table) says of recurrence:
//! 1,024 changes of hands within one unit of that time.

use super::state_cell::{GENERATION_BITS, Head, HeadCell};
use crate::algo::Ring;
use crate::sync::{AtomicU64, Fault, Ordering, planted};
use crate::word::Field;

/// What the algorithm keeps in a cell; 0 is nothing.
const CONTENT: Field = Field::new(0, 64 - GENERATION_BITS);
/// Whose it is.
const GENERATION: Field = CONTENT.above(GENERATION_BITS);

/// The ring words of one slot.
///
/// ```text
/// bits 63..54 generation | bits 53..0 content
/// ```
///
/// The last of them is a note, if the algorithm has one. That is not told here: two registers hold a
/// slice, and with a third word a compiler puts the ring into memory in front of every decision.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a>(&'a [AtomicU64]);

impl<'a> Cells<'a> {
    pub(crate) const NONE: Self = Self(&[]);

    #[inline(always)]
    pub(crate) fn new(cells: &'a [AtomicU64]) -> Self {
        Self(cells)
    }

    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.0.is_empty()
    }

    /// Writes what is to stand in the ring of a life, which nobody reads yet and nothing stands in.
    pub(crate) fn fill(self, generation: u64, contents: &[u64]) {
        for (cell, content) in self.0.iter().zip(contents).filter(|(_, content)| **content > 0) {
            cell.store(GENERATION.set(CONTENT.of(*content), generation), Ordering::Relaxed);
        }
    }

    /// What stands in the ring of the head `seen`, and is true to it as long as that head stands.
    pub(crate) fn of(self, seen: Head) -> impl Ring {
        self.of_generation(seen.generation())
    }

    #[inline(always)]
    pub(super) fn of_generation(self, generation: u64) -> LiveCells<'a> {
        LiveCells { cells: self.0, life: GENERATION.set(0, generation) }
    }

    /// Writes the note of an algorithm that has one. It is no part of any protocol: whoever reads it
    /// proves it first.
    #[inline(always)]
    pub(super) fn write_note(self, note: u64) {
        // A model would only multiply its interleavings by it.
        if let (false, [.., place]) = (cfg!(tollgate_loom), self.0) {
            place.store(note, Ordering::Relaxed);
        }
    }
}

/// The ring of one life of a slot: what another generation left there is nothing.
#[derive(Clone, Copy)]
pub(super) struct LiveCells<'a> {
    cells: &'a [AtomicU64],
    /// Its generation, where words have it.
    life: u64,
}

impl Ring for LiveCells<'_> {
    #[inline(always)]
    fn cell(self, place: usize) -> u64 {
        let content = self.apart(place, 0);
        if content <= CONTENT.max() { content } else { 0 }
    }

    #[inline(always)]
    fn apart(self, place: usize, content: u64) -> u64 {
        self.cells[place].load(Ordering::Acquire) ^ self.life ^ content
    }

    /// Asked for by algorithms that have one.
    #[inline(always)]
    fn note(self) -> u64 {
        match (cfg!(tollgate_loom), self.cells) {
            (false, [.., place]) => place.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}

impl HeadCell {
    /// Sees to it that `content` stands at `place`, as the head `seen` wants it; false if that
    /// head stands no longer.
    pub(super) fn put(&self, seen: Head, cells: Cells<'_>, place: usize, content: u64) -> bool {
        debug_assert!(content <= CONTENT.max());
        if planted(Fault::PutLeftOut) {
            return true;
        }
        let word = GENERATION.set(content, seen.generation());
        let cell = &cells.0[place];
        let mut there = cell.load(Ordering::Acquire);
        while there != word {
            if !planted(Fault::PutUnchecked) && self.load() != seen {
                return false;
            }
            match cell.compare_exchange(there, word, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(actual) => there = actual,
            }
        }
        true
    }

    /// Clears what was left in the first `count` cells by a life of the same generation, 1,024
    /// lives ago; false if the head `seen` stands no longer.
    pub(super) fn clear(&self, seen: Head, cells: Cells<'_>, count: usize) -> bool {
        let ring = cells.of_generation(seen.generation());
        (0..count).all(|place| ring.cell(place) == 0 || self.put(seen, cells, place, 0))
    }

    /// Appends what stands in the first `count` cells of the ring of the head `seen`; false, and
    /// nothing appended, if that head stands no longer.
    pub(crate) fn copy_ring(
        &self,
        seen: Head,
        cells: Cells<'_>,
        count: usize,
        to: &mut Vec<u64>,
    ) -> bool {
        let begun = to.len();
        let ring = cells.of_generation(seen.generation());
        to.extend((0..count).map(|place| ring.cell(place)));
        let stands = cells.is_none() || self.load() == seen;
        if !stands {
            to.truncate(begun);
        }
        stands
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::word::tile;
    use proptest::prelude::*;

    #[test]
    fn the_fields_tile_the_word() {
        assert!(tile(&[CONTENT, GENERATION], 64));
        assert_eq!(GENERATION.max(), Head::GENERATION_MAX);
    }

    proptest! {
        #[test]
        fn a_cell_round_trips_in_its_own_generation_only(
            generation in 0..=Head::GENERATION_MAX, other in 0..=Head::GENERATION_MAX,
            left: u64, content: u64, payload: u64,
        ) {
            let content = CONTENT.of(content);
            let ring = [AtomicU64::new(left), AtomicU64::new(left)];
            let cells = Cells::new(&ring);
            let seen = Head::committed(generation, payload);
            let head = HeadCell::new(seen);
            prop_assert!(head.put(seen, cells, 1, content));
            prop_assert_eq!(cells.of_generation(generation).cell(1), content);
            let elsewhere = if other == generation { content } else { 0 };
            prop_assert_eq!(cells.of_generation(other).cell(1), elsewhere);
            prop_assert_eq!(ring[0].load(Ordering::Relaxed), left);
            // Once the head has moved on, nothing more is put, except what stands there.
            let late = Head::committed(generation, !payload);
            prop_assert!(!head.put(late, cells, 1, content ^ 1));
            prop_assert_eq!(cells.of_generation(generation).cell(1), content);
            prop_assert!(head.clear(seen, cells, 2));
            prop_assert_eq!(cells.of_generation(generation).cell(1), 0);
        }
    }
}
