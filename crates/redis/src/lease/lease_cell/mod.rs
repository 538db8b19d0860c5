//! The leases and calls that a process holds of one key, in four independent atomic words.
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
//! spends. The cells were charged before the spending call returned. The time was read after that call
//! began, and before the cells expired. So there is a moment during the call at which the cells
//! were charged and not expired. Take that moment as the moment of the grant.
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
//! Models: `loom-tests/tests/lease_cell.rs`, run by `ci/check.sh loom`; every state of several processes:
//! `verify/states/`, run by `ci/check.sh states`.

#[cfg(test)]
mod tests;
mod word;

use tollgate::Tick;

use crate::sync::{AtomicU64, Ordering, PlantedFault, planted};

pub(crate) use word::{CALLS_MAX, CELLS_MAX};
#[allow(unreachable_pub, reason = "the models use it")]
pub use word::{CallEnd, CallState};
use word::{INSTANT_MAX, Word, begun, is_alive, is_near, joined, next, tick};

/// Until when requests are denied without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "the models use it")]
#[allow(clippy::exhaustive_enums, reason = "used by this crate only")]
pub enum Until {
    /// Until this instant.
    Then(Tick),
    /// For ever: the request is for more than can ever fit.
    Never,
}

/// The leases and calls that a process holds of one key.
#[derive(Debug, Default)]
#[allow(unreachable_pub, reason = "the models use it")]
pub struct LeaseCell {
    leases: [AtomicU64; 2],
    denied: AtomicU64,
    calls: AtomicU64,
}

#[allow(unreachable_pub, reason = "the models use it")]
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

    /// The index of the lease that a deposit changes, and its word. An empty or expired lease comes
    /// first. If both leases are alive, it is the later one if the new cells may join it, else the sooner one.
    fn deposit_slot(&self, new: Word, now: Tick) -> (usize, Word) {
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
            let (index, old) = self.deposit_slot(new, now);
            let (word, dropped) = match is_alive(old, now) && is_near(old, new, now) {
                true => joined(old, new),
                false => (new, old.count()),
            };
            let slot = &self.leases[index];
            if planted(PlantedFault::DepositedByStore) {
                slot.store(word.0, Ordering::Relaxed);
                return dropped + excess;
            }
            let swap = slot.compare_exchange(old.0, word.0, Ordering::Relaxed, Ordering::Relaxed);
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

    /// Forgets the remembered denial if it covers `n` cells, because that many were granted.
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

    /// Whether the lease cell can be evicted with little loss: no cells are left, no call is in flight, and no
    /// pause is under way. A denial may still be remembered, but no request has met it since the pause: that would
    /// have begun a call.
    pub fn is_idle(&self, now: Tick) -> bool {
        self.spendable(now) == 0 && self.call_state(now) == CallState::Free
    }
}
