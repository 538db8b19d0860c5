//! The further rates of a log.

use std::time::Duration;

use tollgate::{Quota, SlidingLog};

/// The further rates of a log. (A [`SlidingLog`] does not return them.)
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogRates {
    pub(crate) more: [Option<Quota>; 3],
    pub(crate) count_denials: bool,
}

impl LogRates {
    /// Further rates, given as a limit and a fraction of the quota's period.
    pub(crate) fn beside(quota: &Quota, shares: &[(u64, u32, u32)], count_denials: bool) -> Self {
        let mut more = [None; 3];
        for (rate, (limit, times, of)) in more.iter_mut().zip(shares) {
            let period = quota.period().saturating_mul(*times) / *of;
            *rate = Some(Quota::new(*limit, period.max(Duration::from_nanos(1))));
        }
        Self { more, count_denials }
    }

    pub(crate) fn all(self, quota: &Quota) -> impl Iterator<Item = Quota> {
        std::iter::once(*quota).chain(self.more.into_iter().flatten())
    }

    /// A rate of one event is a minimum gap.
    pub(crate) fn algorithm(self) -> SlidingLog {
        let log = self.more.into_iter().flatten().fold(SlidingLog::new(), |log, rate| {
            if rate.limit() == 1 { log.min_gap(rate.period()) } else { log.and(rate) }
        });
        if self.count_denials { log.count_denials() } else { log }
    }
}
