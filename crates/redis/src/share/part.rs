//! A node's part of a quota.

use tollgate::Quota;

/// The quota divided by the number of live nodes: the same cells in a longer period, so no rate is
/// rounded. A burst below one cell becomes one.
pub(crate) fn part(quota: Quota, live: u64) -> Quota {
    let times = u32::try_from(live).unwrap_or(u32::MAX).max(1);
    let period = quota.period().saturating_mul(times);
    Quota::new(quota.limit(), period).burst((quota.burst_cells() / u64::from(times)).max(1))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_never_sum_to_more_than_the_whole(
            limit in 1_u64..1 << 40, burst in 1_u64..1 << 40, period in 1_u64..1 << 50, live in 1_u64..1_000,
        ) {
            let quota = Quota::new(limit, Duration::from_nanos(period)).burst(burst);
            let one = part(quota, live);
            prop_assert_eq!(one.limit(), limit);
            prop_assert_eq!(one.period().as_nanos(), u128::from(period) * u128::from(live));
            prop_assert!(one.burst_cells() * live <= burst.max(live));
        }
    }
}
