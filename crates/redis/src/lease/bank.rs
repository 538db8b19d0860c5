//! Where leases come from: the seam between the process and the server.

use core::future::Future;
use core::time::Duration;

use tollgate::decision::DecisionParts;

use crate::Unavailable;

/// Who has the quota of all processes, and leases cells of it.
///
/// A [`Leased`](crate::Leased) asks one and spends what it is given. What the bank has to keep for
/// the quota to hold is said at [`Grant::lifetime`].
///
/// ```
/// use std::time::Duration;
/// use tollgate::decision::DecisionParts;
/// use tollgate::{Limiter, Quota};
/// use tollgate_redis::{LeaseSource, Grant, Leased, Unavailable, Want};
///
/// /// A bank in this process. One that several processes share is on a server.
/// struct Near(Limiter<[u8]>);
///
/// impl LeaseSource for Near {
///     async fn take(&self, key: &[u8], want: Want) -> Result<Grant, Unavailable> {
///         let cells = if self.0.check_n(key, want.most).is_ok() { want.most } else { 0 };
///         let parts = DecisionParts { limit: 60, remaining: 0, reset_after: Duration::from_secs(3600) };
///         // At 100 an hour, 40 cells come back in the lifetime; so 60 may be out at a time.
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
///     admitted += u64::from(leased.check(b"somebody").await?.decision.is_ok());
/// }
/// assert_eq!(admitted, 10);
/// assert!(leased.stats().calls < 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait LeaseSource: Send + Sync + 'static {
    /// Takes cells of `key`'s quota: at least [`Want::least`] or none, and up to [`Want::most`].
    /// Several calls for one key may be under way at once.
    ///
    /// The answer must come within a bounded time, or be [`Unavailable`]: those who wait for it
    /// wait as long.
    fn take(
        &self,
        key: &[u8],
        want: Want,
    ) -> impl Future<Output = Result<Grant, Unavailable>> + Send;
}

/// How many cells are asked for.
///
/// ```
/// use tollgate_redis::Want;
///
/// let want = Want { least: 1, most: 100 };
/// assert!(want.least <= want.most);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a bank is asked by it, a test makes it")]
pub struct Want {
    /// Fewer are of no use. With 0 nothing need be given: the question is how things stand.
    pub least: u64,
    /// No more than these.
    pub most: u64,
}

/// What a bank answers.
///
/// ```
/// use std::time::Duration;
/// use tollgate::decision::DecisionParts;
/// use tollgate_redis::{Grant, Want};
///
/// let parts = DecisionParts { limit: 100, remaining: 0, reset_after: Duration::from_secs(1) };
/// let lifetime = Duration::from_millis(100);
/// let grant = Grant { cells: 3, lifetime, parts, retry_after: None };
/// assert!(grant.covers(Want { least: 2, most: 5 }));
/// assert!(!grant.covers(Want { least: 4, most: 5 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "whoever writes a bank makes it")]
pub struct Grant {
    /// Cells that were charged, and are the asker's now; 0 is a denial.
    pub cells: u64,
    /// How long they may be spent, counted from when the call was **sent**, by the asker's own
    /// monotonic clock.
    ///
    /// With a token bucket, no span sees more than `burst + rate * span` cells spent, over any
    /// number of processes, if the bank charges against a burst lowered by `rate * lifetime`:
    /// cells spent in a span were charged within a span longer by the lifetime. With a fixed
    /// window, the lifetime must end with the window.
    pub lifetime: Duration,
    /// How the key stands at the bank after this.
    pub parts: DecisionParts,
    /// After a denial: when [`Want::least`] cells would be there; `None` where no waiting helps.
    pub retry_after: Option<Duration>,
}

impl Grant {
    /// Whether as many were given as are of use.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::decision::DecisionParts;
    /// # use tollgate_redis::{Grant, Want};
    /// let parts = DecisionParts { limit: 5, remaining: 0, reset_after: Duration::ZERO };
    /// let grant = Grant { cells: 0, lifetime: Duration::ZERO, parts, retry_after: None };
    /// assert!(!grant.covers(Want { least: 1, most: 1 }));
    /// ```
    #[must_use]
    pub fn covers(&self, want: Want) -> bool {
        self.cells >= want.least
    }
}
