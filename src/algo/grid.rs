//! A grid of time units on which an algorithm keeps its instants.
//!
//! A word has about 50 bits for an instant, too few for nanoseconds over years. Each algorithm
//! therefore counts in units of its own, chosen so that the quota is a whole number of them: the
//! grid has exactly `units / nanos` units to a nanosecond, a fraction in lowest terms, and no rate
//! is ever rounded. An instant counts as the beginning of its unit. [`Grid::floor`] finds that unit
//! exactly, for every `u64` of nanoseconds.
//!
//! # How an instant is placed with two multiplications
//!
//! A unit is at least a nanosecond. Let `F = floor(2^128 * units / nanos)`, or `2^128 - 1` where
//! that does not fit. For an instant of `n` nanoseconds, `n * F` is below its exact value,
//! `2^128 * n * units / nanos`, by less than `2^64`, because `n` is below `2^64`. The number of
//! units is a whole number, or away from the next one by at least `1 / nanos`, which is more than
//! `2^-63`. So adding `2^64` before dropping 128 bits gives the exact floor as long as
//! `nanos < 2^63`, and only bits 64 and up of `n * F` matter for it.
//!
//! # Old words
//!
//! Instants in a word are compared on a ring, since the word's time field wraps around.
//! [`Grid::ahead`] decides whether an instant is ahead or behind. There are two kinds of grid:
//!
//! - *Endless*: the ring is longer than the 584 years of a [`Tick`], so no two instants coincide. A
//!   clock may be off by any amount, in either direction.
//! - *Wrapping*: the ring is shorter. An instant up to `ahead_max` units ahead is ahead; all others
//!   are behind. `ahead_max` is what the algorithm itself may write ahead of its clock, plus the
//!   *skew tolerance*. The tolerance is a year or more if the ring has 64 years. Otherwise it is
//!   1/8192 of the ring, and at most an hour. A clock that is behind by more than the tolerance may
//!   read a live state as an old one. A state that is older than the ring less `ahead_max` may be
//!   read as live, for at most `ahead_max` units.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::decision::Scale;
use crate::time::Tick;
use crate::word::Field;

/// A grid in words.
#[cfg(feature = "std")]
pub(super) const WORDS: usize = 8;

const HOUR_NANOS: u128 = 3_600 * 1_000_000_000;
pub(super) const YEAR_NANOS: u128 = 365 * 24 * HOUR_NANOS;

/// A time grid. The [module](self) states what it guarantees.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::{Gcra, Quota};
///
/// let ordinary = Gcra::new().params(&Quota::per_second(100).burst(20), 0)?;
/// assert_eq!(ordinary.grid().ratio(), (1, 2_500)); // 1 unit in 2,500 ns
/// assert_eq!(ordinary.grid().skew_tolerance(), None); // clocks may differ by any amount
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    units: NonZeroU64,
    nanos: u64,
    /// Units in a nanosecond, in 2^-128.
    fraction: u128,
    /// The word's time field, unshifted; all ones where the grid is endless.
    mask: u64,
    /// Distances up to this are ahead, the others behind.
    ahead_max: u64,
    tolerance: u64,
    /// The most units ahead of a clock that may be written.
    reach: u64,
}

/// A span back from an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Back {
    /// Its units, less one.
    reach: u64,
    /// As many, and those that are ahead.
    most: u64,
}

impl Back {
    pub(super) const NONE: Self = Self { reach: 0, most: 0 };
}

impl Grid {
    /// The grid with `units` units in `nanos` nanoseconds, kept in a field whose largest value is
    /// `field_max`, for an algorithm that writes up to `reach` units ahead of its clock.
    pub(super) fn new(units: u64, nanos: u64, field_max: u64, reach: u64) -> Self {
        let divisor = gcd(units, nanos);
        let (units, nanos) = (units / divisor, nanos / divisor);
        assert!(nanos < 1 << 63, "the placing argument needs nanos below 2^63");
        assert!(units <= nanos, "a unit is at least a nanosecond");
        assert!(reach <= field_max / 4, "what is ahead must be told from what is behind");
        assert!(field_max < u64::MAX, "all ones is the mask of an endless grid");
        let units = NonZeroU64::new(units).expect("a grid has units");
        // The last units of the ring are left free: what is written ahead fits the field too.
        let last_unit = ((u128::from(u64::MAX)) * u128::from(units.get())) / u128::from(nanos);
        let endless = last_unit + u128::from(reach) <= u128::from(field_max);
        let reach = if endless { field_max - narrow(last_unit) } else { reach };
        let tolerance = tolerance(units, nanos, field_max);
        Self {
            units,
            nanos,
            fraction: fraction(units.get(), nanos),
            mask: if endless { u64::MAX } else { field_max },
            ahead_max: if endless { u64::MAX >> 1 } else { reach + tolerance },
            tolerance,
            reach,
        }
    }

    /// As [`new`](Self::new), for an algorithm that writes up to `reach` units ahead, and seldom up
    /// to `debt`. If the ring is endless with `debt` as well, the reach is as long as the field
    /// allows.
    pub(super) fn with_debt(units: u64, nanos: u64, field_max: u64, reach: u64, debt: u64) -> Self {
        let grid = Self::new(units, nanos, field_max, reach);
        let enough = grid.ring().is_none() && grid.reach >= debt;
        if enough { grid } else { Self::new(units, nanos, field_max, debt.max(reach)) }
    }

    /// As [`new`](Self::new), on a ring of exactly the field: for instants that do not begin at 0.
    pub(super) fn wrapping(units: u64, nanos: u64, field_max: u64, reach: u64) -> Self {
        let grid = Self::new(units, nanos, field_max, reach);
        Self { mask: field_max, ahead_max: reach + grid.tolerance, reach, ..grid }
    }

    /// The words that [`from_words`](Self::from_words) reads.
    #[cfg(feature = "std")]
    #[expect(clippy::cast_possible_truncation, reason = "halves of a u128")]
    pub(super) fn to_words(self) -> [u64; WORDS] {
        let Self { units, nanos, fraction, mask, ahead_max, tolerance, reach } = self;
        let (high, low) = ((fraction >> 64) as u64, fraction as u64);
        [units.get(), nanos, high, low, mask, ahead_max, tolerance, reach]
    }

    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn from_words(words: &[u64; WORDS]) -> Self {
        let [units, nanos, high, low, mask, ahead_max, tolerance, reach] = *words;
        let units = NonZeroU64::new(units).expect("a grid has units");
        let fraction = u128::from(high) << 64 | u128::from(low);
        Self { units, nanos, fraction, mask, ahead_max, tolerance, reach }
    }

    /// Whether an instant means the same on both grids.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn counts_as(&self, other: &Self) -> bool {
        (self.units, self.nanos, self.mask) == (other.units, other.nanos, other.mask)
    }

    /// The most units ahead of a clock that may be written.
    pub(super) fn reach(&self) -> u64 {
        self.reach
    }

    /// The unit that has begun at or before `now`.
    ///
    /// ```
    /// # use tollgate::algorithm::Algorithm;
    /// # use tollgate::internals::StateMachine;
    /// # use tollgate::{Gcra, Quota, Tick};
    /// let params = Gcra::new().params(&Quota::per_second(100), 0)?;
    /// let grid = params.grid();
    /// assert_eq!(grid.floor(Tick::from_nanos(4_999)), 1);
    /// assert_eq!(grid.floor(Tick::from_nanos(5_000)), 2);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn floor(&self, now: Tick) -> u64 {
        (self.placed(now) >> 64) as u64
    }

    /// Whether a unit begins at `now`.
    ///
    /// There the number of units is whole, and `n * F` falls short of it by less than 2^-64. So with what is carried
    /// the lower half is 0, or 1 where nothing falls short. Elsewhere the number is away from a whole one by at least
    /// `1 / nanos`, above 2^-63, and the half is 2 or more.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half of a u128")]
    pub(super) fn begins_unit(&self, now: Tick) -> bool {
        self.placed(now) as u64 <= 1
    }

    /// `now` in units, in 2^-64.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "halves of a u128")]
    fn placed(&self, now: Tick) -> u128 {
        let nanos = u128::from(now.as_nanos());
        let high = nanos * u128::from((self.fraction >> 64) as u64);
        let low = nanos * u128::from(self.fraction as u64);
        // The high half of a product is below 2^64 - 1.
        let carried = (low >> 64) as u64 + 1;
        high + u128::from(carried)
    }

    /// How many units `instant` lies ahead of `now` (a floor of this grid); 0 where it is not.
    ///
    /// ```
    /// # use tollgate::algorithm::Algorithm;
    /// # use tollgate::internals::StateMachine;
    /// # use tollgate::{Gcra, Quota, Tick};
    /// let params = Gcra::new().params(&Quota::per_second(100), 0)?;
    /// assert_eq!(params.grid().ahead(7, 5), 2);
    /// assert_eq!(params.grid().ahead(5, 7), 0);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn ahead(&self, instant: u64, now: u64) -> u64 {
        self.distance_ahead(instant, now).unwrap_or(0)
    }

    /// The same; `None` where it is behind.
    #[inline(always)]
    pub(super) fn distance_ahead(&self, instant: u64, now: u64) -> Option<u64> {
        let distance = instant.wrapping_sub(now) & self.mask;
        (distance <= self.ahead_max).then_some(distance)
    }

    /// The units, but no more than can be told from an instant that is behind.
    pub(super) fn clamp_ahead(&self, units: u64) -> u64 {
        units.min(self.ahead_max)
    }

    /// How many units `instant`, which is not ahead, lies behind `now`.
    #[inline]
    pub(super) fn behind(&self, instant: u64, now: u64) -> u64 {
        now.wrapping_sub(instant) & self.mask
    }

    /// The span of so many units, at least one, for [`within`](Self::within).
    pub(super) fn back(&self, units: u64) -> Back {
        Back { reach: units - 1, most: self.ahead_max + (units - 1) }
    }

    /// Whether `instant` is ahead of `now`, or behind it by less than a span.
    #[inline(always)]
    pub(super) fn within(&self, instant: u64, now: u64, span: Back) -> bool {
        // One comparison: what is behind by one unit less becomes 0, and what is `ahead_max` ahead
        // the largest that still is.
        instant.wrapping_sub(now).wrapping_add(span.reach) & self.mask <= span.most
    }

    /// `instant` moved on by `units`, ready for the word's time field.
    #[inline]
    pub(super) fn later(&self, instant: u64, units: u64) -> u64 {
        instant.wrapping_add(units) & self.mask
    }

    /// The same, but no later than the last instant that `field` can hold, also if the grid does
    /// not wrap.
    pub(super) fn later_in(&self, field: Field, instant: u64, units: u64) -> u64 {
        self.later(instant, units).min(field.max())
    }

    /// How long from `now` until `units` more units have begun, at least one.
    fn wait(&self, now: Tick, units: u64) -> Duration {
        self.scale(now, self.floor(now)).span(units.max(1))
    }

    /// How long from `now` until a state has been idle for `skew`: until it is idle by a clock that is so far behind.
    /// `idle` takes the present of that clock. It returns the same instant as the grid counts it, and the units
    /// until the state is idle.
    pub(super) fn wait_behind(
        &self,
        skew: Duration,
        now: Tick,
        idle: impl FnOnce(Tick) -> (Tick, u64),
    ) -> Duration {
        let (then, begins_in) = behind_by(skew, now);
        let (then, units) = idle(then);
        self.wait(then, units).saturating_add(begins_in)
    }

    /// How spans counted from `now`, whose floor is `floor`, become nanoseconds.
    #[inline]
    pub(crate) fn scale(&self, now: Tick, floor: u64) -> Scale {
        // Both products wrap alike, and their difference is below `nanos`.
        let placed = now.as_nanos().wrapping_mul(self.units.get());
        let phase = placed.wrapping_sub(floor.wrapping_mul(self.nanos));
        debug_assert!(phase < self.nanos);
        Scale { units: self.units, nanos: self.nanos, phase }
    }

    /// The grid as a fraction in lowest terms: units, and the nanoseconds they take.
    ///
    /// ```
    /// # use tollgate::algorithm::Algorithm;
    /// # use tollgate::internals::StateMachine;
    /// # use tollgate::{Gcra, Quota, Tick};
    /// let params = Gcra::new().params(&Quota::per_second(3), 0)?;
    /// // A third of a second is a whole number of units: 133,333.
    /// assert_eq!(params.grid().ratio(), (399_999, 1_000_000_000));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn ratio(&self) -> (u64, u64) {
        (self.units.get(), self.nanos)
    }

    /// How far a clock may be behind the one that wrote a state and still read it as live; `None`
    /// if there is no bound.
    ///
    /// ```
    /// # use tollgate::algorithm::Algorithm;
    /// # use tollgate::internals::StateMachine;
    /// # use tollgate::{Gcra, Quota, Tick};
    /// let params = Gcra::new().params(&Quota::per_second(1_000_000_000), 0)?;
    /// assert_eq!(params.grid().skew_tolerance().unwrap().as_secs(), 1_099);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn skew_tolerance(&self) -> Option<Duration> {
        // Rounded down: a clock that is behind by this much is behind by no more units.
        (self.mask != u64::MAX).then(|| self.span(self.tolerance))
    }

    /// The skew tolerance in units; where there is no bound, more than any two instants differ.
    pub(super) fn tolerance_units(&self) -> u64 {
        if self.mask == u64::MAX { self.ahead_max } else { self.tolerance }
    }

    /// How long after it was written a state can be told from a later one; `None` if there is no
    /// bound.
    ///
    /// ```
    /// # use tollgate::algorithm::Algorithm;
    /// # use tollgate::internals::StateMachine;
    /// # use tollgate::{Gcra, Quota, Tick};
    /// let params = Gcra::new().params(&Quota::per_second(1_000_000_000), 0)?;
    /// assert_eq!(params.grid().horizon().unwrap().as_secs() / (24 * 3600), 104);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn horizon(&self) -> Option<Duration> {
        self.ring().map(|ring| self.span(ring - self.ahead_max - 2))
    }

    /// The length of `units` units, rounded down.
    pub(super) fn span(&self, units: u64) -> Duration {
        let nanos = u128::from(units) * u128::from(self.nanos) / u128::from(self.units.get());
        Duration::from_nanos(narrow(nanos))
    }

    /// The units of a span, rounded up, at most `u64::MAX`.
    pub(super) fn units_in(&self, span: Duration) -> u64 {
        units_in(span.as_nanos(), self.units, self.nanos)
    }

    /// The length of the ring in units; `None` where the grid is endless.
    ///
    /// ```
    /// # use tollgate::algorithm::Algorithm;
    /// # use tollgate::internals::StateMachine;
    /// # use tollgate::{Gcra, Quota, Tick};
    /// let params = Gcra::new().params(&Quota::per_second(1_000_000_000), 0)?;
    /// assert_eq!(params.grid().ring(), Some(1 << 53)); // nanoseconds: 104 days
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn ring(&self) -> Option<u64> {
        self.mask.checked_add(1)
    }
}

/// The present of a clock that is `skew` behind, and how long until that clock has begun.
fn behind_by(skew: Duration, now: Tick) -> (Tick, Duration) {
    (now.saturating_sub(skew), skew.saturating_sub(now.since(Tick::ZERO)))
}

/// The skew tolerance of a wrapping grid, in units.
fn tolerance(units: NonZeroU64, nanos: u64, field_max: u64) -> u64 {
    if field_max / 64 >= units_in(YEAR_NANOS, units, nanos) {
        field_max / 64
    } else {
        (field_max / 8192).min(units_in(HOUR_NANOS, units, nanos)).max(1)
    }
}

/// The units of a span, rounded up, at most `u64::MAX`.
fn units_in(span_nanos: u128, units: NonZeroU64, nanos: u64) -> u64 {
    narrow(span_nanos.saturating_mul(units.get().into()).div_ceil(nanos.into()))
}

/// `floor(2^128 * numerator / denominator)` by long division; all ones for a fraction of 1.
fn fraction(numerator: u64, denominator: u64) -> u128 {
    if numerator == denominator {
        return u128::MAX;
    }
    let denominator = u128::from(denominator);
    let first = u128::from(numerator) << 64;
    let second = (first % denominator) << 64;
    ((first / denominator) << 64) | (second / denominator)
}

#[expect(clippy::cast_possible_truncation, reason = "guarded by the minimum")]
fn narrow(wide: u128) -> u64 {
    wide.min(u128::from(u64::MAX)) as u64
}

pub(super) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
