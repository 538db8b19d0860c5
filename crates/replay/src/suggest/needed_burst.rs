//! The burst that a key needs: exactly, in one pass, without a search.

use tollgate::algorithm::Algorithm;
use tollgate::internals::{NoRing, StateMachine, Step};
use tollgate::{Gcra, Quota, QuotaError, Tick};

use super::keys::{Arrival, Keys};

/// The smallest burst with which a token bucket of that rate never denies these requests.
///
/// A bucket that denies nothing owes, after each request, its previous debt less what time restored,
/// plus the request's cells. The needed burst is the largest debt. The unit of time is a nanosecond
/// times the limit, so one cell is a whole number (the period) and nothing is rounded. The limiter
/// rounds an instant down to its own unit (less than 5 microseconds), so it never needs more than this.
pub(super) fn burst_needed(rate: &Quota, requests: &[Arrival]) -> u64 {
    let limit = u128::from(rate.limit());
    let cell = rate.period().as_nanos().max(1);
    let (mut drained, mut max) = (0_u128, 0_u128);
    for request in requests {
        let now = u128::from(request.nanos) * limit;
        let cost = u128::from(request.cells).saturating_mul(cell);
        let owed = drained.saturating_sub(now).saturating_add(cost);
        drained = now.saturating_add(owed);
        max = max.max(owed);
    }
    u64::try_from(max.div_ceil(cell)).unwrap_or(u64::MAX)
}

/// The denials of a limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Denials {
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    /// Well-behaved keys among `keys`.
    pub(crate) well_behaved: u64,
}

/// Runs the token bucket over all keys.
///
/// # Errors
///
/// The token bucket cannot keep the quota.
pub(super) fn denied(
    quota: &Quota,
    keys: &Keys,
    well_behaved: &[bool],
) -> Result<Denials, QuotaError> {
    let bucket = Gcra::new().params(quota, 0)?;
    let mut denials = Denials::default();
    for (requests, is_well_behaved) in keys.each().zip(well_behaved) {
        let mut word = bucket.fresh(Tick::ZERO);
        let mut count = 0;
        for request in requests {
            let now = Tick::from_nanos(request.nanos);
            let seen = bucket.read(word, NoRing, now, request.cells);
            match bucket.step(seen, now, request.cells) {
                Step::Admit { next } => word = next,
                _ => count += 1,
            }
        }
        denials.requests += count;
        denials.keys += u64::from(count > 0);
        denials.well_behaved += u64::from(count > 0 && *is_well_behaved);
    }
    Ok(denials)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::keys::tests::keys;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn needed_burst(rate: &str, log: &[(u64, u64)]) -> u64 {
        let requests: Vec<_> =
            log.iter().map(|(nanos, cells)| Arrival { nanos: *nanos, cells: *cells }).collect();
        burst_needed(&rate.parse().unwrap(), &requests)
    }

    #[test]
    fn the_needed_burst_is_the_largest_debt() {
        assert_eq!(needed_burst("1/s", &[]), 0);
        assert_eq!(needed_burst("1/s", &[(0, 1), (SECOND, 1), (2 * SECOND, 1)]), 1);
        assert_eq!(needed_burst("1/s", &[(0, 1), (SECOND - 1, 1)]), 2);
        assert_eq!(needed_burst("1/s", &[(0, 3), (SECOND, 1), (SECOND, 1), (9 * SECOND, 2)]), 4);
        assert_eq!(needed_burst("3/s", &[(0, 1), (SECOND / 3, 1)]), 2);
        assert_eq!(needed_burst("3/s", &[(0, 1), (SECOND / 3 + 1, 1)]), 1);
        assert_eq!(needed_burst("1/d", &[(0, u64::MAX), (u64::MAX, u64::MAX)]), u64::MAX);
    }

    proptest! {
        /// A limiter with that burst denies nothing; with one cell less, it denies.
        #[test]
        fn the_needed_burst_is_the_smallest_that_denies_nothing(
            steps in prop::collection::vec((0_u64..5_000, 1_u64..4), 1..60),
            rate in prop::sample::select(vec!["1/s", "3/s", "7/min", "90/min", "50/s"]),
        ) {
            let mut at = 0;
            let log: Vec<_> = steps.iter().map(|(millis, cells)| {
                at += millis * 1_000_000;
                ("a", at, *cells)
            }).collect();
            let keys = keys(&log);
            let rate: Quota = rate.parse().unwrap();
            let burst = burst_needed(&rate, keys.each().next().unwrap());
            let with = |burst| denied(&rate.burst(burst), &keys, &[true]).unwrap();
            prop_assert_eq!(with(burst), Denials::default());
            if burst > 1 {
                prop_assert_eq!(with(burst - 1).well_behaved, 1);
            }
        }
    }
}
