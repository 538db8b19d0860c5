//! What a process holds of one key, in words that stand for themselves.
//!
//! | word | holds | written by |
//! |---|---|---|
//! | two leases | how many cells, until when | whoever spends; whoever has a call |
//! | denied | for how many cells, until when | whoever was denied or admitted |
//! | calls | how many are under way; no other before when, and why | whoever begins or ends one |
//!
//! **Spending** swaps a lease for one with fewer cells, if its end has not come. Cells and end are
//! one word, so whoever swaps has judged the very lease that it spends of. If the lease was spent,
//! replaced, and is now the same again, it is the same in all that counts; so no generation.
//!
//! **A deposit** swaps the lease that is empty or too old for the new one. If there is none, it adds
//! the new cells to the lease with the later end, and all have the sooner end of the two from then
//! on: cells that are spent sooner than they must be break no bound. Where that would take much of
//! a life away, it swaps the lease with the sooner end, and drops what is left of it: neither do
//! cells that are not spent.
//!
//! **Why an old clock grants no more.** Say that a thread reads the time, sleeps, and then spends.
//! The cells were charged before its call returned, and the time that it read, which is after its
//! call began, was before their end. So there is a moment during its call at which the cells were
//! charged and not too old: take that as the moment of the grant.
//!
//! **Calls** are counted in one word with the rest that stands against others, so that no more
//! begin than may, whoever begins them, and each that ends takes off its own.
//!
//! **Orderings.** A lease and a denial say all by their own value, nothing else in memory depends
//! on them, and a modification of one word is never stale: Relaxed. Who sees that a call is over
//! has to see what it has put in: a call ends with Release, and is looked for with Acquire. Each
//! modification of that word is a swap, so an end is seen behind those that follow it.
//!
//! Models: `loom-tests/tests/lease_cell.rs`.

use tollgate::Tick;

use crate::sync::{AtomicU64, Ordering, PlantedFault, planted};

/// A unit of time is 2^16 ns, about 66 microseconds.
const UNIT_BITS: u32 = 16;
/// bits 63..20: an instant, in units since the clock's origin (36 years) | bits 19..0: a count
const COUNT_BITS: u32 = 20;
/// The most cells of a lease, and of a denial that is remembered.
pub(crate) const CELLS_MAX: u64 = (1 << COUNT_BITS) - 1;
/// The last instant, which for a denial is never.
const INSTANT_MAX: u64 = (1 << (64 - COUNT_BITS)) - 1;

/// An instant and a count in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

impl Word {
    fn new(instant: u64, count: u64) -> Self {
        debug_assert!(instant <= INSTANT_MAX && count <= CELLS_MAX, "as laid out");
        Self(instant << COUNT_BITS | count)
    }

    fn instant(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    fn count(self) -> u64 {
        self.0 & CELLS_MAX
    }
}

impl core::fmt::Debug for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}@{}", self.count(), self.instant())
    }
}

/// Units that have begun. It may be beyond the last instant of a word: nothing is so long alive.
fn begun(at: Tick) -> u64 {
    at.as_nanos() >> UNIT_BITS
}

/// The unit to begin next, at most the last instant.
fn next(at: Tick) -> u64 {
    at.as_nanos().div_ceil(1 << UNIT_BITS).min(INSTANT_MAX)
}

fn tick(instant: u64) -> Tick {
    Tick::from_nanos(instant << UNIT_BITS)
}

/// Whether cells of it could be spent.
fn is_alive(lease: Word, now: Tick) -> bool {
    begun(now) < lease.instant() && lease.count() > 0
}

/// Whether their ends are so close that both may end with the sooner one: half of the new one's life
/// is left, in which as many cells are spent as are asked for.
fn is_near(old: Word, new: Word, now: Tick) -> bool {
    let life = new.instant().saturating_sub(begun(now));
    old.instant().abs_diff(new.instant()) <= life / 2
}

/// The cells of both, until the sooner end, and how many do not fit.
fn joined(old: Word, new: Word) -> (Word, u64) {
    let cells = old.count() + new.count();
    let kept = cells.min(CELLS_MAX);
    (Word::new(old.instant().min(new.instant()), kept), cells - kept)
}

/// How the last call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum CallEnd {
    /// Nothing stands against another one.
    Free,
    /// The bank had no more.
    Short,
    /// No answer by the deadline.
    TimedOut,
    /// No connection.
    Disconnected,
    /// The bank was not asked.
    CircuitOpen,
    /// An error.
    Failed,
}

impl CallEnd {
    const ALL: [Self; 6] = [
        Self::Free,
        Self::Short,
        Self::TimedOut,
        Self::Disconnected,
        Self::CircuitOpen,
        Self::Failed,
    ];

    fn code(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Short => 1,
            Self::TimedOut => 2,
            Self::Disconnected => 3,
            Self::CircuitOpen => 4,
            Self::Failed => 5,
        }
    }
}

/// A word of calls: bits 63..20 an instant, before which there is no other call | bits 19..3 calls
/// that are under way | bits 2..0 how the last call ended that something stands against another
const LAST_BITS: u32 = 3;

impl Word {
    fn of_calls(instant: u64, in_flight: u64, end: u64) -> Self {
        Self::new(instant, in_flight << LAST_BITS | end)
    }

    fn in_flight(self) -> u64 {
        self.count() >> LAST_BITS
    }

    fn end(self) -> u64 {
        self.count() & ((1 << LAST_BITS) - 1)
    }
}

/// The most calls under way for one key.
pub(crate) const CALLS_MAX: u64 = 256;
const _: () = assert!(CALLS_MAX << LAST_BITS < CELLS_MAX, "they fit the word");

/// Whether the bank may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum CallState {
    /// It may, and is not being asked.
    Free,
    /// It is being asked by so many calls, and may be asked by others.
    InFlight(u64),
    /// It is being asked by so many calls, or none, and not by others before then, because of how
    /// one of the last calls ended.
    Paused(u64, Tick, CallEnd),
}

/// Until when requests are denied unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum Until {
    /// Until then.
    Then(Tick),
    /// They ask for more than can ever fit.
    Never,
}

/// What a process holds of one key.
#[derive(Debug, Default)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
pub struct LeaseCell {
    leases: [AtomicU64; 2],
    denied: AtomicU64,
    calls: AtomicU64,
}

#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
impl LeaseCell {
    /// Spends `n` cells of one lease, that with the sooner end if it has as many.
    #[inline]
    pub fn spend(&self, n: u64, now: Tick) -> bool {
        let ends = [0, 1].map(|index| self.lease(index).instant());
        let sooner = usize::from(ends[1] < ends[0]);
        self.spend_of(sooner, n, now) || self.spend_of(1 - sooner, n, now)
    }

    #[inline]
    fn spend_of(&self, index: usize, n: u64, now: Tick) -> bool {
        let word = &self.leases[index];
        let mut lease = self.lease(index);
        loop {
            let spendable = begun(now) < lease.instant() || planted(PlantedFault::EndUnchecked);
            if !spendable || lease.count() < n {
                return false;
            }
            let less = Word::new(lease.instant(), lease.count() - n);
            if planted(PlantedFault::SpentByStore) {
                word.store(less.0, Ordering::Relaxed);
                return true;
            }
            match word.compare_exchange(lease.0, less.0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => lease = Word(other),
            }
        }
    }

    /// The cells that could be spent at that time.
    #[inline]
    pub fn spendable(&self, at: Tick) -> u64 {
        let count = |index| {
            let lease = self.lease(index);
            if begun(at) < lease.instant() { lease.count() } else { 0 }
        };
        count(0) + count(1)
    }

    /// All cells that were not spent, those that are too old too.
    pub fn unspent(&self) -> u64 {
        self.lease(0).count() + self.lease(1).count()
    }

    fn lease(&self, index: usize) -> Word {
        Word(self.leases[index].load(Ordering::Relaxed))
    }

    /// Where cells are put in, and what is there: the lease that is empty or too old, or else that
    /// which they may join, or whose place they take.
    fn place(&self, new: Word, now: Tick) -> (usize, Word) {
        let [one, other] = [self.lease(0), self.lease(1)];
        if !is_alive(one, now) || !is_alive(other, now) {
            return if is_alive(one, now) { (1, other) } else { (0, one) };
        }
        let (sooner, later) = match other.instant() < one.instant() {
            true => ((1, other), (0, one)),
            false => ((0, one), (1, other)),
        };
        if is_near(later.1, new, now) { later } else { sooner }
    }

    /// Puts cells in that may be spent before `end`; returns how many are dropped for them, or of
    /// them. A lease has [`CELLS_MAX`] at most.
    pub fn deposit(&self, cells: u64, end: Tick, now: Tick) -> u64 {
        // Rounded down: what is spent before the unit's end would be spent after its own.
        let new = Word::new(begun(end).min(INSTANT_MAX), cells.min(CELLS_MAX));
        let excess = cells - new.count();
        loop {
            let (index, old) = self.place(new, now);
            let (word, dropped) = match is_alive(old, now) && is_near(old, new, now) {
                true => joined(old, new),
                false => (new, old.count()),
            };
            let place = &self.leases[index];
            if planted(PlantedFault::DepositedByStore) {
                place.store(word.0, Ordering::Relaxed);
                return dropped + excess;
            }
            let swap = place.compare_exchange(old.0, word.0, Ordering::Relaxed, Ordering::Relaxed);
            if swap.is_ok() {
                return dropped + excess;
            }
        }
    }

    /// Remembers that `n` cells, or more, are denied until then.
    pub fn deny(&self, n: u64, until: Until) {
        if n > CELLS_MAX {
            return;
        }
        // Rounded up: nobody is told to come too early.
        let instant = match until {
            Until::Then(then) => next(then).min(INSTANT_MAX - 1),
            Until::Never => INSTANT_MAX,
        };
        self.denied.store(Word::new(instant, n).0, Ordering::Relaxed);
    }

    /// Forgets a denial of `n` cells or more, since so many were granted.
    pub fn admit(&self, n: u64) {
        let denied = Word(self.denied.load(Ordering::Relaxed));
        if denied.0 != 0 && denied.count() <= n {
            // A denial that is stored in between is lost, and asked for again.
            self.denied.store(0, Ordering::Relaxed);
        }
    }

    /// Until when `n` cells are denied, if they are.
    #[inline]
    pub fn denied(&self, n: u64, now: Tick) -> Option<Until> {
        let denied = Word(self.denied.load(Ordering::Relaxed));
        match denied.instant() {
            _ if n < denied.count() => None,
            INSTANT_MAX => Some(Until::Never),
            until if begun(now) < until => Some(Until::Then(tick(until))),
            _ => None,
        }
    }

    /// Whether the bank may be asked.
    pub fn call_state(&self, now: Tick) -> CallState {
        // Acquire: whoever sees that a call is over sees what it has put in.
        let calls = Word(self.calls.load(Ordering::Acquire));
        if begun(now) < calls.instant() {
            let end = CallEnd::ALL.into_iter().find(|end| end.code() == calls.end());
            let end = end.unwrap_or(CallEnd::Free);
            return CallState::Paused(calls.in_flight(), tick(calls.instant()), end);
        }
        match calls.in_flight() {
            0 => CallState::Free,
            calls => CallState::InFlight(calls),
        }
    }

    /// Calls that are under way.
    pub fn in_flight(&self) -> u64 {
        // Acquire: as in `call_state`.
        Word(self.calls.load(Ordering::Acquire)).in_flight()
    }

    /// Begins a call, if it may be made and fewer than `max` are under way; returns how many are.
    pub fn begin_call(&self, max: u64, now: Tick) -> Option<u64> {
        let mut calls = Word(self.calls.load(Ordering::Relaxed));
        loop {
            let in_flight = calls.in_flight();
            if in_flight >= max.min(CALLS_MAX) || begun(now) < calls.instant() {
                return None;
            }
            let more = Word::of_calls(calls.instant(), in_flight + 1, calls.end());
            if planted(PlantedFault::CallByStore) {
                self.calls.store(more.0, Ordering::Relaxed);
                return Some(in_flight);
            }
            // Acquire: pairs with the Release of calls that are over, whose cells then count.
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            match self.calls.compare_exchange(calls.0, more.0, acquire, relaxed) {
                Ok(_) => return Some(in_flight),
                Err(other) => calls = Word(other),
            }
        }
    }

    /// Ends a call that was begun. Unless nothing stands against another one, there is none before
    /// `pause_until`, or as long as another call has said.
    pub fn finish_call(&self, end: CallEnd, pause_until: Tick) {
        let mut calls = Word(self.calls.load(Ordering::Relaxed));
        loop {
            let pause = if end == CallEnd::Free { 0 } else { next(pause_until) };
            let (instant, end) = match pause > calls.instant() {
                true => (pause, end.code()),
                false => (calls.instant(), calls.end()),
            };
            let fewer = Word::of_calls(instant, calls.in_flight().saturating_sub(1), end);
            if planted(PlantedFault::FinishedByStore) {
                self.calls.store(fewer.0, Ordering::Release);
                return;
            }
            // Release: pairs with the Acquire of those who look, and of those who begin.
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            match self.calls.compare_exchange(calls.0, fewer.0, release, relaxed) {
                Ok(_) => return,
                Err(other) => calls = Word(other),
            }
        }
    }

    /// Whether little would be forgotten with it: nothing is left, and the bank may be asked
    /// again. A denial that lasts beyond that was asked for by nobody since then.
    pub fn is_idle(&self, now: Tick) -> bool {
        self.spendable(now) == 0 && self.call_state(now) == CallState::Free
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: u64 = 1 << UNIT_BITS;

    fn at(units: u64) -> Tick {
        Tick::from_nanos(units * UNIT)
    }

    proptest! {
        #[test]
        fn a_word_keeps_both(instant in 0..=INSTANT_MAX, count in 0..=CELLS_MAX) {
            let word = Word::new(instant, count);
            prop_assert_eq!((word.instant(), word.count()), (instant, count));
        }

        #[test]
        fn an_end_is_never_later_and_a_denial_never_shorter(nanos in 0_u64..=1 << 59) {
            let at = Tick::from_nanos(nanos);
            prop_assert!(tick(begun(at)) <= at);
            prop_assert!(tick(next(at)) >= at);
            let lease_cell = LeaseCell::default();
            lease_cell.deposit(1, at, Tick::ZERO);
            prop_assert!(!lease_cell.spend(1, at));
            lease_cell.deny(1, Until::Then(at));
            if let Some(Until::Then(then)) = lease_cell.denied(1, Tick::ZERO) {
                prop_assert!(then >= at);
            }
        }

        #[test]
        fn what_is_spent_was_put_in(
            acts in prop::collection::vec((0_u64..4, 0_u64..6, 0_u64..3), 1..60),
        ) {
            let lease_cell = LeaseCell::default();
            let (mut now, mut put, mut gone) = (1, 0, 0);
            for (kind, n, gap) in acts {
                now += gap;
                if kind == 0 {
                    gone += lease_cell.deposit(n, at(now + 4), at(now));
                    put += n;
                } else if lease_cell.spend(n, at(now)) {
                    gone += n;
                }
                prop_assert_eq!(lease_cell.unspent() + gone, put);
                prop_assert!(lease_cell.spendable(at(now)) <= lease_cell.unspent());
            }
            prop_assert_eq!(lease_cell.spendable(at(now + 4)), 0);
        }
    }

    #[test]
    fn the_lease_that_ends_sooner_is_spent_first_and_replaced_first() {
        let lease_cell = LeaseCell::default();
        assert_eq!(lease_cell.deposit(3, at(20), at(0)), 0);
        assert_eq!(lease_cell.deposit(2, at(10), at(0)), 0);
        assert!(lease_cell.spend(1, at(5)));
        assert_eq!((lease_cell.spendable(at(5)), lease_cell.spendable(at(10))), (4, 3));
        assert!(lease_cell.spend(2, at(5)), "of the other one");
        assert_eq!(lease_cell.deposit(7, at(60), at(5)), 1);
        assert_eq!(lease_cell.spendable(at(20)), 7);
        assert!(!lease_cell.spend(9, at(5)), "no single lease has so many");
    }

    #[test]
    fn a_deposit_takes_the_place_of_what_is_too_old() {
        let lease_cell = LeaseCell::default();
        lease_cell.deposit(3, at(20), at(0));
        lease_cell.deposit(2, at(10), at(0));
        assert_eq!(lease_cell.deposit(5, at(40), at(10)), 2, "dropped, being too old");
        assert_eq!(lease_cell.spendable(at(10)), 8);
        assert_eq!(lease_cell.deposit(CELLS_MAX + 9, at(90), at(10)), 12);
    }

    #[test]
    fn a_denial_is_for_as_many_or_more() {
        let lease_cell = LeaseCell::default();
        assert_eq!(lease_cell.denied(0, at(0)), None);
        lease_cell.deny(3, Until::Then(at(9)));
        assert_eq!(lease_cell.denied(2, at(0)), None);
        assert_eq!(lease_cell.denied(3, at(8)), Some(Until::Then(at(9))));
        assert_eq!(lease_cell.denied(3, at(9)), None);
        lease_cell.admit(2);
        assert!(lease_cell.denied(3, at(8)).is_some());
        lease_cell.admit(3);
        assert_eq!(lease_cell.denied(3, at(8)), None);
        lease_cell.deny(3, Until::Never);
        assert_eq!(lease_cell.denied(4, Tick::MAX), Some(Until::Never));
        lease_cell.deny(CELLS_MAX + 1, Until::Then(at(9)));
        assert_eq!(lease_cell.denied(4, at(0)), Some(Until::Never), "too many to remember");
    }

    #[test]
    fn deposits_join_where_their_ends_are_near() {
        let lease_cell = LeaseCell::default();
        assert_eq!(lease_cell.deposit(3, at(100), at(0)), 0);
        assert_eq!(lease_cell.deposit(4, at(101), at(1)), 0);
        assert_eq!(lease_cell.deposit(5, at(102), at(2)), 0, "beside the later one");
        assert_eq!((lease_cell.spendable(at(99)), lease_cell.spendable(at(100)), lease_cell.spendable(at(101))), (12, 9, 0));
        assert!(lease_cell.spend(9, at(3)), "of one lease by now");
        assert_eq!(lease_cell.deposit(6, at(113), at(13)), 0, "there was room");
        assert_eq!(lease_cell.deposit(7, at(112), at(13)), 0, "one that was sent before");
        assert_eq!((lease_cell.spendable(at(111)), lease_cell.spendable(at(112))), (13, 0));
        assert_eq!(lease_cell.deposit(8, at(170), at(60)), 3, "they would die too soon");
        assert_eq!((lease_cell.spendable(at(111)), lease_cell.spendable(at(169))), (21, 8));
        assert_eq!(lease_cell.deposit(CELLS_MAX, at(171), at(61)), 8, "a lease is full");
        assert_eq!(lease_cell.unspent(), CELLS_MAX + 13);
    }

    #[test]
    fn so_many_calls_at_a_time_and_none_while_they_rest() {
        let lease_cell = LeaseCell::default();
        assert_eq!(lease_cell.call_state(at(0)), CallState::Free);
        assert_eq!((lease_cell.begin_call(1, at(0)), lease_cell.begin_call(1, at(5))), (Some(0), None));
        assert_eq!((lease_cell.begin_call(2, at(0)), lease_cell.begin_call(2, at(5))), (Some(1), None));
        assert_eq!((lease_cell.call_state(at(5)), lease_cell.in_flight()), (CallState::InFlight(2), 2));
        assert!(!lease_cell.is_idle(at(5)));
        lease_cell.finish_call(CallEnd::Free, at(9));
        assert_eq!(lease_cell.call_state(at(5)), CallState::InFlight(1));
        lease_cell.finish_call(CallEnd::Free, at(9));
        assert!(lease_cell.is_idle(at(5)));
        for (index, outcome) in (1..).zip(CallEnd::ALL.into_iter().skip(1)) {
            let end = at(10 * index);
            assert_eq!(lease_cell.begin_call(1, at(10 * index - 5)), Some(0));
            lease_cell.finish_call(outcome, end);
            assert_eq!(lease_cell.call_state(at(10 * index - 1)), CallState::Paused(0, end, outcome));
            assert_eq!(lease_cell.begin_call(1, at(10 * index - 1)), None);
            assert!(!lease_cell.is_idle(at(10 * index - 1)) && lease_cell.is_idle(end));
        }
        let begun: Vec<_> = (0..=CALLS_MAX).map(|_| lease_cell.begin_call(u64::MAX, at(99))).collect();
        assert_eq!((begun[255], begun[256]), (Some(255), None));
    }

    #[test]
    fn a_rest_lasts_as_long_as_any_call_has_said() {
        let lease_cell = LeaseCell::default();
        for _ in 0..4 {
            assert!(lease_cell.begin_call(4, at(0)).is_some());
        }
        lease_cell.finish_call(CallEnd::Short, at(9));
        assert_eq!(lease_cell.begin_call(9, at(8)), None);
        lease_cell.finish_call(CallEnd::Free, at(0));
        lease_cell.finish_call(CallEnd::Failed, at(7));
        assert_eq!(lease_cell.call_state(at(8)), CallState::Paused(1, at(9), CallEnd::Short));
        lease_cell.finish_call(CallEnd::TimedOut, at(12));
        assert_eq!(lease_cell.call_state(at(11)), CallState::Paused(0, at(12), CallEnd::TimedOut));
        assert_eq!(lease_cell.call_state(at(12)), CallState::Free);
    }

    #[test]
    fn after_36_years_nothing_is_held_any_more() {
        let lease_cell = LeaseCell::default();
        let late = Tick::from_nanos(INSTANT_MAX << UNIT_BITS);
        lease_cell.deposit(5, Tick::MAX, late);
        assert!(!lease_cell.spend(1, late));
        lease_cell.deny(1, Until::Then(Tick::MAX));
        assert_eq!(lease_cell.denied(1, late), None);
        assert_eq!(lease_cell.begin_call(1, late), Some(0));
        lease_cell.finish_call(CallEnd::Short, Tick::MAX);
        assert_eq!(lease_cell.begin_call(1, Tick::MAX), Some(0));
    }
}
