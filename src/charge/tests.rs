//! Leases and reservations of one caller: what they hold, take and refund.

use core::time::Duration;
use std::sync::Arc;

use crate::algo::gcra::Gcra;
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::quota::Quota;
use crate::time::{ManualClock, Tick};

fn at(millis: u64) -> Tick {
    Tick::from_duration(Duration::from_millis(millis))
}

/// A lease takes four cells at a time; beside that, seven may be charged at once.
fn leasing(quota: Quota) -> Arc<Limiter<str, Gcra, ManualClock>> {
    let builder = Limiter::builder(quota).algorithm(Gcra::new().leases(4));
    let builder = builder.clock(ManualClock::new()).count_decisions();
    Arc::new(builder.build().expect("in range"))
}

fn left(gate: &Limiter<str, Gcra, ManualClock>) -> u64 {
    gate.ask("a").cells(0).at(at(0)).peek().expect("no cells").remaining()
}

#[test]
fn a_lease_takes_four_cells_or_all_that_are_left_and_holds_what_it_has_not_spent() {
    let gate = leasing(Quota::per_hour(11));
    let mut lease = gate.lease("a");
    assert_eq!((lease.held(), left(&gate)), (0, 7));
    for (cells, held, others) in [(0, 0, 7), (1, 3, 3), (3, 0, 3), (1, 2, 0), (0, 2, 0)] {
        assert!(lease.ask().cells(cells).at(at(0)).check().is_ok());
        assert_eq!((lease.held(), left(&gate)), (held, others), "after {cells}");
    }
    assert!(lease.ask().cells(3).at(at(0)).check().is_err());
    drop(lease);
    assert_eq!(left(&gate), 2, "what it held is refunded");
}

#[test]
fn a_request_for_as_many_cells_as_a_lease_takes_is_an_ordinary_one() {
    let gate = leasing(Quota::per_hour(11));
    let mut lease = gate.lease("a");
    assert!(lease.ask().cells(4).at(at(0)).check().is_ok());
    assert_eq!((lease.held(), gate.stats().admitted), (0, Some(1)));
    assert!(lease.ask().cells(2).at(at(0)).check().is_ok());
    assert_eq!((lease.held(), gate.stats().admitted), (1, Some(1)), "a lease counts nothing");
}

#[test]
fn cells_of_a_lease_may_be_spent_until_time_has_restored_as_many() {
    let gate = leasing(Quota::per_second(10).burst(11));
    let mut lease = gate.lease("a");
    for (now, held) in [(0, 3), (399, 2), (400, 3), (799, 2), (800, 3)] {
        assert!(lease.ask().at(at(now)).check().is_ok());
        assert_eq!(lease.held(), held, "at {now} ms");
    }
}

#[test]
fn an_owned_lease_spends_and_refunds_as_one_by_reference() {
    let gate = leasing(Quota::per_hour(11));
    let mut lease = gate.lease_owned("a");
    assert!(lease.check().is_ok());
    assert_eq!((lease.held(), left(&gate)), (3, 3));
    lease.refund_at(at(0));
    assert_eq!((lease.held(), left(&gate)), (0, 6));
    assert!(gate.ask("a").cells(6).at(at(0)).check().is_ok());
    assert!(lease.check().is_err());
}

/// Dropped at the time of the clock, a reservation would be refunded nothing.
#[test]
fn a_reservation_is_settled_or_refunded_at_the_time_that_the_caller_gives() {
    let begun = || {
        let gate = Direct::builder(Quota::per_second(10)).clock(ManualClock::new());
        let gate = Arc::new(gate.build().expect("in range"));
        assert!(gate.ask().cells(3).at(at(0)).check().is_ok());
        gate.clock().set(at(2_000));
        gate
    };
    let left = |gate: &Direct<Gcra, ManualClock>| {
        gate.ask().cells(0).at(at(0)).peek().expect("no cells").remaining()
    };
    let gate = begun();
    gate.ask().cells(7).at(at(0)).reserve().expect("room").refund_at(at(0));
    assert_eq!(left(&gate), 7);
    let gate = begun();
    let owned = gate.ask().cells(7).at(at(0)).reserve_owned(&gate).expect("room");
    assert_eq!(owned.cells(), 7);
    owned.refund_at(at(0));
    assert_eq!(left(&gate), 7);
    let gate = begun();
    let owned = gate.ask().cells(7).at(at(0)).reserve_owned(&gate).expect("room");
    owned.settle_at(2, at(0));
    assert_eq!(left(&gate), 5);
}
