use super::*;
use crate::algo::NoRing;
use proptest::prelude::*;

mod units;
mod wear;

/// The oracle's units of debt in a cell, such that every rate below is a whole number of them in a
/// nanosecond.
const UNITS: i128 = 10_000_000_000;

/// One bucket in exact arithmetic.
#[derive(Debug)]
struct Exact {
    debt: i128,
    burst: i128,
    /// Units that drain in a nanosecond.
    drain: i128,
    at: u64,
}

impl Exact {
    fn new(quota: &Quota) -> Self {
        let (burst, drain) = Self::terms(quota);
        Self { debt: 0, burst, drain, at: 0 }
    }

    fn terms(quota: &Quota) -> (i128, i128) {
        let drain = i128::from(quota.limit()) * (UNITS / i128::from(quota.period_nanos()));
        (i128::from(quota.burst_cells()) * UNITS, drain)
    }

    fn pass(&mut self, now: u64) {
        self.debt = (self.debt - self.drain * i128::from(now - self.at)).max(0);
        self.at = now;
    }

    fn change(&mut self, quota: &Quota, inherit: Inherit) {
        let (burst, drain) = Self::terms(quota);
        let left = self.burst - self.debt;
        let left = match inherit {
            Inherit::AsIs => left,
            Inherit::Additive => left + (burst - self.burst).max(0),
            Inherit::Spent => burst - self.debt,
            Inherit::Proportional => left * burst / self.burst,
            Inherit::Reset => burst,
        };
        *self = Self { debt: (burst - left).max(0), burst, drain, ..*self };
    }
}

fn quotas() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![Just(100), Just(1_000), Just(10_000)];
    (1_u64..100, period, 1_u64..60)
        .prop_map(|(limit, ms, burst)| Quota::new(limit, Duration::from_millis(ms)).burst(burst))
}

fn inherits() -> impl Strategy<Value = Inherit> {
    prop_oneof![
        Just(Inherit::AsIs),
        Just(Inherit::Additive),
        Just(Inherit::Spent),
        Just(Inherit::Proportional),
        Just(Inherit::Reset),
    ]
}

#[derive(Clone, Debug)]
enum Do {
    Ask(u64),
    Change(Quota, Inherit),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Do)>> {
    let doing = prop_oneof![
        3 => (1_u64..40).prop_map(Do::Ask),
        1 => (quotas(), inherits()).prop_map(|(quota, inherit)| Do::Change(quota, inherit)),
    ];
    let pause = prop_oneof![Just(0), 0_u64..30_000_000, 0_u64..3_000_000_000];
    prop::collection::vec((pause, doing), 1..60)
}

/// The debt of a key's state at an instant, and the size of a unit, both in the oracle's units.
fn owed(params: &GcraEpoch, word: u64, now: Tick) -> (i128, i128) {
    let unit = UNITS / i128::from(params.gcra.cell()) + 1;
    let ahead = params.grid().ahead(word, params.instant(now));
    (i128::from(ahead) * UNITS / i128::from(params.gcra.cell()), unit)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No charge is lost and no cell is created: after any changes the debt is exact to a unit for
    /// each change (for a proportional change to a hundredth more).
    #[test]
    fn the_debt_is_exact_after_any_changes(first in quotas(), steps in steps()) {
        let mut params = GcraEpoch::new(&first, false).expect("in range");
        let mut exact = Exact::new(&first);
        let mut word = params.fresh(Tick::ZERO);
        // The largest difference between the two so far.
        let (mut more, mut less, mut now) = (0, 0, 0_u64);
        for (pause, doing) in steps {
            now += pause;
            let instant = Tick::from_nanos(now);
            exact.pass(now);
            match doing {
                Do::Ask(n) => {
                    let wanted = i128::from(n) * UNITS;
                    let unit = owed(&params, word, instant).1;
                    let view = params.read(word, NoRing, instant, n);
                    match params.step(view, instant, n) {
                        Step::Admit { next } => {
                            prop_assert!(exact.debt + wanted <= exact.burst + less + 2 * unit);
                            exact.debt += wanted;
                            word = next;
                        }
                        _ => prop_assert!(exact.debt + wanted > exact.burst - more - 2 * unit),
                    }
                }
                Do::Change(quota, inherit) => {
                    let old = exact.burst;
                    let was_idle = owed(&params, word, instant).0 == 0;
                    let Ok(changed) = params.change(&quota, inherit, instant) else { continue };
                    exact.change(&quota, inherit);
                    params = changed;
                    let (debt, unit) = owed(&params, word, instant);
                    if was_idle {
                        // An idle state means the same as no state.
                        prop_assert!(debt <= exact.debt + more + unit);
                        exact.debt = debt;
                    }
                    if inherit == Inherit::Proportional {
                        more = more * exact.burst / old + exact.debt / 99;
                        less = less * exact.burst / old;
                    }
                    (more, less) = (more + unit, less + unit);
                }
            }
            let (debt, unit) = owed(&params, word, instant);
            prop_assert!(debt <= exact.debt + more + unit, "{debt} {exact:?} {more}");
            prop_assert!(debt >= exact.debt - less - unit, "{debt} {exact:?} {less}");
        }
    }

    #[test]
    fn the_stored_words_hold_the_whole_state(first in quotas(), steps in steps(), empty: bool) {
        let mut params = GcraEpoch::new(&first, empty).expect("in range");
        for (pause, doing) in steps {
            if let Do::Change(quota, inherit) = doing
                && let Ok(changed) = params.change(&quota, inherit, Tick::from_nanos(pause))
            {
                params = changed;
            }
            prop_assert_eq!(GcraEpoch::from_words(&params.to_words()), params);
        }
    }

    /// For a clock from before the change, the wait in a denial suffices and a nanosecond less does
    /// not, and the reset time is right.
    #[test]
    fn the_wait_of_a_clock_before_the_change_is_exact(
        first in quotas(), then in quotas(), inherit in inherits(), spent in 0_u64..60,
        since in 0_u64..5_000_000_000, behind in 1_u64..5_000_000_000, n in 1_u64..60,
    ) {
        let since = Tick::from_nanos(since);
        let params = GcraEpoch::new(&first, false).expect("in range");
        let mut word = params.fresh(since);
        let view = params.read(word, NoRing, since, spent.min(params.burst()));
        if let Step::Admit { next } = params.step(view, since, spent.min(params.burst())) {
            word = next;
        }
        let Ok(params) = params.change(&then, inherit, since) else { return Ok(()) };
        let now = since.saturating_sub(Duration::from_nanos(behind));
        let is_admitted = |now: Tick| {
            matches!(params.step(params.read(word, NoRing, now, n), now, n), Step::Admit { .. })
        };
        match params.answer(params.read(word, NoRing, now, n), now, n) {
            Ok(_) => prop_assert!(is_admitted(since)),
            Err(denied) => match denied.retry_after() {
                None => prop_assert!(n > params.burst()),
                Some(wait) => {
                    let due = now.saturating_add(wait);
                    prop_assert!(due > since && is_admitted(due));
                    prop_assert!(!is_admitted(due.saturating_sub(Duration::from_nanos(1))));
                }
            },
        }
        let permit = params.answer(params.read(word, NoRing, now, 0), now, 0).expect("nothing");
        // An instant before the change is decided as the instant of the change.
        let full = now.saturating_add(permit.reset_after()).max(since);
        prop_assert_eq!(params.owed(word, NoRing, params.instant(full)), 0);
        // A charge ahead of its turn waits no longer than its bound.
        let wait = Duration::from_nanos(behind + 500_000_000);
        let ahead = params.within(now, wait);
        if let Step::Admit { next } = ahead.step(ahead.read(word, NoRing, now, n), now, n) {
            prop_assert!(params.turn(next, now) <= wait);
        }
    }

    /// For slow quotas, some sixty resets would take the clock round the ring. A state that is idle
    /// at a change stays idle after any further changes, except for the growth of the burst since
    /// it was full.
    #[test]
    fn an_idle_state_stays_idle_over_any_number_of_changes(
        changes in prop::collection::vec((1_u64..20, 1_u64..20, inherits(), 0_u64..100), 1..400),
        empty: bool,
    ) {
        let quota = |limit: u64, burst| {
            Quota::new(limit, Duration::from_secs(365 * 86_400)).burst(burst)
        };
        let mut params = GcraEpoch::new(&quota(10, 10), empty).expect("in range");
        let (mut now, mut renewals) = (Tick::ZERO, 0);
        let mut words = vec![params.fresh(now), params.absolute(0)];
        for (limit, burst, inherit, days) in changes {
            // A denied change does not move the clock: a state older than the horizon may be read as live.
            let later = now.saturating_add(Duration::from_secs(days * 86_400));
            let quota = quota(limit, burst);
            let Ok(mut changed) = params.change(&quota, inherit, later) else { continue };
            now = later;
            if changed.is_worn() {
                words.iter_mut().for_each(|word| *word = params.renewed(*word, params.instant(now)));
                changed = params.renewed_by(&params).change(&quota, inherit, now).expect("as before");
                renewals += 1;
            }
            let grown = burst.saturating_sub(params.burst()) * params.gcra.cell();
            let most = if inherit == Inherit::AsIs { grown } else { 0 };
            for word in &mut words {
                let owed = params.owed(*word, NoRing, params.instant(now));
                let owes = changed.owed(*word, NoRing, changed.instant(now));
                prop_assert!(owes <= owed + most, "{owed} and {owes}, {renewals} renewals");
            }
            params = changed;
        }
    }

    /// Any stored words of a quota, any state, any time, any cost.
    #[test]
    fn no_state_time_or_cost_panics(
        first in quotas(), then in quotas(), inherit in inherits(), changed: u64,
        word: u64, now: u64, n: u64, given: u64, wait: u64,
    ) {
        let params = GcraEpoch::new(&first, false).expect("in range");
        let changed = Tick::from_nanos(changed);
        let params = params.change(&then, inherit, changed).unwrap_or(params);
        let (now, wait) = (Tick::from_nanos(now), Duration::from_nanos(wait));
        for params in [params, params.overdrawn(), params.within(now, wait)] {
            let view = params.read(word, NoRing, now, n);
            if let Step::Admit { next } = params.step(view, now, n) {
                prop_assert_eq!(TAT.of(next), next);
                let receipt = Receipt { cells: n, at: now, next };
                let refunded = params.refund(next, &receipt, now, given);
                prop_assert_eq!(TAT.of(refunded), refunded);
                let _ = params.permit(view, now, n);
            }
            let _ = (params.denied(view, now, n), params.turn(word, now));
            let _ = (params.liveness(word, params.instant(now)), params.add(word, now, n));
            let _ = params.no_slot(word, now, Duration::from_millis(1));
        }
    }

    /// Repeated changes at any instant of any clock.
    #[test]
    fn a_key_in_constant_use_is_granted_the_rate(rates in prop::collection::vec(1_u64..50, 1..6)) {
        let first = Quota::per_second(rates[0]).burst(1);
        let mut params = GcraEpoch::new(&first, false).expect("in range");
        let mut word = params.fresh(Tick::ZERO);
        let mut granted = 0;
        for (second, rate) in rates.iter().enumerate() {
            let begin = second as u64 * 1_000_000_000;
            let quota = Quota::per_second(*rate).burst(1);
            params = params.change(&quota, Inherit::AsIs, Tick::from_nanos(begin)).expect("in range");
            for at in 0..1_000 {
                let now = Tick::from_nanos(begin + at * 1_000_000);
                if let Step::Admit { next } = params.step(params.read(word, NoRing, now, 1), now, 1) {
                    (word, granted) = (next, granted + 1);
                }
            }
        }
        let due: u64 = rates.iter().sum();
        prop_assert!(granted <= due + 1, "{granted} of {due}");
        // With one request a millisecond, a cell may come a millisecond late.
        prop_assert!(granted + 1 >= due * 19 / 20, "{granted} of {due}");
    }
}

#[test]
fn a_clock_from_before_the_change_reads_as_the_change() {
    let second = Tick::from_nanos(1_000_000_000);
    let params = GcraEpoch::new(&Quota::per_second(10), false).expect("in range");
    let changed = params.change(&Quota::per_second(20), Inherit::AsIs, second).expect("in range");
    let word = params.fresh(Tick::ZERO);
    let Step::Admit { next } = params.step(params.read(word, NoRing, second, 10), second, 10)
    else {
        panic!("a fresh bucket is full");
    };
    let behind = Tick::from_nanos(3);
    let left = |now| changed.permit(changed.read(next, NoRing, now, 0), now, 0).remaining();
    assert_eq!((left(behind), left(second)), (0, 0));
    // For a state that became idle before, the time since then is computed at the present rate.
    let idle = changed.liveness(word, changed.instant(behind));
    assert!(matches!(idle, Liveness::Idle { .. } | Liveness::Live { .. }));
}

#[test]
fn a_charge_before_a_change_is_not_refunded() {
    let params = GcraEpoch::new(&Quota::per_second(10), false).expect("in range");
    let at = Tick::from_nanos(5);
    let word = params.fresh(at);
    let Step::Admit { next } = params.step(params.read(word, NoRing, at, 10), at, 10) else {
        panic!("a fresh bucket is full");
    };
    let receipt = Receipt { cells: 10, at, next };
    assert_ne!(params.refund(next, &receipt, at, 10), next);
    let later = Tick::from_nanos(6);
    let changed = params.change(&Quota::per_second(20), Inherit::AsIs, later).expect("in range");
    assert_eq!(changed.refund(next, &receipt, later, 10), next);
}

#[test]
fn a_charge_by_the_quota_before_a_reset_is_not_refunded_whenever_it_was_made() {
    let params = GcraEpoch::new(&Quota::per_hour(10), false).expect("in range");
    let reset = Tick::from_nanos(5_000_000_000);
    let changed = params.change(&Quota::per_hour(10), Inherit::Reset, reset).expect("in range");
    let minutes = |count: u64| reset.saturating_add(Duration::from_secs(60 * count));
    // At that instant, just after it, and by a clock that is ahead.
    for at in [reset, Tick::from_nanos(5_000_000_001), minutes(1), minutes(17)] {
        let Step::Admit { next } =
            params.step(params.read(params.fresh(at), NoRing, at, 10), at, 10)
        else {
            panic!("a fresh bucket is full");
        };
        let receipt = Receipt { cells: 10, at, next };
        let later = minutes(18);
        let Step::Admit { next } = changed.step(changed.read(next, NoRing, later, 10), later, 10)
        else {
            panic!("a bucket is full after a reset");
        };
        assert_eq!(changed.refund(next, &receipt, later, 10), next, "{at:?}");
    }
}

/// The quota changes at the last tick, and another thread still has the time of the first.
#[test]
fn an_instant_the_longest_time_before_a_change_is_not_that_of_the_change() {
    let quota = Quota::per_second(1_000_000_000);
    let params = GcraEpoch::new(&quota, false).expect("in range");
    let changed = params.change(&quota, Inherit::Spent, Tick::MAX).expect("in range");
    assert_ne!(changed.instant(Tick::ZERO), changed.instant(Tick::MAX));
}

/// 6 cells of a burst of 20 are one and a half of a burst of 5. If they stayed 6, the refund would pay other debt too.
#[test]
fn a_charge_by_smaller_cells_is_not_refunded_as_larger_ones() {
    let params = GcraEpoch::new(&Quota::per_hour(20), false).expect("in range");
    let at = Tick::from_nanos(5_000_000_000);
    let charge = |word, n| match params.step(params.read(word, NoRing, at, n), at, n) {
        Step::Admit { next } => next,
        Step::Deny | Step::DenyCounted { .. } => panic!("20 are there"),
    };
    let next = charge(charge(params.fresh(at), 9), 6);
    let receipt = Receipt { cells: 6, at, next };
    let changed = params.change(&Quota::per_hour(5), Inherit::Proportional, at).expect("in range");
    assert_eq!(changed.refund(next, &receipt, at, 6), next);
    assert_ne!(params.refund(next, &receipt, at, 6), next);
}

#[test]
fn impossible_quotas_and_changes_are_rejected_with_their_error() {
    use QuotaError as E;
    assert_eq!(GcraEpoch::new(&Quota::per_second(0), false), Err(E::ZeroLimit));
    let params = GcraEpoch::new(&Quota::per_second(100), false).expect("in range");
    let change = |quota, inherit| params.change(&quota, inherit, Tick::ZERO).map(|_| ());
    assert_eq!(change(Quota::per_second(3_200), Inherit::AsIs), Ok(()));
    assert_eq!(change(Quota::per_second(1_000_000_000), Inherit::AsIs), Err(E::ChangeTooFast));
    assert_eq!(change(Quota::per_second(100).burst(1 << 39), Inherit::AsIs), Err(E::RefillTooLong));
    let huge = Quota::per_second(100_000).burst(1 << 39);
    assert_eq!(change(huge, Inherit::AsIs), Err(E::ChangeBurstTooLarge));
    assert_eq!(
        change(Quota::per_second(100).burst(9_999), Inherit::Proportional),
        Err(E::InheritTooFar)
    );
    assert_eq!(change(Quota::per_second(0), Inherit::Reset), Err(E::ZeroLimit));
}

#[test]
fn the_rate_may_grow_thirtytwofold() {
    for rate in [1, 30, 1_000, 31_250, 100_000, 1_000_000, 31_250_000] {
        let params = GcraEpoch::new(&Quota::per_second(rate), false).expect("in range");
        for inherit in [Inherit::AsIs, Inherit::Additive, Inherit::Spent, Inherit::Reset] {
            let faster = Quota::per_second(rate * 32).burst(rate);
            assert!(params.change(&faster, inherit, Tick::ZERO).is_ok(), "{rate}");
        }
    }
}

#[test]
fn a_proportional_change_keeps_shares_by_other_units() {
    use QuotaError as E;
    assert_eq!(in_proportion(1_000, 10, 20), Ok(500));
    assert_eq!(in_proportion(1_000, 10, 40), Ok(250));
    assert_eq!(in_proportion(1_000, 30, 7), Ok(4_285), "right to one part in a hundred");
    assert_eq!(in_proportion(30, 10, 20), Ok(15), "few, but exact");
    assert_eq!(in_proportion(30, 10, 7), Err(E::InheritTooFar));
    assert_eq!(in_proportion(1_007, 1, 10), Ok(100), "just as many as are needed");
    assert_eq!(in_proportion(999, 1, 10), Err(E::InheritTooFar));
    assert_eq!(in_proportion(u64::MAX, 2, 1), Err(E::ChangeTooFast));
}

#[test]
fn changes_in_proportion_use_up_the_unit_and_then_the_error_names_them() {
    // No number of units in range is a multiple of all these bursts.
    let quotas = [97, 101, 103].map(|burst| Quota::per_second(100).burst(burst));
    let mut params = GcraEpoch::new(&quotas[0], false).expect("in range");
    let (mut changes, mut told) = (0, None);
    while told.is_none() && changes < 10_000 {
        changes += 1;
        match params.change(&quotas[changes % 3], Inherit::Proportional, Tick::ZERO) {
            Ok(changed) => params = changed,
            Err(error) => told = Some(error),
        }
    }
    assert!((1_000..10_000).contains(&changes), "{changes}");
    let error = told.expect("each change loses a part of a unit");
    assert_eq!(error, QuotaError::InheritTooFar);
    assert!(error.to_string().contains("by many changes"), "{error}");
    let next = &quotas[changes % 3];
    for inherit in [Inherit::AsIs, Inherit::Additive, Inherit::Spent, Inherit::Reset] {
        assert!(params.change(next, inherit, Tick::ZERO).is_ok(), "as the error says");
    }
}

#[test]
fn a_bucket_that_starts_empty_still_does_after_a_change() {
    let quota = Quota::per_second(10);
    let params = GcraEpoch::new(&quota, true).expect("in range");
    let second = Tick::from_nanos(1_000_000_000);
    for inherit in [Inherit::AsIs, Inherit::Reset] {
        let changed = params.change(&Quota::per_second(20), inherit, second).expect("in range");
        for (params, now) in [(params, Tick::ZERO), (params, second), (changed, second)] {
            let view = params.read(params.fresh(now), NoRing, now, 0);
            assert_eq!(params.permit(view, now, 0).remaining(), 0);
        }
    }
}

#[test]
fn a_charge_at_the_instant_of_the_change_is_refunded() {
    let first = GcraEpoch::new(&Quota::per_second(10), false).expect("in range");
    let now = Tick::from_nanos(1_000_000_000);
    let params = first.change(&Quota::per_second(20), Inherit::Reset, now).expect("in range");
    let left = |word| params.permit(params.read(word, NoRing, now, 0), now, 0).remaining();
    let Step::Admit { next } =
        params.step(params.read(params.fresh(now), NoRing, now, 15), now, 15)
    else {
        panic!("a fresh bucket is full");
    };
    let receipt = Receipt { cells: 15, at: now, next };
    assert_eq!(left(next), 5);
    assert_eq!(left(params.refund(next, &receipt, now, 7)), 12);
    assert_eq!(left(params.add(next, now, 7)), 12);
    assert_eq!(left(params.add(next, now, 99)), 20, "no more than it holds");
}

#[test]
fn the_turn_of_a_charge_beyond_the_burst_comes_when_its_debt_has_drained() {
    let params = GcraEpoch::new(&Quota::per_second(10), false).expect("in range");
    let now = Tick::from_nanos(1_000_000_000);
    let params = params.change(&Quota::per_second(20), Inherit::Reset, now).expect("in range");
    let ahead = params.within(now, Duration::from_secs(1));
    let word = params.fresh(now);
    let Step::Admit { next } = ahead.step(ahead.read(word, NoRing, now, 30), now, 30) else {
        panic!("ten beyond the burst take half a second");
    };
    let turn = params.turn(next, now);
    assert!(turn >= Duration::from_millis(500) && turn < Duration::from_millis(501), "{turn:?}");
    assert_eq!(params.turn(word, now), Duration::ZERO);
}

#[test]
fn a_bucket_that_starts_empty_starts_in_debt() {
    for start_empty in [false, true] {
        let params = GcraEpoch::new(&Quota::per_second(10), start_empty).expect("in range");
        assert_eq!(params.starts_in_debt(), start_empty);
    }
}

#[test]
fn cells_restored_at_the_rate_in_force_are_not_refunded() {
    use crate::algo::{Receipt, Refund};
    let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    let first = Quota::per_second(10).burst(20);
    let params = GcraEpoch::new(&first, false).expect("in range");
    let slower = Quota::per_second(5).burst(20);
    let params = params.change(&slower, Inherit::AsIs, at(10_000)).expect("in range");
    let charge = |word: u64, now: Tick, n: u64| match params.step(word, now, n) {
        Step::Admit { next } => next,
        _ => panic!("{n} cells are free"),
    };
    let five = charge(params.read(params.fresh(at(20_000)), NoRing, at(20_000), 5), at(20_000), 5);
    let receipt = Receipt { cells: 5, at: at(20_000), next: five };
    // Two of them have come back, and other charges took three.
    let now = at(20_400);
    let eight = charge(params.read(five, NoRing, now, 3), now, 3);
    let word = params.refund(eight, &receipt, now, 5);
    let left = |word| params.permit(params.read(word, NoRing, now, 0), now, 0).remaining();
    assert_eq!((left(eight), left(word)), (14, 17));
}

#[test]
fn the_largest_debt_never_shrinks_and_stays_within_the_ring() {
    let quota = |burst| Quota::per_second(1_000).burst(burst);
    let mut params = GcraEpoch::new(&quota(1_000), false).expect("in range");
    let before = params.grid().reach();
    let less = params.change(&quota(10), Inherit::AsIs, Tick::ZERO).expect("in range");
    assert_eq!(less.grid().reach(), before);
    let largest = BURST_UNITS_MAX / params.gcra.cell();
    for burst in [1, largest].repeat(20) {
        let changed = params.change(&quota(burst), Inherit::AsIs, Tick::ZERO);
        params = changed.expect("in range");
    }
    assert_eq!(params.grid().reach(), 1 << 50);
}
