//! The interface between the process and the server that grants leases.

use core::future::Future;
use core::time::Duration;

use tollgate::decision::DecisionParts;

use crate::unavailable::Unavailable;

/// Holds the quota of all processes, and leases cells of it.
///
/// A [`Leased`](crate::Leased) limiter calls a source and spends what it is granted.
/// [`Grant::lifetime`](crate::Grant::lifetime) says what the source must ensure for the quota to
/// hold.
///
/// ```
/// use std::time::Duration;
/// use tollgate::decision::DecisionParts;
/// use tollgate::{Limiter, Quota};
/// use tollgate_redis::{LeaseSource, Grant, Leased, Unavailable, LeaseRequest};
///
/// /// A source in this process. A source that several processes share is on a server.
/// struct Near(Limiter<[u8]>);
///
/// impl LeaseSource for Near {
///     async fn take(&self, key: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
///         let cells = if self.0.check_n(key, want.max).is_ok() { want.max } else { 0 };
///         let parts = DecisionParts { limit: 60, remaining: 0, reset_after: Duration::from_secs(3600) };
///         // At 100 an hour, 40 cells come back in the lifetime, so 60 may be leased at a time.
///         let lifetime = Duration::from_secs(1440);
///         Ok(Grant { cells, lifetime, parts, retry_after: (cells == 0).then_some(lifetime) })
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let quota = Quota::per_hour(100).burst(60);
/// let leased = Leased::builder(Near(Limiter::builder(quota).build()?)).build()?;
/// let mut admitted = 0;
/// for _ in 0..10 {
///     admitted += u64::from(leased.check(b"alice").await?.decision.is_ok());
/// }
/// assert_eq!(admitted, 10);
/// assert!(leased.stats().calls < 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait LeaseSource: Send + Sync + 'static {
    /// Takes cells of `key`'s quota: at least [`LeaseRequest::min`] or none, and up to
    /// [`LeaseRequest::max`]. Several calls for one key may be in flight at a time.
    ///
    /// The answer must come within a bounded time, or be [`Unavailable`]: requests wait for it.
    fn take(
        &self,
        key: &[u8],
        want: LeaseRequest,
    ) -> impl Future<Output = Result<Grant, Unavailable>> + Send;

    /// The longest time that a request waits for an answer, however many calls it makes or waits
    /// for. Leases that are shorter than a call may take arrive too late, so a source should have
    /// [`Grant::lifetime`] at least as long as this. Without a deadline, a request waits for several
    /// calls.
    fn deadline(&self) -> Duration {
        Duration::MAX
    }
}

/// How many cells a call asks for.
///
/// ```
/// use tollgate_redis::LeaseRequest;
///
/// let want = LeaseRequest { min: 1, max: 100 };
/// assert!(want.min <= want.max);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "sources read it, tests build it")]
pub struct LeaseRequest {
    /// Fewer cells are useless. With 0, no cells need be granted: the call asks for the key's
    /// state.
    pub min: u64,
    /// The largest number of cells.
    pub max: u64,
}

/// The answer of a [`LeaseSource`].
///
/// ```
/// use std::time::Duration;
/// use tollgate::decision::DecisionParts;
/// use tollgate_redis::{Grant, LeaseRequest};
///
/// let parts = DecisionParts { limit: 100, remaining: 0, reset_after: Duration::from_secs(1) };
/// let lifetime = Duration::from_millis(100);
/// let grant = Grant { cells: 3, lifetime, parts, retry_after: None };
/// assert!(grant.covers(LeaseRequest { min: 2, max: 5 }));
/// assert!(!grant.covers(LeaseRequest { min: 4, max: 5 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "every source builds it")]
pub struct Grant {
    /// Cells that were charged and now belong to the caller. 0 is a denial.
    pub cells: u64,
    /// How long the cells may be spent, counted from when the call was **sent**, by the caller's
    /// own monotonic clock.
    ///
    /// With a token bucket, no span sees more than `burst + rate * span` cells spent, over any
    /// number of processes, if the source charges against a burst lowered by `rate * lifetime`:
    /// cells that are spent in a span were charged within a span that is longer by the lifetime.
    /// With a fixed window, the lifetime must end with the window.
    pub lifetime: Duration,
    /// The key's state after the charge.
    pub parts: DecisionParts,
    /// After a denial: how long until [`LeaseRequest::min`] cells are available. `None` if waiting
    /// does not help.
    pub retry_after: Option<Duration>,
}

impl Grant {
    /// Whether at least [`LeaseRequest::min`] cells were granted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::decision::DecisionParts;
    /// # use tollgate_redis::{Grant, LeaseRequest};
    /// let parts = DecisionParts { limit: 5, remaining: 0, reset_after: Duration::ZERO };
    /// let grant = Grant { cells: 0, lifetime: Duration::ZERO, parts, retry_after: None };
    /// assert!(!grant.covers(LeaseRequest { min: 1, max: 1 }));
    /// ```
    #[must_use]
    pub fn covers(&self, want: LeaseRequest) -> bool {
        self.cells >= want.min
    }
}
