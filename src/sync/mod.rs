//! The facade over the atomics of the standard library, loom and shuttle.
//!
//! Everything that shares a word between threads takes its atomics from here. Under
//! `--cfg tollgate_loom` they are loom's, so that the models in `loom-tests/` explore the very code
//! that ships. Under `--cfg tollgate_shuttle` shuttle decides at every access which thread runs
//! next, for the histories in `verify/shuttle/`. (The flags are the project's own: plain `loom`
//! would switch dependencies too.) No other room names loom or shuttle.

#[cfg(any(feature = "shared-memory", tollgate_loom))]
mod derived;
#[cfg(feature = "std")]
mod fault;
#[cfg(feature = "shared-memory")]
mod file_lock;
#[cfg(feature = "std")]
mod own_thread;
#[cfg(feature = "std")]
mod stamped;
#[cfg(tollgate_loom)]
mod stop;
#[cfg(feature = "std")]
mod thread_slots;
#[cfg(feature = "std")]
mod versioned;

#[cfg(all(feature = "shared-memory", not(tollgate_loom)))]
pub(crate) use derived::DerivedCell;
#[cfg(tollgate_loom)]
pub use derived::DerivedCell;
#[cfg(tollgate_shuttle)]
pub use fault::Fault;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub use fault::plant;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) use fault::planted;
#[cfg(feature = "std")]
pub(crate) use fault::wait_for_others;
#[cfg(tollgate_loom)]
pub use fault::{Fault, Loads, let_loads_return};
#[cfg(all(feature = "std", not(tollgate_loom), not(tollgate_shuttle)))]
pub(crate) use fault::{Fault, planted};
#[cfg(feature = "shared-memory")]
pub(crate) use file_lock::{FileLock, InBlock, LockableFile};
#[cfg(feature = "std")]
pub(crate) use own_thread::OwnThread;
#[cfg(feature = "std")]
pub(crate) use stamped::StampedCell;
#[cfg(tollgate_loom)]
pub use stop::stops_at;
#[cfg(feature = "std")]
#[cfg_attr(
    not(any(tollgate_loom, tollgate_shuttle)),
    allow(unreachable_pub, reason = "public to the models")
)]
pub use thread_slots::ThreadSlots;
#[cfg(all(test, feature = "std", not(any(tollgate_loom, tollgate_shuttle))))]
pub(crate) use thread_slots::act_as_thread;
#[cfg(feature = "std")]
pub(crate) use thread_slots::{thread_slot, thread_slot_so_far};
#[cfg(all(feature = "std", not(tollgate_loom)))]
pub(crate) use versioned::VersionedCell;
#[cfg(tollgate_loom)]
pub use versioned::{Busy, VersionedCell};

/// Whether this is built for models, whose tables are few and small, so that they are full.
#[cfg(feature = "std")]
pub(crate) const MODEL: bool = cfg!(any(tollgate_loom, tollgate_shuttle));

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod imp {
    #[cfg(feature = "std")]
    pub(crate) use core::sync::atomic::fence;
    #[cfg(target_has_atomic = "64")]
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
}

#[cfg(tollgate_loom)]
mod imp {
    pub use loom::sync::atomic::Ordering;

    use crate::sync::stop::{has_stopped, takes_step};

    pub(crate) fn fence(order: Ordering) {
        if takes_step() {
            loom::sync::atomic::fence(order);
        }
    }

    /// A loom atomic of which every access is a point where threads are interleaved.
    ///
    /// Loom 0.7 remembers only the last access to an atomic. If a thread loads a word and then swaps
    /// it, loom compares the swap with the thread's own load, and misses an earlier load by another
    /// thread: of "load" against "load, then swap" it explores one interleaving only. So each
    /// access here first modifies a second atomic, which makes all of them depend on one another.
    /// Loads of the word itself still return stale values too.
    ///
    /// That doubles the steps. Models of three threads ask for the latest values instead (see
    /// [`Loads`]): a load is then a modification of the word itself.
    ///
    /// A thread that [has stopped](crate::sync::stop) accesses nothing.
    #[derive(Debug, Default)]
    pub struct AtomicU64 {
        word: loom::sync::atomic::AtomicU64,
        turn: loom::sync::atomic::AtomicU64,
    }

    #[allow(missing_docs, reason = "for the models only, and named as usual")]
    impl AtomicU64 {
        pub fn new(value: u64) -> Self {
            Self { word: loom::sync::atomic::AtomicU64::new(value), turn: Default::default() }
        }

        fn interleave(&self) -> &loom::sync::atomic::AtomicU64 {
            if super::fault::loads() == super::Loads::Any {
                self.turn.fetch_add(0, Ordering::Relaxed);
            }
            &self.word
        }

        pub fn load(&self, order: Ordering) -> u64 {
            if has_stopped() {
                return 0;
            }
            match super::fault::loads() {
                super::Loads::Any => self.interleave().load(order),
                super::Loads::Latest => self.word.fetch_add(0, order),
            }
        }

        pub fn store(&self, value: u64, order: Ordering) {
            if !takes_step() {
                return;
            }
            match super::fault::loads() {
                super::Loads::Any => self.interleave().store(value, order),
                // Beside loads that are modifications, a plain store is not always the latest.
                super::Loads::Latest => {
                    self.word.swap(value, order);
                }
            }
        }

        pub fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            if !takes_step() {
                return Ok(current);
            }
            self.interleave().compare_exchange(current, new, success, failure)
        }

        pub fn fetch_update(
            &self,
            success: Ordering,
            failure: Ordering,
            update: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            if !takes_step() {
                return Ok(0);
            }
            self.interleave().fetch_update(success, failure, update)
        }
    }
}

#[cfg(tollgate_shuttle)]
mod imp {
    pub(crate) use core::sync::atomic::Ordering;

    std::thread_local! {
        /// Shuttle runs all threads of a history on one thread, and chooses the next one whenever one
        /// of its own atomics is used.
        static TURN: shuttle::sync::atomic::AtomicBool =
            const { shuttle::sync::atomic::AtomicBool::new(false) };
    }

    /// Lets shuttle choose the thread that runs next.
    fn interleave() {
        TURN.with(|turn| turn.load(Ordering::SeqCst));
    }

    /// Histories are sequentially consistent without a fence.
    pub(crate) fn fence(_: Ordering) {}

    /// A word of which every access may be preceded by another thread's.
    ///
    /// It is no wider than the word that ships, and as valid in zeroed memory, so the tables are
    /// those that ship. Shuttle's own atomics are neither.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct AtomicU64(core::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub(crate) const fn new(value: u64) -> Self {
            Self(core::sync::atomic::AtomicU64::new(value))
        }

        pub(crate) fn load(&self, _: Ordering) -> u64 {
            interleave();
            self.0.load(Ordering::SeqCst)
        }

        pub(crate) fn store(&self, value: u64, _: Ordering) {
            interleave();
            self.0.store(value, Ordering::SeqCst);
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            _: Ordering,
            _: Ordering,
        ) -> Result<u64, u64> {
            if super::planted(super::Fault::LoadThenStore) {
                let actual = self.load(Ordering::SeqCst);
                if actual != current {
                    return Err(actual);
                }
                self.store(new, Ordering::SeqCst);
                return Ok(actual);
            }
            interleave();
            self.0.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
        }

        pub(crate) fn fetch_update(
            &self,
            _: Ordering,
            _: Ordering,
            mut update: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            let mut seen = self.load(Ordering::SeqCst);
            while let Some(next) = update(seen) {
                match self.compare_exchange(seen, next, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => return Ok(seen),
                    Err(actual) => seen = actual,
                }
            }
            Err(seen)
        }
    }
}

/// A lock for wait queues, which no decision touches.
#[cfg(all(feature = "std", not(any(tollgate_loom, tollgate_shuttle))))]
#[allow(clippy::disallowed_types, reason = "no decision takes it")]
pub(crate) type Mutex<T> = std::sync::Mutex<T>;
#[cfg(all(feature = "std", not(any(tollgate_loom, tollgate_shuttle))))]
pub(crate) use std::sync::MutexGuard;
#[cfg(all(feature = "std", tollgate_shuttle))]
pub(crate) type Mutex<T> = shuttle::sync::Mutex<T>;
#[cfg(all(feature = "std", tollgate_shuttle))]
pub(crate) use shuttle::sync::MutexGuard;
#[cfg(all(feature = "std", tollgate_loom))]
pub(crate) type Mutex<T> = loom::sync::Mutex<T>;
#[cfg(all(feature = "std", tollgate_loom))]
pub(crate) use loom::sync::MutexGuard;

#[cfg(feature = "std")]
pub(crate) use imp::fence;
#[cfg(target_has_atomic = "64")]
pub(crate) use imp::{AtomicU64, Ordering};

/// The atomics of models, for the crates around this one.
#[cfg(tollgate_loom)]
pub mod model_words {
    pub use super::imp::{AtomicU64, Ordering};
}

/// A time in nanoseconds that several threads read and its owner advances.
///
/// Relaxed throughout: a reader that sees an older time is a reader with a stale clock, which every
/// algorithm here accepts without admitting more.
#[cfg(target_has_atomic = "64")]
#[derive(Default)]
pub(crate) struct SharedNanos(AtomicU64);

#[cfg(target_has_atomic = "64")]
impl SharedNanos {
    #[inline]
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, nanos: u64) {
        self.0.store(nanos, Ordering::Relaxed);
    }

    /// Moves the time forward, at most to the end of its range.
    pub(crate) fn advance(&self, span_nanos: u64) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |nanos| {
            Some(nanos.saturating_add(span_nanos))
        });
    }
}

#[cfg(target_has_atomic = "64")]
impl core::fmt::Debug for SharedNanos {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.read().fmt(f)
    }
}

/// A setting, such as a limit, that may be changed while threads decide by it.
///
/// Relaxed: a decision depends on the value that it has read, and on no other memory written before that.
#[cfg(feature = "std")]
#[derive(Debug)]
pub(crate) struct SharedValue(AtomicU64);

#[cfg(feature = "std")]
impl SharedValue {
    pub(crate) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A count that is no part of any protocol, so loom need not explore it.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
pub(crate) struct RelaxedCounter(core::sync::atomic::AtomicU64);

#[cfg(feature = "std")]
impl RelaxedCounter {
    /// Adds one, and returns the count before.
    pub(crate) fn add_one(&self) -> u64 {
        self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed)
    }

    /// Adds one where no other thread adds. It needs no locked instruction, which would cost more than
    /// a decision.
    #[inline]
    pub(crate) fn add_one_alone(&self) {
        self.0.store(self.read().wrapping_add(1), core::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }
}
