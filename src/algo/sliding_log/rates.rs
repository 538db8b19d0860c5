//! The rates of a log, and the parameters for them.

use core::time::Duration;

use super::{LAP_BITS, RATES_MAX, Rate, SlidingLogParams, TIME};
use crate::algo::grid::{Back, Grid, YEAR_NANOS, gcd};
use crate::algo::{Algorithm, PAYLOAD_BITS, sealed::Sealed};
use crate::quota::{Quota, QuotaError};
use crate::word::Field;

/// The largest limit.
const LIMIT_MAX: u64 = 1 << 16;
/// The preferred unit: 52 bits of it outlast every tick.
const UNIT_NANOS: u128 = 5_000;
const HOUR: Duration = Duration::from_secs(3_600);
/// Units in the shortest window: preferred, and required.
const UNITS_IN_WINDOW: u128 = 10_000;
const UNITS_IN_WINDOW_MIN: u128 = 1_000;
/// How many of the longest windows the word's time can tell apart.
const WINDOWS_APART: u128 = 1_024;

/// Every event of the window, exactly: at most `limit` cells in any span of one period.
///
/// **Guarantee.** No span of one period has more than `limit` cells, wherever it begins, under any
/// interleaving of threads; and no span of a further rate's period has more than that rate's limit.
/// A decision reads one event for each rate, whatever the limit.
///
/// **Not guaranteed.** An event that falls on the beginning of a time unit (5 microseconds in
/// ordinary cases, never more than a thousandth of the shortest window) leaves its window exactly
/// one period after it happened, any other less than a unit later. See [`Limiter`](crate::Limiter)
/// for what happens to a key that loses its slot. A key that has kept its slot unused for months may
/// be denied for a while for what it did before. The quota's burst is not used.
///
/// Each state takes a ring of 8 bytes for each cell of the largest limit, and 16 bytes more: at most
/// 65,536 cells, so half a megabyte. A table has nearly two states for each key of its capacity.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, SlidingLog, Tick};
///
/// // 10 a minute, and no more than 2 in 3 seconds.
/// let log = SlidingLog::new().and(Quota::new(2, Duration::from_secs(3)));
/// let gate = Direct::builder(Quota::per_minute(10)).algorithm(log).build()?;
/// let at = |millis| Tick::from_duration(Duration::from_millis(millis));
/// assert!(gate.ask().at(at(0)).check().is_ok());
/// assert_eq!(gate.ask().at(at(500)).check()?.remaining(), 0);
/// let denied = gate.ask().at(at(1_000)).check().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(2_000)));
/// assert_eq!(gate.ask().at(at(3_000)).check()?.remaining(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    more: [Option<Quota>; RATES_MAX - 1],
    too_many: bool,
    count_denials: bool,
}

impl SlidingLog {
    /// One rate, the quota's; denied requests are ignored.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SlidingLog};
    /// let gate = Direct::builder(Quota::per_minute(10)).algorithm(SlidingLog::new()).build()?;
    /// assert!(gate.check_n(10).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { more: [None; RATES_MAX - 1], too_many: false, count_denials: false }
    }

    /// Holds every key to a further rate as well, up to three. A request that one rate denies
    /// counts in none.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, SlidingLog};
    /// let log = SlidingLog::new().and(Quota::per_second(2)).and(Quota::per_hour(500));
    /// let gate = Direct::builder(Quota::per_minute(60)).algorithm(log).build()?;
    /// assert_eq!(gate.check().unwrap().remaining(), 1);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn and(mut self, rate: Quota) -> Self {
        let mut index = 0;
        while index < self.more.len() {
            if self.more[index].is_none() {
                self.more[index] = Some(rate);
                return self;
            }
            index += 1;
        }
        self.too_many = true;
        self
    }

    /// Keeps events at least this far apart: a rate of one in a window of that length.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, SlidingLog, Tick};
    /// let log = SlidingLog::new().min_gap(Duration::from_millis(2));
    /// let gate = Direct::builder(Quota::per_second(4)).algorithm(log).build()?;
    /// assert!(gate.ask().at(Tick::ZERO).check().is_ok());
    /// assert!(gate.ask().at(Tick::from_nanos(1_999_999)).check().is_err());
    /// assert!(gate.ask().at(Tick::from_nanos(2_000_000)).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn min_gap(self, gap: Duration) -> Self {
        self.and(Quota::new(1, gap))
    }

    /// Counts denied requests like admitted ones, so that a client that keeps asking keeps waiting.
    /// (A request for more cells than can ever fit still counts for nothing.)
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SlidingLog, Tick};
    /// let log = SlidingLog::new().count_denials();
    /// let gate = Direct::builder(Quota::per_second(1)).algorithm(log).build()?;
    /// let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    /// assert!(gate.ask().at(at(0)).check().is_ok());
    /// assert!(gate.ask().at(at(900)).check().is_err());
    /// assert!(gate.ask().at(at(1_800)).check().is_err());
    /// assert!(gate.ask().at(at(2_800)).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn count_denials(self) -> Self {
        Self { count_denials: true, ..self }
    }
}

impl Default for SlidingLog {
    fn default() -> Self {
        Self::new()
    }
}

impl Sealed for SlidingLog {}

impl Algorithm for SlidingLog {
    type Params = SlidingLogParams;

    fn params(&self, quota: &Quota, _unix_origin_nanos: u64) -> Result<Self::Params, QuotaError> {
        if self.too_many {
            return Err(QuotaError::TooManyRates);
        }
        let mut rates = [Rate { limit: 0, window: 0, back: Back::NONE }; RATES_MAX];
        let mut count = 0;
        for quota in [Some(*quota)].iter().chain(&self.more).flatten() {
            quota.validate()?;
            if quota.limit() > LIMIT_MAX {
                return Err(QuotaError::LogLimitTooLarge);
            }
            rates[count] =
                Rate { limit: quota.limit(), window: quota.period_nanos(), back: Back::NONE };
            count += 1;
        }
        SlidingLogParams::new(rates, count, self.count_denials)
    }
}

impl SlidingLogParams {
    /// `rates` have their windows in nanoseconds.
    pub(super) fn new(
        mut rates: [Rate; RATES_MAX],
        rate_count: usize,
        count_denials: bool,
    ) -> Result<Self, QuotaError> {
        let given = &mut rates[..rate_count];
        let fold = |pick: fn(&Rate) -> u64, choose: fn(u64, u64) -> u64| {
            given.iter().map(pick).reduce(choose).expect("the quota is a rate")
        };
        let places = fold(|rate| rate.limit, u64::max);
        let limit_min = fold(|rate| rate.limit, u64::min);
        let shortest = fold(|rate| rate.window, u64::min);
        let longest = fold(|rate| rate.window, u64::max);
        let common = fold(|rate| rate.window, gcd);

        let filled = Field::new(0, u64::BITS - places.leading_zeros());
        let lap = filled.above(LAP_BITS);
        let time = lap.above(PAYLOAD_BITS - LAP_BITS - filled.bits());
        let units = units_in(common, shortest, longest, time)?;
        let window_max = longest / common * units;
        let grid = Grid::new(units, common, TIME.max(), window_max);
        for rate in given {
            // All windows are multiples of their common divisor.
            rate.window = rate.window / common * units;
            rate.back = grid.back(rate.window);
        }
        let ahead_max = (time.max() / 8_192).min(grid.units_in(HOUR)).max(2);
        Ok(Self {
            ahead_max,
            behind_max: time.max() - ahead_max,
            grid,
            rates,
            rate_count,
            count_denials,
            is_plain: rate_count == 1 && !count_denials,
            places,
            limit_min,
            window_max,
            filled,
            lap,
            round: Field::new(0, filled.bits() + LAP_BITS),
            time,
        })
    }
}

/// Units in the windows' greatest common divisor, chosen as the module says.
fn units_in(common: u64, shortest: u64, longest: u64, time: Field) -> Result<u64, QuotaError> {
    let spans = |nanos: u128| nanos.div_ceil(u128::from(time.max()) + 1);
    let fine_enough = (u128::from(shortest) / UNITS_IN_WINDOW_MIN).max(1);
    let wanted = UNIT_NANOS
        .max(spans(YEAR_NANOS)) // what the word's time should span
        .min(u128::from(shortest) / UNITS_IN_WINDOW)
        .max(spans(u128::from(longest) * WINDOWS_APART))
        .max(1);
    let units = u128::from(common) / wanted;
    if units == 0 || u128::from(common) / units > fine_enough {
        return Err(QuotaError::LogWindowsTooFarApart);
    }
    Ok(u64::try_from(units).expect("at most the divisor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::{Liveness, StateMachine, Step};
    use crate::time::Tick;

    fn params(log: SlidingLog, quota: Quota) -> Result<SlidingLogParams, QuotaError> {
        log.params(&quota, 0)
    }

    #[test]
    fn a_fifth_rate_is_rejected() {
        let minute = Quota::per_minute(60);
        let mut log = SlidingLog::new();
        for count in 1..RATES_MAX {
            log = log.and(Quota::per_second(count as u64));
        }
        let built = params(log, minute).expect("four rates");
        assert!(built.rates().iter().map(|rate| rate.limit).eq([60, 1, 2, 3]));
        assert_eq!(params(log.and(Quota::per_hour(9)), minute), Err(QuotaError::TooManyRates));
    }

    #[test]
    fn a_limit_above_65536_is_rejected() {
        assert!(params(SlidingLog::new(), Quota::per_day(65_536)).is_ok());
        let more = params(SlidingLog::new(), Quota::per_day(65_537));
        assert_eq!(more, Err(QuotaError::LogLimitTooLarge));
    }

    /// Five microseconds in ordinary cases; a ten-thousandth of a short window; and what a year, or
    /// 1,024 of the longest windows, leave of the word's time.
    #[test]
    fn units_are_as_fine_as_the_windows_and_the_words_time_allow() {
        let unit_nanos = |log, quota| {
            params(log, quota).map(|params: SlidingLogParams| {
                let (units, nanos) = params.grid().ratio();
                nanos.div_ceil(units)
            })
        };
        let log = SlidingLog::new();
        assert_eq!(unit_nanos(log, Quota::per_second(10)), Ok(5_000));
        let millis = |millis| Quota::new(10, Duration::from_millis(millis));
        assert_eq!(unit_nanos(log, millis(1)), Ok(100));
        assert_eq!(unit_nanos(log, millis(2)), Ok(200));
        let fine = log.and(Quota::new(1, Duration::from_micros(10)));
        assert_eq!(unit_nanos(fine, millis(1)), Ok(1));
        let apart = log.and(Quota::new(1, Duration::from_nanos(10)));
        assert_eq!(unit_nanos(apart, Quota::per_day(9)), Err(QuotaError::LogWindowsTooFarApart));
        // 1,024 windows take 1.5 times as many nanoseconds as 45 bits have.
        let long = Quota::new(60, Duration::from_millis(51_500));
        let and = |nanos| log.and(Quota::new(1, Duration::from_nanos(nanos)));
        assert_eq!(unit_nanos(and(10_000), long), Ok(2));
        assert_eq!(unit_nanos(and(2_000), long), Ok(2), "a thousand of the shortest");
        assert_eq!(unit_nanos(and(1_000), long), Err(QuotaError::LogWindowsTooFarApart));
        // With 17 bits for the places, 34 are left: they hold 1,024 such windows, to the unit.
        let longest = Quota::new(1 << 16, Duration::from_nanos(2_000_000 << 24));
        assert_eq!(unit_nanos(log, longest), Ok(2_000_000));
        // So for a day the unit is 5.1 ms at best, too coarse for a second.
        let and_a_second = log.and(Quota::per_second(1));
        let apart = unit_nanos(and_a_second, Quota::per_day(1 << 16));
        assert_eq!(apart, Err(QuotaError::LogWindowsTooFarApart));
    }

    #[test]
    fn horizon_and_skew_tolerance_follow_from_the_bits_of_the_time() {
        let log = params(SlidingLog::new(), Quota::per_second(16)).expect("in range");
        // 51 bits of payload less five for the places: 46 of time, in units of 5 microseconds.
        let time = log.time.max();
        let span = |units: u64| Duration::from_nanos(units * 5_000);
        assert_eq!(log.horizon(), Some(span(time - log.ahead_max - 1)));
        assert_eq!(log.skew_tolerance(), Some(span(log.ahead_max - 1)));
        assert_eq!(log.ahead_max, 720_000_000, "an hour");
        // 34 bits of time, in units of a millisecond: an eighth of a thousandth of them.
        let ten_seconds = Quota::new(1 << 16, Duration::from_secs(10));
        let log = params(SlidingLog::new(), ten_seconds).expect("in range");
        assert_eq!((log.grid().ratio(), log.time.max()), ((1, 1_000_000), (1 << 34) - 1));
        assert_eq!(log.ahead_max, (1 << 21) - 1);
    }

    #[test]
    fn a_log_is_idle_once_its_latest_event_has_left_the_window() {
        let log = params(SlidingLog::new(), Quota::per_second(10)).expect("in range");
        let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
        let fresh = log.fresh(at(1_000));
        assert_eq!(log.liveness(fresh, log.instant(at(1_000))), Liveness::Idle { units: 0 });
        let behind = log.liveness(fresh, log.instant(at(500)));
        assert_eq!(behind, Liveness::Idle { units: 0 }, "nothing was charged, whatever the clock");

        let ring = [0; 12];
        let view = log.read(fresh, &ring[..], at(1_000), 1);
        let Step::Admit { next } = log.step(view, at(1_000), 1) else {
            panic!("a key never seen");
        };
        let liveness = |millis| log.liveness(next, log.instant(at(millis)));
        assert_eq!(liveness(1_000), Liveness::Live { debt: 200_000 });
        assert_eq!(liveness(1_999), Liveness::Live { debt: 200 });
        assert_eq!(liveness(4_000), Liveness::Idle { units: 400_000 });
    }
}
