//! The options of [`SubWindows`], and the parameters for a quota.

use core::num::NonZeroU64;

use super::SubWindowParams;
use super::scan::reciprocal;
use crate::algo::fixed_window::into_window;
use crate::algo::grid::{Grid, YEAR_NANOS};
use crate::algo::{Algorithm, PAYLOAD_BITS, sealed::Sealed};
use crate::quota::{Quota, QuotaError};
use crate::word::Field;

/// The most sub-windows: when the window advances, it reads an older count for each.
const SUB_WINDOWS_MAX: u32 = 256;
/// The largest count of cells.
const COUNT_BITS_MAX: u32 = 30;

/// At most `limit` cells in any `n` successive sub-windows, the current one included: "6 cells a minute" as six
/// windows of ten seconds.
///
/// **Guarantee.** No `n` successive sub-windows grant more than `limit` cells, under any
/// interleaving of threads, hence no span of one period less one sub-window does.
///
/// Sub-windows begin with those of the wall clock at the time when the limiter's clock began. They do not
/// follow a wall clock that is set later, as [`FixedWindow::aligned`](crate::FixedWindow::aligned) does.
///
/// **Not guaranteed.** A span of one whole period touches `n + 1` sub-windows, and may get the
/// grants of the first and the last of them together: never more than twice the limit, and the less
/// the more sub-windows there are. [`SlidingLog`](crate::SlidingLog) is exact. The quota's burst is
/// not used.
///
/// It takes a ring of `n` words for each key.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, ManualClock, Quota, SubWindows, Tick};
///
/// let gate = Direct::builder(Quota::per_minute(6))
///     .algorithm(SubWindows::new())
///     .clock(ManualClock::new())
///     .build()?;
/// let at = |secs| Tick::from_duration(Duration::from_secs(secs));
/// assert!(gate.ask().cells(4).at(at(9)).check().is_ok());
/// assert!(gate.ask().cells(2).at(at(10)).check().is_ok());
/// // The first four leave when the sub-window from 0 to 10 s does, at 60 s.
/// assert_eq!(gate.ask().cells(3).at(at(11)).check().unwrap_err().retry_after(), Some(Duration::from_secs(49)));
/// assert_eq!(gate.ask().cells(3).at(at(60)).check()?.remaining(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubWindows {
    count: u32,
    utc_offset_secs: i32,
    lease_cells: u64,
}

impl SubWindows {
    /// Six sub-windows.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SubWindows};
    /// let gate = Direct::builder(Quota::per_minute(6)).algorithm(SubWindows::new()).build()?;
    /// assert!(gate.check_n(6).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 6, utc_offset_secs: 0, lease_cells: 0 }
    }

    /// `count` sub-windows, 2 to 256.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SubWindows};
    /// let finer = SubWindows::new().count(60);
    /// assert!(Direct::builder(Quota::per_minute(6)).algorithm(finer).build().is_ok());
    /// assert!(Direct::builder(Quota::per_minute(6)).algorithm(finer.count(1)).build().is_err());
    /// ```
    #[must_use]
    pub const fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// Aligns to local time, `seconds` east of Greenwich.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SubWindows};
    /// let in_delhi = SubWindows::new().utc_offset_secs(5 * 3600 + 1800);
    /// assert!(Direct::builder(Quota::per_day(6)).algorithm(in_delhi).build().is_ok());
    /// ```
    #[must_use]
    pub const fn utc_offset_secs(self, seconds: i32) -> Self {
        Self { utc_offset_secs: seconds, ..self }
    }

    /// Allows leases of `cells` cells at a time, at most half of the limit: see
    /// [`LocalLease`](crate::lease::LocalLease) and
    /// [`Builder::lease_hot_keys`](crate::Builder::lease_hot_keys). They are counted when they
    /// are taken, and may be spent until that sub-window ends.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, SubWindows};
    /// let gate: Limiter<str, SubWindows> = Limiter::builder(Quota::per_minute(100_000))
    ///     .algorithm(SubWindows::new().leases(64))
    ///     .lease_hot_keys()
    ///     .build()?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn leases(self, cells: u64) -> Self {
        Self { lease_cells: cells, ..self }
    }
}

impl Default for SubWindows {
    fn default() -> Self {
        Self::new()
    }
}

impl Sealed for SubWindows {}

impl Algorithm for SubWindows {
    type Params = SubWindowParams<false>;

    fn params(&self, quota: &Quota, origin: u64) -> Result<SubWindowParams<false>, QuotaError> {
        if !(2..=SUB_WINDOWS_MAX).contains(&self.count) {
            return Err(QuotaError::SubWindowCount);
        }
        let params =
            SubWindowParams::new(quota, self.count, self.count - 1, origin, self.utc_offset_secs)?;
        params.leasing(self.lease_cells)
    }
}

impl<const WEIGHED: bool> SubWindowParams<WEIGHED> {
    /// `in_period` sub-windows in a period, of which the current one and `older` count.
    pub(in crate::algo) fn new(
        quota: &Quota,
        in_period: u32,
        older: u32,
        origin: u64,
        utc_offset_secs: i32,
    ) -> Result<Self, QuotaError> {
        quota.validate()?;
        let period = quota.period_nanos();
        // One place for each older count, and one for the count that is published before the word
        // advances.
        let places = older + 1;
        let (in_period, older) = (u64::from(in_period), u64::from(older));
        if in_period > period {
            return Err(QuotaError::SubWindowCount);
        }
        // With the oldest counted whole, the total may exceed the estimate by up to the limit.
        let total_max = quota.limit().saturating_mul(1 + u64::from(WEIGHED));
        let count_bits = u64::BITS - total_max.leading_zeros();
        if count_bits > COUNT_BITS_MAX
            || (u128::from(period) << (PAYLOAD_BITS - count_bits)) / u128::from(in_period)
                < YEAR_NANOS
        {
            return Err(QuotaError::SubWindowLimitTooLarge);
        }
        let count = Field::new(0, count_bits);
        let index = count.above(PAYLOAD_BITS - count_bits);
        let grid = Grid::new(in_period, period, index.max(), older + 1);
        // Where the index wraps around, the places must do so with it.
        let cells = if grid.ring().is_some() { places.next_power_of_two() } else { places };
        // No more than 200 years.
        let ahead_nanos = into_window(period, origin, utc_offset_secs)? + period;
        let limit = NonZeroU64::new(quota.limit()).ok_or(QuotaError::ZeroLimit)?;
        let shares = grid.ratio().1;
        let fits = WEIGHED && shares.checked_mul(total_max.max(older) + 1).is_some();
        Ok(Self {
            cell: NonZeroU64::new(shares).filter(|_| fits).unwrap_or(NonZeroU64::MIN),
            grid,
            limit,
            total_max,
            older,
            ahead_nanos,
            count,
            index,
            cells,
            reciprocal: reciprocal(cells),
            lease_cells: 0,
        })
    }

    /// The same with leases of `lease_cells` cells.
    pub(in crate::algo) fn leasing(self, lease_cells: u64) -> Result<Self, QuotaError> {
        match lease_cells <= self.limit.get() / 2 {
            true => Ok(Self { lease_cells, ..self }),
            false => Err(QuotaError::LeaseCellsTooMany),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::algo::sliding_counter::SlidingCounter;
    use crate::algo::{Liveness, StateMachine, Step};
    use crate::time::Tick;
    use crate::word::tile;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_fields_tile_and_round_trip(limit in 1_u64..1 << 20, count: u64, index: u64) {
            let params = SubWindows::new().params(&Quota::per_day(limit), 0).expect("in range");
            prop_assert!(tile(&[params.count, params.index], PAYLOAD_BITS));
            prop_assert!(params.count.max() >= limit);
            let word = params.index.set(params.count.set(0, count), index);
            prop_assert_eq!(params.count.of(word), count & params.count.max());
            prop_assert_eq!(params.index.of(word), index & params.index.max());
        }
    }

    fn charged(params: &SubWindowParams<false>, cells: u64) -> u64 {
        let ring = [0; 8];
        let view = params.read(params.fresh(Tick::ZERO), &ring[..], Tick::ZERO, cells);
        let Step::Admit { next } = params.step(view, Tick::ZERO, cells) else {
            panic!("a key never seen");
        };
        next
    }

    #[test]
    fn a_state_counts_until_its_sub_window_has_left() {
        let params = SubWindows::new().params(&Quota::per_minute(9), 0).expect("in range");
        let word = charged(&params, 4);
        let after = |secs: u64| {
            let now = Tick::from_nanos(secs * 1_000_000_000);
            params.liveness(word, params.instant(now))
        };
        // Four cells for six sub-windows of ten seconds.
        assert_eq!(after(0), Liveness::Live { debt: 24 });
        assert_eq!(after(29), Liveness::Live { debt: 16 });
        assert_eq!(after(59), Liveness::Live { debt: 4 });
        assert_eq!(
            (after(60), after(90)),
            (Liveness::Idle { units: 1 }, Liveness::Idle { units: 4 })
        );
        let fresh = params.liveness(params.fresh(Tick::ZERO), params.instant(Tick::ZERO));
        assert_eq!(fresh, Liveness::Idle { units: 0 });
        let idle_in = |word, secs: u64| {
            params.idle_in(word, params.instant(Tick::from_nanos(secs * 1_000_000_000)))
        };
        assert_eq!([0, 29, 59, 60, 90].map(|secs| idle_in(word, secs)), [6, 4, 1, 0, 0]);
        assert_eq!(idle_in(params.fresh(Tick::ZERO), 0), 0);
    }

    #[test]
    fn a_place_is_free_once_every_clock_has_seen_the_window_leave() {
        let params = SubWindows::new().params(&Quota::per_minute(9), 0).expect("in range");
        let word = charged(&params, 1);
        let wait = |secs: u64| {
            let now = Tick::from_nanos(secs * 1_000_000_000);
            params.no_slot(word, now, Duration::from_secs(10)).retry_after()
        };
        assert_eq!(wait(0), Some(Duration::from_secs(70)));
        assert_eq!(wait(25), Some(Duration::from_secs(45)));
    }

    #[test]
    fn quotas_out_of_range_are_rejected() {
        let built = |count, text: &str| {
            SubWindows::new().count(count).params(&text.parse().expect("a quota"), 0)
        };
        assert_eq!(built(1, "9/min"), Err(QuotaError::SubWindowCount));
        assert_eq!(built(257, "9/min"), Err(QuotaError::SubWindowCount));
        assert_eq!(built(6, "1 per 5 ns"), Err(QuotaError::SubWindowCount));
        assert_eq!(built(6, "1 per 6 ns"), Err(QuotaError::SubWindowLimitTooLarge), "52 days");
        let none = SubWindows::new().params(&Quota::per_minute(0), 0);
        assert_eq!(none, Err(QuotaError::ZeroLimit));
        assert!(built(6, "1073741823/y").is_ok(), "thirty bits");
        assert_eq!(built(6, "1073741824/y"), Err(QuotaError::SubWindowLimitTooLarge));
        assert_eq!(built(6, "2000000000/y"), Err(QuotaError::SubWindowLimitTooLarge));
        assert!(built(2, "9/min").is_ok() && built(256, "9/min").is_ok());
    }

    /// 23 bits of time, in sub-windows of which 2^23 are exactly a year.
    #[test]
    fn the_time_of_a_large_limit_must_span_a_year() {
        let limit = (1 << 30) - 1;
        let built = |nanos| {
            let quota = Quota::new(limit, Duration::from_nanos(nanos));
            SubWindows::new().count(128).params(&quota, 0)
        };
        let params = built(481_201_171_875).expect("a year");
        let ring = params.grid.ring().expect("it comes round");
        assert_eq!(params.grid.span(ring), Duration::from_secs(365 * 86_400));
        assert_eq!(built(481_201_171_874), Err(QuotaError::SubWindowLimitTooLarge));
    }

    #[test]
    fn a_ring_has_a_place_for_each_sub_window_and_more_where_indexes_come_round() {
        for (text, places, horizon) in [
            ("9/min", 6, None),
            // Of 2^24 sub-windows an hour and those that count are ahead of a clock that is behind.
            ("500000000/min", 8, Some(Duration::from_secs(10 * ((1 << 24) - 360 - 6 - 2)))),
        ] {
            let params = SubWindows::new().params(&text.parse().expect("a quota"), 0);
            let params = params.expect("in range");
            assert_eq!((params.ring_cells(), params.cells_to_clear()), (places, places), "{text}");
            assert_eq!(params.horizon(), horizon, "{text}");
        }
    }

    #[test]
    fn a_count_has_the_bits_of_the_limit_or_of_twice_the_limit_where_the_oldest_is_weighed() {
        let quota = Quota::per_minute(9);
        let plain = SubWindows::new().params(&quota, 0).expect("in range");
        let weighed = SlidingCounter::new().params(&quota, 0).expect("in range");
        assert_eq!((plain.count.max(), weighed.count.max()), (15, 31));
    }

    #[test]
    fn leases_take_at_most_half_of_the_limit() {
        let leases = |cells| SubWindows::new().leases(cells).params(&Quota::per_minute(9), 0);
        assert_eq!(leases(4).map(|params| params.lease_cells), Ok(4));
        for cells in [5, 8, 9, 10] {
            assert_eq!(leases(cells), Err(QuotaError::LeaseCellsTooMany), "{cells}");
        }
    }
}
