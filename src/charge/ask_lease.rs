//! A request to a lease.

use core::fmt;
use core::ops::Deref;

use crate::charge::lease::Lease;
use crate::charge::lender::Lender;
use crate::decision::Denied;
use crate::time::Tick;

/// One request to a lease: made by [`LocalLease::ask`](crate::lease::LocalLease::ask) or
/// [`OwnedLocalLease::ask`](crate::lease::OwnedLocalLease::ask), ended by [`check`](Self::check).
///
/// It is what an [`Ask`](crate::Ask) is to a limiter. It has a type of its own because a lease is
/// asked by `&mut`, and an `Ask` holds a shared reference. `H` is how the lease holds its limiter.
#[must_use = "a request does nothing until `check` ends it"]
pub struct AskLease<'l, H>
where
    H: Deref<Target: Lender>,
{
    lease: &'l mut Lease<H>,
    cells: u64,
    at: Option<Tick>,
}

impl<'l, H: Deref<Target: Lender>> AskLease<'l, H> {
    #[inline(always)]
    pub(super) fn new(lease: &'l mut Lease<H>) -> Self {
        Self { lease, cells: 1, at: None }
    }

    /// Sets how many cells are asked for, all of them or none. Without it, one cell is asked for.
    #[inline(always)]
    pub fn cells(self, cells: u64) -> Self {
        Self { cells, ..self }
    }

    /// Asks at the instant `now`, which the caller reads from its own clock: see
    /// [`Ask::at`](crate::Ask::at).
    #[inline(always)]
    pub fn at(self, now: Tick) -> Self {
        Self { at: Some(now), ..self }
    }

    /// Spends the cells of the lease if it holds as many, and otherwise asks the limiter.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    #[inline(always)]
    pub fn check(self) -> Result<(), Denied> {
        self.lease.check(self.cells, self.at)
    }
}

impl<H: Deref<Target: Lender>> fmt::Debug for AskLease<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskLease")
            .field("cells", &self.cells)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
