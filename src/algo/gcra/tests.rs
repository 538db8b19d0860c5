use super::*;
use crate::algo::{Ahead, NoRing, PerKey};
use crate::word::tile;
use proptest::prelude::*;

pub(in crate::algo) mod units;

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
fn a_debt_beyond_the_bucket_denies_a_stale_clock() {
    let params = params("1/s burst 2");
    let later = Tick::from_nanos(3_600 * 1_000_000_000);
    let Step::Admit { next } = params.step(params.fresh(later), later, 2) else {
        panic!("a fresh bucket is full");
    };
    for stale in [0, 1, 3_500 * 1_000_000_000] {
        assert_eq!(params.step(next, Tick::from_nanos(stale), 1), Step::Deny);
    }
}

#[test]
fn a_cost_beyond_the_burst_never_fits() {
    let params = params("1/s burst 10");
    for n in [11, 1 << 32, u64::MAX / 2, u64::MAX] {
        for now in [Tick::ZERO, Tick::MAX] {
            let word = params.fresh(now);
            assert_eq!(params.step(word, now, n), Step::Deny);
            assert_eq!(params.denied(word, now, n).retry_after(), None);
        }
    }
}

#[test]
fn the_last_tick_is_decided_like_any_other() {
    let params = params("1/s burst 3");
    let mut word = params.fresh(Tick::MAX);
    for left in [2, 1, 0] {
        let Step::Admit { next } = params.step(word, Tick::MAX, 1) else { panic!("{left} left") };
        assert_eq!(params.permit(word, Tick::MAX, 1).remaining(), left);
        word = next;
    }
    assert_eq!(params.step(word, Tick::MAX, 1), Step::Deny);
}

#[test]
fn the_field_fills_the_payload() {
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
    // The shortest unit, of 640 nanoseconds.
    assert!(compact(&Quota::per_second(1_562_500)).is_some());
    assert_eq!(compact(&Quota::per_second(1_562_501)), None);
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

    /// For every quota the rate is exact, a burst has at least 1,000 units, the state fits its
    /// field, and the tolerated skew is at least ten seconds, the horizon at least a day.
    #[test]
    fn a_compact_state_keeps_its_bounds_for_every_quota(
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

#[test]
fn a_plan_of_the_same_quota_is_the_same_bucket() {
    let quota: Quota = "100/s burst 20".parse().expect("a quota");
    // Where a cell is one unit, and a burst one cell, too.
    let smallest = Quota::per_second(1_000_000_000).burst(1);
    for (gcra, quota) in [
        (Gcra::new(), quota),
        (Gcra::start_empty(), quota),
        (Gcra::new().leases(4), quota),
        (Gcra::start_empty(), smallest),
    ] {
        let params = gcra.params(&quota, 0).expect("in range");
        assert_eq!(params.with_quota(&quota), Ok(params));
    }
    let plain = params("100/s burst 20").with_quota(&quota).expect("a plan");
    assert!(!plain.starts_in_debt());
}

#[test]
fn leases_take_at_most_half_of_the_burst_and_only_from_wide_states() {
    let leases = |cells| Gcra::new().leases(cells);
    let quota = Quota::per_second(1_000);
    assert!(leases(500).params(&quota, 0).is_ok());
    for cells in [501, 999, 1_000, 1_001] {
        assert_eq!(leases(cells).params(&quota, 0), Err(QuotaError::LeaseCellsTooMany), "{cells}");
    }
    assert_eq!(leases(1).compact_params(&quota, 0), Ok(None));
}

#[test]
fn leases_take_at_most_half_of_the_burst_of_a_plan() {
    let leases = Gcra::new().leases(4).params(&Quota::per_second(100), 0).expect("in range");
    let plan = |burst| leases.with_quota(&Quota::per_second(100).burst(burst));
    for burst in [8, 9, 14, 200] {
        let plan = plan(burst).expect("leases of four");
        assert_eq!(plan.permit(plan.fresh(Tick::ZERO), Tick::ZERO, 0).remaining(), burst - 4);
    }
    for burst in [1, 4, 7] {
        assert_eq!(plan(burst), Err(QuotaError::LeaseCellsTooMany), "{burst}");
    }
}

#[test]
fn a_plan_is_at_most_a_thousandth_slower_than_its_quota() {
    let params = params("1000/s");
    let (units, nanos) = params.grid.ratio();
    assert_eq!((units, nanos), (1, 2_500));
    // 1,000 units for 143 cells make 7 each, 1,001 in all; for 167 cells they make 6, and 1,002.
    let plan = |limit| {
        let quota = Quota::new(limit, Duration::from_nanos(1_000 * nanos)).burst(1);
        params.with_quota(&quota).map(|plan| plan.cell.get())
    };
    assert_eq!(plan(143), Ok(7));
    assert_eq!(plan(167), Err(QuotaError::PlanTooFast));
}

#[test]
fn the_turn_of_the_last_charge_is_known_while_there_is_debt() {
    let params = params("1/s burst 5");
    let charged = Tick::from_nanos(100_000_000_000);
    let after = |seconds: u64| charged.saturating_add(Duration::from_secs(seconds));
    let ahead = params.within(charged, Duration::from_secs(60));
    for (cells, turn) in [(5, 0), (8, 3), (30, 25)] {
        let view = ahead.read(ahead.fresh(charged), NoRing, charged, cells);
        let Step::Admit { next } = ahead.step(view, charged, cells) else { panic!("{cells} fit") };
        // For a key without debt, the turn is not known. The answer is one burst's time ago.
        for (now, exact) in (0..turn + 5).map(|now| (now, turn)).chain([(turn + 24, turn + 19)]) {
            let told = params.turn_of_last(next, after(now));
            // Never later, and at most a few units of 2.5 microseconds earlier.
            let earliest = after(exact).saturating_sub(Duration::from_nanos(10_000));
            assert!((earliest..=after(exact)).contains(&told), "{cells} {now}: {told:?}");
        }
    }
}

#[test]
fn a_plan_of_a_bucket_that_starts_empty_owes_its_own_burst() {
    let quota = Quota::per_second(100).burst(20);
    let empty = Gcra::start_empty().params(&quota, 0).expect("in range");
    let plan = empty.with_quota(&quota.burst(7)).expect("a plan");
    let now = Tick::from_nanos(1_000_000_000);
    let fresh = plan.read(plan.fresh(now), NoRing, now, 1);
    let first = plan.answer(fresh, now, 1).expect_err("it is empty").retry_after();
    assert_eq!(first, Some(Duration::from_millis(10)));
}

#[test]
fn the_model_of_a_bucket_that_starts_empty_does_so_however_small_it_is() {
    use crate::algo::oracle::Oracle;
    for quota in [Quota::per_second(1), Quota::per_second(1_000_000_000).burst(1)] {
        for (gcra, admits) in [(Gcra::new(), true), (Gcra::start_empty(), false)] {
            let params = gcra.params(&quota, 0).expect("in range");
            assert_eq!(params.oracle().decide(Tick::ZERO, 1).admitted, admits, "{quota}");
        }
    }
}

#[test]
fn a_bucket_for_plans_accepts_quotas_a_little_slower_than_its_own() {
    let (own, slower) = (Quota::per_second(50_000), Quota::per_second(49_999));
    let plans = Gcra::new().for_plans().params(&own, 0).expect("in range");
    assert!(plans.with_quota(&slower).is_ok());
    assert_eq!(plans.grid.reach(), 1 << 50, "room for long debts");
    let coarse = Gcra::new().params(&own, 0).expect("in range");
    assert_eq!(coarse.with_quota(&slower), Err(QuotaError::PlanTooFast));
}

#[test]
fn the_largest_burst_of_a_compact_state_has_room_in_its_ring() {
    // Units of a millisecond, on a wrapping grid.
    let largest = Quota::per_second(1_000).burst(COMPACT_BURST_UNITS_MAX);
    let compact = Gcra::new().compact_params(&largest, 0).expect("in range").expect("narrow");
    assert_eq!(compact.capacity, COMPACT_BURST_UNITS_MAX);
    assert!(compact.grid.ring().is_some());
    assert_eq!(compact.grid.reach(), compact.capacity * DEBT_BURSTS - 1);
    let more = largest.burst(COMPACT_BURST_UNITS_MAX + 1);
    assert_eq!(Gcra::new().compact_params(&more, 0), Ok(None));
    // From a microsecond on, there is room for sixteen bursts.
    for (limit, reach) in [(1_000_000, 16 * 200_000_000), (1_000_001, 1 << 31)] {
        let compact = self::compact(&Quota::per_second(limit).burst(200_000_000));
        assert_eq!(compact.expect("narrow").grid.reach(), reach, "{limit}");
    }
}

/// Ten cells of a nanosecond each, which may be owed sixteen times.
fn ten_nanos() -> GcraParams {
    params("1000000000/s burst 10")
}

#[test]
fn turns_ahead_reach_to_the_largest_debt() {
    let params = ten_nanos();
    assert_eq!(params.grid.reach(), 160);
    // Less the burst, which is charged at once, and less what `now` is into its unit.
    assert_eq!(params.ahead_max(), Duration::from_nanos(149));
    let endless = params.within(Tick::ZERO, Duration::MAX);
    assert_eq!((endless.burst(), endless.ahead_max()), (160, Duration::ZERO));
}

#[test]
fn a_plan_may_have_a_burst_as_large_as_the_largest_debt() {
    let plan = |burst| ten_nanos().with_quota(&Quota::per_second(1_000_000_000).burst(burst));
    let largest = plan(160).expect("it fits");
    assert_eq!((largest.burst(), largest.ahead_max()), (160, Duration::ZERO));
    assert_eq!(plan(161), Err(QuotaError::PlanTooLong));
}

#[test]
fn cells_that_are_put_behind_a_longer_debt_add_none() {
    let params = params("1/s burst 5");
    let now = Tick::from_nanos(100_000_000_000);
    let Step::Admit { next } = params.step(params.fresh(now), now, 3) else { panic!("it is full") };
    let cell = params.cell();
    for (cells, debt, added) in [(2, 3, 0), (3, 3, 0), (4, 4, 1)] {
        let (word, more) = params.deferred(next, cells, now);
        assert_eq!(params.debt(word, params.instant(now)), debt * cell);
        assert_eq!(more, Duration::from_secs(added), "{cells}");
    }
}

/// Another thread may give cells back between the denial and its explanation.
#[test]
fn a_denial_of_cells_that_fit_by_now_has_no_wait() {
    let params = params("1/s burst 5");
    let now = Tick::from_nanos(100_000_000_000);
    for n in [1, 4, 5] {
        let denied = params.denied(params.fresh(now), now, n);
        assert_eq!((denied.remaining(), denied.retry_after()), (5, Some(Duration::ZERO)), "{n}");
    }
}

#[test]
fn any_number_of_cells_fills_the_bucket_and_no_more() {
    use crate::algo::Refund;
    let params = params("1/s burst 5");
    let now = Tick::from_nanos(100_000_000_000);
    let Step::Admit { next } = params.step(params.fresh(now), now, 5) else { panic!("it is full") };
    // A cell has 2^7 * 3,125 units: the cost of 2^57 would wrap around to none.
    for cells in [5, 6, 1 << 57, u64::MAX] {
        let word = params.add(next, now, cells);
        assert_eq!(params.permit(word, now, 0).remaining(), 5, "{cells}");
    }
}

#[test]
fn cells_taken_ahead_are_worth_nothing_more_once_their_debt_has_drained() {
    let params = Gcra::new().leases(4).params(&Quota::per_second(1).burst(9), 0).expect("in range");
    let at = |secs: u64| Tick::from_nanos(secs * 1_000_000_000);
    let Step::Admit { next } = params.step(params.fresh(at(100)), at(100), 4) else {
        panic!("it is full")
    };
    let left = |secs| [4, 1, 0].map(|left| params.permit_ahead(next, at(secs), left).remaining());
    // Five cells are there beside those of leases.
    assert_eq!([left(100), left(102), left(104)], [[5, 2, 1], [5, 4, 3], [5, 5, 5]]);
}

/// A refund and a charge by others cancel each other out, and the bucket was full in between. To
/// restore the word from before the first charge would give a cell too many.
#[test]
fn a_refund_after_the_same_word_recurs_returns_no_restored_cells() {
    use crate::algo::{Receipt, Refund};
    let params = params("1/s burst 3");
    let at = |seconds: u64| Tick::from_nanos(seconds * 1_000_000_000);
    let charge = |word, now, cells| match params.step(word, now, cells) {
        Step::Admit { next } => Receipt { cells, at: now, next },
        told => panic!("there is room: {told:?}"),
    };
    let theirs = charge(params.fresh(at(1)), at(1), 2);
    let mine = charge(theirs.next, at(1), 1);
    let refunded = params.refund(mine.next, &theirs, at(1), 2);
    let spent = charge(refunded, at(2), 2);
    assert_eq!(spent.next, mine.next, "the word recurs");
    let left = |word| params.permit(word, at(2), 0).remaining();
    assert_eq!(left(params.refund(spent.next, &mine, at(2), 1)), 1, "three less the two spent");
    assert_eq!(left(theirs.next), 2, "what was there before is too much");
}
