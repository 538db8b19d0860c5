//! The builder of a [`Batched`].

use core::fmt;
use core::time::Duration;

use tokio::runtime::Handle;
use tollgate::Clock;
use tollgate::clock::QuantaClock;

use super::batched::{Batched, Settings};
use super::counter_store::CounterStore;
use super::pending_counts::CELLS_MAX;

/// Configures a [`Batched`].
///
/// ```
/// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
/// # struct Away;
/// # impl CounterStore for Away {
/// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
/// #         vec![Err(Unavailable::Disconnected); charges.len()]
/// #     }
/// # }
/// assert_eq!(Batched::builder(Away, 100).build().unwrap_err(), BatchError::NoRuntime);
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// assert!(Batched::builder(Away, 100).max_unsent(10).build().is_ok());
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is limited before it is built"]
pub struct BatchedBuilder<L, C = QuantaClock> {
    store: L,
    clock: C,
    settings: Settings,
}

impl<L: CounterStore> BatchedBuilder<L> {
    pub(super) fn new(store: L, limit: u64) -> Self {
        let interval = Duration::from_millis(10);
        let settings =
            Settings { limit, max_unsent: (limit / 100).max(1), interval, capacity: 100_000 };
        Self { store, clock: QuantaClock::new(), settings }
    }
}

impl<L: CounterStore, C: Clock + Send + Sync + 'static> BatchedBuilder<L, C> {
    /// The clock of the local copy, which times the end of a window: it should not run ahead of the counter
    /// store's. The default is the processor's own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use tollgate::ManualClock;
    /// let batched = Batched::builder(Blank, 100).clock(ManualClock::new()).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock<D: Clock + Send + Sync + 'static>(self, clock: D) -> BatchedBuilder<L, D> {
        BatchedBuilder { store: self.store, clock, settings: self.settings }
    }

    /// How long counts are gathered before they are sent. The default is 10 ms.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let never = Batched::builder(Blank, 100).interval(Duration::ZERO);
    /// assert_eq!(never.build().unwrap_err(), BatchError::Interval);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interval(self, span: Duration) -> Self {
        Self { settings: Settings { interval: span, ..self.settings }, ..self }
    }

    /// How many cells of a key may be admitted before the counter store has answered for them. The
    /// default is a hundredth of the limit, at least one. When a key reaches this number, its counts are sent
    /// immediately, and requests wait for the answer. A single request may be for more. It is admitted only
    /// while no cell of its key is pending, so choose no less than the largest request for a hot key.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let builder = Batched::builder(Blank, 100).max_unsent(101);
    /// assert_eq!(builder.build().unwrap_err(), BatchError::Unsent);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_unsent(self, cells: u64) -> Self {
        Self { settings: Settings { max_unsent: cells, ..self.settings }, ..self }
    }

    /// The number of keys whose counts are kept. The default is 100,000. For a key that finds no
    /// room, each request costs a call. A key of more than 1,024 bytes takes no room.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let builder = Batched::builder(Blank, 100).capacity(0);
    /// assert_eq!(builder.build().unwrap_err(), BatchError::Capacity);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capacity(self, keys: u64) -> Self {
        Self { settings: Settings { capacity: keys, ..self.settings }, ..self }
    }

    /// Builds the limiter and starts the task that sends counts. The task ends within an
    /// interval after the last clone of the limiter is dropped, and sends what is left before.
    ///
    /// # Errors
    ///
    /// A setting is out of range, or the caller is not on a tokio runtime.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// assert_eq!(Batched::builder(Blank, 0).build().unwrap_err(), BatchError::Limit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Batched<L, C>, BatchError> {
        let Settings { limit, max_unsent, interval, capacity } = self.settings;
        if !(1..=CELLS_MAX).contains(&limit) {
            return Err(BatchError::Limit);
        }
        if !(1..=limit).contains(&max_unsent) {
            return Err(BatchError::Unsent);
        }
        let longest = Duration::from_secs(3_600);
        if interval.is_zero() || interval > longest {
            return Err(BatchError::Interval);
        }
        if capacity == 0 {
            return Err(BatchError::Capacity);
        }
        let runtime = Handle::try_current().map_err(|_| BatchError::NoRuntime)?;
        Ok(Batched::start(self.store, self.clock, self.settings, &runtime))
    }
}

/// Why a [`Batched`] cannot be built.
///
/// ```
/// use tollgate_redis::BatchError;
/// assert_eq!(BatchError::NoRuntime.to_string(), "a task sends the counts: build it on tokio");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The limit is zero, or too large.
    Limit,
    /// The number of unsent cells is zero, or larger than the limit.
    Unsent,
    /// The interval is zero, or longer than an hour.
    Interval,
    /// The capacity is zero.
    Capacity,
    /// The caller is not on a tokio runtime.
    NoRuntime,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limit => "a window's limit is 1 to 16,777,215 cells",
            Self::Unsent => {
                "from 1 cell to the window's limit may be unsent: choose a number within that"
            }
            Self::Interval => "counts are gathered for up to an hour: choose a shorter interval",
            Self::Capacity => "no key has room: choose a capacity of 1 or more",
            Self::NoRuntime => "a task sends the counts: build it on tokio",
        })
    }
}

impl core::error::Error for BatchError {}
