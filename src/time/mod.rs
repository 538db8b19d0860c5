//! Time as the algorithms see it: a count of nanoseconds, handed in by the caller.
//!
//! No code below the clocks reads a clock. A [`Tick`] is an argument, so tests, replay and fuzzing
//! are exact, and an event loop can pass the time it already has.

#[cfg(feature = "std")]
pub(crate) mod clocks;
#[cfg(feature = "std")]
mod counter;
#[cfg(feature = "std")]
pub(crate) mod disciplined;
#[cfg(feature = "shared-memory")]
pub(crate) mod monotonic_clock;
#[cfg(feature = "std")]
pub(crate) mod quanta_clock;
#[cfg(feature = "std")]
pub(crate) mod wall;

use core::time::Duration;

#[cfg(target_has_atomic = "64")]
use crate::sync::SharedNanos;

/// An instant: whole nanoseconds since the origin of the clock that produced it.
///
/// The origin is the clock's own (usually the moment it was made). A tick covers 584 years, and
/// all arithmetic on it saturates at the ends of that range.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Tick;
///
/// let start = Tick::from_nanos(1_500);
/// let later = start.saturating_add(Duration::from_micros(2));
/// assert_eq!(later.as_nanos(), 3_500);
/// assert_eq!(later.since(start), Duration::from_micros(2));
/// assert_eq!(start.since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// The clock's origin.
    ///
    /// ```
    /// assert_eq!(tollgate::Tick::ZERO.as_nanos(), 0);
    /// ```
    pub const ZERO: Self = Self(0);

    /// The last representable instant, about 584 years after the origin.
    ///
    /// ```
    /// assert_eq!(tollgate::Tick::MAX.as_nanos(), u64::MAX);
    /// ```
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    ///
    /// ```
    /// assert!(tollgate::Tick::from_nanos(1) > tollgate::Tick::ZERO);
    /// ```
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `since_origin` after the origin, or [`Tick::MAX`] where that is out of range.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Tick;
    ///
    /// assert_eq!(Tick::from_duration(Duration::from_secs(1)), Tick::from_nanos(1_000_000_000));
    /// assert_eq!(Tick::from_duration(Duration::MAX), Tick::MAX);
    /// ```
    #[inline]
    #[must_use]
    pub const fn from_duration(since_origin: Duration) -> Self {
        Self(saturating_nanos(since_origin))
    }

    /// Nanoseconds since the origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `span` later, or [`Tick::MAX`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Tick;
    ///
    /// assert_eq!(Tick::MAX.saturating_add(Duration::from_nanos(1)), Tick::MAX);
    /// ```
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(span)))
    }

    /// The instant `span` earlier, or [`Tick::ZERO`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Tick;
    ///
    /// assert_eq!(Tick::from_nanos(5).saturating_sub(Duration::from_nanos(9)), Tick::ZERO);
    /// ```
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(span)))
    }

    /// The time from `earlier` to this instant; zero if this instant is not later.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Tick;
    ///
    /// assert_eq!(Tick::from_nanos(9).since(Tick::from_nanos(4)), Duration::from_nanos(5));
    /// ```
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Whole nanoseconds of `span`, at most `u64::MAX`.
#[expect(clippy::cast_possible_truncation, reason = "guarded by the comparison")]
pub(crate) const fn saturating_nanos(span: Duration) -> u64 {
    let nanos = span.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

/// A source of [`Tick`]s.
///
/// A clock need not be monotonic across threads: a limiter never grants more because one thread
/// reads an older time than another. Its ticks should count real nanoseconds from a fixed origin.
///
/// ```
/// use tollgate::{Clock, Tick};
///
/// /// The loop's own time, refreshed once per turn.
/// struct LoopTime(std::cell::Cell<u64>);
/// impl Clock for LoopTime {
///     fn now(&self) -> Tick {
///         Tick::from_nanos(self.0.get())
///     }
/// }
/// assert_eq!(LoopTime(std::cell::Cell::new(3)).now(), Tick::from_nanos(3));
/// ```
pub trait Clock {
    /// The present time.
    fn now(&self) -> Tick;

    /// A time that costs less to read and is not after the present, if this clock has one; by
    /// default `None`. A limiter then admits by it, and reads [`now`](Self::now) only if that would
    /// deny: see [`TieredClock`](crate::clock::TieredClock).
    #[inline]
    fn coarse(&self) -> Option<Tick> {
        None
    }

    /// The present time, if it can be read without a call to a function that is not inlined. For `None`, a limiter
    /// reads [`now`](Self::now) on its cold path.
    #[doc(hidden)]
    #[inline(always)]
    fn now_at_once(&self) -> Option<Tick> {
        Some(self.now())
    }

    /// Nanoseconds from the Unix epoch to this clock's [`Tick::ZERO`]; by default 0.
    ///
    /// It is read when a limiter is built or saved, for windows aligned to the wall clock.
    fn unix_origin_nanos(&self) -> u64 {
        0
    }

    /// The Unix time in nanoseconds at [`now`](Self::now). The default counts from the origin; a clock
    /// beside which the wall clock may be set, or slewed, reads the wall clock instead.
    ///
    /// [`FixedWindow::aligned`](crate::FixedWindow::aligned) reads it at the end of each window, to follow
    /// the wall clock. A restored limiter computes from it how long the process was away.
    fn unix_now_nanos(&self) -> u64 {
        self.unix_origin_nanos().saturating_add(self.now().as_nanos())
    }
}

/// A pointer to a clock is that clock.
macro_rules! clock_behind {
    ($($(#[$when:meta])? $pointer:ty),*) => {$(
        $(#[$when])?
        impl<C: Clock + ?Sized> Clock for $pointer {
            #[inline]
            fn now(&self) -> Tick {
                (**self).now()
            }

            #[inline]
            fn coarse(&self) -> Option<Tick> {
                (**self).coarse()
            }

            #[inline(always)]
            fn now_at_once(&self) -> Option<Tick> {
                (**self).now_at_once()
            }

            fn unix_origin_nanos(&self) -> u64 {
                (**self).unix_origin_nanos()
            }

            fn unix_now_nanos(&self) -> u64 {
                (**self).unix_now_nanos()
            }
        }
    )*};
}

clock_behind!(&C, #[cfg(feature = "std")] std::sync::Arc<C>);

/// A clock that moves only when it is set or advanced: for tests, replay and simulation.
///
/// Clones share one time: keep one, and give another to a limiter. (Without `std` there is no `Clone`;
/// share it by reference.) It may be set back as well as forward. It does not exist on targets without
/// 64-bit atomics.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, ManualClock, Tick};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(clock.now(), Tick::from_nanos(2_000_000_000));
/// clock.clone().set(Tick::ZERO);
/// assert_eq!(clock.now(), Tick::ZERO);
/// ```
#[cfg(target_has_atomic = "64")]
#[cfg_attr(feature = "std", derive(Clone))]
#[derive(Debug, Default)]
pub struct ManualClock {
    #[cfg(feature = "std")]
    times: std::sync::Arc<ManualTimes>,
    #[cfg(not(feature = "std"))]
    times: ManualTimes,
    unix_origin_nanos: u64,
}

#[cfg(target_has_atomic = "64")]
#[derive(Debug, Default)]
struct ManualTimes {
    now: SharedNanos,
    /// By how much the wall clock was set forward, in two's complement.
    stepped: SharedNanos,
}

#[cfg(target_has_atomic = "64")]
impl ManualClock {
    /// A clock at [`Tick::ZERO`], with the Unix epoch as its origin.
    ///
    /// ```
    /// use tollgate::{Clock, ManualClock, Tick};
    /// assert_eq!(ManualClock::new().now(), Tick::ZERO);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock at [`Tick::ZERO`], with the given Unix time as its origin.
    ///
    /// ```
    /// use tollgate::{Clock, ManualClock};
    /// let clock = ManualClock::starting_at_unix_nanos(807_256_800_000_000_000); // 1 August 1995
    /// assert_eq!(clock.unix_origin_nanos(), 807_256_800_000_000_000);
    /// ```
    #[must_use]
    pub fn starting_at_unix_nanos(unix_nanos: u64) -> Self {
        Self { unix_origin_nanos: unix_nanos, ..Self::default() }
    }

    /// Moves the clock to `now`, forward or back.
    ///
    /// ```
    /// use tollgate::{Clock, ManualClock, Tick};
    /// let clock = ManualClock::new();
    /// clock.set(Tick::MAX);
    /// assert_eq!(clock.now(), Tick::MAX);
    /// ```
    pub fn set(&self, now: Tick) {
        self.times.now.set(now.as_nanos());
    }

    /// Moves the clock forward by `span`, at most to [`Tick::MAX`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, ManualClock, Tick};
    /// let clock = ManualClock::new();
    /// clock.advance(Duration::from_nanos(5));
    /// assert_eq!(clock.now(), Tick::from_nanos(5));
    /// ```
    pub fn advance(&self, span: Duration) {
        self.times.now.advance(saturating_nanos(span));
    }

    /// Sets the wall clock, forward or back, as an administrator or a time server does: the Unix time of
    /// the present. The ticks do not change, and the Unix time goes on with them from there.
    /// [`unix_origin_nanos`](Clock::unix_origin_nanos) is the time that the wall clock showed at first.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, ManualClock, Tick};
    /// let clock = ManualClock::starting_at_unix_nanos(807_256_800_000_000_000);
    /// clock.advance(Duration::from_secs(2));
    /// clock.set_unix_nanos(807_253_202_000_000_000); // an hour back
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.now(), Tick::from_nanos(3_000_000_000));
    /// assert_eq!(clock.unix_now_nanos(), 807_253_203_000_000_000);
    /// ```
    pub fn set_unix_nanos(&self, unix_nanos: u64) {
        let unstepped = self.unix_origin_nanos.wrapping_add(self.times.now.read());
        self.times.stepped.set(unix_nanos.wrapping_sub(unstepped));
    }
}

#[cfg(target_has_atomic = "64")]
impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Tick {
        Tick::from_nanos(self.times.now.read())
    }

    fn unix_origin_nanos(&self) -> u64 {
        self.unix_origin_nanos
    }

    fn unix_now_nanos(&self) -> u64 {
        let unstepped = self.unix_origin_nanos.saturating_add(self.times.now.read());
        unstepped.saturating_add_signed(self.times.stepped.read().cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_beyond_the_range_saturate() {
        assert_eq!(Tick::from_duration(Duration::from_secs(u64::MAX)), Tick::MAX);
        assert_eq!(Tick::ZERO.saturating_add(Duration::MAX), Tick::MAX);
        assert_eq!(Tick::MAX.saturating_sub(Duration::MAX), Tick::ZERO);
    }

    #[test]
    fn manual_clock_stops_at_the_end_of_time() {
        let clock = ManualClock::new();
        clock.set(Tick::from_nanos(u64::MAX - 1));
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), Tick::MAX);
    }
}
