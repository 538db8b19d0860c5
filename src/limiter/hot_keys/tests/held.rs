//! Composites, batches and requests by a plan beside the cells that a thread holds.

use super::*;
use crate::composite::Composite;

/// A thread that holds seven cells ahead of key 7, of which `left` are left beside those.
fn holding_seven(left: u64) -> Gate {
    let gate = gate_of(Gcra::new().leases(8), Quota::per_hour(100));
    act_as_thread(0);
    assert!(gate.ask(&7).at(at(0)).check().is_ok() && after_race(&gate, 7, 1, at(0)).is_some());
    act_as_thread(1);
    // 92 at once are granted beside the leases, and 9 of them are charged.
    assert!(gate.ask(&7).cells(83 - left).at(at(0)).check().is_ok());
    act_as_thread(0);
    assert_eq!(gate.ask(&7).at(at(0)).held(), 7);
    gate
}

/// As many cells as a lease can hold may be asked for with the help of those that are held.
#[test]
fn the_last_limit_of_a_composite_spends_what_its_thread_holds() {
    for (cells, left, held) in [
        (3, 0, Some(4)),
        (7, 0, Some(0)),
        (8, 0, None),
        (8, 1, Some(0)),
        (9, 8, None),
        (9, 9, Some(7)),
    ] {
        let (gate, open) = (holding_seven(left), gate(Quota::per_hour(100), 8));
        let both = Composite::<u64>::builder().keyed("open", &open, |key| key);
        let both = both.keyed("hot", &gate, |key| key).build().expect("token buckets");
        let admitted = both.ask(&7).cells(cells).at(at(0)).check();
        assert_eq!(admitted.is_ok(), held.is_some(), "{cells} with {left} left");
        assert_eq!(gate.ask(&7).at(at(0)).held(), held.unwrap_or(7), "{cells} with {left} left");
        // A request that is denied at the first look claims no slot anywhere.
        assert_eq!(open.stats().claimed, u64::from(held.is_some()));
    }
}

#[test]
fn a_limit_before_the_last_of_a_composite_spends_nothing_that_its_thread_holds() {
    let (gate, open) = (holding_seven(0), gate(Quota::per_hour(100), 8));
    let plan = gate.plan(Quota::per_hour(50)).expect("in range");
    let begun = || Composite::<u64>::builder().keyed("open", &open, |key| key);
    let before = begun().keyed("hot", &gate, |key| key).keyed("last", &open, |key| key);
    let by_plan = begun().keyed_planned("hot", &gate, |key| key, |_| plan.clone());
    for both in [before, by_plan] {
        let both = both.build().expect("token buckets");
        let denied = both.ask(&7).at(at(0)).check().expect_err("none are left beside the lease");
        assert_eq!(denied.limit_name(), "hot");
        assert_eq!((gate.ask(&7).at(at(0)).held(), open.stats().claimed), (7, 0));
    }
    // Nor does another key.
    let last = begun().keyed("hot", &gate, |key| key).build().expect("token buckets");
    assert!(gate.ask(&8).cells(92).at(at(0)).check().is_ok());
    assert!(last.ask(&8).at(at(0)).check().is_err());
    assert_eq!(open.stats().claimed, 0);
}

#[test]
fn a_batch_spends_what_its_thread_holds() {
    let gate = holding_seven(0);
    let mut admitted = Vec::new();
    gate.ask_each(&[7, 8, 7], |key| key).at(at(0)).check(|_, each| admitted.push(each.is_ok()));
    assert_eq!(admitted, [true; 3]);
    assert_eq!(gate.ask(&7).at(at(0)).held(), 5);
}

#[test]
fn a_request_by_a_plan_spends_no_lease() {
    let gate = holding_seven(0);
    let plan = gate.plan(Quota::per_hour(50)).expect("in range");
    assert!(gate.ask(&7).plan(&plan).at(at(0)).check().is_err());
    assert!(
        gate.ask(&8).plan(&plan).cells(51).at(at(0)).check().is_err(),
        "the plan's burst is 50"
    );
    assert_eq!(gate.ask(&7).at(at(0)).held(), 7);
    let without = Limiter::<u64>::builder(Quota::per_hour(9)).build().expect("in range");
    assert!(without.check(&7).is_ok());
    assert_eq!(without.ask(&7).held(), 0, "it leases nothing");
}
