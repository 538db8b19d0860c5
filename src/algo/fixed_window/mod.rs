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
//! counted nothing yet: its end is only a stamp. A window that ends later than any that this clock
//! could have opened was opened by a clock ahead: it is kept and counted into, never reset.
//!
//! The largest count stands for itself and every larger one. It is always above the limit, and only
//! cells that have been spent already are charged up to it. No refund is taken from it, since the
//! count that saturated is not known.
//!
//! # Step
//!
//! `n` cells are admitted iff `counted + n <= limit`, in the window of `now`. An anchored window
//! opens with the first event after the last one ended and lasts one period. An aligned window
//! covers one period of the wall clock. A decision is made by parameters of one instant, which say how
//! far wall time is ahead of the clock, and for how many windows more the present one is held
//! ([`StateMachine::still`]; the head of `src/time/wall/mod.rs` says how).
//!
//! # Units
//!
//! A [compact](super::COMPACT_BITS) state has 37 bits for both fields, and thus a shorter ring.
//! Quotas for which that ring is less than a day, or tolerates less than ten seconds of clock skew,
//! have no compact state.
//!
//! Aligned: one period. Anchored: the period divided into a whole number of units. The unit is the
//! smallest (in steps of 1, 2, 5) that lets the ring outlast every [`Tick`], but a window has at
//! least 10,000 units (1,000 above 10^6 cells a second) if that leaves a nanosecond each.

mod refund;
mod wall_time;

use core::num::NonZeroU64;
use core::time::Duration;

use wall_time::WallTime;

use super::grid::Grid;
#[cfg(feature = "std")]
use super::oracle::Window;
use super::{
    Algorithm, COMPACT_BITS, Liveness, PAYLOAD_BITS, RefundVisitor, Ring, StateMachine, Step,
    sealed::Sealed,
};
use crate::decision::{Denied, NEVER, Permit, Reading};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;
#[cfg(feature = "std")]
use crate::time::{
    Clock,
    wall::{Placed, WallClock},
};
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
    /// - A restart forgets that a window is held. A [snapshot](crate::Limiter::snapshot) keeps what that window
    ///   has counted for the wall clock's window at the restart; the ones after it may be granted once more.
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
        // A window of more than 292 years counts from the clock's origin.
        let ahead_nanos = i64::try_from(into).unwrap_or(0);
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

/// The parameters of [`FixedWindow`] for a quota.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::{FixedWindow, Quota, Tick};
///
/// let params = FixedWindow::anchored().params(&Quota::per_second(2), 0)?;
/// assert!(params.answer(params.fresh(Tick::ZERO), Tick::ZERO, 3).is_err());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedWindowParams {
    grid: Grid,
    limit: NonZeroU64,
    /// Units in a window.
    length: u64,
    /// In which aligned windows begin on the grid's units.
    wall_time: WallTime,
    count: Field,
    end: Field,
    lease_cells: u64,
    /// Whole windows for which the present one is held, and has been, because the wall clock was set back.
    held: u64,
    held_for: u64,
    /// `None`: anchored, or as it is at one instant.
    #[cfg(feature = "std")]
    wall: Option<WallClock>,
}

/// A word, read at an instant.
struct View {
    /// The instant on the grid, aligned.
    now: Tick,
    floor: u64,
    /// Cells counted in the window that is open; 0 where none is.
    counted: u64,
    /// Units until the word's window ends; 0 where it has.
    ahead: u64,
}

impl FixedWindowParams {
    /// Whether windows are those of the wall clock.
    fn is_aligned(&self) -> bool {
        self.length == 1
    }

    #[inline(always)]
    fn aligned(&self, now: Tick) -> Tick {
        self.wall_time.at(now)
    }

    #[inline(always)]
    fn view(&self, word: u64, now: Tick) -> View {
        let now = self.aligned(now);
        let floor = self.grid.floor(now);
        let ahead = self.grid.ahead(self.end.of(word), floor);
        let counted = if ahead > 0 { self.count.lowest_of(word) } else { 0 };
        View { now, floor, counted, ahead }
    }

    /// Units until the end of the window that a charge is counted in. A window that has counted
    /// nothing opens now, but ends no earlier than its stamp says.
    #[inline(always)]
    fn ahead_after(&self, view: &View) -> u64 {
        if view.counted > 0 { view.ahead } else { view.ahead.max(self.length) }
    }

    #[inline(always)]
    fn reading(&self, view: &View, counted: u64, ahead: u64) -> Reading {
        Reading {
            limit: self.limit.get(),
            room: self.limit.get().saturating_sub(counted),
            cell: NonZeroU64::MIN,
            until_idle: if counted == 0 { 0 } else { ahead + self.held },
            scale: self.grid.scale(view.now, view.floor),
        }
    }
}

impl Sealed for FixedWindowParams {}

impl StateMachine for FixedWindowParams {
    #[cfg(feature = "std")]
    type Oracle = Window;
    type View = u64;
    const MAY_BE_COMPACT: bool = true;

    #[cfg(feature = "std")]
    #[inline(always)]
    fn is_still(&self) -> bool {
        self.wall.is_none()
    }

    #[cfg(feature = "std")]
    #[inline(always)]
    fn as_built_at(&self, now: Tick, clock: &impl Clock) -> Option<Tick> {
        let Some(wall) = &self.wall else { return Some(now) };
        let Placed { ahead_nanos, held, .. } = wall.place(now, clock);
        if held > 0 {
            return None;
        }
        let stepped = ahead_nanos.wrapping_sub(self.wall_time.ahead_nanos());
        now.as_nanos().checked_add_signed(stepped).map(Tick::from_nanos)
    }

    #[cfg(feature = "std")]
    #[inline(always)]
    fn still_at(&self, now: impl FnOnce() -> Tick, clock: &impl Clock) -> Option<Self> {
        let Placed { ahead_nanos, held, held_for } = self.wall.as_ref()?.place(now(), clock);
        // So it can be added to any span of the grid.
        let held = held.min(u64::MAX >> 2);
        let wall_time = WallTime::ahead_by(ahead_nanos);
        Some(Self { wall_time, held, held_for, wall: None, ..*self })
    }

    #[cfg(feature = "std")]
    fn set_utc_offset_secs(&self, offset_secs: i32) -> bool {
        self.wall.as_ref().inspect(|wall| wall.set_offset_secs(offset_secs)).is_some()
    }

    fn lease_cells(&self) -> u64 {
        self.lease_cells
    }

    /// Until the window ends in which they are counted, or until the wall clock is read again, if the
    /// window is held.
    fn lease_life(&self, word: u64, now: Tick) -> Duration {
        let view = self.view(word, now);
        self.grid.scale(view.now, view.floor).span(view.ahead)
    }

    #[inline(always)]
    fn permit_ahead(&self, word: u64, now: Tick, left: u64) -> Permit {
        let view = self.view(word, now);
        let counted = view.counted.saturating_sub(left);
        Permit::new(self.reading(&view, counted, view.ahead))
    }

    #[inline(always)]
    fn dispatch_refund<V: RefundVisitor>(&self, visitor: V) -> Option<V::Out> {
        Some(visitor.visit(self))
    }

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.end.set(0, self.instant(now))
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, _: R, _: Tick, _: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn step(&self, word: u64, now: Tick, n: u64) -> Step {
        let view = self.view(word, now);
        if n == 0 {
            let next = self.end.set(self.count.of(word), self.end.of(word));
            return Step::Admit { next };
        }
        // The type says that the limit is not zero, so a request for one cell needs no comparison here.
        if n > self.limit.get() || view.counted > self.limit.get() - n {
            return Step::Deny;
        }
        let end = self.grid.later(view.floor, self.ahead_after(&view));
        let next = self.end.fill(view.counted + n, end);
        debug_assert_eq!(next >> PAYLOAD_BITS, 0, "the state fits the payload");
        Step::Admit { next }
    }

    #[inline(always)]
    fn permit(&self, word: u64, now: Tick, n: u64) -> Permit {
        let view = self.view(word, now);
        let counted = view.counted.saturating_add(n);
        Permit::new(self.reading(&view, counted, self.ahead_after(&view)))
    }

    #[inline(always)]
    fn denied(&self, word: u64, now: Tick, n: u64) -> Denied {
        let view = self.view(word, now);
        let wait = if n > self.limit.get() { NEVER } else { view.ahead + self.held };
        Denied::new(self.reading(&view, view.counted, view.ahead), wait)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.grid.floor(self.aligned(now))
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        let end = self.end.of(word);
        match (self.grid.ahead(end, instant), self.count.of(word)) {
            (0, _) => Liveness::Idle { units: self.grid.behind(end, instant) },
            (_, 0) => Liveness::Idle { units: 0 },
            (_, counted) => Liveness::Live { debt: counted },
        }
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let view = self.view(word, now);
        let wait = self.grid.until_behind_by(self.end.of(word), view.floor, skew);
        let wait = wait.saturating_add(self.held);
        Denied::new(self.reading(&view, self.limit.get(), view.ahead), wait)
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> Window {
        let ahead_nanos = self.wall_time.ahead_nanos().try_into().unwrap_or(0);
        Window::new(self.grid.ratio(), self.length, self.limit.get(), ahead_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::PerKey;
    use crate::word::tile;
    use proptest::prelude::*;

    fn params(window: FixedWindow, quota: &str, origin: u64) -> FixedWindowParams {
        let quota = quota.parse().expect("a quota");
        window.params(&quota, origin).expect("in range")
    }

    #[test]
    fn ordinary_windows_are_endless_or_tolerate_an_hour_of_skew() {
        for (text, endless) in
            [("20/min", true), ("1000/h", true), ("5/day", true), ("100/s", false)]
        {
            let grid = params(FixedWindow::anchored(), text, 0).grid;
            assert_eq!(grid.ring().is_none(), endless, "{text}");
            if let Some(tolerance) = grid.skew_tolerance() {
                assert!(tolerance.as_secs() >= 3_600, "{text}: {tolerance:?}");
            }
        }
    }

    #[test]
    fn windows_of_minutes_have_compact_states_if_the_count_leaves_room() {
        for (quota, anchored, aligned) in [
            ("20/min", true, true),
            ("1000/h", true, true),
            ("5/day", true, true),
            ("1000/min", true, true),
            ("20/s", true, true),
            ("1000/s", false, true),
            ("100000/min", false, true),
            ("100000000/day", false, true),
        ] {
            let quota: Quota = quota.parse().expect("a quota");
            let compact = |window: FixedWindow| window.compact_params(&quota, 0).expect("in range");
            assert_eq!(compact(FixedWindow::anchored()).is_some(), anchored, "{quota}");
            assert_eq!(compact(FixedWindow::aligned()).is_some(), aligned, "{quota}");
        }
    }

    #[test]
    fn a_compact_window_is_told_apart_for_a_day_and_by_clocks_ten_seconds_apart() {
        let (mut narrow, mut none) = (0, 0);
        for (digit, decade, nanos) in (0..12).flat_map(|decade| {
            let nanos = (3..20).map(move |power| 10_u64.pow(power));
            nanos.flat_map(move |nanos| [1, 2, 5].map(|digit| (digit, decade, nanos)))
        }) {
            let quota = Quota::new(digit * 10_u64.pow(decade), Duration::from_nanos(nanos));
            let Ok(compact) = FixedWindow::anchored().compact_params(&quota, 0) else { continue };
            let at_least = |span: Option<Duration>, least| span.is_none_or(|span| span >= least);
            let Some(FixedWindowParams { grid, .. }) = compact else {
                none += 1;
                continue;
            };
            narrow += 1;
            let (horizon, tolerance) = (grid.horizon(), grid.skew_tolerance());
            assert!(at_least(horizon, Duration::from_secs(86_400)), "{quota}: {horizon:?}");
            assert!(at_least(tolerance, Duration::from_secs(10)), "{quota}: {tolerance:?}");
        }
        assert!(narrow > 20 && none > 20, "{narrow} and {none}");
    }

    #[test]
    fn a_plan_of_the_same_window_has_its_own_limit_and_nothing_else() {
        // Ten units in 1,001 nanoseconds.
        let window = |limit| Quota::new(limit, Duration::from_nanos(1_001_000));
        let params = FixedWindow::anchored().params(&window(5), 0).expect("in range");
        assert_eq!(params.grid.ratio(), (10, 1_001));
        let plan = params.with_quota(&window(3));
        assert_eq!(plan, Ok(FixedWindowParams { limit: NonZeroU64::new(3).unwrap(), ..params }));
    }

    #[test]
    fn a_refund_by_a_late_clock_keeps_what_an_early_clock_still_counts() {
        use crate::algo::{Receipt, Refund};
        let params = params(FixedWindow::anchored(), "5/min", 0);
        let opened = Tick::from_nanos(1_000_000_000_000);
        let Step::Admit { next } = params.step(params.fresh(opened), opened, 3) else {
            panic!("three of five are free")
        };
        let receipt = Receipt { cells: 3, at: opened, next };
        let late = opened.saturating_add(Duration::from_secs(90));
        assert_eq!(params.refund(next, &receipt, late, 3), next, "its window is over by then");
        let inside = opened.saturating_add(Duration::from_secs(30));
        let refunded = params.refund(next, &receipt, inside, 3);
        let left = |word| params.permit(word, opened, 0).remaining();
        assert_eq!((left(next), left(refunded)), (2, 5));
    }

    #[test]
    fn weeks_begin_on_monday() {
        // 1970-01-05 was the first Monday.
        let params = params(FixedWindow::aligned(), "1/week", 0);
        let monday = Tick::from_nanos(4 * 24 * 3_600 * 1_000_000_000);
        let Step::Admit { next } = params.step(params.fresh(Tick::ZERO), Tick::ZERO, 1) else {
            panic!("the first event opens the window");
        };
        let before = monday.saturating_sub(core::time::Duration::from_nanos(1));
        assert_eq!(params.step(next, before, 1), Step::Deny);
        assert!(matches!(params.step(next, monday, 1), Step::Admit { .. }));
    }

    #[test]
    fn out_of_range_is_denied_when_built() {
        let big = Quota::per_day(1 << 30);
        let built = FixedWindow::anchored().params(&big, 0);
        assert_eq!(built, Err(QuotaError::WindowLimitTooLarge));
        for offset in [86_399, -86_399] {
            let window = FixedWindow::aligned().utc_offset_secs(offset);
            assert!(window.params(&Quota::per_day(1), 0).is_ok(), "{offset}");
        }
        for offset in [86_400, -86_400, i32::MIN, i32::MAX] {
            let window = FixedWindow::aligned().utc_offset_secs(offset);
            let built = window.params(&Quota::per_day(1), 0);
            assert_eq!(built, Err(QuotaError::UtcOffsetTooLarge));
        }
    }

    #[test]
    fn one_more_than_the_limit_can_be_counted() {
        for limit in [1, 3, 7, 1_023, 1_024, (1 << 30) - 1] {
            let params = FixedWindow::anchored().params(&Quota::per_day(limit), 0);
            let count = params.expect("as large as a limit may be").count;
            assert!(count.max() > limit && count.max() / 4 < limit, "{limit}");
        }
    }

    /// 50 bits of time and more are endless with units of 20 microseconds. Where a cell takes less
    /// than a thousandth of a microsecond, a thousand units do, else there are ten thousand.
    #[test]
    fn a_window_has_the_units_that_make_it_endless_or_the_documented_number() {
        for (text, length) in [
            ("1/s", 50_000),
            ("1/min", 3_000_000),
            ("20/min", 600_000),
            ("1000/s", 10_000),
            ("1000000/s", 10_000),
            ("1000001/s", 1_000),
        ] {
            assert_eq!(params(FixedWindow::anchored(), text, 0).length, length, "{text}");
        }
        assert_eq!(params(FixedWindow::aligned(), "1/min", 0).length, 1);
    }

    #[test]
    fn a_plan_has_a_window_of_whole_units_that_is_not_too_long() {
        let plan = |window, period| params(window, "1/min", 0).with_quota(&Quota::new(1, period));
        let anchored = |period| plan(FixedWindow::anchored(), period);
        // Units of 20 microseconds.
        let short = anchored(Duration::from_micros(20)).expect("a unit");
        assert_eq!(short.length, 1);
        assert_eq!(
            anchored(Duration::from_secs(120)).expect("no longer than may be").length,
            6_000_000
        );
        let too_long = Err(QuotaError::PlanTooLong);
        assert_eq!(anchored(Duration::from_micros(30)), too_long);
        // A ring that ends has room for the window it was made for, and no longer one.
        let fast = params(FixedWindow::anchored(), "1000000/s", 0);
        assert!(fast.with_quota(&Quota::per_second(9)).is_ok());
        assert_eq!(fast.with_quota(&Quota::new(9, Duration::from_secs(2))), too_long);
        let aligned = |period| plan(FixedWindow::aligned(), period);
        assert!(aligned(Duration::from_secs(60)).is_ok());
        assert_eq!(aligned(Duration::from_secs(120)), too_long, "a window is as long as it is");
    }

    #[test]
    fn aligned_windows_are_told_from_anchored_ones() {
        assert!(params(FixedWindow::aligned(), "20/min", 0).is_aligned());
        assert!(!params(FixedWindow::anchored(), "20/min", 0).is_aligned());
    }

    #[test]
    fn a_window_opened_by_a_clock_ahead_of_ours_is_kept() {
        for window in [FixedWindow::anchored(), FixedWindow::aligned()] {
            let params = params(window, "2/min", 0);
            let ahead = Tick::from_nanos(600 * 1_000_000_000);
            let Step::Admit { next } = params.step(params.fresh(ahead), ahead, 2) else {
                panic!("fresh");
            };
            assert_eq!(params.step(next, Tick::ZERO, 1), Step::Deny);
        }
    }

    proptest! {
        #[test]
        fn the_fields_tile_and_round_trip(limit in 1..=LIMIT_MAX, count: u64, end: u64) {
            let quota = Quota::per_day(limit);
            let params = FixedWindow::anchored().params(&quota, 0).expect("in range");
            prop_assert!(tile(&[params.count, params.end], PAYLOAD_BITS));
            prop_assert!(params.count.max() >= limit);
            let word = params.end.set(params.count.set(0, count), end);
            prop_assert_eq!(params.count.of(word), count & params.count.max());
            prop_assert_eq!(params.end.of(word), end & params.end.max());
        }

        /// For every quota, the fields are those of a compact state, and a window has at least a
        /// thousand units, or exactly one.
        #[test]
        fn a_compact_state_keeps_its_bounds_for_every_quota(
            limit_bits in 0_u32..20, period_bits in 30_u32..57, less: u64, aligned: bool,
        ) {
            let limit = (1 << limit_bits) + (less & ((1 << limit_bits) - 1));
            let period = (u64::MAX >> (64 - period_bits)) - (less >> (66 - period_bits));
            let quota = Quota::new(limit, Duration::from_nanos(period));
            let window = if aligned { FixedWindow::aligned() } else { FixedWindow::anchored() };
            let params = window.compact_params(&quota, 0);
            prop_assume!(matches!(params, Ok(Some(_))));
            let Ok(Some(params)) = params else { unreachable!() };
            prop_assert!(tile(&[params.count, params.end], COMPACT_BITS));
            prop_assert!(params.count.max() >= limit);
            prop_assert!(aligned && params.length == 1 || params.length >= 1_000);
            let least = |span: Option<Duration>| span.map_or(u64::MAX, |span| span.as_secs());
            prop_assert!(least(params.grid.skew_tolerance()) >= 10);
            prop_assert!(least(params.grid.horizon()) >= 86_400);
        }
    }
}
