//! The recent latency compared with the long-term latency.

use super::{Backoff, ONE, State, Window, backoff_setters, over, percent, times};

/// Windows whose plain mean is the long-term latency, before it becomes a moving average.
const WARM_UP_WINDOWS: u64 = 10;

/// While the long-term latency is more than twice that of the window, each window reduces it to this percentage.
const DECAY_PERCENT: u32 = 95;

/// Compares the latency of a window with the average of many windows: no measurement is needed, and an
/// upstream that changes slowly is followed.
///
/// The gradient is `tolerance x long-term latency / latency of the window`, from 0.5 to 1. The next limit
/// is `limit x gradient + queue`, smoothed. So a latency within the tolerance lets the limit grow, and one
/// above it lets it shrink, by half at most. It grows only if at least half of it was in flight at some
/// time. After a window in which more than [`failures_percent`](Self::failures_percent) of the requests
/// failed, the limit is [`backoff_percent`](Self::backoff_percent) of what it was.
///
/// **Not guaranteed.** An upstream that is overloaded for longer than the average reaches back is taken for
/// one that is slow. [`MinLatency`](super::MinLatency) measures instead.
///
/// It follows `Gradient2Limit` of Netflix's `concurrency-limits`, which ignores failures, and shrinks only
/// while half of the limit is in use.
///
/// ```
/// use tollgate::concurrency::adaptive::{AdaptiveLimit, Gradient};
///
/// let upstream = AdaptiveLimit::builder(Gradient::new().tolerance_percent(200)).build()?;
/// # Ok::<(), tollgate::concurrency::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Gradient {
    tolerance_percent: u32,
    smoothing_percent: u32,
    long_windows: u32,
    queue: u32,
    backoff: Backoff,
}

impl Default for Gradient {
    fn default() -> Self {
        Self::new()
    }
}

impl Gradient {
    /// A tolerance of 150 %, an average of 600 windows, a queue of 4, and a smoothing of 20 %.
    pub const fn new() -> Self {
        Self {
            tolerance_percent: 150,
            smoothing_percent: 20,
            long_windows: 600,
            queue: 4,
            backoff: Backoff::DEFAULT,
        }
    }

    /// The latency that is tolerated, 100 to 1,000 percent of the average. The default is 150.
    pub const fn tolerance_percent(mut self, percent: u32) -> Self {
        self.tolerance_percent = percent;
        self
    }

    /// How far the limit moves towards the next one after a window, 1 to 100 percent. The default is 20.
    pub const fn smoothing_percent(mut self, percent: u32) -> Self {
        self.smoothing_percent = percent;
        self
    }

    /// Windows that the average goes back, 10 to 100,000. The default is 600.
    pub const fn long_windows(mut self, windows: u32) -> Self {
        self.long_windows = windows;
        self
    }

    /// Requests that may be queued in the upstream, 0 to 1,000. The default is 4. With 0, the limit never
    /// grows.
    pub const fn queue(mut self, requests: u32) -> Self {
        self.queue = requests;
        self
    }

    backoff_setters!();

    pub(super) fn step(&self, state: &State, window: &Window) -> State {
        let Some(short) = window.mean_latency() else {
            return self.backed_off(state, window);
        };
        let (long, windows) = self.long_term(state, short);
        let next = State { baseline: long, windows, ..*state };
        if self.backoff.is_due(window) {
            return self.backed_off(&next, window);
        }
        let gradient = over(times(long, percent(self.tolerance_percent)), short);
        let gradient = gradient.clamp(ONE / 2, ONE);
        let goal = times(state.limit, gradient).saturating_add(u64::from(self.queue) * ONE);
        let part = percent(self.smoothing_percent);
        let limit = times(state.limit, ONE - part.min(ONE)).saturating_add(times(goal, part));
        match limit > state.limit && !window.limited {
            true => next,
            false => State { limit, ..next },
        }
    }

    fn backed_off(&self, state: &State, window: &Window) -> State {
        match self.backoff.is_due(window) {
            true => State { limit: self.backoff.of(state.limit), ..*state },
            false => *state,
        }
    }

    /// The long-term latency with one more window, and its windows.
    fn long_term(&self, state: &State, short: u64) -> (u64, u64) {
        let windows = state.windows.saturating_add(1).min(u64::from(self.long_windows));
        let parts = match windows <= WARM_UP_WINDOWS {
            true => windows,
            // A moving average of n windows gives the last one 2 parts of n + 1.
            false => u64::from(self.long_windows.saturating_add(1) / 2),
        };
        let parts = parts.max(1);
        let long = match state.windows {
            0 => short,
            _ if short >= state.baseline => {
                state.baseline.saturating_add((short - state.baseline) / parts)
            }
            _ => state.baseline - (state.baseline - short) / parts,
        };
        match long / 2 > short {
            true => (times(long, percent(DECAY_PERCENT)), windows),
            false => (long, windows),
        }
    }

    pub(super) fn out_of_range(&self) -> Option<&'static str> {
        match self {
            Self { tolerance_percent: 0..=99 | 1_001.., .. } => {
                Some("tolerance_percent must be 100 to 1,000")
            }
            Self { smoothing_percent: 0 | 101.., .. } => Some("smoothing_percent must be 1 to 100"),
            Self { long_windows: 0..=9 | 100_001.., .. } => {
                Some("long_windows must be 10 to 100,000")
            }
            Self { queue: 1_001.., .. } => Some("queue must be 0 to 1,000"),
            Self { backoff, .. } => backoff.out_of_range(),
        }
    }
}
