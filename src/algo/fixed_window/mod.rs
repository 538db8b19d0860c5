//! Fixed windows: a count that starts again at zero with every window.
//!
//! # Word
//!
//! ```text
//! bits 52..c  end of the window (exclusive), in units of the grid
//! bits c-1..0 cells counted in it; c is the number of bits that one more than the limit needs
//! ```
//!
//! A window that has ended counts nothing and means the same as no state. So does a window that has
//! counted nothing yet: its end is only a stamp. A window that ends later than this clock allows was opened by
//! a clock ahead. It is kept and counted into, never reset.
//!
//! A count saturates at its largest value, which is always above the limit. Only cells that have been
//! spent already are charged up to it. No refund is taken from a saturated count, since the true
//! count is not known.
//!
//! # Step
//!
//! `n` cells are admitted iff `counted + n <= limit`, in the window of `now`. An anchored window
//! opens with the first event after the last one ended and lasts one period. An aligned window
//! covers one period of the wall clock. A decision is made by parameters of one instant. They state how
//! far wall time is ahead of the clock, and for how many more windows the present one is held
//! ([`still`](super::StateMachine::still); the head of `src/time/wall/mod.rs` explains it).
//!
//! # Units
//!
//! A [compact](super::COMPACT_BITS) state has 37 bits for both fields, and thus a shorter ring.
//! Quotas for which that ring is less than a day, or tolerates less than ten seconds of clock skew,
//! have no compact state.
//!
//! Aligned: one period. Anchored: the period divided into a whole number of units. The unit is the
//! smallest (in steps of 1, 2, 5) that lets the ring outlast every [`Tick`](crate::time::Tick). But a window has
//! at least 10,000 units (1,000 above 10^6 cells a second), as long as each has a nanosecond.

mod params;
mod refund;
#[cfg(test)]
mod tests;
mod wall_time;

use core::num::NonZeroU64;
use core::time::Duration;

pub use params::FixedWindowParams;
use wall_time::WallTime;

use super::grid::Grid;
use super::{Algorithm, COMPACT_BITS, PAYLOAD_BITS, sealed::Sealed};
use crate::quota::{Quota, QuotaError};
#[cfg(feature = "std")]
use crate::time::wall::WallClock;
use crate::word::Field;

/// The largest limit: 31 bits of the word, so that one more fits, which leaves 22 for the time.
const LIMIT_MAX: u64 = (1 << 30) - 1;
/// The horizon that a compact state must cover.
const COMPACT_HORIZON_MIN: Duration = Duration::from_secs(24 * 3_600);
const COMPACT_TOLERANCE_MIN: Duration = Duration::from_secs(10);
const DAY_SECS: i32 = 24 * 3_600;
const WEEK_NANOS: u64 = 7 * 24 * 3_600 * 1_000_000_000;
/// The Unix epoch was a Thursday, three days into its week.
const EPOCH_INTO_WEEK_NANOS: u64 = 3 * 24 * 3_600 * 1_000_000_000;

/// At most `limit` cells per window of one period, then none until the next window.
///
/// **Guarantee.** No window grants more than `limit` cells, under any interleaving of threads.
///
/// **Not guaranteed.** Two windows meet at a boundary, so up to twice the limit can pass in a short
/// time around it. Use [`Gcra`](crate::Gcra) if that matters. The quota's burst is not used.
///
/// An [anchored](Self::anchored) window may end early, by less than the limiter's time unit. The unit is at most 1/10,000
/// of the period, or 1/1,000 above 10^6 cells a second. So twice the limit may pass in a span of one period less a unit.
///
/// A caller may be late: its `now` lies in a window, and another caller has already been counted in
/// the next one. The next window then decides and is charged, and the times in the late caller's
/// answer run from its `now` to the end of the next window. Cells that the earlier window had left
/// are lost.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, FixedWindow, Quota, Tick};
///
/// let gate = Direct::builder(Quota::per_minute(2)).algorithm(FixedWindow::anchored()).build()?;
/// assert_eq!(gate.ask().cells(2).at(Tick::ZERO).check()?.remaining(), 0);
/// let denied = gate.ask().at(Tick::from_nanos(50_000_000_000)).check().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    /// `None`: anchored. `Some`: aligned, with this UTC offset.
    utc_offset_secs: Option<i32>,
    lease_cells: u64,
}

impl FixedWindow {
    /// Windows that open with the first event after the last window ended.
    ///
    /// ```
    /// # use tollgate::{Direct, FixedWindow, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_second(1)).algorithm(FixedWindow::anchored()).build()?;
    /// assert!(gate.ask().at(Tick::from_nanos(900_000_000)).check().is_ok());
    /// assert!(gate.ask().at(Tick::from_nanos(1_100_000_000)).check().is_err());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn anchored() -> Self {
        Self { utc_offset_secs: None, lease_cells: 0 }
    }

    /// Windows aligned to the wall clock: full seconds, minutes, hours, days in UTC; weeks begin
    /// on Monday. Other periods count from the Unix epoch.
    ///
    /// The windows follow the wall clock, [`Clock::unix_now_nanos`](crate::Clock::unix_now_nanos). The
    /// thread that finds a window to have ended reads it, some hundred nanoseconds; no thread waits for it.
    ///
    /// **Guarantee**, whatever happens to the wall clock (it is set, slewed, or goes on while the machine
    /// is suspended):
    ///
    /// - Within a window nothing changes. When the window ends by the wall clock of its beginning, the
    ///   next one is that of the wall clock of now.
    /// - No window is granted twice. If the wall clock was set back, the window in force is held until
    ///   the wall clock reaches that window's end: for an hour, if it was set back by an hour, also where
    ///   windows are minutes. `retry_after` says so from the edge on.
    /// - If it was set forward, or the machine was suspended, windows are skipped.
    /// - Daylight saving changes no wall clock, which is UTC. Windows follow it by
    ///   [`set_utc_offset_secs`](crate::Limiter::set_utc_offset_secs), from the next edge on.
    /// - [`ManualClock::set_unix_nanos`](crate::ManualClock::set_unix_nanos) sets a wall clock for tests.
    ///
    /// **Not guaranteed.**
    ///
    /// - The window in which the wall clock is set lasts as long as before, so it may end at another
    ///   time of the day: after a suspension of ten hours, a day ends ten hours late. From then on,
    ///   windows begin with those of the wall clock.
    /// - Two decisions at the same edge, while the wall clock is being set, may read different times.
    ///   Each window is granted once nevertheless.
    /// - After a restart, no window is held any more. A [snapshot](crate::Limiter::snapshot) keeps the count of
    ///   the held window, as the count of the wall clock's window at the restart. The windows after that one may
    ///   be granted a second time.
    /// - If the process is forked while another thread begins a window, each decision in the child reads the wall clock
    ///   from the end of that window on, and windows are not held there. Make the limiter after the fork.
    /// - After a step forward, idle keys give up their slots at the edge, and not `max_clock_skew` after it.
    /// - An instant that the caller gives ahead of the limiter's clock is placed by the wall clock of now.
    /// - Without the feature `std`, the wall clock is read once, when the limiter is built.
    ///
    /// Local time is set by [`utc_offset_secs`](Self::utc_offset_secs), and changed while in use by
    /// [`Limiter::set_utc_offset_secs`](crate::Limiter::set_utc_offset_secs).
    ///
    /// ```
    /// # use tollgate::{Direct, FixedWindow, ManualClock, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_second(1))
    ///     .algorithm(FixedWindow::aligned())
    ///     .clock(ManualClock::new())
    ///     .build()?;
    /// assert!(gate.ask().at(Tick::from_nanos(900_000_000)).check().is_ok());
    /// assert!(gate.ask().at(Tick::from_nanos(999_999_999)).check().is_err());
    /// assert!(gate.ask().at(Tick::from_nanos(1_000_000_000)).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn aligned() -> Self {
        Self { utc_offset_secs: Some(0), lease_cells: 0 }
    }

    /// Aligns to local time, `seconds` east of Greenwich, so that "per day" means the local day.
    /// Anchored windows become aligned ones.
    ///
    /// ```
    /// # use tollgate::{Direct, FixedWindow, ManualClock, Quota, Tick};
    /// let in_delhi = FixedWindow::aligned().utc_offset_secs(5 * 3600 + 1800);
    /// let gate = Direct::builder(Quota::per_day(1))
    ///     .algorithm(in_delhi)
    ///     .clock(ManualClock::new()) // starts at the epoch, 05:30 there
    ///     .build()?;
    /// assert!(gate.ask().at(Tick::ZERO).check().is_ok());
    /// let denied = gate.ask().at(Tick::ZERO).check().unwrap_err();
    /// assert_eq!(denied.retry_after().unwrap().as_secs(), (24 * 60 - 330) * 60);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn utc_offset_secs(self, seconds: i32) -> Self {
        Self { utc_offset_secs: Some(seconds), ..self }
    }

    /// Allows leases of `cells` cells at a time, at most half of the limit: see
    /// [`LocalLease`](crate::lease::LocalLease) and
    /// [`Builder::lease_hot_keys`](crate::Builder::lease_hot_keys). They are counted when they
    /// are taken, and may be spent until that window ends.
    ///
    /// ```
    /// # use tollgate::{FixedWindow, Limiter, Quota};
    /// let gate: Limiter<str, FixedWindow> = Limiter::builder(Quota::per_minute(1_000_000))
    ///     .algorithm(FixedWindow::anchored().leases(64))
    ///     .lease_hot_keys()
    ///     .build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn leases(self, cells: u64) -> Self {
        Self { lease_cells: cells, ..self }
    }
}

impl Sealed for FixedWindow {}

impl Algorithm for FixedWindow {
    type Params = FixedWindowParams;

    fn params(&self, quota: &Quota, origin: u64) -> Result<FixedWindowParams, QuotaError> {
        let params = self.with_bits(quota, origin, PAYLOAD_BITS)?;
        Ok(params.expect("22 bits of time are enough for 10,000 units ahead"))
    }

    fn compact_params(
        &self,
        quota: &Quota,
        origin: u64,
    ) -> Result<Option<FixedWindowParams>, QuotaError> {
        let params = self.with_bits(quota, origin, COMPACT_BITS)?;
        // Cells are taken ahead from wide slots only.
        if self.lease_cells > 0 {
            return Ok(None);
        }
        let at_least = |span: Option<Duration>, least| span.is_none_or(|span| span >= least);
        Ok(params.filter(|FixedWindowParams { grid, .. }| {
            at_least(grid.horizon(), COMPACT_HORIZON_MIN)
                && at_least(grid.skew_tolerance(), COMPACT_TOLERANCE_MIN)
        }))
    }
}

impl FixedWindow {
    /// With a state of `bits` bits; `None` if they leave too few for the time.
    fn with_bits(
        self,
        quota: &Quota,
        origin: u64,
        bits: u32,
    ) -> Result<Option<FixedWindowParams>, QuotaError> {
        quota.validate()?;
        if quota.limit() > LIMIT_MAX {
            return Err(QuotaError::WindowLimitTooLarge);
        }
        if self.lease_cells > quota.limit() / 2 {
            return Err(QuotaError::LeaseCellsTooMany);
        }
        let count = Field::new(0, u64::BITS - (quota.limit() + 1).leading_zeros());
        let end = count.above(bits - count.bits());
        let period = quota.period_nanos();
        let (length, into) = match self.utc_offset_secs {
            Some(offset) => (1, into_window(period, origin, offset)?),
            None => (units_in_window(quota, end), 0),
        };
        if length > end.max() / 4 {
            return Ok(None);
        }
        let grid = Grid::new(length, period, end.max(), length);
        let limit = NonZeroU64::new(quota.limit()).ok_or(QuotaError::ZeroLimit)?;
        let ahead_nanos = i64::try_from(into).expect("a period is at most a century");
        Ok(Some(FixedWindowParams {
            grid,
            limit,
            length,
            wall_time: WallTime::ahead_by(ahead_nanos),
            count,
            end,
            lease_cells: self.lease_cells,
            held: 0,
            held_for: 0,
            #[cfg(feature = "std")]
            wall: self
                .utc_offset_secs
                .map(|offset| WallClock::new(period, ahead_nanos, origin, offset)),
        }))
    }
}

/// How far into its window the clock's origin lies, in nanoseconds.
pub(super) fn into_window(
    period: u64,
    unix_origin_nanos: u64,
    offset_secs: i32,
) -> Result<u64, QuotaError> {
    check_offset(offset_secs)?;
    let into_week = if period.is_multiple_of(WEEK_NANOS) { EPOCH_INTO_WEEK_NANOS } else { 0 };
    let local = i128::from(unix_origin_nanos)
        + i128::from(offset_secs) * 1_000_000_000
        + i128::from(into_week);
    let into = local.rem_euclid(i128::from(period));
    Ok(u64::try_from(into).expect("a remainder of a u64 is one"))
}

/// An offset from UTC is less than a day.
pub(crate) fn check_offset(offset_secs: i32) -> Result<(), QuotaError> {
    match offset_secs <= -DAY_SECS || offset_secs >= DAY_SECS {
        true => Err(QuotaError::UtcOffsetTooLarge),
        false => Ok(()),
    }
}

/// Units in an anchored window, chosen as the module says. The quota is valid.
fn units_in_window(quota: &Quota, end: Field) -> u64 {
    let period = quota.period_nanos();
    let fast = u128::from(quota.limit()) * 1_000 > u128::from(period);
    let least = if fast { 1_000 } else { 10_000 };
    // A quarter more than a tick's range over the ring's length, for what is written ahead.
    let endless_unit_nanos = ((1_u128 << 64) / (u128::from(end.max()) + 1)) * 5 / 4;
    let unit_nanos = (0..20)
        .flat_map(|decade| [1, 2, 5].map(|factor| factor * 10_u128.pow(decade)))
        .find(|nanos| *nanos >= endless_unit_nanos)
        .expect("5 * 10^19 is beyond every tick");
    u64::try_from(u128::from(period) / unit_nanos)
        .expect("at most the period")
        .max(least)
        .min(period)
}
