//! The pre-check: denies a request before anything is charged.
//!
//! A charge that is refunded later costs the limit refill. While the charge is in place, the
//! passing of time pays for the charge and not for the older debt, and a refund returns only what
//! time has not paid: see [`refund`](crate::charge::refund). So a composite first asks all of its
//! limits without charging them, and charges them only if none of them denies.
//!
//! Restoring the previous word, if the word is still the one that the charge left, would be wrong.
//! The same word can recur (ABA): another request's refund and a third request's charge cancel each
//! other out. The bucket may have been full in between, and the time for which it was full would
//! then be granted. (The test `the_word_that_a_charge_left_recurs` of the token bucket shows the
//! case.)

use core::hash::Hash;

use crate::algo::{Algorithm, StateMachine, Step};
use crate::cell::Request;
use crate::charge::refund::IsRefundable;
use crate::decision::Denied;
use crate::limiter::direct::Direct;
use crate::limiter::{Limiter, WhenFull, unseen};
use crate::table::{Event, Full, Probe};
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Returns the denial if the request would be denied, and charges nothing. A denial is
    /// counted and remembered like that of a check. `with_lease`: cells that this thread has leased
    /// can be spent, which go by the limiter's own quota.
    pub(super) fn precheck(
        &self,
        plan: Option<&A::Params>,
        probe: Probe,
        request: Request,
        with_lease: bool,
    ) -> Result<(), Denied> {
        let Request { now, cells: n } = request;
        let held =
            if with_lease && plan.is_none() { self.leased_cells_for(probe, n, now) } else { 0 };
        if held > 0 && held >= n {
            return Ok(());
        }
        let still = self.still(self.or_own(plan), now);
        let (algo, n_missing) = (&*still, n - held);
        let answer = match self.table().peek(probe, algo, now, n_missing) {
            Some(seen) => algo.answer(seen, now, n_missing),
            None => {
                self.precheck_slot(algo, probe, n, now).inspect_err(|_| self.count(false))?;
                algo.answer(unseen(algo, n, now), now, n)
            }
        };
        let Err(denied) = answer else { return Ok(()) };
        match () {
            () if !algo.remembers_denials() => self.count(false),
            () if algo.dispatch_refund(IsRefundable).is_some() => {
                // Another thread has refunded cells meanwhile, so the take succeeded: refund it as
                // well.
                if let Ok((taken, _)) = self.take_by(algo, probe, n, now) {
                    self.refund_by(algo, &taken, taken.cells(), || now);
                }
                self.count(false);
            }
            // This admits the request only if the key was reset meanwhile.
            () => drop(self.decide_probed(algo, probe, n, now)),
        }
        Err(denied)
    }

    /// Cells of this thread's lease that could be spent for `n`.
    fn leased_cells_for(&self, probe: Probe, n: u64, now: Tick) -> u64 {
        let Some(shares) = self.shares() else { return 0 };
        let held = shares.of(probe).map_or(0, |place| place.left(now));
        if held >= n || n <= shares.cells() { held } else { 0 }
    }

    /// Returns the denial if a key that has no slot, and would be admitted with one, is denied for
    /// want of a slot.
    fn precheck_slot(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Result<(), Denied> {
        if n == 0 || matches!(self.when_full(), WhenFull::Evict | WhenFull::Admit) {
            return Ok(());
        }
        if !matches!(algo.step(unseen(algo, n, now), now, n), Step::Admit { .. }) {
            return Ok(());
        }
        let Err(Full { nearest_idle }) = self.table().has_place(probe, algo, now) else {
            return Ok(());
        };
        match self.when_full() {
            WhenFull::Share(shared) => {
                let answer = shared.1.cell().peek(&*self.still(&shared.0, now), now, n).map(drop);
                answer.inspect_err(|_| self.table().counters().count(Event::Overflowed))
            }
            _ => self.without_slot(nearest_idle, n, now).map(drop),
        }
    }
}

impl<A: Algorithm, C: Clock> Direct<A, C> {
    /// Returns the denial if `n` cells would be denied at `now`, and charges nothing. A denial is
    /// remembered like that of a check.
    pub(super) fn precheck(&self, n: u64, now: Tick) -> Result<(), Denied> {
        let Err(denied) = self.ask().cells(n).at(now).peek() else { return Ok(()) };
        let algo = self.params();
        match () {
            () if !algo.remembers_denials() => {}
            () if algo.dispatch_refund(IsRefundable).is_some() => {
                if let Ok((taken, _)) = self.take(n, now) {
                    self.refund(&taken, taken.cells(), || now);
                }
            }
            () => drop(self.decide_at(n, now)),
        }
        Err(denied)
    }
}
