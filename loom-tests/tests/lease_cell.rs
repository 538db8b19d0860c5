//! Lease cells of `tollgate-redis`: cells are deposited, spent, dropped, or expire.
//!
//! The protocol is in `crates/redis/src/lease/lease_cell/mod.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::redis::{CallEnd, CallState, LeaseCell, PlantedFault, Until, plant};
use loom_tests::{
    Preemptions, catch_three, catch_two, each_of, explore_four, explore_latest, explore_three,
    explore_two, explore_two_to, explore_two_whole,
};
use tollgate::Tick;

/// An instant in the time units of a lease cell.
fn at(units: u64) -> Tick {
    Tick::from_nanos(units << 16)
}

/// A lease cell that holds `cells` cells until unit 10.
fn lease_cell(cells: u64) -> Arc<LeaseCell> {
    let lease_cell = LeaseCell::default();
    assert_eq!(lease_cell.deposit(cells, at(10), at(1)), 0);
    Arc::new(lease_cell)
}

/// Asks for one cell `times` times, and returns how many cells were spent.
fn spend(lease_cell: &LeaseCell, times: u64, now: Tick) -> u64 {
    (0..times).map(|_| u64::from(lease_cell.spend(1, now))).sum()
}

/// Two threads ask for four cells together, and the lease has three.
fn two_spend() {
    let lease_cell = lease_cell(3);
    let other = Arc::clone(&lease_cell);
    let thread = thread::spawn(move || spend(&other, 2, at(1)));
    let spent = spend(&lease_cell, 2, at(1)) + thread.join().unwrap();
    assert_eq!(spent, 3, "spent and deposited");
    assert_eq!(lease_cell.unspent(), 0);
}

#[test]
fn two_threads_spend_each_cell_once() {
    explore_two("lease cell: 2 threads spend", two_spend);
}

/// The planted fault: a thread stores its new lease, and undoes what another thread has spent.
#[test]
#[should_panic(expected = "spent and deposited")]
fn without_a_swap_a_cell_is_spent_twice() {
    plant(PlantedFault::SpentByStore);
    catch_two("lease cell: spent by a store", two_spend);
}

/// Both leases hold cells, so a deposit drops the rest of one lease while another thread spends it.
#[test]
fn a_deposit_that_replaces_a_lease_being_spent_loses_no_cell() {
    explore_two_whole("lease cell: a deposit replaces a lease being spent", || {
        let lease_cell = lease_cell(2);
        assert_eq!(lease_cell.deposit(2, at(20), at(1)), 0);
        let other = Arc::clone(&lease_cell);
        let thread = thread::spawn(move || spend(&other, 3, at(1)));
        let dropped = lease_cell.deposit(5, at(60), at(1));
        let spent = thread.join().unwrap();
        assert_eq!(spent, 3, "there were enough cells at any time");
        assert_eq!(spent + dropped + lease_cell.unspent(), 9, "spent, dropped and left");
    });
}

#[test]
fn two_spenders_beside_a_deposit_lose_no_cell() {
    explore_three("lease cell: 2 spend, 1 deposits, 3 threads", || {
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

/// Two threads spend while two calls deposit. Some of the new cells join the lease that is being spent.
#[test]
#[ignore = "4 threads: in the full run"]
fn two_spenders_beside_two_deposits_lose_no_cell() {
    explore_four("lease cell: 2 spend, 2 deposit, 4 threads", || {
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

/// A lease expires at unit 10. One thread's clock reads 9, the other's 10.
fn spent_near_expiry() {
    let lease_cell = lease_cell(2);
    let threads = [9, 10].map(|now| {
        let lease_cell = Arc::clone(&lease_cell);
        thread::spawn(move || spend(&lease_cell, 1, at(now)))
    });
    let [before, after] = threads.map(|thread| thread.join().unwrap());
    assert_eq!((before, after), (1, 0), "spent before and after expiry");
    // A deposit replaces an expired lease first.
    assert_eq!(lease_cell.deposit(4, at(30), at(10)) + lease_cell.unspent(), 5);
}

#[test]
fn an_expired_lease_is_not_spent() {
    explore_latest("lease cell: spent near its expiry", 4, Preemptions::Any, spent_near_expiry);
}

/// The planted fault: a thread spends a lease without comparing its expiry.
#[test]
#[should_panic(expected = "spent before and after expiry")]
fn without_the_expiry_check_an_expired_lease_is_spent() {
    plant(PlantedFault::EndUnchecked);
    catch_three("lease cell: expiry unchecked", spent_near_expiry);
}

/// Two calls deposit at once. One lease is being spent meanwhile; the other expires at almost the same
/// time as the new cells, so they may join it.
fn two_deposits() {
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
    assert_eq!(spent, 2, "there were enough cells at any time");
    assert_eq!(
        (dropped, spent + lease_cell.unspent()),
        (0, 8),
        "spent and left is what was deposited"
    );
}

#[test]
fn two_deposits_beside_a_spender_lose_no_cell() {
    explore_three("lease cell: 2 deposit, 1 spends, 3 threads", two_deposits);
}

/// The planted fault: a deposit overwrites what other threads have deposited or spent.
#[test]
#[should_panic(expected = "what was deposited")]
fn without_a_swap_a_deposit_is_lost_or_a_cell_is_spent_twice() {
    plant(PlantedFault::DepositedByStore);
    catch_three("lease cell: deposited by a store", two_deposits);
}

/// Two threads want to call. One does, and deposits its cells before the other may begin.
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
    let deposited = call(&lease_cell) + thread.join().unwrap();
    assert_eq!(deposited, 2, "one call");
    assert_eq!((lease_cell.unspent(), lease_cell.spendable(at(9))), (2, 2));
    assert_eq!(lease_cell.denied(1, at(4)), Some(Until::Then(at(5))));
    assert_eq!(lease_cell.call_state(at(4)), CallState::Paused(0, at(5), CallEnd::Short));
    assert_eq!(lease_cell.begin_call(1, at(5)), Some(0));
}

#[test]
fn of_two_threads_one_calls() {
    explore_two_to("lease cell: 2 threads call", 3, Preemptions::Any, two_call);
}

/// The planted fault: a thread begins a call without comparing whether another thread has begun one.
#[test]
#[should_panic(expected = "one call")]
fn without_a_swap_both_call() {
    plant(PlantedFault::CallByStore);
    catch_two("lease cell: call begun by a store", two_call);
}

/// Three threads want to call, and two may at a time. The source runs short for one of them.
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
    assert_eq!(left, (0, expected), "all calls are over, and later ends keep the pause");
}

#[test]
fn calls_in_flight_are_bounded_and_all_end() {
    explore_three("lease cell: 2 of 3 call, 3 threads", two_of_three_call);
}

/// The planted fault: two calls that end at once are subtracted as one.
#[test]
#[should_panic(expected = "all calls are over")]
fn without_a_swap_a_call_never_ends() {
    plant(PlantedFault::FinishedByStore);
    catch_three("lease cell: call ended by a store", two_of_three_call);
}

/// Four threads want to call, and two may at a time. Each deposits a cell before its call ends.
#[test]
#[ignore = "4 threads: in the full run"]
fn of_four_threads_two_call_at_a_time() {
    explore_four("lease cell: 2 of 4 call, 4 threads", || {
        let lease_cell = Arc::new(LeaseCell::default());
        let deposited = each_of(4, &lease_cell, |lease_cell, _| {
            let Some(others) = lease_cell.begin_call(2, at(1)) else { return 0 };
            assert!(others < 2, "two at a time");
            assert_eq!(lease_cell.deposit(1, at(10), at(1)), 0, "dropped by a third call");
            lease_cell.finish_call(CallEnd::Free, at(1));
            1
        });
        let deposited: u64 = deposited.iter().sum();
        assert!(deposited >= 2, "the first two may call");
        assert_eq!(
            (lease_cell.in_flight(), lease_cell.call_state(at(1))),
            (0, CallState::Free),
            "all calls are over"
        );
        assert_eq!(lease_cell.unspent(), deposited, "all deposits are there");
    });
}

/// A thread that sees that calls have ended also sees the cells that they deposited. This holds for the
/// thread that ends the last call, too.
#[test]
fn a_thread_that_sees_a_call_end_sees_its_deposit() {
    explore_two_to("lease cell: deposits are seen after the calls", 3, Preemptions::Any, || {
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
            assert!(lease_cell.spend(1, at(1)), "the deposit is there");
        }
        thread.join().unwrap();
    });
}
