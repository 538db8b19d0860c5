//! Threads' numbers: what belongs to a number is its owner's alone, without a locked instruction.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use loom_tests::{Preemptions, catch_two, explore_four_to, explore_three, explore_two_to};
use tollgate::internals::{Fault, ThreadSlots, plant};

/// So many threads, each of which has a number for a time, and counts on what belongs to it.
fn count_by(threads: u64) {
    let numbers = Arc::new(ThreadSlots::default());
    let counts = Arc::new([0; 4].map(AtomicU64::new));
    let count = |numbers: &ThreadSlots, counts: &[AtomicU64; 4]| {
        let number = numbers.take().expect("one of 64");
        let counted = counts[number].load(Ordering::Relaxed);
        counts[number].store(counted + 1, Ordering::Relaxed);
        numbers.refund(number);
    };
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let (numbers, counts) = (Arc::clone(&numbers), Arc::clone(&counts));
            thread::spawn(move || count(&numbers, &counts))
        })
        .collect();
    count(&numbers, &counts);
    for thread in others {
        thread.join().unwrap();
    }
    let total: u64 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    assert_eq!(total, threads, "counted");
}

#[test]
fn two_threads() {
    explore_two_to("numbers: 2 threads", 3, Preemptions::Any, || count_by(2));
}

#[test]
fn three_threads() {
    explore_three("numbers: 3 threads", || count_by(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_threads() {
    explore_four_to(Preemptions::To(2), "numbers: 4 threads", || count_by(4));
}

/// The mistake avoided: the new owner goes on from what it saw before the last one.
#[test]
#[should_panic(expected = "counted")]
fn unordered_a_number_passes_on_without_what_belongs_to_it() {
    plant(Fault::NumbersUnordered);
    catch_two("numbers: unordered", || count_by(2));
}
