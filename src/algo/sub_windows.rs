//! A sliding window of sub-windows: a count for each of the last few, and their sum.
//!
//! # Word and ring
//!
//! ```text
//! word  bits 52..c index of the latest sub-window charged | bits c-1..0 cells counted, all in all
//! cell  the same fields: index of an older sub-window | cells charged in it
//! ```
//!
//! *All in all* is what was charged in that sub-window and in the `older` ones before it, so
//! that a decision within one sub-window needs the word alone (and the oldest count, where that
//! is weighed). `c` is the number of bits that the limit needs. A sub-window's count has its place
//! in the ring by its index; another index there means that nothing was charged in it.
//!
//! # Step
//!
//! The current sub-window is that of `now`, or the word's where that is later. What lies more
//! than `older` before it no longer counts. `n` cells are admitted iff `estimate + n <= limit`.
//!
//! - [`SubWindows`]: `older` is one less than the number of sub-windows, and the estimate is the
//!   sum.
//! - [`SlidingCounter`](crate::SlidingCounter): the oldest of `older + 1` weighs only as much as
//!   the window still overlaps it, and the estimate is rounded down to whole cells.
//!
//! When the word moves on to a later sub-window, the count of the one it leaves is put in the
//! ring first: all in all, less the older ones.
//!
//! # Units
//!
//! One sub-window; they begin where the wall clock's do.
//!
//! Sources: the sub-windows are those of Sentinel's LeapArray and of the "sliding window" of
//! many gateways; the weighed form is Cloudflare's, after A. Xu, System Design Interview, ch. 4.

use core::num::NonZeroU64;
use core::time::Duration;

use super::fixed_window::into_window;
use super::grid::Grid;
#[cfg(feature = "std")]
use super::oracle::SubWindowCounts;
use super::{Algorithm, Machine, PAYLOAD_BITS, Ring, Standing, Step, sealed::Sealed};
use crate::decision::{Denied, NEVER, Permit, Reading, Scale};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;
use crate::word::Field;

/// The most sub-windows: an older count each is looked at when the window moves on.
const SUB_WINDOWS_MAX: u32 = 256;
/// The largest count of cells.
const COUNT_BITS_MAX: u32 = 30;
const YEAR_NANOS: u128 = 365 * 24 * 3_600 * 1_000_000_000;

/// At most `limit` cells in any row of `n` sub-windows, the current one included: "6 cells a
/// minute" as six windows of ten seconds.
///
/// **Guarantee.** No `n` successive sub-windows grant more than `limit` cells, under any
/// interleaving of threads, hence no span of one period less one sub-window does.
///
/// **Not guaranteed.** A span of one whole period touches `n + 1` sub-windows, and may see the
/// grants of the first and the last of them together: never more than twice the limit, less than
/// that the more sub-windows there are. [`SlidingLog`](crate::SlidingLog) is exact. The quota's
/// burst is not used.
///
/// It takes a ring of `n` words for each key.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, ManualClock, Quota, SubWindows, Tick};
///
/// let gate = Direct::builder(Quota::per_minute(6))
///     .algorithm(SubWindows::new())
///     .clock(ManualClock::new())
///     .build()?;
/// let at = |secs| Tick::from_duration(Duration::from_secs(secs));
/// assert!(gate.check_at(4, at(9)).is_ok());
/// assert!(gate.check_at(2, at(10)).is_ok());
/// // The first four leave when the sub-window from 0 to 10 s does, at 60 s.
/// assert_eq!(gate.check_at(3, at(11)).unwrap_err().retry_after(), Some(Duration::from_secs(49)));
/// assert_eq!(gate.check_at(3, at(60))?.remaining(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubWindows {
    count: u32,
    utc_offset_secs: i32,
}

impl SubWindows {
    /// Six sub-windows.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SubWindows};
    /// let gate = Direct::builder(Quota::per_minute(6)).algorithm(SubWindows::new()).build()?;
    /// assert!(gate.check_n(6).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 6, utc_offset_secs: 0 }
    }

    /// `count` sub-windows, 2 to 256.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SubWindows};
    /// let finer = SubWindows::new().count(60);
    /// assert!(Direct::builder(Quota::per_minute(6)).algorithm(finer).build().is_ok());
    /// assert!(Direct::builder(Quota::per_minute(6)).algorithm(finer.count(1)).build().is_err());
    /// ```
    #[must_use]
    pub const fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// Aligns to local time, `seconds` east of Greenwich.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SubWindows};
    /// let in_delhi = SubWindows::new().utc_offset_secs(5 * 3600 + 1800);
    /// assert!(Direct::builder(Quota::per_day(6)).algorithm(in_delhi).build().is_ok());
    /// ```
    #[must_use]
    pub const fn utc_offset_secs(self, seconds: i32) -> Self {
        Self { utc_offset_secs: seconds, ..self }
    }
}

impl Default for SubWindows {
    fn default() -> Self {
        Self::new()
    }
}

impl Sealed for SubWindows {}

impl Algorithm for SubWindows {
    type Params = SubWindowParams;

    fn params(&self, quota: &Quota, origin: u64) -> Result<SubWindowParams, QuotaError> {
        if !(2..=SUB_WINDOWS_MAX).contains(&self.count) {
            return Err(QuotaError::SubWindowCount);
        }
        SubWindowParams::new(quota, self.count, self.count - 1, false, origin, self.utc_offset_secs)
    }
}

/// [`SubWindows`] or [`SlidingCounter`](crate::SlidingCounter) with a quota worked in.
///
/// ```
/// use tollgate::algo::{Algorithm, Machine};
/// use tollgate::{Quota, SubWindows};
///
/// let params = SubWindows::new().params(&Quota::per_minute(6), 0)?;
/// assert_eq!(params.ring_cells(), 6);
/// assert_eq!(params.grid().ratio(), (1, 10_000_000_000)); // a unit is a sub-window
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubWindowParams {
    grid: Grid,
    limit: u64,
    /// The most that can be counted all in all.
    total_max: u64,
    /// Sub-windows before the current one that count.
    older: u64,
    /// Whether the oldest weighs by its overlap.
    weighed: bool,
    /// Added to every instant, so that sub-windows begin where the wall clock's do.
    ahead_nanos: u64,
    count: Field,
    index: Field,
    cells: u32,
    /// 2^64 divided by the cells, rounded up.
    reciprocal: u64,
}

/// What a decision is judged by.
#[derive(Clone, Copy, Debug)]
pub struct SubWindowSeen {
    admits: bool,
    /// The word with the cells charged.
    next: u64,
    /// The cell that must be in the ring first; its index is its own. 0: none.
    put: u64,
    /// Cells that count whole, before the charge.
    whole: u64,
    /// Cells of the oldest sub-window, where that is weighed; and how much of one sub-window the
    /// window still overlaps it, in shares of the grid.
    oldest: u64,
    overlap: u64,
    /// Units until nothing counts any more, if the cells are charged.
    until_idle: u64,
    /// If they are refused, or none are asked for.
    waits: Waits,
}

/// What a path that is seldom taken returns, in a place of its own.
struct Apart<T>(T);

/// Until nothing counts any more, and until the cells fit.
#[derive(Clone, Copy, Debug)]
struct Waits {
    idle: u64,
    wait: u64,
    scale: Scale,
}

/// Where `now` lies, seen from a word.
#[derive(Clone, Copy)]
struct View<R> {
    ring: R,
    /// The word's sub-window, and what counts in it.
    last: u64,
    /// Its place, once it was asked for: it takes a division.
    place: usize,
    total: u64,
    floor: u64,
    /// Units from the one that has begun to the current one: 0, unless the clock is behind.
    ahead: u64,
    /// Units from the word's to the current one.
    passed: u64,
    /// Shares of its unit that have passed at `now`.
    phase: u64,
}

impl SubWindowParams {
    /// `in_period` sub-windows in a period, of which the current one and `older` count.
    pub(super) fn new(
        quota: &Quota,
        in_period: u32,
        older: u32,
        weighed: bool,
        origin: u64,
        utc_offset_secs: i32,
    ) -> Result<Self, QuotaError> {
        quota.validate()?;
        let period = quota.period_nanos();
        // One place for each older count, and one for what is put before the word moves on.
        let places = older + 1;
        let (in_period, older) = (u64::from(in_period), u64::from(older));
        if in_period > period {
            return Err(QuotaError::SubWindowCount);
        }
        // With the oldest whole, up to the limit more than the estimate may be counted.
        let total_max = quota.limit().saturating_mul(1 + u64::from(weighed));
        let count_bits = u64::BITS - total_max.leading_zeros();
        if count_bits > COUNT_BITS_MAX
            || (u128::from(period) << (PAYLOAD_BITS - count_bits)) / u128::from(in_period)
                < YEAR_NANOS
        {
            return Err(QuotaError::SubWindowLimitTooLarge);
        }
        let count = Field::new(0, count_bits);
        let index = count.above(PAYLOAD_BITS - count_bits);
        let grid = Grid::new(in_period, period, index.max(), older + 1);
        // Where the index wraps around, the places must do so with it.
        let cells = if grid.ring().is_some() { places.next_power_of_two() } else { places };
        let ahead_nanos = into_window(period, origin, utc_offset_secs)?;
        let limit = quota.limit();
        Ok(Self {
            grid,
            limit,
            total_max,
            older,
            weighed,
            ahead_nanos,
            count,
            index,
            cells,
            reciprocal: reciprocal(cells),
        })
    }

    #[inline(always)]
    fn aligned(&self, now: Tick) -> Tick {
        Tick::from_nanos(now.as_nanos().saturating_add(self.ahead_nanos))
    }

    #[inline(always)]
    fn place(&self, index: u64) -> usize {
        remainder(index, self.cells, self.reciprocal)
    }

    #[inline(always)]
    fn view<R: Ring>(&self, word: u64, ring: R, now: Tick) -> View<R> {
        let floor = self.grid.floor(now);
        let last = self.index.of(word);
        let ahead = self.grid.ahead(last, floor);
        let passed = if ahead > 0 { 0 } else { self.grid.behind(last, floor) };
        let phase = self.grid.scale(now, floor).phase;
        // No state counts more; but of any word, what is above must not be lost beyond the field.
        let total = self.count.of(word).min(self.total_max);
        View { ring, last, place: 0, total, floor, ahead, passed, phase }
    }

    /// A view that can be asked for older counts.
    #[inline(always)]
    fn placed<R: Ring>(&self, view: View<R>) -> View<R> {
        View { place: self.place(view.last), ..view }
    }

    /// The index `back` before another.
    #[inline(always)]
    fn before(&self, index: u64, back: u64) -> u64 {
        index.wrapping_sub(back) & self.index.max()
    }

    /// What the ring says was charged `back` (at most `older`) sub-windows before the word's.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of cells")]
    fn older_count<R: Ring>(&self, view: &View<R>, back: u64) -> u64 {
        let index = self.before(view.last, back);
        let back = back as usize;
        let wrapped = if back > view.place { self.cells as usize } else { 0 };
        let content = view.ring.cell(view.place + wrapped - back);
        // Its count, if the index above it is the same; else more than any count.
        let count = content ^ self.index.set(0, index);
        if count <= self.count.max() { count.min(self.limit) } else { 0 }
    }

    /// What was charged in the word's own sub-window.
    fn last_count<R: Ring>(&self, view: &View<R>) -> u64 {
        let older = |sum: u64, back| sum.saturating_add(self.older_count(view, back));
        view.total.saturating_sub((1..=self.older).fold(0, older)).min(self.limit)
    }

    /// What was charged in the sub-window `later` after the first that counts.
    fn count_from_oldest<R: Ring>(&self, view: &View<R>, later: u64) -> u64 {
        // The first that counts lies `older` before the current, which is `passed` after the last.
        let after_last = (view.passed + later).checked_sub(self.older);
        match after_last {
            None => self.older_count(view, self.older - view.passed - later),
            Some(0) => self.last_count(view),
            Some(_) => 0,
        }
    }

    /// The window has moved on by `passed` sub-windows: what still counts, and the cell to put.
    #[cold]
    #[inline(never)]
    fn moved_on<R: Ring>(&self, view: View<R>) -> Apart<(u64, u64)> {
        if view.passed > self.older {
            return Apart((0, 0));
        }
        let view = self.placed(view);
        let mut older: u64 = 0;
        let mut gone: u64 = 0;
        for back in 1..=self.older {
            let count = self.older_count(&view, back);
            older = older.saturating_add(count);
            if back + view.passed > self.older {
                gone = gone.saturating_add(count);
            }
        }
        let last = view.total.saturating_sub(older).min(self.limit);
        let put = if last == 0 { 0 } else { self.index.set(self.count.set(0, last), view.last) };
        Apart((view.total.saturating_sub(gone), put))
    }

    /// Whole cells in `oldest` weighed by `overlap`.
    #[inline(always)]
    fn weigh(&self, oldest: u64, overlap: u64) -> u64 {
        part(oldest, overlap, self.grid.ratio().1)
    }

    /// Whether `n` more cells fit: `whole + oldest * overlap / nanos < limit - n + 1`.
    #[inline(always)]
    fn fits(&self, whole: u64, oldest: u64, overlap: u64, n: u64) -> bool {
        if n > self.limit || whole > self.limit - n {
            return false;
        }
        let room = u128::from(self.limit - n - whole) + 1;
        !self.weighed
            || u128::from(oldest) * u128::from(overlap)
                < room.saturating_mul(self.grid.ratio().1.into())
    }

    /// Sub-windows from the current one's beginning until the first that leaves room for `n`
    /// more cells (at most the limit), where the oldest is not weighed.
    #[inline(always)]
    fn sub_windows_until_room<R: Ring>(&self, view: &View<R>, counted: u64, n: u64) -> u64 {
        let mut excess = counted.saturating_add(n) - self.limit;
        // The oldest that counts lies so far before the word's own.
        let oldest = self.older - view.passed.min(self.older);
        for back in (1..=oldest).rev() {
            let count = self.older_count(view, back);
            if count >= excess {
                return oldest - back + 1;
            }
            excess -= count;
        }
        // Until the word's own has left.
        self.older + 1 - view.passed
    }

    /// The same where the oldest is weighed, and the shares of that sub-window that have to pass.
    #[inline(always)]
    fn shares_until_room<R: Ring>(&self, view: &View<R>, mut counted: u64, n: u64) -> (u64, u64) {
        let nanos = self.grid.ratio().1;
        let mut later = 0;
        // Once the word's own sub-window has left, nothing counts.
        while counted > 0 && view.passed + later <= self.older {
            let oldest = self.count_from_oldest(view, later);
            counted = counted.saturating_sub(oldest);
            match (self.limit - n + 1).checked_sub(counted) {
                None | Some(0) => {}
                Some(room) if oldest < room => return (later, 0),
                Some(room) => {
                    let passed = part(nanos, oldest - room, oldest) + 1;
                    if passed < nanos {
                        return (later, passed);
                    }
                }
            }
            later += 1;
        }
        (later, 0)
    }

    /// What a refusal tells: until nothing counts, until `n` cells fit, and in which scale.
    #[inline(always)]
    fn waits<R: Ring>(&self, view: View<R>, now: Tick, counted: u64, n: u64) -> Waits {
        let idle = if counted == 0 { 0 } else { view.ahead + self.older + 1 - view.passed };
        let unasked = n == 0 || n > self.limit;
        if self.weighed && !unasked {
            let Apart(waits) = self.weighed_waits(view, idle, counted, n);
            return waits;
        }
        let wait = match unasked {
            true => NEVER,
            false => view.ahead + self.sub_windows_until_room(&self.placed(view), counted, n),
        };
        Waits { idle, wait, scale: self.grid.scale(now, view.floor) }
    }

    /// The same where the oldest is weighed, in shares of a sub-window.
    #[inline(never)]
    fn weighed_waits<R: Ring>(
        &self,
        view: View<R>,
        idle_units: u64,
        counted: u64,
        n: u64,
    ) -> Apart<Waits> {
        let view = &self.placed(view);
        let (units, nanos) = self.grid.ratio();
        let (later, passed) = self.shares_until_room(view, counted, n);
        let until = view.ahead + later;
        // From now on, in shares of which there are `units` in a nanosecond.
        let small = |units: u64, more: u64| {
            let shares = units.checked_mul(nanos)?.checked_add(more)?;
            Some(shares.saturating_sub(view.phase))
        };
        if let (Some(idle), Some(wait)) = (small(idle_units, 0), small(until, passed)) {
            let units = NonZeroU64::new(units).unwrap_or(NonZeroU64::MIN);
            let wait = wait.min(NEVER - 1);
            return Apart(Waits { idle, wait, scale: Scale { units, nanos: 1, phase: 0 } });
        }
        let large = |sub_windows: u64, more: u64| {
            let shares = u128::from(sub_windows) * u128::from(nanos) + u128::from(more);
            let nanos = shares.saturating_sub(view.phase.into()).div_ceil(units.into());
            u64::try_from(nanos).unwrap_or(u64::MAX)
        };
        let (idle, wait) = (large(idle_units, 0), large(until, passed).min(NEVER - 1));
        Apart(Waits { idle, wait, scale: Scale::NANOS })
    }

    #[inline(always)]
    fn remaining(&self, seen: &SubWindowSeen, n: u64) -> u64 {
        let estimate = seen.whole.saturating_add(self.weigh(seen.oldest, seen.overlap));
        self.limit.saturating_sub(estimate.saturating_add(n))
    }
}

/// 2^64 divided by a number above 1, rounded up.
const fn reciprocal(divisor: u32) -> u64 {
    u64::MAX / divisor as u64 + 1
}

/// `index % divisor` by two multiplications (Lemire, Kaser and Kurz 2019): exact for an index
/// below 2^53 and a divisor up to 2^11, since the error of the reciprocal times the index stays
/// below 2^64 divided by the divisor.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below the divisor")]
fn remainder(index: u64, divisor: u32, reciprocal: u64) -> usize {
    let fraction = reciprocal.wrapping_mul(index);
    ((u128::from(fraction) * u128::from(divisor)) >> 64) as usize
}

/// `whole * numerator / denominator` rounded down, for a fraction of at most 1.
fn part(whole: u64, numerator: u64, denominator: u64) -> u64 {
    match whole.checked_mul(numerator) {
        Some(product) => product / denominator,
        None => {
            let part = u128::from(whole) * u128::from(numerator) / u128::from(denominator);
            u64::try_from(part).unwrap_or(whole)
        }
    }
}

impl Sealed for SubWindowParams {}

impl Machine for SubWindowParams {
    #[cfg(feature = "std")]
    type Oracle = SubWindowCounts;
    type Seen = SubWindowSeen;
    const RINGED: bool = true;

    fn ring_cells(&self) -> usize {
        self.cells as usize
    }

    fn cells_to_clear(&self) -> usize {
        self.ring_cells()
    }

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.index.set(0, self.instant(now))
    }

    #[inline(always)]
    fn look<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> SubWindowSeen {
        let now = self.aligned(now);
        let view = self.view(word, ring, now);
        let (counted, put) = if view.passed == 0 {
            (view.total, 0)
        } else {
            let Apart(moved) = self.moved_on(view);
            moved
        };
        let current = self.grid.later(view.last, view.passed) & self.index.max();
        let nanos = self.grid.ratio().1;
        let oldest = match self.weighed && counted > 0 {
            true if view.passed == 0 => self.older_count(&self.placed(view), self.older),
            true => self.count_from_oldest(&self.placed(view), 0),
            false => 0,
        };
        // A clock behind the word's sub-window sees it at its beginning.
        let overlap = if view.ahead > 0 { nanos } else { nanos - view.phase };
        let whole = counted.saturating_sub(oldest);
        let admits = n == 0 || self.fits(whole, oldest, overlap, n);
        let waits = match admits && n > 0 {
            true => Waits { idle: 0, wait: 0, scale: Scale::NANOS },
            false => self.waits(view, now, counted, n),
        };
        SubWindowSeen {
            admits,
            next: if n == 0 {
                self.index.set(self.count.of(word), self.index.of(word))
            } else {
                self.index.set(self.count.set(0, counted.saturating_add(n)), current)
            },
            put,
            whole,
            oldest,
            overlap,
            until_idle: view.ahead + self.older + 1,
            waits,
        }
    }

    #[inline(always)]
    fn step(&self, seen: SubWindowSeen, _: Tick, _: u64) -> Step {
        if seen.admits { Step::Admit { next: seen.next } } else { Step::Refuse }
    }

    #[inline(always)]
    fn publish<R: Ring>(
        &self,
        seen: SubWindowSeen,
        _: R,
        mut put: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        seen.put == 0 || put(self.place(self.index.of(seen.put)), seen.put)
    }

    #[inline(always)]
    fn permit(&self, seen: SubWindowSeen, now: Tick, n: u64) -> Permit {
        let now = self.aligned(now);
        let scale = self.grid.scale(now, self.grid.floor(now));
        let (until_idle, scale) =
            if n == 0 { (seen.waits.idle, seen.waits.scale) } else { (seen.until_idle, scale) };
        let room = self.remaining(&seen, n);
        Permit::new(Reading { limit: self.limit, room, cell: NonZeroU64::MIN, until_idle, scale })
    }

    #[inline(always)]
    fn denied(&self, seen: SubWindowSeen, _: Tick, _: u64) -> Denied {
        let reading = Reading {
            limit: self.limit,
            room: self.remaining(&seen, 0),
            cell: NonZeroU64::MIN,
            until_idle: seen.waits.idle,
            scale: seen.waits.scale,
        };
        Denied::new(reading, seen.waits.wait)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.grid.floor(self.aligned(now))
    }

    #[inline]
    fn standing(&self, word: u64, instant: u64) -> Standing {
        let (last, total) = (self.index.of(word), self.count.of(word));
        let ahead = self.grid.ahead(last, instant);
        let passed = if ahead > 0 { 0 } else { self.grid.behind(last, instant) };
        if total == 0 {
            Standing::Idle { units: passed }
        } else if passed > self.older {
            Standing::Idle { units: passed - self.older }
        } else {
            // What counts longest and most.
            Standing::Live { debt: total.saturating_mul(ahead + self.older + 1 - passed) }
        }
    }

    fn no_place(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let now = self.aligned(now);
        let floor = self.grid.floor(now);
        let end = self.grid.later(self.index.of(word), self.older + 1);
        let wait = self.grid.until_behind_by(end, floor, skew);
        let reading = Reading {
            limit: self.limit,
            room: 0,
            cell: NonZeroU64::MIN,
            until_idle: wait,
            scale: self.grid.scale(now, floor),
        };
        Denied::new(reading, wait)
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> SubWindowCounts {
        let Self { limit, older, weighed, ahead_nanos, .. } = *self;
        SubWindowCounts::new(self.grid.ratio(), ahead_nanos, limit, older, weighed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::tile;
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

        #[test]
        fn the_fields_tile_and_round_trip(limit in 1_u64..1 << 20, count: u64, index: u64) {
            let params = SubWindows::new().params(&Quota::per_day(limit), 0).expect("in range");
            prop_assert!(tile(&[params.count, params.index], PAYLOAD_BITS));
            prop_assert!(params.count.max() >= limit);
            let word = params.index.set(params.count.set(0, count), index);
            prop_assert_eq!(params.count.of(word), count & params.count.max());
            prop_assert_eq!(params.index.of(word), index & params.index.max());
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_when_built() {
        let built = |count, text: &str| {
            SubWindows::new().count(count).params(&text.parse().expect("a quota"), 0)
        };
        assert_eq!(built(1, "9/min"), Err(QuotaError::SubWindowCount));
        assert_eq!(built(257, "9/min"), Err(QuotaError::SubWindowCount));
        assert_eq!(built(6, "1 per 5 ns"), Err(QuotaError::SubWindowCount));
        assert_eq!(built(6, "2000000000/y"), Err(QuotaError::SubWindowLimitTooLarge));
        assert!(built(2, "9/min").is_ok() && built(256, "9/min").is_ok());
    }
}
