//! A thread that has leased cells of a hot key stops: `src/table/hot_keys.rs`.

use loom_tests::hot_keys::{KEY, TAKE, asked, leasing};
use loom_tests::stopped::beside_a_doomed;
use loom_tests::{Preemptions::To, ask, at, burst, catch_stops, explore_stops, left};
use tollgate::Gcra;
use tollgate::internals::{Fault, plant};

/// Of ten cells, one was charged before.
const BURST: u64 = 10;

/// Two threads ask twice each, and the one that loses a race leases cells. One of them may stop.
fn one_that_leases_stops(steps: usize) -> bool {
    let gate = leasing(Gcra::new().leases(TAKE), burst(BURST + TAKE));
    let (doomed, mine) = beside_a_doomed(
        &gate,
        steps,
        |gate, granted| (0..2).for_each(|_| *granted += ask(gate, KEY, at(1))),
        |gate| asked(gate, 2, at(1)),
    );
    assert!(mine >= 2, "the other goes on");
    let known = 1 + doomed.counted + mine + left(&gate, KEY, at(1));
    assert!(known <= BURST, "granted twice: {known} of {BURST} cells");
    assert!(BURST - known <= TAKE, "no more than a lease is lost: {known} of {BURST} cells");
    doomed.has_stopped
}

#[test]
fn leased_cells_of_one_that_stops_are_lost() {
    explore_stops("stopped: hot-key lease", To(3), 3, one_that_leases_stops);
}

/// The planted fault: a thread spends cells of another thread's lease.
#[test]
#[should_panic(expected = "granted twice")]
fn with_one_lease_for_both_threads_a_cell_of_one_that_stops_is_granted_twice() {
    plant(Fault::ThreadsTakenForOne);
    catch_stops("stopped: threads taken for one", one_that_leases_stops);
}
