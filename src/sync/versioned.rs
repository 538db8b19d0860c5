//! A seqlock with several copies: one thread replaces a few words while others read them, and no
//! reader sees a torn version.
//!
//! # Layout
//!
//! ```text
//! turn    the sequence number: 2 * version, and 1 more while the next version is being written
//! copies  version v is in copy v % COPIES
//! ```
//!
//! # Protocol
//!
//! A writer changes `turn` from even to odd by a compare-and-swap, writes the copy after
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
//! # A writer that dies
//!
//! A process that is killed between its two changes of `turn` leaves it odd, and the next copy half
//! written. Readers go on: the copy before is current, and no writer changes it. But every later
//! [`replace`](VersionedCell::replace) finds another writer at work. A writer that knows that it is the only
//! one calls [`replace_after_death`](VersionedCell::replace_after_death), which takes an odd turn over: it
//! writes the next copy from its first word on, and publishes it.
//!
//! - No reader takes words of the dead writer for a version. The copy that it had begun was last current
//!   `COPIES` versions before. A reader that still reads that copy, and reads a word of either writer, sees the
//!   odd turn or a later one, by the fences above. (The successor, too, has read the odd turn before its
//!   fence.) Both are later than the last turn that leaves the reader its copy.
//! - So the successor must not set the turn back to the even number before: that reader would conclude that no
//!   writer has begun. If the successor has nothing to write, it publishes the current words once more.
//! - The successor may die, too. It leaves what it has found, an odd turn and a copy that is not current.
//!
//! This requires that the dead writer's last store happens before the successor's first. A lock of the kernel
//! that is released when its process ends has that effect. A living writer may not be taken over: both would
//! write to one copy, and the first to publish would publish words of both.
//!
//! # Guarded by
//!
//! `loom-tests/tests/dynamic_quota.rs` and `wall_clock.rs`, run by `ci/check.sh loom`, with models of a torn read, and
//! `loom-tests/tests/stopped/change.rs`, with models of a turn that is given back and of a living writer that
//! is taken over. Ordinary tests do not notice a wrong fence here.

use super::{AtomicU64, Fault, Ordering, fence, planted};

/// With several copies, the one that a reader reads is not the next to be written. A model makes do
/// with fewer.
const COPIES: usize = if cfg!(tollgate_loom) { 2 } else { 4 };

/// `N` words that are replaced together. See the [module](self).
#[derive(Debug)]
// Processes that share it may be builds of other compilers, which could order the fields otherwise.
#[repr(C)]
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

    /// Leaves the cell as a process does that is killed before it has written a word.
    #[cfg(all(test, feature = "shared-memory", target_os = "linux"))]
    pub(crate) fn begin_as_if_killed(&self) {
        self.turn.store(self.turn.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
    }

    /// The number of the version in force.
    #[cfg(any(feature = "shared-memory", tollgate_loom))]
    #[inline]
    pub fn version(&self) -> u64 {
        // Acquire: a later read of this thread sees this version, or a newer one.
        self.turn.load(Ordering::Acquire) & !1
    }

    /// Reads the words of one version.
    #[inline]
    pub fn read(&self) -> [u64; N] {
        self.read_versioned().1
    }

    /// Reads the words of one version, and its number.
    #[inline]
    pub fn read_versioned(&self) -> (u64, [u64; N]) {
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            let copy = &self.copies[copy_of(turn)];
            let words = core::array::from_fn(|index| copy[index].load(Ordering::Relaxed));
            // Acquire: pairs with the writer's Release fence.
            fence(Ordering::Acquire);
            let now = self.turn.load(Ordering::Relaxed);
            if is_unharmed(turn, now) || planted(Fault::TornQuota) {
                return (turn & !1, words);
            }
        }
    }

    /// Replaces the words by `next` of them. A thread that finds another one writing does not wait: it
    /// gets [`Busy`].
    pub fn replace<E>(
        &self,
        next: impl FnOnce(&[u64; N]) -> Result<[u64; N], E>,
    ) -> Result<Result<(), E>, Busy> {
        let turn = self.turn.load(Ordering::Relaxed) & !1;
        // Acquire: pairs with the last writer's Release; this thread reads that version's words.
        self.turn
            .compare_exchange(turn, turn.wrapping_add(1), Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Busy(()))?;
        let replaced =
            next(&self.current(turn)).map(|words| self.write(turn.wrapping_add(2), &words));
        let published = if replaced.is_ok() { turn.wrapping_add(2) } else { turn };
        // Release: a reader of this turn sees the words.
        self.turn.store(published, Ordering::Release);
        Ok(replaced)
    }

    /// As [`replace`](Self::replace), for a thread that holds a lock which all writers take and which a dead
    /// process loses. So no other thread is replacing the words, and every earlier writer has finished or has
    /// died. This takes over from a writer that has died: see the [module](self).
    #[cfg_attr(
        not(any(test, tollgate_loom, feature = "shared-memory")),
        expect(dead_code, reason = "for quotas in shared memory")
    )]
    pub fn replace_after_death<E>(
        &self,
        next: impl FnOnce(&[u64; N]) -> Result<[u64; N], E>,
    ) -> Result<(), E> {
        // Acquire: as in `replace`. A swap reads the latest turn, and the dead writer's swap continues the
        // release sequence of the last version's publication.
        let (Ok(found) | Err(found)) =
            self.turn.fetch_update(Ordering::Acquire, Ordering::Relaxed, |turn| Some(turn | 1));
        let turn = found & !1;
        if planted(Fault::TurnReturned) {
            self.turn.store(turn, Ordering::Release);
            return self.replace(next).unwrap_or(Ok(()));
        }
        let current = self.current(turn);
        let (words, replaced) = match next(&current) {
            Ok(words) => (words, Ok(())),
            Err(error) => (current, Err(error)),
        };
        self.write(turn.wrapping_add(2), &words);
        // Release: a reader of this turn sees the words.
        self.turn.store(turn.wrapping_add(2), Ordering::Release);
        replaced
    }

    /// The words of the current version, which only this thread may replace.
    fn current(&self, turn: u64) -> [u64; N] {
        let copy = &self.copies[copy_of(turn)];
        core::array::from_fn(|index| copy[index].load(Ordering::Relaxed))
    }

    /// The words in force of a cell whose words were read from a file. `None`: they are too few.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn current_in(words: &[u64]) -> Option<[u64; N]> {
        let (turn, copies) = words.split_first()?;
        copies.chunks_exact(N).nth(copy_of(*turn))?.try_into().ok()
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

/// Whether no writer has begun by now to write to the copy that is current at `turn`. (The turn of a spoilt
/// block may be any number.)
fn is_unharmed(turn: u64, now: u64) -> bool {
    now.wrapping_sub(turn & !1) <= 2 * (COPIES as u64 - 1)
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_not_written_before_its_last_turn_to_read() {
        for turn in 0..20 {
            let unharmed = |now: &u64| is_unharmed(turn, *now);
            let last = (turn..turn + 99).take_while(unharmed).last().expect("the turn itself");
            // The next writer writes the reader's copy.
            assert_eq!(copy_of(last + 2), copy_of(turn));
            assert!((turn / 2 * 2 + 2..=last).step_by(2).all(|t| copy_of(t) != copy_of(turn)));
            assert_eq!(last % 2, 0, "it is at work from the next turn on");
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

    /// A writer that has taken its turn, has written some words, and is seen no more.
    fn left_by_a_dead_writer(cell: &VersionedCell<2>, words: &[u64]) {
        let turn = cell.turn.load(Ordering::Relaxed);
        cell.turn.store(turn + 1, Ordering::Relaxed);
        for (place, word) in cell.copies[copy_of(turn + 2)].iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
    }

    #[test]
    fn after_a_writer_has_died_only_a_writer_that_knows_it_goes_on() {
        for version in 0..9 {
            let cell = VersionedCell::new(&[0, 0]);
            for word in 1..=version {
                assert!(matches!(cell.replace(|_| Ok::<_, ()>([word; 2])), Ok(Ok(()))));
            }
            left_by_a_dead_writer(&cell, &[77]);
            assert_eq!(cell.read(), [version; 2], "the version before");
            assert!(
                cell.replace(|_| Ok::<_, ()>([88; 2])).is_err(),
                "a writer seems to be at work"
            );
            let replaced = cell.replace_after_death(|&words| {
                assert_eq!(words, [version; 2]);
                Ok::<_, ()>([words[0] + 1; 2])
            });
            assert_eq!((replaced, cell.read()), (Ok(()), [version + 1; 2]));
            assert!(matches!(cell.replace(|&[a, b]| Ok::<_, ()>([a + 1, b + 1])), Ok(Ok(()))));
            assert_eq!(cell.read(), [version + 2; 2]);
        }
    }

    #[test]
    fn without_a_dead_writer_a_replacement_is_an_ordinary_one() {
        let cell = VersionedCell::new(&[1, 2]);
        assert_eq!(cell.replace_after_death(|&[a, b]| Ok::<_, ()>([b, a])), Ok(()));
        assert_eq!(cell.read(), [2, 1]);
        assert_eq!(cell.turn.load(Ordering::Relaxed), 2);
    }

    /// Given back, the turn would tell a reader of an old version that its copy is unharmed.
    #[test]
    fn a_failed_replacement_after_a_death_does_not_give_the_turn_back() {
        let cell = VersionedCell::new(&[1, 2]);
        left_by_a_dead_writer(&cell, &[77]);
        assert_eq!(cell.replace_after_death(|_| Err("no")), Err("no"));
        assert_eq!(cell.read(), [1, 2]);
        assert_eq!(cell.turn.load(Ordering::Relaxed), 2, "the words are published once more");
        assert!(matches!(cell.replace(|_| Ok::<_, ()>([3, 4])), Ok(Ok(()))));
        assert_eq!(cell.read(), [3, 4]);
    }

    #[test]
    fn a_writer_that_finds_another_at_work_gives_up() {
        let cell = VersionedCell::new(&[1]);
        let outer = cell.replace(|words| {
            assert!(cell.replace(|_| Ok::<_, ()>([7])).is_err());
            assert_eq!(cell.read(), *words, "no reader waits");
            Ok::<_, ()>([words[0] + 1])
        });
        assert!(matches!(outer, Ok(Ok(()))));
        assert_eq!(cell.read(), [2]);
    }
}
