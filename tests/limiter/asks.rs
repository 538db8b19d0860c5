//! The request value: its verbs with a plan, its short forms, and what holds a limiter in an `Arc`.

use std::sync::Arc;
use std::time::Duration;

use tollgate::reservation::OwnedReservation;
use tollgate::{Direct, FixedWindow, Gcra, Limiter, ManualClock, Quota, Tick};

const ALL: u64 = u64::MAX;

fn buckets() -> Limiter<str, Gcra, ManualClock> {
    let builder = Limiter::builder(Quota::per_second(100)).algorithm(Gcra::new().for_plans());
    builder.clock(ManualClock::new()).build().expect("in range")
}

#[test]
fn a_reservation_by_a_plan_is_settled_by_the_plan() {
    let gate = buckets();
    let plan = gate.plan(Quota::per_second(10)).expect("slower");
    let ask = || gate.ask("a").plan(&plan).at(Tick::ZERO);
    let reserved = ask().cells(8).reserve().expect("10 are there");
    assert!(ask().cells(3).reserve().is_err());
    reserved.settle_at(3, Tick::ZERO);
    assert_eq!(ask().cells(0).peek().expect("no cells").remaining(), 7);
    ask().cells(2).reserve().expect("7 are there").settle_at(4, Tick::ZERO);
    assert_eq!(ask().cells(ALL).charge_available(), 3);
    // Half a second restores five cells of the plan; by the limiter's own quota it would be 50.
    let later = Tick::from_nanos(500_000_000);
    assert_eq!(ask().at(later).cells(ALL).charge_available(), 5);
}

#[test]
fn debts_and_refunds_by_a_plan_count_its_cells() {
    let gate = buckets();
    let plan = gate.plan(Quota::per_second(10)).expect("slower");
    let ask = || gate.ask("a").plan(&plan).at(Tick::ZERO);
    let wait = ask().cells(15).charge();
    assert!(wait.abs_diff(Duration::from_millis(500)) <= Duration::from_millis(1), "{wait:?}");
    ask().cells(6).refund();
    assert_eq!(ask().cells(0).peek().expect("no cells").remaining(), 1);
}

#[test]
fn a_window_charges_by_the_plan_and_keeps_the_count() {
    let builder = Limiter::<str>::builder(Quota::per_hour(100)).algorithm(FixedWindow::anchored());
    let gate = builder.clock(ManualClock::new()).build().expect("in range");
    let plan = gate.plan(Quota::per_hour(10)).expect("fewer");
    let ask = || gate.ask("a").at(Tick::ZERO);
    drop(ask().plan(&plan).cells(10).reserve().expect("10 are there"));
    assert_eq!(ask().plan(&plan).cells(ALL).charge_available(), 10);
    assert_eq!(ask().cells(ALL).charge_available(), 90);
}

/// The first charge of what is there finds nothing, and the bucket fills from then on.
#[test]
fn a_charge_of_what_is_there_begins_the_time_of_a_bucket_that_starts_empty() {
    let builder = Limiter::<str>::builder(Quota::per_second(10)).algorithm(Gcra::start_empty());
    let keyed = builder.clock(ManualClock::new()).build().expect("in range");
    let builder = Direct::builder(Quota::per_second(10)).algorithm(Gcra::start_empty());
    let direct = builder.clock(ManualClock::new()).build().expect("in range");
    let charged = |(seconds, cells): (u64, u64)| {
        let at = Tick::from_nanos(seconds * 1_000_000_000);
        let direct = direct.ask().cells(cells).at(at).charge_available();
        (keyed.ask("a").cells(cells).at(at).charge_available(), direct)
    };
    // A request for nothing begins nothing.
    let calls = [(10, 0), (20, 5), (30, 5), (30, ALL), (30, ALL)];
    assert_eq!(calls.map(charged), [(0, 0), (0, 0), (5, 5), (5, 5), (0, 0)]);
}

#[test]
fn short_forms_answer_as_requests_for_one_cell_now() {
    let clock = ManualClock::new();
    let builder = Limiter::<str>::builder(Quota::per_second(2)).clock(clock.clone());
    let gate = builder.build().expect("in range");
    assert_eq!(gate.peek("a"), gate.ask("a").peek());
    assert!(gate.allow("a") && gate.check("a").is_ok());
    assert_eq!(gate.peek("a"), gate.check("a"));
    clock.advance(Duration::from_millis(500));
    assert!(gate.check("a").is_ok(), "clones of a clock share its time");
}

#[test]
fn an_owned_reservation_outlives_the_callers_handle() {
    let gate = Arc::new(buckets());
    let reserved: OwnedReservation<Limiter<str, Gcra, ManualClock>> =
        gate.ask("a").cells(60).reserve_owned(&gate).expect("100 are there");
    let watched = Arc::clone(&gate);
    drop(gate);
    assert_eq!(watched.ask("a").cells(0).peek().expect("no cells").remaining(), 40);
    reserved.settle(10);
    assert_eq!(watched.ask("a").cells(0).peek().expect("no cells").remaining(), 90);
}

#[test]
fn a_reservation_counts_as_a_decision_and_its_settlement_does_not() {
    let builder = Limiter::<str>::builder(Quota::per_hour(10)).clock(ManualClock::new());
    let gate = builder.count_decisions().build().expect("in range");
    let counted = || (gate.stats().admitted, gate.stats().denied);
    let reserved = gate.ask("a").cells(8).reserve().expect("10 are there");
    assert!(gate.ask("a").cells(3).reserve().is_err());
    assert_eq!(counted(), (Some(1), Some(1)));
    reserved.settle(20);
    drop(gate.ask("b").reserve().expect("10 are there"));
    assert_eq!(counted(), (Some(2), Some(1)));
}

#[test]
#[should_panic(expected = "the limiter that is asked")]
fn an_owned_reservation_of_another_limiter_panics() {
    let (gate, other) = (buckets(), Arc::new(buckets()));
    let _ = gate.ask("a").reserve_owned(&other);
}
