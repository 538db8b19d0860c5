//! A sliding window of sub-windows: a count for each of the latest ones, and their sum.
//!
//! # Word and ring
//!
//! ```text
//! word  bits 52..c index of the latest sub-window charged | bits c-1..0 total of cells counted
//! ring  the same fields: index of an older sub-window | cells charged in it
//! ```
//!
//! The *total* is the number of cells charged in that sub-window and in the `older` ones before it. So a
//! decision within one sub-window needs only the word, and the oldest count if that is weighed.
//! `c` is the number of bits that the limit needs. The index of a sub-window determines the place
//! of its count in the ring. Another index at that place means that nothing was charged in it.
//!
//! # Step
//!
//! The current sub-window is that of `now`, or the word's if that is later. A sub-window more than
//! `older` before it no longer counts. `n` cells are admitted iff `estimate + n <= limit`.
//!
//! - [`SubWindows`]: `older` is one less than the number of sub-windows, and the estimate is the
//!   sum.
//! - [`SlidingCounter`](crate::SlidingCounter): the oldest of `older + 1` weighs only as much as
//!   the window still overlaps it, and the estimate is rounded down to whole cells.
//!
//! Before the word advances to a later sub-window, the count of the one that it leaves is published
//! to the ring: the total less the older counts.
//!
//! # Units
//!
//! A unit is one sub-window; they begin where the wall clock's do. In ordinary cases the index
//! outlasts every tick. If the limit takes bits from it, the index wraps around after a year or
//! more. A count that has stayed in the ring for exactly that time, to the sub-window, then counts once
//! more, and the sub-window before it counts for as much less. (Clearing such counts when the word
//! advances was tried; it made every admission half as expensive again.)
//!
//! Sources: the sub-windows are those of Sentinel's LeapArray and of the "sliding window" of
//! many gateways; the weighed form is Cloudflare's, after A. Xu, System Design Interview, ch. 4.

mod at_once;
mod build;
mod rebase;
mod scan;

pub use build::SubWindows;

use core::num::NonZeroU64;
use core::time::Duration;

use super::grid::Grid;
#[cfg(feature = "std")]
use super::oracle::SubWindowCounts;
use super::{Liveness, Ring, StateMachine, Step, sealed::Sealed};
use crate::decision::{DecisionParts, Denied, Measurements, Permit};
use crate::time::Tick;
use crate::word::Field;
use at_once::Current;
use scan::{Waits, remainder};

/// The parameters of [`SubWindows`] or [`SlidingCounter`](crate::SlidingCounter) for a quota. If they are
/// `WEIGHED`, the oldest sub-window counts by its overlap with the window; else it counts whole.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::{Quota, SubWindows};
///
/// let params = SubWindows::new().params(&Quota::per_minute(6), 0)?;
/// assert_eq!(params.ring_cells(), 6);
/// assert_eq!(params.grid().ratio(), (1, 10_000_000_000)); // a unit is a sub-window
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubWindowParams<const WEIGHED: bool> {
    grid: Grid,
    limit: NonZeroU64,
    /// The largest total.
    total_max: u64,
    /// Sub-windows before the current one that count.
    older: u64,
    /// The shares of a cell in which the remaining room is measured: those of the grid, if a word has room for those
    /// of all cells, and of all sub-windows; else 1.
    cell: NonZeroU64,
    /// Added to every instant, so that sub-windows begin where the wall clock's do; plus a period,
    /// so that sub-windows that count at the clock's origin have an index too.
    ahead_nanos: u64,
    count: Field,
    index: Field,
    cells: u32,
    /// 2^64 divided by the cells, rounded up.
    reciprocal: u64,
    lease_cells: u64,
}

/// The data of a decision.
#[derive(Clone, Copy, Debug)]
pub struct SubWindowView {
    admits: bool,
    /// The word with the cells charged, if they are admitted.
    next: u64,
    /// The cell to publish before the word advances; its place is that of its index. 0: none.
    published: u64,
    /// Cells that count whole, before the charge.
    whole: u64,
    /// Cells of the oldest sub-window, if that is weighed; and how much of one sub-window the
    /// window still overlaps it, in shares of the grid.
    oldest: u64,
    overlap: u64,
    /// Units until nothing counts any more, if the cells are charged.
    until_idle: u64,
    /// For a denial, or a request for 0 cells.
    waits: Waits,
}

impl<const WEIGHED: bool> SubWindowParams<WEIGHED> {
    #[inline(always)]
    fn aligned(&self, now: Tick) -> Tick {
        Tick::from_nanos(now.as_nanos().saturating_add(self.ahead_nanos))
    }

    #[inline(always)]
    fn place(&self, index: u64) -> usize {
        remainder(index, self.cells, self.reciprocal)
    }

    /// The room that is left after `n` more cells, and the parts of a cell in which it is measured. They are
    /// shares of a sub-window, so that only a caller that asks for whole cells divides.
    #[inline(always)]
    fn room(&self, view: &SubWindowView, n: u64) -> (u64, NonZeroU64) {
        let SubWindowView { whole, oldest, overlap, .. } = *view;
        let left = self.limit.get().saturating_sub(n.saturating_add(whole));
        if WEIGHED && self.cell == NonZeroU64::MIN {
            return (left.saturating_sub(self.weigh(oldest, overlap)), self.cell);
        }
        // The estimate is rounded down, so what is left is rounded up.
        let room = (left + 1) * self.cell.get() - 1;
        (room.saturating_sub(oldest * overlap), self.cell)
    }

    /// Evaluates a request. `detailed` asks for the waits as well.
    #[inline(always)]
    fn evaluate<R: Ring>(
        &self,
        word: u64,
        ring: R,
        now: Tick,
        n: u64,
        detailed: bool,
    ) -> SubWindowView {
        let now = self.aligned(now);
        let view = self.view(word, ring, now);
        let (counted, published) =
            if view.passed == 0 { (view.total, 0) } else { self.advanced(view) };
        let current = self.grid.later(view.last, view.passed) & self.index.max();
        let nanos = self.grid.ratio().1;
        let oldest = match WEIGHED && counted > 0 {
            true if view.passed == 0 => self.older_count(&self.placed(view), self.older),
            true => self.count_from_oldest(&self.placed(view), 0),
            false => 0,
        };
        // For a clock behind the word's sub-window, that sub-window has just begun.
        let overlap = if view.ahead > 0 { nanos } else { nanos - view.phase };
        // It is part of what counts, except in a word that no decision can have left.
        let oldest = oldest.min(counted);
        let whole = counted - oldest;
        let admits = n == 0 || self.fits(whole, oldest, overlap, n);
        let waits = match (admits && n > 0) || !detailed {
            true => Waits::NONE,
            false => self.waits(view, now, counted, n),
        };
        SubWindowView {
            admits,
            next: match admits {
                true if n == 0 => word,
                true => self.index.set(self.count.set(0, counted.saturating_add(n)), current),
                false => 0,
            },
            published,
            whole,
            oldest,
            overlap,
            until_idle: view.ahead + self.older + 1,
            waits,
        }
    }
}

impl<const WEIGHED: bool> Sealed for SubWindowParams<WEIGHED> {}

impl<const WEIGHED: bool> StateMachine for SubWindowParams<WEIGHED> {
    #[cfg(feature = "std")]
    type Oracle = SubWindowCounts;
    type View = SubWindowView;
    const RINGED: bool = true;

    fn ring_cells(&self) -> usize {
        self.cells as usize
    }

    fn lease_cells(&self) -> u64 {
        self.lease_cells
    }

    /// Until the sub-window ends in which they are counted.
    fn lease_life(&self, word: u64, now: Tick) -> Duration {
        let now = self.aligned(now);
        let floor = self.grid.floor(now);
        let ahead = self.grid.ahead(self.index.of(word), floor);
        self.grid.scale(now, floor).span(ahead + 1)
    }

    /// Cells of the oldest sub-window count whole here, also where they are weighed.
    #[inline(always)]
    fn permit_ahead(&self, word: u64, now: Tick, left: u64) -> Permit {
        let now = self.aligned(now);
        let floor = self.grid.floor(now);
        let counted = self.count.of(word).saturating_sub(left);
        let ahead = self.grid.ahead(self.index.of(word), floor);
        Permit::new(Measurements {
            limit: self.limit.get(),
            room: self.limit.get().saturating_sub(counted),
            cell: NonZeroU64::MIN,
            until_idle: if counted == 0 { 0 } else { ahead + self.older + 1 },
            scale: self.grid.scale(now, floor),
        })
    }

    fn cells_to_clear(&self) -> usize {
        self.ring_cells()
    }

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.index.set(0, self.instant(now))
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> SubWindowView {
        self.evaluate(word, ring, now, n, true)
    }

    #[inline(always)]
    fn read_brief<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> SubWindowView {
        self.evaluate(word, ring, now, n, false)
    }

    /// Within the word's own sub-window, whose total the word has.
    #[inline(always)]
    fn read_at_once<R: Ring>(
        &self,
        word: u64,
        ring: impl FnOnce() -> R,
        now: Tick,
        n: u64,
        brief: bool,
    ) -> Option<SubWindowView> {
        // The few instants that an aligned one cannot express are decided out of line.
        let now = Tick::from_nanos(now.as_nanos().checked_add(self.ahead_nanos)?);
        let current = Current::of(self, word, now, n)?;
        match WEIGHED {
            true => self.evaluate_weighed(current, ring, brief),
            false => Some(self.evaluate_whole(current, ring, brief)),
        }
    }

    #[inline(always)]
    fn step(&self, view: SubWindowView, _: Tick, _: u64) -> Step {
        if view.admits { Step::Admit { next: view.next } } else { Step::Deny }
    }

    #[inline(always)]
    fn publish<R: Ring>(
        &self,
        view: SubWindowView,
        _: R,
        mut write: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        view.published == 0 || write(self.place(self.index.of(view.published)), view.published)
    }

    #[inline(always)]
    fn permit(&self, view: SubWindowView, now: Tick, n: u64) -> Permit {
        let now = self.aligned(now);
        let scale = self.grid.scale(now, self.grid.floor(now));
        let (until_idle, scale) =
            if n == 0 { (view.waits.idle, view.waits.scale) } else { (view.until_idle, scale) };
        let (room, cell) = self.room(&view, n);
        Permit::new(Measurements { limit: self.limit.get(), room, cell, until_idle, scale })
    }

    #[inline(always)]
    fn denied(&self, view: SubWindowView, _: Tick, _: u64) -> Denied {
        let (room, cell) = self.room(&view, 0);
        let measured = Measurements {
            limit: self.limit.get(),
            room,
            cell,
            until_idle: view.waits.idle,
            scale: view.waits.scale,
        };
        Denied::new(measured, view.waits.wait)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.grid.floor(self.aligned(now))
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        let (last, total) = (self.index.of(word), self.count.of(word));
        let (ahead, passed) = self.distance(last, instant);
        if total == 0 {
            Liveness::Idle { units: passed }
        } else if passed > self.older {
            Liveness::Idle { units: passed - self.older }
        } else {
            // The larger the count and the longer it stays, the larger the debt.
            Liveness::Live { debt: total.saturating_mul(ahead + self.older + 1 - passed) }
        }
    }

    /// The debt counts cells, too.
    const DEBT_IS_TIME: bool = false;

    fn idle_in(&self, word: u64, instant: u64) -> u64 {
        let (ahead, passed) = self.distance(self.index.of(word), instant);
        match self.count.of(word) {
            0 => 0,
            _ => (ahead + self.older + 1).saturating_sub(passed),
        }
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let wait = self.grid.wait_behind(skew, now, |then| {
            (self.aligned(then), self.idle_in(word, self.instant(then)))
        });
        DecisionParts { limit: self.limit.get(), remaining: 0, reset_after: wait }
            .denied(Some(wait))
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> SubWindowCounts {
        let Self { limit, older, ahead_nanos, .. } = *self;
        SubWindowCounts::new(self.grid.ratio(), ahead_nanos, limit.get(), older, WEIGHED)
    }
}

#[cfg(test)]
mod tests;
