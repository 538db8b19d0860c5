//! Errors of building, and of requests that do not get their turn.

use core::fmt;
use core::time::Duration;

use tollgate::wait::WaitError;

/// Why [`Settings`](crate::Settings) cannot be used; its text says what to do.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SettingsError {
    /// The bounds of the rate are out of range or in the wrong order.
    Rates {
        /// The smallest rate.
        min: f64,
        /// The largest rate.
        max: f64,
    },
    /// The first rate is not between the bounds.
    Initial {
        /// The first rate.
        initial: f64,
        /// The smallest rate.
        min: f64,
        /// The largest rate.
        max: f64,
    },
    /// The increase is out of range.
    Increase,
    /// The factor after a denial is out of range.
    Backoff,
    /// The longest pause is out of range.
    Pause,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rates { min, max } => write!(
                f,
                "rates({min}, {max}): give 0.000001 to 1000000 requests a second, the smaller first"
            ),
            Self::Initial { initial, min, max } => write!(
                f,
                "the first rate, {initial}, is not between {min} and {max}: change it, or call rates"
            ),
            Self::Increase => {
                f.write_str("increase must be 0.000000001 to 1000000 requests a second")
            }
            Self::Backoff => f.write_str("backoff_percent must be 1 to 99"),
            Self::Pause => f.write_str("max_pause must be a day at most"),
        }
    }
}

impl core::error::Error for SettingsError {}

/// Why a request was not sent, or the error of the service that sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacerError<E> {
    /// The server asked for a pause that is longer than the request may wait. The request was not sent.
    Paused {
        /// How long the pause lasts.
        wait: Duration,
    },
    /// The request would wait too long for its turn, or too many wait. It was not sent.
    Wait(WaitError),
    /// The service returned an error.
    Service(E),
}

impl<E: fmt::Display> fmt::Display for PacerError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { wait } => write!(
                f,
                "the server asked for a pause of another {wait:?}: send it later, or raise max_wait"
            ),
            Self::Wait(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for PacerError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Paused { .. } => None,
            Self::Wait(error) => Some(error),
            Self::Service(error) => Some(error),
        }
    }
}
