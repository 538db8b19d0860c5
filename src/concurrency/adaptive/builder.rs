//! The builder of an adaptive limit.

use core::fmt;
use core::time::Duration;

use crossbeam_utils::CachePadded;

use super::{AdaptiveLimit, Controller, NeverRead};
use crate::algo::adaptive::LimitRange;
use crate::cell::{AdaptiveCell, AdaptivePlan};
use crate::concurrency::direct::DirectConcurrency;
use crate::concurrency::error::ConcurrencyError;
use crate::limiter::builder::ClockSource;
use crate::time::Clock;
use crate::time::quanta_clock::QuantaClock;

/// Limits unless [`AdaptiveBuilder::limits`] is called.
const LIMITS_DEFAULT: LimitRange = LimitRange { min: 3, max: 1_000 };
const INITIAL_DEFAULT: u64 = 20;
const WINDOW_DEFAULT: Duration = Duration::from_millis(100);
const WINDOWS: core::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60);
const SAMPLES_DEFAULT: u64 = 10;
const SAMPLES: core::ops::RangeInclusive<u64> = 1..=1_000;

/// Builds an [`AdaptiveLimit`]. Made by [`AdaptiveLimit::builder`].
///
/// ```
/// use std::time::Duration;
/// use tollgate::concurrency::adaptive::{AdaptiveLimit, Gradient};
///
/// let upstream = AdaptiveLimit::builder(Gradient::new())
///     .limits(5, 400)
///     .initial(50)
///     .window(Duration::from_millis(500))
///     .min_samples(20)
///     .build()?;
/// # Ok::<(), tollgate::concurrency::adaptive::AdaptiveError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct AdaptiveBuilder<C = QuantaClock> {
    controller: Controller,
    range: LimitRange,
    initial: Option<u64>,
    window: Duration,
    samples_min: u64,
    max_hold: Option<Duration>,
    clock: ClockSource<C>,
}

impl AdaptiveBuilder {
    pub(super) fn new(controller: Controller) -> Self {
        Self {
            controller,
            range: LIMITS_DEFAULT,
            initial: None,
            window: WINDOW_DEFAULT,
            samples_min: SAMPLES_DEFAULT,
            max_hold: None,
            clock: ClockSource::Made(QuantaClock::new),
        }
    }
}

impl<C> AdaptiveBuilder<C> {
    /// The smallest and the largest limit, from 1 to 4,194,303. The defaults are 3 and 1,000.
    pub fn limits(self, min: u64, max: u64) -> Self {
        Self { range: LimitRange { min, max }, ..self }
    }

    /// The limit to begin with, in the range of [`limits`](Self::limits). The default is 20, or the nearest
    /// limit to it. [`MinLatency`](super::MinLatency) measures first, at the smallest limit.
    pub fn initial(self, limit: u64) -> Self {
        Self { initial: Some(limit), ..self }
    }

    /// How long a window lasts at least, 1 ms to 60 s. The default is 100 ms. It should be several times
    /// a latency.
    pub fn window(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// How many requests a window has at least, 1 to 1,000. The default is 10. A window of few requests
    /// lasts until it has them.
    pub fn min_samples(self, requests: u64) -> Self {
        Self { samples_min: requests, ..self }
    }

    /// Counts a request as lost after `hold`: see
    /// [`ConcurrencyBuilder::max_hold`](crate::concurrency::ConcurrencyBuilder::max_hold). The largest
    /// limit is then 65,535 at most.
    pub fn max_hold(self, hold: Duration) -> Self {
        Self { max_hold: Some(hold), ..self }
    }

    /// Chooses the clock. The default is [`QuantaClock`].
    pub fn clock<D: Clock>(self, clock: D) -> AdaptiveBuilder<D> {
        let Self { controller, range, initial, window, samples_min, max_hold, .. } = self;
        let clock = ClockSource::Given(clock);
        AdaptiveBuilder { controller, range, initial, window, samples_min, max_hold, clock }
    }
}

impl<C: Clock> AdaptiveBuilder<C> {
    /// Checks the choices.
    ///
    /// # Errors
    ///
    /// A choice is out of range; the error says what to do.
    ///
    /// ```
    /// use tollgate::concurrency::adaptive::{AdaptiveError, AdaptiveLimit, Aimd};
    /// let error = AdaptiveLimit::builder(Aimd::new()).limits(9, 8).build().unwrap_err();
    /// assert_eq!(error, AdaptiveError::Limits { min: 9, max: 8 });
    /// ```
    pub fn build(self) -> Result<AdaptiveLimit<C>, AdaptiveError> {
        let Self { controller, range, initial, window, samples_min, max_hold, clock } = self;
        let LimitRange { min, max } = range;
        if min == 0 || min > max {
            return Err(AdaptiveError::Limits { min, max });
        }
        let initial = match initial {
            Some(limit) if (min..=max).contains(&limit) => limit,
            Some(limit) => return Err(AdaptiveError::Initial { limit, min, max }),
            None => INITIAL_DEFAULT.clamp(min, max),
        };
        if !WINDOWS.contains(&window) {
            return Err(AdaptiveError::Window);
        }
        if !SAMPLES.contains(&samples_min) {
            return Err(AdaptiveError::MinSamples);
        }
        if let Some(advice) = controller.out_of_range() {
            return Err(AdaptiveError::Setting(advice));
        }
        // The largest limit is checked before the first is set: the limit may get there.
        let builder = DirectConcurrency::builder(max).clock(NeverRead);
        let gate = match max_hold {
            Some(hold) => builder.max_hold(hold).build()?,
            None => builder.build()?,
        };
        let clock = clock.into_clock();
        let plan = AdaptivePlan { controller, range, interval: window, samples_min };
        let first = controller.start(range, initial).whole_limit();
        let cell = CachePadded::new(AdaptiveCell::new(plan, initial, clock.now()));
        gate.set_limit(first)?;
        Ok(AdaptiveLimit { gate, cell, clock })
    }
}

/// Why an [`AdaptiveLimit`] cannot be built; its text says what to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdaptiveError {
    /// The smallest limit is 0, or above the largest.
    Limits {
        /// The smallest limit.
        min: u64,
        /// The largest limit.
        max: u64,
    },
    /// The first limit is outside the range.
    Initial {
        /// The first limit.
        limit: u64,
        /// The smallest limit.
        min: u64,
        /// The largest limit.
        max: u64,
    },
    /// A window is shorter than 1 ms, or longer than 60 s.
    Window,
    /// A window needs no request, or more than 1,000.
    MinSamples,
    /// A setting of the controller is out of range: the setting, and its range.
    Setting(&'static str),
    /// The largest limit or the longest hold: an error that other limits have, too.
    Concurrency(ConcurrencyError),
}

impl From<ConcurrencyError> for AdaptiveError {
    fn from(error: ConcurrencyError) -> Self {
        Self::Concurrency(error)
    }
}

impl fmt::Display for AdaptiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limits { min: 0, .. } => f.write_str("the smallest limit must be 1 at least"),
            Self::Limits { min, max } => {
                write!(f, "the smallest limit, {min}, is above the largest, {max}: swap them")
            }
            Self::Initial { limit, min, max } => {
                write!(f, "the first limit, {limit}, must be {min} to {max}: change it or limits")
            }
            Self::Window => f.write_str("window must be 1 ms to 60 s"),
            Self::MinSamples => f.write_str("min_samples must be 1 to 1,000"),
            Self::Setting(advice) => write!(f, "a controller's {advice}"),
            Self::Concurrency(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AdaptiveError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Concurrency(error) => Some(error),
            _ => None,
        }
    }
}

impl<C> fmt::Debug for AdaptiveBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveBuilder")
            .field("controller", &self.controller)
            .field("limits", &self.range)
            .field("initial", &self.initial)
            .field("window", &self.window)
            .field("min_samples", &self.samples_min)
            .field("max_hold", &self.max_hold)
            .finish_non_exhaustive()
    }
}
