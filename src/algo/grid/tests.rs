use super::*;
use proptest::prelude::*;

const WIDE: u64 = u64::MAX >> 1;

fn exact(units: u64, nanos: u64, now: u64) -> u128 {
    u128::from(now) * u128::from(units) / u128::from(nanos)
}

#[test]
fn a_grid_floors_ticks_to_units_of_any_length() {
    let nano = Grid::new(1, 1, WIDE, 0);
    assert_eq!(nano.floor(Tick::from_nanos(77)), 77);
    assert_eq!(nano.floor(Tick::MAX), u64::MAX);
    let thirds = Grid::new(2, 3, WIDE, 0);
    assert_eq!(thirds.floor(Tick::from_nanos(5)), 3);
    let coarse = Grid::new(400_000, 1_000_000_000, (1 << 53) - 1, 0);
    assert_eq!(coarse.ratio(), (1, 2_500));
    assert_eq!(coarse.floor(Tick::from_nanos(7_499)), 2);
    assert_eq!(coarse.floor(Tick::from_nanos(7_500)), 3);
    assert_eq!(coarse.skew_tolerance(), None, "2^53 times 2.5 us is more than 584 years");
    assert_eq!(coarse.ring(), None);
}

#[test]
fn a_wrapping_grid_sees_a_little_ahead_and_far_behind() {
    let grid = Grid::new(1, 1, (1 << 20) - 1, 1_000);
    assert_eq!(grid.skew_tolerance(), Some(Duration::from_nanos(127)));
    assert_eq!(grid.ahead(5_000, 4_000), 1_000);
    assert_eq!(grid.ahead(5_000, 5_000), 0);
    assert_eq!(grid.ahead(4_000, 5_000), 0);
    assert_eq!(grid.ahead(5_000, 4_000 - 127), 1_127, "a stale clock within the tolerance");
    assert_eq!(grid.ahead(5_000, 4_000 - 128), 0);
    assert_eq!(grid.ahead(3, (1 << 20) - 4), 7, "across the wrap");
}

#[test]
fn a_ring_is_endless_only_with_room_for_the_debt() {
    let last_unit = u64::MAX / 2_048;
    let grid = |debt| Grid::with_debt(1, 2_048, last_unit + 1_000, 500, debt);
    assert_eq!((grid(1_000).ring(), grid(1_000).reach()), (None, 1_000));
    assert_eq!((grid(1_001).ring(), grid(1_001).reach()), (Some(last_unit + 1_001), 1_001));
    // An instant written ahead is told from one behind, also by a clock that is behind.
    let short = Grid::with_debt(1, 1, (1 << 20) - 1, 1_000, 16_000);
    assert_eq!((short.reach(), short.ahead(20_000, 4_000 - 127)), (16_000, 16_127));
    assert_eq!(short.ahead(20_000, 4_000 - 128), 0);
    assert_eq!(short.horizon(), Some(Duration::from_nanos((1 << 20) - 16_127 - 2)));
}

#[test]
fn a_long_ring_tolerates_years_and_a_short_one_little() {
    let micros = Grid::new(1, 1_000, (1 << 53) - 1, 0);
    assert!(micros.skew_tolerance() > Some(Duration::from_secs(4 * 365 * 86_400)));
    let nanos = Grid::new(1, 1, (1 << 53) - 1, 0);
    assert_eq!(nanos.skew_tolerance().map(|span| span.as_secs()), Some(1_099));
}

/// 64 years to the second, and one second less; small fields.
#[test]
fn the_tolerance_is_a_sixty_fourth_of_a_long_ring_and_little_of_a_short_one() {
    const YEAR: u64 = 365 * 86_400;
    let of = |field_max, nanos| tolerance(NonZeroU64::MIN, nanos, field_max);
    assert_eq!(of(64 * YEAR, 1_000_000_000), YEAR);
    assert_eq!(of(64 * YEAR - 1, 1_000_000_000), 3_600, "an hour");
    assert_eq!([8_191, 8_192, 5 * 8_192, 5 * 8_192 - 1].map(|max| of(max, 1)), [1, 1, 5, 4]);
}

#[test]
fn the_farthest_instant_ahead_is_within_any_span() {
    let grid = Grid::new(1, 1, (1 << 20) - 1, 1_000);
    for (ahead, span, is_within) in [(1_127, 1, true), (1_128, 1, false), (1_127, 900, true)] {
        assert_eq!(
            grid.within(4_000 + ahead, 4_000, grid.back(span)),
            is_within,
            "{ahead} by {span}"
        );
    }
}

#[test]
fn distances_ahead_are_clamped_to_what_can_be_told_from_the_past() {
    let short = Grid::new(1, 1, (1 << 20) - 1, 1_000);
    assert_eq!(short.tolerance_units(), 127);
    assert_eq!((short.clamp_ahead(1_127), short.clamp_ahead(1_128)), (1_127, 1_127));
    let endless = Grid::new(1, 2_500, (1 << 53) - 1, 0);
    assert_eq!(endless.tolerance_units(), u64::MAX >> 1);
    assert_eq!(endless.clamp_ahead(u64::MAX), u64::MAX >> 1);
}

#[test]
fn a_wait_counts_to_the_beginning_of_the_unit_and_at_least_one() {
    let grid = Grid::new(1, 2_500, (1 << 53) - 1, 100);
    let wait = |now, units| grid.wait(Tick::from_nanos(now), units).as_nanos();
    assert_eq!((wait(0, 5), wait(1, 5), wait(2_499, 5)), (12_500, 12_499, 10_001));
    assert_eq!((wait(2_499, 1), wait(2_499, 0), wait(0, 0)), (1, 1, 2_500), "never at once");
}

#[test]
fn a_clock_that_is_behind_may_not_have_begun() {
    let behind = |now| {
        let (then, begins_in) = behind_by(Duration::from_nanos(7), Tick::from_nanos(now));
        (then.as_nanos(), begins_in.as_nanos())
    };
    assert_eq!([behind(0), behind(5), behind(7), behind(9)], [(0, 7), (0, 2), (0, 0), (2, 0)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn placing_is_exact_for_every_instant(
        units in 1_u64..1 << 54, more in 0_u64..1 << 62, now: u64, back in 0_u64..4,
    ) {
        let nanos = units + more;
        let grid = Grid::new(units, nanos, WIDE, 0);
        for now in [now, u64::MAX - back, back] {
            let floor = exact(units, nanos, now) & u128::from(u64::MAX);
            prop_assert_eq!(u128::from(grid.floor(Tick::from_nanos(now))), floor);
            let scale = grid.scale(Tick::from_nanos(now), grid.floor(Tick::from_nanos(now)));
            let (units, nanos) = grid.ratio();
            let phase = u128::from(now) * u128::from(units) % u128::from(nanos);
            prop_assert_eq!(u128::from(scale.phase), phase);
            prop_assert_eq!(grid.begins_unit(Tick::from_nanos(now)), phase == 0);
        }
    }

    /// Instants on a unit's edge, and one nanosecond to either side of it.
    #[test]
    fn placing_is_exact_at_the_edges(
        units in 1_u64..1 << 40, more in 0_u64..1 << 62, unit: u64,
    ) {
        let nanos = units + more;
        let grid = Grid::new(units, nanos, WIDE, 0);
        let edge = narrow(u128::from(unit) * u128::from(nanos) / u128::from(units));
        // A whole number of units that is a whole number of nanoseconds.
        let whole = narrow(u128::from(unit % 5) * u128::from(nanos));
        for edge in [edge, whole] {
            for now in [edge.saturating_sub(1), edge, edge.saturating_add(1)] {
                let at = Tick::from_nanos(now);
                let floor = exact(units, nanos, now) & u128::from(u64::MAX);
                prop_assert_eq!(u128::from(grid.floor(at)), floor);
                let begins = u128::from(now) * u128::from(units) % u128::from(nanos) == 0;
                prop_assert_eq!(grid.begins_unit(at), begins);
            }
        }
    }

    /// A span is the shortest after which the units have begun: one nanosecond less is too
    /// short.
    #[test]
    fn spans_are_sufficient_and_minimal(
        units in 1_u64..1 << 40, wider in 0_u64..1 << 50, now in 0_u64..1 << 60,
        more in 1_u64..1 << 30,
    ) {
        let nanos = units + wider;
        let grid = Grid::new(units, nanos, WIDE, 0);
        let floor = grid.floor(Tick::from_nanos(now));
        let span = grid.scale(Tick::from_nanos(now), floor).span(more);
        let span = u64::try_from(span.as_nanos()).expect("a u64 of nanoseconds");
        prop_assume!(now.checked_add(span).is_some());
        let begun = |after: u64| exact(units, nanos, now + after) - exact(units, nanos, now);
        prop_assert!(begun(span) >= u128::from(more));
        prop_assert!(span == 0 || begun(span - 1) < u128::from(more));
    }

    #[test]
    fn within_is_ahead_or_less_than_a_span_behind(
        wrapping: bool, now: u64, instant: u64, near in 0_u64..5_000, span in 1_u64..2_000,
    ) {
        let grid = match wrapping {
            true => Grid::new(1, 1, (1 << 20) - 1, 2_000),
            false => Grid::new(1, 2_500, (1 << 53) - 1, 2_000),
        };
        let now = now & ((1 << 53) - 1);
        for instant in [instant & ((1 << 53) - 1), now + near, now.wrapping_sub(near), now] {
            let within = grid.ahead(instant, now) > 0 || grid.behind(instant, now) < span;
            prop_assert_eq!(grid.within(instant, now, grid.back(span)), within);
        }
    }

    /// On an endless grid no two instants coincide, whatever was written ahead.
    #[test]
    fn an_endless_grid_never_mistakes_the_past(a: u64, b: u64, reach in 0_u64..1 << 40) {
        let grid = Grid::new(1, 2_500, (1 << 53) - 1, reach);
        prop_assert_eq!(grid.ring(), None);
        let written = grid.later(grid.floor(Tick::from_nanos(a)), reach);
        prop_assert!(written < 1 << 53);
        let now = grid.floor(Tick::from_nanos(b));
        prop_assert_eq!(grid.ahead(written, now), (a / 2_500 + reach).saturating_sub(b / 2_500));
    }
}
