//! Thread slots: a small number for each thread, for what it keeps on cache lines of its own.
//!
//! # Protocol
//!
//! A word has a bit for each slot. A thread sets the lowest clear bit by a compare-and-swap with Acquire, and
//! clears it with Release when it ends. So it sees what earlier owners of the slot have written.
//!
//! # Guarded by
//!
//! `loom-tests/tests/thread_slots.rs`, run by `ci/check.sh loom`. Ordinary tests do not notice a wrong
//! ordering here.

use super::{AtomicU64, Fault, Ordering, planted};

#[cfg(tollgate_loom)]
pub(crate) use of_loom::{thread_slot, thread_slot_so_far};
#[cfg(tollgate_shuttle)]
pub(crate) use of_shuttle::{thread_slot, thread_slot_so_far};
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) use of_threads::{thread_slot, thread_slot_so_far};

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
pub(crate) use of_threads::act_as_thread;

/// Slots below 64, each of which has one owner at a time.
///
/// An owner sees what the owners before it have written: they release the slot with Release, and it
/// is taken with Acquire.
#[derive(Debug, Default)]
#[cfg_attr(
    not(any(tollgate_loom, tollgate_shuttle)),
    allow(unreachable_pub, reason = "public to the models")
)]
pub struct ThreadSlots(AtomicU64);

#[cfg_attr(
    not(any(tollgate_loom, tollgate_shuttle)),
    allow(unreachable_pub, reason = "public to the models")
)]
impl ThreadSlots {
    /// How many there are.
    pub const COUNT: usize = 64;

    /// Takes the lowest free slot.
    pub fn take(&self) -> Option<usize> {
        let order = match planted(Fault::ThreadSlotsUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Acquire,
        };
        let next = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        let taken = self.0.fetch_update(order, Ordering::Relaxed, next).ok()?;
        Some(taken.trailing_ones() as usize)
    }

    /// Releases a slot, which another owner may take then.
    pub fn release(&self, slot: usize) {
        let next = |taken: u64| Some(taken & !(1 << slot));
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, next);
    }
}

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod of_threads {
    use super::{AtomicU64, ThreadSlots};
    use core::cell::Cell;
    use core::sync::atomic::{AtomicUsize, Ordering};

    static SLOTS: ThreadSlots = ThreadSlots(AtomicU64::new(0));

    std::thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
        /// Separate from the number, because a value with a destructor takes longer to read.
        static OWNED: Cell<Option<OwnedSlot>> = const { Cell::new(None) };
    }

    /// A thread's slot, released when the thread ends.
    struct OwnedSlot(usize);

    impl Drop for OwnedSlot {
        fn drop(&mut self) {
            MINE.set(usize::MAX);
            SLOTS.release(self.0);
        }
    }

    /// A number that no other thread has now: below [`ThreadSlots::COUNT`] while no more threads than
    /// that have one.
    #[inline]
    pub(crate) fn thread_slot() -> usize {
        match thread_slot_so_far() {
            usize::MAX => take(),
            slot => slot,
        }
    }

    /// The same, or `usize::MAX` for a thread that has not asked for one yet.
    #[inline(always)]
    pub(crate) fn thread_slot_so_far() -> usize {
        MINE.get()
    }

    #[cold]
    fn take() -> usize {
        static OTHERS: AtomicUsize = AtomicUsize::new(ThreadSlots::COUNT);
        let own = |owned: &Cell<Option<OwnedSlot>>| {
            let slot = SLOTS.take()?;
            owned.set(Some(OwnedSlot(slot)));
            Some(slot)
        };
        // A thread that is ending cannot own a slot any more.
        let slot = OWNED.try_with(own).ok().flatten();
        let slot = slot.unwrap_or_else(|| OTHERS.fetch_add(1, Ordering::Relaxed));
        MINE.set(slot);
        slot
    }

    /// Makes this thread a double of another, for tests in which several take turns.
    #[cfg(test)]
    pub(crate) fn act_as_thread(slot: usize) {
        MINE.set(slot);
    }
}

/// The slots of a model's threads, which loom runs on one thread.
#[cfg(tollgate_loom)]
mod of_loom {
    pub(crate) fn thread_slot() -> usize {
        // Loom prints the number of a thread in a model, but has no getter for it.
        let printed = format!("{:?}", loom::thread::current().id());
        let digits = printed.trim_matches(|sign: char| !sign.is_ascii_digit());
        digits.parse().expect("loom prints the number")
    }

    pub(crate) fn thread_slot_so_far() -> usize {
        thread_slot()
    }
}

/// The slots of a history's threads, which shuttle runs on one thread.
#[cfg(tollgate_shuttle)]
mod of_shuttle {
    pub(crate) fn thread_slot() -> usize {
        shuttle::current::me().into()
    }

    pub(crate) fn thread_slot_so_far() -> usize {
        thread_slot()
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_owner_until_it_is_released() {
        let slots = ThreadSlots::default();
        let all: Vec<_> = (0..ThreadSlots::COUNT).map(|_| slots.take()).collect();
        assert_eq!(all, (0..ThreadSlots::COUNT).map(Some).collect::<Vec<_>>());
        assert_eq!(slots.take(), None);
        slots.release(63);
        slots.release(5);
        assert_eq!([(); 3].map(|()| slots.take()), [Some(5), Some(63), None]);
    }

    #[test]
    fn threads_that_come_and_go_have_low_slots() {
        for _ in 0..500 {
            let slot =
                std::thread::spawn(|| [thread_slot(), thread_slot()]).join().expect("no panic");
            assert!(slot[0] == slot[1] && slot[0] < ThreadSlots::COUNT);
        }
    }

    /// A thread that is ending has given its slot back. It asks once more while its last variables are dropped.
    #[cfg(target_os = "linux")]
    #[test]
    fn threads_that_are_ending_have_numbers_of_their_own() {
        use std::cell::RefCell;
        use std::sync::mpsc::{Sender, channel};

        struct Late(Sender<usize>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0.send(thread_slot()).expect("a test waits");
            }
        }
        std::thread_local!(static LATE: RefCell<Option<Late>> = const { RefCell::new(None) });
        let late_number = || {
            let (tell, told) = channel();
            let ended = std::thread::spawn(move || {
                // Made before the slot, and dropped after it.
                LATE.with(|late| *late.borrow_mut() = Some(Late(tell)));
                thread_slot()
            });
            let slot = ended.join().expect("no panic");
            assert!(slot < ThreadSlots::COUNT);
            told.recv().expect("it was dropped")
        };
        let [first, second] = [late_number(), late_number()];
        assert!(ThreadSlots::COUNT <= first && first < second, "{first} and {second}");
    }
}
