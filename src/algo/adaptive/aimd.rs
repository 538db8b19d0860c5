//! Additive increase, multiplicative decrease.

use core::time::Duration;

use super::{Backoff, ONE, PLACES, State, Window, backoff_setters, units};

/// Raises the limit by a constant while requests succeed, and lowers it by a factor when they fail
/// (additive increase, multiplicative decrease).
///
/// After a window in which more than [`failures_percent`](Self::failures_percent) of the requests failed,
/// or whose mean latency is above [`max_latency`](Self::max_latency), the limit is
/// [`backoff_percent`](Self::backoff_percent) of what it was. After any other window it grows by
/// [`increase`](Self::increase), if at least half of it was in flight at some time.
///
/// Of the three controllers it is the one to take where latency says nothing: an upstream that fails when
/// it is overloaded and is not slow before.
///
/// It follows `AIMDLimit` of Netflix's `concurrency-limits`, which steps at each request; this steps once
/// in a window.
///
/// ```
/// use std::time::Duration;
/// use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd};
///
/// let aimd = Aimd::new().backoff_percent(80).max_latency(Duration::from_secs(2));
/// let upstream = AdaptiveLimit::builder(aimd).limits(1, 200).build()?;
/// # Ok::<(), tollgate::concurrency::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Aimd {
    increase: u32,
    max_latency: Option<Duration>,
    backoff: Backoff,
}

impl Default for Aimd {
    fn default() -> Self {
        Self::new()
    }
}

impl Aimd {
    /// Adds 1 after a good window, and multiplies the limit by 0.9 after a bad one.
    pub const fn new() -> Self {
        Self { increase: 1, max_latency: None, backoff: Backoff::DEFAULT }
    }

    /// By how much the limit grows after a good window, 1 to 1,000. The default is 1.
    pub const fn increase(mut self, requests: u32) -> Self {
        self.increase = requests;
        self
    }

    /// The mean latency above which a window is bad, 1 µs to 60 s. By default, only failures count.
    pub const fn max_latency(mut self, latency: Duration) -> Self {
        self.max_latency = Some(latency);
        self
    }

    backoff_setters!();

    pub(super) fn step(&self, state: &State, window: &Window) -> State {
        let slow = self.max_latency.is_some_and(|max| {
            window.mean_latency().is_some_and(|mean| mean > units(max) << PLACES)
        });
        let limit = match self.backoff.is_due(window) || slow {
            true => self.backoff.of(state.limit),
            false if window.limited => {
                state.limit.saturating_add(u64::from(self.increase).saturating_mul(ONE))
            }
            false => state.limit,
        };
        State { limit, ..*state }
    }

    pub(super) fn out_of_range(&self) -> Option<&'static str> {
        let latencies = Duration::from_micros(1)..=Duration::from_secs(60);
        match self {
            Self { increase: 0 | 1_001.., .. } => Some("increase must be 1 to 1,000"),
            Self { max_latency: Some(latency), .. } if !latencies.contains(latency) => {
                Some("max_latency must be 1 microsecond to 60 seconds")
            }
            Self { backoff, .. } => backoff.out_of_range(),
        }
    }
}
