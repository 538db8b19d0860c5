//! The builder of a limiter with penalties.

use core::fmt;
use core::hash::Hash;
use core::time::Duration;

use super::{NeverRead, Penalties};
use crate::algo::Algorithm;
use crate::algo::fixed_window::FixedWindow;
use crate::algo::gcra::Gcra;
use crate::limiter::Limiter;
use crate::limiter::builder::{BuildError, OnFull};
use crate::limiter::slot_layout::SlotLayout;
use crate::quota::Quota;
use crate::table::Tally;
use crate::time::Clock;
use crate::time::quanta_clock::QuantaClock;

/// The default of [`PenaltiesBuilder::capacity`].
const CAPACITY_DEFAULT: u64 = 100_000;

/// Builds [`Penalties`]. Returned by [`Penalties::builder`].
///
/// ```
/// use std::time::Duration;
/// use tollgate::penalty::Penalties;
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<u64> = Limiter::builder(Quota::per_second(100)).build()?;
/// let gate = Penalties::builder(gate, Quota::per_minute(20), Duration::from_secs(600))
///     .capacity(10_000)
///     .prolonged()
///     .build()?;
/// assert!(gate.check(&7).is_ok());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct PenaltiesBuilder<K: ?Sized, A: Algorithm = Gcra, C = QuantaClock> {
    limiter: Limiter<K, A, C>,
    strikes: Quota,
    ban: Duration,
    capacity: u64,
    prolonged: bool,
    failures_only: bool,
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> PenaltiesBuilder<K, A, C> {
    pub(super) fn new(limiter: Limiter<K, A, C>, strikes: Quota, ban: Duration) -> Self {
        let capacity = CAPACITY_DEFAULT;
        let (prolonged, failures_only) = (false, false);
        Self { limiter, strikes, ban, capacity, prolonged, failures_only }
    }

    /// Sets for how many keys with strikes, and for as many with a ban, there is room. The
    /// default is 100,000.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_hour(3), Duration::from_secs(60))
    ///     .capacity(1_000)
    ///     .build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn capacity(self, keys: u64) -> Self {
        Self { capacity: keys, ..self }
    }

    /// Makes every request of a banned key restart its ban. Off by default.
    ///
    /// A client that keeps on trying then stays banned. Each such request writes to memory.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60))
    ///     .prolonged()
    ///     .build()?;
    /// let at = |seconds| Tick::from_duration(Duration::from_secs(seconds));
    /// assert!(gate.ask(&7).cells(10).at(at(0)).check().is_err());
    /// assert!(gate.ask(&7).at(at(59)).check().is_err());
    /// assert_eq!(gate.ask(&7).at(at(61)).banned(), Some(Duration::from_secs(58)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn prolonged(self) -> Self {
        Self { prolonged: true, ..self }
    }

    /// Counts only [reported](Penalties::strike) failures as strikes, and no denials. Off by
    /// default.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::{Penalties, PenaltyDenied};
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// let gate = Penalties::builder(gate, Quota::per_hour(1), Duration::from_secs(60))
    ///     .failures_only()
    ///     .build()?;
    /// assert!(matches!(gate.check_n(&7, 10), Err(PenaltyDenied::Limited(_))));
    /// assert!(gate.strike(&7).is_some());
    /// assert!(matches!(gate.check_n(&7, 10), Err(PenaltyDenied::Banned(_))));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn failures_only(self) -> Self {
        Self { failures_only: true, ..self }
    }

    /// Checks all options and allocates the memory.
    ///
    /// # Errors
    ///
    /// The strikes are outside the range of a [`FixedWindow`]'s quota, a ban has no length or is longer than
    /// 366 days, the limiter's clock skew is too large for one of them, or the capacity is out of range. The
    /// error says which.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::penalty::Penalties;
    /// # use tollgate::{Limiter, Quota};
    /// # let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// assert!(Penalties::builder(gate, Quota::per_hour(3), Duration::ZERO).build().is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn build(self) -> Result<Penalties<K, A, C>, BuildError> {
        let Self { limiter, strikes, ban, capacity, prolonged, failures_only } = self;
        let skew = limiter.table().skew();
        let limit = |quota| {
            let begun = Limiter::builder(quota).clock(NeverRead).capacity(capacity);
            // Wide slots, since only they keep the end of a ban to the microsecond.
            begun.slots(SlotLayout::Wide).max_clock_skew(skew).on_full(OnFull::EvictNearestIdle)
        };
        let strikes = limit(strikes).algorithm(FixedWindow::anchored()).build();
        let bans = limit(Quota::new(1, ban)).build();
        Ok(Penalties {
            strikes: strikes.map_err(|error| match error {
                BuildError::Quota(error) => BuildError::StrikesQuota(error),
                BuildError::SkewTooLarge { max } => BuildError::StrikesSkewTooLarge { max },
                other => other,
            })?,
            bans: bans.map_err(|error| match error {
                BuildError::Quota(_) => BuildError::BanOutOfRange(ban),
                BuildError::SkewTooLarge { max } => BuildError::BanSkewTooLarge { max },
                other => other,
            })?,
            tally: Tally::new(),
            limiter,
            prolonged,
            failures_only,
        })
    }
}

impl<K: ?Sized, A: Algorithm, C: fmt::Debug> fmt::Debug for PenaltiesBuilder<K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PenaltiesBuilder")
            .field("limiter", &self.limiter)
            .field("strikes", &self.strikes)
            .field("ban", &self.ban)
            .field("capacity", &self.capacity)
            .field("prolonged", &self.prolonged)
            .field("failures_only", &self.failures_only)
            .finish()
    }
}
