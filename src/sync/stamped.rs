//! A seqlock whose sequence number is a word of its content, the stamp: one load less for a reader.
//!
//! # Layout
//!
//! ```text
//! busy    1 while a thread replaces the words
//! opened  the stamp of the words that were last begun
//! words
//! closed  the stamp of the words that were last completed
//! ```
//!
//! # Protocol
//!
//! A writer takes `busy` by a compare-and-swap from 0 to 1. It stores the new stamp in `opened`, then the
//! words, then the stamp in `closed`, and stores 0 in `busy`. A writer that finds another at work gives up.
//! A reader loads `closed`, the words, and `opened`. If both stamps are equal, the words are those of the
//! stamp. If they differ, the reader has no words, and does without them: it waits for no other thread.
//!
//! No two versions may have one stamp. Otherwise the words could be replaced under another stamp, and then again
//! under the first one, while a reader loads them, and the reader would not notice.
//!
//! # Orderings
//!
//! Release on `closed` and Acquire on its load make the words visible with their stamp. The two fences are
//! for words that are being replaced. The writer stores the new stamp in `opened` before its Release fence, and
//! the new words after it. So a reader that reads a new word sees the new stamp in `opened`, which it loads after
//! its Acquire fence.
//!
//! # Guarded by
//!
//! `loom-tests/tests/clock.rs`, run by `ci/check.sh loom`, with a model of a torn read. Ordinary tests do
//! not notice a wrong fence here.

use super::{AtomicU64, Fault, Ordering, fence, planted};

/// A stamp and `N` words that are replaced together. See the [module](self).
#[derive(Debug)]
pub(crate) struct StampedCell<const N: usize> {
    closed: AtomicU64,
    words: [AtomicU64; N],
    opened: AtomicU64,
    busy: AtomicU64,
}

/// Another thread is writing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

impl<const N: usize> StampedCell<N> {
    /// Stores the first words.
    pub(crate) fn new(stamp: u64, words: [u64; N]) -> Self {
        Self {
            closed: AtomicU64::new(stamp),
            words: words.map(AtomicU64::new),
            opened: AtomicU64::new(stamp),
            busy: AtomicU64::new(0),
        }
    }

    /// The stamp and the first `M` words; `None` while they are being replaced.
    #[inline]
    pub(crate) fn read<const M: usize>(&self) -> Option<(u64, [u64; M])> {
        const { assert!(M <= N, "there are so many words") };
        let closed = self.closed.load(Ordering::Acquire);
        let words = core::array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
        // Acquire: pairs with the writer's Release fence.
        fence(Ordering::Acquire);
        let opened = self.opened.load(Ordering::Relaxed);
        (opened == closed || planted(Fault::TornLine)).then_some((closed, words))
    }

    /// Replaces stamp and words by `next` of them, unless that is `None`. A thread that finds another one
    /// writing does not wait: it gets [`Busy`].
    pub(crate) fn replace(
        &self,
        next: impl FnOnce(u64, &[u64; N]) -> Option<(u64, [u64; N])>,
    ) -> Result<(), Busy> {
        // Acquire: pairs with the last writer's Release; this thread reads that writer's words.
        self.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).map_err(|_| Busy)?;
        let words = core::array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
        if let Some((stamp, words)) = next(self.closed.load(Ordering::Relaxed), &words) {
            self.write(stamp, &words);
        }
        self.busy.store(0, Ordering::Release);
        Ok(())
    }

    fn write(&self, stamp: u64, words: &[u64; N]) {
        self.opened.store(stamp, Ordering::Relaxed);
        // Release: pairs with the reader's Acquire fence; the stamp is visible before any word.
        fence(Ordering::Release);
        for (cell, word) in self.words.iter().zip(words) {
            cell.store(*word, Ordering::Relaxed);
        }
        // Release: a reader of this stamp sees the words.
        self.closed.store(stamp, Ordering::Release);
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_finds_another_at_work_gives_up() {
        let cell = StampedCell::new(1, [10, 11]);
        let outer = cell.replace(|stamp, words| {
            assert_eq!(cell.replace(|_, _| Some((7, [0, 0]))), Err(Busy));
            Some((stamp + 1, words.map(|word| word * 2)))
        });
        assert_eq!(outer, Ok(()));
        assert_eq!(cell.read(), Some((2, [20, 22])));
    }

    #[test]
    fn a_refused_replacement_changes_nothing_and_lets_others_replace() {
        let cell = StampedCell::new(1, [10]);
        assert_eq!(cell.replace(|_, _| None), Ok(()));
        assert_eq!(cell.read(), Some((1, [10])));
        assert_eq!(cell.replace(|_, _| Some((2, [20]))), Ok(()));
        assert_eq!(cell.read(), Some((2, [20])));
    }

    #[test]
    fn words_that_are_being_replaced_are_not_read() {
        let cell = StampedCell::new(1, [10]);
        cell.opened.store(2, Ordering::Relaxed);
        assert_eq!(cell.read::<1>(), None);
        cell.write(2, &[20]);
        assert_eq!(cell.read(), Some((2, [20])));
    }
}
