//! The parts that both limiters of requests in flight have in common: the longest hold, the limit, the clock.

use crate::algo::Refund;
use crate::algo::in_flight::{Holds, InFlight};
use crate::cell::ChargeReceipt;
use crate::charge::refund::RefundableCharge;
use crate::concurrency::builder::check_limit;
use crate::concurrency::error::{ConcurrencyDenied, ConcurrencyError};
use crate::concurrency::guard::Entry;
use crate::decision::{Denied, Permit};
use crate::sync::{Fault, SharedValue, planted};
use crate::table::{OutOfMemory, Placed, Probe, Source};
use crate::time::{Clock, Tick};

/// A charge of one request, and what is left, as a composite takes them.
pub(super) type Taken = Result<(RefundableCharge, Permit), Denied>;

pub(super) struct Counting<C> {
    holds: Holds,
    limit: Placed<SharedValue>,
    clock: C,
}

impl<C> Counting<C> {
    pub(super) fn new(
        holds: Holds,
        limit: u64,
        clock: C,
        source: &Source,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self { holds, limit: Placed::new(source, SharedValue::new(limit))?, clock })
    }

    pub(super) fn map_clock<D>(self, map: impl FnOnce(C) -> D) -> Counting<D> {
        Counting { holds: self.holds, limit: self.limit, clock: map(self.clock) }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.read()
    }

    pub(super) fn set_limit(&self, limit: u64) -> Result<(), ConcurrencyError> {
        check_limit(limit, &self.holds)?;
        self.limit.set(limit);
        Ok(())
    }

    #[inline]
    pub(super) fn machine(&self) -> InFlight<'_> {
        self.machine_of(self.limit.read())
    }

    /// The machine by another limit.
    #[inline]
    pub(super) fn machine_of(&self, limit: u64) -> InFlight<'_> {
        InFlight { holds: &self.holds, limit }
    }

    /// The state after the cells of an entry were refunded.
    #[inline(always)]
    pub(super) fn without(&self, state: u64, paid: &ChargeReceipt) -> u64 {
        let mut receipt = paid.charge;
        if planted(Fault::ExpiredRefunds) {
            receipt.next = state;
        }
        self.machine_of(0).refund(state, &receipt, Tick::ZERO, receipt.cells)
    }

    /// The cells in flight right after an entry.
    pub(super) fn in_flight_after(&self, entry: &Entry) -> u64 {
        match entry.is_counted() {
            true => self.machine_of(0).in_word(entry.receipt().charge.next),
            false => entry.cells,
        }
    }

    /// An entry as a composite takes it: by the limit that has admitted it, which keys without a slot may share.
    pub(super) fn taken(
        &self,
        entry: &Entry,
        probe: Probe,
        limit: u64,
    ) -> (RefundableCharge, Permit) {
        let permit = self.machine_of(limit).permit_of(self.in_flight_after(entry));
        (entry.charge(probe), permit)
    }

    /// A denial as a composite takes it: by the limit that has denied, which keys without a slot may share.
    pub(super) fn denied_of(&self, denied: &ConcurrencyDenied) -> Denied {
        self.machine_of(denied.limit).denied_at(denied.cells_taken())
    }
}

impl<C: Clock> Counting<C> {
    /// The time given, or that of the clock.
    #[inline]
    pub(super) fn or_now(&self, at: Option<Tick>) -> Tick {
        at.unwrap_or_else(|| self.clock.now())
    }

    /// The time where answers depend on it, because requests expire; else any time. Without expiry, only a key
    /// that takes a slot needs the time.
    #[inline]
    pub(super) fn if_needed(&self, at: Option<Tick>) -> Tick {
        match at {
            None if !self.holds.expire() => Tick::ZERO,
            _ => self.or_now(at),
        }
    }
}
