//! Leases of hot keys of windows and sub-windows: cells are counted when they are taken, and may be spent
//! until that window ends.
//!
//! The protocol is in `src/table/hot_keys.rs`; the charge, with what it publishes to the ring, is
//! `StateCell::charge_ahead` in `src/cell/state_cell.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom_tests::hot_keys::{KEY, TAKE, asked_by_two, granted_of_the_last, leasing};
use loom_tests::{Keyed, at, catch_two, explore_two, explore_two_whole, left};
use tollgate::algorithm::Algorithm;
use tollgate::internals::{Fault, plant};
use tollgate::{FixedWindow, Quota, SlidingCounter, SubWindows};

/// One cell by the first request, one by the winner of the race, and eight, a quarter of which is a lease.
const LIMIT: u64 = 10;

/// Seconds in a window of an hour, and in a sub-window of half an hour.
const HOUR: u64 = 3_600;
const HALF_HOUR: u64 = 1_800;

fn gate<A: Algorithm>(algorithm: A) -> Arc<Keyed<A>> {
    leasing(algorithm, Quota::per_hour(LIMIT))
}

fn fixed() -> Arc<Keyed<FixedWindow>> {
    gate(FixedWindow::anchored().leases(TAKE))
}

fn halves() -> Arc<Keyed<SubWindows>> {
    gate(SubWindows::new().count(2).leases(TAKE))
}

fn counter() -> Arc<Keyed<SlidingCounter>> {
    gate(SlidingCounter::new().leases(TAKE))
}

/// Two threads ask twice each in one window: the one that loses the first race has a lease.
fn in_one_window<A: Algorithm<Params: 'static> + 'static>(gate: &Arc<Keyed<A>>) {
    let [mine, theirs] = asked_by_two(gate, [(2, at(1)), (2, at(1))]);
    assert_eq!(1 + mine + theirs + left(gate, KEY, at(1)), LIMIT, "spent, held and left");
}

#[test]
fn two_threads_of_a_hot_key_spend_no_cell_of_a_window_twice() {
    explore_two_whole("hot-key lease: a window, 2 threads", || in_one_window(&fixed()));
}

#[test]
fn two_threads_of_a_hot_key_spend_no_cell_of_a_sub_window_twice() {
    explore_two("hot-key lease: sub-windows, 2 threads", || in_one_window(&halves()));
}

#[test]
fn two_threads_of_a_hot_key_spend_no_cell_of_a_counter_twice() {
    explore_two("hot-key lease: a counter, 2 threads", || in_one_window(&counter()));
}

/// One thread asks in the next sub-window, and the clock of the other is late. If the late thread wins the race, the
/// other charges its lease to a word of the previous sub-window, and publishes that word's count first.
fn beside_a_late_thread() {
    let gate = halves();
    let [first, second, third] = [at(1), at(1 + HALF_HOUR), at(1 + 2 * HALF_HOUR)];
    let [mine, theirs] = asked_by_two(&gate, [(2, second), (2, first)]);
    assert_eq!(1 + mine + theirs + left(&gate, KEY, second), LIMIT, "spent, held and left");
    // The cell of the first request has left the window, and mine have not.
    let left = left(&gate, KEY, third);
    assert!(left + mine + theirs >= LIMIT, "counts too long");
    assert!(left + mine <= LIMIT, "counts too short");
}

#[test]
fn a_lease_taken_from_an_earlier_sub_window_loses_no_count() {
    explore_two("hot-key lease: beside a late thread", beside_a_late_thread);
}

/// The planted fault: a charge advances the word before the count that it leaves is in the ring.
#[test]
#[should_panic(expected = "counts too long")]
fn without_the_publication_a_count_of_an_earlier_sub_window_stays() {
    plant(Fault::PublishLeftOut);
    catch_two("hot-key lease: publication left out", beside_a_late_thread);
}

/// A thread that holds a cell of a window asks again only in the next one.
fn in_the_next_window() {
    let gate = fixed();
    let [mine, theirs] = asked_by_two(&gate, [(1, at(1)), (1, at(1))]);
    assert_eq!(1 + mine + theirs + left(&gate, KEY, at(1)), LIMIT, "before");
    let granted = granted_of_the_last(&gate, LIMIT, at(1 + HOUR));
    assert_eq!(granted, 1, "granted after the window");
}

#[test]
fn cells_of_a_window_are_not_spent_in_the_next() {
    explore_two_whole("hot-key lease: asked in the next window", in_the_next_window);
}

/// The planted fault: cells of a window are spent in the next one.
#[test]
#[should_panic(expected = "granted after the window")]
fn without_an_end_the_cells_of_a_window_are_granted_beside_those_of_the_next() {
    plant(Fault::HotKeyLeaseNeverExpires);
    catch_two("hot-key lease: outlives its window", in_the_next_window);
}
