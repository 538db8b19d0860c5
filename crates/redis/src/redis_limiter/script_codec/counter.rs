//! The sliding window counter: counts of sub-windows, of which the oldest is weighed.
//!
//! Cells of a lease that are spent in a span of one period were charged within a span that is
//! longer by the lease's lifetime. Windows are therefore longer by the lifetime, and the counter's
//! bound holds for what is spent.

use core::time::Duration;

use tollgate::decision::DecisionParts;
use tollgate::{Quota, QuotaError};

use super::{Decoded, epoch_into, granted, micros, natural, whole_micros};
use crate::redis_limiter::RedisLimiterError;

const OLDER_MAX: u32 = 256;
/// The largest period times older windows. Products in the script stay below 2^53.
const MULTIPLE_MAX: u64 = 1 << 51;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    limit: u64,
    /// The quota's period plus the lifetime of leases. A sub-window is `period / older`.
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
        if period > MULTIPLE_MAX / older {
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

    pub(super) fn max_at_once(&self) -> u64 {
        self.limit
    }

    pub(super) fn lifetime(&self) -> Duration {
        Duration::from_micros(self.lease_micros)
    }

    pub(super) fn decode(&self, reply: &[i64], min: u64) -> Option<Decoded> {
        let [cells, now, latest, counts @ ..] = reply else { return None };
        let counts: Option<Vec<u128>> =
            // A sub-window weighs no more than the limit, whichever quota counted in it.
            counts.iter().map(|count| natural(*count).map(|it| it.min(self.limit).into())).collect();
        let latest = u128::try_from(*latest).ok();
        let counts = SubWindowCounts { counter: self, latest, counts: counts? };
        let now = u128::from(natural(*now)?) + u128::from(self.ahead);
        let room = u128::from(self.limit).saturating_sub(counts.estimate(now));
        let cells = granted(*cells);
        Some(Decoded {
            cells,
            parts: DecisionParts {
                limit: self.limit,
                remaining: u64::try_from(room).unwrap_or(u64::MAX),
                reset_after: micros(counts.all_left_at().saturating_sub(now)),
            },
            retry_after: match cells {
                Some(_) => Duration::ZERO,
                None => micros(counts.first_fitting(now, min).saturating_sub(now)),
            },
            lifetime: self.lifetime(),
        })
    }
}

/// The counts of a key. Times are in microseconds since the beginning of a window.
struct SubWindowCounts<'a> {
    counter: &'a Counter,
    /// The latest sub-window that was charged, if any.
    latest: Option<u128>,
    /// The cells of the latest sub-window and of those before it.
    counts: Vec<u128>,
}

impl SubWindowCounts<'_> {
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

    /// When no charge counts any more.
    fn all_left_at(&self) -> u128 {
        let (period, older) = (u128::from(self.counter.period), u128::from(self.counter.older));
        self.latest.map_or(0, |latest| ((latest + older + 1) * period).div_ceil(older))
    }

    /// When `n` cells fit that do not fit now. Without further charges an estimate never rises.
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
