//! What a process holds of one key, in words that stand for themselves.
//!
//! | word | holds | written by |
//! |---|---|---|
//! | two leases | how many cells, until when | whoever spends; whoever has the call |
//! | refused | for how many cells, until when | whoever was refused or admitted |
//! | call | under way, or not before when and why | whoever takes the call; then its owner |
//!
//! **Spending** swaps a lease for one with fewer cells, if its end has not come. Cells and end are
//! one word, so whoever swaps has judged the very lease that it spends of. If the lease was spent,
//! replaced, and is now the same again, it is the same in all that counts; so no generation.
//!
//! **A deposit** swaps the lease that is empty or too old, or else that with the sooner end, for
//! the new one. What is left of the old one is dropped: cells that are not spent break no bound.
//!
//! **Why an old clock grants no more.** Say that a thread reads the time, sleeps, and then spends.
//! The cells were charged before its call returned, and the time that it read, which is after its
//! call began, was before their end. So there is a moment during its call at which the cells were
//! charged and not too old: take that as the moment of the grant.
//!
//! **Orderings.** A lease and a refusal say all by their own value, nothing else in memory depends
//! on them, and a modification of one word is never stale: Relaxed. The call's word passes what
//! only its owner writes (how much to want, how long to pause) to the next owner: taken with
//! Acquire, given up with Release.
//!
//! Models: `loom-tests/tests/purse.rs`.

use tollgate::Tick;

use crate::sync::{AtomicU64, Ordering, PlantedFault, planted};

/// A unit of time is 2^16 ns, about 66 microseconds.
const UNIT_BITS: u32 = 16;
/// bits 63..20: an instant, in units since the clock's origin (36 years) | bits 19..0: a count
const COUNT_BITS: u32 = 20;
/// The most cells of a lease, and of a refusal that is remembered.
pub(crate) const CELLS_MAX: u64 = (1 << COUNT_BITS) - 1;
/// The last instant, which for a refusal is never.
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

/// How the last call ended, or that it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum Last {
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

impl Last {
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

/// The count of a call's word while the call is under way.
const UNDER_WAY: u64 = 7;

/// Whether the bank may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
#[allow(clippy::exhaustive_enums, reason = "for this crate only")]
pub enum Call {
    /// It may.
    Free,
    /// It is being asked.
    UnderWay,
    /// Not before then, because of how the last call ended.
    Resting(Tick, Last),
}

/// Until when requests are refused unasked.
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
pub struct Purse {
    leases: [AtomicU64; 2],
    refused: AtomicU64,
    call: AtomicU64,
}

#[cfg_attr(not(tollgate_loom), allow(unreachable_pub, reason = "public to the models"))]
impl Purse {
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
            let alive = begun(now) < lease.instant() || planted(PlantedFault::EndUnchecked);
            if !alive || lease.count() < n {
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
    pub fn alive(&self, at: Tick) -> u64 {
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

    /// Puts cells in that may be spent before `end`; returns how many others are dropped for them.
    /// Of more than [`CELLS_MAX`], that many are put in.
    pub fn deposit(&self, cells: u64, end: Tick, now: Tick) -> u64 {
        // Rounded down: what is spent before the unit's end would be spent after its own.
        let new = Word::new(begun(end).min(INSTANT_MAX), cells.min(CELLS_MAX));
        let excess = cells - new.count();
        loop {
            let [one, other] = [self.lease(0), self.lease(1)];
            // What is empty or too old has no end.
            let end = |lease: Word| match begun(now) < lease.instant() && lease.count() > 0 {
                true => lease.instant(),
                false => 0,
            };
            let (index, old) = if end(other) < end(one) { (1, other) } else { (0, one) };
            let word = &self.leases[index];
            let swap = word.compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
            if swap.is_ok() {
                return old.count() + excess;
            }
        }
    }

    /// Remembers that `n` cells, or more, are refused until then.
    pub fn refuse(&self, n: u64, until: Until) {
        if n > CELLS_MAX {
            return;
        }
        // Rounded up: nobody is told to come too early.
        let instant = match until {
            Until::Then(then) => next(then).min(INSTANT_MAX - 1),
            Until::Never => INSTANT_MAX,
        };
        self.refused.store(Word::new(instant, n).0, Ordering::Relaxed);
    }

    /// Forgets a refusal of `n` cells or more, since so many were granted.
    pub fn admit(&self, n: u64) {
        let refused = Word(self.refused.load(Ordering::Relaxed));
        if refused.0 != 0 && refused.count() <= n {
            // A refusal that is stored in between is lost, and asked for again.
            self.refused.store(0, Ordering::Relaxed);
        }
    }

    /// Until when `n` cells are refused, if they are.
    #[inline]
    pub fn refused(&self, n: u64, now: Tick) -> Option<Until> {
        let refused = Word(self.refused.load(Ordering::Relaxed));
        match refused.instant() {
            _ if n < refused.count() => None,
            INSTANT_MAX => Some(Until::Never),
            until if begun(now) < until => Some(Until::Then(tick(until))),
            _ => None,
        }
    }

    /// Whether the bank may be asked.
    pub fn call(&self, now: Tick) -> Call {
        // Acquire: whoever sees that a call is over sees what it has put in.
        let call = Word(self.call.load(Ordering::Acquire));
        match call.count() {
            UNDER_WAY => Call::UnderWay,
            code if begun(now) < call.instant() => {
                let last = Last::ALL.into_iter().find(|last| last.code() == code);
                Call::Resting(tick(call.instant()), last.unwrap_or(Last::Free))
            }
            _ => Call::Free,
        }
    }

    /// Takes the call, if nobody has it and it may be made.
    pub fn begin(&self, now: Tick) -> bool {
        let call = Word(self.call.load(Ordering::Relaxed));
        if call.count() == UNDER_WAY || begun(now) < call.instant() {
            return false;
        }
        let begun = Word::new(begun(now).min(INSTANT_MAX), UNDER_WAY);
        if planted(PlantedFault::CallByStore) {
            self.call.store(begun.0, Ordering::Relaxed);
            return true;
        }
        // Acquire: pairs with the Release of the owner before, for what only owners write.
        let swap =
            self.call.compare_exchange(call.0, begun.0, Ordering::Acquire, Ordering::Relaxed);
        swap.is_ok()
    }

    /// Gives the call up; only its owner does. Unless nothing stands against it, there is none
    /// before `rest_until`.
    pub fn finish(&self, last: Last, rest_until: Tick) {
        let instant = if last == Last::Free { 0 } else { next(rest_until) };
        // Release: pairs with the Acquire of the next owner, and of those who look.
        self.call.store(Word::new(instant, last.code()).0, Ordering::Release);
    }

    /// Whether little would be forgotten with it: nothing is left, and the bank may be asked
    /// again. A refusal that lasts beyond that was asked for by nobody since then.
    pub fn is_idle(&self, now: Tick) -> bool {
        self.alive(now) == 0 && self.call(now) == Call::Free
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
        fn an_end_is_never_later_and_a_refusal_never_shorter(nanos in 0_u64..=1 << 59) {
            let at = Tick::from_nanos(nanos);
            prop_assert!(tick(begun(at)) <= at);
            prop_assert!(tick(next(at)) >= at);
            let purse = Purse::default();
            purse.deposit(1, at, Tick::ZERO);
            prop_assert!(!purse.spend(1, at));
            purse.refuse(1, Until::Then(at));
            if let Some(Until::Then(then)) = purse.refused(1, Tick::ZERO) {
                prop_assert!(then >= at);
            }
        }

        #[test]
        fn what_is_spent_was_put_in(
            acts in prop::collection::vec((0_u64..4, 0_u64..6, 0_u64..3), 1..60),
        ) {
            let purse = Purse::default();
            let (mut now, mut put, mut gone) = (1, 0, 0);
            for (kind, n, gap) in acts {
                now += gap;
                if kind == 0 {
                    gone += purse.deposit(n, at(now + 4), at(now));
                    put += n;
                } else if purse.spend(n, at(now)) {
                    gone += n;
                }
                prop_assert_eq!(purse.unspent() + gone, put);
                prop_assert!(purse.alive(at(now)) <= purse.unspent());
            }
            prop_assert_eq!(purse.alive(at(now + 4)), 0);
        }
    }

    #[test]
    fn the_lease_that_ends_sooner_is_spent_first_and_replaced_first() {
        let purse = Purse::default();
        assert_eq!(purse.deposit(3, at(20), at(0)), 0);
        assert_eq!(purse.deposit(2, at(10), at(0)), 0);
        assert!(purse.spend(1, at(5)));
        assert_eq!((purse.alive(at(5)), purse.alive(at(10))), (4, 3));
        assert!(purse.spend(2, at(5)), "of the other one");
        assert_eq!(purse.deposit(7, at(30), at(5)), 1);
        assert_eq!(purse.alive(at(20)), 7);
        assert!(!purse.spend(9, at(5)), "no single lease has so many");
    }

    #[test]
    fn a_deposit_takes_the_place_of_what_is_too_old() {
        let purse = Purse::default();
        purse.deposit(3, at(20), at(0));
        purse.deposit(2, at(10), at(0));
        assert_eq!(purse.deposit(5, at(40), at(10)), 2, "dropped, being too old");
        assert_eq!(purse.alive(at(10)), 8);
        assert_eq!(purse.deposit(CELLS_MAX + 9, at(50), at(10)), 12);
    }

    #[test]
    fn a_refusal_is_for_as_many_or_more() {
        let purse = Purse::default();
        assert_eq!(purse.refused(0, at(0)), None);
        purse.refuse(3, Until::Then(at(9)));
        assert_eq!(purse.refused(2, at(0)), None);
        assert_eq!(purse.refused(3, at(8)), Some(Until::Then(at(9))));
        assert_eq!(purse.refused(3, at(9)), None);
        purse.admit(2);
        assert!(purse.refused(3, at(8)).is_some());
        purse.admit(3);
        assert_eq!(purse.refused(3, at(8)), None);
        purse.refuse(3, Until::Never);
        assert_eq!(purse.refused(4, Tick::MAX), Some(Until::Never));
        purse.refuse(CELLS_MAX + 1, Until::Then(at(9)));
        assert_eq!(purse.refused(4, at(0)), Some(Until::Never), "too many to remember");
    }

    #[test]
    fn one_call_at_a_time_and_none_while_it_rests() {
        let purse = Purse::default();
        assert_eq!(purse.call(at(0)), Call::Free);
        assert!(purse.begin(at(0)) && !purse.begin(at(5)));
        assert_eq!(purse.call(at(5)), Call::UnderWay);
        assert!(!purse.is_idle(at(5)));
        purse.finish(Last::Free, at(9));
        assert!(purse.is_idle(at(5)) && purse.begin(at(5)));
        for last in Last::ALL.into_iter().skip(1) {
            purse.finish(last, at(9));
            assert_eq!(purse.call(at(8)), Call::Resting(at(9), last));
            assert!(!purse.begin(at(8)) && !purse.is_idle(at(8)));
        }
        assert_eq!(purse.call(at(9)), Call::Free);
        assert!(purse.is_idle(at(9)) && purse.begin(at(9)));
    }

    #[test]
    fn after_36_years_nothing_is_held_any_more() {
        let purse = Purse::default();
        let late = Tick::from_nanos(INSTANT_MAX << UNIT_BITS);
        purse.deposit(5, Tick::MAX, late);
        assert!(!purse.spend(1, late));
        purse.refuse(1, Until::Then(Tick::MAX));
        assert_eq!(purse.refused(1, late), None);
        assert!(purse.begin(late));
        purse.finish(Last::Short, Tick::MAX);
        assert!(purse.begin(Tick::MAX));
    }
}
