//! Naive exact models of the algorithms, for tests, fuzzing and `tollgate replay --verify`.
//!
//! They are written the way the algorithms are explained, not the way they are computed: the
//! token bucket as a level that drains, the window as a start and a count, sub-windows as counts
//! by their number, the log as a list, instants by plain 128-bit division. So a mistake in the
//! packed arithmetic cannot be shared. They are slow, and they know one key and one thread.
//!
//! An oracle sees the same time units as its algorithm (an instant counts as the beginning of
//! its unit), and never wraps around: it is the limit's word on what a clock may do, too.

mod any;
#[cfg(test)]
mod brute;
mod sliding_log;
mod sub_windows;

pub use {any::AnyOracle, sliding_log::EventLog, sub_windows::SubWindowCounts};

use core::time::Duration;

use crate::decision::Decision;
use crate::time::Tick;

/// What an oracle, or a limiter, says of a request.
///
/// ```
/// use tollgate::algo::Machine;
/// use tollgate::algo::oracle::{Oracle, Verdict};
/// use tollgate::{Direct, Quota, Tick};
///
/// let gate = Direct::new(Quota::per_second(3))?;
/// let mut oracle = gate.params().oracle();
/// for nanos in [0, 0, 100_000_000, 0, 5_000_000_000] {
///     let now = Tick::from_nanos(nanos);
///     assert_eq!(Verdict::from(&gate.check_at(1, now)), oracle.decide(now, 1));
/// }
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may go ahead.
    pub admitted: bool,
    /// Whole cells that could be spent next.
    pub remaining: u64,
    /// Until the key is as if never used.
    pub reset_after: Duration,
    /// Until the same request would be admitted; zero if it was, `None` if it never would be.
    pub retry_after: Option<Duration>,
}

impl From<&Decision> for Verdict {
    fn from(decision: &Decision) -> Self {
        match decision {
            Ok(permit) => Self {
                admitted: true,
                remaining: permit.remaining(),
                reset_after: permit.reset_after(),
                retry_after: Some(Duration::ZERO),
            },
            Err(denied) => Self {
                admitted: false,
                remaining: denied.remaining(),
                reset_after: denied.reset_after(),
                retry_after: denied.retry_after(),
            },
        }
    }
}

/// A model of one key.
pub trait Oracle: Clone {
    /// Decides about `n` cells, and charges them if it admits.
    fn decide(&mut self, now: Tick, n: u64) -> Verdict;
}

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

/// The token bucket as a leaky level: what was poured in and has not yet drained.
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
    pub(crate) fn new(grid: (u64, u64), cell: u64, burst: u64, start_empty: bool) -> Self {
        Self { grid: Units::of(grid), cell: cell.into(), burst, start_empty, level: None }
    }

    fn at(&self, unit: u128) -> u128 {
        match self.level {
            None if self.start_empty => self.capacity(),
            None => 0,
            Some((level, measured)) if unit >= measured => level.saturating_sub(unit - measured),
            // A clock behind the one that measured: there was yet more to drain.
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
        }
    }
}

/// A fixed window: when it began, and what it has counted.
#[derive(Clone, Debug)]
pub struct Window {
    grid: Units,
    length: u128,
    limit: u64,
    ahead_nanos: u64,
    open: Option<(u128, u64)>,
}

impl Window {
    pub(crate) fn new(grid: (u64, u64), length: u64, limit: u64, ahead_nanos: u64) -> Self {
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
        }
    }
}
