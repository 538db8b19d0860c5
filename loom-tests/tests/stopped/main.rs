//! A thread that stops for ever before each of its steps, as the threads of a killed process do.
//!
//! Whatever it leaves behind, others go on, no more is granted than the quota, and every key can be used.
//! A charge is the last step of its request. So the exact totals are known: a request in which the thread
//! stops has charged nothing.

#![cfg(tollgate_loom)]

mod change;
mod claim;
mod in_flight;
mod lease;
mod ring;

use std::sync::Arc;

use loom_tests::explore_latest;
use loom_tests::{Preemptions, stopped::doomed};
use tollgate::internals::model_words::{AtomicU64, Ordering::Relaxed};

/// Stores 99 when dropped.
struct Drops<'a>(&'a AtomicU64);

impl Drop for Drops<'_> {
    fn drop(&mut self) {
        assert_eq!(self.0.load(Relaxed), 0, "a thread that has stopped reads nothing");
        self.0.store(99, Relaxed);
        assert!(self.0.compare_exchange(1, 99, Relaxed, Relaxed).is_ok(), "no loop goes on");
        assert!(self.0.fetch_update(Relaxed, Relaxed, |_| Some(99)).is_ok(), "no loop goes on");
    }
}

/// The thread makes three changes, of which one fails, with a load between.
#[test]
fn a_thread_takes_its_steps_and_changes_nothing_afterwards() {
    for steps in 0..=5 {
        explore_latest("stopped: the steps of a thread", 1, Preemptions::Any, move || {
            let word = Arc::new(AtomicU64::new(7));
            let thread = doomed(&*word, steps, |word, counted| {
                let drops = Drops(word);
                word.store(1, Relaxed);
                *counted += word.load(Relaxed);
                assert!(word.compare_exchange(7, 8, Relaxed, Relaxed).is_err());
                *counted += 1;
                let _ = word.fetch_update(Relaxed, Relaxed, |one| Some(one + 1));
                *counted += 1;
                std::mem::forget(drops);
            });
            assert_eq!((thread.has_stopped, thread.counted), (steps < 3, steps.min(3) as u64));
            assert_eq!(word.load(Relaxed), [7, 1, 1, 2][steps.min(3)]);
        });
    }
}
