//! Composites: charged in order, given back when a later limit denies.

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

/// A composite whose second limit is asked twice, and has cells for one time. So the first limit is
/// always charged in vain, as when another request is faster.
fn in_vain<C: Clock + Send + Sync + 'static>(
    first: &Arc<Direct<Gcra, C>>,
    second: &Arc<Direct<Gcra, C>>,
) -> Composite<'static, ()> {
    Composite::builder()
        .shared("first", Arc::clone(first))
        .shared("second", Arc::clone(second))
        .shared("again", Arc::clone(second))
        .build()
        .expect("token buckets can give back")
}

type Both<A> = (Arc<Composite<'static, ()>>, Arc<Bucket<A>>, Arc<Bucket<Gcra>>);

/// Two buckets in one composite.
fn two<A: Algorithm + 'static>(algorithm: A, first: Quota, second: u64) -> Both<A> {
    let (first, second) = (bucket(algorithm, first), bucket(Gcra::new(), burst(second)));
    let both = Composite::builder()
        .shared("first", Arc::clone(&first))
        .shared("second", Arc::clone(&second))
        .build()
        .expect("a token bucket can give back");
    (Arc::new(both), first, second)
}

fn ask_all(all: &Composite<'_, ()>) -> u64 {
    u64::from(all.ask(&()).at(at(1)).check().is_ok())
}

/// The second limit has one cell, so one thread is denied by it and gives back to the first.
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
fn of_two_threads_one_is_denied() {
    explore_two_to("composite: 2 threads, one denied", 3, Preemptions::Any, || {
        one_is_denied(Gcra::new())
    });
}

#[test]
fn of_two_threads_one_is_denied_with_windows() {
    explore_two_to("composite: windows, 2 threads, one denied", 3, Preemptions::Any, || {
        one_is_denied(FixedWindow::anchored());
    });
}

/// The mistake avoided: a denial keeps what it has charged.
#[test]
#[should_panic(expected = "left in the first")]
fn without_the_give_back_a_denial_is_charged() {
    plant(Fault::GiveBackLeftOut);
    catch_two("composite: not given back", || one_is_denied(Gcra::new()));
}

/// While so many cells are charged in vain, and given back, another thread asks the first limit alone.
fn one_is_denied_and_a_third_comes(cells: u64) {
    let first = bucket(Gcra::new(), burst(2 * cells));
    let all = in_vain(&first, &bucket(Gcra::new(), burst(cells)));
    let other = Arc::clone(&first);
    let thread = thread::spawn(move || {
        (0..3).filter(|_| other.ask().cells(cells).at(at(1)).check().is_ok()).count() as u64
    });
    assert!(all.ask(&()).cells(cells).at(at(1)).check().is_err());
    let granted = cells * thread.join().unwrap();
    assert_eq!(granted + left_in(&*first, at(1)), 2 * cells, "granted and left in the first");
}

#[test]
fn against_charges_of_one_limit_alone() {
    explore_two_whole("composite: denied, and 3 charges of one limit", || {
        one_is_denied_and_a_third_comes(1)
    });
}

#[test]
fn against_charges_of_several_cells() {
    explore_two_whole("composite: 3 cells denied, and 3 charges of 3", || {
        one_is_denied_and_a_third_comes(3);
    });
}

/// The mistake avoided: what one thread gives back twice is another's.
#[test]
#[should_panic(expected = "granted and left in the first")]
fn given_back_twice_it_is_granted_twice() {
    plant(Fault::GivenBackTwice);
    catch_two("composite: given back twice", || one_is_denied_and_a_third_comes(1));
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
fn of_three_threads_one_is_denied() {
    explore_three("composite: 3 threads, one denied", || of_several_one_is_denied(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn of_four_threads_one_is_denied() {
    explore_four("composite: 4 threads, one denied", || of_several_one_is_denied(4));
}

const SPENT: u64 = 1;
const FRESH: u64 = 3;
const SAME: u64 = 7;

/// Two requests have the first key in common. The one's second key has nothing left, so it charges
/// nothing, and the other request is granted whatever comes in between.
fn keys_differ(first: Arc<Gate>) {
    let second = gate(burst(1), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&second, SPENT, at(1)), 1);
    let built = Composite::<(u64, u64)>::builder()
        .keyed("first", Arc::clone(&first), |request: &(u64, u64)| &request.0)
        .keyed("second", Arc::clone(&second), |request: &(u64, u64)| &request.1)
        .build();
    let both = Arc::new(built.expect("token buckets can give back"));
    let other = Arc::clone(&both);
    let thread = thread::spawn(move || other.ask(&(SAME, SPENT)).at(at(1)).check().is_ok());
    let granted = u64::from(both.ask(&(SAME, FRESH)).at(at(1)).check().is_ok());
    assert!(!thread.join().unwrap(), "nothing is left for that one");
    assert_eq!(granted, 1, "granted to the other");
    assert_eq!(left(&first, SAME, at(1)), 0, "left in the first");
    assert_eq!(left(&second, FRESH, at(1)), 0, "left in the second");
}

#[test]
fn of_two_keys_one_is_denied() {
    explore_latest("composite: keys, one denied", 3, Preemptions::To(5), || {
        keys_differ(gate(burst(1), ONE_BUCKET, OnFull::Deny));
    });
}

#[test]
fn of_two_keys_one_is_denied_in_compact_slots() {
    explore_latest("composite: keys in compact slots, one denied", 3, Preemptions::To(5), || {
        keys_differ(compact(burst(1), ONE_BUCKET, OnFull::Deny));
    });
}

/// The mistake avoided: a request that is denied by its second key holds the first one's cell.
#[test]
#[should_panic(expected = "granted to the other")]
fn without_a_look_at_the_later_limit_an_honest_request_is_denied() {
    plant(Fault::LaterNotLookedAt);
    catch_two("composite: keys, not looked at", || {
        keys_differ(gate(burst(1), ONE_BUCKET, OnFull::Deny));
    });
}

/// A clock that one of the threads moves. What loom interleaves is the loads and swaps of the word
/// between which it is read and moved.
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

/// The first limit owes as much as it may. A request that the second one denies charges nothing, and so
/// loses nothing of what time restores, though time passes at any moment of it.
fn time_passes_while_it_is_denied() {
    let clock = Arc::new(Seconds(AtomicU64::new(1)));
    let first = timed(burst(4), &clock);
    let second = timed(Quota::per_day(1), &clock);
    assert!(first.check_n(3).is_ok() && second.check().is_ok());
    let both = Composite::<()>::builder()
        .shared("first", Arc::clone(&first))
        .shared("second", second)
        .build()
        .expect("token buckets can give back");
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
fn time_passes_while_a_request_is_denied() {
    explore_two_whole("composite: time passes during a denial", time_passes_while_it_is_denied);
}

/// The mistake avoided: while a charge that is made in vain stands, time pays for it.
#[test]
#[should_panic(expected = "granted: one that was left")]
fn without_a_look_at_the_later_limit_refill_is_lost() {
    plant(Fault::LaterNotLookedAt);
    catch_two("composite: refill, not looked at", time_passes_while_it_is_denied);
}

/// While a denied request holds the only cell, time restores it, and it is granted to another.
fn time_passes() {
    let clock = Arc::new(Seconds(AtomicU64::new(1)));
    let first = timed(burst(1), &clock);
    let all = in_vain(&first, &timed(Quota::per_day(1), &clock));
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
fn time_passes_before_it_is_given_back() {
    explore_two_whole("composite: time passes before the give-back", time_passes);
}

/// The mistake avoided: what time has restored, and another was granted, is given back too.
#[test]
#[should_panic(expected = "granted and left")]
fn given_back_by_an_old_time_it_is_granted_twice() {
    plant(Fault::GivenBackByOldTime);
    catch_two("composite: given back by an old time", time_passes);
}
