//! The size of a unit, and how much faster a quota may become: the numbers that the page of `DynamicGcra` states.

use super::*;
use crate::algo::gcra::tests::units::{quotas, take};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn a_unit_is_as_small_a_share_of_a_cell_as_the_page_says(quota in quotas()) {
        let params = GcraEpoch::new(&quota, false).expect("in range");
        let (units, nanos) = params.grid().ratio();
        let is_shorter_than_64 = u128::from(nanos) < 64 * u128::from(units);
        let (cell, is_slow) = (params.gcra.cell(), take(&quota, 1, 32_000));
        match () {
            () if quota.burst_cells() > 1 << 37 => prop_assert!(cell >= 128 || is_shorter_than_64),
            () if is_slow => prop_assert!(cell >= 1_000),
            () => prop_assert!(is_shorter_than_64),
        }
    }

    #[test]
    fn a_quota_may_become_as_much_faster_as_the_page_says(quota in quotas()) {
        let params = GcraEpoch::new(&quota, false).expect("in range");
        let times = match () {
            () if take(&quota, 1, 2_500_000) => 2_500,
            () if take(&quota, quota.burst_cells(), 64_000) => 32,
            () => 1,
        };
        // The same limit in a shorter period: no product leaves its range.
        let faster = Quota::new(quota.limit(), Duration::from_nanos(quota.period_nanos().div_ceil(times)));
        let faster = faster.burst(quota.burst_cells());
        if faster.validate().is_ok() {
            prop_assert!(params.change(&faster, Inherit::AsIs, Tick::ZERO).is_ok(), "{times} times");
        }
    }
}

/// A unit of such a quota is ten nanoseconds, so that its burst has a thousand of them.
#[test]
fn a_quota_whose_burst_comes_back_at_once_may_become_few_times_as_fast() {
    let quota = |limit| Quota::per_second(limit).burst(10);
    let params = GcraEpoch::new(&quota(1_000_000), false).expect("in range");
    let change = |limit| params.change(&quota(limit), Inherit::AsIs, Tick::ZERO);
    assert!(change(10_000_000).is_ok());
    assert_eq!(change(11_000_000), Err(QuotaError::ChangeTooFast));
}
