//! The sliding window counter: two windows, the older one weighed by how much of it is left.
//!
//! The word, the ring and the step are those of [`sub_windows`](super::sub_windows), with the
//! oldest count weighed by its overlap.

use super::sub_windows::SubWindowParams;
use super::{Algorithm, sealed::Sealed};
use crate::quota::{Quota, QuotaError};

/// The most older windows.
const OLDER_MAX: u32 = 256;

/// The two-window weighted estimate: the cells of this window, and those of the last one in
/// proportion to its overlap with the sliding window. A request is admitted if the estimate,
/// rounded down, leaves room for its cells below or at the limit.
///
/// It smooths the fixed window's boundary at the price of two small counts. Limit 7, 5 cells in
/// the last window, 3 in this one, of which 30 % has passed: the estimate is 3 + 0.7 * 5 = 6.5,
/// so one more cell fits, and then none until just after 40 % have passed.
///
/// **Guarantee.** At every admission the estimate, rounded down and with the cells that are asked
/// for, is at most the limit, exactly and under any interleaving of threads.
///
/// **Not guaranteed.** The estimate assumes that the older window's cells are spread evenly. If
/// they were not, a span of one period may see up to twice the limit; and the first window of a
/// steady overload grants all of the limit at its beginning. With [`older`](Self::older) windows of
/// a fraction of the period, a span shorter than the period by one of them sees at most the limit.
/// [`SlidingLog`](crate::SlidingLog) is exact. The quota's burst is not used.
///
/// It takes a ring of one word more than older windows for each key.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, ManualClock, Quota, SlidingCounter, Tick};
///
/// let gate = Direct::builder(Quota::per_minute(7))
///     .algorithm(SlidingCounter::new())
///     .clock(ManualClock::new())
///     .build()?;
/// let at = |secs| Tick::from_duration(Duration::from_secs(secs));
/// assert!(gate.ask().cells(5).at(at(30)).check().is_ok());
/// assert!(gate.ask().cells(3).at(at(70)).check().is_ok());
/// assert!(gate.ask().at(at(78)).check().is_ok());
/// let denied = gate.ask().at(at(78)).check().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_nanos(6_000_000_001)));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    older: u32,
    utc_offset_secs: i32,
    lease_cells: u64,
}

impl SlidingCounter {
    /// Two windows of one period: the current one, and the one before it.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SlidingCounter};
    /// let gate = Direct::builder(Quota::per_day(9)).algorithm(SlidingCounter::new()).build()?;
    /// assert!(gate.check_n(9).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { older: 1, utc_offset_secs: 0, lease_cells: 0 }
    }

    /// Windows of a period divided by `count` (1 to 256), and `count` older ones beside the
    /// current, of which only the oldest is weighed.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SlidingCounter};
    /// let finer = SlidingCounter::new().older(10);
    /// assert!(Direct::builder(Quota::per_day(9)).algorithm(finer).build().is_ok());
    /// assert!(Direct::builder(Quota::per_day(9)).algorithm(finer.older(0)).build().is_err());
    /// ```
    #[must_use]
    pub const fn older(self, count: u32) -> Self {
        Self { older: count, ..self }
    }

    /// Aligns to local time, `seconds` east of Greenwich.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SlidingCounter};
    /// let in_delhi = SlidingCounter::new().utc_offset_secs(5 * 3600 + 1800);
    /// assert!(Direct::builder(Quota::per_day(9)).algorithm(in_delhi).build().is_ok());
    /// ```
    #[must_use]
    pub const fn utc_offset_secs(self, seconds: i32) -> Self {
        Self { utc_offset_secs: seconds, ..self }
    }

    /// Allows leases of `cells` cells at a time, at most half of the limit: see
    /// [`LocalLease`](crate::lease::LocalLease) and
    /// [`Builder::lease_hot_keys`](crate::Builder::lease_hot_keys). They are counted when they
    /// are taken, and may be spent until that window ends. The permit for such a cell counts all cells
    /// of the oldest window, unweighed, so its `remaining` may be too low.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, SlidingCounter};
    /// let gate: Limiter<str, SlidingCounter> = Limiter::builder(Quota::per_minute(100_000))
    ///     .algorithm(SlidingCounter::new().leases(64))
    ///     .lease_hot_keys()
    ///     .build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn leases(self, cells: u64) -> Self {
        Self { lease_cells: cells, ..self }
    }
}

impl Default for SlidingCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl Sealed for SlidingCounter {}

impl Algorithm for SlidingCounter {
    type Params = SubWindowParams<true>;

    fn params(&self, quota: &Quota, origin: u64) -> Result<SubWindowParams<true>, QuotaError> {
        if !(1..=OLDER_MAX).contains(&self.older) {
            return Err(QuotaError::SubWindowCount);
        }
        let params =
            SubWindowParams::new(quota, self.older, self.older, origin, self.utc_offset_secs)?;
        params.leasing(self.lease_cells)
    }
}
