//! A few words that one thread replaces while others read them, none of them torn.
//!
//! # Layout
//!
//! ```text
//! turn    2 * version, and 1 more while the next version is being written
//! copies  version v stands in copy v % COPIES
//! ```
//!
//! # Protocol
//!
//! A writer takes its turn by a compare-and-swap of `turn` from even to odd, writes the copy after
//! the current one, and publishes it by storing the next even number. A reader loads `turn`, reads
//! the current copy, and loads `turn` again: if by then nobody can have begun to write to that copy,
//! what it has read is one version. A reader waits for nobody: it begins anew only if, while it
//! read, the words were replaced several times. A writer that finds another at work gives up.
//!
//! Release on publishing and Acquire on the first load make a version's words visible with its
//! number. The two fences are for a reader of a copy that is being written: if it reads one word of
//! the new version, then its second load of `turn`, after the Acquire fence, sees what that writer had
//! read or stored before its Release fence, which says that the copy is no longer the reader's.

use crate::sync::{AtomicU64, Fault, Ordering, fence, planted};

/// Of several, a reader's is not the next to be written. A model makes do with fewer.
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
    /// The first version.
    pub fn new(words: &[u64; N]) -> Self {
        let copy =
            |index: usize| words.map(|word| AtomicU64::new(if index == 0 { word } else { 0 }));
        Self { turn: AtomicU64::new(0), copies: core::array::from_fn(copy) }
    }

    /// The words of one version.
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

    /// Replaces the words by what `next` makes of them. Neither of two threads that do so at once
    /// waits for the other.
    pub fn replace<E>(
        &self,
        next: impl FnOnce(&[u64; N]) -> Result<[u64; N], E>,
    ) -> Result<Result<(), E>, Busy> {
        let turn = self.turn.load(Ordering::Relaxed) & !1;
        // Acquire: what the last writer wrote is there to be read.
        self.turn
            .compare_exchange(turn, turn + 1, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Busy(()))?;
        let current = &self.copies[copy_of(turn)];
        let words = core::array::from_fn(|index| current[index].load(Ordering::Relaxed));
        let replaced = next(&words).map(|words| self.write(turn + 2, &words));
        let published = if replaced.is_ok() { turn + 2 } else { turn };
        // Release: the words are there for whoever reads this turn.
        self.turn.store(published, Ordering::Release);
        Ok(replaced)
    }

    fn write(&self, turn: u64, words: &[u64; N]) {
        // Release: pairs with the reader's Acquire fence; the turn taken is visible before any word.
        fence(Ordering::Release);
        for (cell, word) in self.copies[copy_of(turn)].iter().zip(words) {
            cell.store(*word, Ordering::Relaxed);
        }
    }
}

fn copy_of(turn: u64) -> usize {
    (turn / 2 % COPIES as u64) as usize
}

/// The last turn at which nobody has begun to write to the copy that is current at `turn`.
fn last_turn_to_read(turn: u64) -> u64 {
    (turn & !1) + 2 * (COPIES as u64 - 1)
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_a_readers_until_its_turn_comes_round() {
        for turn in 0..20 {
            let last = last_turn_to_read(turn);
            // The writer of the turn after that takes it odd, and writes the reader's copy.
            assert_eq!(copy_of(last + 2), copy_of(turn));
            assert!((turn / 2 * 2 + 2..=last).step_by(2).all(|t| copy_of(t) != copy_of(turn)));
        }
    }

    #[test]
    fn what_fails_changes_nothing() {
        let shelf = VersionedCell::new(&[1, 2]);
        let failed = shelf.replace(|_| Err("no"));
        assert!(matches!(failed, Ok(Err("no"))));
        assert_eq!(shelf.read(), [1, 2]);
        for version in 3..40 {
            let replaced = shelf.replace(|&[_, last]| Ok::<_, ()>([last, version]));
            assert!(matches!(replaced, Ok(Ok(()))));
            assert_eq!(shelf.read(), [version - 1, version]);
        }
    }

    #[test]
    fn who_finds_a_writer_at_work_gives_up() {
        let shelf = VersionedCell::new(&[1]);
        let outer = shelf.replace(|words| {
            assert!(shelf.replace(|_| Ok::<_, ()>([7])).is_err());
            Ok::<_, ()>([words[0] + 1])
        });
        assert!(matches!(outer, Ok(Ok(()))));
        assert_eq!(shelf.read(), [2]);
    }
}
