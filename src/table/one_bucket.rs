//! The memory of a limiter without keys: one state word and its ring.

use crossbeam_utils::CachePadded;

use super::memory::{OutOfMemory, RingWords};
use super::placed::Placed;
use super::source::Source;
use crate::algo::StateMachine;
use crate::cell::{DirectCell, HeadCell};

/// One bucket, on cache lines of its own.
pub(crate) struct OneBucket {
    head: Placed<CachePadded<HeadCell>>,
    ring: RingWords,
    /// Words of the ring that are part of the state: all but the note.
    kept_words: usize,
}

impl OneBucket {
    pub(crate) fn new(machine: &impl StateMachine, source: &Source) -> Result<Self, OutOfMemory> {
        let words = machine.ring_cells();
        let kept_words = words - usize::from(machine.has_note());
        let head = Placed::new(source, CachePadded::new(DirectCell::unused()))?;
        Ok(Self { head, ring: RingWords::zeroed(1, words, source)?, kept_words })
    }

    /// The part of a block that it takes.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn block_bytes(machine: &impl StateMachine) -> usize {
        let ring = RingWords::block_bytes(machine.ring_cells());
        Placed::<CachePadded<HeadCell>>::BLOCK_BYTES.saturating_add(ring)
    }

    /// In the process's own memory.
    pub(crate) fn own(machine: &impl StateMachine) -> Self {
        Self::new(machine, &Source::default()).expect("the allocator aborts, or has memory")
    }

    #[inline(always)]
    pub(crate) fn cell(&self) -> DirectCell<'_> {
        DirectCell::new(&self.head, self.ring.all(), self.kept_words)
    }
}

impl core::fmt::Debug for OneBucket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("OneBucket").field(&self.cell()).finish()
    }
}
