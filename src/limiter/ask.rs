//! One request for cells: what is asked for is set step by step, and a verb ends it.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Algorithm, StateMachine};
use crate::cell::{InFull, Request, YesOrNo};
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::time::{Clock, Tick};

/// A [`Limiter`], a [`Direct`], or something built on them that answers an [`Ask`].
///
/// It is sealed: a method may be added.
pub trait Askable: sealed::Askable {}

impl<G: sealed::Askable> Askable for G {}

pub(crate) mod sealed {
    /// The key of a request, by the kind of limiter.
    pub trait Askable {
        /// The key of a request, or a whole request that contains several keys.
        type Key: ?Sized;
        /// An algorithm with a quota worked in, where a request may bring its own.
        type Params;
        /// The time that a request may name: the instant of the request, or the deadline of a wait.
        type Time: Copy + Default + core::fmt::Debug;
    }
}

impl<K: ?Sized, A: Algorithm, C> sealed::Askable for Limiter<K, A, C> {
    type Key = K;
    type Params = A::Params;
    type Time = Option<Tick>;
}

impl<A: Algorithm, C> sealed::Askable for Direct<A, C> {
    type Key = ();
    type Params = A::Params;
    type Time = Option<Tick>;
}

/// One request to a [`Limiter`], a [`Direct`], a [`WaitQueue`](crate::wait::WaitQueue) or what is
/// built on them: made by [`Limiter::ask`] and its like, ended by a verb.
///
/// Unless said otherwise, it is for one cell, now. Every verb takes everything that is set:
///
/// | set | meaning |
/// |---|---|
/// | [`cells`](Self::cells) | how many cells, all of them or none |
/// | [`at`](Self::at) | the instant, if not that of the limiter's clock |
/// | [`max_delay`](Self::max_delay) | the longest [delay](crate::Permit::delay), or wait, to accept |
/// | [`deadline`](Self::deadline) | the latest turn to accept in a wait queue |
/// | [`plan`](Self::plan) | another quota than the limiter's own |
///
/// | verb | effect |
/// |---|---|
/// | [`check`](Self::check) | charges the cells if they are there, and says what is left or when to return |
/// | [`allow`](Self::allow) | the same, answered by yes or no |
/// | [`peek`](Self::peek) | answers as `check` would, and charges nothing |
/// | [`finds_slot`](Self::finds_slot) | whether the key has a slot, or would find one |
/// | [`reserve`](Self::reserve) | charges the cells until a [`Reservation`](crate::reservation::Reservation) is settled |
/// | [`charge`](Self::charge) | charges cells that are spent already, whatever the limit |
/// | [`charge_available`](Self::charge_available) | charges as many of the cells as there are |
/// | [`refund`](Self::refund) | adds cells to those that the key has, up to the burst |
/// | [`wait`](Self::wait) | blocks the thread until the cells are charged |
/// | [`wait_async`](Self::wait_async) | a future that is ready when the cells are charged |
///
/// A limit of [requests in flight](crate::concurrency) has the verbs [`enter`](Self::enter),
/// [`enter_owned`](Self::enter_owned) and [`in_flight`](Self::in_flight), and `peek`.
///
/// A wait queue reads the clock itself, so a request to it takes no `at`. Only a wait queue has
/// the verbs `wait` and `wait_async`.
///
/// It compiles to the same instructions as a call with these as arguments.
///
/// ```
/// use tollgate::{Limiter, Quota, Tick};
///
/// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
/// assert!(gate.ask("a").cells(7).at(Tick::ZERO).check().is_ok());
/// assert_eq!(gate.ask("a").cells(0).at(Tick::ZERO).peek().unwrap().remaining(), 3);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a request does nothing until a verb such as `check` ends it"]
pub struct Ask<'g, 'k, G: Askable> {
    pub(crate) gate: &'g G,
    pub(crate) key: &'k G::Key,
    pub(crate) cells: u64,
    pub(crate) at: G::Time,
    pub(crate) plan: Option<&'k G::Params>,
    pub(crate) max_delay: Option<Duration>,
}

impl<'g, 'k, G: Askable> Ask<'g, 'k, G> {
    #[inline(always)]
    pub(crate) fn new(gate: &'g G, key: &'k G::Key) -> Self {
        Self { gate, key, cells: 1, at: G::Time::default(), plan: None, max_delay: None }
    }

    /// Sets how many cells are asked for, all of them or none. Without it, one cell is asked for.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// assert!(gate.ask("a").cells(11).check().is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn cells(self, cells: u64) -> Self {
        Self { cells, ..self }
    }
}

impl<G: Askable<Time = Option<Tick>>> Ask<'_, '_, G> {
    /// Asks at the instant `now`, which the caller reads from its own clock.
    ///
    /// Use one origin for all requests. A `now` older than one already used never grants more, as
    /// long as it is not older by more than [`max_clock_skew`](crate::Builder::max_clock_skew).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1)).build()?;
    /// assert!(gate.ask("a").at(Tick::from_nanos(0)).check().is_ok());
    /// assert!(gate.ask("a").at(Tick::from_nanos(999_999_999)).check().is_err());
    /// assert!(gate.ask("a").at(Tick::from_nanos(1_000_000_000)).check().is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn at(self, now: Tick) -> Self {
        Self { at: Some(now), ..self }
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Ask<'_, '_, Limiter<K, A, C>> {
    /// Accepts no [delay](crate::Permit::delay) longer than `max_delay`. With zero, only a request
    /// that need not wait is admitted.
    ///
    /// It matters to algorithms that delay ([`LeakyQueue`](crate::LeakyQueue),
    /// [`WarmUp`](crate::WarmUp)), and to no others; those that delay have no reservations. Requests
    /// with and without it may be mixed.
    ///
    /// A denial whose [`remaining`](crate::Denied::remaining) is at least the cells asked for means
    /// that the request fits, but that its turn comes too late. Its
    /// [`retry_after`](crate::Denied::retry_after) is the time until the same request would be admitted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LeakyQueue, Limiter, Quota, Tick};
    ///
    /// let quota = Quota::per_second(10).burst(5);
    /// let gate: Limiter<str, LeakyQueue> =
    ///     Limiter::builder(quota).algorithm(LeakyQueue::new()).build()?;
    /// let ask = |max_delay_ms| {
    ///     gate.ask("a").at(Tick::ZERO).max_delay(Duration::from_millis(max_delay_ms)).check()
    /// };
    /// assert_eq!(ask(100).unwrap().delay(), Duration::ZERO);
    /// assert_eq!(ask(100).unwrap().delay(), Duration::from_millis(100));
    /// // The third turn is in 200 ms.
    /// assert_eq!(ask(150).unwrap_err().retry_after(), Some(Duration::from_millis(50)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn max_delay(self, max_delay: Duration) -> Self {
        Self { max_delay: Some(max_delay), ..self }
    }

    /// Charges the cells if they are there.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back. Nothing is charged.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// assert_eq!(gate.ask("a").cells(7).check().unwrap().remaining(), 3);
    /// assert_eq!(gate.ask("a").cells(7).check().unwrap_err().remaining(), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn check(self) -> Decision {
        let bound = self.bound();
        let Self { gate, key, cells, at, plan, .. } = self;
        if let Some(max_delay) = bound {
            let (probe, now) = (gate.probe(key), gate.or_now(at));
            let request = Request { now, cells };
            return gate.decide_within(gate.or_own(plan), probe, request, max_delay);
        }
        match at {
            None => gate.answer_now::<InFull>(plan, key, cells),
            Some(now) => gate.answer_at::<InFull>(plan, key, cells, now),
        }
    }

    /// Charges the cells if they are there, and answers yes or no. Where the algorithm keeps a ring,
    /// it takes less time than [`check`](Self::check).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, SubWindows};
    /// let gate: Limiter<str, _> =
    ///     Limiter::builder(Quota::per_hour(10)).algorithm(SubWindows::new()).build()?;
    /// assert!(gate.ask("a").cells(7).allow());
    /// assert!(!gate.ask("a").cells(7).allow());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn allow(self) -> bool {
        if self.bound().is_some() {
            return self.check().is_ok();
        }
        let Self { gate, key, cells, at, plan, .. } = self;
        match at {
            None => gate.answer_now::<YesOrNo>(plan, key, cells),
            Some(now) => gate.answer_at::<YesOrNo>(plan, key, cells, now),
        }
    }

    /// Answers as [`check`](Self::check) would, charges nothing and gives the key no slot. It does
    /// not say whether the key would find one: [`finds_slot`](Self::finds_slot) does.
    ///
    /// # Errors
    ///
    /// The denial that `check` would give.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(3)).build()?;
    /// let ask = || gate.ask("a").at(Tick::ZERO);
    /// assert_eq!(ask().cells(0).peek().unwrap().remaining(), 3);
    /// assert!(ask().cells(4).peek().is_err());
    /// assert_eq!(gate.stats().claimed, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek(self) -> Decision {
        let bound = self.bound();
        let Self { gate, key, cells, at, plan, .. } = self;
        let (algo, probe, now) = (gate.or_own(plan), gate.probe(key), gate.or_now(at));
        match bound {
            Some(max_delay) => gate.peek_within(algo, probe, Request { now, cells }, max_delay),
            None => gate.peek_by(algo, probe, cells, now),
        }
    }

    /// Whether the key has a slot, or would find one without an eviction. If not, a request of the key is
    /// treated by [`OnFull`](crate::OnFull).
    ///
    /// It charges nothing and gives the key no slot. So the next request may find that another key has taken
    /// the slot, or has left one.
    ///
    /// ```
    /// use tollgate::{Limiter, OnFull, Quota};
    ///
    /// let gate: Limiter<u32> =
    ///     Limiter::builder(Quota::per_hour(1)).capacity(1).on_full(OnFull::Deny).build()?;
    /// let keys_with_a_slot = (0..1_000).filter(|key| gate.check(key).is_ok()).count();
    /// let denied = (1_000..2_000).find(|key| !gate.ask(key).finds_slot()).expect("a few slots are full");
    /// assert!(gate.peek(&denied).is_ok() && gate.check(&denied).is_err());
    /// assert_eq!(gate.len(), keys_with_a_slot);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn finds_slot(self) -> bool {
        let Self { gate, key, at, plan, .. } = self;
        let now = gate.or_now(at);
        let algo = gate.still(gate.or_own(plan), now);
        gate.table().has_place(gate.probe(key), &*algo, now).is_ok()
    }

    /// The longest delay to accept, if the algorithm may delay.
    #[inline(always)]
    fn bound(&self) -> Option<Duration> {
        let bound = self.max_delay.filter(|_| A::Params::MAY_DELAY);
        bound.filter(|_| self.gate.or_own(self.plan).may_delay())
    }
}

impl<A: Algorithm, C: Clock> Ask<'_, '_, Direct<A, C>> {
    /// Accepts no [delay](crate::Permit::delay) longer than `max_delay`. With zero, only a request
    /// that need not wait is admitted.
    ///
    /// It matters to algorithms that delay ([`LeakyQueue`](crate::LeakyQueue),
    /// [`WarmUp`](crate::WarmUp)), and to no others. A denial means what it means for a request to a
    /// [`Limiter`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Direct, LeakyQueue, Quota, Tick};
    ///
    /// let quota = Quota::per_second(10).burst(5);
    /// let gate = Direct::builder(quota).algorithm(LeakyQueue::new()).build()?;
    /// let ask = || gate.ask().at(Tick::ZERO).max_delay(Duration::from_millis(150));
    /// assert_eq!(ask().check().unwrap().delay(), Duration::ZERO);
    /// assert_eq!(ask().check().unwrap().delay(), Duration::from_millis(100));
    /// // The third turn is in 200 ms.
    /// assert_eq!(ask().check().unwrap_err().retry_after(), Some(Duration::from_millis(50)));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn max_delay(self, max_delay: Duration) -> Self {
        Self { max_delay: Some(max_delay), ..self }
    }

    /// Charges the cells if they are there.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back. Nothing is charged.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(1))?;
    /// assert!(gate.ask().at(Tick::from_nanos(5)).check().is_ok());
    /// assert!(gate.ask().at(Tick::ZERO).check().is_err());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn check(self) -> Decision {
        let bound = self.bound();
        let Self { gate, cells, at, .. } = self;
        if let Some(max_delay) = bound {
            return gate.decide_within(cells, gate.or_now(at), max_delay);
        }
        match at {
            None => gate.answer_now::<InFull>(cells),
            Some(now) => gate.answer_at::<InFull>(cells, now),
        }
    }

    /// Charges the cells if they are there, and answers yes or no. Where the algorithm keeps a ring,
    /// it takes less time than [`check`](Self::check).
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// assert!(gate.ask().cells(7).allow() && !gate.ask().cells(7).allow());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn allow(self) -> bool {
        if self.bound().is_some() {
            return self.check().is_ok();
        }
        let Self { gate, cells, at, .. } = self;
        match at {
            None => gate.answer_now::<YesOrNo>(cells),
            Some(now) => gate.answer_at::<YesOrNo>(cells, now),
        }
    }

    /// Answers as [`check`](Self::check) would, and charges nothing.
    ///
    /// # Errors
    ///
    /// The denial that `check` would give.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(3))?;
    /// assert_eq!(gate.ask().at(Tick::ZERO).peek().unwrap().remaining(), 2);
    /// assert_eq!(gate.ask().cells(0).at(Tick::ZERO).peek().unwrap().remaining(), 3);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn peek(self) -> Decision {
        let bound = self.bound();
        let Self { gate, cells, at, .. } = self;
        let now = gate.or_now(at);
        match bound {
            Some(max_delay) => gate.peek_within(cells, now, max_delay),
            None => gate.peek_at(cells, now),
        }
    }

    /// The longest delay to accept, if the algorithm may delay.
    #[inline(always)]
    fn bound(&self) -> Option<Duration> {
        let bound = self.max_delay.filter(|_| A::Params::MAY_DELAY);
        bound.filter(|_| self.gate.params().may_delay())
    }
}

impl<G: Askable> Clone for Ask<'_, '_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G: Askable> Copy for Ask<'_, '_, G> {}

impl<G: Askable> core::fmt::Debug for Ask<'_, '_, G> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ask")
            .field("cells", &self.cells)
            .field("at", &self.at)
            .field("max_delay", &self.max_delay)
            .finish_non_exhaustive()
    }
}
