//! Composites: limits are charged in order, and refunded when a later limit denies.
//!
//! The protocol is in `src/policy/composite/decide.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::thread;
use loom_tests::{
    Bucket, Gate, ONE_BUCKET, Preemptions, ask, at, bucket, burst, catch_two, compact, each_of,
    explore_four, explore_latest, explore_three, explore_two_to, explore_two_whole, gate, left,
};
use tollgate::algorithm::Algorithm;
use tollgate::composite::Composite;
use tollgate::internals::{Fault, plant};
use tollgate::{Clock, Direct, FixedWindow, Gcra, OnFull, Quota, Tick};

/// Cells that the bucket could grant now.
fn left_in<A: Algorithm, C: Clock>(bucket: &Direct<A, C>, now: Tick) -> u64 {
    match bucket.ask().cells(0).at(now).peek() {
        Ok(permit) => permit.remaining(),
        Err(denied) => denied.remaining(),
    }
}

/// A composite that names the second limit twice. That limit has cells for one charge only, so a request
/// always charges the first limit and then refunds it, as if another request had been faster.
fn always_denied<C: Clock + Send + Sync + 'static>(
    first: &Arc<Direct<Gcra, C>>,
    second: &Arc<Direct<Gcra, C>>,
) -> Composite<'static, ()> {
    Composite::builder()
        .shared("first", Arc::clone(first))
        .shared("second", Arc::clone(second))
        .shared("again", Arc::clone(second))
        .build()
        .expect("token buckets can refund")
}

type Both<A> = (Arc<Composite<'static, ()>>, Arc<Bucket<A>>, Arc<Bucket<Gcra>>);

/// Two buckets in one composite.
fn two<A: Algorithm + 'static>(algorithm: A, first: Quota, second: u64) -> Both<A> {
    let (first, second) = (bucket(algorithm, first), bucket(Gcra::new(), burst(second)));
    let both = Composite::builder()
        .shared("first", Arc::clone(&first))
        .shared("second", Arc::clone(&second))
        .build()
        .expect("a token bucket can refund");
    (Arc::new(both), first, second)
}

fn ask_all(all: &Composite<'_, ()>) -> u64 {
    u64::from(all.ask(&()).at(at(1)).check().is_ok())
}

/// The second limit has one cell, so one thread is denied by it and refunds the first limit.
fn one_is_denied<A: Algorithm + 'static>(algorithm: A) {
    let (both, first, second) = two(algorithm, Quota::per_second(2), 1);
    let other = Arc::clone(&both);
    let thread = thread::spawn(move || ask_all(&other));
    let granted = ask_all(&both) + thread.join().unwrap();
    assert_eq!(granted, 1, "granted in all");
    assert_eq!(left_in(&*second, at(1)), 0, "left in the second");
    assert_eq!(left_in(&*first, at(1)), 1, "left in the first");
}

#[test]
fn of_two_threads_the_denied_one_refunds_the_first_limit() {
    explore_two_to("composite: 2 threads, one denied", 3, Preemptions::Any, || {
        one_is_denied(Gcra::new())
    });
}

#[test]
fn of_two_threads_the_denied_one_refunds_a_window() {
    explore_two_to("composite: windows, 2 threads, one denied", 3, Preemptions::Any, || {
        one_is_denied(FixedWindow::anchored());
    });
}

/// The planted fault: a denial keeps what it has charged.
#[test]
#[should_panic(expected = "left in the first")]
fn without_the_refund_a_denial_is_charged() {
    plant(Fault::RefundLeftOut);
    catch_two("composite: not refunded", || one_is_denied(Gcra::new()));
}

/// While a composite charges and refunds `cells` cells, another thread asks the first limit alone.
fn denied_beside_charges_of_the_first(cells: u64) {
    let first = bucket(Gcra::new(), burst(2 * cells));
    let all = always_denied(&first, &bucket(Gcra::new(), burst(cells)));
    let other = Arc::clone(&first);
    let thread = thread::spawn(move || {
        (0..3).filter(|_| other.ask().cells(cells).at(at(1)).check().is_ok()).count() as u64
    });
    assert!(all.ask(&()).cells(cells).at(at(1)).check().is_err());
    let granted = cells * thread.join().unwrap();
    assert_eq!(granted + left_in(&*first, at(1)), 2 * cells, "granted and left in the first");
}

#[test]
fn a_refund_is_exact_beside_charges_of_one_limit() {
    explore_two_whole("composite: denied, and 3 charges of one limit", || {
        denied_beside_charges_of_the_first(1)
    });
}

#[test]
fn a_refund_of_several_cells_is_exact_beside_charges_of_one_limit() {
    explore_two_whole("composite: 3 cells denied, and 3 charges of 3", || {
        denied_beside_charges_of_the_first(3);
    });
}

/// The planted fault: a thread refunds twice, and another thread spends the second refund.
#[test]
#[should_panic(expected = "granted and left in the first")]
fn refunded_twice_a_cell_is_granted_twice() {
    plant(Fault::RefundedTwice);
    catch_two("composite: refunded twice", || denied_beside_charges_of_the_first(1));
}

/// The first limit has a cell for each thread, the second for all but one.
fn of_several_one_is_denied(threads: usize) {
    let cells = threads as u64;
    let (both, first, second) = two(Gcra::new(), burst(cells), cells - 1);
    let granted = each_of(threads, &both, |both, _| ask_all(both));
    assert_eq!(granted.iter().sum::<u64>(), cells - 1, "granted in all");
    assert_eq!(left_in(&*second, at(1)), 0);
    assert_eq!(left_in(&*first, at(1)), 1);
}

#[test]
fn of_three_threads_the_denied_one_refunds_the_first_limit() {
    explore_three("composite: 3 threads, one denied", || of_several_one_is_denied(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn of_four_threads_the_denied_one_refunds_the_first_limit() {
    explore_four("composite: 4 threads, one denied", || of_several_one_is_denied(4));
}

const SPENT: u64 = 1;
const FRESH: u64 = 3;
const SAME: u64 = 7;

/// As [`one_is_denied`], where the first limit has a plan. A cell of the plan costs three times as much as
/// one of the limiter's own quota, so a refund by that quota would leave the plan nothing.
fn one_of_a_plan_is_denied() {
    let first = gate(burst(3), ONE_BUCKET, OnFull::Deny);
    let plan = first.plan(Quota::per_minute(20).burst(3)).expect("slower");
    assert!(first.ask(&SAME).plan(&plan).at(at(1)).check().is_ok(), "the key has a slot");
    let second = bucket(Gcra::new(), burst(1));
    let taken = plan.clone();
    let built = Composite::<u64>::builder()
        .keyed_planned("first", Arc::clone(&first), |key: &u64| key, move |_| taken.clone())
        .shared("second", Arc::clone(&second))
        .build();
    let both = Arc::new(built.expect("token buckets can refund"));
    let other = Arc::clone(&both);
    let thread = thread::spawn(move || other.ask(&SAME).at(at(1)).check().is_ok());
    let granted = u64::from(both.ask(&SAME).at(at(1)).check().is_ok());
    let granted = granted + u64::from(thread.join().unwrap());
    assert_eq!(granted, 1, "granted in all");
    let left = first.ask(&SAME).plan(&plan).cells(0).at(at(1)).peek();
    assert_eq!(left.map(|permit| permit.remaining()), Ok(1), "left in the first");
}

#[test]
fn of_two_threads_the_denied_one_refunds_the_cells_of_its_plan() {
    explore_two_to("composite: plans, 2 threads, one denied", 3, Preemptions::To(4), || {
        one_of_a_plan_is_denied();
    });
}

/// The planted fault: a denial keeps what it has charged by the plan.
#[test]
#[should_panic(expected = "left in the first")]
fn without_the_refund_a_denial_of_a_plan_is_charged() {
    plant(Fault::RefundLeftOut);
    catch_two("composite: plans, not refunded", one_of_a_plan_is_denied);
}

/// Two requests have the first key in common. The second key of one request has no cell left, so that
/// request charges nothing, and the other request is granted in any interleaving.
fn keys_differ(first: Arc<Gate>) {
    let second = gate(burst(1), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&second, SPENT, at(1)), 1);
    let built = Composite::<(u64, u64)>::builder()
        .keyed("first", Arc::clone(&first), |request: &(u64, u64)| &request.0)
        .keyed("second", Arc::clone(&second), |request: &(u64, u64)| &request.1)
        .build();
    let both = Arc::new(built.expect("token buckets can refund"));
    let other = Arc::clone(&both);
    let thread = thread::spawn(move || other.ask(&(SAME, SPENT)).at(at(1)).check().is_ok());
    let granted = u64::from(both.ask(&(SAME, FRESH)).at(at(1)).check().is_ok());
    assert!(!thread.join().unwrap(), "no cell is left for that key");
    assert_eq!(granted, 1, "granted to the other");
    assert_eq!(left(&first, SAME, at(1)), 0, "left in the first");
    assert_eq!(left(&second, FRESH, at(1)), 0, "left in the second");
}

#[test]
fn a_denial_by_the_second_key_does_not_hold_the_first_keys_cell() {
    explore_latest("composite: keys, one denied", 3, Preemptions::To(5), || {
        keys_differ(gate(burst(1), ONE_BUCKET, OnFull::Deny));
    });
}

#[test]
fn a_denial_by_the_second_key_does_not_hold_the_first_keys_cell_in_compact_slots() {
    explore_latest("composite: keys in compact slots, one denied", 3, Preemptions::To(5), || {
        keys_differ(compact(burst(1), ONE_BUCKET, OnFull::Deny));
    });
}

/// The planted fault: a request that its second key denies holds the first key's cell.
#[test]
#[should_panic(expected = "granted to the other")]
fn without_a_peek_at_the_later_limit_an_honest_request_is_denied() {
    plant(Fault::LaterNotPeeked);
    catch_two("composite: keys, not peeked", || {
        keys_differ(gate(burst(1), ONE_BUCKET, OnFull::Deny));
    });
}

/// A clock that one of the threads moves. Loom interleaves the loads and swaps of the words, between
/// which the clock is read and moved.
#[derive(Debug)]
struct Seconds(AtomicU64);

impl Clock for Seconds {
    fn now(&self) -> Tick {
        at(self.0.load(Ordering::Relaxed))
    }
}

fn timed(quota: Quota, clock: &Arc<Seconds>) -> Arc<Direct<Gcra, Arc<Seconds>>> {
    Arc::new(Direct::builder(quota).clock(Arc::clone(clock)).build().expect("in range"))
}

/// The first limit has one cell left. A request that the second limit denies charges nothing, so the
/// first limit gets all cells that time restores, whenever time passes.
fn time_passes_while_it_is_denied() {
    let clock = Arc::new(Seconds(AtomicU64::new(1)));
    let first = timed(burst(4), &clock);
    let second = timed(Quota::per_day(1), &clock);
    assert!(first.check_n(3).is_ok() && second.check().is_ok());
    let both = Composite::<()>::builder()
        .shared("first", Arc::clone(&first))
        .shared("second", second)
        .build()
        .expect("token buckets can refund");
    let (other, time) = (Arc::clone(&first), Arc::clone(&clock));
    let thread = thread::spawn(move || {
        time.0.store(3, Ordering::Relaxed);
        (0..4).filter(|_| other.check().is_ok()).count() as u64
    });
    assert!(both.check(&()).is_err());
    let granted = thread.join().unwrap();
    assert_eq!(granted, 3, "granted: one that was left, and two that came back");
    assert_eq!(left_in(&*first, at(3)), 0, "left");
}

#[test]
fn a_denied_request_loses_no_refill_while_time_passes() {
    explore_two_whole("composite: time passes during a denial", time_passes_while_it_is_denied);
}

/// The planted fault: time restores cells while they are charged by a request that is then denied.
#[test]
#[should_panic(expected = "granted: one that was left")]
fn without_a_peek_at_the_later_limit_refill_is_lost() {
    plant(Fault::LaterNotPeeked);
    catch_two("composite: refill, not peeked", time_passes_while_it_is_denied);
}

/// While a denied request holds the only cell, time restores it, and another thread is granted it.
fn time_passes() {
    let clock = Arc::new(Seconds(AtomicU64::new(1)));
    let first = timed(burst(1), &clock);
    let all = always_denied(&first, &timed(Quota::per_day(1), &clock));
    let (other, time) = (Arc::clone(&first), Arc::clone(&clock));
    let thread = thread::spawn(move || {
        time.0.store(3, Ordering::Relaxed);
        (0..2).filter(|_| other.check().is_ok()).count() as u64
    });
    assert!(all.check(&()).is_err());
    let granted = thread.join().unwrap();
    assert_eq!(granted + left_in(&*first, at(3)), 1, "granted and left");
}

#[test]
fn a_cell_that_time_has_restored_is_not_refunded() {
    explore_two_whole("composite: time passes before the refund", time_passes);
}

/// The planted fault: a thread refunds a cell that time has restored and another thread was granted.
#[test]
#[should_panic(expected = "granted and left")]
fn refunded_at_an_old_time_a_cell_is_granted_twice() {
    plant(Fault::RefundedAtOldTime);
    catch_two("composite: refunded at an old time", time_passes);
}
