//! Guards of requests in flight: a composite refunds their cells when the request has left.

use super::{Composite, CompositeDenied, CompositePermit, MEMBERS_MAX};
use crate::charge::refund::RefundableCharge;
use crate::concurrency::{Guard, OwnedGuard, sealed};
use crate::time::Tick;

/// The permit of a request, and the charges that a guard refunds.
#[derive(Clone, Copy, Debug)]
pub struct CompositeEntry {
    pub(super) permit: CompositePermit,
    pub(super) charges: [RefundableCharge; MEMBERS_MAX],
}

impl<R: ?Sized> sealed::Enter for Composite<'_, R> {
    type Entry = CompositeEntry;
    type Denied = CompositeDenied;

    fn enter_cells(
        &self,
        request: &R,
        cells: u64,
        at: Option<Tick>,
    ) -> Result<CompositeEntry, CompositeDenied> {
        self.decide(request, cells, at)
    }

    fn leave(&self, entry: &CompositeEntry) {
        if self.counts_in_flight {
            self.leave_all(entry);
        }
    }
}

impl<R: ?Sized> Guard<'_, Composite<'_, R>> {
    /// The permit of the request.
    pub fn permit(&self) -> &CompositePermit {
        &self.entry().permit
    }
}

impl<R: ?Sized> OwnedGuard<Composite<'_, R>> {
    /// The permit of the request.
    pub fn permit(&self) -> &CompositePermit {
        &self.entry().permit
    }
}
