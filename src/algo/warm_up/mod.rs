//! Warm-up: a rate that starts low and rises to the quota's rate with use.
//!
//! # Word
//!
//! ```text
//! bits 52..w  when it is cold again, in units of the grid | bits w-1..0  warmth, in units
//! ```
//!
//! `w` depends on the period and the rate. The warmth is the part of the period that has been
//! warmed up. The next request may go at *cold again* less the warmth; if none comes after that,
//! the key loses one unit of warmth in each unit of time. So idle time needs no write: past the time
//! to go, the warmth is the distance to *cold again*, and past that instant the key is as if never
//! seen. Zero is a key that was cold at the clock's origin. No value is out of range: a warmth
//! beyond the period counts as the period.
//!
//! # Step
//!
//! With `wait` units to the time to go and a warmth of `h`, `n` cells are admitted iff `wait <=
//! max_wait`. Their cost delays the request after them: the time to go advances by
//!
//! ```text
//! n * cell + extra,   extra = ceil(a * (y^2 - z^2) / b)
//! y = max(0, ramp - h),   z = max(0, ramp - h - n * refill)
//! ```
//!
//! and the warmth rises by `n * refill`. This is Guava's `SmoothWarmingUp` in reverse: its stored
//! permits are the period less the warmth, measured by the time it takes to store them. With `s`
//! the emission interval, `c` the cold factor and `p` the period, it has `p/2s` permits below the
//! threshold and `2p/(s+cs)` above. So storing one takes `refill = 2s(1+c)/(5+c)`, and storing
//! those above takes `ramp = 4p/(5+c)`. Above the threshold the interval rises from `s` to `cs`;
//! the area below that line is `n*s` and the extra, with `a = (5+c)(c-1)` and `b = 4(1+c) ramp`.
//!
//! # Units
//!
//! A unit is an exact fraction of the emission interval, a sixteenth or finer, such that a permit
//! takes a whole number of units to store. The period is rounded up to a multiple of `5 + c` units.
//! Among these, the unit is the finest whose ring has a year. The parameters are rejected if the
//! ring is less than 64 times the farthest instant that is written ahead.
//!
//! Source: the arithmetic of Guava's `RateLimiter` (its documentation in `SmoothRateLimiter`).

#[cfg(test)]
mod tests;

use core::fmt::{self, Formatter};
use core::num::NonZeroU64;
use core::time::Duration;

use crate::algo::grid::{Grid, YEAR_NANOS, gcd};
use crate::algo::numbered::Config;
#[cfg(feature = "std")]
use crate::algo::oracle::{Ramp, Slope};
use crate::algo::{
    Algorithm, CONFIG_WORDS, ClockChange, Liveness, Numbered, PAYLOAD_BITS, Rebase, Ring,
    StateMachine, Step, sealed::Sealed,
};
use crate::decision::{Denied, Measurements, NEVER, Permit};
use crate::quota::{Quota, QuotaError};
use crate::time::{Tick, saturating_nanos};
use crate::word::Field;

const COLD_FACTOR_MAX: u32 = 100;
/// The fewest units in an emission interval.
const UNITS_IN_CELL_MIN: u64 = 16;
/// The ring is at least this many times what is written ahead.
const RING_PER_REACH_MIN: u128 = 64;

/// Warm-up: a key reaches the quota's rate only as it is used, and loses it again while it is idle.
///
/// Choose it for an upstream that is slow after a pause, because its caches are cold. A
/// [`LeakyQueue`](crate::LeakyQueue) spaces requests evenly, without a cold start.
///
/// - **Rate.** When the key is warm, a cell takes one emission interval (period / limit of the quota).
///   When it is cold, a cell takes `cold_factor` times as long. The key warms up in the period given to
///   [`new`](Self::new), in constant use, and cools down in the same time without requests. A key never
///   seen starts cold.
/// - **Turns.** A request may go when the time that the request before it cost is over. Its own cost
///   delays the next request.
/// - **Waits.** A request that would have to wait longer than [`max_wait`](Self::max_wait) is denied;
///   otherwise [`Permit::delay`] says how long to wait.
/// - **Answers.** `remaining` is the burst if a request would be admitted, else 0. The burst is the most
///   cells that one request may ask for. `reset_after` is the time until the key is cold, as if it had
///   never been used.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, Tick, WarmUp};
///
/// let ten_seconds = WarmUp::new(Duration::from_secs(10)).max_wait(Duration::from_secs(1));
/// let gate = Direct::builder(Quota::per_second(100)).algorithm(ten_seconds).build()?;
/// assert_eq!(gate.ask().at(Tick::ZERO).check()?.delay(), Duration::ZERO);
/// // Cold: three times as long as the 10 ms of a warm one.
/// assert_eq!(gate.ask().at(Tick::ZERO).check()?.delay().as_millis(), 30);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Guarantee.** In any span of time, under any interleaving of threads, a key that keeps its slot is
/// granted at most `burst + rate * (span + max_wait + u)` cells, where `u` is its time unit, at most
/// a sixteenth of the emission interval. While it warms up it is granted less: each request
/// costs what the formula of Guava's `RateLimiter` says, rounded up to a unit, and the period is rounded
/// up to a multiple of `5 + cold_factor` units. In constant use a key is never faster than the formula.
///
/// **Not guaranteed.**
///
/// - That the caller waits.
/// - A key that loses its slot starts cold: see [`Limiter`](crate::Limiter).
/// - Pauses are measured in whole units, so after a pause a key may be some units warmer or colder than
///   by the formula. While it warms up, one such unit moves turns by up to `(5 + c)(c - 1) / (2 (1 + c))`
///   units, where `c` is the cold factor: by 2 for 3, by 6.1 for 10. With a factor above 3 a difference
///   can grow from one warm-up to the next, as it does in the formula itself.
/// - Times may repeat, at the earliest after a span called the ring. A key that had no request for about one
///   ring may then read as one that was used a moment ago: it is warm, or is denied for as long as such a
///   key would be. ("About" is the span that the key may write ahead.) The ring has a year for periods up to
///   `500,000 * s^2` seconds, with an emission interval of `s` seconds, a cold factor of 3 and a small
///   burst: that is 20,000 s at 5 a second. For longer periods it is shorter, such as 6 days for a minute
///   at 1,000 a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUp {
    period: Duration,
    cold_factor: u32,
    max_wait: Duration,
}

impl WarmUp {
    /// Warms up in `period` of constant use, and cools down in the same time. When cold, a cell
    /// takes 3 times as long as when warm. No request waits: one that cannot go at once is denied.
    ///
    /// A period of zero counts as the shortest that can be kept.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, Tick, WarmUp};
    /// let gate = Direct::builder(Quota::per_second(5))
    ///     .algorithm(WarmUp::new(Duration::from_secs(60)))
    ///     .build()?;
    /// assert!(gate.ask().at(Tick::ZERO).check().is_ok());
    /// assert!(gate.ask().at(Tick::from_nanos(200_000_000)).check().is_err());
    /// assert!(gate.ask().at(Tick::from_nanos(600_000_000)).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new(period: Duration) -> Self {
        Self { period, cold_factor: 3, max_wait: Duration::ZERO }
    }

    /// How many times longer a cell takes when the key is cold: 1 (no warm-up) to 100. The default
    /// is 3.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, QuotaError, WarmUp};
    /// let gate = |factor| {
    ///     let warm_up = WarmUp::new(Duration::from_secs(60)).cold_factor(factor);
    ///     Direct::builder(Quota::per_second(5)).algorithm(warm_up).build()
    /// };
    /// assert!(gate(10).is_ok());
    /// assert_eq!(gate(0).unwrap_err(), QuotaError::ColdFactorOutOfRange);
    /// ```
    #[must_use]
    pub const fn cold_factor(self, factor: u32) -> Self {
        Self { cold_factor: factor, ..self }
    }

    /// The longest wait with which a request is admitted. The default is zero.
    ///
    /// It is rounded down to a time unit.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, Tick, WarmUp};
    /// let patient = WarmUp::new(Duration::from_secs(60)).max_wait(Duration::from_secs(1));
    /// let gate = Direct::builder(Quota::per_second(5)).algorithm(patient).build()?;
    /// assert!(gate.ask().at(Tick::ZERO).check().is_ok());
    /// let permit = gate.ask().at(Tick::ZERO).check().unwrap();
    /// assert!(permit.delay() > Duration::from_millis(590));
    /// let denied = gate.ask().at(Tick::ZERO).check().unwrap_err();
    /// assert!(denied.retry_after() < Some(Duration::from_millis(200)));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn max_wait(self, longest: Duration) -> Self {
        Self { max_wait: longest, ..self }
    }

    /// The parameters with `cell` units in an emission interval; `None` if the word has no room for
    /// them. The quota is valid, and `cell` is at most the interval's nanoseconds.
    fn with_units(&self, quota: &Quota, cell: u64) -> Option<WarmUpParams> {
        let factor = u64::from(self.cold_factor);
        let (units, period_nanos) = (quota.limit() * cell, quota.period_nanos());
        let shares = |span| u128::from(saturating_nanos(span)) * u128::from(units);
        // The period is 5 + c equal parts, of which the ramp has 4.
        let parts = 5 + factor;
        let part = shares(self.period).div_ceil(u128::from(period_nanos) * u128::from(parts));
        let part = part.max(1);
        let period = u64::try_from(part * u128::from(parts)).ok()?;
        let warmth_bits = u64::BITS - period.leading_zeros();
        let time_bits = PAYLOAD_BITS.checked_sub(warmth_bits).filter(|bits| *bits > 0)?;
        let warmth = Field::new(0, warmth_bits);
        let cold_at = warmth.above(time_bits);
        let max_wait = shares(self.max_wait) / u128::from(period_nanos);
        // A charge costs less than the period above its cells.
        let reach =
            max_wait + u128::from(quota.burst_cells()) * u128::from(cell) + 2 * u128::from(period);
        if reach * RING_PER_REACH_MIN > u128::from(cold_at.max()) {
            return None;
        }
        let ramp = 4 * period / parts;
        Some(WarmUpParams {
            grid: Grid::new(units, period_nanos, cold_at.max(), u64::try_from(reach).ok()?),
            burst: quota.burst_cells(),
            cell,
            refill: 2 * (1 + factor) * cell / parts,
            cold_factor: factor,
            period,
            ramp,
            steepness: parts * (factor - 1),
            flatness: NonZeroU64::new(4 * (1 + factor) * ramp)?,
            max_wait: u64::try_from(max_wait).ok()?,
            warmth,
            cold_at,
        })
    }
}

impl Sealed for WarmUp {}

impl Algorithm for WarmUp {
    type Params = WarmUpParams;

    fn params(&self, quota: &Quota, _unix_origin_nanos: u64) -> Result<WarmUpParams, QuotaError> {
        quota.validate()?;
        if self.cold_factor == 0 || self.cold_factor > COLD_FACTOR_MAX {
            return Err(QuotaError::ColdFactorOutOfRange);
        }
        let factor = u64::from(self.cold_factor);
        // A multiple of this makes `refill` whole, and even, so that half an interval is whole too.
        let divisor = (5 + factor) / gcd(5 + factor, 2 * (1 + factor));
        let mut cell = UNITS_IN_CELL_MIN.next_multiple_of(2 * divisor);
        let interval_nanos = quota.period_nanos() / quota.limit();
        let coarsest = if cell > interval_nanos { None } else { self.with_units(quota, cell) };
        let mut params = coarsest.ok_or(QuotaError::WarmUpTooLong)?;
        while cell <= interval_nanos / 2 {
            cell *= 2;
            match self.with_units(quota, cell) {
                Some(finer) if finer.lasts_a_year() => params = finer,
                _ => break,
            }
        }
        Ok(params)
    }
}

/// The parameters of [`WarmUp`] for a quota.
///
/// A request for 0 cells has no delay.
///
/// ```
/// use std::time::Duration;
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::{Quota, Tick, WarmUp};
///
/// let params = WarmUp::new(Duration::from_secs(4)).params(&Quota::per_second(5), 0)?;
/// assert!(params.answer(params.fresh(Tick::ZERO), Tick::ZERO, 5).is_ok());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUpParams {
    grid: Grid,
    burst: u64,
    /// Units that one cell costs when the key is warm.
    cell: u64,
    /// Units of warmth that one cell adds.
    refill: u64,
    cold_factor: u64,
    /// The largest warmth in units.
    period: u64,
    /// The warmth from which on a cell costs no more than `cell`.
    ramp: u64,
    /// `a` and `b` of the module's formula.
    steepness: u64,
    flatness: NonZeroU64,
    max_wait: u64,
    warmth: Field,
    cold_at: Field,
}

/// A state at an instant.
#[derive(Clone, Copy)]
struct View {
    /// Units until the next request may go.
    wait: u64,
    /// Units of warmth, at most the period.
    warmth: u64,
}

impl View {
    /// Units until the key is cold.
    fn until_cold(self) -> u64 {
        self.wait + self.warmth
    }
}

impl WarmUpParams {
    /// Whether the ring has a year, or is endless.
    fn lasts_a_year(&self) -> bool {
        let (units, nanos) = self.grid.ratio();
        let Some(ring) = self.grid.ring() else { return true };
        u128::from(ring) * u128::from(nanos) >= YEAR_NANOS * u128::from(units)
    }

    #[inline(always)]
    fn view(&self, word: u64, floor: u64) -> View {
        let until_cold = self.grid.ahead(self.cold_at.of(word), floor);
        let warmth = self.warmth.of(word).min(self.period).min(until_cold);
        View { wait: until_cold - warmth, warmth }
    }

    /// The state after a charge of `n` cells, at most the burst.
    #[inline(always)]
    fn charged(&self, view: View, n: u64) -> View {
        let warmed = view.warmth + n * self.refill;
        let cost = n * self.cell + self.extra(view.warmth, warmed);
        View { wait: view.wait + cost, warmth: warmed.min(self.period) }
    }

    /// The cost of warming up from `before` to `after`, above that of the cells.
    #[inline(always)]
    fn extra(&self, before: u64, after: u64) -> u64 {
        let from = self.ramp.saturating_sub(before);
        if from == 0 {
            return 0;
        }
        let to = self.ramp.saturating_sub(after);
        // The period has less than 2^23 units, or the ring had no room: all is below 2^50.
        (self.steepness * (from - to) * (from + to)).div_ceil(self.flatness.get())
    }

    #[inline(always)]
    fn measured(&self, now: Tick, floor: u64, view: View) -> Measurements {
        Measurements {
            limit: self.burst,
            room: if view.wait <= self.max_wait { self.burst } else { 0 },
            cell: NonZeroU64::MIN,
            until_idle: view.until_cold(),
            scale: self.grid.scale(now, floor),
        }
    }
}

impl Numbered for WarmUpParams {
    const NUMBER: u64 = 4;

    fn write_quota(config: &Config, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "1 every {:?} when warm", config.span(config.0[3]))
    }
}

impl Rebase for WarmUpParams {
    fn algorithm(&self) -> u64 {
        Self::NUMBER
    }

    fn config_words(&self, _: u64) -> [u64; CONFIG_WORDS] {
        let (units, nanos) = self.grid.ratio();
        let Self { burst, cell, refill, cold_factor, period, max_wait, .. } = *self;
        [units, nanos, burst, cell, refill, cold_factor, period, max_wait]
    }

    /// The time to go is rounded up, and *cold again* is rounded down: neither a turn nor warmth
    /// comes early.
    fn rebase(&self, word: u64, _: &mut [u64], change: &ClockChange) -> Option<u64> {
        let warmth = self.warmth.of(word).min(self.period);
        let (more, less) = change.left(&self.grid, self.cold_at.of(word));
        let (until_cold, warmth) = match warmth {
            0 => (more, 0),
            _ => (less, warmth - (more - less)),
        };
        let cold_at = self.grid.later_in(self.cold_at, change.now(), until_cold);
        (until_cold > 0).then(|| self.cold_at.set(warmth, cold_at))
    }
}

impl Sealed for WarmUpParams {}

impl StateMachine for WarmUpParams {
    #[cfg(feature = "std")]
    type Oracle = Ramp;
    type View = u64;
    const MAY_DELAY: bool = true;

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.cold_at.set(0, self.grid.floor(now))
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, _: R, _: Tick, _: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn step(&self, word: u64, now: Tick, n: u64) -> Step {
        if n == 0 {
            return Step::Admit {
                next: self.cold_at.set(self.warmth.of(word), self.cold_at.of(word)),
            };
        }
        let floor = self.grid.floor(now);
        let view = self.view(word, floor);
        if n > self.burst || view.wait > self.max_wait {
            return Step::Deny;
        }
        let after = self.charged(view, n);
        let cold_at = self.grid.later(floor, after.until_cold());
        debug_assert_eq!(cold_at, cold_at & self.cold_at.max(), "the instant fits its field");
        Step::Admit { next: self.cold_at.set(after.warmth, cold_at) }
    }

    #[inline(always)]
    fn permit(&self, word: u64, now: Tick, n: u64) -> Permit {
        let floor = self.grid.floor(now);
        let view = self.view(word, floor);
        match n {
            0 => Permit::new(self.measured(now, floor, view)),
            n => Permit::delayed(self.measured(now, floor, self.charged(view, n)), view.wait),
        }
    }

    #[inline(always)]
    fn denied(&self, word: u64, now: Tick, n: u64) -> Denied {
        let floor = self.grid.floor(now);
        let view = self.view(word, floor);
        let wait = match n > self.burst {
            true => NEVER,
            false => view.wait.saturating_sub(self.max_wait),
        };
        Denied::new(self.measured(now, floor, view), wait)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.grid.floor(now)
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        let cold_at = self.cold_at.of(word);
        match self.grid.ahead(cold_at, instant) {
            0 => Liveness::Idle { units: self.grid.behind(cold_at, instant) },
            debt => Liveness::Live { debt },
        }
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let wait =
            self.grid.wait_behind(skew, now, |then| (then, self.idle_in(word, self.instant(then))));
        let warm = View { wait: 0, warmth: self.period };
        let measured = Measurements { room: 0, ..self.measured(now, self.grid.floor(now), warm) };
        Denied::without_slot(measured, wait)
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> Ramp {
        let Self { cell: stable, cold_factor, period, .. } = *self;
        let slope = Slope { stable, cold_factor, period };
        Ramp::new(self.grid.ratio(), slope, self.burst, self.max_wait)
    }
}
