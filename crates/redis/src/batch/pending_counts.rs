//! What a process knows of one key, and what it has not yet said.
//!
//! One word holds the cells that were admitted here and are not counted in `used`: those on their
//! way to the ledger, and those still to be sent. An admission swaps it; so does whoever flushes,
//! of whom there is one.
//!
//! **Orderings.** When an answer is there, `used` and `ends_at` are stored first, then the word
//! without what was on its way, with Release. A request loads the word first, with Acquire. So one
//! that no longer sees cells on their way sees them in `used`; one that still does may count them
//! twice, and then its swap fails if they are gone by then. It never counts them not at all. The
//! word counts landings, so that it is not the same again after one: a request would have to sleep
//! through 65,536 of them between its load and its swap to be misled.
//!
//! **Given up.** A tab with nothing unsaid whose window has ended may make room for another key. Its
//! word then says so for good: who still has it in hand opens the key anew, and nobody admits cells
//! on a tab that the next request does not see.
//!
//! Model: `loom-tests/tests/counts.rs`.

use core::time::Duration;

use tollgate::{DecisionParts, Tick};

use super::counter_store::WindowCount;
use crate::bounded_map::Entry;
use crate::sync::{AtomicU64, Ordering, PlantedFault, planted};

const CELL_BITS: u32 = 24;
/// The most cells that are unsaid.
pub(crate) const CELLS_MAX: u64 = (1 << CELL_BITS) - 1;

/// bits 63..48: landings, wrapping around | bits 47..24: on their way | bits 23..0: to be sent
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending(u64);

impl Pending {
    fn new(acknowledgements: u64, in_flight: u64, unsent: u64) -> Self {
        debug_assert!(in_flight <= CELLS_MAX && unsent <= CELLS_MAX, "as laid out");
        Self(acknowledgements << (2 * CELL_BITS) | in_flight << CELL_BITS | unsent)
    }

    fn acknowledgements(self) -> u64 {
        self.0 >> (2 * CELL_BITS)
    }

    fn in_flight(self) -> u64 {
        self.0 >> CELL_BITS & CELLS_MAX
    }

    fn unsent(self) -> u64 {
        self.0 & CELLS_MAX
    }

    fn total(self) -> u64 {
        self.in_flight() + self.unsent()
    }

    /// All bits: a sum that is never reached.
    const RETIRED: Self = Self(u64::MAX);

    fn acknowledged(self) -> Self {
        Self::new(self.acknowledgements().wrapping_add(1) & 0xffff, 0, self.unsent())
    }
}

/// What a request finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum AskOutcome {
    /// Go ahead.
    Admitted {
        /// How it stands.
        parts: DecisionParts,
        /// Nothing was unsent before: it has to be told that now something is.
        first: bool,
        /// As much is unsent as may be.
        full: bool,
    },
    /// There is no room in the window.
    Denied {
        /// How it stands.
        parts: DecisionParts,
        /// Until the window ends.
        after: Duration,
    },
    /// So much is unsaid that it has to be said first.
    Backlogged,
    /// The key is to be opened anew.
    Retired,
}

/// What is known of one key.
#[derive(Debug)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
pub struct PendingCounts {
    key: Box<[u8]>,
    word: AtomicU64,
    used: AtomicU64,
    ends_at_nanos: AtomicU64,
}

impl Entry for PendingCounts {
    fn new(key: &[u8]) -> Self {
        let [word, used, ends_at_nanos] = [0; 3].map(AtomicU64::new);
        Self { key: key.into(), word, used, ends_at_nanos }
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn retire(&self, now: Tick) -> bool {
        Self::retire(self, now)
    }

    fn unspent(&self) -> u64 {
        0
    }
}

#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
impl PendingCounts {
    /// Of a key that nothing is known of, to the models.
    #[cfg(tollgate_loom)]
    pub fn of_model() -> Self {
        Entry::new(b"key")
    }

    /// If nothing is unsaid and the window has ended, nothing is admitted from now on. Whether so.
    pub fn retire(&self, now: Tick) -> bool {
        let word = self.load();
        let ends_at = self.ends_at();
        let mark = || self.swap(word, Pending::RETIRED).is_ok();
        let is_idle = word.total() == 0 && now >= ends_at;
        word == Pending::RETIRED || is_idle && (planted(PlantedFault::GivenUpUnmarked) || mark())
    }

    fn ends_at(&self) -> Tick {
        Tick::from_nanos(self.ends_at_nanos.load(Ordering::Relaxed))
    }

    fn load(&self) -> Pending {
        // Acquire: pairs with the Release in land().
        Pending(self.word.load(Ordering::Acquire))
    }

    /// Admits `n` cells if the limit allows it and no more than `max` are then unsaid.
    pub fn ask(&self, n: u64, limit: u64, max: u64, now: Tick) -> AskOutcome {
        let mut word = self.load();
        loop {
            if word == Pending::RETIRED {
                return AskOutcome::Retired;
            }
            let ends_at = self.ends_at();
            let used = if now < ends_at { self.used.load(Ordering::Relaxed) } else { 0 };
            let total = word.total();
            let left = limit.saturating_sub(used).saturating_sub(total);
            let parts =
                |remaining| DecisionParts { limit, remaining, reset_after: ends_at.since(now) };
            if n > left && (now < ends_at || n > limit) {
                return AskOutcome::Denied { parts: parts(left), after: ends_at.since(now) };
            }
            // Nothing is known of this window but that it is full with what is unsaid.
            if n > left || (total > 0 && n > max.saturating_sub(total)) || n > CELLS_MAX - total {
                return AskOutcome::Backlogged;
            }
            let more = Pending::new(word.acknowledgements(), word.in_flight(), word.unsent() + n);
            if n == 0 {
                return AskOutcome::Admitted { parts: parts(left), first: false, full: false };
            }
            match self.swap(word, more) {
                Ok(()) => {
                    let (first, full) = (word.unsent() == 0, more.unsent() >= max);
                    return AskOutcome::Admitted { parts: parts(left - n), first, full };
                }
                Err(other) => word = other,
            }
        }
    }

    fn swap(&self, old: Pending, new: Pending) -> Result<(), Pending> {
        let swap = self.word.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire);
        swap.map(drop).map_err(Pending)
    }

    /// What is to be sent now.
    pub fn take_unsent(&self) -> u64 {
        self.change(|word| Pending::new(word.acknowledgements(), word.unsent(), 0)).unsent()
    }

    /// The answer is there: what was on its way is counted in it.
    pub fn acknowledge(&self, window: WindowCount, now: Tick) {
        // From now, not from when it was counted: so this window never ends before its time.
        let ends_at = now.saturating_add(window.ends_after);
        if planted(PlantedFault::LandedFirst) {
            self.change(Pending::acknowledged);
        }
        self.used.store(window.used, Ordering::Relaxed);
        self.ends_at_nanos.store(ends_at.as_nanos(), Ordering::Relaxed);
        if !planted(PlantedFault::LandedFirst) {
            self.change(Pending::acknowledged);
        }
    }

    /// No answer: it is to be sent again. Whether it already was to be sent anyway.
    pub fn restore_unsent(&self) -> bool {
        self.change(|word| Pending::new(word.acknowledgements(), 0, word.total())).unsent() > 0
    }

    /// Returns the word before. Only whoever flushes calls this.
    fn change(&self, next: impl Fn(Pending) -> Pending) -> Pending {
        let mut word = self.load();
        loop {
            match self.swap(word, next(word)) {
                Ok(()) => return word,
                Err(other) => word = other,
            }
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    fn window(used: u64, millis: u64) -> WindowCount {
        WindowCount { used, ends_after: Duration::from_millis(millis) }
    }

    fn is_admitted(found: AskOutcome) -> bool {
        matches!(found, AskOutcome::Admitted { .. })
    }

    proptest! {
        #[test]
        fn a_word_keeps_all(
            acknowledgements in 0_u64..1 << 16, in_flight in 0..=CELLS_MAX, unsent in 0..=CELLS_MAX,
        ) {
            let word = Pending::new(acknowledgements, in_flight, unsent);
            prop_assert!(word != Pending::RETIRED || in_flight + unsent > CELLS_MAX);
            let parts = (word.acknowledgements(), word.in_flight(), word.unsent());
            prop_assert_eq!(parts, (acknowledgements, in_flight, unsent));
            let acknowledged = word.acknowledged();
            prop_assert_eq!((acknowledged.in_flight(), acknowledged.unsent()), (0, unsent));
            prop_assert_eq!(acknowledged.acknowledgements(), (acknowledgements + 1) % (1 << 16));
        }
    }

    #[test]
    fn what_is_unsaid_counts_until_it_is_counted_elsewhere() {
        let counts = PendingCounts::new(b"a");
        assert!(is_admitted(counts.ask(3, 10, 5, at(0))));
        assert_eq!(counts.take_unsent(), 3);
        assert!(is_admitted(counts.ask(2, 10, 5, at(0))));
        assert_eq!(counts.ask(1, 10, 5, at(0)), AskOutcome::Backlogged, "3 on their way, 2 unsent");
        counts.acknowledge(window(6, 100), at(1));
        assert!(is_admitted(counts.ask(2, 10, 5, at(1))));
        let parts =
            DecisionParts { limit: 10, remaining: 0, reset_after: Duration::from_millis(60) };
        let denied = AskOutcome::Denied { parts, after: Duration::from_millis(60) };
        assert_eq!(counts.ask(1, 10, 5, at(41)), denied);
        assert!(!counts.retire(at(200)), "4 are unsent");
        assert_eq!(counts.take_unsent(), 4);
        assert!(!counts.restore_unsent());
        assert_eq!(counts.take_unsent(), 4, "again");
        counts.acknowledge(window(4, 100), at(150));
        assert!(!counts.retire(at(249)), "its window is open");
        assert!(is_admitted(counts.ask(0, 10, 5, at(249))));
        assert!(counts.retire(at(250)) && counts.retire(at(0)), "for good");
        for cells in [0, 1, 11] {
            assert_eq!(counts.ask(cells, 10, 5, at(300)), AskOutcome::Retired);
        }
    }

    #[test]
    fn what_can_never_fit_is_denied_and_what_fits_the_limit_alone_passes_alone() {
        let counts = PendingCounts::new(b"a");
        assert!(matches!(counts.ask(11, 10, 5, at(0)), AskOutcome::Denied { .. }));
        assert!(is_admitted(counts.ask(9, 10, 5, at(0))), "more than 5, but nothing else is unsaid");
        assert_eq!(counts.ask(1, 10, 5, at(0)), AskOutcome::Backlogged);
        assert!(is_admitted(counts.ask(0, 10, 5, at(0))));
        counts.take_unsent();
        counts.acknowledge(window(9, 10), at(0));
        assert!(is_admitted(counts.ask(1, 10, 5, at(0))));
    }
}
