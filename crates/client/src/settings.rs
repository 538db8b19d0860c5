//! The settings of a rate: its steps and its bounds.

use core::time::Duration;

use crate::error::SettingsError;

/// Rates that a pacer may have, in requests a second: one in about 11 days to a million a second.
const RATES: core::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// The default of [`Settings::increase`], as a share of the first rate.
const INCREASE_DEFAULT: f64 = 0.02;

/// How the rate of a [`Pacer`](crate::Pacer) moves, and between which bounds.
///
/// ```
/// use std::time::Duration;
/// use tollgate_client::{Pacer, Settings};
///
/// let settings = Settings::new(20.0)
///     .rates(0.1, 500.0)
///     .max_pause(Duration::from_secs(120))
///     .max_wait(Duration::from_secs(10));
/// let pacer = Pacer::new(settings)?;
/// # Ok::<(), tollgate_client::SettingsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Settings {
    pub(crate) initial: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) increase: f64,
    pub(crate) backoff_percent: u32,
    pub(crate) max_pause: Duration,
    pub(crate) max_wait: Duration,
    pub(crate) max_waiting: usize,
    pub(crate) starts_slowly: bool,
}

impl Settings {
    /// Begins with `initial` requests a second. From there the rate doubles each second until the server
    /// first lowers it; then it moves in small steps.
    pub fn new(initial: f64) -> Self {
        Self {
            initial,
            min: 0.1,
            max: 1e5,
            increase: initial * INCREASE_DEFAULT,
            backoff_percent: 90,
            max_pause: Duration::from_secs(600),
            max_wait: Duration::from_secs(60),
            max_waiting: 1_024,
            starts_slowly: true,
        }
    }

    /// The smallest and the largest rate, in requests a second, from 0.000001 to 1,000,000. The defaults
    /// are 0.1 and 100,000.
    ///
    /// At the smallest rate a request should still get its turn within [`max_wait`](Self::max_wait).
    pub fn rates(self, min: f64, max: f64) -> Self {
        Self { min, max, ..self }
    }

    /// By how much the rate grows in a second, in requests a second. The default is 2 % of the
    /// [first rate](Self::new). The pacer keeps the increase between 0.1 % and 1 % of the rate at which the server
    /// last denied. Clients that share a quota share it evenly if they have the same increase.
    ///
    /// More finds spare quota sooner and is denied more often: about
    /// `increase / (rate x (100 - backoff) / 100)` times a second.
    pub fn increase(self, per_second: f64) -> Self {
        Self { increase: per_second, ..self }
    }

    /// The share of the rate that a denial leaves, 1 to 99 percent. The default is 90.
    /// After a denial that follows another, without an admission between them, it is a half.
    pub fn backoff_percent(self, percent: u32) -> Self {
        Self { backoff_percent: percent, ..self }
    }

    /// The longest pause that a server can cause by one response, up to a day. The default is 600 s. A
    /// `Retry-After` of a year counts as this long.
    pub fn max_pause(self, pause: Duration) -> Self {
        Self { max_pause: pause, ..self }
    }

    /// How long a request waits for its turn at most. The default is 60 s. A request whose turn does not come by
    /// then fails: at once if a pause or the next turn of all is later, otherwise when the time is up, since the rate
    /// may grow meanwhile.
    ///
    /// A request that the inner service of a [`PaceLayer`](crate::PaceLayer) held up may wait as long again, for its
    /// second turn.
    pub fn max_wait(self, wait: Duration) -> Self {
        Self { max_wait: wait, ..self }
    }

    /// How many requests wait at a time. The default is 1,024. One more fails at once.
    pub fn max_waiting(self, requests: usize) -> Self {
        Self { max_waiting: requests, ..self }
    }

    /// Does not double the rate at the beginning: for a server whose limit is known to be about
    /// [the first rate](Self::new).
    pub fn without_slow_start(self) -> Self {
        Self { starts_slowly: false, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let &Self { initial, min, max, .. } = self;
        // A number that is no number is in no range.
        if !RATES.contains(&min) || !RATES.contains(&max) || min > max {
            return Err(SettingsError::Rates { min, max });
        }
        if !(min..=max).contains(&initial) {
            return Err(SettingsError::Initial { initial, min, max });
        }
        if !(1e-9..=1e6).contains(&self.increase) {
            return Err(SettingsError::Increase);
        }
        if !(1..=99).contains(&self.backoff_percent) {
            return Err(SettingsError::Backoff);
        }
        if self.max_pause > Duration::from_secs(86_400) {
            return Err(SettingsError::Pause);
        }
        Ok(())
    }
}
