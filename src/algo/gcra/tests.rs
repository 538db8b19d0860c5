use super::*;
use crate::word::tile;
use proptest::prelude::*;

fn params(quota: &str) -> GcraParams {
    Gcra::new().params(&quota.parse().expect("a quota"), 0).expect("in range")
}

#[test]
fn ordinary_quotas_have_an_endless_grid_of_round_units() {
    for (quota, units, nanos) in [
        ("1/s", 1, 2_500),
        ("100/s burst 20", 1, 2_500),
        ("10/minute burst 1", 1, 2_500),
        ("5/2d", 1, 2_500),
        ("1/y", 1, 2_500),
        ("100000/s", 1, 2_500),
    ] {
        let params = params(quota);
        assert_eq!(params.grid.ratio(), (units, nanos), "{quota}");
        assert_eq!(params.grid.skew_tolerance(), None, "{quota}");
    }
}

#[test]
fn extreme_quotas_keep_their_rate_exactly_and_tolerate_skew() {
    for quota in ["1000000/s", "1000000000/s", "1000000000/s burst 1", "600000000/s burst 10"] {
        let params = params(quota);
        let tolerance = params.grid.skew_tolerance().expect("a wrapping grid");
        assert!(tolerance >= Duration::from_millis(1), "{quota}: {tolerance:?}");
        let quota: Quota = quota.parse().expect("a quota");
        let (units, nanos) = params.grid.ratio();
        let exact = u128::from(quota.limit()) * u128::from(params.cell.get()) * u128::from(nanos);
        assert_eq!(u128::from(units) * u128::from(quota.period_nanos()), exact);
    }
}

#[test]
fn a_debt_beyond_the_bucket_refuses_a_stale_clock() {
    let params = params("1/s burst 2");
    let later = Tick::from_nanos(3_600 * 1_000_000_000);
    let Step::Admit { next } = params.step(params.fresh(later), later, 2) else {
        panic!("a fresh bucket is full");
    };
    for stale in [0, 1, 3_500 * 1_000_000_000] {
        assert_eq!(params.step(next, Tick::from_nanos(stale), 1), Step::Refuse);
    }
}

#[test]
fn a_cost_beyond_the_burst_never_fits() {
    let params = params("1/s burst 10");
    for n in [11, 1 << 32, u64::MAX / 2, u64::MAX] {
        for now in [Tick::ZERO, Tick::MAX] {
            let word = params.fresh(now);
            assert_eq!(params.step(word, now, n), Step::Refuse);
            assert_eq!(params.denied(word, now, n).retry_after(), None);
        }
    }
}

#[test]
fn the_end_of_time_is_an_instant_like_any_other() {
    let params = params("1/s burst 3");
    let mut word = params.fresh(Tick::MAX);
    for left in [2, 1, 0] {
        let Step::Admit { next } = params.step(word, Tick::MAX, 1) else { panic!("{left} left") };
        assert_eq!(params.permit(word, Tick::MAX, 1).remaining(), left);
        word = next;
    }
    assert_eq!(params.step(word, Tick::MAX, 1), Step::Refuse);
}

#[test]
fn the_field_is_the_payload() {
    assert!(tile(&[TAT], PAYLOAD_BITS));
    assert!(tile(&[COMPACT_TAT], COMPACT_BITS));
}

fn compact(quota: &Quota) -> Option<GcraParams> {
    Gcra::new().compact_params(quota, 0).expect("in range")
}

#[test]
fn ordinary_quotas_have_compact_states_of_round_units() {
    const DAY_SECS: u64 = 86_400;
    for (quota, nanos, horizon_days) in [
        ("1/s", 250_000, 397),
        ("100/s burst 20", 200_000, 318),
        ("100/s", 250_000, 397),
        ("1000/s burst 1000", 250_000, 397),
        ("10000/s burst 10000", 100_000, 159),
        ("1000000/s burst 1000000", 1_000, 1),
        ("1000/s burst 1", 1_000, 1),
        ("10/minute burst 1", 250_000, 397),
    ] {
        let params = compact(&quota.parse().expect("a quota")).expect(quota);
        assert_eq!(params.grid.ratio(), (1, nanos), "{quota}");
        let horizon = params.grid.horizon().expect("a wrapping grid");
        assert_eq!(horizon.as_secs() / DAY_SECS, horizon_days, "{quota}");
    }
}

#[test]
fn quotas_that_would_be_too_coarse_have_no_compact_state() {
    for quota in [
        "1000000/s burst 1",
        "1000000000/s burst 100",
        "2000000/s burst 1000",
        "1600000/s",
        "1/s burst 3000000000",
    ] {
        assert_eq!(compact(&quota.parse().expect("a quota")), None, "{quota}");
    }
}

proptest! {
    #[test]
    fn the_state_never_goes_back(word: u64, now: u64, n in 0_u64..30) {
        let params = params("7/s burst 20");
        let now = Tick::from_nanos(now);
        if let Step::Admit { next } = params.step(word, now, n) {
            prop_assert!(next >= TAT.of(word));
            prop_assert_eq!(TAT.set(0, TAT.of(next)), next);
        }
    }

    /// Whatever the quota: the rate is exact, a burst has its thousand units, a state its
    /// field, and clocks may differ by ten seconds, over a day at least.
    #[test]
    fn a_compact_state_keeps_what_is_promised(
        limit_bits in 0_u32..34, period_bits in 20_u32..63, burst_bits in 0_u32..32,
        less: u64, start_empty: bool, steps in prop::collection::vec((0_u64..1 << 62, 0_u64..9), 9),
    ) {
        let limit = (1 << limit_bits) + (less & ((1 << limit_bits) - 1));
        let period = (u64::MAX >> (64 - period_bits)) - (less >> (66 - period_bits));
        let burst = (1 << burst_bits) + (less & ((1 << burst_bits) - 1));
        let quota = Quota::new(limit, Duration::from_nanos(period)).burst(burst);
        let algorithm = Gcra { start_empty, ..Gcra::new() };
        let params = algorithm.compact_params(&quota, 0);
        prop_assume!(matches!(params, Ok(Some(_))));
        let Ok(Some(params)) = params else { unreachable!() };
        let (units, nanos) = params.grid.ratio();
        let cell = u128::from(params.cell.get());
        let exact = u128::from(limit) * cell * u128::from(nanos);
        prop_assert_eq!(u128::from(units) * u128::from(period), exact);
        prop_assert!(params.capacity >= 1_000);
        let long = u128::from(nanos) >= 1_000 * u128::from(units);
        let debt_max = if long { (1 << 35) - 1 } else { 1 << 31 };
        prop_assert!(params.grid.reach() >= (16 * params.capacity).min(debt_max));
        let least = |span: Option<Duration>| span.map_or(u64::MAX, |span| span.as_secs());
        prop_assert!(least(params.grid.skew_tolerance()) >= 10);
        prop_assert!(least(params.grid.horizon()) >= 86_400);
        let mut word = params.fresh(Tick::from_nanos(less));
        for (now, share) in steps {
            let n = burst * share / 8;
            if let Step::Admit { next } = params.step(word, Tick::from_nanos(now), n) {
                word = next;
            }
            prop_assert_eq!(COMPACT_TAT.of(word), word);
        }
    }
}
