//! Counts of a limiter's decisions, and how full it is.

use core::fmt;
use core::hash::Hash;

use crate::algo::Algorithm;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::table::{Counters, Event, Tally};
use crate::time::{Clock, Tick};

/// Counts since the limiter was built, read without stopping any thread.
///
/// While other threads work, the counts may be of slightly different moments.
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<u32> = Limiter::builder(Quota::per_second(5)).build()?;
/// assert!(gate.check(&1).is_ok() && gate.check(&1).is_ok() && gate.check(&2).is_ok());
/// assert_eq!(gate.stats().claimed, 2);
/// assert_eq!(gate.stats().evicted, 0);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that were admitted; `None` unless the limiter
    /// [counts decisions](crate::Builder::count_decisions).
    pub admitted: Option<u64>,
    /// Requests that were denied, for whatever reason; `None` unless the limiter counts decisions.
    pub denied: Option<u64>,
    /// Times that a key was given a slot. Sometimes two threads claim one each for the same key, and
    /// one of the two is given up, so this may exceed the number of keys.
    pub claimed: u64,
    /// Times that a live key was forgotten to make room
    /// ([`OnFull::EvictNearestIdle`](crate::OnFull::EvictNearestIdle)).
    pub evicted: u64,
    /// Requests denied because their key found no slot
    /// ([`OnFull::Deny`](crate::OnFull::Deny)).
    pub denied_full: u64,
    /// Requests admitted although their key found no slot
    /// ([`OnFull::Admit`](crate::OnFull::Admit)).
    pub admitted_full: u64,
    /// Requests decided by the shared overflow limiter
    /// ([`OnFull::SharedOverflow`](crate::OnFull::SharedOverflow)).
    pub overflowed: u64,
    /// Times that a thread took cells of a hot key ahead
    /// ([`lease_hot_keys`](crate::Builder::lease_hot_keys)).
    pub leased: u64,
}

impl Stats {
    pub(crate) fn of(counters: &Counters, tally: Option<&Tally>) -> Self {
        Self {
            admitted: tally.map(|tally| tally.total(true)),
            denied: tally.map(|tally| tally.total(false)),
            ..Self::by_event(|event| counters.total(event))
        }
    }

    pub(crate) fn by_event(total: impl Fn(Event) -> u64) -> Self {
        Self {
            admitted: None,
            denied: None,
            claimed: total(Event::Claimed),
            evicted: total(Event::Evicted),
            denied_full: total(Event::DeniedFull),
            admitted_full: total(Event::AdmittedFull),
            overflowed: total(Event::Overflowed),
            leased: total(Event::Leased),
        }
    }
}

/// How full a limiter is.
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<u32> = Limiter::builder(Quota::per_hour(5)).capacity(100).build()?;
/// (0..50).for_each(|key| assert!(gate.check(&key).is_ok()));
/// let occupancy = gate.occupancy();
/// assert_eq!((occupancy.live, occupancy.capacity, occupancy.slots), (50, 101, 8 * 184));
/// assert_eq!(occupancy.load(), 50.0 / (8.0 * 184.0));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// About how many keys are live: see [`Limiter::len`].
    pub live: usize,
    /// Live keys that there is room for: the capacity asked for, rounded up to what fills whole
    /// buckets to 55 %. More keys find a slot, too, until all 16 slots that a key could have are taken.
    pub capacity: usize,
    /// Slots in all. Each holds one key. A small table has more of them than its capacity needs.
    pub slots: usize,
}

impl Occupancy {
    /// The share of the slots that hold live keys, 0 to 1. From 0.7 on more than one new key in a
    /// hundred finds no slot.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<u32> = Limiter::builder(Quota::per_hour(5)).build()?;
    /// assert_eq!(gate.occupancy().load(), 0.0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn load(&self) -> f64 {
        self.live as f64 / self.slots.max(1) as f64
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// How full the limiter is at the clock's present. It looks at up to 4,096 buckets: call it from a
    /// page of metrics or a timer, not for each request.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_day(1)).capacity(1_000).build()?;
    /// assert!(gate.check("a").is_ok());
    /// assert_eq!(gate.occupancy().live, 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn occupancy(&self) -> Occupancy {
        self.occupancy_at(self.clock().now())
    }

    /// As [`occupancy`](Self::occupancy), at the instant `now`.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1)).build()?;
    /// assert!(gate.ask("a").at(Tick::ZERO).check().is_ok());
    /// assert_eq!(gate.occupancy_at(Tick::from_nanos(2_000_000_000)).live, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn occupancy_at(&self, now: Tick) -> Occupancy {
        let (capacity, slots) = (self.table.capacity(), self.table.slot_count());
        Occupancy { live: self.len_at(now), capacity, slots }
    }
}

/// Counts decisions that pass through it: those of a [`Direct`](crate::Direct), of a
/// [`LocalLease`](crate::lease::LocalLease), or of one of several uses of a limiter.
///
/// A [`Limiter`] can [count its own](crate::Builder::count_decisions). A `Direct` cannot, so that it
/// costs nothing where decisions are not counted.
///
/// Each of up to 64 threads at a time counts on cache lines of its own, without a locked
/// instruction; more threads share a line. It takes 8 KB.
///
/// **Not guaranteed.** A thread that reads while others count may see counts of slightly different
/// moments.
///
/// ```
/// use tollgate::stats::DecisionCount;
/// use tollgate::{Direct, Quota};
///
/// let (gate, count) = (Direct::new(Quota::per_hour(2))?, DecisionCount::new());
/// for _ in 0..5 {
///     let decision = count.watch(gate.check());
///     println!("{}", if decision.is_ok() { "200" } else { "429" });
/// }
/// assert_eq!((count.admitted(), count.denied()), (2, 3));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct DecisionCount(Tally);

impl DecisionCount {
    /// Counts of zero.
    ///
    /// ```
    /// assert_eq!(tollgate::stats::DecisionCount::new().admitted(), 0);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self(Tally::new())
    }

    /// Counts a decision, and returns it.
    ///
    /// ```
    /// # use tollgate::stats::DecisionCount;
    /// # use tollgate::{Direct, Quota};
    /// let (gate, count) = (Direct::new(Quota::per_hour(1))?, DecisionCount::new());
    /// assert!(count.watch(gate.check()).is_ok() && count.watch(gate.check()).is_err());
    /// assert_eq!(count.denied(), 1);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn watch(&self, decision: Decision) -> Decision {
        self.count(decision.is_ok());
        decision
    }

    /// Counts yes or no, for `allow`.
    ///
    /// ```
    /// # use tollgate::stats::DecisionCount;
    /// # use tollgate::{Direct, Quota};
    /// let (gate, count) = (Direct::new(Quota::per_hour(1))?, DecisionCount::new());
    /// let allowed = gate.allow();
    /// count.count(allowed);
    /// assert_eq!(count.admitted(), 1);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn count(&self, admitted: bool) {
        self.0.count(admitted);
    }

    /// Decisions counted that admitted.
    ///
    /// ```
    /// let count = tollgate::stats::DecisionCount::new();
    /// count.count(true);
    /// assert_eq!(count.admitted(), 1);
    /// ```
    pub fn admitted(&self) -> u64 {
        self.0.total(true)
    }

    /// Decisions counted that denied.
    ///
    /// ```
    /// let count = tollgate::stats::DecisionCount::new();
    /// count.count(true);
    /// assert_eq!(count.denied(), 0);
    /// ```
    pub fn denied(&self) -> u64 {
        self.0.total(false)
    }
}

impl Default for DecisionCount {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DecisionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionCount")
            .field("admitted", &self.admitted())
            .field("denied", &self.denied())
            .finish()
    }
}
