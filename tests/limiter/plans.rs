//! Quotas that differ from key to key, in one table.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::internals::StateMachine;
use tollgate::limiter::SlotLayout;
use tollgate::plan::Plannable;
use tollgate::{Direct, FixedWindow, Gcra, Limiter, ManualClock, Quota, QuotaError, Tick};

/// A bucket in exact arithmetic: a cell is as many units as the period has nanoseconds, and `limit`
/// units are restored in a nanosecond.
struct Exact {
    debt: i128,
    quota: Quota,
}

impl Exact {
    fn pass(&mut self, nanos: u64) {
        let paid = i128::from(nanos) * i128::from(self.quota.limit());
        self.debt = (self.debt - paid).max(0);
    }

    fn cell(&self) -> i128 {
        i128::try_from(self.quota.period().as_nanos()).expect("a period")
    }

    fn room(&self) -> i128 {
        i128::from(self.quota.burst_cells()) * self.cell() - self.debt
    }
}

fn quotas() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![Just(1), Just(10), Just(60)];
    (1_u64..=600, period, 1_u64..50)
        .prop_map(|(limit, secs, burst)| Quota::new(limit, Duration::from_secs(secs)).burst(burst))
}

fn gates() -> Vec<Limiter<u64, Gcra, ManualClock>> {
    let begun = || Limiter::builder(Quota::per_second(600)).clock(ManualClock::new());
    let wide = begun().algorithm(Gcra::new().for_plans()).capacity(100).build();
    vec![wide.expect("in range"), begun().slots(SlotLayout::Wide).build().expect("in range")]
}

/// A time that is a whole number of units of a minute's windows, whatever their limit.
const WHOLE_UNITS_NANOS: u64 = 30_000_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Keys of three plans side by side are granted what their quotas grant, up to a time unit, and
    /// up to the thousandth by which a rate is rounded.
    #[test]
    fn each_key_is_granted_the_quota_of_its_plan(
        plans in prop::collection::vec(quotas(), 3),
        asked in prop::collection::vec((0_u64..2_000_000_000, 0_usize..3, 1_u64..30), 1..80),
    ) {
        for gate in gates() {
            let Ok(made) = plans.iter().map(|quota| gate.plan(*quota)).collect::<Result<Vec<_>, _>>()
            else { continue };
            let mut exact: Vec<Exact> =
                plans.iter().map(|quota| Exact { debt: 0, quota: *quota }).collect();
            let (units, nanos) = gate.params().grid().ratio();
            let mut now = 0;
            for &(pause, key, n) in &asked {
                now += pause;
                exact.iter_mut().for_each(|exact| exact.pass(pause));
                let exact = &mut exact[key];
                let unit = i128::from((nanos / units + 1) * exact.quota.limit());
                let rounding = i128::from(exact.quota.burst_cells()) * exact.cell() / 1_000;
                let wanted = i128::from(n) * exact.cell();
                match gate.ask(&(key as u64)).cells(n).plan(&made[key]).at(Tick::from_nanos(now)).check() {
                    Ok(permit) => {
                        prop_assert!(wanted <= exact.room() + unit);
                        prop_assert_eq!(permit.limit(), exact.quota.burst_cells());
                        exact.debt += wanted;
                    }
                    Err(_) => prop_assert!(wanted > exact.room() - unit - rounding),
                }
            }
        }
    }

    /// A debt takes the same time to be restored, through any changes of plan.
    #[test]
    fn a_debt_outlasts_a_change_of_plan(
        plans in prop::collection::vec(quotas(), 2..5),
        asked in prop::collection::vec((0_u64..200_000_000, 0_usize..5, 0_u64..20), 1..60),
    ) {
        let gate = &gates()[0];
        let Ok(made) = plans.iter().map(|quota| gate.plan(*quota)).collect::<Result<Vec<_>, _>>()
        else { return Ok(()) };
        let until_paid = |plan, now| {
            gate.ask(&7).cells(0).plan(plan).at(now).peek().expect("nothing is asked for").reset_after()
        };
        let mut now = 0;
        for (pause, plan, n) in asked {
            now += pause;
            let now = Tick::from_nanos(now);
            let plan = &made[plan % made.len()];
            let before = until_paid(plan, now);
            prop_assert!(made.iter().all(|other| until_paid(other, now) == before));
            match gate.ask(&7).cells(n).plan(plan).at(now).check() {
                Ok(permit) => prop_assert!(permit.reset_after() >= before),
                Err(_) => prop_assert_eq!(until_paid(plan, now), before),
            }
        }
    }

    /// At instants when a unit begins in all limiters: units differ with the limits that a limiter
    /// is built for.
    #[test]
    fn fixed_windows_of_one_length_admit_up_to_the_limit_of_each_plan(
        limits in prop::collection::vec(1_u64..100, 2),
        asked in prop::collection::vec((0_u64..1_000, 0_usize..2, 1_u64..40), 1..60),
        is_aligned: bool,
    ) {
        let windows = if is_aligned { FixedWindow::aligned() } else { FixedWindow::anchored() };
        let gate: Limiter<usize, _, _> = Limiter::builder(Quota::per_minute(100))
            .algorithm(windows)
            .clock(ManualClock::new())
            .build()
            .expect("in range");
        let plans: Vec<_> =
            limits.iter().map(|limit| gate.plan(Quota::per_minute(*limit)).expect("fits")).collect();
        let alone: Vec<_> = limits
            .iter()
            .map(|limit| {
                let builder = Direct::builder(Quota::per_minute(*limit)).algorithm(windows);
                builder.clock(ManualClock::new()).build().expect("in range")
            })
            .collect();
        let params = alone.iter().map(Direct::params).chain([gate.params()]);
        for (units, nanos) in params.map(|params| params.grid().ratio()) {
            prop_assert!(is_aligned || (WHOLE_UNITS_NANOS * units).is_multiple_of(nanos));
        }
        let mut now = 0;
        for (pause, key, n) in asked {
            now += pause * WHOLE_UNITS_NANOS;
            let now = Tick::from_nanos(now);
            let (with_plan, without) =
                (gate.ask(&key).cells(n).plan(&plans[key]).at(now).check(), alone[key].ask().cells(n).at(now).check());
            prop_assert_eq!(with_plan.is_ok(), without.is_ok());
            let left = |decision: tollgate::Decision| {
                decision.map_or_else(|denied| denied.remaining(), |permit| permit.remaining())
            };
            prop_assert_eq!(left(with_plan), left(without));
        }
    }
}

/// A window is as long as the quota that opened it. A reservation by another quota is refunded until that window ends.
#[test]
fn a_reservation_is_refunded_while_the_window_is_open_that_another_quota_has_opened() {
    let (hour, short) = (Quota::per_hour(10), Quota::new(8, Duration::from_secs(36)));
    let at = |seconds: u64| Tick::from_duration(Duration::from_secs(seconds));
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        for (own, other) in [(hour, short), (short, hour)] {
            let gate: Limiter<u64, _, _> = Limiter::builder(own)
                .algorithm(FixedWindow::anchored())
                .clock(ManualClock::new())
                .slots(slots)
                .build()
                .expect("in range");
            let Ok(plan) = gate.plan(other) else {
                assert_eq!((own, slots), (short, SlotLayout::Compact), "beyond its grid");
                continue;
            };
            let plan_of = |quota| if quota == own { None } else { Some(&plan) };
            let ask = |quota, cells, seconds| {
                let ask = gate.ask(&7).cells(cells).at(at(seconds));
                match plan_of(quota) {
                    Some(plan) => ask.plan(plan).reserve(),
                    None => ask.reserve(),
                }
            };
            ask(hour, 1, 0).expect("there are ten").settle_at(1, at(0));
            let [early, late] = [(); 2].map(|()| ask(short, 3, 60).expect("there are eight"));
            let counted = |seconds| {
                let left = gate.ask(&7).cells(0).at(at(seconds)).peek().expect("none").remaining();
                own.limit() - left
            };
            assert_eq!(counted(3_540), 7);
            early.settle_at(1, at(3_540));
            assert_eq!(counted(3_540), 5, "{own}, {slots:?}");
            ask(hour, 1, 3_600).expect("a new window").settle_at(1, at(3_600));
            late.settle_at(0, at(3_600));
            assert_eq!(counted(3_600), 1, "the next window, {own}, {slots:?}");
        }
    }
}

#[test]
fn a_plan_beyond_the_range_of_a_state_is_a_build_error_with_a_reason() {
    let gate: Limiter<u64> = Limiter::builder(Quota::per_second(100)).build().expect("in range");
    let plan = |quota| gate.plan(quota).map(|_| ()).unwrap_err();
    assert_eq!(plan(Quota::per_second(0)), QuotaError::ZeroLimit);
    assert_eq!(plan(Quota::per_second(3_000_000)), QuotaError::PlanTooFast);
    let windows: Limiter<u64, _> = Limiter::builder(Quota::per_minute(100))
        .algorithm(FixedWindow::aligned())
        .build()
        .expect("in range");
    let plan = |quota| windows.plan(quota).map(|_| ()).unwrap_err();
    assert_eq!(plan(Quota::per_hour(100)), QuotaError::PlanTooLong);
    let error = plan(Quota::per_minute(100_000));
    assert!(
        error.to_string().ends_with("build the limiter with the largest limit of all"),
        "{error}"
    );
    let compact: Limiter<u64> = Limiter::builder(Quota::per_second(100))
        .slots(SlotLayout::Compact)
        .build()
        .expect("in range");
    // The largest debt of a compact state is 16 bursts.
    assert_eq!(compact.plan(Quota::per_day(100)).unwrap_err(), QuotaError::PlanTooLong);
}

/// The bounds that `Gcra::for_plans` states.
#[test]
fn a_limiter_for_plans_bounds_the_longest_bursts_and_the_fastest_rates() {
    let plan = |limit, quota| {
        let gate = Limiter::<u64>::builder(Quota::per_second(limit));
        let gate = gate.algorithm(Gcra::new().for_plans()).build().expect("in range");
        gate.plan(quota).map(|_| ())
    };
    let of_days = |days| Quota::per_day(1).burst(days);
    let (year, fast) = (365, 1_000_000);
    assert_eq!(plan(400, of_days(100 * year)), Ok(()));
    assert_eq!(plan(1_000, of_days(35 * year)), Ok(()));
    assert_eq!(plan(1_000, of_days(36 * year)), Err(QuotaError::PlanTooLong));
    for limit in [fast, 3 * fast] {
        assert_eq!(plan(limit, of_days(13)), Ok(()));
        assert_eq!(plan(limit, of_days(14)), Err(QuotaError::PlanTooLong));
    }
    assert_eq!(plan(3 * fast, Quota::per_second(1_000_001)), Ok(()));
    assert_eq!(plan(3 * fast, Quota::per_second(2_990_000)), Err(QuotaError::PlanTooFast));
    for (error, advice) in [
        (QuotaError::PlanTooFast, "if it is built so, count in larger cells"),
        (
            QuotaError::PlanTooLong,
            "if it is built so, give slow plans a slower limiter of their own",
        ),
    ] {
        assert!(error.to_string().ends_with(advice), "{error}");
    }
}

/// Where the states have room for 16 bursts, these are bursts of the limiter's own quota.
#[test]
fn a_debt_under_a_plan_is_bounded_by_sixteen_bursts_of_the_limiters_own_quota() {
    let quota = Quota::per_second(100);
    let compact = Limiter::<str>::builder(quota).slots(SlotLayout::Compact).build();
    let for_plans = Limiter::<str>::builder(quota).algorithm(Gcra::new().for_plans()).build();
    let [compact, for_plans] = [compact, for_plans].map(|built| built.expect("in range"));
    let wait = |gate: &Limiter<str>, burst| {
        let plan = gate.plan(quota.burst(burst)).expect("in range");
        gate.ask("a").plan(&plan).cells(burst + 10_000).at(Tick::ZERO).charge().as_secs()
    };
    let waits = |burst| {
        [&compact, &for_plans].map(|gate| {
            gate.reset("a");
            wait(gate, burst)
        })
    };
    assert_eq!(waits(100), [15, 100]);
    assert_eq!(waits(800), [8, 100]);
    assert_eq!(waits(1_600), [0, 100], "the plan's burst is as large as the bound");
}

/// Asks a limiter by a plan of another one, and checks that this panics.
fn assert_a_plan_panics<A: Plannable>([one, other]: [Limiter<u64, A, ManualClock>; 2]) {
    let plan = one.plan(Quota::per_day(3)).expect("fits");
    let own = other.plan(Quota::per_day(3)).expect("fits");
    assert!(other.ask(&7).plan(&own).check().is_ok());
    let ask = AssertUnwindSafe(|| other.ask(&7).plan(&plan).check());
    let panic = std::panic::catch_unwind(ask).expect_err("of another limiter");
    let message = panic.downcast_ref::<&str>().expect("a text");
    assert_eq!(*message, "a plan is for the limiter that made it");
}

#[test]
fn a_plan_of_another_limiter_panics() {
    let begun = |limit| Limiter::builder(Quota::per_day(limit)).clock(ManualClock::new());
    let buckets = |limit| begun(limit).algorithm(Gcra::new().for_plans()).build();
    assert_a_plan_panics([9, 70].map(|limit| buckets(limit).expect("in range")));
    // These have the same units, and states in which the end of a window is at another place.
    for windows in [FixedWindow::aligned(), FixedWindow::anchored()] {
        let windows = |limit| begun(limit).algorithm(windows).build().expect("in range");
        assert_a_plan_panics([5, 13].map(windows));
    }
    // Their windows begin at other instants.
    let offset = |offset| FixedWindow::aligned().utc_offset_secs(offset);
    let local = |seconds| begun(5).algorithm(offset(seconds)).build().expect("in range");
    assert_a_plan_panics([0, 3_600].map(local));
}
