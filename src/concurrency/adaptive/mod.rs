//! Adaptive limits of requests in flight: a controller moves the limit by latencies and failures.
//!
//! An [`AdaptiveLimit`] counts like a [`DirectConcurrency`]. Each guard reports how its request ended, and
//! a [`Controller`] moves the limit:
//!
//! | controller | what it compares | take it where |
//! |---|---|---|
//! | [`Aimd`] | failures, or latencies with a fixed one | an overloaded upstream fails and is not slow before |
//! | [`Gradient`] | the latency of a window with the average of many | latencies change slowly, and requests must not be held back for a measurement |
//! | [`MinLatency`] | the latency of a window with one that it measures now and then at a small limit | the upstream may be overloaded for long |
//!
//! # Guarded by
//!
//! `loom-tests/tests/adaptive.rs`, run by `ci/check.sh loom`: the protocol of the samples is in
//! `src/cell/adaptive_cell.rs`.

mod builder;
mod guard;

use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

pub use crate::algo::adaptive::{Aimd, Controller, Gradient, MinLatency};
use crate::algo::adaptive::{Sample, latency_of};
use crate::cell::AdaptiveCell;
use crate::concurrency::direct::DirectConcurrency;
use crate::concurrency::error::ConcurrencyDenied;
use crate::concurrency::guard::sealed::Count as _;
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

pub use builder::{AdaptiveBuilder, AdaptiveError};
use guard::AdaptiveGuardBy;
pub use guard::{AdaptiveGuard, OwnedAdaptiveGuard};

/// A limit of requests in flight that follows what an upstream can take.
///
/// Requests are collected in windows. At the end of a window a [`Controller`] sets the next limit. A
/// request that ends adds itself to the window; the one that finds the window over makes the step.
///
/// **Guarantee.** A request enters only if the requests in flight, itself included, are at most the limit
/// that it has read. The limit is never outside its [range](AdaptiveBuilder::limits). Each request that is
/// reported is in at most one window, and the controller steps once for each window, under any interleaving of
/// threads. Entering is one compare-and-swap, and ending a request is two. There is no lock, no allocation
/// and no background thread, and a request waits for no other. Lock-free, not wait-free.
///
/// **Not guaranteed.**
///
/// - The best limit. A controller moves by what it measures; a limit that is right for one upstream is
///   not found where latencies do not depend on the load.
/// - Order: a denied request is not queued.
/// - A window takes requests until it has 4,095 that succeed or 2,047 that fail. Further ones are left out. A
///   controller that measures the shortest latency anew ([`MinLatency`]) leaves out the requests that entered before.
/// - A thread that is stopped in the middle of a step holds up the next step. The limit stays meanwhile. If the
///   process is forked just then, the limit stays for ever in the child: make it after the fork.
/// - A latency above 68.7 s counts as 68.7 s.
///
/// ```
/// use tollgate::concurrency::adaptive::{AdaptiveLimit, MinLatency};
///
/// let upstream = AdaptiveLimit::builder(MinLatency::new()).limits(3, 500).build()?;
/// match upstream.enter() {
///     Ok(guard) => {
///         let answer: Result<(), ()> = Ok(()); // ask the upstream
///         match answer {
///             Ok(()) => guard.succeeded(),
///             Err(()) => guard.failed(),
///         }
///     }
///     Err(denied) => println!("503: {denied}"),
/// }
/// # Ok::<(), tollgate::concurrency::adaptive::AdaptiveError>(())
/// ```
pub struct AdaptiveLimit<C = QuantaClock> {
    gate: DirectConcurrency<NeverRead>,
    cell: CachePadded<AdaptiveCell>,
    clock: C,
}

/// The clock of the inner count, which is never read: every call passes the time.
pub(super) struct NeverRead;

impl Clock for NeverRead {
    fn now(&self) -> Tick {
        Tick::ZERO
    }
}

/// The state of an [`AdaptiveLimit`]. See [`AdaptiveLimit::reading`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdaptiveReading {
    /// The limit.
    pub limit: u64,
    /// Windows so far.
    pub windows: u64,
    /// Requests in those windows.
    pub samples: u64,
    /// The latency that windows are compared with: the long-term average, or the one measured last.
    /// `None` with [`Aimd`], and before there is one.
    pub baseline: Option<Duration>,
    /// Whether it measures the baseline, at the smallest limit.
    pub is_measuring: bool,
}

impl AdaptiveLimit {
    /// Begins a limit that `controller` moves; [`AdaptiveBuilder`] lists the choices.
    ///
    /// ```
    /// use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd};
    /// let upstream = AdaptiveLimit::builder(Aimd::new()).initial(20).limits(5, 200).build()?;
    /// assert_eq!(upstream.limit(), 20);
    /// # Ok::<(), tollgate::concurrency::adaptive::AdaptiveError>(())
    /// ```
    pub fn builder(controller: impl Into<Controller>) -> AdaptiveBuilder {
        AdaptiveBuilder::new(controller.into())
    }
}

impl<C: Clock> AdaptiveLimit<C> {
    /// Counts one request as in flight until the guard reports its end, if the limit admits it.
    ///
    /// # Errors
    ///
    /// The denial, with the requests that are in flight. Nothing is counted.
    pub fn enter(&self) -> Result<AdaptiveGuard<'_, C>, ConcurrencyDenied> {
        self.enter_at(self.clock.now())
    }

    /// The same at the instant `now` of the limit's clock.
    ///
    /// # Errors
    ///
    /// The denial, with the requests that are in flight. Nothing is counted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Tick;
    /// use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd};
    ///
    /// let upstream = AdaptiveLimit::builder(Aimd::new()).build()?;
    /// let guard = upstream.enter_at(Tick::ZERO)?;
    /// guard.succeeded_at(Tick::from_duration(Duration::from_millis(20)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter_at(&self, now: Tick) -> Result<AdaptiveGuard<'_, C>, ConcurrencyDenied> {
        Ok(AdaptiveGuard(AdaptiveGuardBy::enter(self, now)?))
    }

    /// The same with a guard that holds the limit in its `Arc`, so that it may move with a request from
    /// task to task.
    ///
    /// # Errors
    ///
    /// The denial, with the requests that are in flight. Nothing is counted.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd};
    ///
    /// let upstream = Arc::new(AdaptiveLimit::builder(Aimd::new()).build()?);
    /// let guard = upstream.enter_owned()?;
    /// std::thread::spawn(move || guard.succeeded()).join().expect("no panic");
    /// assert_eq!(upstream.in_flight(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter_owned(self: &Arc<Self>) -> Result<OwnedAdaptiveGuard<C>, ConcurrencyDenied> {
        Ok(OwnedAdaptiveGuard(AdaptiveGuardBy::enter(Arc::clone(self), self.clock.now())?))
    }

    /// The requests that are in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.gate.cells_in_flight(&(), Some(self.clock.now()))
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Adds a request that entered at `entered` and is reported at `now`.
    fn record(&self, sample: &Sample, entered: Tick, now: Tick) {
        self.cell.record(sample, entered, now, |limit| {
            let set = self.gate.counting().set_limit(limit);
            debug_assert!(set.is_ok(), "the builder has checked the range");
            self.clock.now()
        });
    }
}

impl<C> AdaptiveLimit<C> {
    /// The limit now.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.gate.counting().limit()
    }

    /// The smallest and the largest limit that it may have.
    #[must_use]
    pub fn limits(&self) -> RangeInclusive<u64> {
        let range = self.cell.plan().range;
        range.min..=range.max
    }

    /// The state after the last window; `None` while a thread steps, which takes less than a microsecond.
    ///
    /// ```
    /// use tollgate::concurrency::adaptive::{AdaptiveLimit, MinLatency};
    /// let upstream = AdaptiveLimit::builder(MinLatency::new()).limits(3, 500).build()?;
    /// let reading = upstream.reading().expect("no thread steps");
    /// assert!(reading.is_measuring && reading.limit == 3 && reading.baseline.is_none());
    /// # Ok::<(), tollgate::concurrency::adaptive::AdaptiveError>(())
    /// ```
    #[must_use]
    pub fn reading(&self) -> Option<AdaptiveReading> {
        let (windows, state) = self.cell.read()?;
        Some(AdaptiveReading {
            limit: state.whole_limit(),
            windows,
            samples: state.counted,
            baseline: (state.baseline > 0).then(|| latency_of(state.baseline)),
            is_measuring: state.is_measuring(),
        })
    }
}

impl<C> fmt::Debug for AdaptiveLimit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveLimit")
            .field("limit", &self.limit())
            .field("controller", &self.cell.plan().controller)
            .field("reading", &self.reading())
            .finish_non_exhaustive()
    }
}
