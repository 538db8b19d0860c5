//! Where counts are kept: the seam between the process and the server.

use core::future::Future;
use core::time::Duration;

use crate::Unavailable;

/// Who counts for all processes, in fixed windows.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::{Charge, WindowCount, CounterStore, Unavailable};
///
/// /// StatCounters nothing, and so lets everything pass.
/// struct Blank;
///
/// impl CounterStore for Blank {
///     async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
///         let known = WindowCount { used: 0, ends_after: Duration::from_secs(1) };
///         Ok(vec![known; charges.len()])
///     }
/// }
/// ```
pub trait CounterStore: Send + Sync + 'static {
    /// Adds to what each key has used in its window that is open on arrival, whatever that comes
    /// to, and answers for each key in the same order.
    ///
    /// The answer must come within a bounded time, or be [`Unavailable`]. Charges of a call that
    /// failed are sent again, so they may be counted twice; that is on the limit's side.
    fn add(
        &self,
        charges: &[Charge],
    ) -> impl Future<Output = Result<Vec<WindowCount>, Unavailable>> + Send;
}

/// What a process has admitted of one key.
///
/// ```
/// use tollgate_redis::Charge;
/// let charge = Charge { key: b"192.0.2.7".as_slice().into(), cells: 3 };
/// assert_eq!(charge.cells, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a ledger is asked by it, a test makes it")]
pub struct Charge {
    /// Whose.
    pub key: Box<[u8]>,
    /// How many.
    pub cells: u64,
}

/// How a key's window stands.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::WindowCount;
/// let known = WindowCount { used: 7, ends_after: Duration::from_millis(300) };
/// assert_eq!(known.used, 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "whoever writes a ledger makes it")]
pub struct WindowCount {
    /// Cells that all processes have used in it, with those just added.
    pub used: u64,
    /// How long it is still open.
    pub ends_after: Duration,
}
