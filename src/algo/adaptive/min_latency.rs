//! The latency compared with that of an unloaded upstream, which is measured now and then.

use core::time::Duration;

use super::{
    Backoff, LimitRange, ONE, PLACES, State, Window, backoff_setters, over, percent, times,
};
use crate::time::{Tick, saturating_nanos};

/// Windows at the smallest limit in a row, after which the baseline is measured again: it may be out of
/// date.
const MIN_LIMIT_WINDOWS: u64 = 5;

/// Compares the latency of a window with a baseline: the latency of the upstream while it is hardly loaded,
/// measured now and then.
///
/// To measure, it sets the limit to the smallest one until
/// [`measure_samples`](Self::measure_samples) requests that began under it have ended. Their mean latency
/// is the baseline. It does so at the beginning, at an interval of
/// [`measure_every`](Self::measure_every), and when the limit was the smallest one for five windows. The
/// interval is lengthened by up to 15 %, so that processes do not all measure at once.
///
/// The gradient is `(baseline + buffer) / latency of the window`, from 0.5 to 2. The next limit is
/// `x + sqrt(x)`, where `x` is `limit * gradient`. So the limit settles where the latency is the baseline, plus
/// the buffer, plus the cost of a queue of `sqrt(x)` requests. It grows only if at least half of it was in
/// flight at some time. After a window in which more than
/// [`failures_percent`](Self::failures_percent) of the requests failed, the limit is
/// [`backoff_percent`](Self::backoff_percent) of what it was.
///
/// **Not guaranteed.** While it measures, requests above the smallest limit are denied. A measurement has no time
/// limit: requests that stay in flight for hours, such as streams, can hold all places of the smallest limit, and
/// then all others are denied until one ends. Do not count streams, count them until their first bytes only, or take
/// [`Gradient`](super::Gradient).
///
/// It follows the gradient controller of Envoy's adaptive concurrency filter, which uses a percentile
/// where this uses the mean, and ignores failures.
///
/// ```
/// use std::time::Duration;
/// use tollgate::concurrency::adaptive::{AdaptiveLimit, MinLatency};
///
/// let controller = MinLatency::new().measure_every(Duration::from_secs(30));
/// let upstream = AdaptiveLimit::builder(controller).limits(3, 500).build()?;
/// # Ok::<(), tollgate::concurrency::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct MinLatency {
    measure_every: Duration,
    pub(super) measure_samples: u32,
    buffer_percent: u32,
    backoff: Backoff,
}

impl Default for MinLatency {
    fn default() -> Self {
        Self::new()
    }
}

impl MinLatency {
    /// 50 requests measured every minute, and a buffer of 25 %.
    pub const fn new() -> Self {
        Self {
            measure_every: Duration::from_secs(60),
            measure_samples: 50,
            buffer_percent: 25,
            backoff: Backoff::DEFAULT,
        }
    }

    /// The interval of measurements, 1 s to a day. The default is 60 s.
    pub const fn measure_every(mut self, interval: Duration) -> Self {
        self.measure_every = interval;
        self
    }

    /// Requests of a measurement, 1 to 1,000. The default is 50.
    pub const fn measure_samples(mut self, requests: u32) -> Self {
        self.measure_samples = requests;
        self
    }

    /// By how much a latency may be above the baseline without effect, 0 to 1,000 percent. The default is
    /// 25.
    pub const fn buffer_percent(mut self, percent: u32) -> Self {
        self.buffer_percent = percent;
        self
    }

    backoff_setters!();

    pub(super) fn step(
        &self,
        range: LimitRange,
        state: &State,
        window: &Window,
        now: Tick,
    ) -> State {
        match state.is_measuring() {
            true => self.measured(state, window, now),
            false if now.as_nanos() >= state.measure_at => measuring(range, *state),
            false => self.moved(range, state, window),
        }
    }

    /// The end of a measurement, if a request succeeded in it.
    fn measured(&self, state: &State, window: &Window, now: Tick) -> State {
        let Some(baseline) = window.mean_latency() else { return *state };
        let interval = saturating_nanos(self.measure_every);
        // Any number that differs from process to process: the low digits of the time, spread.
        let random = now.as_nanos().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACES);
        let jitter = times(interval, random * 15 / 100);
        let measure_at = now.as_nanos().saturating_add(interval).saturating_add(jitter);
        State { limit: state.resume, baseline, measure_at, resume: 0, windows: 0, ..*state }
    }

    fn moved(&self, range: LimitRange, state: &State, window: &Window) -> State {
        let limit = match window.mean_latency() {
            _ if self.backoff.is_due(window) => self.backoff.of(state.limit),
            None => state.limit,
            Some(latency) => {
                let expected = times(state.baseline, ONE + percent(self.buffer_percent));
                let gradient = over(expected, latency).clamp(ONE / 2, 2 * ONE);
                let limit = times(state.limit, gradient);
                // The root of a fixed-point number has half of the places.
                let headroom = limit.saturating_mul(ONE).isqrt();
                let limit = limit.saturating_add(headroom);
                if limit > state.limit && !window.limited { state.limit } else { limit }
            }
        };
        let windows = match range.nearest(limit) <= range.min.saturating_mul(ONE) {
            true => state.windows.saturating_add(1),
            false => 0,
        };
        let next = State { limit, windows, ..*state };
        match windows >= MIN_LIMIT_WINDOWS && range.min < range.max {
            true => measuring(range, next),
            false => next,
        }
    }

    pub(super) fn out_of_range(&self) -> Option<&'static str> {
        let intervals = Duration::from_secs(1)..=Duration::from_secs(86_400);
        match self {
            Self { measure_every, .. } if !intervals.contains(measure_every) => {
                Some("measure_every must be a second to a day")
            }
            Self { measure_samples: 0 | 1_001.., .. } => Some("measure_samples must be 1 to 1,000"),
            Self { buffer_percent: 1_001.., .. } => Some("buffer_percent must be 0 to 1,000"),
            Self { backoff, .. } => backoff.out_of_range(),
        }
    }
}

/// The beginning of a measurement: the smallest limit, and the limit to return to.
pub(super) fn measuring(range: LimitRange, state: State) -> State {
    let resume = range.nearest(state.limit);
    State { limit: range.nearest(0), resume, windows: 0, ..state }
}
