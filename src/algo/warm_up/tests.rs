use super::*;
use crate::word::tile;

const SECOND: Duration = Duration::from_secs(1);

fn params(quota: &str, warm_up: WarmUp) -> Result<WarmUpParams, QuotaError> {
    warm_up.params(&quota.parse().expect("a quota"), 0)
}

#[test]
fn fields_tile_the_word_and_units_are_fine() {
    for (quota, secs, ring_days_min) in [
        ("5/s", 4, 365),
        ("5/s", 20_000, 365),
        ("1/minute", 3_600, 365),
        ("100/s", 10, 365),
        ("1000/s", 1, 100),
        ("1000/s", 60, 6),
        ("10000/s", 10, 0),
    ] {
        for factor in [1, 2, 3, 10, 100] {
            let warm_up = WarmUp::new(SECOND * secs).cold_factor(factor);
            let Ok(params) = params(quota, warm_up) else {
                assert!(factor > 3, "{quota} in {secs} s is rejected");
                continue;
            };
            assert!(tile(&[params.warmth, params.cold_at], PAYLOAD_BITS));
            assert!(params.cell >= UNITS_IN_CELL_MIN && params.period < 1 << 23);
            assert_eq!(params.cell % 2, 0, "half an interval is whole");
            let factor = u64::from(factor);
            assert_eq!(params.refill * (5 + factor), 2 * (1 + factor) * params.cell);
            let (units, nanos) = params.grid.ratio();
            let ring = params.grid.ring().unwrap_or(u64::MAX);
            let days = u128::from(ring) * u128::from(nanos)
                / (u128::from(units) * 24 * SECOND.as_nanos() * 3_600);
            assert!(factor != 3 || days >= ring_days_min, "{quota}: {days} days");
        }
    }
}

#[test]
fn a_period_without_room_in_the_word_is_rejected() {
    use QuotaError as E;
    let long = WarmUp::new(SECOND * 60);
    assert_eq!(params("1000000/s", long), Err(E::WarmUpTooLong));
    assert_eq!(params("5/s", WarmUp::new(Duration::MAX)), Err(E::WarmUpTooLong));
    assert_eq!(params("5/s", long.max_wait(Duration::MAX)), Err(E::WarmUpTooLong));
    assert_eq!(params("1000000000/s", WarmUp::new(SECOND)), Err(E::WarmUpTooLong));
    assert_eq!(params("5/s", long.cold_factor(101)), Err(E::ColdFactorOutOfRange));
    assert!(params("5/s", WarmUp::new(Duration::ZERO)).is_ok());
    assert_eq!(long.params(&Quota::per_second(0), 0), Err(E::ZeroLimit));
}

/// 4,096 units in a second, of which eight are the period's part for a cold factor of 3.
#[test]
fn a_period_is_rounded_up_to_whole_parts() {
    let params = |period| params("1/s burst 7", WarmUp::new(period).max_wait(SECOND * 2));
    let even = params(SECOND * 9).expect("in range");
    assert_eq!((even.cell, even.period), (4_096, 9 * 4_096));
    assert_eq!(params(SECOND * 9 + Duration::from_nanos(1)).expect("in range").period, 36_872);
    assert_eq!(params(Duration::ZERO).expect("in range").period, 8);
    // The longest wait, the burst, and the period twice are written ahead.
    assert_eq!(even.grid.reach(), 2 * 4_096 + 7 * 4_096 + 2 * 9 * 4_096);
}

#[test]
fn the_last_unit_of_the_ramp_costs_a_unit_and_what_follows_nothing() {
    let params = params("5/s burst 100", WarmUp::new(SECOND * 4)).expect("in range");
    for (below, extra) in [(1, 1), (0, 0)] {
        let view = View { wait: 0, warmth: params.ramp - below };
        assert_eq!(params.charged(view, 1).wait, params.cell + extra, "{below}");
    }
}

#[test]
fn a_denial_of_a_request_whose_turn_has_come_has_no_wait() {
    let params = params("5/s", WarmUp::new(SECOND * 4).max_wait(SECOND)).expect("in range");
    let denied = params.denied(params.fresh(Tick::ZERO), Tick::ZERO, 1);
    assert_eq!(denied.retry_after(), Some(Duration::ZERO));
}

#[test]
fn a_key_never_seen_is_cold_whatever_the_clock() {
    let params = params("5/s burst 100", WarmUp::new(SECOND * 4)).expect("in range");
    let fresh = params.fresh(Tick::from_nanos(9_000_000_000));
    assert_eq!(params.warmth.of(fresh), 0);
}

#[test]
fn a_key_without_a_slot_is_told_the_time_that_a_warm_one_takes_to_cool_down() {
    let params = params("5/s burst 100", WarmUp::new(SECOND * 4)).expect("in range");
    let now = Tick::from_nanos(9_000_000_000);
    let denied = params.no_slot(params.fresh(now), now, Duration::ZERO);
    assert_eq!((denied.limit(), denied.remaining()), (100, 0));
    assert_eq!(denied.reset_after(), SECOND * 4);
    assert!(denied.retry_after() <= Some(Duration::from_millis(1)), "in a unit");
}

#[test]
fn the_edges_of_the_range_are_accepted() {
    assert!(params("5/s", WarmUp::new(SECOND * 60).cold_factor(100)).is_ok());
    // An interval has at least sixteen units.
    assert!(params("62500000/s", WarmUp::new(Duration::ZERO)).is_ok());
    let faster = params("62500001/s", WarmUp::new(Duration::ZERO));
    assert_eq!(faster, Err(QuotaError::WarmUpTooLong));
}

#[test]
fn units_are_the_finest_whose_ring_has_a_year() {
    let has_a_year = |params: &WarmUpParams| {
        let (units, nanos) = params.grid.ratio();
        let ring = params.grid.ring().unwrap_or(u64::MAX);
        u128::from(ring) / u128::from(units) * u128::from(nanos) / 1_000_000_000 >= 365 * 24 * 3_600
    };
    for (text, secs) in [("5/s", 4), ("5/s", 20_000), ("1/minute", 3_600), ("100/s", 10)] {
        let warm_up = WarmUp::new(SECOND * secs);
        let quota: Quota = text.parse().expect("a quota");
        let params = params(text, warm_up).expect("in range");
        assert!(has_a_year(&params), "{text}");
        let finer = warm_up.with_units(&quota, params.cell * 2);
        let interval_nanos = quota.period_nanos() / quota.limit();
        let none_finer = finer.is_none_or(|finer| !has_a_year(&finer));
        assert!(none_finer || params.cell > interval_nanos / 2, "{text}");
    }
    // A ring of exactly a year has one: 2^32 units of 2 * 481,201,171,875 / 2^17 ns.
    let interval = Duration::from_nanos(2 * 481_201_171_875);
    let exact = WarmUp::new(interval * 9).params(&Quota::new(1, interval), 0).expect("in range");
    assert_eq!((exact.cell, exact.grid.ring()), (1 << 17, Some(1 << 32)));
    // If no unit gives a year, the coarsest is taken.
    let short = params("1000/s", WarmUp::new(SECOND * 60)).expect("in range");
    assert!(!has_a_year(&short) && short.cell == UNITS_IN_CELL_MIN);
}

/// The origins of the two clocks are not a whole number of units apart.
#[test]
fn rebasing_keeps_the_turn_of_a_cold_key_and_drops_an_expired_one() {
    use crate::algo::{Moment, Restart};
    let params = params("5/s", WarmUp::new(SECOND * 4).max_wait(SECOND * 60));
    let params = params.expect("in range");
    let (units, nanos) = params.grid.ratio();
    let part = (nanos / units / 2).max(1);
    let moment = |nanos| Moment { tick: Tick::from_nanos(nanos), unix_origin_nanos: 0 };
    let (then, now) = (moment(1_000_000_000), moment(77_000_000_000 + part));
    let rebased = |word: u64, elapsed| {
        let change = params.clock_change(&Restart { then, elapsed, now });
        params.rebase(word, &mut [], &change)
    };
    let cold = params.fresh(then.tick);
    assert_eq!(rebased(cold, Duration::ZERO), None);
    // Cold, but with a time to go.
    let ahead = params.cold_at.of(cold) + 1_000;
    let waits = params.cold_at.set(0, ahead);
    let word = rebased(waits, Duration::ZERO).expect("a thousand units are to go");
    assert_eq!(params.warmth.of(word), 0);
    let left = params.grid.ahead(params.cold_at.of(word), params.grid.floor(now.tick));
    assert!((1_000..=1_001).contains(&left), "{left}");
    assert_eq!(rebased(waits, SECOND * 3_600), None);
    // A warm key is as cold at the same unit, and goes no earlier: half a unit is lost of its warmth.
    let warm = params.cold_at.set(500, ahead);
    let word = rebased(warm, Duration::ZERO).expect("it is warm");
    let view = params.view(word, params.grid.floor(now.tick));
    assert_eq!((view.wait, view.warmth), (501, 499));
    // By the same clock the last unit counts.
    let here = params.clock_change(&Restart { then, elapsed: Duration::ZERO, now: then });
    let last = params.cold_at.set(0, params.cold_at.of(cold) + 1);
    assert_eq!(params.rebase(last, &mut [], &here), Some(last));
}

/// 5e7 a second are 20 ns apart. In the smallest units that divide an interval and its refill, a cell has 18 or 16,
/// and 24 or 32 units are too many.
#[test]
fn the_divisor_of_the_fastest_rates_is_no_larger_than_it_must_be() {
    for factor in [7, 59] {
        assert!(params("50000000/s", WarmUp::new(Duration::ZERO).cold_factor(factor)).is_ok());
    }
}

/// Without a ramp every cell takes one interval, warm or cold.
#[test]
fn a_cold_factor_of_one_is_an_even_pace() {
    let warm_up = WarmUp::new(SECOND * 4).cold_factor(1).max_wait(SECOND * 10);
    let params = params("5/s", warm_up).expect("in range");
    let mut word = params.fresh(Tick::ZERO);
    for turn in 0..40 {
        let Step::Admit { next } = params.step(word, Tick::ZERO, 1) else {
            panic!("a wait of {turn} intervals")
        };
        let permit = params.permit(word, Tick::ZERO, 1);
        assert_eq!(permit.delay(), Duration::from_millis(200) * turn);
        word = next;
    }
}

/// The whole ramp takes the period, and has as many cells as in Guava.
#[test]
fn warming_up_takes_the_period() {
    for (factor, cells) in [(3, 10), (9, 4), (19, 2)] {
        let warm_up = WarmUp::new(SECOND * 4).cold_factor(factor);
        let params = params("5/s burst 100", warm_up).expect("in range");
        // 2 * period / (stable + cold) cells.
        let word = params.fresh(Tick::ZERO);
        let view = params.charged(params.view(word, 0), cells);
        assert_eq!((view.wait, view.warmth), (params.period, params.ramp));
        let more = params.charged(view, 1);
        assert_eq!(more.wait - view.wait, params.cell);
    }
}

#[test]
fn an_unused_key_cools_down_in_the_period() {
    let params = params("5/s burst 100", WarmUp::new(SECOND * 4)).expect("in range");
    let Step::Admit { next } = params.step(params.fresh(Tick::ZERO), Tick::ZERO, 100) else {
        panic!("a key never seen")
    };
    let permit = params.permit(params.fresh(Tick::ZERO), Tick::ZERO, 100);
    // 100 cells, what the ramp costs above them, and then all of the period.
    assert_eq!(permit.reset_after(), Duration::from_secs(20 + 2 + 4));
    let cold = Tick::from_duration(permit.reset_after());
    let almost = cold.saturating_sub(Duration::from_nanos(1));
    assert!(matches!(params.liveness(next, params.instant(cold)), Liveness::Idle { .. }));
    assert_eq!(params.liveness(next, params.instant(almost)), Liveness::Live { debt: 1 });
    let fresh = params.answer(params.fresh(cold), cold, 3);
    assert_eq!(params.answer(next, cold, 3), fresh);
}
