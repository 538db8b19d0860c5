use super::*;
use crate::algo::{Liveness, Moment, PerKey, Rebase, Receipt, Refund, StateMachine, Step};
use crate::time::{ManualClock, Tick};
use crate::word::tile;
use proptest::prelude::*;

fn params(window: FixedWindow, quota: &str, origin: u64) -> FixedWindowParams {
    let quota = quota.parse().expect("a quota");
    window.params(&quota, origin).expect("in range")
}

/// A window of a minute that was opened by three of its five cells: when, and its state.
fn three_of_five_a_minute() -> (FixedWindowParams, Tick, u64) {
    let params = params(FixedWindow::anchored(), "5/min", 0);
    let opened = Tick::from_nanos(1_000_000_000_000);
    let Step::Admit { next } = params.step(params.fresh(opened), opened, 3) else {
        panic!("three of five are free")
    };
    (params, opened, next)
}

#[test]
fn ordinary_windows_are_endless_or_tolerate_an_hour_of_skew() {
    for (text, endless) in [("20/min", true), ("1000/h", true), ("5/day", true), ("100/s", false)] {
        let grid = params(FixedWindow::anchored(), text, 0).grid;
        assert_eq!(grid.ring().is_none(), endless, "{text}");
        if let Some(tolerance) = grid.skew_tolerance() {
            assert!(tolerance.as_secs() >= 3_600, "{text}: {tolerance:?}");
        }
    }
}

#[test]
fn windows_of_minutes_have_compact_states_if_the_count_leaves_room() {
    for (quota, anchored, aligned) in [
        ("20/min", true, true),
        ("1000/h", true, true),
        ("5/day", true, true),
        ("1000/min", true, true),
        ("20/s", true, true),
        ("1000/s", false, true),
        ("100000/min", false, true),
        ("100000000/day", false, true),
    ] {
        let quota: Quota = quota.parse().expect("a quota");
        let compact = |window: FixedWindow| window.compact_params(&quota, 0).expect("in range");
        assert_eq!(compact(FixedWindow::anchored()).is_some(), anchored, "{quota}");
        assert_eq!(compact(FixedWindow::aligned()).is_some(), aligned, "{quota}");
    }
}

#[test]
fn a_compact_window_is_told_apart_for_a_day_and_by_clocks_ten_seconds_apart() {
    let (mut narrow, mut none) = (0, 0);
    for (digit, decade, nanos) in (0..12).flat_map(|decade| {
        let nanos = (3..20).map(move |power| 10_u64.pow(power));
        nanos.flat_map(move |nanos| [1, 2, 5].map(|digit| (digit, decade, nanos)))
    }) {
        let quota = Quota::new(digit * 10_u64.pow(decade), Duration::from_nanos(nanos));
        let Ok(compact) = FixedWindow::anchored().compact_params(&quota, 0) else { continue };
        let at_least = |span: Option<Duration>, least| span.is_none_or(|span| span >= least);
        let Some(FixedWindowParams { grid, .. }) = compact else {
            none += 1;
            continue;
        };
        narrow += 1;
        let (horizon, tolerance) = (grid.horizon(), grid.skew_tolerance());
        assert!(at_least(horizon, Duration::from_secs(86_400)), "{quota}: {horizon:?}");
        assert!(at_least(tolerance, Duration::from_secs(10)), "{quota}: {tolerance:?}");
    }
    assert!(narrow > 20 && none > 20, "{narrow} and {none}");
}

/// Of such a count 14 bits of time are left, so one window is ahead of a clock that is behind.
#[test]
fn a_compact_window_of_ten_seconds_may_just_count_to_five_millions() {
    let quota = |millis| Quota::new(5_000_000, Duration::from_millis(millis));
    let compact = |millis| FixedWindow::aligned().compact_params(&quota(millis), 0);
    let tolerance = compact(10_000).expect("in range").expect("narrow").grid.skew_tolerance();
    assert_eq!(tolerance, Some(Duration::from_secs(10)));
    assert_eq!(compact(9_999), Ok(None));
}

#[test]
fn leases_take_at_most_half_of_the_limit_and_only_from_wide_states() {
    let leases = |cells| FixedWindow::anchored().leases(cells);
    let quota = Quota::per_minute(100);
    assert_eq!(leases(50).params(&quota, 0).map(|params| params.lease_cells), Ok(50));
    for cells in [51, 99, 100, 101] {
        assert_eq!(leases(cells).params(&quota, 0), Err(QuotaError::LeaseCellsTooMany), "{cells}");
    }
    assert_eq!(leases(1).compact_params(&quota, 0), Ok(None));
}

#[test]
fn a_plan_of_the_same_window_has_its_own_limit_and_nothing_else() {
    // Ten units in 1,001 nanoseconds.
    let window = |limit| Quota::new(limit, Duration::from_nanos(1_001_000));
    let params = FixedWindow::anchored().params(&window(5), 0).expect("in range");
    assert_eq!(params.grid.ratio(), (10, 1_001));
    let plan = params.with_quota(&window(3));
    assert_eq!(plan, Ok(FixedWindowParams { limit: NonZeroU64::new(3).unwrap(), ..params }));
}

#[test]
fn a_refund_by_a_late_clock_keeps_what_an_early_clock_still_counts() {
    let (params, opened, next) = three_of_five_a_minute();
    let receipt = Receipt { cells: 3, at: opened, next };
    let late = opened.saturating_add(Duration::from_secs(90));
    assert_eq!(params.refund(next, &receipt, late, 3), next, "its window is over by then");
    let inside = opened.saturating_add(Duration::from_secs(30));
    let refunded = params.refund(next, &receipt, inside, 3);
    let left = |word| params.permit(word, opened, 0).remaining();
    assert_eq!((left(next), left(refunded)), (2, 5));
}

#[test]
fn a_window_is_idle_at_its_end_or_as_soon_as_nothing_is_counted_in_it() {
    let (params, opened, next) = three_of_five_a_minute();
    let idle_in = |word, secs| {
        let now = opened.saturating_add(Duration::from_secs(secs));
        params.grid.span(params.idle_in(word, params.instant(now)))
    };
    assert_eq!(idle_in(next, 0), Duration::from_secs(60));
    assert_eq!(idle_in(next, 45), Duration::from_secs(15));
    assert_eq!(idle_in(next, 60), Duration::ZERO);
    let refunded = params.add(next, opened, 3);
    assert_eq!(idle_in(refunded, 0), Duration::ZERO);
}

#[test]
fn weeks_begin_on_monday() {
    // 1970-01-05 was the first Monday.
    let params = params(FixedWindow::aligned(), "1/week", 0);
    let monday = Tick::from_nanos(4 * 24 * 3_600 * 1_000_000_000);
    let Step::Admit { next } = params.step(params.fresh(Tick::ZERO), Tick::ZERO, 1) else {
        panic!("the first event opens the window");
    };
    let before = monday.saturating_sub(core::time::Duration::from_nanos(1));
    assert_eq!(params.step(next, before, 1), Step::Deny);
    assert!(matches!(params.step(next, monday, 1), Step::Admit { .. }));
}

#[test]
fn out_of_range_is_denied_when_built() {
    let big = Quota::per_day(1 << 30);
    let built = FixedWindow::anchored().params(&big, 0);
    assert_eq!(built, Err(QuotaError::WindowLimitTooLarge));
    let no_time = Quota::new(1, Duration::ZERO);
    for window in [FixedWindow::anchored(), FixedWindow::aligned()] {
        assert_eq!(window.params(&no_time, 0), Err(QuotaError::ZeroPeriod));
        let plan = params(window, "1/min", 0).with_quota(&no_time);
        assert_eq!(plan, Err(QuotaError::ZeroPeriod));
    }
    for offset in [86_399, -86_399] {
        let window = FixedWindow::aligned().utc_offset_secs(offset);
        assert!(window.params(&Quota::per_day(1), 0).is_ok(), "{offset}");
    }
    for offset in [86_400, -86_400, i32::MIN, i32::MAX] {
        let window = FixedWindow::aligned().utc_offset_secs(offset);
        let built = window.params(&Quota::per_day(1), 0);
        assert_eq!(built, Err(QuotaError::UtcOffsetTooLarge));
    }
}

#[test]
fn one_more_than_the_limit_can_be_counted() {
    for limit in [1, 3, 7, 1_023, 1_024, (1 << 30) - 1] {
        let params = FixedWindow::anchored().params(&Quota::per_day(limit), 0);
        let count = params.expect("as large as a limit may be").count;
        assert!(count.max() > limit && count.max() / 4 < limit, "{limit}");
    }
}

/// 50 bits of time and more are endless with units of 20 microseconds. Where a cell takes less
/// than a thousandth of a microsecond, a thousand units do, else there are ten thousand.
#[test]
fn a_window_has_the_units_that_make_it_endless_or_the_documented_number() {
    for (text, length) in [
        ("1/s", 50_000),
        ("1/min", 3_000_000),
        ("20/min", 600_000),
        // 39 bits of time: units of 50 milliseconds.
        ("10000/h", 72_000),
        ("1000/s", 10_000),
        ("1000000/s", 10_000),
        ("1000001/s", 1_000),
    ] {
        assert_eq!(params(FixedWindow::anchored(), text, 0).length, length, "{text}");
    }
    assert_eq!(params(FixedWindow::aligned(), "1/min", 0).length, 1);
}

#[test]
fn a_plan_has_a_window_of_whole_units_that_is_not_too_long() {
    let plan = |window, period| params(window, "1/min", 0).with_quota(&Quota::new(1, period));
    let anchored = |period| plan(FixedWindow::anchored(), period);
    // Units of 20 microseconds.
    let short = anchored(Duration::from_micros(20)).expect("a unit");
    assert_eq!(short.length, 1);
    assert_eq!(
        anchored(Duration::from_secs(120)).expect("no longer than may be").length,
        6_000_000
    );
    let too_long = Err(QuotaError::PlanTooLong);
    assert_eq!(anchored(Duration::from_micros(30)), too_long);
    // A ring that ends has room for the window it was made for, and no longer one.
    let fast = params(FixedWindow::anchored(), "1000000/s", 0);
    assert!(fast.with_quota(&Quota::per_second(9)).is_ok());
    assert_eq!(fast.with_quota(&Quota::new(9, Duration::from_secs(2))), too_long);
    let aligned = |period| plan(FixedWindow::aligned(), period);
    assert!(aligned(Duration::from_secs(60)).is_ok());
    assert_eq!(aligned(Duration::from_secs(120)), too_long, "a window is as long as it is");
}

#[test]
fn a_plan_counts_to_one_less_than_the_field_of_its_limiter() {
    // Three bits hold the count of five.
    let five = params(FixedWindow::anchored(), "5/min", 0);
    assert!(five.with_quota(&Quota::per_minute(6)).is_ok());
    let seven = five.with_quota(&Quota::per_minute(7));
    assert_eq!(seven, Err(QuotaError::PlanLimitTooLarge));
}

#[test]
fn a_key_never_seen_has_counted_nothing_whatever_the_clock() {
    let params = params(FixedWindow::anchored(), "5/min", 0);
    let [earlier, later] = [1_000_000_000, 9_000_000_000].map(Tick::from_nanos);
    let fresh = params.fresh(later);
    assert_eq!(params.permit(fresh, earlier, 0).remaining(), 5);
    assert_eq!(params.liveness(fresh, params.instant(earlier)), Liveness::Idle { units: 0 });
}

#[test]
fn cells_taken_ahead_count_for_nothing_once_their_window_is_over() {
    let (params, opened, next) = three_of_five_a_minute();
    let left = |secs| {
        let now = opened.saturating_add(Duration::from_secs(secs));
        [3, 1, 0].map(|left| params.permit_ahead(next, now, left).remaining())
    };
    assert_eq!((left(0), left(59), left(60)), ([5, 3, 2], [5, 3, 2], [5; 3]));
}

/// A slot is free at the beginning of the next unit at the earliest, or as many windows later as the present one
/// is held.
#[test]
fn a_key_without_a_slot_waits_for_the_next_unit_and_for_a_window_that_is_held() {
    let wait = |params: &FixedWindowParams| {
        let now = Tick::from_nanos(60_000_000_000);
        params.no_slot(params.fresh(now), now, Duration::ZERO).retry_after()
    };
    let anchored = params(FixedWindow::anchored(), "5/min", 0);
    let unit = anchored.grid.span(1);
    assert_eq!((wait(&anchored), unit), (Some(unit), Duration::from_micros(50)));
    let aligned = params(FixedWindow::aligned(), "5/min", 0);
    assert_eq!(wait(&aligned), Some(Duration::from_secs(60)));
    let held = FixedWindowParams { held: 3, ..aligned };
    assert_eq!(wait(&held), Some(Duration::from_secs(240)));
}

/// Nobody has set the wall clock.
#[test]
fn windows_as_built_decide_at_the_same_instant_and_as_their_copy_of_that_instant() {
    let (clock, now) =
        (ManualClock::starting_at_unix_nanos(30_000_000_000), Tick::from_nanos(90_000_000_000));
    clock.set(now);
    let aligned = params(FixedWindow::aligned(), "5/min", 30_000_000_000);
    let anchored = params(FixedWindow::anchored(), "5/min", 30_000_000_000);
    assert_eq!([&aligned, &anchored].map(|params| params.as_built_at(now, &clock)), [Some(now); 2]);
    assert!(anchored.is_still() && anchored.still_at(|| now, &clock).is_none());
    assert!(!aligned.is_still());
    let copy = aligned.still_at(|| now, &clock).expect("windows of the wall clock");
    assert!(copy.is_still());
    assert_eq!((copy.instant(now), copy.held), (aligned.instant(now), 0));
    assert_eq!([&aligned, &anchored].map(Rebase::wall_shift_nanos), [0; 2]);
    // It follows the wall clock no more.
    assert!(!copy.reads_as(&aligned) && copy.reads_as(&copy) && aligned.reads_as(&aligned));
}

/// Windows begin at whole minutes. The first one that the limiter sees began three minutes before those it was built
/// with.
#[test]
fn a_wall_clock_that_was_set_back_beyond_the_first_window_counts_from_earlier_windows() {
    const ORIGIN: u64 = 1_700_000_000_000_000_000; // 20 seconds into a minute
    const SECOND: u64 = 1_000_000_000;
    let aligned = params(FixedWindow::aligned(), "5/min", ORIGIN);
    let (clock, now) = (ManualClock::starting_at_unix_nanos(ORIGIN), Tick::from_nanos(90 * SECOND));
    clock.set(now);
    clock.set_unix_nanos(ORIGIN - 200 * SECOND);
    let still = aligned.still_at(|| now, &clock).expect("windows of the wall clock");
    assert_eq!((still.instant(now), still.held), (0, 0));
    assert_eq!(aligned.wall_shift_nanos(), 180 * SECOND);
    let moment = |tick, origin| Moment { tick, unix_origin_nanos: origin };
    let unstepped = aligned.unstepped(&still, moment(now, ORIGIN));
    assert_eq!(unstepped, moment(Tick::ZERO, ORIGIN - 180 * SECOND));
}

/// The wall clock was set back by five minutes when the sixth began, so the fifth has gone on for two minutes.
#[test]
fn a_charge_from_before_a_window_was_held_is_refunded_in_it() {
    let aligned = params(FixedWindow::aligned(), "5/min", 0);
    let at = |secs: u64| Tick::from_nanos(secs * 1_000_000_000);
    let Step::Admit { next } = aligned.step(aligned.fresh(at(300)), at(300), 3) else {
        panic!("three of five are free")
    };
    let receipt = Receipt { cells: 3, at: at(300), next };
    let wall_time = WallTime::ahead_by(-120_000_000_000);
    let held = FixedWindowParams { held: 3, held_for: 2, wall_time, wall: None, ..aligned };
    let left = |word| held.permit(word, at(420), 0).remaining();
    assert_eq!((left(next), left(held.refund(next, &receipt, at(420), 3))), (2, 5));
}

#[test]
fn aligned_windows_are_told_from_anchored_ones() {
    assert!(params(FixedWindow::aligned(), "20/min", 0).is_aligned());
    assert!(!params(FixedWindow::anchored(), "20/min", 0).is_aligned());
}

#[test]
fn a_window_opened_by_a_clock_ahead_of_ours_is_kept() {
    for window in [FixedWindow::anchored(), FixedWindow::aligned()] {
        let params = params(window, "2/min", 0);
        let ahead = Tick::from_nanos(600 * 1_000_000_000);
        let Step::Admit { next } = params.step(params.fresh(ahead), ahead, 2) else {
            panic!("fresh");
        };
        assert_eq!(params.step(next, Tick::ZERO, 1), Step::Deny);
    }
}

proptest! {
    #[test]
    fn the_fields_tile_and_round_trip(limit in 1..=LIMIT_MAX, count: u64, end: u64) {
        let quota = Quota::per_day(limit);
        let params = FixedWindow::anchored().params(&quota, 0).expect("in range");
        prop_assert!(tile(&[params.count, params.end], PAYLOAD_BITS));
        prop_assert!(params.count.max() >= limit);
        let word = params.end.set(params.count.set(0, count), end);
        prop_assert_eq!(params.count.of(word), count & params.count.max());
        prop_assert_eq!(params.end.of(word), end & params.end.max());
    }

    /// For every quota, the fields are those of a compact state, and a window has at least a
    /// thousand units, or exactly one.
    #[test]
    fn a_compact_state_keeps_its_bounds_for_every_quota(
        limit_bits in 0_u32..20, period_bits in 30_u32..57, less: u64, aligned: bool,
    ) {
        let limit = (1 << limit_bits) + (less & ((1 << limit_bits) - 1));
        let period = (u64::MAX >> (64 - period_bits)) - (less >> (66 - period_bits));
        let quota = Quota::new(limit, Duration::from_nanos(period));
        let window = if aligned { FixedWindow::aligned() } else { FixedWindow::anchored() };
        let params = window.compact_params(&quota, 0);
        prop_assume!(matches!(params, Ok(Some(_))));
        let Ok(Some(params)) = params else { unreachable!() };
        prop_assert!(tile(&[params.count, params.end], COMPACT_BITS));
        prop_assert!(params.count.max() >= limit);
        prop_assert!(aligned && params.length == 1 || params.length >= 1_000);
        let least = |span: Option<Duration>| span.map_or(u64::MAX, |span| span.as_secs());
        prop_assert!(least(params.grid.skew_tolerance()) >= 10);
        prop_assert!(least(params.grid.horizon()) >= 86_400);
    }
}
