//! Windows that follow the wall clock: threads read it at one edge, while it is set and others decide.
//!
//! The protocol is in `src/time/wall/mod.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::thread;
use loom_tests::{Preemptions, catch_two_to, each_of, explore_latest, explore_two_to};
use tollgate::internals::{Fault, plant};
use tollgate::{Clock, Direct, FixedWindow, Quota, Tick};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;
/// More than an hour of windows cannot be told from old ones beside so large a count.
const ALL: u64 = 1_000_000_000;
/// The clock when a model begins, at the beginning of a window.
const BEGIN: u64 = 2 * HOUR;
const EDGE: u64 = BEGIN + SECOND;

/// The two clocks of a model. Threads are not switched between the readings of them.
struct Clocks {
    now: AtomicU64,
    unix: AtomicU64,
}

impl Clock for Clocks {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.now.load(Ordering::Relaxed))
    }

    fn unix_now_nanos(&self) -> u64 {
        self.unix.load(Ordering::Relaxed)
    }
}

type Gate = Direct<FixedWindow, Clocks>;

fn set(gate: &Gate, now: u64, unix: u64) {
    gate.clock().now.store(now, Ordering::Relaxed);
    gate.clock().unix.store(unix, Ordering::Relaxed);
}

/// Windows of a second; all cells of the first are spent.
fn spent() -> Arc<Gate> {
    let clock = Clocks { now: AtomicU64::new(BEGIN), unix: AtomicU64::new(BEGIN) };
    let windows = FixedWindow::aligned();
    let gate = Direct::builder(Quota::per_second(ALL)).algorithm(windows).clock(clock).build();
    let gate = gate.expect("in range");
    assert_eq!(granted(&gate), 1);
    Arc::new(gate)
}

/// How many windows' cells are granted now: 1 or 0.
fn granted(gate: &Gate) -> u64 {
    u64::from(gate.check_n(ALL).is_ok())
}

/// The wall clock was set back by an hour, and threads meet at the edge.
fn at_the_edge_after_a_step_back(threads: usize) {
    let gate = spent();
    set(&gate, EDGE, EDGE - HOUR);
    let early: u64 = each_of(threads, &gate, |gate, _| granted(gate)).iter().sum();
    set(&gate, EDGE + HOUR - 1, EDGE - 1);
    assert_eq!(early + granted(&gate), 0, "granted twice");
    set(&gate, EDGE + HOUR, EDGE);
    assert_eq!(granted(&gate) + granted(&gate), 1, "granted once the wall clock is there");
}

#[test]
fn two_threads_that_meet_at_an_edge_hold_the_window() {
    explore_two_to("wall clock: 2 at an edge", 2, Preemptions::To(3), || {
        at_the_edge_after_a_step_back(2);
    });
}

#[test]
fn three_threads_that_meet_at_an_edge_hold_the_window() {
    explore_latest("wall clock: 3 at an edge", 2, Preemptions::To(3), || {
        at_the_edge_after_a_step_back(3);
    });
}

/// The planted fault: the next mapping does not know which window was in force.
#[test]
#[should_panic(expected = "granted twice")]
fn without_the_window_in_force_a_step_back_grants_windows_twice() {
    plant(Fault::WindowNotHeld);
    catch_two_to(Preemptions::To(1), "wall clock: a window is not held", || {
        at_the_edge_after_a_step_back(2);
    });
}

/// The wall clock is set forward, and threads meet at the edge: one window is granted, once.
fn at_the_edge_after_a_step_forward(threads: usize) {
    let gate = spent();
    set(&gate, EDGE, EDGE + HOUR);
    let new: u64 = each_of(threads, &gate, |gate, _| granted(gate)).iter().sum();
    set(&gate, EDGE + SECOND - 1, EDGE + HOUR + SECOND - 1);
    assert_eq!(new + granted(&gate), 1, "of the window that the wall clock shows");
    set(&gate, EDGE + SECOND, EDGE + HOUR + SECOND);
    assert_eq!(granted(&gate), 1, "of the next one");
}

#[test]
fn two_threads_that_meet_at_an_edge_grant_one_window() {
    explore_two_to("wall clock: 2 at an edge, set forward", 2, Preemptions::To(3), || {
        at_the_edge_after_a_step_forward(2);
    });
}

/// The wall clock is set back while two threads meet at the edge: the next window begins with the reading of
/// before, or the last one is held. In either case, the next one is granted once.
fn set_back_at_the_edge() {
    let gate = spent();
    set(&gate, EDGE, EDGE);
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || granted(&other));
    // The other thread may run here, and be delayed between its readings and its publication.
    assert!(gate.ask().at(Tick::from_nanos(BEGIN)).check().is_err());
    set(&gate, EDGE, EDGE - HOUR);
    let mut next = granted(&gate) + thread.join().unwrap();
    set(&gate, EDGE + SECOND, EDGE + SECOND - HOUR);
    next += granted(&gate);
    set(&gate, EDGE + HOUR, EDGE);
    next += granted(&gate);
    assert_eq!(next, 1, "of the next window");
    set(&gate, EDGE + HOUR + SECOND, EDGE + SECOND);
    assert_eq!(granted(&gate), 1, "of the one after it");
}

#[test]
fn a_wall_clock_set_back_at_the_edge_grants_the_next_window_once() {
    let name = "wall clock: set back at the edge";
    explore_two_to(name, 2, Preemptions::To(3), set_back_at_the_edge);
}

/// The mapping is replaced twice while a stale caller reads it.
fn replaced_twice_while_read() {
    let gate = spent();
    let other = Arc::clone(&gate);
    let writer = thread::spawn(move || {
        set(&other, EDGE, EDGE - HOUR);
        assert!(other.check_n(0).is_ok());
        set(&other, EDGE + SECOND, EDGE + HOUR);
        assert!(other.check_n(0).is_ok());
    });
    let stale = gate.ask().cells(ALL).at(Tick::from_nanos(EDGE - 1)).check();
    assert!(stale.is_err(), "torn: granted in the window that was spent");
    writer.join().unwrap();
}

#[test]
fn a_mapping_replaced_twice_while_it_is_read_is_not_torn() {
    let name = "wall clock: replaced twice while read";
    explore_two_to(name, 2, Preemptions::To(3), replaced_twice_while_read);
}

/// The planted fault: a reader takes the edge of one mapping and the wall time of another.
#[test]
#[should_panic(expected = "torn")]
fn a_torn_mapping_grants_in_a_window_that_was_spent() {
    plant(Fault::TornQuota);
    let name = "wall clock: torn mapping";
    catch_two_to(Preemptions::To(2), name, replaced_twice_while_read);
}
