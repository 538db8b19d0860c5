//! The answer of a limiter: a [`Permit`] or a [`Denied`].
//!
//! Both are plain values of at most one cache line. They hold what the algorithm measured in its
//! own units, and convert it to durations only on request: the conversion takes a division that
//! most callers never need.

pub(crate) mod parts;

pub use parts::DecisionParts;

use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

use crate::time::saturating_nanos;

/// A decision: `Ok` to go ahead, `Err` to deny.
pub type Decision = Result<Permit, Denied>;

const _: () = assert!(size_of::<Permit>() == 56);
const _: () = assert!(size_of::<Decision>() == 64);

/// The return type of cold functions that are not inlined. It gives them a return slot of their own
/// in memory, so that the hot path keeps its result in registers.
pub(crate) struct OutOfLine<T>(pub(crate) T);

/// The measurements of an algorithm, in units of its own time grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measurements {
    /// Cells a fully restored key may spend at once.
    pub(crate) limit: u64,
    /// Room left, in shares of a cell.
    pub(crate) room: u64,
    /// Shares in one cell.
    pub(crate) cell: NonZeroU64,
    /// Units until the key's state is as if it had never been used.
    pub(crate) until_idle: u64,
    pub(crate) scale: Scale,
}

/// The conversion from units of a grid to nanoseconds, for spans from one instant.
///
/// The grid has `units / nanos` units to a nanosecond. `phase` is how far the instant lies past its
/// unit's beginning, in `1 / nanos` units. For a clock that is [behind](Self::seen_before), `phase` is
/// the number of nanoseconds by which the clock is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) units: NonZeroU64,
    pub(crate) nanos: u64,
    pub(crate) phase: u64,
}

impl Scale {
    /// Marks, in `nanos`, a scale of a clock that is behind. No grid has that many nanoseconds.
    const BEHIND: u64 = 1 << 63;

    /// This scale for a caller whose clock is `gap` nanoseconds behind the instant, which begins a unit.
    /// The gap takes the place of the phase, which is 0.
    #[inline(always)]
    fn seen_before(self, gap: u64) -> Self {
        debug_assert!(gap == 0 || self.phase == 0, "the instant begins a unit");
        if gap == 0 { self } else { Self { nanos: self.nanos | Self::BEHIND, phase: gap, ..self } }
    }

    /// Spans that are nanoseconds already.
    pub(crate) const NANOS: Self = Self { units: NonZeroU64::MIN, nanos: 1, phase: 0 };

    /// The smallest number of nanoseconds after which `units` more units have begun; zero for no
    /// units.
    pub(crate) fn span(self, units: u64) -> Duration {
        if units == 0 {
            return Duration::ZERO;
        }
        if self.nanos & Self::BEHIND != 0 {
            let at_instant = Self { nanos: self.nanos & !Self::BEHIND, phase: 0, ..self };
            let nanos = saturating_nanos(at_instant.span(units));
            return Duration::from_nanos(nanos.saturating_add(self.phase));
        }
        let shares = u128::from(units) * u128::from(self.nanos) - u128::from(self.phase);
        // Ordinary grids have 1 unit in 2,500 ns and need no division, others a short one.
        let nanos = match (u64::try_from(shares), self.units.get()) {
            (Ok(shares), 1) => shares,
            (Ok(shares), units) => shares.div_ceil(units),
            (Err(_), units) => u64::try_from(shares.div_ceil(units.into())).unwrap_or(u64::MAX),
        };
        Duration::from_nanos(nanos)
    }
}

impl Measurements {
    fn remaining(&self) -> u64 {
        self.room / self.cell
    }
}

/// Marks a permit with a delay, in its limit. No limit needs this bit.
const DELAYED: u64 = 1 << 63;
const _: () = assert!(crate::quota::CELLS_MAX < DELAYED);

/// The request may go ahead. Its cells have been charged.
///
/// If [`delay`](Self::delay) is not zero, the request may go ahead only after that time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, Tick};
///
/// let gate = Direct::new(Quota::per_second(5))?;
/// let permit = gate.ask().cells(2).at(Tick::ZERO).check()?;
/// assert_eq!(permit.limit(), 5);
/// assert_eq!(permit.remaining(), 3);
/// assert_eq!(permit.reset_after(), Duration::from_millis(400));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a permit says that the cells were charged"]
pub struct Permit {
    /// If the limit contains [`DELAYED`], `room` counts whole cells and `cell` is the delay in
    /// units. A separate word for the delay would make every [`Decision`] longer than a cache line.
    measured: Measurements,
}

impl Permit {
    #[inline]
    pub(crate) fn new(measured: Measurements) -> Self {
        debug_assert!(measured.limit < DELAYED, "the bit is free");
        Self { measured }
    }

    /// A permit to go ahead in `delay` units from now.
    #[inline]
    pub(crate) fn delayed(measured: Measurements, delay: u64) -> Self {
        let prompt = Self::new(measured);
        let Some(delay) = NonZeroU64::new(delay) else { return prompt };
        let (limit, room) = (measured.limit | DELAYED, measured.remaining());
        Self { measured: Measurements { limit, room, cell: delay, ..measured } }
    }

    #[inline]
    fn is_delayed(&self) -> bool {
        self.measured.limit & DELAYED != 0
    }

    /// The same permit for a caller whose clock is `gap` nanoseconds behind the instant it was made for,
    /// which begins a unit.
    #[inline(always)]
    pub(crate) fn seen_before(self, gap: u64) -> Self {
        let scale = self.measured.scale.seen_before(gap);
        Self { measured: Measurements { scale, ..self.measured } }
    }

    /// A permit for what the algorithm denied, with nothing charged.
    #[cfg(feature = "std")]
    pub(crate) fn despite(denied: Denied) -> Self {
        Self::new(denied.measured)
    }

    /// The cells that a fully restored key may spend at once: the burst, or a window's limit.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(5).burst(3)).unwrap();
    /// assert_eq!(gate.ask().at(Tick::ZERO).check().unwrap().limit(), 3);
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.measured.limit & !DELAYED
    }

    /// How long to wait before going ahead, rounded up to a nanosecond.
    ///
    /// It is zero for a request of 0 cells, and for every algorithm that sets no delays
    /// ([`LeakyQueue`](crate::LeakyQueue) and [`WarmUp`](crate::WarmUp) do). The cells are charged
    /// already: a caller that does not wait breaks the limit.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, LeakyQueue, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_second(5)).algorithm(LeakyQueue::new()).build()?;
    /// assert_eq!(gate.ask().at(Tick::ZERO).check().unwrap().delay(), Duration::ZERO);
    /// assert_eq!(gate.ask().at(Tick::ZERO).check().unwrap().delay(), Duration::from_millis(200));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn delay(&self) -> Duration {
        match self.is_delayed() {
            true => self.measured.scale.span(self.measured.cell.get()),
            false => Duration::ZERO,
        }
    }

    /// The whole cells that could be spent right after this decision.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(5)).unwrap();
    /// assert_eq!(gate.ask().cells(5).at(Tick::ZERO).check().unwrap().remaining(), 0);
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        match self.is_delayed() {
            true => self.measured.room,
            false => self.measured.remaining(),
        }
    }

    /// How long until the key is as if it had never been used, rounded up to a nanosecond.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_minute(3)).unwrap();
    /// assert_eq!(gate.ask().at(Tick::ZERO).check().unwrap().reset_after(), Duration::from_secs(20));
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.measured.scale.span(self.measured.until_idle)
    }
}

/// The request is denied. Nothing was charged, and the state is unchanged, with [two exceptions](crate#guarantees).
///
/// It is an [`Error`](core::error::Error), so `?` returns it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, Tick};
///
/// let gate = Direct::new(Quota::per_second(5))?;
/// gate.ask().cells(5).at(Tick::ZERO).check()?;
/// let denied = gate.ask().at(Tick::ZERO).check().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
/// assert_eq!(denied.to_string(), "rate limit of 5 reached, retry after 200ms");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a denial says when to come back"]
pub struct Denied {
    measured: Measurements,
    /// Units until the same request would be admitted, or [`NEVER`].
    until_admitted: u64,
}

/// The wait of a request that can never be admitted.
pub(crate) const NEVER: u64 = u64::MAX;

impl Denied {
    #[inline]
    pub(crate) fn new(measured: Measurements, until_admitted: u64) -> Self {
        Self { measured, until_admitted }
    }

    /// The denial of a key that can have a slot after `wait` at the earliest. It does not count as idle before.
    pub(crate) fn without_slot(measured: Measurements, wait: Duration) -> Self {
        let (limit, remaining) = (measured.limit, measured.remaining());
        let reset_after = measured.scale.span(measured.until_idle).max(wait);
        DecisionParts { limit, remaining, reset_after }.denied(Some(wait))
    }

    /// The same denial for a caller whose clock is `gap` nanoseconds behind the instant it was made
    /// for, which begins a unit.
    #[inline(always)]
    pub(crate) fn seen_before(self, gap: u64) -> Self {
        let scale = self.measured.scale.seen_before(gap);
        Self { measured: Measurements { scale, ..self.measured }, ..self }
    }

    /// The cells that a fully restored key may spend at once: the burst, or a window's limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.measured.limit
    }

    /// The whole cells that could be spent now: fewer than were asked for, unless only its turn
    /// [comes too late](crate::Ask::max_delay).
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(5)).unwrap();
    /// gate.ask().cells(3).at(Tick::ZERO).check().unwrap();
    /// assert_eq!(gate.ask().cells(3).at(Tick::ZERO).check().unwrap_err().remaining(), 2);
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.measured.remaining()
    }

    /// How long until the key is as if it had never been used, rounded up to a nanosecond.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(5)).unwrap();
    /// gate.ask().cells(5).at(Tick::ZERO).check().unwrap();
    /// let denied = gate.ask().at(Tick::ZERO).check().unwrap_err();
    /// assert_eq!(denied.reset_after(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.measured.scale.span(self.measured.until_idle)
    }

    /// Units until the key's state is as if it had never been used.
    #[cfg(feature = "std")]
    pub(crate) fn until_idle(&self) -> u64 {
        self.measured.until_idle
    }

    /// Whether the request can never be admitted.
    #[cfg(feature = "std")]
    pub(crate) fn is_final(&self) -> bool {
        self.until_admitted == NEVER
    }

    /// The shortest time after which the same request would be admitted if nothing else happened to
    /// the key, rounded up to a nanosecond; `None` if it asks for more cells than can ever fit.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(5)).unwrap();
    /// assert_eq!(gate.ask().cells(6).at(Tick::ZERO).check().unwrap_err().retry_after(), None);
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.until_admitted {
            NEVER => None,
            units => Some(self.measured.scale.span(units)),
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after() {
            Some(wait) => write!(f, "rate limit of {} reached, retry after {wait:?}", self.limit()),
            None => write!(f, "more cells asked for than the {} that can ever fit", self.limit()),
        }
    }
}

impl core::error::Error for Denied {}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measurements {
        let one = NonZeroU64::MIN;
        let scale = Scale { units: one, nanos: 2_500, phase: 7 };
        let cell = NonZeroU64::new(100).expect("not zero");
        Measurements { limit: crate::quota::CELLS_MAX, room: 599, cell, until_idle: 401, scale }
    }

    #[test]
    fn a_delay_leaves_the_other_answers_alone() {
        let prompt = Permit::new(measured());
        assert_eq!(prompt.delay(), Duration::ZERO);
        assert_eq!(Permit::delayed(measured(), 0), prompt);
        for units in [1, 2, 1 << 52] {
            let delayed = Permit::delayed(measured(), units);
            assert_eq!(delayed.delay(), Duration::from_nanos(units * 2_500 - 7));
            assert_eq!(delayed.limit(), prompt.limit());
            assert_eq!(delayed.remaining(), 5);
            assert_eq!(delayed.reset_after(), prompt.reset_after());
        }
    }

    #[test]
    fn a_clock_that_is_behind_waits_for_the_gap_as_well() {
        let at_instant =
            Measurements { scale: Scale { phase: 0, ..measured().scale }, ..measured() };
        for (gap, until, told) in [(0, 3, 7_500), (9, 3, 7_509), (9, 0, 0), (u64::MAX, 3, u64::MAX)]
        {
            let measured = Measurements { until_idle: until, ..at_instant };
            let told = Duration::from_nanos(told);
            assert_eq!(Permit::new(measured).seen_before(gap).reset_after(), told);
            let denied = Denied::new(measured, until).seen_before(gap);
            assert_eq!((denied.retry_after(), denied.remaining()), (Some(told), 5));
        }
        let never = Denied::new(at_instant, NEVER).seen_before(9);
        assert_eq!((never.retry_after(), never.is_final()), (None, true));
    }

    #[test]
    fn a_denial_says_in_words_when_to_come_back() {
        let measured = Measurements { limit: 9, ..measured() };
        let text = |until_admitted| Denied::new(measured, until_admitted).to_string();
        assert_eq!(text(1_000), "rate limit of 9 reached, retry after 2.499993ms");
        assert_eq!(text(NEVER), "more cells asked for than the 9 that can ever fit");
    }
}
