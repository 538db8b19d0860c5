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
//! Model: `loom-tests/tests/tab.rs`.

use core::time::Duration;

use tollgate::Tick;
use tollgate::decision::DecisionParts;

use super::ledger::Known;
use crate::places::Entry;
use crate::sync::{AtomicU64, Ordering, PlantedFault, planted};

const CELL_BITS: u32 = 24;
/// The most cells that are unsaid.
pub(crate) const CELLS_MAX: u64 = (1 << CELL_BITS) - 1;

/// bits 63..48: landings, wrapping around | bits 47..24: on their way | bits 23..0: to be sent
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unsaid(u64);

impl Unsaid {
    fn new(landings: u64, on_their_way: u64, unsent: u64) -> Self {
        debug_assert!(on_their_way <= CELLS_MAX && unsent <= CELLS_MAX, "as laid out");
        Self(landings << (2 * CELL_BITS) | on_their_way << CELL_BITS | unsent)
    }

    fn landings(self) -> u64 {
        self.0 >> (2 * CELL_BITS)
    }

    fn on_their_way(self) -> u64 {
        self.0 >> CELL_BITS & CELLS_MAX
    }

    fn unsent(self) -> u64 {
        self.0 & CELLS_MAX
    }

    fn sum(self) -> u64 {
        self.on_their_way() + self.unsent()
    }

    /// All bits: a sum that is never reached.
    const GIVEN_UP: Self = Self(u64::MAX);

    fn landed(self) -> Self {
        Self::new(self.landings().wrapping_add(1) & 0xffff, 0, self.unsent())
    }
}

/// What a request finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum Found {
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
    Crowded,
    /// The key is to be opened anew.
    GivenUp,
}

/// What is known of one key.
#[derive(Debug)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
pub struct Tab {
    key: Box<[u8]>,
    unsaid: AtomicU64,
    used: AtomicU64,
    ends_at_nanos: AtomicU64,
}

impl Entry for Tab {
    fn new(key: &[u8]) -> Self {
        let [unsaid, used, ends_at_nanos] = [0; 3].map(AtomicU64::new);
        Self { key: key.into(), unsaid, used, ends_at_nanos }
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn give_up(&self, now: Tick) -> bool {
        Self::give_up(self, now)
    }

    fn unspent(&self) -> u64 {
        0
    }
}

#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
impl Tab {
    /// Of a key that nothing is known of, to the models.
    #[cfg(tollgate_loom)]
    pub fn of_model() -> Self {
        Entry::new(b"key")
    }

    /// If nothing is unsaid and the window has ended, nothing is admitted from now on. Whether so.
    pub fn give_up(&self, now: Tick) -> bool {
        let unsaid = self.load();
        let ends_at = self.ends_at();
        let mark = || self.swap(unsaid, Unsaid::GIVEN_UP).is_ok();
        let is_idle = unsaid.sum() == 0 && now >= ends_at;
        unsaid == Unsaid::GIVEN_UP || is_idle && (planted(PlantedFault::GivenUpUnmarked) || mark())
    }

    fn ends_at(&self) -> Tick {
        Tick::from_nanos(self.ends_at_nanos.load(Ordering::Relaxed))
    }

    fn load(&self) -> Unsaid {
        // Acquire: pairs with the Release in land().
        Unsaid(self.unsaid.load(Ordering::Acquire))
    }

    /// Admits `n` cells if the limit allows it and no more than `most` are then unsaid.
    pub fn ask(&self, n: u64, limit: u64, most: u64, now: Tick) -> Found {
        let mut unsaid = self.load();
        loop {
            if unsaid == Unsaid::GIVEN_UP {
                return Found::GivenUp;
            }
            let ends_at = self.ends_at();
            let used = if now < ends_at { self.used.load(Ordering::Relaxed) } else { 0 };
            let sum = unsaid.sum();
            let left = limit.saturating_sub(used).saturating_sub(sum);
            let parts =
                |remaining| DecisionParts { limit, remaining, reset_after: ends_at.since(now) };
            if n > left && (now < ends_at || n > limit) {
                return Found::Denied { parts: parts(left), after: ends_at.since(now) };
            }
            // Nothing is known of this window but that it is full with what is unsaid.
            if n > left || (sum > 0 && n > most.saturating_sub(sum)) || n > CELLS_MAX - sum {
                return Found::Crowded;
            }
            let more = Unsaid::new(unsaid.landings(), unsaid.on_their_way(), unsaid.unsent() + n);
            if n == 0 {
                return Found::Admitted { parts: parts(left), first: false, full: false };
            }
            match self.swap(unsaid, more) {
                Ok(()) => {
                    let (first, full) = (unsaid.unsent() == 0, more.unsent() >= most);
                    return Found::Admitted { parts: parts(left - n), first, full };
                }
                Err(other) => unsaid = other,
            }
        }
    }

    fn swap(&self, old: Unsaid, new: Unsaid) -> Result<(), Unsaid> {
        let swap = self.unsaid.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire);
        swap.map(drop).map_err(Unsaid)
    }

    /// What is to be sent now.
    pub fn send(&self) -> u64 {
        self.change(|unsaid| Unsaid::new(unsaid.landings(), unsaid.unsent(), 0)).unsent()
    }

    /// The answer is there: what was on its way is counted in it.
    pub fn land(&self, known: Known, now: Tick) {
        // From now, not from when it was counted: so this window never ends before its time.
        let ends_at = now.saturating_add(known.ends_after);
        if planted(PlantedFault::LandedFirst) {
            self.change(Unsaid::landed);
        }
        self.used.store(known.used, Ordering::Relaxed);
        self.ends_at_nanos.store(ends_at.as_nanos(), Ordering::Relaxed);
        if !planted(PlantedFault::LandedFirst) {
            self.change(Unsaid::landed);
        }
    }

    /// No answer: it is to be sent again. Whether it already was to be sent anyway.
    pub fn fail(&self) -> bool {
        self.change(|unsaid| Unsaid::new(unsaid.landings(), 0, unsaid.sum())).unsent() > 0
    }

    /// Returns the word before. Only whoever flushes calls this.
    fn change(&self, next: impl Fn(Unsaid) -> Unsaid) -> Unsaid {
        let mut unsaid = self.load();
        loop {
            match self.swap(unsaid, next(unsaid)) {
                Ok(()) => return unsaid,
                Err(other) => unsaid = other,
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

    fn known(used: u64, millis: u64) -> Known {
        Known { used, ends_after: Duration::from_millis(millis) }
    }

    fn is_admitted(found: Found) -> bool {
        matches!(found, Found::Admitted { .. })
    }

    proptest! {
        #[test]
        fn a_word_keeps_all(
            landings in 0_u64..1 << 16, on_their_way in 0..=CELLS_MAX, unsent in 0..=CELLS_MAX,
        ) {
            let unsaid = Unsaid::new(landings, on_their_way, unsent);
            prop_assert!(unsaid != Unsaid::GIVEN_UP || on_their_way + unsent > CELLS_MAX);
            let parts = (unsaid.landings(), unsaid.on_their_way(), unsaid.unsent());
            prop_assert_eq!(parts, (landings, on_their_way, unsent));
            let landed = unsaid.landed();
            prop_assert_eq!((landed.on_their_way(), landed.unsent()), (0, unsent));
            prop_assert_eq!(landed.landings(), (landings + 1) % (1 << 16));
        }
    }

    #[test]
    fn what_is_unsaid_counts_until_it_is_counted_elsewhere() {
        let tab = Tab::new(b"a");
        assert!(is_admitted(tab.ask(3, 10, 5, at(0))));
        assert_eq!(tab.send(), 3);
        assert!(is_admitted(tab.ask(2, 10, 5, at(0))));
        assert_eq!(tab.ask(1, 10, 5, at(0)), Found::Crowded, "3 on their way, 2 unsent");
        tab.land(known(6, 100), at(1));
        assert!(is_admitted(tab.ask(2, 10, 5, at(1))));
        let parts =
            DecisionParts { limit: 10, remaining: 0, reset_after: Duration::from_millis(60) };
        let denied = Found::Denied { parts, after: Duration::from_millis(60) };
        assert_eq!(tab.ask(1, 10, 5, at(41)), denied);
        assert!(!tab.give_up(at(200)), "4 are unsent");
        assert_eq!(tab.send(), 4);
        assert!(!tab.fail());
        assert_eq!(tab.send(), 4, "again");
        tab.land(known(4, 100), at(150));
        assert!(!tab.give_up(at(249)), "its window is open");
        assert!(is_admitted(tab.ask(0, 10, 5, at(249))));
        assert!(tab.give_up(at(250)) && tab.give_up(at(0)), "for good");
        for cells in [0, 1, 11] {
            assert_eq!(tab.ask(cells, 10, 5, at(300)), Found::GivenUp);
        }
    }

    #[test]
    fn what_can_never_fit_is_denied_and_what_fits_the_limit_alone_passes_alone() {
        let tab = Tab::new(b"a");
        assert!(matches!(tab.ask(11, 10, 5, at(0)), Found::Denied { .. }));
        assert!(is_admitted(tab.ask(9, 10, 5, at(0))), "more than 5, but nothing else is unsaid");
        assert_eq!(tab.ask(1, 10, 5, at(0)), Found::Crowded);
        assert!(is_admitted(tab.ask(0, 10, 5, at(0))));
        tab.send();
        tab.land(known(9, 10), at(0));
        assert!(is_admitted(tab.ask(1, 10, 5, at(0))));
    }
}
