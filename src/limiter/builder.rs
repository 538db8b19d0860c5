//! Builders. All mistakes are found here, before the first decision.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use crate::algo::Algorithm;
use crate::algo::gcra::Gcra;
pub use crate::limiter::build_error::BuildError;
use crate::limiter::hash_seeds::Seeds;
use crate::limiter::hot_keys;
use crate::limiter::slot_layout::{SlotLayout, check_skew};
use crate::limiter::{Limiter, Parts, WhenFull};
use crate::quota::Quota;
use crate::table::{HugePages, RingLayout, Source, Table, TakeOver, Tally};
use crate::time::Clock;
use crate::time::quanta_clock::QuantaClock;

/// The default number of live keys that a limiter has room for.
pub(crate) const CAPACITY_DEFAULT: u64 = 100_000;
/// Far above the 4 microseconds that two cores' counters were seen to differ by.
pub(crate) const SKEW_DEFAULT: Duration = Duration::from_millis(1);

/// The policy of a [`Limiter`] for a key that finds no slot, because all 16 slots that it could have
/// are taken by live keys.
///
/// A key is live while it has any debt, so at the capacity that was asked for this is rare (about one
/// new key in 10,000). Beyond that capacity, this policy is what bounds memory. Every case is counted
/// in [`Stats`](crate::stats::Stats).
///
/// ```
/// use tollgate::{Limiter, OnFull, Quota};
///
/// let gate: Limiter<u64> = Limiter::builder(Quota::per_second(10))
///     .on_full(OnFull::SharedOverflow(Quota::per_second(1_000)))
///     .build()?;
/// assert!(gate.check(&7).is_ok());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFull {
    /// The one of the 16 live keys that has the least debt is forgotten.
    ///
    /// Heavy offenders are forgotten last, and a new honest key is served during a flood. The forgotten
    /// key starts afresh when it comes back. Its exact bound ends there: it is forgiven the debt that
    /// it had left.
    ///
    /// Each algorithm has its own debt, by which keys are ranked:
    ///
    /// | algorithm | debt |
    /// |---|---|
    /// | [`Gcra`], [`LeakyQueue`](crate::LeakyQueue), [`WarmUp`](crate::WarmUp), [`DynamicGcra`](crate::dynamic::DynamicGcra) | time until everything is restored |
    /// | [`FixedWindow`](crate::FixedWindow) | cells counted in the window |
    /// | [`SubWindows`](crate::SubWindows), [`SlidingCounter`](crate::SlidingCounter) | cells counted, times the sub-windows until the latest no longer counts |
    /// | [`SlidingLog`](crate::SlidingLog) | events in the longest window, times the time until the latest has left it |
    ///
    /// Among equal debts the hash of the new key chooses, in both kinds of
    /// [slots](crate::limiter::SlotLayout), so that keys that came early are forgotten no more often than
    /// others. A key that is charged while the keys are ranked may be ranked by what it owed before; it
    /// is then not forgotten.
    #[default]
    EvictNearestIdle,
    /// The new key is denied until a slot is free; no key is ever forgotten.
    Deny,
    /// The new key is admitted, and no state is kept for it; no key is ever forgotten.
    Admit,
    /// All keys that find no slot share one limiter of this quota, by the same algorithm.
    SharedOverflow(Quota),
}

/// A clock, or how to make one when it is needed.
#[derive(Clone)]
pub(crate) enum ClockSource<C> {
    Given(C),
    Made(fn() -> C),
}

impl<C> ClockSource<C> {
    pub(crate) fn into_clock(self) -> C {
        match self {
            Self::Given(clock) => clock,
            Self::Made(make) => make(),
        }
    }
}

/// Builds a [`Limiter`]. Made by [`Limiter::builder`].
///
/// ```
/// use tollgate::{FixedWindow, Limiter, OnFull, Quota};
///
/// let gate: Limiter<str, _> = Limiter::builder(Quota::per_minute(20))
///     .algorithm(FixedWindow::anchored())
///     .capacity(1_000_000)
///     .on_full(OnFull::Deny)
///     .build()?;
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<K: ?Sized, A = Gcra, C = QuantaClock> {
    quota: Quota,
    algorithm: A,
    clock: ClockSource<C>,
    capacity: u64,
    pub(super) on_full: OnFull,
    skew: Duration,
    slots: SlotLayout,
    pub(crate) seeds: Option<Seeds>,
    huge_pages: HugePages,
    count_decisions: bool,
    lease_hot_keys: bool,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> Builder<K> {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            algorithm: Gcra::new(),
            clock: ClockSource::Made(QuantaClock::new),
            capacity: CAPACITY_DEFAULT,
            on_full: OnFull::default(),
            skew: SKEW_DEFAULT,
            slots: SlotLayout::default(),
            seeds: None,
            huge_pages: HugePages::default(),
            count_decisions: false,
            lease_hot_keys: false,
            key: PhantomData,
        }
    }
}

impl<K: ?Sized, A, C> Builder<K, A, C> {
    /// Chooses the algorithm. The default is [`Gcra`].
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota};
    /// let gate: Limiter<u32> =
    ///     Limiter::builder(Quota::per_second(5)).algorithm(Gcra::start_empty()).build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn algorithm<B: Algorithm>(self, algorithm: B) -> Builder<K, B, C> {
        Builder {
            algorithm,
            quota: self.quota,
            clock: self.clock,
            capacity: self.capacity,
            on_full: self.on_full,
            skew: self.skew,
            slots: self.slots,
            seeds: self.seeds,
            huge_pages: self.huge_pages,
            count_decisions: self.count_decisions,
            lease_hot_keys: self.lease_hot_keys,
            key: PhantomData,
        }
    }

    /// Chooses the clock. The default is [`QuantaClock`].
    ///
    /// ```
    /// # use tollgate::{Limiter, ManualClock, Quota};
    /// let clock = ManualClock::new();
    /// let gate: Limiter<u32, _, _> =
    ///     Limiter::builder(Quota::per_second(5)).clock(&clock).build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn clock<D: Clock>(self, clock: D) -> Builder<K, A, D>
    where
        A: Algorithm,
    {
        self.with_clock(clock)
    }

    /// The same choices with another clock.
    pub(super) fn with_clock<D>(&self, clock: D) -> Builder<K, A, D>
    where
        A: Algorithm,
    {
        Builder {
            clock: ClockSource::Given(clock),
            quota: self.quota,
            algorithm: self.algorithm.clone(),
            capacity: self.capacity,
            on_full: self.on_full,
            skew: self.skew,
            slots: self.slots,
            seeds: self.seeds,
            huge_pages: self.huge_pages,
            count_decisions: self.count_decisions,
            lease_hot_keys: self.lease_hot_keys,
            key: PhantomData,
        }
    }

    /// The number of live keys, those with any debt, for which the table is sized. The default is 100,000. More
    /// keys find a slot, until all 16 slots that a key could have are taken: see [`Occupancy`](crate::stats::Occupancy).
    ///
    /// It takes about 29 bytes a key (15 in [compact slots](SlotLayout)), and about 15 more for each word
    /// of a ring, where the algorithm has one. A table below 128 KiB has up to eight times as many slots,
    /// which makes lookups faster. The memory is reserved when the limiter is built and
    /// becomes resident as keys arrive.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<u32> = Limiter::builder(Quota::per_second(5)).capacity(10_000).build()?;
    /// assert!(gate.memory_bytes() <= 32 * 10_000);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn capacity(self, keys: u64) -> Self {
        Self { capacity: keys, ..self }
    }

    /// Chooses what happens when a key finds no slot.
    ///
    /// ```
    /// # use tollgate::{Limiter, OnFull, Quota};
    /// let gate: Limiter<u32> =
    ///     Limiter::builder(Quota::per_second(5)).on_full(OnFull::Deny).build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn on_full(self, on_full: OnFull) -> Self {
        Self { on_full, ..self }
    }

    /// Chooses between slots of two words and of one. The default is [`SlotLayout::Auto`].
    ///
    /// ```
    /// # use tollgate::limiter::SlotLayout;
    /// # use tollgate::{Limiter, Quota};
    /// let begun = || Limiter::<u32>::builder(Quota::per_second(5)).capacity(100_000);
    /// let (wide, chosen) = (begun().slots(SlotLayout::Wide).build()?, begun().build()?);
    /// assert!(chosen.memory_bytes() <= wide.memory_bytes() / 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn slots(self, slots: SlotLayout) -> Self {
        Self { slots, ..self }
    }

    /// How far the clocks of two threads may differ. The default is 1 ms.
    ///
    /// A key's slot goes to another key no sooner than this long after the key has become idle. So a
    /// thread whose clock is behind by no more than this cannot find a fresh bucket in its place. Raise
    /// it where threads pass times of their own that are older.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<u32> = Limiter::builder(Quota::per_second(5))
    ///     .max_clock_skew(Duration::from_millis(100))
    ///     .build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn max_clock_skew(self, skew: Duration) -> Self {
        Self { skew, ..self }
    }

    /// Asks the system to back the table with huge pages. Off by default.
    ///
    /// It helps tables of some hundred thousand keys or more, whose lookups otherwise wait for the
    /// address translation as well (see the benchmarks). The price: memory becomes resident two
    /// megabytes at a time, and the request that first touches a page waits until the page is zeroed,
    /// some hundred microseconds instead of one. It takes effect on Linux where transparent huge pages
    /// are set to `madvise` or `always`, and does nothing elsewhere.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<u32> = Limiter::builder(Quota::per_second(5)).huge_pages().build()?;
    /// assert!(gate.check(&7).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn huge_pages(self) -> Self {
        Self { huge_pages: HugePages(true), ..self }
    }

    /// Counts how many requests are admitted and denied, for [`Stats`](crate::stats::Stats). Off by default.
    ///
    /// Each of up to 64 threads at a time counts on a cache line of its own (8 KB in all),
    /// without a locked instruction; further threads share one.
    ///
    /// These count:
    ///
    /// - requests that are decided by cells which [a thread has taken ahead](Self::lease_hot_keys);
    /// - a reservation, when it is made: as admitted, even if it is refunded;
    /// - each try of [`charge_available`](crate::Ask::charge_available);
    /// - each time that a waiter of a [wait queue](crate::wait::WaitQueue) asks, if the algorithm is no token bucket.
    ///
    /// These do not:
    ///
    /// - requests that a [lease](crate::lease) decides, and its taking of cells;
    /// - a [charge](crate::Ask::charge), which is made whatever the limit;
    /// - the turns that a wait queue charges to a token bucket.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<u32> =
    ///     Limiter::builder(Quota::per_hour(2)).count_decisions().build()?;
    /// for _ in 0..5 {
    ///     let _ = gate.check(&7);
    /// }
    /// assert_eq!((gate.stats().admitted, gate.stats().denied), (Some(2), Some(3)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn count_decisions(self) -> Self {
        Self { count_decisions: true, ..self }
    }

    /// Lets threads that contend for a key take some of its cells ahead. Off by default.
    ///
    /// It does what a [`LocalLease`](crate::lease::LocalLease) does, without a handle. A thread that charges a
    /// key and loses the race to another thread takes up to `k` cells at once, but at most a quarter of
    /// those that are left. It decides its next requests for that key without touching shared memory.
    /// Requests for a key without contention are decided as usual, and also read a cache line of the
    /// thread's own. `k` is a setting of the algorithm, with which the limiter must be built:
    /// [`Gcra::leases`], [`FixedWindow::leases`](crate::FixedWindow::leases),
    /// [`SubWindows::leases`](crate::SubWindows::leases) or
    /// [`SlidingCounter::leases`](crate::SlidingCounter::leases).
    ///
    /// **Guarantee.** The same as without leases. A token bucket's cells may be spent until time has
    /// restored as many, and its burst is lower by `k`. Cells of a window or a sub-window are counted
    /// when they are taken, and may be spent until it ends.
    ///
    /// **Not guaranteed.**
    ///
    /// - A request may be denied while other threads hold cells that would have been enough: up to
    ///   `k` for each thread, for as long as those may be spent. A thread's own cells are
    ///   counted. When no thread holds any, denials are exact; and the fewer cells are left, the fewer
    ///   are held. Cells that a thread holds when a window ends are lost.
    /// - The cells that a thread holds are spent by [`check`](Limiter::check), [`allow`](Limiter::allow),
    ///   [batches](Limiter::ask_each) and the last limit of a [composite](crate::composite::Composite), for requests
    ///   of up to `k` cells and without a [plan](crate::plan::Plan). All else counts them as spent: larger requests,
    ///   [`peek`](Limiter::peek), [reservations](crate::reservation::Reservation) and
    ///   [`charge_available`](crate::Ask::charge_available).
    /// - A permit for cells that were taken ahead says what is left of the key as if no other thread
    ///   had charged it since they were taken: [`remaining`](crate::Permit::remaining) may be too high,
    ///   and [`reset_after`](crate::Permit::reset_after) too low. Denials do not count what other
    ///   threads hold either.
    /// - [`reset`](Limiter::reset), and forgetting a key to make room for another, does not reach
    ///   cells that threads hold already.
    /// - Up to 64 threads of the process at a time take part (those that asked first); others decide
    ///   as without leases. It takes 24 KB. After a fork, the parent's other threads still count among the 64 of the
    ///   child.
    /// - In shared memory on other systems than Linux, threads take no cells ahead: a forked process would
    ///   spend them a second time. On Linux, a forked process begins without such cells.
    /// - If a thread's clock steps back by `s` (as it may when the thread moves to another core), the thread
    ///   may spend `rate * s` cells too many, once for each such step. Cells of a window it may spend up to
    ///   `s` after the window's end.
    /// - With a [`TieredClock`](crate::clock::TieredClock) the precise time is read for each request.
    ///
    /// ```
    /// # use tollgate::{BuildError, Gcra, Limiter, Quota};
    /// let builder = Limiter::<str>::builder(Quota::per_second(100_000)).lease_hot_keys();
    /// let gate = builder.algorithm(Gcra::new().leases(64)).build()?;
    /// assert!(gate.check("popular").is_ok());
    ///
    /// let built = Limiter::<str>::builder(Quota::per_second(9)).lease_hot_keys().build();
    /// assert_eq!(built.unwrap_err(), BuildError::NothingToLease);
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn lease_hot_keys(self) -> Self {
        Self { lease_hot_keys: true, ..self }
    }

    /// Fixes the seed of the hash, so that runs can be repeated exactly.
    ///
    /// It is for tests and simulations only: an attacker who knows the seed can choose keys that collide. A
    /// [restored](Self::restore) limiter has the snapshot's seeds instead.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<u32> = Limiter::builder(Quota::per_second(5)).hash_seed(42).build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn hash_seed(self, seed: u64) -> Self {
        Self { seeds: Some(Seeds::of(seed)), ..self }
    }
}

/// Where a limiter's words are.
pub(super) trait Memory<P> {
    type Error: From<BuildError>;

    /// The memory for a table of some shape. It may replace the parameters, too.
    fn find(&mut self, params: &mut P, shape: &TableShape<'_, P>) -> Result<Source, Self::Error>;

    /// Moves into that memory the words that the parameters keep themselves. They are the limiter's parameters or
    /// the shared overflow's.
    fn move_in(&self, _: &mut P, _: &Source) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// The process's own memory.
impl<P> Memory<P> for HugePages {
    type Error = BuildError;

    fn find(&mut self, _: &mut P, _: &TableShape<'_, P>) -> Result<Source, BuildError> {
        Ok(Source::Own(*self))
    }
}

/// The form of a table: it determines the memory that the table needs and how its words are read.
#[cfg_attr(not(feature = "shared-memory"), expect(dead_code, reason = "for shared tables"))]
pub(super) struct TableShape<'a, P> {
    pub(super) is_compact: bool,
    pub(super) buckets: u32,
    pub(super) ring: RingLayout,
    pub(super) counts_decisions: bool,
    /// The parameters of the bucket that keys without a slot share.
    pub(super) overflow: Option<&'a P>,
}

impl<K: ?Sized, A: Algorithm, C: Clock> Builder<K, A, C> {
    /// Checks everything and takes the memory.
    ///
    /// # Errors
    ///
    /// A choice is out of range, or the system has no memory; the error says what to do.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let built: Result<Limiter<u32>, _> = Limiter::builder(Quota::per_second(0)).build();
    /// assert!(built.is_err());
    /// ```
    pub fn build(self) -> Result<Limiter<K, A, C>, BuildError> {
        let mut memory = self.huge_pages;
        self.build_in(&mut memory)
    }

    /// Builds a limiter in this memory.
    pub(super) fn build_in<M: Memory<A::Params>>(
        self,
        memory: &mut M,
    ) -> Result<Limiter<K, A, C>, M::Error> {
        if self.capacity == 0 {
            return Err(BuildError::ZeroCapacity.into());
        }
        self.quota.validate().map_err(BuildError::from)?;
        let buckets = Table::buckets_for(self.capacity).ok_or(BuildError::CapacityTooLarge)?;
        let clock = self.clock.into_clock();
        let origin = clock.unix_origin_nanos();
        let slots = self.slots.for_capacity(self.capacity);
        let (mut params, is_compact) =
            slots.fit(&self.algorithm, &self.quota, origin, self.skew)?;
        let mut overflow = match self.on_full {
            OnFull::SharedOverflow(quota) => {
                let params = self.algorithm.params(&quota, origin);
                let params = params.map_err(BuildError::OverflowQuota)?;
                check_skew(&params, self.skew).map_err(|error| match error {
                    BuildError::SkewTooLarge { max } => BuildError::OverflowSkewTooLarge { max },
                    other => other,
                })?;
                Some(params)
            }
            OnFull::EvictNearestIdle | OnFull::Deny | OnFull::Admit => None,
        };
        let ring = RingLayout::of(&params);
        let (counts_decisions, overflow_params) = (self.count_decisions, overflow.as_ref());
        let shape =
            TableShape { is_compact, buckets, ring, counts_decisions, overflow: overflow_params };
        let source = memory.find(&mut params, &shape)?;
        let may_evict = matches!(self.on_full, OnFull::EvictNearestIdle);
        let take_over = TakeOver { skew: self.skew, may_evict };
        let table = match is_compact {
            true => Table::compact(buckets, take_over, &source),
            false => Table::wide(buckets, ring, take_over, &source),
        };
        let no_memory = |_| BuildError::OutOfMemory;
        let table = table.map_err(no_memory)?;
        for params in core::iter::once(&mut params).chain(&mut overflow) {
            memory.move_in(params, &source)?;
        }
        let when_full = WhenFull::new(self.on_full, overflow, &source).map_err(no_memory)?;
        let seeds = self.seeds.unwrap_or_else(Seeds::random);
        let tally = self.count_decisions.then(|| Tally::within(&source)).transpose();
        let tally = tally.map_err(no_memory)?;
        let leases = self.lease_hot_keys.then(|| hot_keys::room_for_leases(&params, &source));
        let leases = leases.transpose()?;
        Ok(Limiter::from_parts(Parts { table, params, seeds, clock, when_full, tally, leases }))
    }
}

impl<K: ?Sized, A: fmt::Debug, C> fmt::Debug for Builder<K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("quota", &self.quota)
            .field("algorithm", &self.algorithm)
            .field("capacity", &self.capacity)
            .field("on_full", &self.on_full)
            .finish_non_exhaustive()
    }
}
