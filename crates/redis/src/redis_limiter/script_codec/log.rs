//! The sliding window log: when the latest cells were spent, in a sorted set.

use core::time::Duration;

use tollgate::decision::DecisionParts;
use tollgate::{Quota, QuotaError};

use super::{Decoded, granted, natural, whole_micros};
use crate::algorithm::Algorithm;
use crate::redis_limiter::RedisLimiterError;

/// The largest number of rates, including the quota's own.
const RATES_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// Limit, and window in microseconds.
    rates: Vec<(u64, u64)>,
    count_denials: bool,
}

impl Log {
    pub(super) fn new(
        quota: &Quota,
        more: &[Quota],
        count_denials: bool,
    ) -> Result<Self, RedisLimiterError> {
        if more.len() >= RATES_MAX {
            return Err(RedisLimiterError::Quota(QuotaError::TooManyRates));
        }
        let rate = |quota: &Quota| {
            quota.validate().map_err(RedisLimiterError::Quota)?;
            if quota.limit() > Algorithm::MAX_LOG_LIMIT {
                return Err(RedisLimiterError::LogTooLarge);
            }
            Ok((quota.limit(), whole_micros(quota.period())?))
        };
        let rates = core::iter::once(quota).chain(more).map(rate).collect::<Result<_, _>>()?;
        Ok(Self { rates, count_denials })
    }

    pub(super) fn shape(&self) -> String {
        "log".into()
    }

    pub(super) fn arguments(&self, _: u64) -> Vec<u64> {
        let places = self.rates.iter().map(|(limit, _)| *limit).max().unwrap_or(1);
        let rates = self.rates.iter().flat_map(|(limit, window)| [*limit, *window]);
        [u64::from(self.count_denials), places].into_iter().chain(rates).collect()
    }

    /// The smallest limit of all rates.
    fn limit(&self) -> u64 {
        self.rates.iter().map(|(limit, _)| *limit).min().unwrap_or(1)
    }

    pub(super) fn max_at_once(&self) -> u64 {
        self.limit().min(Algorithm::MAX_LOG_CELLS_PER_CALL)
    }

    pub(super) fn lifetime(&self) -> Duration {
        Duration::ZERO
    }

    pub(super) fn decode(&self, reply: &[i64], _: u64) -> Option<Decoded> {
        let &[cells, remaining, reset, wait] = reply else { return None };
        Some(Decoded {
            cells: granted(cells),
            parts: DecisionParts {
                limit: self.limit(),
                remaining: natural(remaining)?,
                reset_after: Duration::from_micros(natural(reset)?),
            },
            retry_after: Duration::from_micros(natural(wait)?),
            lifetime: Duration::ZERO,
        })
    }
}
