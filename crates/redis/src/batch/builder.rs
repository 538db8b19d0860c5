//! What can be chosen for a [`Batched`].

use core::fmt;
use core::time::Duration;

use tokio::runtime::Handle;
use tollgate::Clock;
use tollgate::clock::QuantaClock;

use super::batched::{Batched, Rules};
use super::ledger::CounterStore;
use super::tab::CELLS_MAX;

/// Builds a [`Batched`].
///
/// ```
/// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
/// # struct Away;
/// # impl CounterStore for Away {
/// #     async fn add(&self, _: &[Charge]) -> Result<Vec<Known>, Unavailable> {
/// #         Err(Unavailable::Disconnected)
/// #     }
/// # }
/// assert_eq!(Batched::builder(Away, 100).build().unwrap_err(), BatchError::NoRuntime);
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// assert!(Batched::builder(Away, 100).most_unsent(10).build().is_ok());
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is limited before it is built"]
pub struct BatchedBuilder<L, C = QuantaClock> {
    ledger: L,
    clock: C,
    rules: Rules,
}

impl<L: CounterStore> BatchedBuilder<L> {
    pub(crate) fn new(ledger: L, limit: u64) -> Self {
        let interval = Duration::from_millis(10);
        let rules = Rules { limit, most_unsent: (limit / 100).max(1), interval, capacity: 100_000 };
        Self { ledger, clock: QuantaClock::new(), rules }
    }
}

impl<L: CounterStore, C: Clock + Send + Sync + 'static> BatchedBuilder<L, C> {
    /// The clock that windows are told by; the processor's own unless chosen.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
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
        BatchedBuilder { ledger: self.ledger, clock, rules: self.rules }
    }

    /// How long counts are gathered before they are sent; 10 ms unless chosen.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
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
        Self { rules: Rules { interval: span, ..self.rules }, ..self }
    }

    /// How many cells of a key may be admitted that the ledger has not answered for; a hundredth of
    /// the limit unless chosen. With so many, counts are sent at once, and requests wait for the
    /// answer. A single request may be for more.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let builder = Batched::builder(Blank, 100).most_unsent(101);
    /// assert_eq!(builder.build().unwrap_err(), BatchError::Unsent);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn most_unsent(self, cells: u64) -> Self {
        Self { rules: Rules { most_unsent: cells, ..self.rules }, ..self }
    }

    /// Keys that counts are kept of; 100,000 unless chosen. A key that finds no place costs a call
    /// for each request.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
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
        Self { rules: Rules { capacity: keys, ..self.rules }, ..self }
    }

    /// The limiter, and its task that sends counts. That ends, after sending what is left, when
    /// the last clone of the limiter is dropped.
    ///
    /// # Errors
    ///
    /// What is out of range, or that this is not called on tokio.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// assert_eq!(Batched::builder(Blank, 0).build().unwrap_err(), BatchError::Limit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Batched<L, C>, BatchError> {
        let Rules { limit, most_unsent, interval, capacity } = self.rules;
        if !(1..=CELLS_MAX).contains(&limit) {
            return Err(BatchError::Limit);
        }
        if !(1..=limit).contains(&most_unsent) {
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
        Ok(Batched::start(self.ledger, self.clock, self.rules, &runtime))
    }
}

/// Why there is no [`Batched`].
///
/// ```
/// use tollgate_redis::BatchError;
/// assert_eq!(BatchError::NoRuntime.to_string(), "counts are sent by a task: build it on tokio");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// A limit of nothing, or too large.
    Limit,
    /// More may be unsent than the limit, or nothing.
    Unsent,
    /// An interval of nothing, or of more than an hour.
    Interval,
    /// No key has a place.
    Capacity,
    /// It is not built on tokio.
    NoRuntime,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limit => "a window's limit is 1 to 16,777,215 cells",
            Self::Unsent => "1 cell to the window's limit may be unsent: choose within that",
            Self::Interval => "counts are gathered for up to an hour: choose a shorter interval",
            Self::Capacity => "no key has a place: choose a capacity of 1 or more",
            Self::NoRuntime => "counts are sent by a task: build it on tokio",
        })
    }
}

impl core::error::Error for BatchError {}
