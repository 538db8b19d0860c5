//! The cells that count at an instant, and the time until there is room, from the word and scans of its ring.

use core::num::NonZeroU64;

use super::SubWindowParams;
use crate::algo::Ring;
use crate::decision::{NEVER, OutOfLine, Scale};
use crate::time::Tick;

/// The units until nothing counts any more (`idle`), and until the cells fit (`wait`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) idle: u64,
    pub(super) wait: u64,
    pub(super) scale: Scale,
}

impl Waits {
    pub(super) const NONE: Self = Self { idle: 0, wait: 0, scale: Scale::NANOS };
}

/// A word read at an instant.
#[derive(Clone, Copy)]
pub(super) struct View<R> {
    pub(super) ring: R,
    /// The word's sub-window.
    pub(super) last: u64,
    /// Its place, once computed: that takes a division.
    pub(super) place: usize,
    /// The cells that count in it.
    pub(super) total: u64,
    pub(super) floor: u64,
    /// Units from the sub-window of `now` to the current one: 0, unless the clock is behind.
    pub(super) ahead: u64,
    /// Units from the word's to the current one.
    pub(super) passed: u64,
    /// Shares of its unit that have passed at `now`, where the oldest is weighed.
    pub(super) phase: u64,
}

impl<const WEIGHED: bool> SubWindowParams<WEIGHED> {
    #[inline(always)]
    pub(super) fn view<R: Ring>(&self, word: u64, ring: R, now: Tick) -> View<R> {
        let floor = self.grid.floor(now);
        let last = self.index.highest_of(word);
        let (ahead, passed) = self.distance(last, floor);
        let phase = if WEIGHED { self.grid.scale(now, floor).phase } else { 0 };
        // No valid state counts more; an arbitrary word may, and its excess must not overflow the
        // field.
        let total = self.count.lowest_of(word).min(self.total_max);
        View { ring, last, place: 0, total, floor, ahead, passed, phase }
    }

    /// Sub-windows from that of `now` to the word's, if that is ahead; and from the word's to that
    /// of `now`, if it is behind.
    #[inline(always)]
    pub(super) fn distance(&self, last: u64, floor: u64) -> (u64, u64) {
        match self.grid.ahead(last, floor) {
            0 => (0, self.grid.behind(last, floor)),
            ahead => (ahead, 0),
        }
    }

    /// A view with its place computed, for reading older counts.
    #[inline(always)]
    pub(super) fn placed<R: Ring>(&self, view: View<R>) -> View<R> {
        View { place: self.place(view.last), ..view }
    }

    /// The index `back` before another.
    #[inline(always)]
    pub(super) fn before(&self, index: u64, back: u64) -> u64 {
        index.wrapping_sub(back) & self.index.max()
    }

    /// The place of the sub-window that is `back` (at most `older`) before the one at `place`.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of cells")]
    pub(super) fn place_before(&self, place: usize, back: u64) -> usize {
        let back = back as usize;
        let wrapped = if back > place { self.cells as usize } else { 0 };
        place + wrapped - back
    }

    /// The ring's count of the sub-window that is `back` (at most `older`) before the word's.
    #[inline(always)]
    pub(super) fn older_count<R: Ring>(&self, view: &View<R>, back: u64) -> u64 {
        self.count_at(view.ring, view.place, view.last, back)
    }

    /// The same before the sub-window `last`, whose place is `place`.
    #[inline(always)]
    pub(super) fn count_at<R: Ring>(&self, ring: R, place: usize, last: u64, back: u64) -> u64 {
        let index = self.before(last, back);
        // The count if the index above it is the same; else more than any count.
        let count = ring.xor(self.place_before(place, back), self.index.fill(0, index));
        if count <= self.count.max() { count.min(self.limit.get()) } else { 0 }
    }

    /// The count of the word's own sub-window.
    pub(super) fn last_count<R: Ring>(&self, view: &View<R>) -> u64 {
        let older = |sum: u64, back| sum.saturating_add(self.older_count(view, back));
        view.total.saturating_sub((1..=self.older).fold(0, older)).min(self.limit.get())
    }

    /// The count of the sub-window that is `later` after the first that counts.
    pub(super) fn count_from_oldest<R: Ring>(&self, view: &View<R>, later: u64) -> u64 {
        // The first that counts lies `older` before the current, which is `passed` after the last.
        let after_last = (view.passed + later).checked_sub(self.older);
        match after_last {
            None => self.older_count(view, self.older - view.passed - later),
            Some(0) => self.last_count(view),
            Some(_) => 0,
        }
    }

    /// The window has advanced by `passed` sub-windows: the total that still counts, and the cell
    /// to publish.
    #[inline]
    pub(super) fn advanced<R: Ring>(&self, view: View<R>) -> (u64, u64) {
        if view.passed > self.older {
            return (0, 0);
        }
        let view = self.placed(view);
        let counted = |total, back| total + self.older_count(&view, back);
        // A count is at most the limit, and there are at most 257.
        let kept = (1..=self.older - view.passed).fold(0, counted);
        let gone = (self.older - view.passed + 1..=self.older).fold(0, counted);
        let last = view.total.saturating_sub(kept + gone).min(self.limit.get());
        let published = match last {
            0 => 0,
            _ => self.index.fill(last, view.last),
        };
        (view.total.saturating_sub(gone), published)
    }

    /// Whole cells in `oldest` weighed by `overlap`.
    #[inline(always)]
    pub(super) fn weigh(&self, oldest: u64, overlap: u64) -> u64 {
        part(oldest, overlap, self.grid.ratio().1)
    }

    /// Whether `n` more cells fit: `whole + oldest * overlap / nanos < limit - n + 1`.
    #[inline(always)]
    pub(super) fn fits(&self, whole: u64, oldest: u64, overlap: u64, n: u64) -> bool {
        if n > self.limit.get() || whole > self.limit.get() - n {
            return false;
        }
        let room = u128::from(self.limit.get() - n - whole) + 1;
        !WEIGHED
            || u128::from(oldest) * u128::from(overlap)
                < room.saturating_mul(self.grid.ratio().1.into())
    }

    /// Sub-windows from the current one's beginning until `excess` cells have left. The oldest that counts
    /// lies `oldest` before `last`, the word's own.
    #[inline(never)]
    pub(super) fn sub_windows_until_left<R: Ring>(
        &self,
        cells: R::Cells,
        life: u64,
        last: u64,
        oldest: u64,
        mut excess: u64,
    ) -> u64 {
        let ring = R::of_parts(cells, life);
        let place = self.place(last);
        for back in (1..=oldest).rev() {
            let count = self.count_at(ring, place, last, back);
            if count >= excess {
                return oldest - back + 1;
            }
            excess -= count;
        }
        // Until the word's own has left.
        oldest + 1
    }

    /// Sub-windows from the current one's beginning until `n` more cells fit, where the oldest is weighed, and the
    /// shares of that sub-window that have to pass.
    #[inline(always)]
    pub(super) fn shares_until_room<R: Ring>(
        &self,
        view: &View<R>,
        mut counted: u64,
        n: u64,
    ) -> (u64, u64) {
        let nanos = self.grid.ratio().1;
        let mut later = 0;
        // After the word's own sub-window has left, nothing counts.
        while counted > 0 && view.passed + later <= self.older {
            let oldest = self.count_from_oldest(view, later).min(counted);
            counted -= oldest;
            match (self.limit.get() - n + 1).checked_sub(counted) {
                None | Some(0) => {}
                Some(room) if oldest < room => return (later, 0),
                Some(room) => {
                    let passed = shares_until_less(oldest, room, nanos);
                    if passed < nanos {
                        return (later, passed);
                    }
                }
            }
            later += 1;
        }
        (later, 0)
    }

    /// The waits of a denial: until nothing counts, until `n` cells fit, and their scale.
    #[inline(always)]
    pub(super) fn waits<R: Ring>(&self, view: View<R>, now: Tick, counted: u64, n: u64) -> Waits {
        let idle = if counted == 0 { 0 } else { view.ahead + self.older + 1 - view.passed };
        let unasked = n == 0 || n > self.limit.get();
        if WEIGHED && !unasked {
            let OutOfLine(waits) = self.weighed_waits(view, idle, counted, n);
            return waits;
        }
        let wait = match unasked {
            true => NEVER,
            false => {
                let oldest = self.older - view.passed.min(self.older);
                let excess = counted.saturating_add(n) - self.limit.get();
                let (cells, life) = view.ring.parts();
                view.ahead
                    + self.sub_windows_until_left::<R>(cells, life, view.last, oldest, excess)
            }
        };
        Waits { idle, wait, scale: self.grid.scale(now, view.floor) }
    }

    /// The same if the oldest is weighed, in shares of a sub-window.
    #[inline(never)]
    pub(super) fn weighed_waits<R: Ring>(
        &self,
        view: View<R>,
        idle_units: u64,
        counted: u64,
        n: u64,
    ) -> OutOfLine<Waits> {
        let view = &self.placed(view);
        let (units, nanos) = self.grid.ratio();
        let (later, passed) = self.shares_until_room(view, counted, n);
        let until = view.ahead + later;
        // The span from `now`, in shares of a sub-window. A nanosecond has `units` of them.
        let small = |units: u64, more: u64| {
            let shares = units.checked_mul(nanos)?.checked_add(more)?;
            Some(shares.saturating_sub(view.phase))
        };
        if let (Some(idle), Some(wait)) = (small(idle_units, 0), small(until, passed)) {
            let units = NonZeroU64::new(units).unwrap_or(NonZeroU64::MIN);
            let wait = wait.min(NEVER - 1);
            return OutOfLine(Waits { idle, wait, scale: Scale { units, nanos: 1, phase: 0 } });
        }
        let large = |sub_windows: u64, more: u64| {
            let shares = u128::from(sub_windows) * u128::from(nanos) + u128::from(more);
            let nanos = shares.saturating_sub(view.phase.into()).div_ceil(units.into());
            u64::try_from(nanos).unwrap_or(u64::MAX)
        };
        let (idle, wait) = (large(idle_units, 0), large(until, passed).min(NEVER - 1));
        OutOfLine(Waits { idle, wait, scale: Scale::NANOS })
    }
}

/// 2^64 divided by a number above 1, rounded up.
pub(super) const fn reciprocal(divisor: u32) -> u64 {
    u64::MAX / divisor as u64 + 1
}

/// `index % divisor` by two multiplications (Lemire, Kaser and Kurz 2019): exact for an index
/// below 2^53 and a divisor up to 2^11, since the error of the reciprocal times the index stays
/// below 2^64 divided by the divisor.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below the divisor")]
pub(super) fn remainder(index: u64, divisor: u32, reciprocal: u64) -> usize {
    let fraction = reciprocal.wrapping_mul(index);
    ((u128::from(fraction) * u128::from(divisor)) >> 64) as usize
}

/// Shares of a sub-window that pass, of `nanos`, until less than `room` is left of the weighed `oldest`, which is
/// as large at least.
#[inline(always)]
pub(super) fn shares_until_less(oldest: u64, room: u64, nanos: u64) -> u64 {
    part(nanos, oldest.wrapping_sub(room), oldest) + 1
}

/// `whole * numerator / denominator` rounded down, for a fraction of at most 1. It cannot panic, so the compiler
/// leaves it out where the result is not used.
#[inline(always)]
fn part(whole: u64, numerator: u64, denominator: u64) -> u64 {
    match whole.checked_mul(numerator) {
        Some(product) => product.checked_div(denominator).unwrap_or(0),
        None => {
            let product = u128::from(whole) * u128::from(numerator);
            let part = product.checked_div(u128::from(denominator)).unwrap_or(0);
            u64::try_from(part).unwrap_or(whole)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_remainder_is_exact(index in 0_u64..1 << 53, divisor in 2_u32..=512, near in 0_u64..3) {
            let divided = u64::from(divisor);
            for index in [index, index / divided * divided, (1 << 53) - 1 - near] {
                let exact = usize::try_from(index % divided).expect("small");
                prop_assert_eq!(remainder(index, divisor, reciprocal(divisor)), exact);
            }
        }
    }
}
