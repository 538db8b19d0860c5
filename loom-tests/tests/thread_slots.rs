//! Thread slots: the memory of a slot is its owner's alone, without a locked instruction.
//!
//! The protocol is in `src/sync/thread_slots.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use loom_tests::{Preemptions, catch_two, explore_four_to, explore_three, explore_two_to};
use tollgate::internals::{Fault, ThreadSlots, plant};

/// Each of `threads` threads owns a slot for a time, and counts in the memory of the slot.
fn count_by(threads: u64) {
    let slots = Arc::new(ThreadSlots::default());
    let counts = Arc::new([0; 4].map(AtomicU64::new));
    let count = |slots: &ThreadSlots, counts: &[AtomicU64; 4]| {
        let slot = slots.take().expect("one of 64");
        let counted = counts[slot].load(Ordering::Relaxed);
        counts[slot].store(counted + 1, Ordering::Relaxed);
        slots.release(slot);
    };
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let (slots, counts) = (Arc::clone(&slots), Arc::clone(&counts));
            thread::spawn(move || count(&slots, &counts))
        })
        .collect();
    count(&slots, &counts);
    for thread in others {
        thread.join().unwrap();
    }
    let total: u64 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    assert_eq!(total, threads, "counted");
}

#[test]
fn two_owners_of_a_slot_lose_no_count() {
    explore_two_to("thread slots: 2 threads", 3, Preemptions::Any, || count_by(2));
}

#[test]
fn three_owners_of_a_slot_lose_no_count() {
    explore_three("thread slots: 3 threads", || count_by(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_owners_of_a_slot_lose_no_count() {
    explore_four_to(Preemptions::To(2), "thread slots: 4 threads", || count_by(4));
}

/// The planted fault: a new owner reads the slot's memory as it was before the last owner's writes.
#[test]
#[should_panic(expected = "counted")]
fn unordered_a_slot_passes_to_an_owner_that_sees_stale_memory() {
    plant(Fault::ThreadSlotsUnordered);
    catch_two("thread slots: unordered", || count_by(2));
}
