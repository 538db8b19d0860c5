//! Requests in flight: entries, guards dropped late, limits that change, holders that are lost.
//!
//! The count is one state word: `src/cell/state_cell.rs`, with the step of `src/algo/in_flight/mod.rs`. The
//! limiters are in `src/concurrency/`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::{
    NoClock, ONE_BUCKET, Preemptions, SEED_APART, at, bucket, burst, catch_latest, catch_two,
    each_of, explore_four, explore_latest, explore_three, explore_two, explore_two_to,
    explore_two_whole,
};
use tollgate::Gcra;
use tollgate::composite::Composite;
use tollgate::concurrency::{
    ConcurrencyBuilder, ConcurrencyLimiter, DirectConcurrency, WhenNoSlot,
};
use tollgate::internals::{Fault, plant};

type Gate = ConcurrencyLimiter<u64, NoClock>;

const KEY: u64 = 7;
const OTHER: u64 = 1;
const THIRD: u64 = 3;

fn begun(limit: u64) -> ConcurrencyBuilder<u64, NoClock> {
    ConcurrencyLimiter::builder(limit).clock(NoClock).capacity(ONE_BUCKET).hash_seed(SEED_APART)
}

fn gate(limit: u64) -> Arc<Gate> {
    Arc::new(begun(limit).build().expect("in range"))
}

fn direct(limit: u64) -> Arc<DirectConcurrency<NoClock>> {
    Arc::new(DirectConcurrency::builder(limit).clock(NoClock).build().expect("in range"))
}

/// Enters, and leaves again if that succeeded. Returns how many were in flight, its own included.
fn pass(gate: &Gate, key: u64) -> u64 {
    gate.enter(&key).map_or(0, |guard| guard.in_flight())
}

/// Enters for good. Returns 1 if that succeeded.
fn stay(gate: &Gate, key: u64) -> u64 {
    gate.enter(&key).map_or(0, |guard| {
        std::mem::forget(guard);
        1
    })
}

/// Two threads enter a key twice each and leave in between; the third entry of a limit of two is denied.
fn enter_and_leave(limit: u64, threads: usize) {
    let gate = gate(limit);
    let first = gate.enter(&KEY).expect("room");
    let seen = each_of(threads, &gate, |gate, number| match number {
        0 => stay(gate, KEY),
        1 => pass(gate, KEY).max(pass(gate, KEY)),
        _ => pass(gate, KEY),
    });
    assert!(seen[1..].iter().all(|in_flight| *in_flight <= limit), "never above the limit");
    assert_eq!(gate.in_flight(&KEY), 1 + seen[0], "in flight after all others have left");
    drop(first);
    assert_eq!(gate.in_flight(&KEY), seen[0], "and without the first");
}

#[test]
fn entries_and_exits_of_two_threads_are_all_counted() {
    explore_two_whole("concurrency: enter and leave, 2 threads", || enter_and_leave(2, 2));
}

#[test]
fn entries_and_exits_of_three_threads_are_all_counted() {
    explore_three("concurrency: enter and leave, 3 threads", || enter_and_leave(3, 3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn entries_and_exits_of_four_threads_are_all_counted() {
    explore_four("concurrency: enter and leave, 4 threads", || enter_and_leave(3, 4));
}

/// The planted fault: a guard writes the count that it computed before another thread entered.
#[test]
#[should_panic(expected = "in flight after all others have left")]
fn with_a_stale_revision_an_entry_is_lost() {
    plant(Fault::RevisionStale);
    catch_two("concurrency: stale revision", || enter_and_leave(3, 2));
}

/// Threads that enter a key without a slot are admitted up to the limit, exactly.
fn several_want_the_last(threads: usize) {
    let gate = gate(threads as u64 - 1);
    let entered = each_of(threads, &gate, |gate, _| stay(gate, KEY));
    assert_eq!(entered.iter().sum::<u64>(), threads as u64 - 1, "entered in all");
    assert_eq!(gate.in_flight(&KEY), threads as u64 - 1, "no entry was lost");
}

#[test]
fn of_two_threads_that_claim_a_key_one_enters() {
    explore_two_to("concurrency: 2 claim, limit 1", 2, Preemptions::To(3), || {
        several_want_the_last(2);
    });
}

#[test]
fn of_three_threads_that_claim_a_key_two_enter() {
    explore_latest("concurrency: 3 claim, limit 2", 3, Preemptions::To(4), || {
        several_want_the_last(3);
    });
}

/// A key leaves, another takes its slot, and the first enters again. Both slots but this one are in use.
fn a_slot_left_during_a_take_over() {
    let gate = gate(1);
    let first = gate.enter(&KEY).expect("room");
    let neighbour = gate.enter(&OTHER).expect("room");
    let taker = Arc::clone(&gate);
    let thread = thread::spawn(move || stay(&taker, THIRD));
    drop(first);
    let again = stay(&gate, KEY);
    let taken = thread.join().unwrap();
    assert_eq!(gate.in_flight(&KEY), again, "the key's own");
    assert_eq!(gate.in_flight(&THIRD), taken, "the other's");
    assert_eq!(gate.in_flight(&OTHER), 1, "the neighbour's");
    assert!(again + taken <= 1, "one slot was free");
    assert_eq!(2 - again - taken, gate.stats().denied_full, "the others found no slot");
    drop(neighbour);
}

#[test]
fn a_slot_that_is_left_goes_to_one_key() {
    explore_two_to("concurrency: left during a take-over", 3, Preemptions::To(4), || {
        a_slot_left_during_a_take_over();
    });
}

/// A guard is dropped while its key is reset and another key takes the slot and enters.
fn a_late_drop_after_a_take_over() {
    let gate = gate(2);
    let late = gate.enter(&KEY).expect("room");
    let neighbour = gate.enter(&OTHER).expect("room");
    let taker = Arc::clone(&gate);
    let thread = thread::spawn(move || {
        taker.reset(&KEY);
        stay(&taker, THIRD)
    });
    drop(late);
    let taken = thread.join().unwrap();
    assert_eq!(taken, 1, "a slot was free");
    assert_eq!(gate.in_flight(&THIRD), 1, "the late guard took nothing from it");
    drop(neighbour);
}

#[test]
fn a_guard_dropped_after_a_take_over_changes_nothing() {
    explore_two_to("concurrency: late drop", 3, Preemptions::Any, || {
        a_late_drop_after_a_take_over();
    });
}

/// The same with the key itself in its next life.
fn a_late_drop_after_a_reset() {
    let gate = gate(2);
    let late = gate.ask(&KEY).at(at(1)).enter().expect("room");
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || {
        other.reset(&KEY);
        std::mem::forget(other.ask(&KEY).at(at(2)).enter().expect("room"));
    });
    drop(late);
    thread.join().unwrap();
    assert_eq!(gate.in_flight(&KEY), 1, "the late guard took nothing from the next life");
}

#[test]
fn a_guard_dropped_after_a_reset_changes_nothing() {
    explore_two_to("concurrency: late drop after a reset", 3, Preemptions::Any, || {
        a_late_drop_after_a_reset();
    });
}

/// The planted fault: a guard gives its cells back to the key that has the slot by then. Both entries fall into one
/// unit of time, so that the stamp does not tell them apart either.
#[test]
#[should_panic(expected = "the late guard took nothing from it")]
fn without_the_generation_a_late_guard_takes_from_the_next_key() {
    plant(Fault::LifeUnchecked);
    catch_two("concurrency: life unchecked", a_late_drop_after_a_take_over);
}

/// The limit falls from three to two while a thread enters twice beside one that is in.
fn the_limit_falls_meanwhile() {
    let gate = gate(3);
    assert_eq!(stay(&gate, KEY), 1);
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || stay(&other, KEY) + stay(&other, KEY));
    gate.set_limit(2).expect("in range");
    let mine = gate.enter(&KEY);
    if let Ok(guard) = &mine {
        assert_eq!(guard.in_flight(), 2, "this thread has changed the limit before it entered");
    }
    let mine = mine.map(std::mem::forget).is_ok();
    let entered = 1 + u64::from(mine) + thread.join().unwrap();
    assert!((2..=3).contains(&entered), "one limit or the other");
    assert_eq!(gate.in_flight(&KEY), entered, "all that entered are counted");
    assert_eq!(stay(&gate, KEY), 0, "the lower limit is in force");
}

#[test]
fn an_entry_obeys_the_limit_before_or_after_a_change() {
    explore_two("concurrency: the limit falls", the_limit_falls_meanwhile);
}

/// The limit rises from one to two while two threads enter.
#[test]
fn an_entry_after_the_limit_has_risen_has_room() {
    explore_two("concurrency: the limit rises", || {
        let gate = direct(1);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || u64::from(other.enter().map(std::mem::forget).is_ok()));
        gate.set_limit(2).expect("in range");
        let mine = gate.enter().map(std::mem::forget).is_ok();
        assert!(mine, "this thread has raised the limit before it entered");
        let entered = 1 + thread.join().unwrap();
        assert_eq!(gate.in_flight(), entered, "all that entered are counted");
    });
}

const HOLD: Duration = Duration::from_secs(10);

/// A holder is lost; two holds later two threads enter, and the lost guard is dropped after all.
fn a_lost_holder_returns() {
    let gate: Arc<Gate> = Arc::new(begun(2).max_hold(HOLD).build().expect("in range"));
    let lost = gate.ask(&KEY).cells(2).at(at(1)).enter().expect("room");
    assert!(gate.ask(&KEY).at(at(19)).enter().is_err(), "a hold has not passed for sure");
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || {
        u64::from(other.ask(&KEY).at(at(20)).enter().map(std::mem::forget).is_ok())
    });
    let mine = gate.ask(&KEY).at(at(20)).enter().map(std::mem::forget).is_ok();
    drop(lost);
    let entered = u64::from(mine) + thread.join().unwrap();
    assert_eq!(entered, 2, "the lost holder counts no more");
    assert_eq!(gate.ask(&KEY).at(at(20)).in_flight(), 2, "the lost guard took nothing");
}

#[test]
fn a_lost_holder_expires_and_takes_nothing_when_it_returns() {
    explore_two("concurrency: a lost holder", a_lost_holder_returns);
}

/// The planted fault: a guard that has expired gives its cells back.
#[test]
#[should_panic(expected = "the lost guard took nothing")]
fn without_the_period_an_expired_guard_refunds_what_others_hold() {
    plant(Fault::ExpiredRefunds);
    catch_two("concurrency: an expired guard gives back", a_lost_holder_returns);
}

/// The clock of one thread has reached the next period, that of the other has not.
#[test]
fn a_stale_clock_enters_no_more_than_the_limit() {
    explore_two("concurrency: a stale clock", || {
        let gate: Arc<Gate> = Arc::new(begun(1).max_hold(HOLD).build().expect("in range"));
        let held = gate.ask(&KEY).at(at(15)).enter().expect("room");
        let other = Arc::clone(&gate);
        let enters = |gate: &Gate, now| {
            u64::from(gate.ask(&KEY).at(now).enter().map(std::mem::forget).is_ok())
        };
        let thread = thread::spawn(move || enters(&other, at(19)));
        drop(held);
        let entered = enters(&gate, at(20)) + thread.join().unwrap();
        assert_eq!(entered, 1, "one of the two");
        assert_eq!(gate.ask(&KEY).at(at(20)).in_flight(), 1);
    });
}

/// Keys that find no slot share one count.
#[test]
fn keys_without_a_slot_share_one_count() {
    explore_latest("concurrency: shared overflow", 3, Preemptions::To(4), || {
        let begun = begun(1).when_no_slot(WhenNoSlot::SharedOverflow(1));
        let gate: Arc<Gate> = Arc::new(begun.build().expect("in range"));
        let (a, b) = (gate.enter(&KEY).expect("room"), gate.enter(&OTHER).expect("room"));
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || pass(&other, THIRD));
        let seen = pass(&gate, 2).max(thread.join().unwrap());
        assert_eq!(seen, 1, "one at a time");
        assert_eq!(gate.stats().overflowed, 2);
        drop((a, b));
    });
}

/// The planted fault on one count without keys.
#[test]
#[should_panic(expected = "in flight")]
fn with_a_stale_revision_an_entry_of_one_count_is_lost() {
    plant(Fault::RevisionStale);
    catch_latest("concurrency: stale revision, direct", 3, || {
        let gate = direct(3);
        let held = gate.enter().expect("room");
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || std::mem::forget(other.enter().expect("room")));
        drop(held);
        thread.join().unwrap();
        assert_eq!(gate.in_flight(), 1, "in flight");
    });
}

/// A composite of a rate that has one cell left and a limit of two in flight: what the rate denies is in
/// flight no more.
fn a_composite_with_one_cell_left() {
    let (upstream, rate) = (direct(2), bucket(Gcra::new(), burst(1)));
    let gate = Composite::<()>::builder()
        .shared_in_flight("at once", Arc::clone(&upstream))
        .shared("rate", Arc::clone(&rate))
        .build();
    let gate = Arc::new(gate.expect("both can be refunded"));
    let enter = |gate: &Composite<'_, ()>| {
        u64::from(gate.ask(&()).at(at(1)).enter().map(std::mem::forget).is_ok())
    };
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || enter(&other));
    let entered = enter(&gate) + thread.join().unwrap();
    assert_eq!(entered, 1, "the rate has one cell");
    assert_eq!(upstream.in_flight(), 1, "what was denied is in flight no more");
}

#[test]
fn what_a_rate_denies_is_in_flight_no_more() {
    explore_two("concurrency: composite with a rate", a_composite_with_one_cell_left);
}

/// The planted fault: a composite that denies keeps what it has charged.
#[test]
#[should_panic(expected = "in flight no more")]
fn without_the_refund_a_denied_request_stays_in_flight() {
    plant(Fault::RefundLeftOut);
    catch_two("concurrency: refund left out", a_composite_with_one_cell_left);
}
