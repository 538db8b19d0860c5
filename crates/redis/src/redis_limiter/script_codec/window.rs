//! Fixed windows: when the current one ends, and what it has counted.
//!
//! Cells of a lease are kept no longer than the window that counted them, so no window sees more
//! than the limit. The end is by the server's clock. A process counts from when it sent the call,
//! which is before the server read its clock, so its cells expire no later than the window.

use core::time::Duration;

use tollgate::Quota;
use tollgate::decision::DecisionParts;

use super::{Decoded, epoch_into, granted, natural, whole_micros};
use crate::redis_limiter::RedisLimiterError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    limit: u64,
    period: u64,
    /// How far into its window the epoch lies. `None` if the first cell opens a window.
    ahead: Option<u64>,
    lease_micros: u64,
}

impl Window {
    pub(super) fn new(
        quota: &Quota,
        utc_offset_secs: Option<i32>,
        lease_micros: u64,
    ) -> Result<Self, RedisLimiterError> {
        let period = whole_micros(quota.period())?;
        let ahead = utc_offset_secs.map(|offset| epoch_into(period, offset)).transpose()?;
        Ok(Self { limit: quota.limit(), period, ahead, lease_micros })
    }

    pub(super) fn shape(&self) -> String {
        match self.ahead {
            Some(ahead) => format!("window{}+{ahead}", self.period),
            None => format!("window{}", self.period),
        }
    }

    pub(super) fn arguments(&self, _: u64) -> Vec<u64> {
        [self.limit, self.period].into_iter().chain(self.ahead).collect()
    }

    pub(super) fn max_at_once(&self) -> u64 {
        self.limit
    }

    pub(super) fn lifetime(&self) -> Duration {
        Duration::from_micros(self.lease_micros)
    }

    pub(super) fn decode(&self, reply: &[i64], _: u64) -> Option<Decoded> {
        let &[cells, counted, left] = reply else { return None };
        let (counted, left) = (natural(counted)?, Duration::from_micros(natural(left)?));
        Some(Decoded {
            cells: granted(cells),
            parts: DecisionParts {
                limit: self.limit,
                remaining: self.limit.saturating_sub(counted),
                reset_after: if counted == 0 { Duration::ZERO } else { left },
            },
            retry_after: left,
            lifetime: self.lifetime().min(left),
        })
    }
}
