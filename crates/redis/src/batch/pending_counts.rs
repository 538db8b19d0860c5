//! The pending counts of one key: a process's knowledge of the window, and the cells it has not yet sent.
//!
//! One atomic word holds the pending cells: those in flight to the counter store, and those still to
//! be sent. Requests change it by compare-and-swap, and so does the one task that sends counts. It
//! also holds the number of the last acknowledgement. A second word holds the cells that the store has
//! counted, and the number of the acknowledgement that brought them.
//!
//! **Protocol.** When an answer arrives, the task stores the counted cells first, then `ends_at`, then
//! the word without the in-flight cells. A request loads the word, then `ends_at`, then the counted
//! cells. If these are of a later acknowledgement than the word, they include the cells in flight, so
//! the request does not add those. The word may be older still: cells that it shows as unsent may have
//! been sent and counted since. So an admission is a compare-and-swap of the word, a denial loads the
//! word again, and both retry if it has changed. It changes only if another thread makes progress.
//!
//! **Orderings.** The three stores are Release, and the loads are Acquire. A reader that no longer sees
//! in-flight cells is guaranteed to see them counted, so cells are never missed. A reader that sees
//! the end of a new window sees the count of that window, or later, so no full window denies beyond
//! its end. A reader that sees a count, and then loads the word again, no longer sees that count's
//! cells as unsent, so no cell counts twice in a denial. The number prevents ABA: to be misled, a
//! request would have to sleep through 65,536 acknowledgements after its load of the word.
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
/// The numbers of acknowledgements are above these bits, in both words.
const NUMBER_SHIFT: u32 = 2 * CELL_BITS;
const NUMBER_MAX: u64 = u64::MAX >> NUMBER_SHIFT;

/// bits 63..48: acknowledgements, wrapping around | bits 47..24: in flight | bits 23..0: unsent
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending(u64);

impl Pending {
    fn new(acknowledgements: u64, in_flight: u64, unsent: u64) -> Self {
        debug_assert!(in_flight <= CELLS_MAX && unsent <= CELLS_MAX, "as laid out");
        Self(acknowledgements << NUMBER_SHIFT | in_flight << CELL_BITS | unsent)
    }

    fn acknowledgements(self) -> u64 {
        self.0 >> NUMBER_SHIFT
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

    fn next_acknowledgement(self) -> u64 {
        (self.acknowledgements() + 1) & NUMBER_MAX
    }

    fn acknowledged(self) -> Self {
        Self::new(self.next_acknowledgement(), 0, self.unsent())
    }
}

/// bits 63..48: the acknowledgement that brought it | bits 47..0: cells used in the window, saturating
///
/// A limit is at most [`CELLS_MAX`], so a count that saturates is above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted(u64);

impl Counted {
    const USED_MAX: u64 = (1 << NUMBER_SHIFT) - 1;

    fn new(acknowledgement: u64, used: u64) -> Self {
        Self(acknowledgement << NUMBER_SHIFT | used.min(Self::USED_MAX))
    }

    fn acknowledgement(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }

    fn used(self) -> u64 {
        self.0 & Self::USED_MAX
    }

    /// The used cells, and the pending ones that are not among them.
    fn beside(self, word: Pending) -> (u64, u64) {
        let is_of_word = self.acknowledgement() == word.acknowledgements();
        match is_of_word || planted(PlantedFault::InFlightCountedTwice) {
            true => (self.used(), word.total()),
            false => (self.used(), word.unsent()),
        }
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
    counted: AtomicU64,
    ends_at_nanos: AtomicU64,
}

impl Entry for PendingCounts {
    fn new(key: &[u8]) -> Self {
        let [word, counted, ends_at_nanos] = [0; 3].map(AtomicU64::new);
        Self { key: key.into(), word, counted, ends_at_nanos }
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

    fn counted(&self) -> Counted {
        // Acquire: pairs with the Release in acknowledge().
        Counted(self.counted.load(Ordering::Acquire))
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
            let (used, total) = match now < ends_at {
                true => self.counted().beside(word),
                false => (0, word.total()),
            };
            let left = limit.saturating_sub(used).saturating_sub(total);
            let parts =
                |remaining| DecisionParts { limit, remaining, reset_after: ends_at.since(now) };
            if n > left && (now < ends_at || n > limit) {
                // With an older word, cells of `used` might be among those that it has as unsent.
                let latest = self.load();
                if latest != word && !planted(PlantedFault::DenialUnchecked) {
                    word = latest;
                    continue;
                }
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
        // Only this task changes the number.
        let counted = Counted::new(self.load().next_acknowledgement(), window.used);
        if planted(PlantedFault::AcknowledgedFirst) {
            self.change(Pending::acknowledged);
        }
        // Release: a request that sees this count, and loads the word again, does not see its cells unsent.
        // With Relaxed, they might count twice in a denial.
        self.counted.store(counted.0, Ordering::Release);
        // Release: a request that sees this end sees the count of the same window. With Relaxed, the
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
        fn a_count_round_trips(acknowledgement in 0..=NUMBER_MAX, used: u64) {
            let counted = Counted::new(acknowledgement, used);
            let used = used.min(Counted::USED_MAX);
            prop_assert_eq!((counted.acknowledgement(), counted.used()), (acknowledgement, used));
        }

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
    fn cells_that_are_counted_before_they_are_acknowledged_count_once() {
        let counts = PendingCounts::new(b"a");
        counts.acknowledge(window(0, 100), at(0));
        assert!(is_admitted(counts.ask(5, 10, 10, at(0))));
        assert_eq!(counts.take_unsent(), 5);
        // The first step of acknowledge().
        counts.counted.store(Counted::new(2, 5).0, Ordering::Release);
        assert!(is_admitted(counts.ask(5, 10, 10, at(40))));
        let parts =
            DecisionParts { limit: 10, remaining: 0, reset_after: Duration::from_millis(60) };
        let denied = AskOutcome::Denied { parts, after: Duration::from_millis(60) };
        assert_eq!(counts.ask(1, 10, 10, at(40)), denied, "5 counted, 5 unsent");
        counts.acknowledge(window(5, 60), at(40));
        assert_eq!(counts.ask(1, 10, 10, at(40)), denied, "the same");
        assert_eq!(counts.take_unsent(), 5);
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
