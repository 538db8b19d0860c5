//! Leases of hot keys: cells that a thread charges ahead when it has lost a race.
//!
//! The protocol is in `src/table/hot_keys.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom_tests::hot_keys::{KEY, TAKE, asked, asked_by_two, granted_of_the_last, leasing};
use loom_tests::{
    Gate, ask, at, burst, catch_two, each_of, explore_four, explore_three, explore_two_whole, left,
};
use tollgate::Gcra;
use tollgate::internals::{Fault, plant};

const OTHER: u64 = 1;

/// Cells that all requests of a key together may be charged at a time: one by the first request, one by
/// the winner of the race, and eight, a quarter of which is a lease.
const BURST: u64 = 10;

fn gate() -> Arc<Gate> {
    leasing(Gcra::new().leases(TAKE), burst(BURST + TAKE))
}

/// Two threads ask twice each: the one that loses the first race has a lease.
fn two_threads() {
    let gate = gate();
    let [mine, theirs] = asked_by_two(&gate, [(2, at(1)), (2, at(1))]);
    assert_eq!(1 + mine + theirs + left(&gate, KEY, at(1)), BURST, "spent, held and left");
}

#[test]
fn two_threads_of_a_hot_key_spend_no_cell_twice() {
    explore_two_whole("hot-key lease: 2 threads", two_threads);
}

/// Several threads, all but one of which ask twice.
fn several_of_one_key(threads: usize) {
    let gate = gate();
    let times = |number| if number == 1 { 1 } else { 2 };
    let spent = each_of(threads, &gate, move |gate, number| asked(gate, times(number), at(1)));
    let spent = 1 + spent.iter().sum::<u64>();
    assert_eq!(spent + left(&gate, KEY, at(1)), BURST, "spent, held and left");
}

#[test]
fn three_threads_of_a_hot_key_spend_no_cell_twice() {
    explore_three("hot-key lease: 3 threads", || several_of_one_key(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_threads_of_a_hot_key_spend_no_cell_twice() {
    explore_four("hot-key lease: 4 threads", || several_of_one_key(4));
}

/// Two threads ask twice each. The cells that they hold at the end are not counted.
fn two_threads_whose_held_cells_do_not_count() {
    let gate = gate();
    let granted = |gate: &Gate| (0..2).map(|_| ask(gate, KEY, at(1))).sum::<u64>();
    let other = Arc::clone(&gate);
    let thread = loom::thread::spawn(move || granted(&other));
    let all = 1 + granted(&gate) + thread.join().unwrap();
    assert!(all + left(&gate, KEY, at(1)) <= BURST, "granted twice");
}

/// The planted fault: a thread spends cells of another thread's lease.
#[test]
#[should_panic(expected = "granted twice")]
fn with_one_lease_for_two_threads_a_cell_is_granted_twice() {
    plant(Fault::ThreadsTakenForOne);
    catch_two("hot-key lease: threads taken for one", two_threads_whose_held_cells_do_not_count);
}

/// A thread that holds a cell of one key asks for another key.
fn two_keys() {
    let gate = gate();
    assert!(gate.ask(&OTHER).cells(BURST - 1).at(at(1)).check().is_ok());
    let [mine, theirs] = asked_by_two(&gate, [(1, at(1)), (1, at(1))]);
    let others: u64 = (0..2).map(|_| ask(&gate, OTHER, at(1))).sum();
    assert_eq!(others, 1, "granted to the other key");
    assert_eq!(1 + mine + theirs + left(&gate, KEY, at(1)), BURST, "spent, held and left");
}

#[test]
fn a_lease_is_not_spent_by_another_key() {
    explore_two_whole("hot-key lease: another key", two_keys);
}

/// The planted fault: a lease is spent by any key.
#[test]
#[should_panic(expected = "granted to the other key")]
fn without_comparing_the_key_another_key_spends_the_lease() {
    plant(Fault::HotKeyLeaseUncompared);
    catch_two("hot-key lease: key not compared", two_keys);
}

/// A thread that holds a cell asks again only after time has restored all cells.
fn an_expired_lease() {
    let gate = gate();
    let [mine, theirs] = asked_by_two(&gate, [(1, at(1)), (1, at(1))]);
    assert_eq!(1 + mine + theirs + left(&gate, KEY, at(1)), BURST, "before");
    let granted = granted_of_the_last(&gate, BURST, at(1 + BURST));
    assert_eq!(granted, 1, "granted after its expiry");
}

#[test]
fn an_expired_lease_is_not_spent() {
    explore_two_whole("hot-key lease: asked after its expiry", an_expired_lease);
}

/// The planted fault: a lease is spent although time has restored its cells.
#[test]
#[should_panic(expected = "granted after its expiry")]
fn without_an_expiry_the_cells_of_a_lease_are_granted_twice() {
    plant(Fault::HotKeyLeaseNeverExpires);
    catch_two("hot-key lease: never expires", an_expired_lease);
}
