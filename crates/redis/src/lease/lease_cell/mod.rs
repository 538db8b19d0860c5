//! What a process holds of one key, in four independent atomic words.
//!
//! | word | holds | written by |
//! |---|---|---|
//! | two leases | how many cells, until when | requests that spend; calls that deposit |
//! | denied | how many cells are denied, until when | calls that end in a denial or a grant |
//! | calls | how many are in flight; the pause before the next one, and its reason | calls that begin or end |
//!
//! **Spending** replaces a lease by one with fewer cells, by compare-and-swap, if the lease has not
//! expired. Cells and expiry are one word, so the thread has checked the very lease that it spends
//! from. ABA is harmless: a lease that was spent, replaced and is now equal again is equal in
//! everything that counts, so there is no generation.
//!
//! **A deposit** replaces a lease that is empty or expired. If both leases are alive, it adds the
//! new cells to the lease with the later expiry, and all of them then expire at the earlier of the
//! two instants. Cells that expire too early break no bound. If that would shorten a lifetime too
//! much, the deposit replaces the lease with the earlier expiry, and drops its remaining cells.
//! Cells that are not spent break no bound either.
//!
//! **Why an old clock reading grants no more.** Say that a thread reads the time, sleeps, and then
//! spends. The cells were charged before its call returned, and the time that it read, which is
//! after its call began, was before their expiry. So there is a moment during its call at which the
//! cells were charged and not expired. Take that moment as the moment of the grant.
//!
//! **Calls** are counted in one word together with the pause. So no more calls begin than are
//! allowed, and each call that ends subtracts exactly itself.
//!
//! **Orderings.** A lease and a denial are complete in their own word, nothing else in memory
//! depends on them, and a read-modify-write of one word never acts on a stale value: Relaxed. A
//! thread that sees that a call has ended must also see its deposit: a call ends with Release, and
//! readers load with Acquire. Each modification of that word is a read-modify-write, so later ones
//! continue the release sequence.
//!
//! Models: `loom-tests/tests/purse.rs`, run by `ci/loom.sh`; every state of several processes:
//! `verify/states/`, run by `ci/leases.sh`.

use tollgate::Tick;

use crate::sync::{AtomicU64, Ordering, PlantedFault, planted};

/// A unit of time is 2^16 ns, about 66 microseconds.
const UNIT_BITS: u32 = 16;
/// bits 63..20: an instant, in units since the clock's origin (36 years) | bits 19..0: a count
const COUNT_BITS: u32 = 20;
/// The largest number of cells of a lease, and of a remembered denial.
pub(crate) const CELLS_MAX: u64 = (1 << COUNT_BITS) - 1;
/// The last instant. In a denial it means never.
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

/// The unit that contains this instant. It may be beyond the last instant of a word, which no
/// process reaches.
fn begun(at: Tick) -> u64 {
    at.as_nanos() >> UNIT_BITS
}

/// The first unit that begins at or after this instant, at most the last instant.
fn next(at: Tick) -> u64 {
    at.as_nanos().div_ceil(1 << UNIT_BITS).min(INSTANT_MAX)
}

fn tick(instant: u64) -> Tick {
    Tick::from_nanos(instant << UNIT_BITS)
}

/// Whether cells of this lease can be spent.
fn is_alive(lease: Word, now: Tick) -> bool {
    begun(now) < lease.instant() && lease.count() > 0
}

/// Whether the two leases expire so close together that both may expire at the earlier instant. At
/// least half of the new lease's lifetime must remain.
fn is_near(old: Word, new: Word, now: Tick) -> bool {
    let life = new.instant().saturating_sub(begun(now));
    old.instant().abs_diff(new.instant()) <= life / 2
}

/// The cells of both leases with the earlier expiry, and the number of cells that do not fit.
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
    /// Nothing forbids another call.
    Free,
    /// The source had fewer cells than were asked for.
    Short,
    /// No answer by the deadline.
    TimedOut,
    /// No connection.
    Disconnected,
    /// The source was not asked.
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

/// A word of calls: bits 63..20 an instant, before which no call begins | bits 19..3 calls in flight |
/// bits 2..0 how the call ended that caused the pause
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

/// The largest number of calls in flight for one key.
pub(crate) const CALLS_MAX: u64 = 256;
const _: () = assert!(CALLS_MAX << LAST_BITS < CELLS_MAX, "they fit the word");

/// Whether the source may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum CallState {
    /// It may be called, and no call is in flight.
    Free,
    /// This many calls are in flight, and another may begin.
    InFlight(u64),
    /// This many calls are in flight, or none, and no other begins before the instant, because of
    /// how an earlier call ended.
    Paused(u64, Tick, CallEnd),
}

/// Until when requests are denied without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum Until {
    /// Until this instant.
    Then(Tick),
    /// For ever: the request is for more than can ever fit.
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
    /// Spends `n` cells of one lease. The lease with the earlier expiry is tried first.
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

    /// The cells that can be spent at this time.
    #[inline]
    pub fn spendable(&self, at: Tick) -> u64 {
        let count = |index| {
            let lease = self.lease(index);
            if begun(at) < lease.instant() { lease.count() } else { 0 }
        };
        count(0) + count(1)
    }

    /// All cells that were not spent, including expired ones.
    pub fn unspent(&self) -> u64 {
        self.lease(0).count() + self.lease(1).count()
    }

    fn lease(&self, index: usize) -> Word {
        Word(self.leases[index].load(Ordering::Relaxed))
    }

    /// Where a deposit goes, and the lease that is there: one that is empty or expired, else one
    /// that the new cells may join, else the one that they replace.
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

    /// Deposits cells that may be spent before `end`. Returns how many cells were dropped, new or
    /// old. A lease has [`CELLS_MAX`] at most.
    pub fn deposit(&self, cells: u64, end: Tick, now: Tick) -> u64 {
        // Rounded down: cells must not be spent in the rest of the unit, after their expiry.
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

    /// Remembers that `n` cells or more are denied.
    pub fn deny(&self, n: u64, until: Until) {
        if n > CELLS_MAX {
            return;
        }
        // Rounded up: no client comes back too early.
        let instant = match until {
            Until::Then(then) => next(then).min(INSTANT_MAX - 1),
            Until::Never => INSTANT_MAX,
        };
        self.denied.store(Word::new(instant, n).0, Ordering::Relaxed);
    }

    /// Forgets a denial of `n` cells or more, because that many were granted.
    pub fn admit(&self, n: u64) {
        let denied = Word(self.denied.load(Ordering::Relaxed));
        if denied.0 != 0 && denied.count() <= n {
            // A denial that is stored in between is lost. The next request asks the source again.
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

    /// Whether the source may be called.
    pub fn call_state(&self, now: Tick) -> CallState {
        // Acquire: pairs with the Release in finish_call(); the deposit of an ended call is visible.
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

    /// Calls in flight.
    pub fn in_flight(&self) -> u64 {
        // Acquire: as in call_state().
        Word(self.calls.load(Ordering::Acquire)).in_flight()
    }

    /// Begins a call if no pause forbids it and fewer than `max` are in flight. Returns how many
    /// were.
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
            // Acquire: pairs with the Release in finish_call(); deposits of ended calls are visible.
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            match self.calls.compare_exchange(calls.0, more.0, acquire, relaxed) {
                Ok(_) => return Some(in_flight),
                Err(other) => calls = Word(other),
            }
        }
    }

    /// Ends a call. Unless `end` is [`CallEnd::Free`], no other call begins before `pause_until`,
    /// or for as long as another call has demanded.
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
            // Release: pairs with the Acquire in call_state(), in_flight() and begin_call().
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            match self.calls.compare_exchange(calls.0, fewer.0, release, relaxed) {
                Ok(_) => return,
                Err(other) => calls = Word(other),
            }
        }
    }

    /// Whether the cell can be evicted with little loss: no cells are left, and the source may be
    /// called. A denial that lasts beyond that was not asked for since.
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
        assert_eq!(
            (
                lease_cell.spendable(at(99)),
                lease_cell.spendable(at(100)),
                lease_cell.spendable(at(101))
            ),
            (12, 9, 0)
        );
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
        assert_eq!(
            (lease_cell.begin_call(1, at(0)), lease_cell.begin_call(1, at(5))),
            (Some(0), None)
        );
        assert_eq!(
            (lease_cell.begin_call(2, at(0)), lease_cell.begin_call(2, at(5))),
            (Some(1), None)
        );
        assert_eq!(
            (lease_cell.call_state(at(5)), lease_cell.in_flight()),
            (CallState::InFlight(2), 2)
        );
        assert!(!lease_cell.is_idle(at(5)));
        lease_cell.finish_call(CallEnd::Free, at(9));
        assert_eq!(lease_cell.call_state(at(5)), CallState::InFlight(1));
        lease_cell.finish_call(CallEnd::Free, at(9));
        assert!(lease_cell.is_idle(at(5)));
        for (index, outcome) in (1..).zip(CallEnd::ALL.into_iter().skip(1)) {
            let end = at(10 * index);
            assert_eq!(lease_cell.begin_call(1, at(10 * index - 5)), Some(0));
            lease_cell.finish_call(outcome, end);
            assert_eq!(
                lease_cell.call_state(at(10 * index - 1)),
                CallState::Paused(0, end, outcome)
            );
            assert_eq!(lease_cell.begin_call(1, at(10 * index - 1)), None);
            assert!(!lease_cell.is_idle(at(10 * index - 1)) && lease_cell.is_idle(end));
        }
        let begun: Vec<_> =
            (0..=CALLS_MAX).map(|_| lease_cell.begin_call(u64::MAX, at(99))).collect();
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
