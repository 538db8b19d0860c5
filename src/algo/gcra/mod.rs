//! The generic cell rate algorithm: token bucket, and leaky bucket as a meter, in one word.
//!
//! # Word
//!
//! ```text
//! bits 52..0  theoretical arrival time (TAT), in units of the grid
//! ```
//!
//! The TAT is the instant at which everything charged will have drained. A TAT at or before `now`
//! means a full bucket, the same as no state. For a TAT ahead of `now`, the distance is the debt. A
//! cell costs a whole number of units, `cell`, and the bucket holds `burst * cell` of them.
//!
//! # Step
//!
//! `n` cells are admitted iff `max(TAT, now) - now + n * cell <= burst * cell`; the TAT then
//! becomes `max(TAT, now) + n * cell`. A clock that is behind the one that charged can see a debt
//! larger than the bucket: it denies, and never reads the key as idle.
//!
//! # Units
//!
//! A unit is an exact fraction of the emission interval (period / limit): the smallest of at least
//! 2.5 microseconds, so that 53 bits outlast every [`Tick`], and therefore of less than 5. (The largest of at most 2.5
//! could be too short for that.) It is at most a thousandth of the time in which the whole burst comes back, and at most
//! the interval itself. It is at least a nanosecond, since no clock is finer.
//!
//! A [compact](super::COMPACT_BITS) state has units of at least 250 microseconds, chosen by the
//! same rules, or at least 640 nanoseconds where those rules force a smaller unit: its ring then
//! has a year, or at the least a day. Where the burst takes longer than six days to come back, units are so long
//! that it has no more than 2^31 of them. Quotas for which all this is impossible have no compact state:
//! rates above 1.5 million cells a second, bursts that come back in less than 0.64 ms (some in less than 1.28 ms),
//! and bursts of more than 2^31 cells. The TAT never leaves its ring, so the step is the same for both kinds
//! of state.
//!
//! # Debt
//!
//! Cells that have been spent already are charged beyond the bucket, up to 16 bursts in all. On an
//! endless grid the debt reaches as far as the field does beyond the last tick. On a compact ring it
//! reaches a quarter of the ring (1/64 if the unit is below a microsecond, so that a day is left), on
//! any other ring an eighth. All of that lies ahead of a clock and shortens the grid's horizon by as
//! much.
//!
//! Source: ITU-T I.371 and ATM Forum TM 4.0, virtual scheduling form; n cells at once after
//! Brandur Leach's redis-cell.

mod refund;

pub(super) use refund::write_bucket;

use core::num::NonZeroU64;
use core::time::Duration;

#[cfg(feature = "std")]
use super::grid;
use super::grid::Grid;
#[cfg(feature = "std")]
use super::oracle::Level;
use super::{
    Algorithm, COMPACT_BITS, Liveness, PAYLOAD_BITS, RefundVisitor, Ring, StateMachine, Step,
    sealed::Sealed,
};
use crate::decision::{Denied, Measurements, NEVER, Permit};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;
use crate::word::Field;

/// The theoretical arrival time.
const TAT: Field = Field::new(0, PAYLOAD_BITS);
/// The same in a compact state.
const COMPACT_TAT: Field = Field::new(0, COMPACT_BITS);

/// From this unit on, 53 bits outlast the 584 years of a tick.
const ENDLESS_UNIT_NANOS: u64 = 2_500;
/// A unit is at most this share of the time the whole burst takes.
const UNITS_IN_BURST_MIN: u64 = 1_000;
/// The largest burst in units: leaves the ring free enough to stay endless.
const BURST_UNITS_MAX: u64 = 1 << (PAYLOAD_BITS - 3);

/// From this unit on, the ring of a compact state is longer than a year.
const COMPACT_UNIT_NANOS: u64 = 250_000;
/// From this unit on it is longer than a day, and clocks may differ by ten seconds.
const COMPACT_UNIT_NANOS_MIN: u64 = 640;
/// The largest burst in units of a compact state: a sixty-fourth of the ring.
const COMPACT_BURST_UNITS_MAX: u64 = 1 << (COMPACT_BITS - 6);
/// The cost of a cell under another quota on the same grid is exact to one part in this many.
const PLAN_PRECISION: u128 = 1_000;
/// Units in a cell of a bucket for plans.
const PLANS_UNITS_IN_CELL: u64 = 1_000;
/// From this unit on, three quarters of the ring are longer than a day.
const COMPACT_LONG_UNIT_NANOS: u64 = 1_000;
/// The largest debt in units of a compact state, where the ring is long enough: a quarter of it.
const COMPACT_DEBT_UNITS_MAX: u64 = COMPACT_TAT.max() / 4;
/// The largest debt in bursts, as far as the ring has room for it; on an endless grid it may be
/// more.
const DEBT_BURSTS: u64 = 16;

/// Token bucket, or leaky bucket as a meter: cells come back one by one at an even rate, and up
/// to `burst` of them are saved.
///
/// **Guarantee.** In any span of time, under any interleaving of threads, a key that keeps its slot is granted at most
/// `burst + rate * (span + u)` cells, where `u` is its time unit. `u` is counted once per span, it does not add up, and
/// the rate itself is exact.
///
/// - `u` is less than 5 microseconds; in [compact slots](crate::limiter::SlotLayout) less than 500 microseconds.
/// - If the burst takes a time `t` of more than six days to come back, compact slots have a unit of at most `t / 2^30`:
///   1.2 ms for 1,000 in 30 days.
/// - In either kind of slot, `u` is never more than an emission interval, nor more than a thousandth of the time in
///   which the burst comes back, unless that thousandth is below 2 nanoseconds.
///
/// **Not guaranteed.** See [`Limiter`](crate::Limiter) for what happens to a key that loses its slot. A clock that is
/// too far behind another one may read a key in debt as idle:
///
/// | if | too far is more than |
/// |---|---|
/// | the burst comes back in less than 5 ms, or the rate is above 400,000 cells a second | a year |
/// | the burst comes back in less than 0.5 ms, or the rate is above 4.4 million | an hour |
/// | the burst comes back in less than 10 microseconds, or the rate is above 250 million | 18 minutes |
/// | any quota in [compact slots](crate::limiter::SlotLayout) | as [`SlotLayout`](crate::limiter::SlotLayout) says |
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, Tick};
///
/// let gate = Direct::new(Quota::per_second(10).burst(3))?; // Gcra is the default
/// assert_eq!(gate.ask().cells(3).at(Tick::ZERO).check()?.remaining(), 0);
/// let denied = gate.ask().cells(2).at(Tick::ZERO).check().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gcra {
    start_empty: bool,
    for_plans: bool,
    lease_cells: u64,
}

impl Gcra {
    /// A bucket that is full when a key is first seen.
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_second(4)).algorithm(Gcra::new()).build()?;
    /// assert_eq!(gate.ask().at(Tick::ZERO).check().unwrap().remaining(), 3);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { start_empty: false, for_plans: false, lease_cells: 0 }
    }

    /// A bucket that is empty when a key is first seen (or seen again after it lost its place),
    /// and fills at the rate.
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_second(4)).algorithm(Gcra::start_empty()).build()?;
    /// assert!(gate.ask().at(Tick::ZERO).check().is_err());
    /// assert!(gate.ask().at(Tick::from_nanos(250_000_000)).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn start_empty() -> Self {
        Self { start_empty: true, for_plans: false, lease_cells: 0 }
    }

    /// Allows leases of `cells` cells at a time: see [`LocalLease`](crate::lease::LocalLease). The burst
    /// of every request, with a lease or without, is lower by as many cells, which keeps the total
    /// exact. At most half of the burst.
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota, QuotaError};
    /// let quota = Quota::per_second(1_000);
    /// let gate: Limiter<str> = Limiter::builder(quota).algorithm(Gcra::new().leases(64)).build()?;
    /// assert_eq!(gate.check("a").unwrap().limit(), 936);
    /// let built: Result<Limiter<str>, _> =
    ///     Limiter::builder(quota).algorithm(Gcra::new().leases(501)).build();
    /// assert_eq!(built.unwrap_err(), QuotaError::LeaseCellsTooMany.into());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn leases(self, cells: u64) -> Self {
        Self { lease_cells: cells, ..self }
    }

    /// Keeps states that can express the quotas of [plans](crate::plan::Plan) slower than the
    /// limiter's own: in units of at most a thousandth of its emission interval (at least a
    /// nanosecond), with room for long debts, in [wide slots](crate::limiter::SlotLayout).
    ///
    /// Two kinds of slower plans are errors all the same:
    ///
    /// - The burst of a plan must come back within 2^50 units: within 35 years if the limiter's own rate is 1,000
    ///   cells a second, and within 13 days from a million a second on. (Up to 400 a second, it may take a century.)
    /// - The emission interval of a plan above a million cells a second must be, to a thousandth, a whole number of
    ///   units, which are about a nanosecond long.
    ///
    /// The price, above 400 cells a second: the time field wraps after some years (90 days from a million cells
    /// a second on), so an older state may read as live.
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota};
    /// let quota = Quota::per_second(50_000);
    /// let gate: Limiter<str> =
    ///     Limiter::builder(quota).algorithm(Gcra::new().for_plans()).build()?;
    /// assert!(gate.plan(Quota::per_second(49_999)).is_ok());
    ///
    /// let coarse: Limiter<str> = Limiter::builder(quota).build()?;
    /// assert!(coarse.plan(Quota::per_second(49_999)).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn for_plans(self) -> Self {
        Self { for_plans: true, ..self }
    }
}

impl Sealed for Gcra {}

impl Algorithm for Gcra {
    type Params = GcraParams;

    fn params(&self, quota: &Quota, _unix_origin_nanos: u64) -> Result<GcraParams, QuotaError> {
        quota.validate()?;
        let least = if self.for_plans { PLANS_UNITS_IN_CELL } else { 1 };
        self.with_cell(quota, units_in_cell(quota, least), TAT, BURST_UNITS_MAX)
    }

    fn compact_params(&self, quota: &Quota, _: u64) -> Result<Option<GcraParams>, QuotaError> {
        quota.validate()?;
        // The refund of a lease names a generation, which compact slots do not have.
        if self.lease_cells > 0 || self.for_plans {
            return Ok(None);
        }
        let Some(cell) = compact_units_in_cell(quota) else { return Ok(None) };
        let unit_nanos = quota.period_nanos() / quota.limit() / cell;
        let long = unit_nanos >= COMPACT_LONG_UNIT_NANOS;
        let debt_max = if long { COMPACT_DEBT_UNITS_MAX } else { COMPACT_BURST_UNITS_MAX };
        self.with_cell(quota, cell, COMPACT_TAT, debt_max).map(Some)
    }
}

impl Gcra {
    /// The parameters of a valid quota, with `cell` units to a cell and the TAT in `field`. The last
    /// argument bounds the units of a debt beyond the burst.
    fn with_cell(
        self,
        quota: &Quota,
        cell: NonZeroU64,
        field: Field,
        debt_max: u64,
    ) -> Result<GcraParams, QuotaError> {
        let Self { start_empty, lease_cells, .. } = self;
        if lease_cells > quota.burst_cells() / 2 {
            return Err(QuotaError::LeaseCellsTooMany);
        }
        let burst = quota.burst_cells() - lease_cells;
        let burst = NonZeroU64::new(burst).ok_or(QuotaError::ZeroBurst)?;
        let capacity = burst.get() * cell.get();
        let units = quota.limit() * cell.get();
        let debt = if self.for_plans { debt_max } else { debt_units(capacity, debt_max) };
        let grid = Grid::with_debt(units, quota.period_nanos(), field.max(), capacity, debt);
        Ok(GcraParams { lease_cells, ..GcraParams::on(grid, cell, burst, start_empty) })
    }
}

/// The largest debt of a bucket, if a burst may have at most `units_max` units.
pub(super) fn debt_units(capacity: u64, units_max: u64) -> u64 {
    capacity.saturating_mul(DEBT_BURSTS).min(units_max)
}

/// Units in one cell, chosen as the module says, and at least `least` if units then last a nanosecond or
/// more. The quota is valid.
pub(super) fn units_in_cell(quota: &Quota, least: u64) -> NonZeroU64 {
    let burst = quota.burst_cells();
    let interval_nanos = quota.period_nanos() / quota.limit();
    let units = (interval_nanos / ENDLESS_UNIT_NANOS)
        .max(UNITS_IN_BURST_MIN.div_ceil(burst))
        .max(least)
        .min(interval_nanos)
        .min(BURST_UNITS_MAX / burst);
    NonZeroU64::new(units).expect("at most 10^9 cells a second, at most 2^40 at once")
}

/// The same for a compact state; `None` if its units would be too coarse, or its ring too short.
/// The quota is valid.
fn compact_units_in_cell(quota: &Quota) -> Option<NonZeroU64> {
    let burst = quota.burst_cells();
    let interval_nanos = quota.period_nanos() / quota.limit();
    let units = (interval_nanos / COMPACT_UNIT_NANOS)
        .max(UNITS_IN_BURST_MIN.div_ceil(burst))
        .min(COMPACT_BURST_UNITS_MAX / burst);
    let units = NonZeroU64::new(units)?;
    let fine = units.get() * burst >= UNITS_IN_BURST_MIN;
    (fine && interval_nanos / units >= COMPACT_UNIT_NANOS_MIN).then_some(units)
}

/// The parameters of [`Gcra`] for a quota.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(2), 0)?;
/// assert!(params.answer(params.fresh(Tick::ZERO), Tick::ZERO, 2).is_ok());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcraParams {
    grid: Grid,
    /// Units that one cell costs.
    cell: NonZeroU64,
    /// Units that the bucket holds.
    capacity: u64,
    /// The largest debt to which one cell can be added, in units.
    room_for_one: u64,
    burst: NonZeroU64,
    /// The debt of a fresh key: the capacity if it starts empty, whatever is charged until then.
    first_debt: u64,
    lease_cells: u64,
}

/// [`GcraParams`] in words.
#[cfg(feature = "std")]
pub(super) const WORDS: usize = grid::WORDS + 3;

impl GcraParams {
    /// A bucket of `burst` cells of `cell` units each, on a grid that reaches as far.
    pub(super) fn on(grid: Grid, cell: NonZeroU64, burst: NonZeroU64, start_empty: bool) -> Self {
        let capacity = burst.get() * cell.get();
        let first_debt = if start_empty { capacity } else { 0 };
        let room_for_one = capacity - cell.get();
        Self { grid, cell, capacity, room_for_one, burst, first_debt, lease_cells: 0 }
    }

    /// Units that one cell costs.
    pub(super) fn cell(&self) -> u64 {
        self.cell.get()
    }

    /// Cells that the bucket holds.
    pub(crate) fn burst(&self) -> u64 {
        self.burst.get()
    }

    /// The form that [`from_words`](Self::from_words) reads, for a bucket without leases.
    #[cfg(feature = "std")]
    pub(super) fn to_words(self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..grid::WORDS].copy_from_slice(&self.grid.to_words());
        let rest = [self.cell.get(), self.burst.get(), u64::from(self.first_debt > 0)];
        words[grid::WORDS..].copy_from_slice(&rest);
        words
    }

    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn from_words(words: &[u64; WORDS]) -> Self {
        let grid = Grid::from_words(words.first_chunk().expect("it comes first"));
        let [.., cell, burst, start_empty] = *words;
        let cell = NonZeroU64::new(cell).expect("a cell costs something");
        let burst = NonZeroU64::new(burst).expect("a bucket holds something");
        Self::on(grid, cell, burst, start_empty != 0)
    }

    /// Units that `cells` cost, at most `u64::MAX`.
    #[inline(always)]
    pub(super) fn cost(&self, cells: u64) -> u64 {
        cells.saturating_mul(self.cell.get())
    }

    /// The distance of the TAT ahead of `floor`, in units: what has not drained yet.
    #[inline(always)]
    pub(super) fn debt(&self, word: u64, floor: u64) -> u64 {
        self.grid.ahead(TAT.of(word), floor)
    }

    /// The same with a bucket of `capacity` units, at least one cell.
    fn with_capacity(self, capacity: u64) -> Self {
        let burst = NonZeroU64::new(capacity / self.cell).unwrap_or(NonZeroU64::MIN);
        let room_for_one = capacity.saturating_sub(self.cell.get());
        Self { capacity, room_for_one, burst, ..self }
    }

    /// The step for `n` cells. `later` takes the TAT, the largest debt to which the cells can be added, and their
    /// cost in units. It returns the next TAT, or `None` if the debt is larger.
    #[inline(always)]
    fn step_from(
        &self,
        word: u64,
        n: u64,
        later: impl FnOnce(u64, u64, u64) -> Option<u64>,
    ) -> Step {
        let tat = TAT.of(word);
        if n == 0 {
            return Step::Admit { next: tat };
        }
        // The type says that the burst is not zero, so a request for one cell needs no comparison
        // here.
        if n > self.burst.get() {
            return Step::Deny;
        }
        // At most the capacity, since n is at most the burst.
        let cost = n * self.cell.get();
        let room = if n == 1 { self.room_for_one } else { self.capacity - cost };
        match later(tat, room, cost) {
            None => Step::Deny,
            Some(next) => {
                debug_assert_eq!(next, TAT.of(next), "the TAT fits its field");
                Step::Admit { next }
            }
        }
    }

    /// The measurements at `now`, whose floor is `floor`, with `debt` units to drain.
    #[inline(always)]
    pub(super) fn measured(&self, now: Tick, floor: u64, debt: u64) -> Measurements {
        Measurements {
            limit: self.burst.get(),
            room: self.capacity.saturating_sub(debt),
            cell: self.cell,
            until_idle: debt,
            scale: self.grid.scale(now, floor),
        }
    }
}

impl Sealed for GcraParams {}

impl StateMachine for GcraParams {
    #[cfg(feature = "std")]
    type Oracle = Level;
    type View = u64;
    const MAY_BE_COMPACT: bool = true;

    fn lease_cells(&self) -> u64 {
        self.lease_cells
    }

    /// Until time has restored as many cells as a lease takes.
    fn lease_life(&self, _: u64, _: Tick) -> Duration {
        self.grid.span(self.cost(self.lease_cells))
    }

    #[inline(always)]
    fn permit_ahead(&self, word: u64, now: Tick, left: u64) -> Permit {
        let floor = self.grid.floor(now);
        let debt = self.debt(word, floor).saturating_sub(self.cost(left));
        Permit::new(self.measured(now, floor, debt))
    }

    #[inline(always)]
    fn dispatch_refund<V: RefundVisitor>(&self, visitor: V) -> Option<V::Out> {
        Some(visitor.visit(self))
    }

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        TAT.of(self.grid.later(self.grid.floor(now), self.first_debt))
    }

    fn starts_in_debt(&self) -> bool {
        self.first_debt > 0
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, _: R, _: Tick, _: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn step(&self, word: u64, now: Tick, n: u64) -> Step {
        self.step_from(word, n, |tat, room, cost| {
            let floor = self.grid.floor(now);
            let debt = self.grid.ahead(tat, floor);
            (debt <= room).then(|| self.grid.later(floor, debt + cost))
        })
    }

    /// For a bucket in debt, the next TAT does not depend on `now`. With a branch, it need not wait for the
    /// multiplications that place `now` on the grid.
    #[inline(always)]
    fn step_by_branch(&self, word: u64, now: Tick, n: u64) -> Step {
        self.step_from(word, n, |tat, room, cost| {
            let floor = self.grid.floor(now);
            match self.grid.distance_ahead(tat, floor) {
                Some(debt) if debt > room => None,
                Some(_) => Some(self.grid.later(tat, cost)),
                None => Some(self.grid.later(floor, cost)),
            }
        })
    }

    #[inline(always)]
    fn permit(&self, word: u64, now: Tick, n: u64) -> Permit {
        let floor = self.grid.floor(now);
        let debt = self.debt(word, floor) + self.cost(n);
        Permit::new(self.measured(now, floor, debt))
    }

    #[inline(always)]
    fn denied(&self, word: u64, now: Tick, n: u64) -> Denied {
        let floor = self.grid.floor(now);
        let debt = self.debt(word, floor);
        let wait = match n > self.burst.get() {
            true => NEVER,
            false => (debt + n * self.cell.get()).saturating_sub(self.capacity),
        };
        Denied::new(self.measured(now, floor, debt), wait)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.grid.floor(now)
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        match self.debt(word, instant) {
            0 => Liveness::Idle { units: self.grid.behind(TAT.of(word), instant) },
            debt => Liveness::Live { debt },
        }
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let wait =
            self.grid.wait_behind(skew, now, |then| (then, self.idle_in(word, self.instant(then))));
        let measured = self.measured(now, self.grid.floor(now), self.capacity);
        Denied::without_slot(measured, wait)
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> Level {
        Level::new(self.grid.ratio(), self.cell.get(), self.burst.get(), self.first_debt > 0)
    }
}

#[cfg(test)]
pub(super) mod tests;
