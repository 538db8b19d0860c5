//! A purse of `tollgate-redis`: cells that are put in, spent, too old, or dropped.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::{
    Preemptions, catch_three, catch_two, each_of, explore_four, explore_latest, explore_three,
    explore_two, explore_two_to, explore_two_whole,
};
use tollgate::Tick;
use tollgate_redis::{Call, Last, PlantedFault, Purse, Until, plant_in_front};

/// An instant in a purse's units.
fn at(units: u64) -> Tick {
    Tick::from_nanos(units << 16)
}

/// A purse that holds so many cells until unit 10.
fn purse(cells: u64) -> Arc<Purse> {
    let purse = Purse::default();
    assert_eq!(purse.deposit(cells, at(10), at(1)), 0);
    Arc::new(purse)
}

/// Asks for one cell so many times, and returns how many were spent.
fn spend(purse: &Purse, times: u64, now: Tick) -> u64 {
    (0..times).map(|_| u64::from(purse.spend(1, now))).sum()
}

/// Two threads spend what there is.
fn two_spend() {
    let purse = purse(3);
    let other = Arc::clone(&purse);
    let thread = thread::spawn(move || spend(&other, 2, at(1)));
    let spent = spend(&purse, 2, at(1)) + thread.join().unwrap();
    assert_eq!(spent, 3, "spent and put in");
    assert_eq!(purse.unspent(), 0);
}

#[test]
fn two_threads_spend() {
    explore_two("purse: 2 threads spend", two_spend);
}

/// The mistake avoided: what somebody else has spent is put back.
#[test]
#[should_panic(expected = "spent and put in")]
fn without_a_swap_a_cell_is_spent_twice() {
    plant_in_front(PlantedFault::SpentByStore);
    catch_two("purse: spent by a store", two_spend);
}

/// Both leases are taken, so that a deposit drops what is left of one while it is being spent.
#[test]
fn a_deposit_in_the_place_of_what_is_being_spent() {
    explore_two_whole("purse: a deposit drops what is being spent", || {
        let purse = purse(2);
        assert_eq!(purse.deposit(2, at(20), at(1)), 0);
        let other = Arc::clone(&purse);
        let thread = thread::spawn(move || spend(&other, 3, at(1)));
        let dropped = purse.deposit(5, at(60), at(1));
        let spent = thread.join().unwrap();
        assert_eq!(spent, 3, "there was enough at any time");
        assert_eq!(spent + dropped + purse.unspent(), 9, "spent, dropped and left");
    });
}

#[test]
fn two_spend_and_one_puts_in() {
    explore_three("purse: 2 spend, 1 puts in, 3 threads", || {
        let purse = purse(1);
        let threads = [2, 1].map(|times| {
            let purse = Arc::clone(&purse);
            thread::spawn(move || spend(&purse, times, at(1)))
        });
        let dropped = purse.deposit(2, at(20), at(1));
        let spent: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(spent >= 1, "the first cell was there");
        assert_eq!(spent + dropped + purse.unspent(), 3, "spent, dropped and left");
    });
}

/// Two spend while two calls end, and put cells in of which some join the lease that is being spent.
#[test]
#[ignore = "4 threads: in the full run"]
fn two_spend_and_two_put_in() {
    explore_four("purse: 2 spend, 2 put in, 4 threads", || {
        let purse = purse(1);
        let done = each_of(4, &purse, |purse, number| match number {
            0 => purse.deposit(2, at(20), at(1)),
            1 => purse.deposit(4, at(60), at(1)),
            2 => spend(purse, 2, at(1)),
            _ => spend(purse, 1, at(1)),
        });
        let (dropped, spent) = (done[0] + done[1], done[2] + done[3]);
        assert!(spent >= 1, "the first cell was there");
        assert_eq!(spent + dropped + purse.unspent(), 7, "spent, dropped and left");
    });
}

/// Two threads ask for cells whose end comes between their clocks, while others take their place.
fn spent_about_the_end() {
    let purse = purse(2);
    let threads = [9, 10].map(|now| {
        let purse = Arc::clone(&purse);
        thread::spawn(move || spend(&purse, 1, at(now)))
    });
    let [in_time, too_late] = threads.map(|thread| thread.join().unwrap());
    assert_eq!((in_time, too_late), (1, 0), "spent in time and too late");
    // What is too old makes room first.
    assert_eq!(purse.deposit(4, at(30), at(10)) + purse.unspent(), 5);
}

#[test]
fn about_the_end() {
    explore_latest("purse: spent about the end", 4, Preemptions::Any, spent_about_the_end);
}

/// The mistake avoided: cells are spent however old they are.
#[test]
#[should_panic(expected = "spent in time and too late")]
fn without_a_look_at_the_end_they_are_spent_too_late() {
    plant_in_front(PlantedFault::EndUnchecked);
    catch_three("purse: spent without a look at the end", spent_about_the_end);
}

/// Two calls end together and put their cells in, beside one lease that is being spent and another
/// whose end is near theirs, so that they may join it.
fn two_put_in() {
    let purse = Purse::default();
    assert_eq!(purse.deposit(1, at(100), at(1)), 0);
    assert_eq!(purse.deposit(1, at(101), at(1)), 0);
    let purse = Arc::new(purse);
    let other = Arc::clone(&purse);
    let spender = Arc::clone(&purse);
    let threads = [
        thread::spawn(move || other.deposit(2, at(102), at(1))),
        thread::spawn(move || spend(&spender, 2, at(1))),
    ];
    let mut dropped = purse.deposit(4, at(103), at(1));
    let [more, spent] = threads.map(|thread| thread.join().unwrap());
    dropped += more;
    assert_eq!(spent, 2, "there was enough at any time");
    assert_eq!((dropped, spent + purse.unspent()), (0, 8), "spent and left is what was put in");
}

#[test]
fn two_put_in_beside_what_is_being_spent() {
    explore_three("purse: 2 put in, 1 spends, 3 threads", two_put_in);
}

/// The mistake avoided: what somebody else has put in or spent is written over.
#[test]
#[should_panic(expected = "what was put in")]
fn without_a_swap_what_is_put_in_is_lost_or_spent_twice() {
    plant_in_front(PlantedFault::DepositedByStore);
    catch_three("purse: put in by a store", two_put_in);
}

/// Two threads would call; one does, and puts in what it gets before the other may.
fn two_call() {
    let purse = Arc::new(Purse::default());
    let call = |purse: &Purse| {
        if purse.begin(1, at(1)).is_none() {
            return 0;
        }
        let dropped = purse.deposit(2, at(10), at(1));
        assert_eq!(dropped, 0, "dropped by a second call");
        purse.deny(1, Until::Then(at(5)));
        purse.finish(Last::Short, at(5));
        2
    };
    let other = Arc::clone(&purse);
    let thread = thread::spawn(move || call(&other));
    let put_in = call(&purse) + thread.join().unwrap();
    assert_eq!(put_in, 2, "one call");
    assert_eq!((purse.unspent(), purse.alive(at(9))), (2, 2));
    assert_eq!(purse.denied(1, at(4)), Some(Until::Then(at(5))));
    assert_eq!(purse.call(at(4)), Call::Resting(0, at(5), Last::Short));
    assert_eq!(purse.begin(1, at(5)), Some(0));
}

#[test]
fn two_threads_call() {
    explore_two_to("purse: 2 threads call", 3, Preemptions::Any, two_call);
}

/// The mistake avoided: who asks does not look whether somebody else has begun.
#[test]
#[should_panic(expected = "one call")]
fn without_a_swap_both_call() {
    plant_in_front(PlantedFault::CallByStore);
    catch_two("purse: called by a store", two_call);
}

/// Three threads would call, of which two may at a time; one of those finds the bank short.
fn two_of_three_call() {
    let purse = Arc::new(Purse::default());
    let threads = [(Last::Free, 1), (Last::Short, 5)].map(|(last, until)| {
        let purse = Arc::clone(&purse);
        thread::spawn(move || {
            let others = purse.begin(2, at(1));
            assert!(others.is_none_or(|others| others < 2), "two at a time");
            if others.is_some() {
                purse.finish(last, at(until));
            }
            (others.is_some(), last)
        })
    });
    let mine = purse.begin(2, at(1));
    assert!(mine.is_none_or(|others| others < 2), "two at a time");
    let under_way = purse.under_way();
    assert!(under_way >= u64::from(mine.is_some()) && under_way <= 2, "two at a time");
    if mine.is_some() {
        purse.finish(Last::Free, at(1));
    }
    let made = threads.map(|thread| thread.join().unwrap());
    let is_short = made.contains(&(true, Last::Short));
    let expected = if is_short { Call::Resting(0, at(5), Last::Short) } else { Call::Free };
    let left = (purse.under_way(), purse.call(at(1)));
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
    plant_in_front(PlantedFault::FinishedByStore);
    catch_three("purse: ended by a store", two_of_three_call);
}

/// Four threads would call, of which two may at a time, and put in a cell each before their call ends.
#[test]
#[ignore = "4 threads: in the full run"]
fn four_threads_call() {
    explore_four("purse: 2 of 4 call, 4 threads", || {
        let purse = Arc::new(Purse::default());
        let put_in = each_of(4, &purse, |purse, _| {
            let Some(others) = purse.begin(2, at(1)) else { return 0 };
            assert!(others < 2, "two at a time");
            assert_eq!(purse.deposit(1, at(10), at(1)), 0, "dropped by a third call");
            purse.finish(Last::Free, at(1));
            1
        });
        let put_in: u64 = put_in.iter().sum();
        assert!(put_in >= 2, "nobody stood in the way of the first two");
        assert_eq!((purse.under_way(), purse.call(at(1))), (0, Call::Free), "all calls are over");
        assert_eq!(purse.unspent(), put_in, "what they put in is there");
    });
}

/// Whoever sees that calls are over finds what they have put in, behind the end of its own too.
#[test]
fn after_a_call_its_cells_are_there() {
    explore_two_to("purse: cells are there after the calls", 3, Preemptions::Any, || {
        let purse = Arc::new(Purse::default());
        assert_eq!((purse.begin(2, at(1)), purse.begin(2, at(1))), (Some(0), Some(1)));
        let other = Arc::clone(&purse);
        let thread = thread::spawn(move || {
            assert_eq!(other.deposit(1, at(10), at(1)), 0);
            other.finish(Last::Free, at(1));
        });
        purse.finish(Last::Free, at(1));
        if purse.call(at(1)) == Call::Free {
            assert!(purse.spend(1, at(1)), "it is there");
        }
        thread.join().unwrap();
    });
}
