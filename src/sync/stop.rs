//! A thread that stops for ever before one of its steps, as the threads of a killed process do.
//!
//! A step is a store, a swap (also one that fails), or a fence. A load is no step: to stop before it leaves the
//! same words as to stop before the next step.
//!
//! The thread unwinds to where it began, and its other accesses are left out meanwhile: a killed process
//! drops nothing. Locks are not covered. No protocol of shared memory has one.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::thread::{ThreadId, current};

/// The thread of the model that will stop, or has stopped.
#[derive(Clone, Copy)]
struct Doomed {
    thread: ThreadId,
    /// Steps that it will take. `None`: it has stopped.
    left: Option<usize>,
}

/// The payload of the unwinding.
struct Stop;

// All threads of a model run on the thread of the test.
std::thread_local! {
    static DOOMED: Cell<Option<Doomed>> = const { Cell::new(None) };
}

/// Runs `body`, which takes `steps` steps and stops for ever before the next. Returns whether it has stopped.
/// Only one thread of a model may run this at a time.
pub fn stops_at(steps: usize, body: impl FnOnce()) -> bool {
    assert!(DOOMED.get().is_none(), "one thread at a time may stop");
    DOOMED.set(Some(Doomed { thread: current().id(), left: Some(steps) }));
    let ended = catch_unwind(AssertUnwindSafe(body));
    DOOMED.set(None);
    match ended {
        Ok(()) => false,
        Err(payload) if payload.is::<Stop>() => true,
        Err(payload) => resume_unwind(payload),
    }
}

fn this_doomed() -> Option<Doomed> {
    DOOMED.get().filter(|doomed| doomed.thread == current().id())
}

/// Whether the current thread has stopped, and only unwinds.
pub(super) fn has_stopped() -> bool {
    this_doomed().is_some_and(|doomed| doomed.left.is_none())
}

/// Counts a step of the current thread, which stops here if it has none left. Returns false if it has stopped
/// before.
pub(super) fn takes_step() -> bool {
    let Some(doomed) = this_doomed() else { return true };
    let Some(left) = doomed.left else { return false };
    let left = left.checked_sub(1);
    DOOMED.set(Some(Doomed { left, ..doomed }));
    if left.is_none() {
        resume_unwind(Box::new(Stop));
    }
    true
}
