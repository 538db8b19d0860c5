//! The sliding window counter: counts of sub-windows, the oldest weighed.
//!
//! Cells of a lease that are spent in a span of one period were charged in one that is longer by
//! the lease's lifetime. So windows are made longer by it, and whatever holds of a counter holds of
//! what is spent.

use core::time::Duration;

use tollgate::decision::DecisionParts;
use tollgate::{Quota, QuotaError};

use super::{Told, epoch_into, granted, micros, natural, whole_micros};
use crate::central::RedisLimiterError;

const OLDER_MAX: u32 = 256;
/// The longest period times the older windows: what a script multiplies stays below 2^53.
const PLACES_MAX: u64 = 1 << 51;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    limit: u64,
    /// With the lifetime of leases. A sub-window is `period / older`.
    period: u64,
    older: u64,
    ahead: u64,
    lease_micros: u64,
}

impl Counter {
    pub(super) fn new(
        quota: &Quota,
        older: u32,
        utc_offset_secs: i32,
        lease_micros: u64,
    ) -> Result<Self, RedisLimiterError> {
        if !(1..=OLDER_MAX).contains(&older) {
            return Err(RedisLimiterError::Quota(QuotaError::SubWindowCount));
        }
        let older = u64::from(older);
        let asked = whole_micros(quota.period())?;
        let lease_micros = lease_micros.min(asked / 2);
        let period = asked + lease_micros;
        if period < older {
            return Err(RedisLimiterError::Quota(QuotaError::SubWindowCount));
        }
        if period > PLACES_MAX / older {
            return Err(RedisLimiterError::WindowsTooLong);
        }
        let ahead = epoch_into(period, utc_offset_secs)?;
        Ok(Self { limit: quota.limit(), period, older, ahead, lease_micros })
    }

    pub(super) fn shape(&self) -> String {
        format!("counter{}/{}+{}", self.period, self.older, self.ahead)
    }

    pub(super) fn arguments(&self, _: u64) -> Vec<u64> {
        vec![self.limit, self.period, self.older, self.ahead]
    }

    pub(super) fn most_at_once(&self) -> u64 {
        self.limit
    }

    pub(super) fn lifetime(&self) -> Duration {
        Duration::from_micros(self.lease_micros)
    }

    pub(super) fn tell(&self, reply: &[i64], least: u64) -> Option<Told> {
        let [cells, now, latest, counts @ ..] = reply else { return None };
        let counts: Option<Vec<u128>> =
            // A sub-window weighs no more than the limit, whichever quota has counted in it.
            counts.iter().map(|count| natural(*count).map(|it| it.min(self.limit).into())).collect();
        let latest = u128::try_from(*latest).ok();
        let counts = Counts { counter: self, latest, counts: counts? };
        let now = u128::from(natural(*now)?) + u128::from(self.ahead);
        let room = u128::from(self.limit).saturating_sub(counts.estimate(now));
        let cells = granted(*cells);
        Some(Told {
            cells,
            parts: DecisionParts {
                limit: self.limit,
                remaining: u64::try_from(room).unwrap_or(u64::MAX),
                reset_after: micros(counts.all_left_at().saturating_sub(now)),
            },
            retry_after: match cells {
                Some(_) => Duration::ZERO,
                None => micros(counts.first_fitting(now, least).saturating_sub(now)),
            },
            lifetime: self.lifetime(),
        })
    }
}

/// What a key has counted. Times are microseconds since the beginning of a window.
struct Counts<'a> {
    counter: &'a Counter,
    /// The latest sub-window that was charged, if any was.
    latest: Option<u128>,
    /// Its cells, and those of the ones before it.
    counts: Vec<u128>,
}

impl Counts<'_> {
    fn of(&self, sub_window: u128) -> u128 {
        let back = self.latest.and_then(|latest| latest.checked_sub(sub_window));
        let back = back.and_then(|back| usize::try_from(back).ok());
        back.and_then(|back| self.counts.get(back)).copied().unwrap_or(0)
    }

    fn estimate(&self, now: u128) -> u128 {
        let (period, older) = (u128::from(self.counter.period), u128::from(self.counter.older));
        let placed = now * older;
        let (begun, passed) = (placed / period, placed % period);
        let (current, passed) = match self.latest {
            Some(latest) if latest > begun => (latest, 0),
            _ => (begun, passed),
        };
        let newer = (0..older).filter_map(|back| current.checked_sub(back));
        let newer: u128 = newer.map(|sub_window| self.of(sub_window)).sum();
        let oldest = current.checked_sub(older).map_or(0, |sub_window| self.of(sub_window));
        newer + oldest * (period - passed) / period
    }

    /// When nothing of what was charged counts any more.
    fn all_left_at(&self) -> u128 {
        let (period, older) = (u128::from(self.counter.period), u128::from(self.counter.older));
        self.latest.map_or(0, |latest| ((latest + older + 1) * period).div_ceil(older))
    }

    /// When `n` cells fit that do not fit now: while nothing is charged, an estimate never rises.
    fn first_fitting(&self, now: u128, n: u64) -> u128 {
        let limit = u128::from(self.counter.limit);
        let fits = |at: u128| self.estimate(at) + u128::from(n) <= limit;
        let (mut too_early, mut fitting) = (now, self.all_left_at().max(now));
        while fitting - too_early > 1 {
            let between = too_early + (fitting - too_early) / 2;
            if fits(between) {
                fitting = between;
            } else {
                too_early = between;
            }
        }
        fitting
    }
}
