//! The denial of an entry, and the errors of building.

use core::fmt;
use core::time::Duration;

use crate::algo::in_flight::Holds;
use crate::decision::Denied;
use crate::limiter::builder::BuildError;

/// The request may not enter: too many are in flight. Nothing was counted.
///
/// It names no time to return: a cell comes back when some other request ends.
///
/// ```
/// use tollgate::concurrency::DirectConcurrency;
///
/// let gate = DirectConcurrency::new(2)?;
/// let _held = gate.enter_n(2)?;
/// let denied = gate.enter().unwrap_err();
/// assert_eq!((denied.limit(), denied.in_flight()), (2, 2));
/// assert_eq!(denied.to_string(), "2 requests are in flight of 2 that may be");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a denial says how many are in flight"]
pub struct ConcurrencyDenied {
    pub(super) limit: u64,
    pub(super) in_flight: u64,
    pub(super) found_no_slot: bool,
}

impl ConcurrencyDenied {
    pub(super) fn no_slot(limit: u64) -> Self {
        Self { limit, in_flight: 0, found_no_slot: true }
    }

    /// The cells that cannot be entered: all, if there is no slot.
    pub(super) fn cells_taken(&self) -> u64 {
        if self.found_no_slot { self.limit } else { self.in_flight }
    }

    /// The cells that may be in flight at one time.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The cells of the key that are in flight. After the limit was lowered it may be above the limit.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether the key found no slot, because all 16 that it could have are taken by keys in use.
    #[must_use]
    pub fn found_no_slot(&self) -> bool {
        self.found_no_slot
    }
}

impl From<Denied> for ConcurrencyDenied {
    fn from(denied: Denied) -> Self {
        // Units until it is idle: each request in flight is one.
        let (limit, in_flight) = (denied.limit(), denied.until_idle());
        Self { limit, in_flight, found_no_slot: false }
    }
}

impl fmt::Display for ConcurrencyDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, in_flight, found_no_slot } = self;
        match found_no_slot {
            true => f.write_str("too many keys have requests in flight"),
            false => write!(f, "{in_flight} requests are in flight of {limit} that may be"),
        }
    }
}

impl core::error::Error for ConcurrencyDenied {}

/// Why a concurrency limiter cannot be built, or its limit not be changed; its text says what to do
/// instead.
///
/// ```
/// use tollgate::concurrency::{ConcurrencyError, DirectConcurrency};
/// assert_eq!(DirectConcurrency::new(0).unwrap_err(), ConcurrencyError::Limit { max: 4_194_303 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConcurrencyError {
    /// The limit is 0, or above what a state can count to.
    Limit {
        /// The largest limit: 4,194,303, or 65,535 with a longest hold.
        max: u64,
    },
    /// The limit of the keys that find no slot is 0, or above what a state can count to.
    OverflowLimit {
        /// The largest limit.
        max: u64,
    },
    /// The longest hold is below a second, or above a century.
    MaxHold,
    /// The capacity, the clock skew or the memory: an error that other limiters have, too.
    Table(BuildError),
}

impl From<BuildError> for ConcurrencyError {
    fn from(error: BuildError) -> Self {
        Self::Table(error)
    }
}

impl fmt::Display for ConcurrencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hold_min: Duration = Holds::HOLD_MIN;
        match self {
            Self::Limit { max } => write!(
                f,
                "the limit of requests in flight must be 1 to {max} (65,535 at most with max_hold)"
            ),
            Self::OverflowLimit { max } => write!(
                f,
                "the limit of requests in flight of keys that find no slot must be 1 to {max}"
            ),
            Self::MaxHold => write!(
                f,
                "max_hold must be {hold_min:?} to a century: give a time that no request takes, or \
                 leave it out"
            ),
            Self::Table(BuildError::SkewTooLarge { max }) => write!(
                f,
                "max_clock_skew is above {max:?}, the maximum by which a clock may be behind with this \
                 max_hold: lower it, or raise max_hold"
            ),
            Self::Table(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConcurrencyError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Table(error) => Some(error),
            Self::Limit { .. } | Self::OverflowLimit { .. } | Self::MaxHold => None,
        }
    }
}
