//! The length of a time unit, and the difference of clocks that it tolerates. The numbers are those that documents state: the
//! pages of `Gcra`, `SlotLayout` and `DynamicGcra`, `docs/guarantees.md` and `docs/glossary.md`.

use super::*;

const DAY_NANOS: u64 = 24 * 3_600 * 1_000_000_000;

/// Any quota that is in range, each size as likely as any other.
pub(in crate::algo) fn quotas() -> impl Strategy<Value = Quota> {
    (0_u32..55, 0_u32..41, 0_u32..41, any::<[u64; 4]>()).prop_filter_map(
        "in range",
        |(interval_bits, limit_bits, burst_bits, low)| {
            let below = |bits: u32, low: u64| (1 << bits) | (low & ((1 << bits) - 1));
            let limit = below(limit_bits.min(61 - interval_bits), low[0]);
            let burst = below(burst_bits.min(62 - interval_bits), low[1]);
            let period = limit.checked_mul(below(interval_bits, low[2]))?;
            let period = Duration::from_nanos(period.checked_add(low[3] % limit)?);
            let quota = Quota::new(limit, period).burst(burst);
            quota.validate().is_ok().then_some(quota)
        },
    )
}

/// Whether a unit is shorter than so many nanoseconds.
fn is_shorter(params: &GcraParams, nanos: u64) -> bool {
    let (units, nanos_of_units) = params.grid.ratio();
    u128::from(nanos_of_units) < u128::from(nanos) * u128::from(units)
}

/// Whether `cells` take so long to come back, or longer.
pub(in crate::algo) fn take(quota: &Quota, cells: u64, nanos: u64) -> bool {
    let all = u128::from(cells) * u128::from(quota.period_nanos());
    all >= u128::from(nanos) * u128::from(quota.limit())
}

/// Seconds; without a bound, the most.
fn secs(span: Option<Duration>) -> u64 {
    span.map_or(u64::MAX, |span| span.as_secs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn a_unit_is_as_short_as_the_documents_say(quota in quotas()) {
        let burst = quota.burst_cells();
        let wide = Gcra::new().params(&quota, 0).expect("in range");
        prop_assert!(is_shorter(&wide, 5_000));
        prop_assert!(wide.capacity >= 1_000 || is_shorter(&wide, 2), "a thousandth of the burst");

        let compact = Gcra::new().compact_params(&quota, 0).expect("in range");
        let fits = burst <= 1 << 31 && take(&quota, burst, 1_280_000) && take(&quota, 1, 667);
        prop_assert!(compact.is_some() || !fits);
        let Some(compact) = compact else { return Ok(()) };
        let is_long = take(&quota, burst, 6 * DAY_NANOS);
        prop_assert!(is_shorter(&compact, 500_000) || is_long && compact.capacity >= 1 << 30);
        prop_assert!(compact.capacity >= 1_000);
    }

    #[test]
    fn clocks_may_differ_by_as_much_as_the_documents_say(quota in quotas()) {
        let (burst, is_slow) = (quota.burst_cells(), |nanos| take(&quota, 1, nanos));
        let grid = Gcra::new().params(&quota, 0).expect("in range").grid;
        let at_least = match () {
            () if take(&quota, burst, 5_000_000) && is_slow(2_500) => u64::MAX,
            // 4.4 million cells a second.
            () if take(&quota, burst, 500_000) && is_slow(228) => 365 * 86_400,
            () if take(&quota, burst, 10_000) && is_slow(4) => 3_600,
            () => 18 * 60,
        };
        prop_assert!(secs(grid.skew_tolerance()) >= at_least, "{at_least}");

        let Ok(Some(compact)) = Gcra::new().compact_params(&quota, 0) else { return Ok(()) };
        let is_ordinary = take(&quota, burst, 400_000_000) && is_slow(200_000);
        let at_least = if is_ordinary { 55 * 60 } else { 10 };
        prop_assert!(secs(compact.grid.skew_tolerance()) >= at_least);
        let at_least_days = if is_ordinary { 238 } else { 1 };
        prop_assert!(secs(compact.grid.horizon()) >= at_least_days * 86_400);
    }
}

#[test]
fn units_of_some_quotas_are_longer_than_the_smallest_that_would_do() {
    let unit_nanos = |params: GcraParams| params.grid.span(1).as_nanos();
    assert_eq!(unit_nanos(params("300000/s")), 3_333);
    for (quota, nanos) in [
        ("3000/s", 333_333),
        ("1000/30d", 1_206_994),
        ("1000/365d", 14_685_098),
        // A burst of more than 2^30 cells has one unit in a cell.
        ("5000/s burst 2000000000", 200_000),
        ("1000/s burst 1100000000", 1_000_000),
    ] {
        let compact = compact(&quota.parse().expect("a quota")).expect(quota);
        assert_eq!(unit_nanos(compact), nanos, "{quota}");
    }
}

/// A cell comes back at the beginning of the unit in which it is due.
#[test]
fn a_span_of_a_nanosecond_is_granted_what_a_unit_restores() {
    let quota = Quota::per_second(3_000);
    let compact = compact(&quota).expect("fits");
    let [late, next] = [333_333, 333_334].map(Tick::from_nanos);
    let Step::Admit { next: spent } = compact.step(compact.fresh(late), late, 3_000) else {
        panic!("it is full");
    };
    let Step::Admit { next: spent } = compact.step(spent, next, 1) else {
        panic!("its unit has begun");
    };
    assert_eq!(compact.step(spent, next, 1), Step::Deny);
    // The bound: the burst, and what comes back in a nanosecond and a unit.
    let unit_nanos = compact.grid.span(1).as_nanos() + 1;
    assert_eq!(3_000 + 3_000 * (1 + unit_nanos) / 1_000_000_000, 3_001);
}

/// At five million cells a second the grid wraps, also if the burst takes a second to come back.
#[test]
fn a_clock_two_hours_behind_may_take_a_fast_quota_in_debt_for_idle() {
    let params = params("5000000/s");
    let hour = |hours: u64| Tick::from_nanos(hours * 3_600 * 1_000_000_000);
    let Step::Admit { next } = params.step(params.fresh(hour(10)), hour(10), 5_000_000) else {
        panic!("it is full");
    };
    assert_eq!(params.step(next, hour(9), 1), Step::Deny, "within the tolerance");
    assert!(matches!(params.step(next, hour(8), 5_000_000), Step::Admit { .. }));
}
