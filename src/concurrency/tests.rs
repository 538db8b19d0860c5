//! The answers of limits of requests in flight to a single caller.

use core::error::Error;
use core::time::Duration;
use std::sync::Arc;

use super::adaptive::{AdaptiveError, AdaptiveLimit, Aimd, Gradient};
use super::{ConcurrencyBuilder, ConcurrencyError, ConcurrencyLimiter, DirectConcurrency};
use super::{Guard, WhenNoSlot};
use crate::limiter::builder::BuildError;
use crate::time::{ManualClock, Tick};

type Gate = ConcurrencyLimiter<u64, ManualClock>;

/// A small table, in which every slot is a candidate for every key.
fn begun(limit: u64) -> ConcurrencyBuilder<u64, ManualClock> {
    let builder = ConcurrencyLimiter::builder(limit).capacity(8).hash_seed(1);
    builder.clock(ManualClock::new()).count_decisions()
}

/// One request of each key, from 0 on, as long as keys find slots.
fn fill(gate: &Gate) -> Vec<Guard<'_, Gate>> {
    let slots = gate.table.slot_count() as u64;
    (0..slots).map(|key| gate.enter(&key).expect("a slot")).collect()
}

#[test]
fn a_key_at_its_limit_is_denied_and_leaves_the_others_alone() {
    let gate = begun(2).build().expect("in range");
    assert!(gate.is_empty());
    let guards = [gate.enter_n(&7, 2).expect("room"), gate.enter(&8).expect("room")];
    assert_eq!((gate.len(), gate.is_empty()), (2, false));
    let denied = gate.enter(&7).expect_err("two of two");
    assert_eq!((denied.limit(), denied.in_flight(), denied.found_no_slot()), (2, 2, false));
    assert_eq!(denied.to_string(), "2 requests are in flight of 2 that may be");
    assert_eq!(gate.ask(&7).peek(), Err(denied));
    assert!(gate.ask(&8).peek().is_ok());
    assert_eq!((gate.stats().admitted, gate.stats().denied), (Some(2), Some(1)));
    drop(guards);
    assert!(gate.is_empty());
}

#[test]
fn a_key_without_a_slot_has_none_in_flight_and_may_ask_for_nothing() {
    let gate = begun(2).build().expect("in range");
    let guards = fill(&gate);
    let denied = gate.enter(&9_999).expect_err("no slot");
    assert_eq!((denied.limit(), denied.in_flight(), denied.found_no_slot()), (2, 0, true));
    assert_eq!(denied.to_string(), "too many keys have requests in flight");
    assert_eq!(gate.ask(&9_999).peek(), Err(denied));
    assert!(gate.ask(&9_999).cells(0).peek().is_ok());
    assert!(gate.ask(&0).peek().is_ok(), "it has a slot");
    drop(guards);
    assert!(gate.ask(&9_999).peek().is_ok());
}

#[test]
fn a_request_that_is_admitted_without_a_slot_is_alone_in_flight() {
    let gate = begun(3).when_no_slot(WhenNoSlot::Admit).build().expect("in range");
    let _guards = fill(&gate);
    let guard = gate.enter_n(&9_999, 3).expect("admitted");
    assert_eq!((guard.cells(), guard.in_flight()), (3, 3));
}

#[test]
fn one_request_may_be_in_flight_of_all_keys_without_a_slot() {
    let gate = begun(2).when_no_slot(WhenNoSlot::SharedOverflow(1)).build().expect("in range");
    let _guards = fill(&gate);
    let only = gate.enter(&9_998).expect("the only one");
    assert_eq!(gate.enter(&9_999).expect_err("none is left").in_flight(), 1);
    drop(only);
    assert!(gate.enter(&9_999).is_ok());
}

/// Some 29 bytes a key.
#[test]
fn a_table_gives_its_memory_in_bytes() {
    let gate = ConcurrencyLimiter::<u64>::builder(1).capacity(100_000).build().expect("in range");
    assert!((2_800_000..3_200_000).contains(&gate.memory_bytes()), "{}", gate.memory_bytes());
}

#[test]
fn an_owned_guard_says_what_it_holds_and_what_was_in_flight() {
    let gate = Arc::new(begun(9).build().expect("in range"));
    let _two = gate.enter_n(&7, 2).expect("room");
    let guard = gate.ask(&7).cells(3).enter_owned(&gate).expect("room");
    assert_eq!((guard.cells(), guard.in_flight()), (3, 5));
}

#[test]
fn a_count_without_keys_that_is_reset_forgets_what_is_in_flight() {
    let gate = DirectConcurrency::new(3).expect("in range");
    assert_eq!(gate.limit(), 3);
    let lost = gate.enter_n(3).expect("room");
    assert_eq!(gate.ask().peek().expect_err("three of three").in_flight(), 3);
    gate.reset();
    assert_eq!(gate.in_flight(), 0);
    assert!(gate.ask().cells(3).peek().is_ok());
    let next = gate.enter().expect("room");
    drop(lost);
    assert_eq!(gate.in_flight(), 1, "a guard of before refunds nothing");
    drop(next);
}

/// A limit that was reached by less than half of it may be too high already.
#[test]
fn an_adaptive_limit_rises_if_half_of_it_was_in_flight() {
    for (in_flight, limit) in [(1, 20), (9, 20), (10, 21), (20, 21)] {
        let builder = AdaptiveLimit::builder(Aimd::new()).limits(1, 100).initial(20);
        let builder = builder.window(Duration::from_millis(1)).min_samples(1);
        let gate = builder.clock(ManualClock::new()).build().expect("in range");
        let others: Vec<_> = (1..in_flight).map(|_| gate.enter().expect("room")).collect();
        let last = gate.enter().expect("room");
        gate.clock().set(Tick::from_duration(Duration::from_millis(10)));
        last.succeeded();
        assert_eq!(gate.limit(), limit, "{in_flight} in flight");
        others.into_iter().for_each(|guard| guard.ignored());
    }
}

#[test]
fn an_adaptive_limit_has_no_baseline_before_it_has_measured_one() {
    let builder = AdaptiveLimit::builder(Gradient::new()).window(Duration::from_millis(1));
    let gate = builder.min_samples(1).clock(ManualClock::new()).build().expect("in range");
    let baseline = || gate.reading().expect("no thread steps").baseline;
    assert_eq!(baseline(), None);
    let guard = gate.enter().expect("room");
    gate.clock().set(Tick::from_nanos(256_000_000));
    guard.succeeded();
    assert_eq!(baseline(), Some(Duration::from_millis(256)));
}

#[test]
fn an_error_names_the_one_that_it_is_about() {
    let table = ConcurrencyError::Table(BuildError::ZeroCapacity);
    let of_table = table.source().expect("that of the table");
    assert_eq!(of_table.downcast_ref(), Some(&BuildError::ZeroCapacity));
    let adaptive = AdaptiveError::from(table);
    assert_eq!(adaptive.source().expect("that of the limit").downcast_ref(), Some(&table));
    assert!(
        ConcurrencyError::MaxHold.source().is_none() && AdaptiveError::Window.source().is_none()
    );
}
