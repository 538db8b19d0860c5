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

use crate::algo::{Algorithm, StateMachine};
use crate::cell::Request;
use crate::charge::refund::IsRefundable;
use crate::decision::{Decision, Denied};
use crate::limiter::direct::Direct;
use crate::limiter::{Limiter, unseen};
use crate::table::Probe;
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
        // A request for nothing needs no slot, and no algorithm denies it.
        if held >= n {
            return Ok(());
        }
        let still = self.still(self.or_own(plan), now);
        let (algo, n_missing) = (&*still, n - held);
        let (answer, is_full) = match self.table().peek(probe, algo, now, n_missing) {
            Some(seen) => (algo.answer(seen, now, n_missing), false),
            None => self.answer_unseen(algo, probe, n, now),
        };
        let Err(denied) = answer else { return Ok(()) };
        match () {
            () if !algo.remembers_denials() => {
                if is_full {
                    self.count_full(false);
                }
                self.count(false);
            }
            () if algo.dispatch_refund(IsRefundable).is_some() => {
                self.remember_denial(algo, probe, request);
                self.count(false);
            }
            // This admits the request only if the key was reset meanwhile.
            () => drop(self.decide_probed(algo, probe, n, now)),
        }
        Err(denied)
    }

    /// Makes a denial that a peek has found leave its mark in the state. It is not counted.
    fn remember_denial(&self, algo: &A::Params, probe: Probe, request: Request) {
        let Request { now, cells: n } = request;
        // Another thread has refunded cells meanwhile, so the take succeeded: refund it as
        // well. The instant of the request may be behind by now, or be ahead of the clock.
        if let Ok((taken, _)) = self.take_by(algo, probe, n, now) {
            self.refund_by(algo, &taken, taken.cells(), || self.clock().now().max(now));
        }
    }

    /// Lets a bucket that starts empty begin to fill if the key has no slot and finds one without an eviction, as its
    /// own denial of the request would. It is not counted.
    pub(super) fn begin_to_fill(&self, plan: Option<&A::Params>, probe: Probe, request: Request) {
        let Request { now, cells: n } = request;
        let still = self.still(self.or_own(plan), now);
        let algo = &*still;
        if algo.starts_in_debt()
            && n > 0
            && self.table().peek(probe, algo, now, n).is_none()
            && self.table().has_place(probe, algo, now).is_ok()
        {
            self.remember_denial(algo, probe, request);
        }
    }

    /// Cells of this thread's lease that could be spent for `n`.
    fn leased_cells_for(&self, probe: Probe, n: u64, now: Tick) -> u64 {
        let Some(leases) = self.leases() else { return 0 };
        let held = leases.of(probe).map_or(0, |place| place.left(now));
        if n <= leases.cells() { held } else { 0 }
    }

    /// The answer to a key that has no slot, and whether it finds none either: the limiter's policy then answers, also
    /// to a request for nothing.
    fn answer_unseen(&self, algo: &A::Params, probe: Probe, n: u64, now: Tick) -> (Decision, bool) {
        match self.peek_full(algo, probe, n, now) {
            Some(answer) => (answer, true),
            None => (algo.answer(unseen(algo, n, now), now, n), false),
        }
    }

    /// The answer to `n` cells with nothing charged or counted.
    pub(super) fn peek_as_charged(
        &self,
        plan: Option<&A::Params>,
        probe: Probe,
        Request { now, cells: n }: Request,
    ) -> Decision {
        let still = self.still(self.or_own(plan), now);
        let algo = &*still;
        match self.table().peek(probe, algo, now, n) {
            Some(seen) => algo.answer(seen, now, n),
            None => self.answer_unseen(algo, probe, n, now).0,
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
                    self.refund(&taken, taken.cells(), || self.clock().now().max(now));
                }
            }
            () => drop(self.decide_at(n, now)),
        }
        Err(denied)
    }

    /// Lets a bucket that starts empty begin to fill, as its own denial of the request would.
    pub(super) fn begin_to_fill(&self, n: u64, now: Tick) {
        if self.params().starts_in_debt() {
            let _ = self.precheck(n, now);
        }
    }
}
