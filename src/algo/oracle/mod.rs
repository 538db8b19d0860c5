//! Naive exact models of the algorithms, for tests, fuzzing and `tollgate replay --verify`.
//!
//! They are written the way the algorithms are explained, not the way they are computed: the token
//! bucket as a level that drains, the window as a start and a count, sub-windows as counts by their
//! number, the log as a list, instants by plain 128-bit division. So an oracle cannot share a
//! mistake of the packed arithmetic. Oracles are slow, and model one key and one thread.
//!
//! An oracle has the same time units as its algorithm (an instant counts as the beginning of its
//! unit, an event in a log as its end), and never wraps around. It also defines what a clock that
//! goes back may do.

#[cfg(test)]
mod brute;
mod in_flight;
mod sliding_log;
mod sub_windows;

pub use super::any::AnyOracle;
pub use {in_flight::Entries, sliding_log::EventLog, sub_windows::SubWindowCounts};

use core::time::Duration;

use super::sealed::Sealed;
use crate::decision::Decision;
use crate::time::Tick;

/// The answer of an oracle or of a limiter to a request.
///
/// ```
/// use tollgate::internals::StateMachine;
/// use tollgate::internals::oracle::{Oracle, Verdict};
/// use tollgate::{Direct, Quota, Tick};
///
/// let gate = Direct::new(Quota::per_second(3))?;
/// let mut oracle = gate.params().oracle();
/// for nanos in [0, 0, 100_000_000, 0, 5_000_000_000] {
///     let now = Tick::from_nanos(nanos);
///     assert_eq!(Verdict::from(&gate.ask().at(now).check()), oracle.decide(now, 1));
/// }
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "tests compare with an oracle by making one")]
pub struct Verdict {
    /// Whether the request may go ahead.
    pub admitted: bool,
    /// Whole cells that could be spent next.
    pub remaining: u64,
    /// The time until the key is as if never used.
    pub reset_after: Duration,
    /// The time until the same request would be admitted; zero if it was, `None` if it never would
    /// be.
    pub retry_after: Option<Duration>,
    /// The time until an admitted request may go ahead; zero if it was denied.
    pub delay: Duration,
}

impl From<&Decision> for Verdict {
    fn from(decision: &Decision) -> Self {
        match decision {
            Ok(permit) => Self {
                admitted: true,
                remaining: permit.remaining(),
                reset_after: permit.reset_after(),
                retry_after: Some(Duration::ZERO),
                delay: permit.delay(),
            },
            Err(denied) => Self {
                admitted: false,
                remaining: denied.remaining(),
                reset_after: denied.reset_after(),
                retry_after: denied.retry_after(),
                delay: Duration::ZERO,
            },
        }
    }
}

/// A model of one key. Sealed: each is the model of an algorithm of this crate.
///
/// ```
/// use tollgate::internals::StateMachine;
/// use tollgate::internals::oracle::Oracle;
/// use tollgate::{Direct, Quota, Tick};
///
/// let gate = Direct::new(Quota::per_second(1))?;
/// let mut oracle = gate.params().oracle();
/// assert!(oracle.decide(Tick::ZERO, 1).admitted);
/// assert!(!oracle.decide(Tick::ZERO, 1).admitted);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Oracle: Clone + Sealed {
    /// Decides about `n` cells, and charges them if it admits.
    fn decide(&mut self, now: Tick, n: u64) -> Verdict;
}

impl Sealed for Entries {}
impl Sealed for EventLog {}
impl Sealed for Level {}
impl Sealed for Queue {}
impl Sealed for Ramp {}
impl Sealed for SubWindowCounts {}
impl Sealed for Window {}

/// Units of time by plain division: `units` of them in `nanos` nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Units {
    units: u128,
    nanos: u128,
}

impl Units {
    fn of((units, nanos): (u64, u64)) -> Self {
        Self { units: units.into(), nanos: nanos.into() }
    }

    fn begun(self, now: Tick) -> u128 {
        u128::from(now.as_nanos()) * self.units / self.nanos
    }

    /// The first unit that begins at `now` or later.
    fn ended(self, now: Tick) -> u128 {
        (u128::from(now.as_nanos()) * self.units).div_ceil(self.nanos)
    }

    /// The first nanosecond at which `unit` has begun.
    fn beginning(self, unit: u128) -> u128 {
        (unit * self.nanos).div_ceil(self.units)
    }

    /// From `now` to the first nanosecond at which `unit` has begun.
    fn until(self, now: Tick, unit: u128) -> Duration {
        span(self.beginning(unit).saturating_sub(now.as_nanos().into()))
    }
}

fn span(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The token bucket as a leaky level: cells that were poured in and have not drained yet.
#[derive(Clone, Debug)]
pub struct Level {
    grid: Units,
    /// Units that one cell pours in.
    cell: u128,
    burst: u64,
    start_empty: bool,
    /// The level, in units, and the unit at which it was measured.
    level: Option<(u128, u128)>,
}

impl Level {
    pub(super) fn new(grid: (u64, u64), cell: u64, burst: u64, start_empty: bool) -> Self {
        Self { grid: Units::of(grid), cell: cell.into(), burst, start_empty, level: None }
    }

    fn at(&self, unit: u128) -> u128 {
        match self.level {
            None if self.start_empty => self.capacity(),
            None => 0,
            Some((level, measured)) if unit >= measured => level.saturating_sub(unit - measured),
            // The clock is behind the one that measured: at that time, less had drained.
            Some((level, measured)) => level + (measured - unit),
        }
    }

    fn capacity(&self) -> u128 {
        u128::from(self.burst) * self.cell
    }

    fn remaining(&self, level: u128) -> u64 {
        let room = self.capacity().saturating_sub(level) / self.cell;
        u64::try_from(room).expect("at most the burst")
    }
}

impl Oracle for Level {
    fn decide(&mut self, now: Tick, n: u64) -> Verdict {
        let unit = self.grid.begun(now);
        let before = self.at(unit);
        let after = before + u128::from(n) * self.cell;
        let admitted = n == 0 || (n <= self.burst && after <= self.capacity());
        let level = if admitted { after } else { before };
        if (admitted && n > 0) || (self.start_empty && self.level.is_none()) {
            self.level = Some((level, unit));
        }
        let retry_after = if admitted {
            Some(Duration::ZERO)
        } else if n > self.burst {
            None
        } else {
            Some(self.grid.until(now, unit + (after - self.capacity())))
        };
        Verdict {
            admitted,
            remaining: self.remaining(level),
            reset_after: self.grid.until(now, unit + level),
            retry_after,
            delay: Duration::ZERO,
        }
    }
}

/// The leaky bucket as a queue: a level, and the queue ahead of a request.
#[derive(Clone, Debug)]
pub struct Queue {
    bucket: Level,
    /// Cells that may be in the bucket before a request has to wait.
    immediate: u64,
}

impl Queue {
    pub(super) fn new(bucket: Level, immediate: u64) -> Self {
        Self { bucket, immediate }
    }
}

impl Oracle for Queue {
    fn decide(&mut self, now: Tick, n: u64) -> Verdict {
        let unit = self.bucket.grid.begun(now);
        let in_front = self.bucket.at(unit);
        let verdict = self.bucket.decide(now, n);
        if !verdict.admitted || n == 0 {
            return verdict;
        }
        // The request waits until it and the queue ahead of it are at most what may pass at once.
        // No request waits for itself.
        let own = u128::from(n) * self.bucket.cell;
        let at_once = u128::from(self.immediate.max(n)) * self.bucket.cell;
        let turn = unit + (in_front + own).saturating_sub(at_once);
        Verdict { delay: self.bucket.grid.until(now, turn), ..verdict }
    }
}

/// A warm-up as Guava explains it: permits stored while idle cost more the more are stored, and the
/// next request waits for the cost of a charge.
#[derive(Clone, Debug)]
pub struct Ramp {
    grid: Units,
    /// Units that a permit takes at the stable rate, and that it takes to store one.
    stable: u128,
    refill: u128,
    cold_factor: u128,
    burst: u64,
    max_wait: u128,
    /// Stored permits, in units of the time it takes to store them: the maximum, and the threshold
    /// above which they cost more.
    stored_max: u128,
    threshold: u128,
    stored: u128,
    /// The unit from which on the next request may go; `None` before the first charge.
    next_free: Option<u128>,
}

/// How a [`Ramp`] rises.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    /// Units that a permit takes at the stable rate.
    pub(super) stable: u64,
    /// How many times as many it takes when cold.
    pub(super) cold_factor: u64,
    /// Units from cold to the stable rate.
    pub(super) period: u64,
}

impl Ramp {
    pub(super) fn new(grid: (u64, u64), slope: Slope, burst: u64, max_wait: u64) -> Self {
        let Slope { stable, cold_factor, period } = slope;
        let (stable, period) = (u128::from(stable), u128::from(period));
        let cold_factor = u128::from(cold_factor);
        // 0.5 * period / stable permits lie below the threshold, and 2 * period / (stable + cold)
        // above it. Together they take the period to store. All divisions come out even.
        let refill = stable * 2 * (1 + cold_factor) / (5 + cold_factor);
        let threshold = period * refill / (2 * stable);
        Self {
            grid: Units::of(grid),
            stable,
            refill,
            cold_factor,
            burst,
            max_wait: max_wait.into(),
            stored_max: period,
            threshold,
            stored: period,
            next_free: None,
        }
    }

    /// The units that `take` (in units of refill time) of the stored permits cost, and what is
    /// left.
    ///
    /// The interval is `stable` up to the threshold and rises evenly to `cold_factor * stable`
    /// at the most. The time is the area below that line, with one rounding, at the end.
    fn take(&self, stored: u128, take: u128) -> (u128, u128) {
        let left = stored.saturating_sub(take);
        let slope_end = self.stored_max - self.threshold;
        let [above, above_left] = [stored, left].map(|level| level.saturating_sub(self.threshold));
        let taken_above = above - above_left;
        // Both ends of the trapezoid's slanted side, in shares of `stable / slope_end`.
        let [height, height_left] =
            [above, above_left].map(|level| slope_end + (self.cold_factor - 1) * level);
        let trapezoid = taken_above * (height + height_left);
        let level_part = (take - taken_above) * 2 * slope_end;
        let time = (trapezoid + level_part) * self.stable;
        (time.div_ceil(2 * slope_end * self.refill), left)
    }
}

impl Oracle for Ramp {
    fn decide(&mut self, now: Tick, n: u64) -> Verdict {
        let unit = self.grid.begun(now);
        let before = self.next_free.unwrap_or(unit);
        let idle = unit.saturating_sub(before);
        let stored = self.stored_max.min(self.stored + idle);
        let turn = before.max(unit);
        let admitted = n == 0 || (n <= self.burst && turn - unit <= self.max_wait);
        let (mut left, mut next_free) = (stored, turn);
        if admitted && n > 0 {
            let (time, rest) = self.take(stored, u128::from(n) * self.refill);
            (left, next_free) = (rest, turn + time);
            (self.stored, self.next_free) = (left, Some(next_free));
        }
        let retry_after = if admitted {
            Some(Duration::ZERO)
        } else if n > self.burst {
            None
        } else {
            Some(self.grid.until(now, turn - self.max_wait))
        };
        Verdict {
            admitted,
            remaining: if next_free - unit <= self.max_wait { self.burst } else { 0 },
            reset_after: self.grid.until(now, next_free + (self.stored_max - left)),
            retry_after,
            delay: match admitted && n > 0 {
                true => self.grid.until(now, turn),
                false => Duration::ZERO,
            },
        }
    }
}

/// A fixed window: its beginning and its count.
#[derive(Clone, Debug)]
pub struct Window {
    grid: Units,
    length: u128,
    limit: u64,
    ahead_nanos: u64,
    open: Option<(u128, u64)>,
}

impl Window {
    pub(super) fn new(grid: (u64, u64), length: u64, limit: u64, ahead_nanos: u64) -> Self {
        Self { grid: Units::of(grid), length: length.into(), limit, ahead_nanos, open: None }
    }
}

impl Oracle for Window {
    fn decide(&mut self, now: Tick, n: u64) -> Verdict {
        let now = now.saturating_add(Duration::from_nanos(self.ahead_nanos));
        let unit = self.grid.begun(now);
        let open = self.open.filter(|(began, _)| unit < began + self.length);
        let (began, counted) = open.unwrap_or((unit, 0));
        let admitted = u128::from(counted) + u128::from(n) <= self.limit.into();
        let after = if admitted { counted + n } else { counted };
        if admitted && n > 0 {
            self.open = Some((began, after));
        }
        let window_end = self.grid.until(now, began + self.length);
        Verdict {
            admitted,
            remaining: self.limit - after,
            reset_after: if after == 0 { Duration::ZERO } else { window_end },
            retry_after: match admitted {
                true => Some(Duration::ZERO),
                false if n > self.limit => None,
                false => Some(window_end),
            },
            delay: Duration::ZERO,
        }
    }
}
