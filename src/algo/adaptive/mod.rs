//! Controllers that move a limit of requests in flight by latencies and failures.
//!
//! Requests that have ended are samples. Samples are collected in a [`Window`]; at its end the controller
//! makes one step from one [`State`] to the next. A step is pure and total: any state, window and time has
//! an answer, without overflow, division by zero or a float.
//!
//! # Fixed point
//!
//! Limits, latencies and ratios have 16 binary places ([`ONE`] is 1). A latency is in units of 256 ns
//! ([`UNIT_NANOS`]) and saturates at 68.7 s. A quotient is rounded down.
//!
//! | | largest value | bits with the places |
//! |---|---|---|
//! | limit | 4,194,303 | 38 |
//! | latency | 2^28 units | 44 |
//! | ratio | 10, a tolerance of 1,000 % | 20 |
//!
//! # Sources
//!
//! The controllers are built by these descriptions, and each file says where it differs.
//!
//! - Netflix `concurrency-limits`: `AIMDLimit`, `Gradient2Limit`.
//! - Envoy's adaptive concurrency filter: its gradient controller.

mod aimd;
mod gradient;
mod min_latency;
#[cfg(test)]
mod tests;
mod window;

use core::time::Duration;

use crate::time::{Tick, saturating_nanos};

pub use aimd::Aimd;
pub use gradient::Gradient;
pub use min_latency::MinLatency;
pub use window::{Sample, Window, WindowWord};

/// Binary places of a fixed-point number.
const PLACES: u32 = 16;

/// 1, in fixed point.
pub const ONE: u64 = 1 << PLACES;

/// Nanoseconds in a unit of latency.
pub const UNIT_NANOS: u64 = 256;

/// The largest latency in units: 68.7 s.
pub const LATENCY_MAX: u64 = (1 << 28) - 1;

/// Units of a latency, rounded down.
#[must_use]
pub fn units(latency: Duration) -> u64 {
    (saturating_nanos(latency) / UNIT_NANOS).min(LATENCY_MAX)
}

/// A latency in fixed point as a time.
#[must_use]
pub fn latency_of(fixed: u64) -> Duration {
    // 256 ns with 16 places: 2^8 / 2^16 of a nanosecond.
    Duration::from_nanos(fixed / (ONE / UNIT_NANOS))
}

/// A percentage in fixed point, rounded down.
fn percent(percent: u32) -> u64 {
    u64::from(percent) * ONE / 100
}

/// The product of two fixed-point numbers, rounded down.
fn times(a: u64, b: u64) -> u64 {
    let product = (u128::from(a) * u128::from(b)) >> PLACES;
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// The quotient of two fixed-point numbers, rounded down; that by 0 is the largest.
fn over(a: u64, b: u64) -> u64 {
    let quotient = (u128::from(a) << PLACES).checked_div(u128::from(b)).unwrap_or(u128::MAX);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

/// The limits between which a controller moves. `min` is 1 at least, and not above `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "internal")]
pub struct LimitRange {
    /// The smallest limit.
    pub min: u64,
    /// The largest limit.
    pub max: u64,
}

impl LimitRange {
    /// The nearest limit in the range, in fixed point.
    fn nearest(self, limit: u64) -> u64 {
        limit.max(self.min.saturating_mul(ONE)).min(self.max.saturating_mul(ONE))
    }
}

/// Words of a [`State`].
pub const STATE_WORDS: usize = 6;

/// The state that a controller keeps from window to window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "internal")]
pub struct State {
    /// The limit, in fixed point.
    pub limit: u64,
    /// The latency that samples are compared with, in fixed point; 0: none yet.
    pub baseline: u64,
    /// Samples of all windows so far.
    pub counted: u64,
    /// [`Gradient`]: windows of the baseline. [`MinLatency`]: windows at the smallest limit in a row.
    pub windows: u64,
    /// [`MinLatency`]: when to measure the baseline again, in nanoseconds.
    pub measure_at: u64,
    /// [`MinLatency`]: the limit to return to after the measurement, in fixed point; 0: no measurement is
    /// under way.
    pub resume: u64,
}

impl State {
    /// The limit in whole requests.
    #[must_use]
    pub fn whole_limit(&self) -> u64 {
        self.limit / ONE
    }

    /// The words in which it is stored.
    #[must_use]
    pub fn words(&self) -> [u64; STATE_WORDS] {
        let &Self { limit, baseline, counted, windows, measure_at, resume } = self;
        [limit, baseline, counted, windows, measure_at, resume]
    }

    /// The state that words store.
    #[must_use]
    pub fn of_words(words: &[u64; STATE_WORDS]) -> Self {
        let &[limit, baseline, counted, windows, measure_at, resume] = words;
        Self { limit, baseline, counted, windows, measure_at, resume }
    }
}

/// How a limit of requests in flight follows the samples: [`Aimd`], [`Gradient`] or [`MinLatency`].
///
/// ```
/// use tollgate::concurrency::adaptive::{Aimd, Controller};
/// let controller = Controller::from(Aimd::new().backoff_percent(80));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Controller {
    /// Moves the limit by failures.
    Aimd(Aimd),
    /// Moves the limit by the ratio of the recent to the long-term latency.
    Gradient(Gradient),
    /// Moves the limit by the ratio of the latency to that of an unloaded upstream.
    MinLatency(MinLatency),
}

impl From<Aimd> for Controller {
    fn from(aimd: Aimd) -> Self {
        Self::Aimd(aimd)
    }
}

impl From<Gradient> for Controller {
    fn from(gradient: Gradient) -> Self {
        Self::Gradient(gradient)
    }
}

impl From<MinLatency> for Controller {
    fn from(min_latency: MinLatency) -> Self {
        Self::MinLatency(min_latency)
    }
}

impl Controller {
    /// The state that it begins with.
    #[must_use]
    pub fn start(&self, range: LimitRange, initial: u64) -> State {
        let state = State { limit: range.nearest(initial.saturating_mul(ONE)), ..State::default() };
        match self {
            Self::Aimd(_) | Self::Gradient(_) => state,
            Self::MinLatency(_) => min_latency::measuring(range, state),
        }
    }

    /// The state after a window that ends at `now`.
    #[must_use]
    pub fn step(&self, range: LimitRange, state: &State, window: &Window, now: Tick) -> State {
        let counted = state.counted.saturating_add(window.count());
        let limit = range.nearest(state.limit);
        let state = State { limit, counted, ..*state };
        if window.count() == 0 {
            return state;
        }
        let next = match self {
            Self::Aimd(aimd) => aimd.step(&state, window),
            Self::Gradient(gradient) => gradient.step(&state, window),
            Self::MinLatency(min_latency) => min_latency.step(range, &state, window, now),
        };
        State { limit: range.nearest(next.limit), ..next }
    }

    /// Samples that a window needs, where windows otherwise need `min`.
    #[must_use]
    pub fn samples_needed(&self, state: &State, min: u64) -> u64 {
        match self {
            Self::MinLatency(by) if state.is_measuring() => by.measure_samples.into(),
            _ => min,
        }
    }

    /// The setting that is out of range, and its range.
    #[must_use]
    pub fn out_of_range(&self) -> Option<&'static str> {
        match self {
            Self::Aimd(aimd) => aimd.out_of_range(),
            Self::Gradient(gradient) => gradient.out_of_range(),
            Self::MinLatency(min_latency) => min_latency.out_of_range(),
        }
    }
}

impl State {
    /// Whether the baseline is being measured, at the smallest limit.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.resume != 0
    }
}

/// When failures lower a limit, and by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Backoff {
    /// The share of failures up to which they have no effect.
    failures_percent: u32,
    /// The limit after a failure, in percent of the limit before.
    percent: u32,
}

impl Backoff {
    const DEFAULT: Self = Self { failures_percent: 5, percent: 90 };

    /// Whether more requests have failed than is taken for none.
    fn is_due(self, window: &Window) -> bool {
        window.failed * 100 > window.count() * u64::from(self.failures_percent)
    }

    fn of(self, limit: u64) -> u64 {
        times(limit, percent(self.percent))
    }

    fn out_of_range(self) -> Option<&'static str> {
        match self {
            Self { failures_percent: 100.., .. } => Some("failures_percent must be 0 to 99"),
            Self { percent: 0 | 100.., .. } => Some("backoff_percent must be 1 to 99"),
            _ => None,
        }
    }
}

/// The setters of [`Backoff`] of a controller.
macro_rules! backoff_setters {
    () => {
        /// The share of requests in a window that may fail without effect, 0 to 99 percent. The default is
        /// 5.
        pub const fn failures_percent(mut self, percent: u32) -> Self {
            self.backoff.failures_percent = percent;
            self
        }

        /// The part of the limit that is kept after a window in which more requests fail, 1 to 99
        /// percent. The default is 90.
        pub const fn backoff_percent(mut self, percent: u32) -> Self {
            self.backoff.percent = percent;
            self
        }
    };
}
use backoff_setters;
