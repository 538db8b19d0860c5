//! The pending counts of one key: a process's knowledge of the window, and the cells it has not yet sent.
//!
//! One atomic word holds the cells that are not counted in `used`: those in flight to the counter
//! store, and those still to be sent. Requests change it by compare-and-swap, and so does the one
//! task that sends counts.
//!
//! **Orderings.** When an answer arrives, the task stores `used` first, then `ends_at`, then the word
//! without the in-flight cells, the last two with Release. A request loads the word, then `ends_at`,
//! both with Acquire, and `used` last. A reader that no longer sees in-flight cells is guaranteed to
//! see them in `used`. A reader that still sees them may count them twice; if they are gone by then,
//! its compare-and-swap fails and it retries. Cells are never missed. A denial has no
//! compare-and-swap. A reader that sees the end of a new window sees `used` of that window, or later,
//! so no full window denies beyond its end. But a request between the store of `used` and that of
//! the word may be denied because it counts in-flight cells twice. The word counts
//! acknowledgements, which prevents ABA: to be misled, a request would have to sleep through 65,536
//! of them between its load and its compare-and-swap.
//!
//! **Retired.** Counts without pending cells whose window has ended may be evicted for another key.
//! Their word then has a mark that stays. A thread that still holds them looks the key up again, so no
//! cell is admitted on counts that the next request does not see.
//!
//! Model: `loom-tests/tests/pending_counts.rs`, run by `ci/check.sh loom`.

use core::time::Duration;

use tollgate::Tick;
use tollgate::decision::DecisionParts;

use super::counter_store::WindowCount;
use crate::bounded_map::Entry;
use crate::sync::{AtomicU64, Ordering, PlantedFault, planted};

const CELL_BITS: u32 = 24;
/// The largest number of pending cells.
pub(crate) const CELLS_MAX: u64 = (1 << CELL_BITS) - 1;

/// bits 63..48: acknowledgements, wrapping around | bits 47..24: in flight | bits 23..0: unsent
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

    /// All bits set: a total that is never reached.
    const RETIRED: Self = Self(u64::MAX);

    fn acknowledged(self) -> Self {
        Self::new(self.acknowledgements().wrapping_add(1) & 0xffff, 0, self.unsent())
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "the models use it")]
#[allow(clippy::exhaustive_enums, reason = "used by this crate only")]
pub enum AskOutcome {
    /// Admitted.
    Admitted {
        /// The state after it.
        parts: DecisionParts,
        /// Nothing was unsent before, so the counts must be queued.
        first: bool,
        /// The unsent cells have reached their maximum.
        full: bool,
    },
    /// The window has no room.
    Denied {
        /// The state now.
        parts: DecisionParts,
        /// How long until the window ends.
        after: Duration,
    },
    /// Too many cells are pending: they must be sent first.
    Backlogged,
    /// The counts were evicted: look the key up again.
    Retired,
}

/// The pending counts of one key.
#[derive(Debug)]
#[allow(unreachable_pub, reason = "the models use it")]
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

#[allow(unreachable_pub, reason = "the models use it")]
impl PendingCounts {
    /// Retires the counts if no cell is pending and the window has ended. Returns whether they are
    /// retired.
    pub fn retire(&self, now: Tick) -> bool {
        let word = self.load();
        let ends_at = self.ends_at();
        let mark = || self.swap(word, Pending::RETIRED).is_ok();
        let is_idle = word.total() == 0 && now >= ends_at;
        word == Pending::RETIRED || is_idle && (planted(PlantedFault::RetiredUnmarked) || mark())
    }

    fn ends_at(&self) -> Tick {
        // Acquire: pairs with the Release in acknowledge().
        Tick::from_nanos(self.ends_at_nanos.load(Ordering::Acquire))
    }

    fn load(&self) -> Pending {
        // Acquire: pairs with the Release in acknowledge().
        Pending(self.word.load(Ordering::Acquire))
    }

    /// Admits `n` cells if the limit allows it and at most `max` are then pending.
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
            // The window is full with pending cells, or unknown: an answer must come first.
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

    /// Moves the unsent cells to in flight, and returns how many there are.
    pub fn take_unsent(&self) -> u64 {
        self.change(|word| Pending::new(word.acknowledgements(), word.unsent(), 0)).unsent()
    }

    /// The answer arrived: it counts the cells that were in flight.
    pub fn acknowledge(&self, window: WindowCount, now: Tick) {
        // Counted from now, not from when it was answered, so this window ends too early only if this
        // clock gains more than the answer's way on the store's.
        let ends_at = now.saturating_add(window.ends_after);
        if planted(PlantedFault::AcknowledgedFirst) {
            self.change(Pending::acknowledged);
        }
        self.used.store(window.used, Ordering::Relaxed);
        // Release: a request that sees this end sees the `used` of the same window. With Relaxed, the
        // window before might deny it until this end.
        self.ends_at_nanos.store(ends_at.as_nanos(), Ordering::Release);
        if !planted(PlantedFault::AcknowledgedFirst) {
            self.change(Pending::acknowledged);
        }
    }

    /// No answer: the in-flight cells are unsent again. Returns whether some were unsent already.
    pub fn restore_unsent(&self) -> bool {
        self.change(|word| Pending::new(word.acknowledgements(), 0, word.total())).unsent() > 0
    }

    /// Returns the word before. Only the task that sends counts calls this.
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

#[cfg(test)]
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
        fn a_word_round_trips(
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
    fn pending_cells_count_until_the_store_counts_them() {
        let counts = PendingCounts::new(b"a");
        assert!(is_admitted(counts.ask(3, 10, 5, at(0))));
        assert_eq!(counts.take_unsent(), 3);
        assert!(is_admitted(counts.ask(2, 10, 5, at(0))));
        assert_eq!(counts.ask(1, 10, 5, at(0)), AskOutcome::Backlogged, "3 in flight, 2 unsent");
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
    fn a_request_above_the_limit_is_denied_and_a_large_one_passes_alone() {
        let counts = PendingCounts::new(b"a");
        assert!(matches!(counts.ask(11, 10, 5, at(0)), AskOutcome::Denied { .. }));
        assert!(
            is_admitted(counts.ask(9, 10, 5, at(0))),
            "more than 5, but nothing else is pending"
        );
        assert_eq!(counts.ask(1, 10, 5, at(0)), AskOutcome::Backlogged);
        assert!(is_admitted(counts.ask(0, 10, 5, at(0))));
        counts.take_unsent();
        counts.acknowledge(window(9, 10), at(0));
        assert!(is_admitted(counts.ask(1, 10, 5, at(0))));
    }
}
