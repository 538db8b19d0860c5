//! A thread stops while it enters or leaves, or between: `src/concurrency/`.

use std::sync::Arc;
use std::time::Duration;

use loom_tests::stopped::beside_a_doomed;
use loom_tests::{
    NoClock, ONE_BUCKET, Preemptions::To, SEED_APART, at, catch_stops, explore_stops,
};
use tollgate::concurrency::{ConcurrencyBuilder, ConcurrencyLimiter, DirectConcurrency};
use tollgate::internals::{Fault, plant};

type Gate = ConcurrencyLimiter<u64, NoClock>;

const KEY: u64 = 7;
const HOLD: Duration = Duration::from_secs(10);

fn begun(limit: u64) -> ConcurrencyBuilder<u64, NoClock> {
    ConcurrencyLimiter::builder(limit).clock(NoClock).capacity(ONE_BUCKET).hash_seed(SEED_APART)
}

/// Enters for good. Returns 1 if that succeeded.
fn stay(gate: &Gate, seconds: u64) -> u64 {
    u64::from(gate.ask(&KEY).at(at(seconds)).enter().map(std::mem::forget).is_ok())
}

/// Enters, leaves and enters, and counts what it holds in `held`.
fn comes_and_goes(gate: &Gate, held: &mut u64) {
    let Ok(guard) = gate.ask(&KEY).at(at(15)).enter() else { return };
    *held = 1;
    drop(guard);
    *held = 0;
    *held = stay(gate, 15);
}

/// Two may be in flight. Another thread comes and goes and may stop; this one enters twice.
fn beside_one_that_comes_and_goes(gate: &Arc<Gate>, steps: usize) -> bool {
    let enters = |gate: &Gate| stay(gate, 19) + stay(gate, 19);
    let (doomed, mine) = beside_a_doomed(gate, steps, comes_and_goes, enters);
    let in_flight = gate.ask(&KEY).at(at(19)).in_flight();
    assert_eq!(in_flight, doomed.counted + mine, "what is held is counted, and no more");
    assert!(in_flight <= 2, "never above the limit");
    assert!(mine >= 1, "the other goes on");
    let more = stay(gate, 19) + stay(gate, 19);
    assert_eq!(in_flight + more, 2, "the key is usable up to its limit, never above");
    doomed.has_stopped
}

fn without_a_longest_hold(steps: usize) -> bool {
    let gate: Arc<Gate> = Arc::new(begun(2).build().expect("in range"));
    let has_stopped = beside_one_that_comes_and_goes(&gate, steps);
    assert_eq!(gate.ask(&KEY).at(at(1_000_000)).in_flight(), 2, "no hold ends");
    has_stopped
}

#[test]
fn cells_of_one_that_stops_stay_counted() {
    let name = "stopped: in flight, no longest hold";
    explore_stops(name, To(2), 8, without_a_longest_hold);
}

/// The planted fault: a request that is denied gives back a cell in the place of another, which may be
/// under way.
#[test]
#[should_panic(expected = "never above")]
fn refunding_a_request_that_may_still_run_refunds_its_cell_twice() {
    plant(Fault::HolderTakenForLost);
    catch_stops("stopped: a holder taken for lost", without_a_longest_hold);
}

#[test]
fn cells_of_one_that_stops_expire_with_the_longest_hold() {
    let name = "stopped: in flight, a longest hold";
    explore_stops(name, To(2), 8, |steps| {
        let gate: Arc<Gate> = Arc::new(begun(2).max_hold(HOLD).build().expect("in range"));
        let has_stopped = beside_one_that_comes_and_goes(&gate, steps);
        assert_eq!(gate.ask(&KEY).at(at(24)).in_flight(), 2, "no hold has passed for sure");
        assert_eq!(stay(&gate, 29), 0, "never above the limit");
        assert_eq!(gate.ask(&KEY).at(at(30)).in_flight(), 0, "all holds have passed");
        assert_eq!(stay(&gate, 30) + stay(&gate, 30) + stay(&gate, 30), 2, "the whole limit again");
        has_stopped
    });
}

/// The same without keys.
#[test]
fn cells_of_one_that_stops_stay_counted_without_keys() {
    explore_stops("stopped: in flight, without keys", To(4), 4, |steps| {
        let built = DirectConcurrency::builder(2).clock(NoClock).build();
        let gate: Arc<DirectConcurrency<NoClock>> = Arc::new(built.expect("in range"));
        let stay = |gate: &DirectConcurrency<NoClock>| {
            u64::from(gate.enter().map(std::mem::forget).is_ok())
        };
        let (doomed, mine) = beside_a_doomed(
            &gate,
            steps,
            move |gate, held| {
                let Ok(guard) = gate.enter() else { return };
                *held = 1;
                drop(guard);
                *held = 0;
                *held = stay(gate);
            },
            move |gate| stay(gate) + stay(gate),
        );
        assert_eq!(gate.in_flight(), doomed.counted + mine, "what is held is counted, and no more");
        assert!(mine >= 1 && doomed.counted + mine <= 2, "never above the limit");
        assert_eq!(gate.in_flight() + stay(&gate) + stay(&gate), 2, "usable up to the limit");
        doomed.has_stopped
    });
}
