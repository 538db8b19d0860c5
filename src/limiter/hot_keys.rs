//! Leases of hot keys: a thread that loses a race for a key's word takes a few of the key's cells
//! ahead, onto a cache line of its own, and spends those.
//!
//! Such a lease is what a [`LocalLease`](crate::lease::LocalLease) is, except that no caller asks for
//! it. It holds at most `k` cells, charged at once. It is never refunded, and a request that needs more
//! than the lease holds charges only the rest.
//!
//! # Why it stays exact
//!
//! - A token bucket: the cells may be spent until time has restored `k` cells, while all charges are held
//!   to a burst that is lower by `k`. The proof is in [`lease`](crate::lease).
//! - Windows, sub-windows and counters: the cells may be spent until the window or sub-window ends in which
//!   they are counted. A cell counts the same at every instant of its window.
//!
//! # When a thread takes a lease
//!
//! - A thread takes a lease when its compare-and-swap fails because another thread has charged the same
//!   key. If it has spent all cells of a lease before the lease ended, it takes the next one without
//!   trying to charge first.
//! - It takes no more than a quarter of the cells that are left, so that the last cells of a bucket
//!   or a window are decided one by one, as without leases.
//! - It takes none if no cell would be left over.
//! - It may have eight, one for each of eight classes of keys. A lease that holds cells yields its place
//!   when another key of its class asks twice and no cell was spent in between.

use core::hash::Hash;

use crate::algo::{Algorithm, StateMachine, Visitor};
use crate::cell::{InFull, MaxAhead, Request};
use crate::decision::{Decision, OutOfLine, Permit};
use crate::limiter::Limiter;
use crate::limiter::ask::Ask;
use crate::limiter::builder::BuildError;
use crate::table::{Attempt, ChargedAhead, Event, HotKeyLeases, LeaseRef, Probe, Source};
use crate::time::{Clock, Tick};

/// Room for the leases of a limiter whose table's memory has this source.
pub(super) fn room_for_leases(
    machine: &impl StateMachine,
    source: &Source,
) -> Result<HotKeyLeases, BuildError> {
    match machine.lease_cells() {
        0 => Err(BuildError::NothingToLease),
        cells => HotKeyLeases::new(cells, source).map_err(|_| BuildError::OutOfMemory),
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Ask<'_, '_, Limiter<K, A, C>> {
    /// How many cells of the key this thread has taken ahead and may still spend; always 0 unless
    /// the limiter [leases hot keys](crate::Builder::lease_hot_keys).
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1_000))
    ///     .algorithm(Gcra::new().leases(64))
    ///     .lease_hot_keys()
    ///     .build()?;
    /// assert!(gate.check("a").is_ok());
    /// assert_eq!(gate.ask("a").held(), 0); // no other thread was in the way
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn held(self) -> u64 {
        let Some(leases) = self.gate.leases() else { return 0 };
        let lease = leases.of(self.gate.probe(self.key));
        lease.map_or(0, |lease| lease.left(self.gate.or_now(self.at)))
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Decides by this thread's lease of the key, if it has one. Otherwise it decides as usual, except
    /// that a thread that loses a race takes a lease. The clock is read after the lease is looked up, except
    /// where windows follow the wall clock.
    #[inline(never)]
    pub(crate) fn answer_leasing(
        &self,
        probe: Probe,
        n: u64,
        now: impl Fn() -> Tick,
    ) -> OutOfLine<Decision> {
        OutOfLine(match &self.leases {
            Some(leases) => {
                let now = self.params.clock_of_windows(now);
                let algo = self.params.still(&now, &self.clock);
                algo.dispatch(DecideLeasing { limiter: self, leases, probe, n, now })
            }
            None => self.decide_by_no_lease(probe, n, now()),
        })
    }
}

/// A request that this thread's leases may decide.
struct DecideLeasing<'a, K: ?Sized, A: Algorithm, C, F> {
    limiter: &'a Limiter<K, A, C>,
    leases: &'a HotKeyLeases,
    probe: Probe,
    n: u64,
    now: F,
}

impl<K, A, C, F> Visitor for DecideLeasing<'_, K, A, C, F>
where
    K: Hash + ?Sized,
    A: Algorithm,
    C: Clock,
    F: Fn() -> Tick,
{
    type Out = Decision;

    #[inline(always)]
    fn visit<M: StateMachine>(self, machine: &M) -> Decision {
        let Self { limiter, leases, probe, n, now } = self;
        if let Some(decision) = limiter.by_lease(machine, leases, probe, n, &now) {
            return decision;
        }
        let now = now();
        let permit = match limiter.table.attempt(probe, machine, now, n) {
            Attempt::Admitted(permit) => Some(permit),
            Attempt::Raced => {
                let request = Request { now, cells: n };
                let OutOfLine(permit) = limiter.take_lease(machine, leases, probe, request);
                permit
            }
            Attempt::Undecided => None,
        };
        match permit {
            Some(permit) => {
                limiter.count(true);
                Ok(permit)
            }
            None => limiter.decide_probed(&limiter.params, probe, n, now),
        }
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Decides by this thread's lease of the key, if it has one. The clock is read only then.
    #[inline(always)]
    fn by_lease<M: StateMachine>(
        &self,
        machine: &M,
        leases: &HotKeyLeases,
        probe: Probe,
        n: u64,
        now: impl FnOnce() -> Tick,
    ) -> Option<Decision> {
        let place = leases.of(probe)?;
        let now = now();
        match place.spend(n, now) {
            Some((left, state)) => {
                self.count(true);
                Some(Ok(machine.permit_ahead(state, now, left)))
            }
            None => {
                let request = Request { now, cells: n };
                let OutOfLine(decision) = self.beyond_lease(machine, leases, place, probe, request);
                Some(decision)
            }
        }
    }

    /// Decides where the thread's lease of the key holds too little, or has ended.
    #[cold]
    #[inline(never)]
    fn beyond_lease<M: StateMachine>(
        &self,
        machine: &M,
        leases: &HotKeyLeases,
        place: LeaseRef<'_>,
        probe: Probe,
        request: Request,
    ) -> OutOfLine<Decision> {
        let Request { now, cells: n } = request;
        if place.is_alive(now)
            && let OutOfLine(Some(permit)) = self.take_lease(machine, leases, probe, request)
        {
            self.count(true);
            return OutOfLine(Ok(permit));
        }
        if place.left(now) == 0 {
            place.clear();
        }
        OutOfLine(self.decide_by_no_lease(probe, n, now))
    }

    /// Decides where no lease did. For rare paths, each of which would otherwise compile the decision of every
    /// algorithm once more.
    #[inline(always)]
    fn decide_by_no_lease(&self, probe: Probe, n: u64, now: Tick) -> Decision {
        let OutOfLine(decision) = self.answer_without_lease::<InFull>(None, probe, n, Some(now));
        decision
    }

    /// Charges those of `n` cells that the thread's lease of the key does not hold, and a new lease.
    #[cold]
    #[inline(never)]
    fn take_lease<M: StateMachine>(
        &self,
        machine: &M,
        leases: &HotKeyLeases,
        probe: Probe,
        request: Request,
    ) -> OutOfLine<Option<Permit>> {
        let Request { now, cells: n } = request;
        let take = || {
            let place = leases.free(probe, now)?;
            let held = if place.is_of(probe) { place.left(now) } else { 0 };
            let missing = n.checked_sub(held).filter(|&missing| missing > 0)?;
            if n > leases.cells() {
                return None;
            }
            let (most, used_up) = (leases.cells(), held > 0);
            let request = Request { now, cells: missing };
            let max = MaxAhead { cells: most, or_just_those: used_up };
            let (taken, state) = self.table.charge_ahead(probe, machine, request, max)?;
            let left = taken - missing;
            let life = machine.lease_life(state, now);
            place.hold(probe, ChargedAhead { left, at: now, life, state });
            if left > 0 {
                self.table.counters().count(Event::Leased);
            }
            Some(machine.permit_ahead(state, now, left))
        };
        OutOfLine(take())
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests;
