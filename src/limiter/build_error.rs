//! The errors of building a limiter.

use core::fmt;
use core::time::Duration;

use crate::quota::QuotaError;

/// Why a limiter cannot be built; its text says what to do instead.
///
/// ```
/// use tollgate::{BuildError, Limiter, Quota};
///
/// let built: Result<Limiter<u64>, _> = Limiter::builder(Quota::per_second(1)).capacity(0).build();
/// assert_eq!(built.unwrap_err(), BuildError::ZeroCapacity);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The quota is out of range.
    Quota(QuotaError),
    /// The overflow quota is out of range.
    OverflowQuota(QuotaError),
    /// The quota of the strikes of a [penalty](crate::penalty) is out of range.
    StrikesQuota(QuotaError),
    /// The ban of a [penalty](crate::penalty) has no length, or lasts longer than 366 days.
    BanOutOfRange(Duration),
    /// A capacity of zero keys.
    ZeroCapacity,
    /// More keys than 2^32 buckets hold, about 18 thousand million.
    CapacityTooLarge,
    /// The clocks are allowed to differ by so much that the algorithm's time grid cannot tell a clock
    /// that is behind from an old state.
    SkewTooLarge {
        /// The most that can be allowed with this quota and algorithm.
        max: Duration,
    },
    /// As [`SkewTooLarge`](Self::SkewTooLarge), with the overflow quota.
    OverflowSkewTooLarge {
        /// The most that can be allowed with the overflow quota and the algorithm.
        max: Duration,
    },
    /// As [`SkewTooLarge`](Self::SkewTooLarge), with the quota of the strikes of a [penalty](crate::penalty).
    StrikesSkewTooLarge {
        /// The most that the limiter can allow with these strikes.
        max: Duration,
    },
    /// As [`SkewTooLarge`](Self::SkewTooLarge), with the length of the ban of a [penalty](crate::penalty).
    BanSkewTooLarge {
        /// The most that the limiter can allow with this ban.
        max: Duration,
    },
    /// The algorithm, or the quota, needs more than a compact slot has: see
    /// [`SlotLayout`](crate::limiter::SlotLayout).
    NotCompact,
    /// Hot keys are to be leased, and the algorithm takes no cells ahead.
    NothingToLease,
    /// The system has no memory for that capacity.
    OutOfMemory,
}

impl From<QuotaError> for BuildError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(error) => write!(f, "quota: {error}"),
            Self::OverflowQuota(error) => write!(f, "overflow quota: {error}"),
            Self::StrikesQuota(error) => write!(f, "strikes: {error}"),
            Self::BanOutOfRange(ban) => {
                write!(f, "the ban lasts {ban:?}: let it last between 1 ns and 366 days")
            }
            Self::ZeroCapacity => f.write_str(
                "the capacity is 0 keys: give the number of keys that are active at one time \
                 (use Direct for a limiter without keys)",
            ),
            Self::CapacityTooLarge => {
                f.write_str("the capacity is above 18 thousand million keys: lower it")
            }
            Self::SkewTooLarge { max } => write!(
                f,
                "max_clock_skew is above {max:?}, the maximum by which states of this quota can be told \
                 from old ones: lower it, or give the quota a longer period or a larger burst",
            ),
            Self::OverflowSkewTooLarge { max } => write!(
                f,
                "max_clock_skew is above {max:?}, the maximum by which states of the overflow quota can be told \
                 from old ones: lower it, or give the overflow quota a longer period or a larger burst",
            ),
            Self::StrikesSkewTooLarge { max } => write!(
                f,
                "max_clock_skew of the limiter is above {max:?}, the maximum by which the strikes of a key can be \
                 told from old ones: lower it, or give the strikes a longer period",
            ),
            Self::BanSkewTooLarge { max } => write!(
                f,
                "max_clock_skew of the limiter is above {max:?}, the maximum by which the ban of a key can be \
                 told from an old one: lower it, or let the ban last longer",
            ),
            Self::NotCompact => f.write_str(
                "compact slots were asked for, but this algorithm or quota does not fit them: use \
                 SlotLayout::Auto or SlotLayout::Wide. Leases (Gcra::leases, FixedWindow::leases, \
                 lease_hot_keys), Gcra::for_plans and all algorithms but Gcra, LeakyQueue and \
                 FixedWindow need wide slots. Gcra and LeakyQueue fit with at most 1.5 million cells a \
                 second and a burst of at most 2^31 that takes 0.64 ms or longer to come back; FixedWindow with a lower limit or \
                 a longer period",
            ),
            Self::NothingToLease => f.write_str(
                "lease_hot_keys needs to know how many cells a thread may take ahead: choose them \
                 with `leases` of Gcra, FixedWindow, SubWindows or SlidingCounter, for example \
                 .algorithm(Gcra::new().leases(64))",
            ),
            Self::OutOfMemory => f.write_str(
                "the system has no memory for this capacity (about 29 bytes a key, 15 in compact \
                 slots, and 15 for each word of its ring, where the algorithm has one): lower it",
            ),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Quota(error) | Self::OverflowQuota(error) | Self::StrikesQuota(error) => {
                Some(error)
            }
            _ => None,
        }
    }
}
