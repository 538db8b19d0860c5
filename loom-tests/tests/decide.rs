//! Decide against decide: charges of one resident state, exact totals.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::{NoClock, ONE_BUCKET, ask, at, burst, explore_three, explore_two, gate, left};
use tollgate::{Direct, OnFull};

#[test]
fn two_threads_on_one_word() {
    explore_two("decide: direct, 2 threads x 2", || {
        let built = Direct::builder(burst(3)).clock(NoClock).build();
        let gate = Arc::new(built.expect("in range"));
        let other = Arc::clone(&gate);
        let thread =
            thread::spawn(move || (0..2).filter(|_| other.check_at(1, at(1)).is_ok()).count());
        let mine = (0..2).filter(|_| gate.check_at(1, at(1)).is_ok()).count();
        assert_eq!(mine + thread.join().unwrap(), 3);
    });
}

#[test]
fn three_threads_on_one_word() {
    explore_three("decide: direct, 3 threads", || {
        let built = Direct::builder(burst(2)).clock(NoClock).build();
        let gate = Arc::new(built.expect("in range"));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || usize::from(gate.check_at(1, at(1)).is_ok()))
            })
            .collect();
        let mine = usize::from(gate.check_at(1, at(1)).is_ok());
        let theirs: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(mine + theirs, 2);
    });
}

#[test]
fn two_threads_on_a_resident_key() {
    explore_two("decide: keyed, 2 threads x 2", || {
        let gate = gate(burst(4), ONE_BUCKET, OnFull::Refuse);
        assert_eq!(ask(&gate, 7, at(1)), 1);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || ask(&other, 7, at(1)) + ask(&other, 7, at(1)));
        let mine = ask(&gate, 7, at(1)) + ask(&gate, 7, at(1));
        assert_eq!(mine + thread.join().unwrap(), 3);
        assert_eq!(left(&gate, 7, at(1)), 0);
    });
}

/// One thread's clock stands four microseconds behind the other's. Whoever comes first, the
/// burst is granted once.
#[test]
fn a_stale_clock_grants_nothing_more() {
    explore_two("decide: stale clocks, 2 threads x 2", || {
        let gate = gate(burst(2), ONE_BUCKET, OnFull::Refuse);
        let other = Arc::clone(&gate);
        let now = at(1);
        let stale = now.saturating_sub(std::time::Duration::from_micros(4));
        let thread = thread::spawn(move || ask(&other, 7, stale) + ask(&other, 7, stale));
        let mine = ask(&gate, 7, now) + ask(&gate, 7, now);
        let granted = mine + thread.join().unwrap();
        // A stale clock sees a debt of a little more than there is: it may refuse the last cell.
        assert!((1..=2).contains(&granted), "{granted} of 2");
        assert!(left(&gate, 7, now) <= 2 - granted);
    });
}

#[test]
fn a_reset_races_a_charge() {
    explore_two("decide: reset against 2 charges", || {
        let gate = gate(burst(1), ONE_BUCKET, OnFull::Refuse);
        assert_eq!(ask(&gate, 7, at(1)), 1);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || other.reset(&7));
        let mine = ask(&gate, 7, at(1)) + ask(&gate, 7, at(1));
        thread.join().unwrap();
        let after = ask(&gate, 7, at(1));
        assert_eq!(mine + after, 1, "one reset restores one burst");
    });
}
