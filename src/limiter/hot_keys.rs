//! Hot keys, shared out: a thread that loses a race for a key's word takes a few of its cells ahead,
//! on a line of its own, and spends those.
//!
//! A share is what a [`LocalLease`](crate::lease::LocalLease) is, without its being asked for, and exact for the same
//! reason: it holds at most `k` cells, charged at once, which may be spent until time has restored
//! `k` cells, while all charges are held to a burst that is lower by `k`. It is never given back:
//! what is not spent in time, time has restored, and a request that needs more than is held charges
//! only the rest.
//!
//! # When there is a share
//!
//! - A thread takes one when its compare-and-swap fails because another thread has charged the same
//!   key; and, without trying first, when it has spent the last one before its time was over.
//! - It takes no more than a quarter of the cells that are left, so that the last ones of a bucket
//!   are decided about one by one, as without shares.
//! - It takes none where there would be nothing to keep.
//! - It may have eight, one for each of eight classes of keys. One that holds cells yields its place
//!   when another key of its class asks twice and nothing was spent in between.

use core::hash::Hash;

use crate::algo::gcra::GcraParams;
use crate::algo::{Algorithm, StateMachine};
use crate::decision::{Decision, OutOfLine, Permit};
use crate::limiter::Limiter;
use crate::limiter::builder::BuildError;
use crate::table::{Attempt, Event, Place, Probe, Shares};
use crate::time::{Clock, Tick};

/// Room for the shares of a limiter.
pub(crate) fn shares_for(algo: &impl StateMachine) -> Result<Shares, BuildError> {
    match algo.as_gcra() {
        Some(gcra) if gcra.lease_cells() > 0 => {
            let cells = gcra.lease_cells();
            Ok(Shares::new(cells, gcra.restored_after(cells)))
        }
        _ => Err(BuildError::NothingToShare),
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// How many cells of `key` this thread has taken ahead and may still spend at `now`; always 0
    /// unless the limiter [shares hot keys](crate::Builder::lease_hot_keys).
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1_000))
    ///     .algorithm(Gcra::new().leases(64))
    ///     .lease_hot_keys()
    ///     .build()?;
    /// assert!(gate.check_at("a", 1, Tick::ZERO).is_ok());
    /// assert_eq!(gate.held_at("a", Tick::ZERO), 0); // nobody was in the way
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn held_at(&self, key: &K, now: Tick) -> u64 {
        let probe = self.probe(key);
        let held = |shares: &Shares| Some(shares.of(probe)?.left(now));
        self.shares.as_ref().and_then(held).unwrap_or(0)
    }

    /// Decides by this thread's share of the key, if it has one; else as usual, but who loses a race
    /// takes a share. The clock is read after the share was looked for.
    #[inline(never)]
    pub(crate) fn decide_sharing(&self, probe: Probe, n: u64, now: impl Fn() -> Tick) -> Decision {
        let (Some(gcra), Some(shares)) = (self.params.as_gcra(), &self.shares) else {
            return self.decide(probe, self.table.find_at_once(probe), n, now());
        };
        if let Some(decision) = self.by_share(gcra, shares, probe, n, &now) {
            return decision;
        }
        let now = now();
        let permit = match self.table.attempt(probe, gcra, now, n) {
            Attempt::Admitted(permit) => Some(permit),
            Attempt::Raced => {
                let OutOfLine(permit) = self.take_share(gcra, shares, probe, n, now);
                permit
            }
            Attempt::Undecided => None,
        };
        match permit {
            Some(permit) => {
                self.count(true);
                Ok(permit)
            }
            None => self.decide(probe, self.table.find_at_once(probe), n, now),
        }
    }

    /// Decides by this thread's share of the key, if it has one. The clock is read only then.
    #[inline(always)]
    fn by_share(
        &self,
        gcra: &GcraParams,
        shares: &Shares,
        probe: Probe,
        n: u64,
        now: impl FnOnce() -> Tick,
    ) -> Option<Decision> {
        let place = shares.of(probe)?;
        let now = now();
        match place.spend(n, now) {
            Some((left, state)) => {
                self.count(true);
                Some(Ok(gcra.permit_ahead(state, now, left)))
            }
            None => {
                let OutOfLine(decision) = self.beyond_share(gcra, shares, place, probe, n, now);
                Some(decision)
            }
        }
    }

    /// The share holds too little, or its time is over.
    #[cold]
    #[inline(never)]
    fn beyond_share(
        &self,
        gcra: &GcraParams,
        shares: &Shares,
        place: Place<'_>,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> OutOfLine<Decision> {
        if place.is_alive(now)
            && let OutOfLine(Some(permit)) = self.take_share(gcra, shares, probe, n, now)
        {
            self.count(true);
            return OutOfLine(Ok(permit));
        }
        if place.left(now) == 0 {
            place.clear();
        }
        OutOfLine(self.decide(probe, self.table.find_at_once(probe), n, now))
    }

    /// Charges what the thread's share of the key does not hold of `n` cells, and a new share.
    #[cold]
    #[inline(never)]
    fn take_share(
        &self,
        gcra: &GcraParams,
        shares: &Shares,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> OutOfLine<Option<Permit>> {
        let take = || {
            let place = shares.free(probe, now)?;
            let held = if place.is_of(probe) { place.left(now) } else { 0 };
            let missing = n.checked_sub(held).filter(|&missing| missing > 0)?;
            if n > shares.cells() {
                return None;
            }
            let (most, used_up) = (shares.cells(), held > 0);
            let (taken, state) =
                self.table.charge_ahead(probe, gcra, now, missing, most, used_up)?;
            let left = taken - missing;
            place.hold(probe, left, now, state);
            if left > 0 {
                self.table.counters().count(Event::Shared);
            }
            Some(gcra.permit_ahead(state, now, left))
        };
        OutOfLine(take())
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests;
