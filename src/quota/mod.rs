//! A quota: how many cells, in how long, and how many at once.

mod error;
#[cfg(feature = "serde")]
mod serialize;
mod text;

use core::time::Duration;

pub use error::QuotaError;

use crate::time::saturating_nanos;

/// How many cells a key may spend: `limit` per `period`, at most `burst` of them at once.
///
/// It is kept as given and never rounded. An algorithm accepts or rejects it when a limiter is
/// built, with an error that says what to change; [`Quota::validate`] checks the ranges below
/// earlier.
///
/// | | min | max |
/// |---|---|---|
/// | rate | 1 per 366 days | 1,000,000,000 per second |
/// | limit, burst | 1 | 2^40 (1,099,511,627,776) |
/// | period | 1 ns | 100 years |
/// | time to refill the whole burst | | 2^62 ns (146 years) |
///
/// Without [`Quota::burst`] the burst is the limit: "100 per second" lets 100 cells pass at once
/// after a pause. Fixed windows count to `limit` and do not use the burst.
///
/// # Text form
///
/// A text is a limit, a period, and optionally a burst.
///
/// | part | forms | examples |
/// |---|---|---|
/// | limit | a whole number, its digits grouped by single `_` if wanted, and `k` or `M` for 1,000 and 1,000,000 | `100`, `1_000`, `5k`, `2M` |
/// | the word for a cell, if wanted | `r`, `req`, `request`, `call`, `hit`, `event`, `query`, `cell`, `byte`, and their plurals; it changes nothing | `100 requests` |
/// | period | `/` or `per`, a whole number if it is not 1, and a unit | `/s`, `per minute`, `/15m`, `per 2 days` |
/// | unit | `ns`, `us`, `ms`, `s`, `min` or `m`, `h`, `d`, `w`, `y` (365 days), `sec`, `hr`, `yr`, or the word in full; a month has no fixed length | `second`, `hours` |
/// | limit and period in short | `rps` or `qps`, `rpm`, `rph`, `rpd` after the limit | `10rps`, `5 rpm` |
/// | burst | `burst` and a number as for the limit | `burst 20` |
///
/// Spaces between the parts are optional, except between two words. Upper and lower case mean the
/// same, except that `m` after the limit is not `M`. `Display` writes a text that parses back to
/// the same quota: `5 requests per 2 days` becomes `5/2d`.
///
/// Errors contain the column. For fractions (`1.5/s`), commas (`1,000/s`), months and data rates
/// (`10 Mbps`), they also suggest the right form.
///
/// With the feature `serde`, a quota is serialized as this text, and deserialized with these errors.
///
/// ```
/// use tollgate::Quota;
///
/// let quota: Quota = "100/s burst 20".parse()?;
/// assert_eq!(quota, Quota::per_second(100).burst(20));
/// assert_eq!(quota.to_string(), "100/s burst 20");
/// assert_eq!("1k requests per minute".parse::<Quota>()?, Quota::per_minute(1_000));
/// assert_eq!("10rps burst 3".parse::<Quota>()?, Quota::per_second(10).burst(3));
///
/// let error = "1.5/s".parse::<Quota>().unwrap_err().to_string();
/// assert!(error.starts_with("column 2: expected a whole number (for 1.5 cells a second write"));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    period: Duration,
    burst: Option<u64>,
}

/// The longest time one cell may take to come back.
const EMISSION_INTERVAL_NANOS_MAX: u128 = 366 * 24 * 3_600 * 1_000_000_000;
const PERIOD_NANOS_MAX: u64 = 100 * 365 * 24 * 3_600 * 1_000_000_000;
const REFILL_NANOS_MAX: u128 = 1 << 62;
/// The largest limit and the largest burst.
pub(crate) const CELLS_MAX: u64 = 1 << 40;

impl Quota {
    /// `limit` cells per `period`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    ///
    /// let quota = Quota::new(5, Duration::from_secs(2 * 24 * 3600));
    /// assert_eq!(quota, "5 per 2 days".parse().unwrap());
    /// ```
    #[must_use]
    pub const fn new(limit: u64, period: Duration) -> Self {
        Self { limit, period, burst: None }
    }

    /// `limit` cells a second.
    ///
    /// ```
    /// use std::time::Duration;
    /// assert_eq!(tollgate::Quota::per_second(3).period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub const fn per_second(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(1))
    }

    /// `limit` cells a minute.
    ///
    /// ```
    /// assert_eq!(tollgate::Quota::per_minute(20), "20/minute".parse().unwrap());
    /// ```
    #[must_use]
    pub const fn per_minute(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(60))
    }

    /// `limit` cells an hour.
    ///
    /// ```
    /// assert_eq!(tollgate::Quota::per_hour(20), "20/h".parse().unwrap());
    /// ```
    #[must_use]
    pub const fn per_hour(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(3_600))
    }

    /// `limit` cells in 24 hours.
    ///
    /// ```
    /// assert_eq!(tollgate::Quota::per_day(20), "20 per day".parse().unwrap());
    /// ```
    #[must_use]
    pub const fn per_day(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(24 * 3_600))
    }

    /// The same rate with at most `cells` at once.
    ///
    /// ```
    /// assert_eq!(tollgate::Quota::per_second(100).burst(20).burst_cells(), 20);
    /// ```
    #[must_use]
    pub const fn burst(self, cells: u64) -> Self {
        Self { burst: Some(cells), ..self }
    }

    /// Cells per [`period`](Self::period), as given.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The time in which [`limit`](Self::limit) cells come back, as given.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// The most cells at once: the burst as given, else the limit.
    ///
    /// ```
    /// assert_eq!(tollgate::Quota::per_second(7).burst_cells(), 7);
    /// ```
    #[must_use]
    pub const fn burst_cells(&self) -> u64 {
        match self.burst {
            Some(cells) => cells,
            None => self.limit,
        }
    }

    /// Whether the ranges in the type's table hold.
    ///
    /// # Errors
    ///
    /// The first range that does not hold, with advice.
    ///
    /// ```
    /// use tollgate::{Quota, QuotaError};
    ///
    /// assert_eq!(Quota::per_second(1).validate(), Ok(()));
    /// assert_eq!(Quota::per_second(0).validate(), Err(QuotaError::ZeroLimit));
    /// assert_eq!(Quota::per_second(2_000_000_000).validate(), Err(QuotaError::TooFast));
    /// ```
    pub const fn validate(&self) -> Result<(), QuotaError> {
        if self.limit == 0 {
            return Err(QuotaError::ZeroLimit);
        }
        if self.period.is_zero() {
            return Err(QuotaError::ZeroPeriod);
        }
        if self.burst_cells() == 0 {
            return Err(QuotaError::ZeroBurst);
        }
        let period_nanos = saturating_nanos(self.period);
        if period_nanos > PERIOD_NANOS_MAX {
            return Err(QuotaError::PeriodTooLong);
        }
        if period_nanos < self.limit {
            return Err(QuotaError::TooFast);
        }
        if self.limit > CELLS_MAX {
            return Err(QuotaError::LimitTooLarge);
        }
        if self.burst_cells() > CELLS_MAX {
            return Err(QuotaError::BurstTooLarge);
        }
        if period_nanos as u128 > EMISSION_INTERVAL_NANOS_MAX * self.limit as u128 {
            return Err(QuotaError::TooSlow);
        }
        if self.burst_cells() as u128 * period_nanos as u128 > REFILL_NANOS_MAX * self.limit as u128
        {
            return Err(QuotaError::RefillTooLong);
        }
        Ok(())
    }

    /// The period in nanoseconds; exact once [`Quota::validate`] has passed.
    pub(crate) const fn period_nanos(&self) -> u64 {
        saturating_nanos(self.period)
    }

    /// The burst as given, if any.
    const fn burst_given(&self) -> Option<u64> {
        self.burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

    #[test]
    fn the_whole_documented_range_is_accepted() {
        for quota in [
            Quota::new(1, YEAR),
            Quota::new(1, Duration::from_secs(366 * 24 * 3_600)).burst(1),
            Quota::new(1, YEAR).burst(100),
            // 2^62 ns to refill.
            Quota::new(1, Duration::from_nanos(1 << 22)).burst(CELLS_MAX),
            Quota::per_second(1_000_000_000),
            Quota::per_second(1_000_000_000).burst(1),
            Quota::new(1, Duration::from_nanos(1)),
            Quota::per_day(CELLS_MAX),
            Quota::per_second(1_000).burst(1 << 32),
            Quota::new(100, YEAR * 100),
        ] {
            assert_eq!(quota.validate(), Ok(()), "{quota}");
        }
    }

    #[test]
    fn a_quota_out_of_range_has_the_error_of_its_range() {
        use QuotaError as E;
        for (quota, error) in [
            (Quota::per_second(0), E::ZeroLimit),
            (Quota::new(1, Duration::ZERO), E::ZeroPeriod),
            (Quota::per_second(1).burst(0), E::ZeroBurst),
            (Quota::per_second(1_000_000_001), E::TooFast),
            (Quota::new(u64::MAX, Duration::MAX), E::PeriodTooLong),
            (Quota::new(1, YEAR * 2), E::TooSlow),
            (Quota::new(1_000, YEAR * 101), E::PeriodTooLong),
            (Quota::per_day(CELLS_MAX + 1), E::LimitTooLarge),
            (Quota::per_second(1).burst(CELLS_MAX + 1), E::BurstTooLarge),
            (Quota::per_second(1).burst(1 << 33), E::RefillTooLong),
        ] {
            assert_eq!(quota.validate(), Err(error), "{quota:?}");
        }
    }
}
