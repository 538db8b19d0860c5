//! Charges that can be refunded, by any algorithm that allows it.
//!
//! # The time of a refund
//!
//! Time restores the cells of a charge one after the other, and only cells that it has not restored can be
//! refunded. A time that is behind refunds too much if another thread has charged the key by a later time:
//! restored cells are then granted twice. So the thread reads the clock after it has loaded the word that the
//! refund replaces, and again after each lost race. If the word is unchanged when it is replaced, no
//! thread has charged it by a later time. There are two exceptions: clocks differ, and a word may recur
//! while the thread is stopped between load and swap (see `composite/precheck.rs`).
//!
//! Where windows follow the wall clock, the thread reads the clock once, before it loads the word, and refunds in
//! the window of that instant. A window restores no cell before its end, and a word of a later window is not the
//! one that was charged, so that time may be behind.

use core::hash::Hash;

use crate::algo::{Algorithm, NoRing, Refund, RefundVisitor, StateMachine};
use crate::cell::{ChargeReceipt, DirectCell, Request};
use crate::decision::{Denied, Permit};
use crate::limiter::direct::Direct;
use crate::limiter::{Limiter, WhenFull};
use crate::sync::{Fault, planted};
use crate::table::{Charged, Event, KeyRequest, Probe};
use crate::time::{Clock, Tick};

/// A charge that can be refunded, and its place.
#[derive(Clone, Copy, Debug)]
pub enum RefundableCharge {
    /// A charge of the key's slot.
    Slot(Probe, ChargeReceipt),
    /// A charge of the only bucket, or of the bucket that keys without a slot share.
    Bucket(ChargeReceipt),
    /// Nothing to refund: the key found no slot and was admitted without one, or the charge is final.
    Nothing,
}

impl RefundableCharge {
    /// Cells that were charged.
    pub(crate) fn cells(&self) -> u64 {
        match self {
            Self::Slot(_, receipt) | Self::Bucket(receipt) => receipt.cells(),
            Self::Nothing => 0,
        }
    }
}

type ChargeResult = Result<(RefundableCharge, Permit), Denied>;

/// Whether an algorithm's charges can be refunded: `Some` if so.
pub(crate) struct IsRefundable;

impl RefundVisitor for IsRefundable {
    type Out = ();

    fn visit<M: Refund>(self, _: &M) {}
}

const CHECKED: &str = "the builder has checked that charges can be refunded";

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Charges `n` cells by an algorithm that works on the same states as the limiter's own, so that they
    /// can be refunded. A key that finds no slot is treated by the limiter's policy. The decision is not
    /// counted.
    pub(crate) fn take_by(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> ChargeResult {
        let charge = ChargeSlot { limiter: self, probe, n, now };
        self.still(algo, now).dispatch_refund(charge).expect(CHECKED)
    }

    /// Refunds `n` cells of a charge, as far as time has not restored them.
    pub(crate) fn refund(&self, charge: &RefundableCharge, n: u64, now: impl Fn() -> Tick) {
        self.refund_by(self.params(), charge, n, now);
    }

    /// The same for a charge by this algorithm.
    pub(crate) fn refund_by(
        &self,
        algo: &A::Params,
        charge: &RefundableCharge,
        n: u64,
        now: impl Fn() -> Tick,
    ) {
        match (charge, self.when_full()) {
            _ if n == 0 => {}
            (RefundableCharge::Slot(probe, receipt), _) => {
                let now = algo.clock_of_windows(now);
                let algo = algo.still(&now, self.clock());
                let refund = RefundSlot { limiter: self, probe: *probe, receipt, n, now };
                algo.dispatch_refund(refund).expect(CHECKED);
            }
            (RefundableCharge::Bucket(receipt), WhenFull::Share(shared)) => {
                let now = shared.0.clock_of_windows(now);
                let algo = shared.0.still(&now, self.clock());
                let refund = RefundBucket { cell: shared.1.cell(), receipt, n, now };
                algo.dispatch_refund(refund).expect(CHECKED);
            }
            _ => {}
        }
    }

    /// Charges where all candidate slots hold live keys of others, and none may be evicted.
    #[cold]
    #[inline(never)]
    fn take_full(&self, nearest_idle: u64, n: u64, now: Tick) -> ChargeResult {
        match self.when_full() {
            WhenFull::Share(shared) => {
                self.table().counters().count(Event::Overflowed);
                let charge = ChargeBucket { cell: shared.1.cell(), n, now };
                self.still(&shared.0, now).dispatch_refund(charge).expect(CHECKED)
            }
            _ => self
                .without_slot(nearest_idle, n, now)
                .map(|permit| (RefundableCharge::Nothing, permit)),
        }
    }
}

impl<A: Algorithm, C: Clock> Direct<A, C> {
    /// Charges `n` cells so that they can be refunded.
    pub(crate) fn take(&self, n: u64, now: Tick) -> ChargeResult {
        let charge = ChargeBucket { cell: self.cell(), n, now };
        self.still(now).dispatch_refund(charge).expect(CHECKED)
    }

    /// Refunds `n` cells of a charge, as far as time has not restored them.
    pub(crate) fn refund(&self, charge: &RefundableCharge, n: u64, now: impl Fn() -> Tick) {
        if let (RefundableCharge::Bucket(receipt), 1..) = (charge, n) {
            let now = self.params().clock_of_windows(now);
            let algo = self.params().still(&now, self.clock());
            let refund = RefundBucket { cell: self.cell(), receipt, n, now };
            algo.dispatch_refund(refund).expect(CHECKED);
        }
    }
}

/// The permit of a charge, by the state that it left.
fn permit_after(algo: &impl Refund, receipt: &ChargeReceipt, now: Tick) -> Permit {
    algo.permit(algo.read(receipt.charge.next, NoRing, now, 0), now, 0)
}

struct ChargeSlot<'a, K: ?Sized, A: Algorithm, C> {
    limiter: &'a Limiter<K, A, C>,
    probe: Probe,
    n: u64,
    now: Tick,
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> RefundVisitor for ChargeSlot<'_, K, A, C> {
    type Out = ChargeResult;

    #[inline]
    fn visit<M: Refund>(self, algo: &M) -> ChargeResult {
        let Self { limiter, probe, n, now } = self;
        let request = Request { now, cells: n };
        match limiter.table().charge(&KeyRequest { probe, machine: algo, request }) {
            Charged::Admitted(receipt) => {
                Ok((RefundableCharge::Slot(probe, receipt), permit_after(algo, &receipt, now)))
            }
            Charged::Denied(denied) => Err(denied),
            Charged::Full(full) => limiter.take_full(full.nearest_idle, n, now),
        }
    }
}

struct ChargeBucket<'a> {
    cell: DirectCell<'a>,
    n: u64,
    now: Tick,
}

impl RefundVisitor for ChargeBucket<'_> {
    type Out = ChargeResult;

    #[inline]
    fn visit<M: Refund>(self, algo: &M) -> ChargeResult {
        let receipt = self.cell.charge(algo, self.now, self.n)?;
        Ok((RefundableCharge::Bucket(receipt), permit_after(algo, &receipt, self.now)))
    }
}

struct RefundSlot<'a, K: ?Sized, A: Algorithm, C, N> {
    limiter: &'a Limiter<K, A, C>,
    probe: Probe,
    receipt: &'a ChargeReceipt,
    n: u64,
    now: N,
}

impl<K: ?Sized, A: Algorithm, C, N: Fn() -> Tick> RefundVisitor for RefundSlot<'_, K, A, C, N> {
    type Out = ();

    fn visit<M: Refund>(self, algo: &M) {
        let Self { limiter, probe, receipt, n, now } = self;
        let now = clock_of(receipt, now);
        let next = |state| algo.refund(state, &receipt.charge, now(), n);
        limiter.table().revise_charged(Some(probe), receipt, next);
    }
}

struct RefundBucket<'a, N> {
    cell: DirectCell<'a>,
    receipt: &'a ChargeReceipt,
    n: u64,
    now: N,
}

impl<N: Fn() -> Tick> RefundVisitor for RefundBucket<'_, N> {
    type Out = ();

    fn visit<M: Refund>(self, algo: &M) {
        let Self { cell, receipt, n, now } = self;
        cell.refund(algo, receipt, clock_of(receipt, now), n);
    }
}

/// The time of a refund.
pub(crate) fn clock_of(receipt: &ChargeReceipt, now: impl Fn() -> Tick) -> impl Fn() -> Tick {
    let charged_at = receipt.charge.at;
    move || if planted(Fault::RefundedAtOldTime) { charged_at } else { now() }
}
