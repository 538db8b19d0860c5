//! The only file that knows about loom, and about shuttle.
//!
//! Everything that shares a word between threads takes its atomics from here. Under
//! `--cfg tollgate_loom` they are loom's, so that the models in `loom-tests/` explore the very
//! code that ships; under `--cfg tollgate_shuttle` shuttle decides at every access which thread goes
//! on, for the histories in `verify/shuttle/`. (The flags are the project's own: plain `loom` would
//! switch dependencies too.)

/// Whether this is built for models, which have few and small tables, so that they are full.
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
    pub(crate) use loom::sync::atomic::fence;

    /// A loom atomic whose every access is a point where threads are interleaved.
    ///
    /// Loom 0.7 remembers only the last access to an atomic. Where a thread loads a word and
    /// then swaps it, the swap is compared with the thread's own load, and a load by another
    /// thread before that goes unnoticed: of "load" against "load, then swap" loom explores one
    /// interleaving. So each access here first modifies a second atomic, which makes all of them
    /// depend on one another, while loads of the word itself still return stale values too.
    ///
    /// That doubles the steps. Models of three threads ask for the latest values instead (see
    /// [`Loads`]): a load is then a modification of the word itself.
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
            if super::model::loads() == super::Loads::Any {
                self.turn.fetch_add(0, Ordering::Relaxed);
            }
            &self.word
        }

        pub fn load(&self, order: Ordering) -> u64 {
            match super::model::loads() {
                super::Loads::Any => self.interleave().load(order),
                super::Loads::Latest => self.word.fetch_add(0, order),
            }
        }

        pub fn store(&self, value: u64, order: Ordering) {
            match super::model::loads() {
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
            self.interleave().compare_exchange(current, new, success, failure)
        }

        pub fn fetch_update(
            &self,
            success: Ordering,
            failure: Ordering,
            update: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            self.interleave().fetch_update(success, failure, update)
        }
    }
}

#[cfg(tollgate_shuttle)]
mod imp {
    pub(crate) use core::sync::atomic::Ordering;

    std::thread_local! {
        /// Shuttle runs all threads of a history on one, and looks for another to go on with
        /// whenever one of its own atomics is used.
        static TURN: shuttle::sync::atomic::AtomicBool =
            const { shuttle::sync::atomic::AtomicBool::new(false) };
    }

    /// Lets shuttle choose who goes on.
    fn interleave() {
        TURN.with(|turn| turn.load(Ordering::SeqCst));
    }

    /// Histories are sequentially consistent without one.
    pub(crate) fn fence(_: Ordering) {}

    /// A word before whose every access another thread may come.
    ///
    /// No wider than what ships, and as valid when it is zeroed memory: the tables are those that
    /// ship. Shuttle's own atomics are neither.
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

/// For what no decision touches: lines of those who wait.
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

/// A time in nanoseconds that several threads read and its owner moves.
///
/// Relaxed throughout: a reader that sees an older time is a reader with a stale clock, which
/// every algorithm here accepts without granting more.
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

/// A count that is no part of any protocol, so that loom need not explore it.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
pub(crate) struct RelaxedCounter(core::sync::atomic::AtomicU64);

#[cfg(feature = "std")]
impl RelaxedCounter {
    /// The count before.
    pub(crate) fn add_one(&self) -> u64 {
        self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed)
    }

    /// Where no other thread adds: without a locked instruction, which costs more than a decision.
    #[inline]
    pub(crate) fn add_one_alone(&self) {
        self.0.store(self.read().wrapping_add(1), core::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }
}

/// Numbers below 64, each of which one owner has at a time.
///
/// Whoever takes a number sees what its owners before have written: they gave it back with Release,
/// and it is taken with Acquire.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
#[cfg_attr(
    not(any(tollgate_loom, tollgate_shuttle)),
    allow(unreachable_pub, reason = "public to the models")
)]
pub struct ThreadSlots(AtomicU64);

#[cfg(feature = "std")]
#[cfg_attr(
    not(any(tollgate_loom, tollgate_shuttle)),
    allow(unreachable_pub, reason = "public to the models")
)]
impl ThreadSlots {
    /// How many there are.
    pub const COUNT: usize = 64;

    /// The least number that nobody has.
    pub fn take(&self) -> Option<usize> {
        let order =
            if planted(Fault::NumbersUnordered) { Ordering::Relaxed } else { Ordering::Acquire };
        let next = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        let taken = self.0.fetch_update(order, Ordering::Relaxed, next).ok()?;
        Some(taken.trailing_ones() as usize)
    }

    /// Lets others have it.
    pub fn refund(&self, number: usize) {
        let next = |taken: u64| Some(taken & !(1 << number));
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, next);
    }
}

#[cfg(all(feature = "std", not(any(tollgate_loom, tollgate_shuttle))))]
mod number {
    use super::{AtomicU64, ThreadSlots};
    use core::cell::Cell;
    use core::sync::atomic::{AtomicUsize, Ordering};

    static NUMBERS: ThreadSlots = ThreadSlots(AtomicU64::new(0));

    std::thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
        /// Apart, because what has to be dropped takes longer to read.
        static LEASE: Cell<Option<Lease>> = const { Cell::new(None) };
    }

    /// Ends with its thread.
    struct Lease(usize);

    impl Drop for Lease {
        fn drop(&mut self) {
            MINE.set(usize::MAX);
            NUMBERS.refund(self.0);
        }
    }

    /// A number that no other thread has now: below [`ThreadSlots::COUNT`] while no more threads than
    /// that have one. For what a thread keeps on cache lines of its own.
    #[inline]
    pub(crate) fn thread_number() -> usize {
        match thread_number_so_far() {
            usize::MAX => take(),
            number => number,
        }
    }

    /// The same, or the largest number of all for a thread that has not asked for one yet.
    #[inline(always)]
    pub(crate) fn thread_number_so_far() -> usize {
        MINE.get()
    }

    #[cold]
    fn take() -> usize {
        static OTHERS: AtomicUsize = AtomicUsize::new(ThreadSlots::COUNT);
        // A thread that is ending has no lease any more.
        let lease = |lease: &Cell<Option<Lease>>| {
            let number = NUMBERS.take()?;
            lease.set(Some(Lease(number)));
            Some(number)
        };
        let number = LEASE.try_with(lease).ok().flatten();
        let number = number.unwrap_or_else(|| OTHERS.fetch_add(1, Ordering::Relaxed));
        MINE.set(number);
        number
    }

    /// Makes this thread another's double, for tests in which several take turns.
    #[cfg(test)]
    pub(crate) fn act_as_thread(number: usize) {
        MINE.set(number);
    }
}

/// The number of a model's thread: loom runs all of them on one.
#[cfg(tollgate_loom)]
mod number {
    pub(crate) fn thread_number() -> usize {
        // Loom shows the number of a thread in a model, but gives it to nobody.
        let shown = format!("{:?}", loom::thread::current().id());
        let digits = shown.trim_matches(|sign: char| !sign.is_ascii_digit());
        digits.parse().expect("loom shows the number")
    }

    pub(crate) fn thread_number_so_far() -> usize {
        thread_number()
    }
}

/// The same of a history's thread: shuttle, too, runs all of them on one.
#[cfg(tollgate_shuttle)]
mod number {
    pub(crate) fn thread_number() -> usize {
        shuttle::current::me().into()
    }

    pub(crate) fn thread_number_so_far() -> usize {
        thread_number()
    }
}

#[cfg(all(test, feature = "std", not(any(tollgate_loom, tollgate_shuttle))))]
pub(crate) use number::act_as_thread;
#[cfg(feature = "std")]
pub(crate) use number::{thread_number, thread_number_so_far};

/// A mistake that the models in `loom-tests/`, or the histories in `verify/shuttle/`, must catch. None
/// exists outside of them.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(tollgate_loom, tollgate_shuttle)),
    allow(unreachable_pub, reason = "public to the models")
)]
#[allow(clippy::exhaustive_enums, reason = "for the models only")]
pub enum Fault {
    /// A claim is committed without a survey of the other candidates.
    SurveySkipped,
    /// The survey is not ordered after the claim.
    FenceLeftOut,
    /// A slot changes hands without a new generation.
    GenerationKept,
    /// All claims of a key in compact slots look alike.
    NonceKept,
    /// A claim is committed that was first seen in the survey itself.
    ClaimJustSeen,
    /// A head moves on before what it alone knew is in the ring.
    PutLeftOut,
    /// A word is put in the ring for a head that may have moved on.
    PutUnchecked,
    /// A denial, or a look, by a ring does not load the head again.
    RecheckSkipped,
    /// Cells are given back to whoever has the slot by then.
    LifeUnchecked,
    /// What a lost race was to write is written over what has won it.
    RevisionStale,
    /// A lane spends its cells for ever.
    LeaseNeverExpires,
    /// A thread's share of a key is spent however old it is.
    ShareNeverExpires,
    /// A thread's share is spent by whatever key is asked for.
    ShareUncompared,
    /// All threads have the same share.
    ThreadsTakenForOne,
    /// A reader takes the words of a quota for one version without looking whether they are.
    TornQuota,
    /// A number is taken without seeing what its last owner wrote.
    NumbersUnordered,
    /// A composite charges its first limits without having looked at the later ones.
    LaterNotLookedAt,
    /// A composite that denies keeps what it has charged.
    GiveBackLeftOut,
    /// A composite that denies gives back twice what it has charged.
    GivenBackTwice,
    /// Cells are given back by the time that they were charged by.
    GivenBackByOldTime,
    /// A head is taken for the key's whatever its generation.
    GenerationUnchecked,
    /// A reset, or a look, stops at a claim of the key, though it has its slot elsewhere.
    ClaimHidesSlot,
    /// A key that has just got its slot takes it for another's, and finds no place.
    OwnSlotUnseen,
    /// A request displaces claims as often as it finds one.
    DisplacesAgain,
    /// A swap is a load and a store.
    #[cfg_attr(
        not(any(tollgate_loom, tollgate_shuttle)),
        allow(dead_code, reason = "in histories only")
    )]
    LoadThenStore,
    /// Cells are counted in 32 bits, and wrap around.
    CellsWrap,
}

/// Whether a model has planted this fault.
#[cfg(all(feature = "std", not(any(tollgate_loom, tollgate_shuttle))))]
#[inline]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

/// What the loads of a model may return.
#[cfg(tollgate_loom)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "for the models only")]
pub enum Loads {
    /// Any value that the memory model allows, stale ones too.
    Any,
    /// The latest value, for models that would otherwise take hours.
    Latest,
}

/// Choices of a model, for the thread of its test: all of a model's threads run on it.
#[cfg(any(tollgate_loom, tollgate_shuttle))]
mod model {
    use super::Fault;
    #[cfg(tollgate_loom)]
    use super::Loads;
    use std::cell::Cell;

    std::thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
        #[cfg(tollgate_loom)]
        static LOADS: Cell<Loads> = const { Cell::new(Loads::Any) };
    }

    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Plants a fault for the rest of this test.
    pub fn plant(fault: Fault) {
        PLANTED.set(Some(fault));
    }

    #[cfg(tollgate_loom)]
    pub(crate) fn loads() -> Loads {
        LOADS.get()
    }

    /// Says what loads may return for the rest of this test.
    #[cfg(tollgate_loom)]
    pub fn let_loads_return(loads: Loads) {
        LOADS.set(loads);
    }
}

#[cfg(tollgate_loom)]
pub use model::let_loads_return;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub use model::plant;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) use model::planted;

#[cfg(all(test, feature = "std", not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_one_owners_until_it_is_given_back() {
        let numbers = ThreadSlots::default();
        let all: Vec<_> = (0..ThreadSlots::COUNT).map(|_| numbers.take()).collect();
        assert_eq!(all, (0..ThreadSlots::COUNT).map(Some).collect::<Vec<_>>());
        assert_eq!(numbers.take(), None);
        numbers.refund(63);
        numbers.refund(5);
        assert_eq!([(); 3].map(|()| numbers.take()), [Some(5), Some(63), None]);
    }

    #[test]
    fn threads_that_come_and_go_have_low_numbers() {
        for _ in 0..500 {
            let number =
                std::thread::spawn(|| [thread_number(), thread_number()]).join().expect("no panic");
            assert!(number[0] == number[1] && number[0] < ThreadSlots::COUNT);
        }
    }
}
