//! Decisions of a limiter with penalties.

use core::fmt;
use core::time::Duration;

use crate::decision::Denied;

/// A denial by [`Penalties`](super::Penalties).
///
/// ```
/// use std::time::Duration;
/// use tollgate::penalty::{Penalties, PenaltyDenied};
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
/// let gate = Penalties::builder(gate, Quota::per_hour(2), Duration::from_secs(60)).build()?;
/// assert!(matches!(gate.check_n(&7, 10), Err(PenaltyDenied::Limited(_))));
/// assert!(matches!(gate.check_n(&7, 10), Err(PenaltyDenied::Banned(_))));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is nothing else to deny by")]
#[must_use = "a denial says when to come back"]
pub enum PenaltyDenied {
    /// The limiter denied.
    Limited(Denied),
    /// The key is banned.
    Banned(Ban),
}

impl PenaltyDenied {
    /// The shortest time after which the same request would be admitted, if nothing else happened
    /// to the key, according to the limiter or the ban alone. `None` if it asks the limiter for
    /// more cells than can ever fit.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<u64> = Limiter::builder(Quota::per_second(1)).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_hour(2), Duration::from_secs(60)).build()?;
    /// assert!(gate.ask(&7).at(Tick::ZERO).check().is_ok());
    /// let waits = [(); 2].map(|()| gate.ask(&7).at(Tick::ZERO).check().unwrap_err().retry_after());
    /// assert_eq!(waits, [Some(Duration::from_secs(1)), Some(Duration::from_secs(60))]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limited(denied) => denied.retry_after(),
            Self::Banned(ban) => Some(ban.ends_in()),
        }
    }
}

impl fmt::Display for PenaltyDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(denied) => denied.fmt(f),
            Self::Banned(ban) if ban.begins => write!(f, "banned for {:?}", ban.ends_in()),
            Self::Banned(ban) => write!(f, "banned for another {:?}", ban.ends_in()),
        }
    }
}

impl core::error::Error for PenaltyDenied {}

/// The ban of a key: see [`PenaltyDenied::Banned`].
///
/// ```
/// use std::time::Duration;
/// use tollgate::penalty::{Penalties, PenaltyDenied};
/// use tollgate::{Limiter, Quota, Tick};
///
/// let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
/// let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
/// let later = Tick::from_duration(Duration::from_secs(50));
/// for (now, begins, ends_in) in [(Tick::ZERO, true, 60), (later, false, 10)] {
///     let Err(PenaltyDenied::Banned(ban)) = gate.ask(&7).cells(10).at(now).check() else { panic!() };
///     assert_eq!((ban.begins(), ban.ends_in().as_secs()), (begins, ends_in));
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    pub(super) ends_in: Duration,
    pub(super) begins: bool,
}

impl Ban {
    /// How long until the ban ends, rounded up to a nanosecond.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::{Penalties, PenaltyDenied};
    /// # use tollgate::{Limiter, Quota, Tick};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
    /// let Err(PenaltyDenied::Banned(ban)) = gate.ask(&7).cells(10).at(Tick::ZERO).check() else { panic!() };
    /// assert_eq!(ban.ends_in(), Duration::from_secs(60));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn ends_in(&self) -> Duration {
        self.ends_in
    }

    /// Whether this request caused the ban.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::{Penalties, PenaltyDenied};
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60)).build()?;
    /// let Err(PenaltyDenied::Banned(ban)) = gate.check_n(&7, 10) else { panic!() };
    /// assert!(ban.begins());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn begins(&self) -> bool {
        self.begins
    }
}

/// Counters of [`Penalties`](super::Penalties).
///
/// ```
/// assert_eq!(tollgate::penalty::PenaltyStats::default().bans, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PenaltyStats {
    /// Bans that began.
    pub bans: u64,
    /// Requests denied because their key was already banned.
    pub denied_banned: u64,
    /// Keys that are banned now.
    pub banned_now: usize,
    /// Bans that were evicted to make room for others.
    pub forgotten: u64,
}
