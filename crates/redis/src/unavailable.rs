//! The reasons for which the server gave no decision.

use core::fmt;

/// The server gave no decision. The caller or a fallback decides instead.
///
/// ```
/// use tollgate_redis::Unavailable;
///
/// assert_eq!(Unavailable::TimedOut.to_string(), "the server did not answer in time");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// There was no answer by the deadline. Whether the server charged the cells is unknown.
    TimedOut,
    /// There is no connection, or it broke. Whether the server charged the cells is unknown.
    Disconnected,
    /// The server was not asked, because too many recent calls had failed.
    CircuitOpen,
    /// The server answered with an error, for example that it is out of memory.
    Failed(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the server did not answer in time"),
            Self::Disconnected => f.write_str("the server cannot be reached"),
            Self::CircuitOpen => f.write_str("the server failed a moment ago and was not asked"),
            Self::Failed(error) => write!(f, "the server failed: {error}"),
        }
    }
}

impl core::error::Error for Unavailable {}
