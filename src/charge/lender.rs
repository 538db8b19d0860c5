//! Limiters whose cells can be taken ahead by a lease.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Algorithm, Refund, RefundVisitor, StateMachine, Visitor};
use crate::cell::{DirectCell, MaxAhead, Request};
use crate::charge::locate::Locate;
use crate::charge::refund::RefundableCharge;
use crate::decision::{Decision, Denied};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::table::{Charged, KeyRequest, Probe};
use crate::time::{Clock, Tick};

/// A [`Limiter`] or a [`Direct`], by any algorithm. Some of these
/// [lease nothing](crate::lease::LocalLease).
///
/// It is sealed: a method may be added.
pub trait Lender: sealed::Lend {}

impl<G: sealed::Lend> Lender for G {}

/// Cells that were charged for a lease.
#[derive(Debug)]
pub struct Lent {
    /// The charge, for a refund; `None` if the algorithm cannot refund it.
    pub(super) taken: Option<RefundableCharge>,
    /// For how long they may be spent.
    pub(super) life: Duration,
}

/// `None`: the key finds no slot, or another thread was in the way.
type LentResult = Result<Lent, Option<Denied>>;

pub(super) mod sealed {
    use super::{Decision, LentResult, Locate, RefundableCharge, Tick};

    pub trait Lend: Locate {
        /// Cells that a lease takes at a time; 0: none.
        fn lease_cells(&self) -> u64;
        fn check_spot(&self, spot: Self::Spot, n: u64, now: Tick) -> Decision;
        /// Charges `n` cells, at least one, for a lease.
        fn lend(&self, spot: Self::Spot, n: u64, now: Tick) -> LentResult;
        /// Refunds `n` cells of what was charged for a lease. If no time is given, the clock is read after
        /// the state is loaded that the refund replaces.
        fn refund_lent(&self, taken: &RefundableCharge, n: u64, at: Option<Tick>);
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> sealed::Lend for Limiter<K, A, C> {
    fn lease_cells(&self) -> u64 {
        self.params().lease_cells()
    }

    fn check_spot(&self, probe: Probe, n: u64, now: Tick) -> Decision {
        self.decide_probed(self.params(), probe, n, now)
    }

    fn lend(&self, probe: Probe, n: u64, now: Tick) -> LentResult {
        let algo = self.still(self.params(), now);
        let lent = algo.dispatch_refund(LendSlot { limiter: self, probe, n, now });
        lent.unwrap_or_else(|| algo.dispatch(LendSlot { limiter: self, probe, n, now }))
    }

    fn refund_lent(&self, taken: &RefundableCharge, n: u64, at: Option<Tick>) {
        self.refund(taken, n, || self.or_now(at));
    }
}

impl<A: Algorithm, C: Clock> sealed::Lend for Direct<A, C> {
    fn lease_cells(&self) -> u64 {
        self.params().lease_cells()
    }

    fn check_spot(&self, (): (), n: u64, now: Tick) -> Decision {
        self.decide_at(n, now)
    }

    fn lend(&self, (): (), n: u64, now: Tick) -> LentResult {
        let algo = self.still(now);
        let lent = algo.dispatch_refund(LendBucket { cell: self.cell(), n, now });
        lent.unwrap_or_else(|| algo.dispatch(LendBucket { cell: self.cell(), n, now }))
    }

    fn refund_lent(&self, taken: &RefundableCharge, n: u64, at: Option<Tick>) {
        self.refund(taken, n, || self.or_now(at));
    }
}

/// Allows to charge these cells ahead, and no more.
fn just(cells: u64) -> MaxAhead {
    MaxAhead { cells, or_just_those: true }
}

/// A lease of a key's slot.
struct LendSlot<'a, K: ?Sized, A: Algorithm, C> {
    limiter: &'a Limiter<K, A, C>,
    probe: Probe,
    n: u64,
    now: Tick,
}

/// By an algorithm whose charges can be refunded.
impl<K: Hash + ?Sized, A: Algorithm, C: Clock> RefundVisitor for LendSlot<'_, K, A, C> {
    type Out = LentResult;

    fn visit<M: Refund>(self, machine: &M) -> LentResult {
        let Self { limiter, probe, n, now } = self;
        let request = Request { now, cells: n };
        match limiter.table().charge(&KeyRequest { probe, machine, request }) {
            Charged::Admitted(receipt) => {
                let life = machine.lease_life(receipt.charge.next, now);
                Ok(Lent { taken: Some(RefundableCharge::Slot(probe, receipt)), life })
            }
            Charged::Denied(denied) => Err(Some(denied)),
            Charged::Full(_) => Err(None),
        }
    }
}

/// By any other, of a key that has its slot.
impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Visitor for LendSlot<'_, K, A, C> {
    type Out = LentResult;

    fn visit<M: StateMachine>(self, machine: &M) -> LentResult {
        let Self { limiter, probe, n, now } = self;
        let request = Request { now, cells: n };
        match limiter.table().charge_ahead(probe, machine, request, just(n)) {
            Some((_, state)) => Ok(Lent { taken: None, life: machine.lease_life(state, now) }),
            None => Err(limiter.peek_by(machine, probe, n, now).err()),
        }
    }
}

/// A lease of the only bucket.
struct LendBucket<'a> {
    cell: DirectCell<'a>,
    n: u64,
    now: Tick,
}

impl RefundVisitor for LendBucket<'_> {
    type Out = LentResult;

    fn visit<M: Refund>(self, machine: &M) -> LentResult {
        let Self { cell, n, now } = self;
        let receipt = cell.charge(machine, now, n).map_err(Some)?;
        let life = machine.lease_life(receipt.charge.next, now);
        Ok(Lent { taken: Some(RefundableCharge::Bucket(receipt)), life })
    }
}

impl Visitor for LendBucket<'_> {
    type Out = LentResult;

    fn visit<M: StateMachine>(self, machine: &M) -> LentResult {
        let Self { cell, n, now } = self;
        match cell.charge_ahead(machine, Request { now, cells: n }, just(n)) {
            Some((_, state)) => Ok(Lent { taken: None, life: machine.lease_life(state, now) }),
            None => Err(cell.peek(machine, now, n).err()),
        }
    }
}
