//! One bucket, no key.

use crossbeam_utils::CachePadded;

use crate::algo::Algorithm;
use crate::algo::gcra::Gcra;
use crate::cell::DirectCell;
use crate::decision::Decision;
use crate::limiter::builder::{ClockSource, DirectBuilder};
use crate::quota::{Quota, QuotaError};
use crate::time::clocks::QuantaClock;
use crate::time::{Clock, Tick};

/// A limiter with one bucket: for a whole process, a connection, an upstream.
///
/// It takes two cache lines beside its clock, and shares by reference (or in an `Arc`).
///
/// **Guarantee.** The algorithm's, over all threads, with exact totals: every admission is one
/// compare-and-swap on one word. A denial writes nothing. Lock-free, not wait-free.
///
/// ```
/// use tollgate::{Direct, Quota};
///
/// let gate = Direct::new(Quota::per_second(100).burst(20))?;
/// match gate.check() {
///     Ok(permit) => println!("go ahead, {} left", permit.remaining()),
///     Err(denied) => println!("come back in {:?}", denied.retry_after()),
/// }
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct Direct<A: Algorithm = Gcra, C = QuantaClock> {
    pub(crate) cell: CachePadded<DirectCell>,
    pub(crate) params: A::Params,
    clock: C,
}

impl Direct {
    /// A token bucket with its own clock.
    ///
    /// # Errors
    ///
    /// The quota is out of range; the error says what to do.
    ///
    /// ```
    /// use tollgate::{Direct, Quota};
    /// assert!(Direct::new(Quota::per_second(1)).is_ok());
    /// assert!(Direct::new(Quota::per_second(0)).is_err());
    /// ```
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::builder(quota).build()
    }

    /// Chooses algorithm and clock first.
    ///
    /// ```
    /// use tollgate::{Direct, FixedWindow, Quota};
    /// let gate = Direct::builder(Quota::per_day(5)).algorithm(FixedWindow::aligned()).build()?;
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn builder(quota: Quota) -> DirectBuilder {
        DirectBuilder::new(quota, Gcra::new(), ClockSource::Made(QuantaClock::new))
    }
}

impl<A: Algorithm, C: Clock> Direct<A, C> {
    pub(crate) fn from_parts(params: A::Params, clock: C) -> Self {
        Self { cell: CachePadded::new(DirectCell::new(&params)), params, clock }
    }

    /// Asks for one cell, now.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// assert!(Direct::new(Quota::per_second(1))?.check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `n` cells at once, now: all of them or none.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_second(1_000))?;
    /// assert!(gate.check_n(1_000).is_ok());
    /// assert!(gate.check_n(1_000).is_err());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn check_n(&self, n: u64) -> Decision {
        if let Some(coarse) = self.clock.coarse()
            && let Some(permit) = self.cell.admit(&self.params, coarse, n)
        {
            return Ok(permit);
        }
        self.check_at(n, self.clock.now())
    }

    /// Asks for `n` cells at the instant `now`, which the caller reads from its own clock.
    ///
    /// Use one origin for all calls. A `now` older than one already used never grants more.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(1))?;
    /// assert!(gate.check_at(1, Tick::from_nanos(5)).is_ok());
    /// assert!(gate.check_at(1, Tick::ZERO).is_err());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn check_at(&self, n: u64, now: Tick) -> Decision {
        self.cell.check(&self.params, now, n)
    }

    /// What [`check_at`](Self::check_at) would answer, without charging anything.
    ///
    /// # Errors
    ///
    /// The denial that `check_at` would give.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(3))?;
    /// assert_eq!(gate.peek_at(1, Tick::ZERO).unwrap().remaining(), 2);
    /// assert_eq!(gate.peek_at(0, Tick::ZERO).unwrap().remaining(), 3);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn peek_at(&self, n: u64, now: Tick) -> Decision {
        self.cell.peek(&self.params, now, n)
    }

    /// Forgets all that was charged.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(1))?;
    /// assert!(gate.check_at(1, Tick::ZERO).is_ok());
    /// gate.reset();
    /// assert!(gate.check_at(1, Tick::ZERO).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn reset(&self) {
        self.cell.reset();
    }

    /// The clock that [`check`](Self::check) reads.
    ///
    /// ```
    /// # use tollgate::{Clock, Direct, Quota};
    /// let gate = Direct::new(Quota::per_second(1))?;
    /// let now = gate.clock().now();
    /// assert!(gate.check_at(1, now).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The algorithm with the quota worked in.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// use tollgate::internals::StateMachine;
    /// let gate = Direct::new(Quota::per_second(1))?;
    /// assert_eq!(gate.params().grid().ratio(), (1, 2_500)); // 1 unit is 2,500 ns
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn params(&self) -> &A::Params {
        &self.params
    }
}

impl<A: Algorithm, C> Direct<A, C> {
    /// Yes or no.
    #[inline(always)]
    pub(crate) fn decide_briefly(&self, n: u64, now: Tick) -> bool {
        self.cell.allow(&self.params, now, n)
    }
}

impl<A: Algorithm, C: core::fmt::Debug> core::fmt::Debug for Direct<A, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Direct")
            .field("cell", &*self.cell)
            .field("params", &self.params)
            .field("clock", &self.clock)
            .finish()
    }
}
