//! The distance that changes set the clock by, and where it stands before a change.

use super::*;

/// The largest debt is 16 bursts, here as many units as a ring has in 64 parts: 2^47.
fn slow() -> Quota {
    Quota::new(10, Duration::from_secs(365 * 86_400)).burst(10)
}

fn change(params: GcraEpoch, quota: &Quota, inherit: Inherit) -> GcraEpoch {
    params.change(quota, inherit, Tick::ZERO).expect("in range")
}

/// How many resets do not wear the clock.
fn resets_until_worn(mut params: GcraEpoch) -> u32 {
    (0..100)
        .take_while(|_| {
            params = change(params, &slow(), Inherit::Reset);
            !params.is_worn()
        })
        .count()
        .try_into()
        .expect("few")
}

#[test]
fn resets_wear_the_clock_after_an_eighth_of_the_ring() {
    let params = GcraEpoch::new(&slow(), false).expect("in range");
    assert_eq!(params.grid().reach(), BURST_UNITS_MAX);
    assert!(!params.is_worn());
    assert_eq!(resets_until_worn(params), 8);
    let eighth = (0..8).fold(params, |params, _| change(params, &slow(), Inherit::Reset));
    assert_eq!(eighth.base, WORN_MAX);
    // Renewed, its clock is taken for up to 2^43 units further behind.
    let renewed = eighth.renewed_by(&eighth);
    assert_eq!(renewed.base, 0xff << PAYLOAD_BITS | WORN_MAX);
    assert!(!renewed.is_worn());
    assert_eq!(resets_until_worn(renewed), 7);
}

#[test]
fn a_renewal_at_the_clocks_first_turn_is_of_the_round_before() {
    let params = GcraEpoch::new(&slow(), false).expect("in range");
    let renewed = params.renewed_by(&params);
    assert_eq!(renewed.base, 0x7ff << PAYLOAD_BITS);
    assert!(!renewed.is_worn());
    assert_eq!(resets_until_worn(renewed), 7);
}

#[test]
fn a_burst_that_grows_sets_the_clock_back_and_wears_it_not_at_all() {
    let one = Quota::per_second(1_000).burst(1);
    let params = GcraEpoch::new(&one, false).expect("in range");
    let cell = params.gcra.cell();
    let grown = change(params, &one.burst(101), Inherit::AsIs);
    assert_eq!(grown.base, TAT.max() + 1 - 100 * cell);
    assert!(!grown.is_worn());
}

#[test]
fn after_a_reset_the_largest_debt_is_that_of_the_new_quota() {
    let quota = |burst| Quota::per_second(1_000).burst(burst);
    let params = GcraEpoch::new(&quota(1_000), false).expect("in range");
    assert_eq!((params.gcra.cell(), params.grid().reach()), (1_000, 16_000_000));
    let less = change(params, &quota(10), Inherit::Reset);
    assert_eq!(less.grid().reach(), 160_000);
}

#[test]
fn every_quota_leaves_sixty_days_between_a_state_and_a_later_one() {
    // In nanoseconds, the shortest units: three quarters of the ring, less the skew tolerance.
    let nanos = (1 << 53) - 2 * (1 << 50) - ((1 << 40) - 1) - 2;
    assert_eq!(GcraEpoch::min_horizon(), Some(Duration::from_nanos(nanos)));
    assert_eq!(nanos / (86_400 * 1_000_000_000), 78);
}

/// In units of 2.5 microseconds.
#[test]
fn before_a_change_the_clock_stands_a_unit_back_for_each_that_has_begun() {
    let quota = Quota::per_second(10);
    let params = GcraEpoch::new(&quota, false).expect("in range");
    assert_eq!((params.grid().ratio(), params.instant(Tick::ZERO)), ((1, 2_500), 0));
    let since = Tick::from_nanos(1_000_000_000);
    let changed = params.change(&quota, Inherit::AsIs, since).expect("in range");
    let at = |behind| changed.instant(since.saturating_sub(Duration::from_nanos(behind)));
    let here = params.instant(since);
    assert_eq!((at(0), here), (400_000, 400_000));
    assert_eq!([1, 2_499, 2_500, 5_000].map(at), [1, 1, 2, 3].map(|units| here - units));
    // So a state that was just idle is not idle yet.
    let idle = changed.liveness(here, at(1));
    assert!(matches!(idle, Liveness::Live { debt: 1 }), "{idle:?}");
    // Also where the change is the clock's first instant.
    let reset = params.change(&quota, Inherit::Spent, since).expect("in range");
    assert_eq!(GcraEpoch { base: 0, ..reset }.instant(Tick::ZERO), TAT.max() - 400_000);
}

#[test]
fn a_cell_has_a_thousand_units_where_the_headroom_leaves_them() {
    for (rate, burst, cell) in [
        // 2.5 microseconds are small enough.
        (1, 1, 400_000),
        (400, 400, 1_000),
        (31_250, 31_250, 1_000),
        (100_000, 100_000, 312),
        (1_000_000, 1_000_000, 31),
        (1_000_000_000, 1, 1),
        // As many as the largest burst leaves.
        (100_000, 1 << 40, 128),
    ] {
        let quota = Quota::per_second(rate).burst(burst);
        let params = GcraEpoch::new(&quota, false).expect("in range");
        assert_eq!(params.gcra.cell(), cell, "{quota}");
    }
}

#[test]
fn the_smallest_bucket_is_stored_with_its_first_debt() {
    let quota = Quota::per_second(1_000_000_000).burst(1);
    let params = GcraEpoch::new(&quota, true).expect("in range");
    assert_eq!(GcraEpoch::from_words(&params.to_words()), params);
}

/// One cell is one unit. A refund of it would take the debt of another charge.
#[test]
fn a_charge_of_one_unit_that_a_reset_has_forgiven_is_not_refunded() {
    let quota = Quota::per_second(1_000_000_000).burst(10);
    let now = Tick::from_nanos(5_000);
    let params = GcraEpoch::new(&quota, false).expect("in range");
    let reset = params.change(&quota, Inherit::Reset, now).expect("in range");
    let charge = |params: GcraEpoch, word, n| {
        let Step::Admit { next } = params.step(params.read(word, NoRing, now, n), now, n) else {
            panic!("{n} are free")
        };
        next
    };
    let next = charge(params, params.fresh(now), 1);
    let receipt = Receipt { cells: 1, at: now, next };
    let theirs = charge(reset, next, 3);
    assert_eq!(reset.refund(theirs, &receipt, now, 1), theirs);
}
