//! One count, no key.

use core::fmt;

use crate::cell::DirectCell;
use crate::concurrency::builder::DirectConcurrencyBuilder;
use crate::concurrency::counting::Counting;
use crate::concurrency::error::{ConcurrencyDenied, ConcurrencyError};
use crate::concurrency::guard::{Entry, Guard, sealed};
use crate::limiter::ask::{Ask, sealed::Askable};
use crate::table::OneBucket;
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

/// A limit of all requests that are in flight: for a process, a connection, an upstream.
///
/// **Guarantee.** A request enters only if the cells in flight, its own included, are at most the limit
/// that it has read, under any interleaving of threads. Entering is one compare-and-swap of one word, and
/// so is leaving. Lock-free, not wait-free. A denial changes no state.
///
/// **Not guaranteed.** Order, and guards that are never dropped: see
/// [`ConcurrencyLimiter`](super::ConcurrencyLimiter). A guard that was alive at a [reset](Self::reset)
/// refunds nothing, unless exactly a multiple of 1,024 resets lies between the two.
///
/// ```
/// use tollgate::concurrency::DirectConcurrency;
///
/// let upstream = DirectConcurrency::new(100)?;
/// let guard = upstream.enter()?;
/// assert_eq!(upstream.in_flight(), 1);
/// drop(guard);
/// assert_eq!(upstream.in_flight(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DirectConcurrency<C = QuantaClock> {
    bucket: OneBucket,
    counting: Counting<C>,
}

impl DirectConcurrency {
    /// A limit of `limit` cells in flight, 1 to 4,194,303.
    ///
    /// # Errors
    ///
    /// The limit is out of range.
    pub fn new(limit: u64) -> Result<Self, ConcurrencyError> {
        Self::builder(limit).build()
    }

    /// Chooses a longest hold and a clock first.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::concurrency::DirectConcurrency;
    /// let gate = DirectConcurrency::builder(8).max_hold(Duration::from_secs(30)).build()?;
    /// # Ok::<(), tollgate::concurrency::ConcurrencyError>(())
    /// ```
    pub fn builder(limit: u64) -> DirectConcurrencyBuilder {
        DirectConcurrencyBuilder::new(limit)
    }
}

impl<C: Clock> DirectConcurrency<C> {
    /// Begins a request: one cell, now, unless the [`Ask`] says otherwise. Its verbs are
    /// [`enter`](Ask::enter), [`enter_owned`](Ask::enter_owned), [`peek`](Ask::peek) and
    /// [`in_flight`](Ask::in_flight).
    #[inline]
    pub fn ask(&self) -> Ask<'_, '_, Self> {
        Ask::new(self, &())
    }

    /// Counts one request as in flight until the guard is dropped, if the limit admits it.
    ///
    /// # Errors
    ///
    /// The denial, with the requests that are in flight. Nothing is counted.
    #[inline]
    pub fn enter(&self) -> Result<Guard<'_, Self>, ConcurrencyDenied> {
        self.ask().enter()
    }

    /// The same with `cells` at once, all of them or none.
    ///
    /// # Errors
    ///
    /// The denial, with the cells that are in flight. Nothing is counted.
    #[inline]
    pub fn enter_n(&self, cells: u64) -> Result<Guard<'_, Self>, ConcurrencyDenied> {
        self.ask().cells(cells).enter()
    }

    /// The cells that are in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.ask().in_flight()
    }

    /// The cells that may be in flight.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.counting.limit()
    }

    /// Changes the limit: see [`ConcurrencyLimiter::set_limit`](super::ConcurrencyLimiter::set_limit).
    ///
    /// # Errors
    ///
    /// The limit is 0, or above what a state can count to. The old one stays.
    pub fn set_limit(&self, limit: u64) -> Result<(), ConcurrencyError> {
        self.counting.set_limit(limit)
    }

    /// Forgets the requests that are in flight. Their guards refund nothing.
    pub fn reset(&self) {
        self.cell().reset();
    }

    /// The time by which a request is counted.
    pub(crate) fn now(&self, at: Option<Tick>) -> Tick {
        self.counting.if_needed(at)
    }
}

impl<C> DirectConcurrency<C> {
    pub(super) fn from_parts(bucket: OneBucket, counting: Counting<C>) -> Self {
        Self { bucket, counting }
    }

    pub(super) fn cell(&self) -> DirectCell<'_> {
        self.bucket.cell()
    }

    pub(super) fn counting(&self) -> &Counting<C> {
        &self.counting
    }
}

impl<C> Askable for DirectConcurrency<C> {
    type Key = ();
    type Params = ();
    type Time = Option<Tick>;
}

impl<C: Clock> sealed::Enter for DirectConcurrency<C> {
    type Entry = Entry;
    type Denied = ConcurrencyDenied;

    #[inline(always)]
    fn enter_cells(
        &self,
        (): &(),
        cells: u64,
        at: Option<Tick>,
    ) -> Result<Entry, ConcurrencyDenied> {
        let paid =
            self.cell().charge(&self.counting.machine(), self.counting.if_needed(at), cells)?;
        Ok(Entry::in_bucket(paid))
    }

    #[inline(always)]
    fn leave(&self, entry: &Entry) {
        let paid = entry.receipt();
        self.cell().revise_charged(&paid, |state| self.counting.without(state, &paid));
    }
}

impl<C: Clock> sealed::Count for DirectConcurrency<C> {
    fn would_enter(&self, (): &(), cells: u64, at: Option<Tick>) -> Result<(), ConcurrencyDenied> {
        Ok(self.peek_at(self.now(at), cells).map(drop)?)
    }

    fn in_flight_after(&self, entry: &Entry) -> u64 {
        self.counting.in_flight_after(entry)
    }

    fn cells_in_flight(&self, (): &(), at: Option<Tick>) -> u64 {
        self.cell().read(&self.counting.machine(), self.now(at), 0).all()
    }
}

impl<C> fmt::Debug for DirectConcurrency<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectConcurrency")
            .field("limit", &self.counting.limit())
            .field("cell", &self.cell())
            .finish_non_exhaustive()
    }
}
