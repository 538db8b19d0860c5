//! Local leases: cells that are charged ahead, spent by one thread, and refunded.
//!
//! The protocol is in `src/charge/lease.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::{
    Gate, Keyed, ONE_BUCKET, Preemptions, ask, at, burst, catch_two, explore_four, explore_three,
    explore_two, explore_two_to, explore_two_whole, keyed, left,
};
use tollgate::algorithm::Algorithm;
use tollgate::internals::{Fault, plant};
use tollgate::{FixedWindow, Gcra, OnFull, Quota, SubWindows};

const KEY: u64 = 7;
const OTHER: u64 = 1;
const THIRD: u64 = 3;

/// Cells that a lease charges at a time.
const TAKE: u64 = 2;
/// Cells that all requests of a key together may be charged at a time.
const BURST: u64 = 4;

fn gate(on_full: OnFull) -> Arc<Gate> {
    keyed(Gcra::new().leases(TAKE), burst(BURST + TAKE), ONE_BUCKET, on_full)
}

/// Takes a lease, asks it for one cell `times` times and refunds the rest. Returns how many cells were
/// spent.
fn lease<A: Algorithm>(gate: &Arc<Keyed<A>>, times: u64) -> u64 {
    let mut lease = gate.lease_owned(&KEY);
    let mut spent = 0;
    for _ in 0..times {
        spent += u64::from(lease.ask().at(at(1)).check().is_ok());
    }
    lease.refund_at(at(1));
    spent
}

#[test]
fn two_leases_of_one_key_spend_no_cell_twice() {
    explore_two_whole("lease: 2 leases, each taken and refunded", || {
        let gate = gate(OnFull::Deny);
        assert_eq!(ask(&gate, KEY, at(1)), 1);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || lease(&other, 1));
        let spent = 1 + lease(&gate, 3) + thread.join().unwrap();
        assert_eq!(spent + left(&gate, KEY, at(1)), BURST, "spent and left");
    });
}

/// A charge beside `leases` leases. The first lease is asked once, the second twice, and so on.
fn leases_and_a_charge(leases: u64) {
    let gate = gate(OnFull::Deny);
    assert_eq!(ask(&gate, KEY, at(1)), 1);
    let threads: Vec<_> = (1..=leases)
        .map(|times| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || lease(&gate, times))
        })
        .collect();
    let mine = ask(&gate, KEY, at(1));
    let theirs: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(1 + mine + theirs + left(&gate, KEY, at(1)), BURST, "spent and left");
}

#[test]
fn two_leases_and_a_request_spend_no_cell_twice() {
    explore_three("lease: 2 leases and a charge, 3 threads", || leases_and_a_charge(2));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn three_leases_and_a_request_spend_no_cell_twice() {
    explore_four("lease: 3 leases and a charge, 4 threads", || leases_and_a_charge(3));
}

/// A lease is refunded while another key takes the slot that was charged.
fn refunded_during_a_take_over() {
    let gate = gate(OnFull::EvictNearestIdle);
    // The third key owes more, so the lease's key is forgotten.
    assert!(gate.ask(&THIRD).cells(BURST).at(at(1)).check().is_ok());
    let mut lease = gate.lease_owned(&KEY);
    assert!(lease.ask().at(at(1)).check().is_ok());
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || {
        let all = u64::from(other.ask(&OTHER).cells(BURST).at(at(1)).check().is_ok());
        BURST * all + ask(&other, OTHER, at(1))
    });
    lease.refund_at(at(1));
    assert_eq!(thread.join().unwrap(), BURST, "granted to the new key");
    assert_eq!(left(&gate, OTHER, at(1)), 0, "nothing was refunded to it");
}

#[test]
fn a_refund_during_a_take_over_is_not_the_new_keys() {
    explore_two_to(
        "lease: refunded during a take-over",
        3,
        Preemptions::Any,
        refunded_during_a_take_over,
    );
}

/// The planted fault: a refund goes to the key that has the slot by then.
#[test]
#[should_panic(expected = "refunded to it")]
fn without_the_generation_the_new_key_gets_the_refund() {
    plant(Fault::LifeUnchecked);
    catch_two("lease: life unchecked", refunded_during_a_take_over);
}

/// A lease is asked again only after time has restored the cells that it holds.
fn an_expired_lease() {
    let gate = gate(OnFull::Deny);
    let mut lease = gate.lease_owned(&KEY);
    assert!(lease.ask().at(at(1)).check().is_ok());
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || (0..BURST).map(|_| ask(&other, KEY, at(3))).sum::<u64>());
    let mine = (0..TAKE).filter(|_| lease.ask().at(at(3)).check().is_ok()).count() as u64;
    lease.refund_at(at(3));
    let spent = mine + thread.join().unwrap();
    assert_eq!(spent + left(&gate, KEY, at(3)), BURST, "spent and left");
}

#[test]
fn an_expired_lease_is_not_spent() {
    explore_two_whole("lease: asked after its expiry", an_expired_lease);
}

/// The planted fault: a lease is spent although time has restored its cells.
#[test]
#[should_panic(expected = "spent and left")]
fn without_an_expiry_the_cells_of_a_lease_are_granted_twice() {
    plant(Fault::LeaseNeverExpires);
    catch_two("lease: never expires", an_expired_lease);
}

/// `BURST` cells of a key in an hour.
fn hour<A: Algorithm>(algorithm: A) -> Arc<Keyed<A>> {
    keyed(algorithm, Quota::per_hour(BURST), ONE_BUCKET, OnFull::Deny)
}

#[test]
fn two_leases_of_one_window_spend_no_cell_twice() {
    explore_two_whole("lease: 2 leases of a window, each taken and refunded", || {
        let gate = hour(FixedWindow::anchored().leases(TAKE));
        assert_eq!(ask(&gate, KEY, at(1)), 1);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || lease(&other, 1));
        let spent = 1 + lease(&gate, 2) + thread.join().unwrap();
        assert_eq!(spent + left(&gate, KEY, at(1)), BURST, "spent and left");
    });
}

/// Takes a lease, asks it for one cell twice, and keeps the rest. Returns how many cells were spent or are
/// held.
fn kept(gate: &Arc<Keyed<SubWindows>>) -> u64 {
    let mut lease = gate.lease_owned(&KEY);
    let spent = (0..2).filter(|_| lease.ask().at(at(1)).check().is_ok()).count() as u64;
    spent + lease.held()
}

#[test]
fn two_leases_of_sub_windows_spend_no_cell_twice() {
    explore_two("lease: 2 leases of sub-windows", || {
        let gate = hour(SubWindows::new().count(2).leases(TAKE));
        assert_eq!(ask(&gate, KEY, at(1)), 1);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || kept(&other));
        let taken = 1 + kept(&gate) + thread.join().unwrap();
        assert_eq!(taken + left(&gate, KEY, at(1)), BURST, "spent, held and left");
    });
}

/// A lease of a window is asked again only in the next one.
fn a_lease_of_the_window_before() {
    let gate = hour(FixedWindow::anchored().leases(TAKE));
    let (first, second) = (at(1), at(3_601));
    let mut lease = gate.lease_owned(&KEY);
    assert!(lease.ask().at(first).check().is_ok());
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || (0..BURST).map(|_| ask(&other, KEY, second)).sum::<u64>());
    let mine = (0..TAKE).filter(|_| lease.ask().at(second).check().is_ok()).count() as u64;
    lease.refund_at(second);
    let spent = mine + thread.join().unwrap();
    assert_eq!(spent + left(&gate, KEY, second), BURST, "spent and left in the window");
}

#[test]
fn a_lease_is_not_spent_in_the_next_window() {
    explore_two_whole("lease: asked in the next window", a_lease_of_the_window_before);
}

/// The planted fault: a lease is spent although its window has ended.
#[test]
#[should_panic(expected = "spent and left in the window")]
fn without_an_end_the_cells_of_a_lease_are_spent_in_the_next_window() {
    plant(Fault::LeaseNeverExpires);
    catch_two("lease: outlives its window", a_lease_of_the_window_before);
}
