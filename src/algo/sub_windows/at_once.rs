//! Decisions within the word's own sub-window, from the word and the count of the oldest sub-window alone.

use core::num::NonZeroU64;

use super::scan::shares_until_less;
use super::{SubWindowParams, SubWindowView, Waits};
use crate::algo::Ring;
use crate::decision::{OutOfLine, Scale};
use crate::time::Tick;

/// A request within the word's own sub-window.
#[derive(Clone, Copy)]
pub(super) struct Current {
    word: u64,
    /// Its sub-window, and the cells that count in it.
    last: u64,
    total: u64,
    /// The cells asked for: at least one, and at most the limit.
    n: u64,
    now: Tick,
    floor: u64,
}

impl Current {
    /// `None`: another sub-window is the current one, or `n` is 0 or above the limit.
    #[inline(always)]
    pub(super) fn of<const WEIGHED: bool>(
        params: &SubWindowParams<WEIGHED>,
        word: u64,
        now: Tick,
        n: u64,
    ) -> Option<Self> {
        let (last, total) = (params.index.highest_of(word), params.count.lowest_of(word));
        if n == 0 || n > params.limit.get() {
            return None;
        }
        let floor = params.grid.floor(now);
        let is_current = params.grid.behind(last, floor) == 0;
        is_current.then_some(Self { word, last, total, n, now, floor })
    }
}

/// The weighed oldest count, beside the room for it.
enum Weight {
    /// It leaves room for the cells asked for.
    Fits,
    /// It will while it is the oldest.
    Leaves,
    /// It will not, or nothing is said about it.
    Stays,
}

impl<const WEIGHED: bool> SubWindowParams<WEIGHED> {
    /// The decision where all sub-windows count whole.
    #[inline(always)]
    pub(super) fn evaluate_whole<R: Ring>(
        &self,
        current: Current,
        ring: impl FnOnce() -> R,
        brief: bool,
    ) -> SubWindowView {
        let Current { word, last, total, n, .. } = current;
        let before = self.limit.get() - n;
        let view = self.view_of(current, total <= before);
        if view.admits || brief {
            return view;
        }
        let ring = ring();
        let wait = match (total - before..=self.count.max()).contains(&self.oldest(ring, last)) {
            true => 1,
            // A key that spends its limit within one sub-window has no cell in the oldest.
            false => {
                let (cells, life) = ring.parts();
                self.until_later_left::<R>(cells, life, word, n)
            }
        };
        let scale = self.grid.scale(current.now, current.floor);
        SubWindowView { waits: Waits { idle: self.older + 1, wait, scale }, ..view }
    }

    /// Sub-windows until `n` cells fit, if more than the oldest has to leave.
    ///
    /// It takes what the caller has in registers, and works the rest out again.
    #[inline(never)]
    fn until_later_left<R: Ring>(&self, cells: R::Cells, life: u64, word: u64, n: u64) -> u64 {
        let last = self.index.highest_of(word);
        let total = self.count.lowest_of(word).min(self.total_max);
        let excess = total + n - self.limit.get();
        self.sub_windows_until_left::<R>(cells, life, last, self.older, excess)
    }

    /// The decision where the oldest weighs by its overlap. `None` for a word and a ring that no decision can have
    /// left.
    #[inline(always)]
    pub(super) fn evaluate_weighed<R: Ring>(
        &self,
        current: Current,
        ring: impl FnOnce() -> R,
        brief: bool,
    ) -> Option<SubWindowView> {
        let Current { last, total, n, .. } = current;
        let (limit, with_them) = (self.limit.get(), total + n);
        if brief && with_them <= limit {
            return Some(self.view_of(current, true));
        }
        let ring = ring();
        let oldest = match self.oldest(ring, last) {
            count if count <= limit => count,
            count if count > self.count.max() => 0,
            _ => return None,
        };
        if oldest > total {
            return None;
        }
        let whole = total - oldest;
        let scale = self.grid.scale(current.now, current.floor);
        let overlap = scale.nanos - scale.phase;
        let view =
            |admits| SubWindowView { whole, oldest, overlap, ..self.view_of(current, admits) };
        // There is room even with the oldest counted whole.
        if with_them <= limit {
            return Some(view(true));
        }
        let room = (limit - n + 1).saturating_sub(whole);
        let weight = self.weight_of(room, oldest, scale, overlap);
        if let Weight::Fits = weight {
            return Some(view(true));
        }
        let waits = if brief {
            Waits::NONE
        } else if let Weight::Leaves = weight {
            let Scale { units, nanos, phase } = scale;
            let wait = shares_until_less(oldest, room, nanos).saturating_sub(phase);
            let idle = (self.older + 1) * nanos - phase;
            Waits { idle, wait, scale: Scale { units, nanos: 1, phase: 0 } }
        } else {
            let Current { word, now, .. } = current;
            let (cells, life) = ring.parts();
            let OutOfLine(waits) = self.until_later_room::<R>(cells, life, word, now, n);
            waits
        };
        Some(SubWindowView { waits, ..view(false) })
    }

    /// How the weighed oldest count compares with the `room` for it.
    #[inline(always)]
    fn weight_of(&self, room: u64, oldest: u64, scale: Scale, overlap: u64) -> Weight {
        // In the last share of its sub-window the oldest weighs `oldest` shares of a cell.
        if self.cell > NonZeroU64::MIN {
            let room = room * scale.nanos;
            return match () {
                () if oldest * overlap < room => Weight::Fits,
                () if oldest < room => Weight::Leaves,
                () => Weight::Stays,
            };
        }
        let room = u128::from(room) * u128::from(scale.nanos);
        let idle_fits = (self.older + 1).checked_mul(scale.nanos).is_some();
        match () {
            () if u128::from(oldest) * u128::from(overlap) < room => Weight::Fits,
            () if u128::from(oldest) < room && idle_fits => Weight::Leaves,
            () => Weight::Stays,
        }
    }

    /// The waits if more than the oldest sub-window has to leave.
    #[inline(never)]
    fn until_later_room<R: Ring>(
        &self,
        cells: R::Cells,
        life: u64,
        word: u64,
        now: Tick,
        n: u64,
    ) -> OutOfLine<Waits> {
        let view = self.view(word, R::of_parts(cells, life), now);
        self.weighed_waits(view, self.older + 1, view.total, n)
    }

    /// The view where all counts are whole, without the waits of a denial.
    #[inline(always)]
    fn view_of(&self, current: Current, admits: bool) -> SubWindowView {
        let Current { word, total, n, .. } = current;
        debug_assert!(!admits || total + n <= self.count.max());
        SubWindowView {
            admits,
            // The count is in the lowest bits.
            next: if admits { word + n } else { 0 },
            published: 0,
            whole: total,
            oldest: 0,
            overlap: 0,
            until_idle: self.older + 1,
            waits: Waits::NONE,
        }
    }

    /// The count of the oldest sub-window that counts, for a word in the current one; more than any count if
    /// the ring has none.
    #[inline(always)]
    fn oldest<R: Ring>(&self, ring: R, last: u64) -> u64 {
        // The current index is at least `older`, since `ahead_nanos` includes a period; and where indexes wrap
        // around, the places do so with them.
        let index = self.before(last, self.older);
        let place = self.place(index);
        debug_assert_eq!(place, self.place_before(self.place(last), self.older));
        ring.xor(place, self.index.fill(0, index))
    }
}
