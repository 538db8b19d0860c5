//! Decisions at once: within the word's own sub-window, by the word and the count of the oldest.

use core::num::NonZeroU64;

use super::scan::View;
use super::{SubWindowParams, SubWindowView, Waits};
use crate::algo::Ring;
use crate::decision::{OutOfLine, Scale};
use crate::time::Tick;

/// A request within the word's own sub-window.
#[derive(Clone, Copy)]
pub(super) struct Current {
    /// The word's sub-window, and what counts in it.
    last: u64,
    total: u64,
    /// The cells asked for, and what may count before them.
    n: u64,
    before: u64,
    now: Tick,
    floor: u64,
}

impl Current {
    /// `None`: another sub-window is the current one, or no number of cells is asked for that can ever fit.
    #[inline(always)]
    pub(super) fn of(params: &SubWindowParams, word: u64, now: Tick, n: u64) -> Option<Self> {
        let (last, total) = (params.index.of(word), params.count.lowest_of(word));
        let before = params.limit.checked_sub(n)?;
        let floor = params.grid.floor(now);
        let is_current = params.grid.behind(last, floor) == 0;
        (is_current && n > 0).then_some(Self { last, total, n, before, now, floor })
    }
}

impl SubWindowParams {
    /// The decision where all sub-windows count whole. `None`: no decision has left the word.
    #[inline(always)]
    pub(super) fn evaluate_whole<R: Ring>(
        &self,
        current: Current,
        ring: impl FnOnce() -> R,
        brief: bool,
    ) -> Option<SubWindowView> {
        let Current { last, total, before, .. } = current;
        let view = self.view_of(current, total <= before);
        if view.admits || brief {
            return Some(view);
        }
        if total > self.total_max {
            return None;
        }
        let ring = ring();
        let excess = total - before;
        let wait = match (excess..=self.count.max()).contains(&self.oldest(ring, last)) {
            true => 1,
            // A key that spends its limit within one sub-window has no cell in the oldest.
            false => self.sub_windows_until_left(ring, last, self.older, excess),
        };
        let scale = self.grid.scale(current.now, current.floor);
        Some(SubWindowView { waits: Waits { idle: self.older + 1, wait, scale }, ..view })
    }

    /// The decision where the oldest weighs by its overlap. `None`: no decision has left the word and the ring.
    #[inline(always)]
    pub(super) fn evaluate_weighed<R: Ring>(
        &self,
        current: Current,
        ring: impl FnOnce() -> R,
        brief: bool,
    ) -> Option<SubWindowView> {
        let Current { last, total, before, .. } = current;
        if brief && total <= before {
            return Some(self.view_of(current, true));
        }
        if total > self.total_max {
            return None;
        }
        let ring = ring();
        let oldest = match self.oldest(ring, last) {
            count if count <= self.limit => count.min(total),
            count if count > self.count.max() => 0,
            _ => return None,
        };
        let scale = self.grid.scale(current.now, current.floor);
        let whole = total - oldest;
        let overlap = scale.nanos - scale.phase;
        let room = (before + 1).saturating_sub(whole);
        let admits =
            u128::from(oldest) * u128::from(overlap) < u128::from(room) * u128::from(scale.nanos);
        let waits = match admits || brief {
            true => Waits::NONE,
            false => match self.until_room(room, oldest, scale) {
                Some(waits) => waits,
                None => {
                    let place = self.place(last);
                    let Scale { phase, .. } = scale;
                    let floor = current.floor;
                    let view = View { ring, last, place, total, floor, ahead: 0, passed: 0, phase };
                    let OutOfLine(waits) =
                        self.weighed_waits(view, self.older + 1, total, current.n);
                    waits
                }
            },
        };
        Some(SubWindowView { whole, oldest, overlap, waits, ..self.view_of(current, admits) })
    }

    /// Until so little of the oldest count is left that it is less than `room`. `None`: not while it is the oldest.
    #[inline(always)]
    fn until_room(&self, room: u64, oldest: u64, scale: Scale) -> Option<Waits> {
        let Scale { units, nanos, phase } = scale;
        let passed = nanos.checked_mul(oldest.checked_sub(room)?)? / NonZeroU64::new(oldest)? + 1;
        let idle = (self.older + 1).checked_mul(nanos)? - phase;
        let scale = Scale { units, nanos: 1, phase: 0 };
        (passed < nanos).then(|| Waits { idle, wait: passed.saturating_sub(phase), scale })
    }

    /// The view where all counts are whole, without the waits of a denial.
    #[inline(always)]
    fn view_of(&self, current: Current, admits: bool) -> SubWindowView {
        let Current { last, total, n, .. } = current;
        SubWindowView {
            admits,
            next: if admits { self.index.fill(total + n, last) } else { 0 },
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
        ring.xor(
            self.place_before(self.place(last), self.older),
            self.index.fill(0, self.before(last, self.older)),
        )
    }
}
