//! One bucket, no key.

use core::time::Duration;

use crate::algo::gcra::Gcra;
use crate::algo::{Algorithm, StateMachine, Still, WithinDelay};
use crate::cell::{Answer, DirectCell, InFull};
use crate::decision::{Decision, OutOfLine};
use crate::limiter::ask::Ask;
use crate::limiter::builder::ClockSource;
use crate::limiter::direct_builder::DirectBuilder;
use crate::quota::{Quota, QuotaError};
use crate::table::OneBucket;
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

/// A limiter with one bucket: for a whole process, a connection, an upstream.
///
/// It takes two cache lines beside its clock, and is shared by reference (or in an `Arc`).
///
/// **Guarantee.** That of its algorithm, over all threads, with exact totals: every admission is one
/// compare-and-swap on one word. A denial changes no state, with [two exceptions](crate#guarantees). Lock-free,
/// not wait-free.
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
    bucket: OneBucket,
    params: A::Params,
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
    pub(super) fn from_parts(bucket: OneBucket, params: A::Params, clock: C) -> Self {
        Self { bucket, params, clock }
    }

    /// Begins a request: one cell, now, unless the [`Ask`] says otherwise.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// assert!(gate.ask().cells(10).at(Tick::ZERO).check().is_ok());
    /// assert!(gate.ask().cells(3).at(Tick::from_nanos(300_000_000)).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn ask(&self) -> Ask<'_, '_, Self> {
        Ask::new(self, &())
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
        self.ask().check()
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
        self.ask().cells(n).check()
    }

    /// Asks for one cell, now, and answers yes or no. It charges and admits as
    /// [`check`](Self::check) does, and takes less time where the algorithm keeps a ring.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(1))?;
    /// assert!(gate.allow() && !gate.allow());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn allow(&self) -> bool {
        self.ask().allow()
    }

    /// Answers as [`check`](Self::check) would, and charges nothing.
    ///
    /// # Errors
    ///
    /// The denial that `check` would give.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(3))?;
    /// assert_eq!(gate.peek().unwrap().remaining(), 2);
    /// assert_eq!(gate.peek().unwrap().remaining(), 2);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn peek(&self) -> Decision {
        self.ask().peek()
    }

    /// Answers by the limiter's clock.
    #[inline(always)]
    pub(super) fn answer_now<R: Answer>(&self, n: u64) -> R::Out {
        // Where windows follow the wall clock, the precise time decides.
        if self.params.is_still()
            && let Some(coarse) = self.clock.coarse()
            && let Some(permit) = self.cell().admit(&self.params, coarse, n)
        {
            return R::of_decision(Ok(permit));
        }
        match self.clock.now_at_once() {
            Some(now) => self.answer_at::<R>(n, now),
            None => {
                let OutOfLine(answer) = self.answer_out_of_line::<R>(n, None);
                answer
            }
        }
    }

    /// Answers by a time that the caller gives.
    #[inline(always)]
    pub(crate) fn answer_at<R: Answer>(&self, n: u64, now: Tick) -> R::Out {
        if self.params.is_still()
            && let Some(answer) = self.cell().answer_at_once::<_, R>(&self.params, now, n)
        {
            return answer;
        }
        let OutOfLine(answer) = self.answer_out_of_line::<R>(n, Some(now));
        answer
    }

    /// Decides by a time that the caller gives.
    pub(crate) fn decide_at(&self, n: u64, now: Tick) -> Decision {
        self.answer_at::<InFull>(n, now)
    }

    /// Answers after a lost race, after a reset, by windows that follow the wall clock, or by a clock that is not
    /// read at once.
    #[inline(never)]
    fn answer_out_of_line<R: Answer>(&self, n: u64, at: Option<Tick>) -> OutOfLine<R::Out> {
        let now = self.or_now(at);
        OutOfLine(match self.params.as_built_at(now, &self.clock) {
            Some(as_built) => self.cell().answer::<_, R>(&self.params, as_built, n),
            None => self.cell().answer::<_, R>(&*self.still(now), now, n),
        })
    }

    /// The algorithm for a decision at an instant.
    #[inline(always)]
    pub(crate) fn still(&self, now: Tick) -> Still<'_, A::Params> {
        self.params.still(|| now, &self.clock)
    }

    /// Decides where a request accepts no longer delay than `max_delay`.
    pub(crate) fn decide_within(&self, n: u64, now: Tick, max_delay: Duration) -> Decision {
        self.cell().answer::<_, InFull>(&WithinDelay::new(&*self.still(now), max_delay), now, n)
    }

    /// The answer to `n` cells with nothing charged.
    pub(super) fn peek_at(&self, n: u64, now: Tick) -> Decision {
        self.cell().peek(&*self.still(now), now, n)
    }

    /// The same, where a request accepts no longer delay than `max_delay`.
    pub(crate) fn peek_within(&self, n: u64, now: Tick, max_delay: Duration) -> Decision {
        self.cell().peek(&WithinDelay::new(&*self.still(now), max_delay), now, n)
    }

    /// The time given, or that of the limiter's clock.
    #[inline(always)]
    pub(crate) fn or_now(&self, at: Option<Tick>) -> Tick {
        at.unwrap_or_else(|| self.clock.now())
    }

    /// The algorithm given, or the limiter's own.
    #[inline(always)]
    pub(crate) fn or_own<'a>(&'a self, plan: Option<&'a A::Params>) -> &'a A::Params {
        plan.unwrap_or(&self.params)
    }

    /// Forgets all that was charged. From then on a decision takes about twice the instructions: it is made out of
    /// line.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(1))?;
    /// assert!(gate.ask().at(Tick::ZERO).check().is_ok());
    /// gate.reset();
    /// assert!(gate.ask().at(Tick::ZERO).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn reset(&self) {
        self.cell().reset();
    }
}

impl<A: Algorithm, C> Direct<A, C> {
    /// The clock that [`check`](Self::check) reads.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The algorithm with the quota worked in.
    #[doc(hidden)]
    pub fn params(&self) -> &A::Params {
        &self.params
    }

    /// Its only state.
    #[inline(always)]
    pub(crate) fn cell(&self) -> DirectCell<'_> {
        self.bucket.cell()
    }
}

impl<A: Algorithm, C: core::fmt::Debug> core::fmt::Debug for Direct<A, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Direct")
            .field("cell", &self.cell())
            .field("params", &self.params)
            .field("clock", &self.clock)
            .finish()
    }
}
