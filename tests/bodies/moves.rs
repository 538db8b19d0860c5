//! Movements of the clock, forwards and backwards.

use std::time::Duration;

use tollgate::Quota;
use tollgate::internals::oracle::Verdict;

use super::grid::nanos;

/// The next time, relative to the last instant and the last answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Stay,
    Forward(u64),
    /// Emission intervals, whole periods and bursts, each plus or minus a nanosecond.
    Intervals(u64, i64),
    Periods(u64, i64),
    Bursts(u64, i64),
    /// A fraction of the period.
    Parts(u32, u32, i64),
    /// To the end of the last denial's wait, and of the last answer's reset time.
    Retry(i64),
    Reset(i64),
    Back(u64),
    BackIntervals(u64, i64),
    Anywhere(u64),
    NearTheEnd(u64),
}

impl Move {
    pub(crate) fn apply(self, now: u64, quota: &Quota, last: &Last) -> u64 {
        let period = nanos(quota.period());
        let interval = period / quota.limit();
        let refill =
            u128::from(period) * u128::from(quota.burst_cells()) / u128::from(quota.limit());
        let refill = u64::try_from(refill).unwrap_or(u64::MAX);
        let forward = |span: u64, off: i64| now.saturating_add(span).saturating_add_signed(off);
        match self {
            Self::Stay => now,
            Self::Forward(span) => forward(span, 0),
            Self::Intervals(count, off) => forward(interval.saturating_mul(count), off).max(now),
            Self::Periods(count, off) => forward(period.saturating_mul(count), off).max(now),
            Self::Bursts(count, off) => forward(refill.saturating_mul(count), off).max(now),
            Self::Parts(parts, of, off) => {
                forward((period / u64::from(of)).saturating_mul(parts.into()), off).max(now)
            }
            Self::Retry(off) => forward(nanos(last.retry_after), off).max(now),
            Self::Reset(off) => forward(nanos(last.reset_after), off).max(now),
            Self::Back(span) => now.saturating_sub(span),
            Self::BackIntervals(count, off) => {
                now.saturating_sub(interval.saturating_mul(count)).saturating_add_signed(off)
            }
            Self::Anywhere(instant) => instant,
            Self::NearTheEnd(before) => u64::MAX - before,
        }
    }
}

/// The times in the last answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Last {
    pub(crate) retry_after: Duration,
    pub(crate) reset_after: Duration,
}

impl From<&Verdict> for Last {
    fn from(answer: &Verdict) -> Self {
        Self {
            retry_after: answer.retry_after.unwrap_or_default(),
            reset_after: answer.reset_after,
        }
    }
}
