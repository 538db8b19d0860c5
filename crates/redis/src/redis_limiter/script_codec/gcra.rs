//! The token bucket: the time until everything that was charged has drained.
//!
//! Times are in parts of a microsecond. The number of parts is chosen so that a cell is a whole number of
//! them, so no rate is rounded. A script receives a time as whole microseconds and parts, so none
//! of its numbers reaches 2^53.
//!
//! # Leases
//!
//! Cells that are kept for up to `L` are charged to a bucket that is smaller by what comes back in
//! `L`. Cells spent in a span `w` were charged in a span `w + L`, so they are at most
//! `(burst - rate * L) + rate * (w + L) = burst + rate * w`, over any number of processes.

use core::time::Duration;

use tollgate::Quota;
use tollgate::decision::DecisionParts;

use super::{Decoded, granted, micros, natural};
use crate::redis_limiter::RedisLimiterError;

/// The largest number of parts that a script can multiply by the cells of a lease.
const LEASE_PARTS_MAX: u64 = 1 << 33;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Parts in a microsecond.
    parts: u64,
    /// Parts in which one cell comes back.
    cell: u128,
    /// Parts in which all cells come back that may be spent at once.
    capacity: u128,
    lease_micros: u64,
}

impl Bucket {
    pub(super) fn new(quota: &Quota, lease_micros: u64) -> Result<Self, RedisLimiterError> {
        // A cell comes back in period / limit, and a microsecond is 1,000 ns.
        let (period, thousand_limits) =
            (quota.period().as_nanos(), u128::from(quota.limit()) * 1_000);
        let shared = gcd(period, thousand_limits);
        let (cell, parts) = (period / shared, thousand_limits / shared);
        let parts = u64::try_from(parts).unwrap_or(u64::MAX);
        let burst = u128::from(quota.burst_cells()) * cell;
        // At least one cell and half of the burst remain.
        let spare = (burst - cell).min(burst / 2) / u128::from(parts);
        let lease_kept = lease_micros.min(u64::try_from(spare).unwrap_or(u64::MAX));
        if lease_micros > 0 && (lease_kept == 0 || parts > LEASE_PARTS_MAX) {
            return Err(RedisLimiterError::NoRoomForLeases);
        }
        let capacity = burst - u128::from(lease_kept) * u128::from(parts);
        Ok(Self { parts, cell, capacity, lease_micros: lease_kept })
    }

    pub(super) fn shape(&self) -> String {
        "bucket".into()
    }

    pub(super) fn arguments(&self, min: u64) -> Vec<u64> {
        let mut arguments = vec![self.parts];
        for span in [self.capacity, self.cell, u128::from(min) * self.cell] {
            let parts = u128::from(self.parts);
            arguments.extend([span / parts, span % parts].map(|half| {
                // At most the burst, which comes back within 2^62 ns.
                u64::try_from(half).unwrap_or(u64::MAX)
            }));
        }
        arguments
    }

    pub(super) fn max_at_once(&self) -> u64 {
        u64::try_from(self.capacity / self.cell).unwrap_or(u64::MAX)
    }

    pub(super) fn lifetime(&self) -> Duration {
        Duration::from_micros(self.lease_micros)
    }

    pub(super) fn decode(&self, reply: &[i64], min: u64) -> Option<Decoded> {
        let &[cells, debt_micros, debt_parts] = reply else { return None };
        let parts = u128::from(self.parts);
        let debt = u128::from(natural(debt_micros)?) * parts + u128::from(natural(debt_parts)?);
        let remaining = self.capacity.saturating_sub(debt) / self.cell;
        let wait = (debt + u128::from(min) * self.cell).saturating_sub(self.capacity);
        let cells = granted(cells);
        Some(Decoded {
            cells,
            parts: DecisionParts {
                limit: self.max_at_once(),
                remaining: u64::try_from(remaining).unwrap_or(u64::MAX),
                reset_after: micros(debt.div_ceil(parts)),
            },
            retry_after: micros(wait.div_ceil(parts)),
            lifetime: self.lifetime(),
        })
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXACT: u64 = 1 << 53;

    #[test]
    fn a_lease_leaves_a_cell_and_half_of_the_burst() {
        let lifetime = |quota: Quota, lease| Bucket::new(&quota, lease).map(|it| it.lease_micros);
        assert_eq!(lifetime(Quota::per_second(100), 50_000), Ok(50_000));
        assert_eq!(lifetime(Quota::per_second(100), 900_000), Ok(500_000));
        assert_eq!(lifetime(Quota::per_second(100).burst(2), 900_000), Ok(10_000));
        let single = Quota::per_second(100).burst(1);
        assert_eq!(lifetime(single, 1_000), Err(RedisLimiterError::NoRoomForLeases));
        assert_eq!(Bucket::new(&Quota::per_second(100), 50_000).unwrap().max_at_once(), 95);
    }

    proptest! {
        /// No number reaches 2^53, for any quota and any state.
        #[test]
        fn all_numbers_are_exact(
            limit_bits in 0_u32..40, burst_bits in 0_u32..40, period_bits in 0_u32..62, less: u64,
            lease in 0_u64..10_000_000,
        ) {
            let below = |bits: u32| (1_u64 << bits) + (less & ((1 << bits) - 1));
            let quota = Quota::new(below(limit_bits), Duration::from_nanos(below(period_bits)))
                .burst(below(burst_bits));
            prop_assume!(quota.validate().is_ok());
            let Ok(bucket) = Bucket::new(&quota, lease) else { return Ok(()) };
            let arguments = bucket.arguments(bucket.max_at_once());
            prop_assert!(arguments.iter().all(|number| *number < EXACT));
            // The server's time plus a debt of the whole burst.
            prop_assert!((1 << 51) + arguments[1] < EXACT);
            prop_assert!(arguments[0] * 2 <= EXACT, "two remainders may be added");
            prop_assert!(bucket.max_at_once() >= 1);
            prop_assert!(bucket.capacity * 2 >= u128::from(quota.burst_cells()) * bucket.cell);
        }
    }
}
