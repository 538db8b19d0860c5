//! A window's decision, for a quota.

use core::num::NonZeroU64;
use core::time::Duration;

use super::wall_time::WallTime;
use crate::algo::grid::Grid;
#[cfg(feature = "std")]
use crate::algo::oracle::Window;
use crate::algo::sealed::Sealed;
use crate::algo::{Liveness, PAYLOAD_BITS, RefundVisitor, Ring, StateMachine, Step};
use crate::decision::{Denied, Measurements, NEVER, Permit};
use crate::time::Tick;
#[cfg(feature = "std")]
use crate::time::{
    Clock,
    wall::{WallClock, WallPosition},
};
use crate::word::Field;

/// The parameters of [`FixedWindow`](super::FixedWindow) for a quota.
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
    pub(super) grid: Grid,
    pub(super) limit: NonZeroU64,
    /// Units in a window.
    pub(super) length: u64,
    /// The offset to wall time, in which aligned windows begin on the grid's units.
    pub(super) wall_time: WallTime,
    pub(super) count: Field,
    pub(super) end: Field,
    pub(super) lease_cells: u64,
    /// Whole windows for which the present one is held, and has been, because the wall clock was set back.
    pub(super) held: u64,
    pub(super) held_for: u64,
    /// `None`: windows are anchored, or these are the parameters of one instant.
    #[cfg(feature = "std")]
    pub(super) wall: Option<WallClock>,
}

/// A word, read at an instant.
pub(super) struct View {
    /// The instant on the grid, aligned.
    pub(super) now: Tick,
    pub(super) floor: u64,
    /// Cells counted in the window that is open; 0 where none is.
    pub(super) counted: u64,
    /// Units until the word's window ends; 0 where it has.
    pub(super) ahead: u64,
}

impl FixedWindowParams {
    /// Whether windows are those of the wall clock.
    pub(super) fn is_aligned(&self) -> bool {
        self.length == 1
    }

    #[inline(always)]
    pub(super) fn aligned(&self, now: Tick) -> Tick {
        self.wall_time.at(now)
    }

    #[inline(always)]
    pub(super) fn view(&self, word: u64, now: Tick) -> View {
        let now = self.aligned(now);
        let floor = self.grid.floor(now);
        let ahead = self.grid.ahead(self.end.highest_of(word), floor);
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
    fn measured(&self, view: &View, counted: u64, ahead: u64) -> Measurements {
        Measurements {
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

    /// The end's field begins where the count's ends, so to compare one is to compare both. Windows that follow the
    /// wall clock follow the same readings of it.
    #[cfg(feature = "std")]
    #[inline(always)]
    fn reads_as(&self, other: &Self) -> bool {
        let one_clock = match (&self.wall, &other.wall) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is_same(other),
            _ => false,
        };
        one_clock && self.end == other.end && self.grid.counts_as(&other.grid)
    }

    #[cfg(feature = "std")]
    #[inline(always)]
    fn as_built_at(&self, now: Tick, clock: &impl Clock) -> Option<Tick> {
        let Some(wall) = &self.wall else { return Some(now) };
        let WallPosition { ahead_nanos, held, .. } = wall.place(now, clock);
        if held > 0 {
            return None;
        }
        let stepped = ahead_nanos.wrapping_sub(self.wall_time.ahead_nanos());
        now.as_nanos().checked_add_signed(stepped).map(Tick::from_nanos)
    }

    #[cfg(feature = "std")]
    #[inline(always)]
    fn still_at(&self, now: impl FnOnce() -> Tick, clock: &impl Clock) -> Option<Self> {
        let WallPosition { ahead_nanos, held, held_for } = self.wall.as_ref()?.place(now(), clock);
        // Within this bound, adding it to a span of the grid cannot overflow.
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
        Permit::new(self.measured(&view, counted, view.ahead))
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
            return Step::Admit { next: word };
        }
        // The type says that the limit is not zero, so a request for one cell needs no comparison here.
        if n > self.limit.get() || view.counted + n > self.limit.get() {
            return Step::Deny;
        }
        let next = match view.counted > 0 {
            // The window keeps its end, and the count is in the lowest bits.
            true => word + n,
            false => self.end.fill(n, self.grid.later(view.floor, self.ahead_after(&view))),
        };
        debug_assert_eq!(next >> PAYLOAD_BITS, 0, "the state fits the payload");
        Step::Admit { next }
    }

    #[inline(always)]
    fn permit(&self, word: u64, now: Tick, n: u64) -> Permit {
        let view = self.view(word, now);
        let counted = view.counted.saturating_add(n);
        Permit::new(self.measured(&view, counted, self.ahead_after(&view)))
    }

    #[inline(always)]
    fn denied(&self, word: u64, now: Tick, n: u64) -> Denied {
        let view = self.view(word, now);
        let wait = if n > self.limit.get() { NEVER } else { view.ahead + self.held };
        Denied::new(self.measured(&view, view.counted, view.ahead), wait)
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

    /// The debt counts cells.
    const DEBT_IS_TIME: bool = false;

    fn idle_in(&self, word: u64, instant: u64) -> u64 {
        match self.count.of(word) {
            0 => 0,
            _ => self.grid.ahead(self.end.of(word), instant),
        }
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let view = self.view(word, now);
        let wait = self.grid.wait_behind(skew, now, |then| {
            let units = self.idle_in(word, self.instant(then)).max(1);
            (self.aligned(then), units.saturating_add(self.held))
        });
        Denied::without_slot(self.measured(&view, self.limit.get(), view.ahead), wait)
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
