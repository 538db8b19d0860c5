//! A purse of `tollgate-redis`: cells that are put in, spent, too old, or dropped.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::redis::{CallEnd, CallState, LeaseCell, PlantedFault, Until, plant};
use loom_tests::{
    Preemptions, catch_three, catch_two, each_of, explore_four, explore_latest, explore_three,
    explore_two, explore_two_to, explore_two_whole,
};
use tollgate::Tick;

/// An instant in a purse's units.
fn at(units: u64) -> Tick {
    Tick::from_nanos(units << 16)
}

/// A purse that holds so many cells until unit 10.
fn lease_cell(cells: u64) -> Arc<LeaseCell> {
    let lease_cell = LeaseCell::default();
    assert_eq!(lease_cell.deposit(cells, at(10), at(1)), 0);
    Arc::new(lease_cell)
}

/// Asks for one cell so many times, and returns how many were spent.
fn spend(lease_cell: &LeaseCell, times: u64, now: Tick) -> u64 {
    (0..times).map(|_| u64::from(lease_cell.spend(1, now))).sum()
}

/// Two threads spend what there is.
fn two_spend() {
    let lease_cell = lease_cell(3);
    let other = Arc::clone(&lease_cell);
    let thread = thread::spawn(move || spend(&other, 2, at(1)));
    let spent = spend(&lease_cell, 2, at(1)) + thread.join().unwrap();
    assert_eq!(spent, 3, "spent and put in");
    assert_eq!(lease_cell.unspent(), 0);
}

#[test]
fn two_threads_spend() {
    explore_two("purse: 2 threads spend", two_spend);
}

/// The mistake avoided: what somebody else has spent is put back.
#[test]
#[should_panic(expected = "spent and put in")]
fn without_a_swap_a_cell_is_spent_twice() {
    plant(PlantedFault::SpentByStore);
    catch_two("purse: spent by a store", two_spend);
}

/// Both leases are taken, so that a deposit drops what is left of one while it is being spent.
#[test]
fn a_deposit_in_the_place_of_what_is_being_spent() {
    explore_two_whole("purse: a deposit drops what is being spent", || {
        let lease_cell = lease_cell(2);
        assert_eq!(lease_cell.deposit(2, at(20), at(1)), 0);
        let other = Arc::clone(&lease_cell);
        let thread = thread::spawn(move || spend(&other, 3, at(1)));
        let dropped = lease_cell.deposit(5, at(60), at(1));
        let spent = thread.join().unwrap();
        assert_eq!(spent, 3, "there was enough at any time");
        assert_eq!(spent + dropped + lease_cell.unspent(), 9, "spent, dropped and left");
    });
}

#[test]
fn two_spend_and_one_puts_in() {
    explore_three("purse: 2 spend, 1 puts in, 3 threads", || {
        let lease_cell = lease_cell(1);
        let threads = [2, 1].map(|times| {
            let lease_cell = Arc::clone(&lease_cell);
            thread::spawn(move || spend(&lease_cell, times, at(1)))
        });
        let dropped = lease_cell.deposit(2, at(20), at(1));
        let spent: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(spent >= 1, "the first cell was there");
        assert_eq!(spent + dropped + lease_cell.unspent(), 3, "spent, dropped and left");
    });
}

/// Two spend while two calls end, and put cells in of which some join the lease that is being spent.
#[test]
#[ignore = "4 threads: in the full run"]
fn two_spend_and_two_put_in() {
    explore_four("purse: 2 spend, 2 put in, 4 threads", || {
        let lease_cell = lease_cell(1);
        let done = each_of(4, &lease_cell, |lease_cell, number| match number {
            0 => lease_cell.deposit(2, at(20), at(1)),
            1 => lease_cell.deposit(4, at(60), at(1)),
            2 => spend(lease_cell, 2, at(1)),
            _ => spend(lease_cell, 1, at(1)),
        });
        let (dropped, spent) = (done[0] + done[1], done[2] + done[3]);
        assert!(spent >= 1, "the first cell was there");
        assert_eq!(spent + dropped + lease_cell.unspent(), 7, "spent, dropped and left");
    });
}

/// Two threads ask for cells whose end comes between their clocks, while others take their place.
fn spent_about_the_end() {
    let lease_cell = lease_cell(2);
    let threads = [9, 10].map(|now| {
        let lease_cell = Arc::clone(&lease_cell);
        thread::spawn(move || spend(&lease_cell, 1, at(now)))
    });
    let [in_time, too_late] = threads.map(|thread| thread.join().unwrap());
    assert_eq!((in_time, too_late), (1, 0), "spent in time and too late");
    // What is too old makes room first.
    assert_eq!(lease_cell.deposit(4, at(30), at(10)) + lease_cell.unspent(), 5);
}

#[test]
fn about_the_end() {
    explore_latest("purse: spent about the end", 4, Preemptions::Any, spent_about_the_end);
}

/// The mistake avoided: cells are spent however old they are.
#[test]
#[should_panic(expected = "spent in time and too late")]
fn without_a_look_at_the_end_they_are_spent_too_late() {
    plant(PlantedFault::EndUnchecked);
    catch_three("purse: spent without a look at the end", spent_about_the_end);
}

/// Two calls end together and put their cells in, beside one lease that is being spent and another
/// whose end is near theirs, so that they may join it.
fn two_put_in() {
    let lease_cell = LeaseCell::default();
    assert_eq!(lease_cell.deposit(1, at(100), at(1)), 0);
    assert_eq!(lease_cell.deposit(1, at(101), at(1)), 0);
    let lease_cell = Arc::new(lease_cell);
    let other = Arc::clone(&lease_cell);
    let spender = Arc::clone(&lease_cell);
    let threads = [
        thread::spawn(move || other.deposit(2, at(102), at(1))),
        thread::spawn(move || spend(&spender, 2, at(1))),
    ];
    let mut dropped = lease_cell.deposit(4, at(103), at(1));
    let [more, spent] = threads.map(|thread| thread.join().unwrap());
    dropped += more;
    assert_eq!(spent, 2, "there was enough at any time");
    assert_eq!(
        (dropped, spent + lease_cell.unspent()),
        (0, 8),
        "spent and left is what was put in"
    );
}

#[test]
fn two_put_in_beside_what_is_being_spent() {
    explore_three("purse: 2 put in, 1 spends, 3 threads", two_put_in);
}

/// The mistake avoided: what somebody else has put in or spent is written over.
#[test]
#[should_panic(expected = "what was put in")]
fn without_a_swap_what_is_put_in_is_lost_or_spent_twice() {
    plant(PlantedFault::DepositedByStore);
    catch_three("purse: put in by a store", two_put_in);
}

/// Two threads would call; one does, and puts in what it gets before the other may.
fn two_call() {
    let lease_cell = Arc::new(LeaseCell::default());
    let call = |lease_cell: &LeaseCell| {
        if lease_cell.begin_call(1, at(1)).is_none() {
            return 0;
        }
        let dropped = lease_cell.deposit(2, at(10), at(1));
        assert_eq!(dropped, 0, "dropped by a second call");
        lease_cell.deny(1, Until::Then(at(5)));
        lease_cell.finish_call(CallEnd::Short, at(5));
        2
    };
    let other = Arc::clone(&lease_cell);
    let thread = thread::spawn(move || call(&other));
    let put_in = call(&lease_cell) + thread.join().unwrap();
    assert_eq!(put_in, 2, "one call");
    assert_eq!((lease_cell.unspent(), lease_cell.spendable(at(9))), (2, 2));
    assert_eq!(lease_cell.denied(1, at(4)), Some(Until::Then(at(5))));
    assert_eq!(lease_cell.call_state(at(4)), CallState::Paused(0, at(5), CallEnd::Short));
    assert_eq!(lease_cell.begin_call(1, at(5)), Some(0));
}

#[test]
fn two_threads_call() {
    explore_two_to("purse: 2 threads call", 3, Preemptions::Any, two_call);
}

/// The mistake avoided: who asks does not look whether somebody else has begun.
#[test]
#[should_panic(expected = "one call")]
fn without_a_swap_both_call() {
    plant(PlantedFault::CallByStore);
    catch_two("purse: called by a store", two_call);
}

/// Three threads would call, of which two may at a time; one of those finds the bank short.
fn two_of_three_call() {
    let lease_cell = Arc::new(LeaseCell::default());
    let threads = [(CallEnd::Free, 1), (CallEnd::Short, 5)].map(|(end, until)| {
        let lease_cell = Arc::clone(&lease_cell);
        thread::spawn(move || {
            let others = lease_cell.begin_call(2, at(1));
            assert!(others.is_none_or(|others| others < 2), "two at a time");
            if others.is_some() {
                lease_cell.finish_call(end, at(until));
            }
            (others.is_some(), end)
        })
    });
    let mine = lease_cell.begin_call(2, at(1));
    assert!(mine.is_none_or(|others| others < 2), "two at a time");
    let in_flight = lease_cell.in_flight();
    assert!(in_flight >= u64::from(mine.is_some()) && in_flight <= 2, "two at a time");
    if mine.is_some() {
        lease_cell.finish_call(CallEnd::Free, at(1));
    }
    let made = threads.map(|thread| thread.join().unwrap());
    let is_short = made.contains(&(true, CallEnd::Short));
    let expected =
        if is_short { CallState::Paused(0, at(5), CallEnd::Short) } else { CallState::Free };
    let left = (lease_cell.in_flight(), lease_cell.call_state(at(1)));
    assert_eq!(left, (0, expected), "all calls are over, and a rest stands whoever ends after it");
}

#[test]
fn several_calls_are_under_way_and_all_end() {
    explore_three("purse: 2 of 3 call, 3 threads", two_of_three_call);
}

/// The mistake avoided: two calls that end together take off one.
#[test]
#[should_panic(expected = "all calls are over")]
fn without_a_swap_a_call_never_ends() {
    plant(PlantedFault::FinishedByStore);
    catch_three("purse: ended by a store", two_of_three_call);
}

/// Four threads would call, of which two may at a time, and put in a cell each before their call ends.
#[test]
#[ignore = "4 threads: in the full run"]
fn four_threads_call() {
    explore_four("purse: 2 of 4 call, 4 threads", || {
        let lease_cell = Arc::new(LeaseCell::default());
        let put_in = each_of(4, &lease_cell, |lease_cell, _| {
            let Some(others) = lease_cell.begin_call(2, at(1)) else { return 0 };
            assert!(others < 2, "two at a time");
            assert_eq!(lease_cell.deposit(1, at(10), at(1)), 0, "dropped by a third call");
            lease_cell.finish_call(CallEnd::Free, at(1));
            1
        });
        let put_in: u64 = put_in.iter().sum();
        assert!(put_in >= 2, "nobody stood in the way of the first two");
        assert_eq!(
            (lease_cell.in_flight(), lease_cell.call_state(at(1))),
            (0, CallState::Free),
            "all calls are over"
        );
        assert_eq!(lease_cell.unspent(), put_in, "what they put in is there");
    });
}

/// A thread that sees that calls have ended also sees the cells that they deposited. This holds for the
/// thread that ends the last call, too.
#[test]
fn after_a_call_its_cells_are_there() {
    explore_two_to("purse: cells are there after the calls", 3, Preemptions::Any, || {
        let lease_cell = Arc::new(LeaseCell::default());
        assert_eq!(
            (lease_cell.begin_call(2, at(1)), lease_cell.begin_call(2, at(1))),
            (Some(0), Some(1))
        );
        let other = Arc::clone(&lease_cell);
        let thread = thread::spawn(move || {
            assert_eq!(other.deposit(1, at(10), at(1)), 0);
            other.finish_call(CallEnd::Free, at(1));
        });
        lease_cell.finish_call(CallEnd::Free, at(1));
        if lease_cell.call_state(at(1)) == CallState::Free {
            assert!(lease_cell.spend(1, at(1)), "it is there");
        }
        thread.join().unwrap();
    });
}
