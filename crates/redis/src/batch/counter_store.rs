//! The interface between the process and the store of counts.

use core::future::Future;
use core::time::Duration;

use crate::unavailable::Unavailable;

/// Counts the cells of all processes, in fixed windows.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::{Charge, WindowCount, CounterStore, Unavailable};
///
/// /// Counts nothing, so everything passes.
/// struct Blank;
///
/// impl CounterStore for Blank {
///     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
///         let window = WindowCount { used: 0, ends_after: Duration::from_secs(1) };
///         vec![Ok(window); charges.len()]
///     }
/// }
/// ```
pub trait CounterStore: Send + Sync + 'static {
    /// Adds to what each key has used in its current window. It never denies, and answers for each
    /// charge in the same order. A key that fails must not keep the others from being counted.
    ///
    /// The answers must come within a bounded time, or be [`Unavailable`]. A charge that failed is
    /// sent again, and no other charge is. So the cells of that charge may be counted once more for
    /// each failure, which denies too much rather than too little. [`Unavailable::Failed`] is an answer
    /// about one key. After any other failure of all keys, no request waits until a call is answered.
    fn add(
        &self,
        charges: &[Charge],
    ) -> impl Future<Output = Vec<Result<WindowCount, Unavailable>>> + Send;

    /// The longest time that a request waits for an answer, whichever call brings it. Without a
    /// deadline, it waits for three calls at most.
    fn deadline(&self) -> Duration {
        Duration::MAX
    }
}

/// The cells of one key that a process has admitted.
///
/// ```
/// use tollgate_redis::Charge;
/// let charge = Charge { key: b"192.0.2.7".as_slice().into(), cells: 3 };
/// assert_eq!(charge.cells, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "stores read it, tests build it")]
pub struct Charge {
    /// The key.
    pub key: Box<[u8]>,
    /// The number of cells.
    pub cells: u64,
}

/// The state of a key's window.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::WindowCount;
/// let window = WindowCount { used: 7, ends_after: Duration::from_millis(300) };
/// assert_eq!(window.used, 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "every counter store builds it")]
pub struct WindowCount {
    /// Cells that all processes have used in the window, including those just added.
    pub used: u64,
    /// How long the window remains open.
    pub ends_after: Duration,
}
