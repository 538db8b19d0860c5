//! Errors of buckets that cannot pace bytes.

use core::fmt;

use tollgate::QuotaError;

/// Why a bucket cannot pace bytes. Its text says what to do instead.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_paced::{Pace, PaceError};
///
/// let error = Pace::new(Quota::per_second(1_000).burst(1)).unwrap_err();
/// assert_eq!(error, PaceError::BurstTooSmall);
/// assert!(matches!(Pace::new(Quota::per_second(0)).unwrap_err(), PaceError::Quota(_)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaceError {
    /// The quota is out of range.
    Quota(QuotaError),
    /// A burst of one byte: less than two chunks.
    BurstTooSmall,
}

impl fmt::Display for PaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(error) => error.fmt(f),
            Self::BurstTooSmall => f.write_str(
                "the burst is 1 byte, and pacing needs at least 2: choose a burst of at least \
                 the bytes that the rate carries in 10 ms",
            ),
        }
    }
}

impl core::error::Error for PaceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Quota(error) => error.source(),
            Self::BurstTooSmall => None,
        }
    }
}

impl From<QuotaError> for PaceError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}
