//! Charges that can be refunded, by any algorithm that allows it.
//!
//! # The time of a refund
//!
//! Of the cells charged, time restores one after the other, and only the others can be refunded. So a
//! time that is behind refunds too much if another thread has charged the key by a later time: what
//! time had restored would be granted twice. The clock is therefore read after the word is loaded that
//! the refund replaces, and again after each lost race. If the word is unchanged when it is replaced,
//! no thread has charged it by a later time, apart from the difference between clocks, and from a word
//! that recurs while the thread is stopped between the two (see `composite/precheck.rs`).

use core::hash::Hash;

use crate::algo::{Algorithm, NoRing, Refund, RefundVisitor, StateMachine};
use crate::cell::{DirectCell, Paid, Request};
use crate::decision::{Denied, Permit};
use crate::limiter::direct::Direct;
use crate::limiter::{Limiter, WhenFull};
use crate::sync::{Fault, planted};
use crate::table::{Charged, Event, KeyRequest, Probe};
use crate::time::{Clock, Tick};

/// A charge, and where it was made.
#[derive(Clone, Copy, Debug)]
pub enum Taken {
    /// From the key's slot.
    Slot(Probe, Paid),
    /// From the only bucket, or the one that keys without a slot share.
    Bucket(Paid),
    /// From nowhere: the key found no slot, and was admitted all the same.
    Nothing,
}

impl Taken {
    /// Cells that were charged.
    pub(crate) fn cells(&self) -> u64 {
        match self {
            Self::Slot(_, paid) | Self::Bucket(paid) => paid.cells(),
            Self::Nothing => 0,
        }
    }
}

type Take = Result<(Taken, Permit), Denied>;

/// Whether an algorithm's charges can be refunded: `Some` if so.
pub(crate) struct IsRevocable;

impl RefundVisitor for IsRevocable {
    type Out = ();

    fn visit<M: Refund>(self, _: &M) {}
}

const CHECKED: &str = "the builder has checked that charges can be refunded";

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Charges `n` cells so that they can be refunded. A key that finds no slot is treated by the
    /// limiter's policy. The decision is not counted.
    pub(crate) fn take(&self, probe: Probe, n: u64, now: Tick) -> Take {
        self.take_by(self.params(), probe, n, now)
    }

    /// The same by an algorithm that works on the same states as the limiter's own.
    pub(super) fn take_by(&self, algo: &A::Params, probe: Probe, n: u64, now: Tick) -> Take {
        let take = TakeFromSlot { limiter: self, probe, n, now };
        algo.dispatch_refund(take).expect(CHECKED)
    }

    /// Refunds `n` cells of a charge, as far as time has not restored them.
    pub(crate) fn refund(&self, taken: &Taken, n: u64, now: impl Fn() -> Tick) {
        self.refund_by(self.params(), taken, n, now);
    }

    /// The same for a charge by this algorithm.
    pub(super) fn refund_by(
        &self,
        algo: &A::Params,
        taken: &Taken,
        n: u64,
        now: impl Fn() -> Tick,
    ) {
        match (taken, self.when_full()) {
            _ if n == 0 => {}
            (Taken::Slot(probe, paid), _) => {
                let give = GiveToSlot { limiter: self, probe: *probe, paid, n, now };
                algo.dispatch_refund(give).expect(CHECKED);
            }
            (Taken::Bucket(paid), WhenFull::Share(shared)) => {
                let give = GiveToBucket { cell: &shared.1, paid, n, now };
                shared.0.dispatch_refund(give).expect(CHECKED);
            }
            _ => {}
        }
    }

    /// Charges where all candidate slots hold live keys of others, and none may be evicted.
    #[cold]
    #[inline(never)]
    fn take_full(&self, nearest: u64, n: u64, now: Tick) -> Take {
        match self.when_full() {
            WhenFull::Share(shared) => {
                self.table().counters().count(Event::Overflowed);
                let take = TakeFromBucket { cell: &shared.1, n, now };
                shared.0.dispatch_refund(take).expect(CHECKED)
            }
            _ => self.decide_unseated(nearest, n, now).map(|permit| (Taken::Nothing, permit)),
        }
    }
}

impl<A: Algorithm, C: Clock> Direct<A, C> {
    /// Charges `n` cells so that they can be refunded.
    pub(crate) fn take(&self, n: u64, now: Tick) -> Take {
        let take = TakeFromBucket { cell: self.cell(), n, now };
        self.params().dispatch_refund(take).expect(CHECKED)
    }

    /// Refunds `n` cells of a charge, as far as time has not restored them.
    pub(crate) fn refund(&self, taken: &Taken, n: u64, now: impl Fn() -> Tick) {
        if let (Taken::Bucket(paid), 1..) = (taken, n) {
            let give = GiveToBucket { cell: self.cell(), paid, n, now };
            self.params().dispatch_refund(give).expect(CHECKED);
        }
    }
}

/// The permit of a charge, by the state that it left.
fn permit_after(algo: &impl Refund, paid: &Paid, now: Tick) -> Permit {
    algo.permit(algo.read(paid.receipt.next, NoRing, now, 0), now, 0)
}

struct TakeFromSlot<'a, K: ?Sized, A: Algorithm, C> {
    limiter: &'a Limiter<K, A, C>,
    probe: Probe,
    n: u64,
    now: Tick,
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> RefundVisitor for TakeFromSlot<'_, K, A, C> {
    type Out = Take;

    #[inline]
    fn visit<M: Refund>(self, algo: &M) -> Take {
        let Self { limiter, probe, n, now } = self;
        let request = Request { now, cells: n };
        let may_evict = limiter.evicts();
        match limiter.table().charge(&KeyRequest { probe, machine: algo, request, may_evict }) {
            Charged::Paid(paid) => Ok((Taken::Slot(probe, paid), permit_after(algo, &paid, now))),
            Charged::Denied(denied) => Err(denied),
            Charged::Full(full) => limiter.take_full(full.nearest, n, now),
        }
    }
}

struct TakeFromBucket<'a> {
    cell: &'a DirectCell,
    n: u64,
    now: Tick,
}

impl RefundVisitor for TakeFromBucket<'_> {
    type Out = Take;

    #[inline]
    fn visit<M: Refund>(self, algo: &M) -> Take {
        let paid = self.cell.charge(algo, self.now, self.n)?;
        Ok((Taken::Bucket(paid), permit_after(algo, &paid, self.now)))
    }
}

struct GiveToSlot<'a, K: ?Sized, A: Algorithm, C, N> {
    limiter: &'a Limiter<K, A, C>,
    probe: Probe,
    paid: &'a Paid,
    n: u64,
    now: N,
}

impl<K: ?Sized, A: Algorithm, C, N: Fn() -> Tick> RefundVisitor for GiveToSlot<'_, K, A, C, N> {
    type Out = ();

    fn visit<M: Refund>(self, algo: &M) {
        let Self { limiter, probe, paid, n, now } = self;
        let now = clock_of(paid, now);
        let next = |state| algo.refund(state, &paid.receipt, now(), n);
        limiter.table().revise_charged(probe, paid, next);
    }
}

struct GiveToBucket<'a, N> {
    cell: &'a DirectCell,
    paid: &'a Paid,
    n: u64,
    now: N,
}

impl<N: Fn() -> Tick> RefundVisitor for GiveToBucket<'_, N> {
    type Out = ();

    fn visit<M: Refund>(self, algo: &M) {
        let Self { cell, paid, n, now } = self;
        cell.refund(algo, paid, clock_of(paid, now), n);
    }
}

/// The time of a refund.
fn clock_of(paid: &Paid, now: impl Fn() -> Tick) -> impl Fn() -> Tick {
    let charged_at = paid.receipt.at;
    move || if planted(Fault::RefundedAtOldTime) { charged_at } else { now() }
}
