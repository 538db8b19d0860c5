//! A seqlock with several copies: one thread replaces a few words while others read them, and no
//! reader sees a torn version.
//!
//! # Layout
//!
//! ```text
//! turn    2 * version, and 1 more while the next version is being written
//! copies  version v is in copy v % COPIES
//! ```
//!
//! # Protocol
//!
//! A writer takes its turn by a compare-and-swap of `turn` from even to odd, writes the copy after
//! the current one, and publishes it by storing the next even number. A writer that finds another
//! at work gives up. A reader loads `turn`, reads the current copy, and loads `turn` again. If no
//! writer can have begun to write to that copy by then, the words are one version. A reader waits
//! for no other thread: it starts again only if the words were replaced several times while it
//! read.
//!
//! # Orderings
//!
//! Release on publishing and Acquire on the first load make a version's words visible with its
//! number. The two fences are for a reader of a copy that is being written. If it reads one word of
//! the new version, then its second load of `turn`, after the Acquire fence, sees what that writer
//! had read or stored before its Release fence. That says that the copy is not the reader's any
//! more.
//!
//! # Guarded by
//!
//! `loom-tests/tests/dynamic_quota.rs`, run by `ci/check.sh loom`, with a model of a torn read. Ordinary
//! tests do not notice a wrong fence here.

use super::{AtomicU64, Fault, Ordering, fence, planted};

/// With several copies, the one that a reader reads is not the next to be written. A model makes do
/// with fewer.
const COPIES: usize = if cfg!(tollgate_loom) { 2 } else { 4 };

/// `N` words that are replaced together. See the [module](self).
#[derive(Debug)]
#[allow(unreachable_pub, reason = "models see it")]
pub struct VersionedCell<const N: usize> {
    turn: AtomicU64,
    copies: [[AtomicU64; N]; COPIES],
}

/// Another thread is writing.
#[derive(Debug)]
#[allow(unreachable_pub, reason = "models see it")]
pub struct Busy(());

#[allow(unreachable_pub, reason = "models see it")]
impl<const N: usize> VersionedCell<N> {
    /// Stores the first version.
    pub fn new(words: &[u64; N]) -> Self {
        let copy =
            |index: usize| words.map(|word| AtomicU64::new(if index == 0 { word } else { 0 }));
        Self { turn: AtomicU64::new(0), copies: core::array::from_fn(copy) }
    }

    /// Reads the words of one version.
    #[inline]
    pub fn read(&self) -> [u64; N] {
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            let copy = &self.copies[copy_of(turn)];
            let words = core::array::from_fn(|index| copy[index].load(Ordering::Relaxed));
            // Acquire: pairs with the writer's Release fence.
            fence(Ordering::Acquire);
            let now = self.turn.load(Ordering::Relaxed);
            if now <= last_turn_to_read(turn) || planted(Fault::TornQuota) {
                return words;
            }
        }
    }

    /// Replaces the words by `next` of them. Of two threads that do so at once, neither waits for the
    /// other.
    pub fn replace<E>(
        &self,
        next: impl FnOnce(&[u64; N]) -> Result<[u64; N], E>,
    ) -> Result<Result<(), E>, Busy> {
        let turn = self.turn.load(Ordering::Relaxed) & !1;
        // Acquire: pairs with the last writer's Release; this thread reads that version's words.
        self.turn
            .compare_exchange(turn, turn + 1, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Busy(()))?;
        let current = &self.copies[copy_of(turn)];
        let words = core::array::from_fn(|index| current[index].load(Ordering::Relaxed));
        let replaced = next(&words).map(|words| self.write(turn + 2, &words));
        let published = if replaced.is_ok() { turn + 2 } else { turn };
        // Release: a reader of this turn sees the words.
        self.turn.store(published, Ordering::Release);
        Ok(replaced)
    }

    fn write(&self, turn: u64, words: &[u64; N]) {
        // Release: pairs with the reader's Acquire fence; the odd turn is visible before any word.
        fence(Ordering::Release);
        for (cell, word) in self.copies[copy_of(turn)].iter().zip(words) {
            cell.store(*word, Ordering::Relaxed);
        }
    }
}

fn copy_of(turn: u64) -> usize {
    (turn / 2 % COPIES as u64) as usize
}

/// The last turn at which no writer has begun to write to the copy that is current at `turn`.
fn last_turn_to_read(turn: u64) -> u64 {
    (turn & !1) + 2 * (COPIES as u64 - 1)
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_not_written_before_its_last_turn_to_read() {
        for turn in 0..20 {
            let last = last_turn_to_read(turn);
            // The next writer writes the reader's copy.
            assert_eq!(copy_of(last + 2), copy_of(turn));
            assert!((turn / 2 * 2 + 2..=last).step_by(2).all(|t| copy_of(t) != copy_of(turn)));
        }
    }

    #[test]
    fn a_failed_replacement_changes_nothing() {
        let cell = VersionedCell::new(&[1, 2]);
        let failed = cell.replace(|_| Err("no"));
        assert!(matches!(failed, Ok(Err("no"))));
        assert_eq!(cell.read(), [1, 2]);
        for version in 3..40 {
            let replaced = cell.replace(|&[_, last]| Ok::<_, ()>([last, version]));
            assert!(matches!(replaced, Ok(Ok(()))));
            assert_eq!(cell.read(), [version - 1, version]);
        }
    }

    #[test]
    fn a_writer_that_finds_another_at_work_gives_up() {
        let cell = VersionedCell::new(&[1]);
        let outer = cell.replace(|words| {
            assert!(cell.replace(|_| Ok::<_, ()>([7])).is_err());
            Ok::<_, ()>([words[0] + 1])
        });
        assert!(matches!(outer, Ok(Ok(()))));
        assert_eq!(cell.read(), [2]);
    }
}
