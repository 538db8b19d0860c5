//! The queue of a process.
//!
//! A child of `fork` has a copy of its parent's queue, of which it must not use anything. A thread of the parent
//! may have held the queue's lock, and no thread of the child releases it. The waiters in it are the parent's: in a
//! shared table, the copy would charge them again, or refund what the parent's waiter was charged. So the child
//! begins an empty queue, and leaves the copy as it is.

#![allow(clippy::disallowed_types, reason = "no decision takes the lock")]

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate::wait::{WaitQueue, Waitable};

/// The limiter, and the queue of this process.
#[derive(Debug)]
pub(crate) struct ProcessQueue<L: Waitable> {
    limiter: Arc<L>,
    max_waiters: usize,
    /// Locked only by a thread that has the interpreter lock, which the module asks for. So no thread holds it while
    /// another forks.
    current: Mutex<Current<L>>,
}

#[derive(Debug)]
struct Current<L: Waitable> {
    process: u32,
    queue: Arc<WaitQueue<Arc<L>>>,
}

impl<L: Waitable> ProcessQueue<L> {
    pub(crate) fn new(limiter: L, max_waiters: usize) -> Self {
        let limiter = Arc::new(limiter);
        let current = Mutex::new(begun(&limiter, max_waiters));
        Self { limiter, max_waiters, current }
    }

    pub(crate) fn limiter(&self) -> &Arc<L> {
        &self.limiter
    }

    pub(crate) fn of_this_process(&self) -> Arc<WaitQueue<Arc<L>>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.process != std::process::id() {
            let parents = mem::replace(&mut *current, begun(&self.limiter, self.max_waiters));
            mem::forget(parents);
        }
        Arc::clone(&current.queue)
    }
}

fn begun<L: Waitable>(limiter: &Arc<L>, max_waiters: usize) -> Current<L> {
    let queue = WaitQueue::new(Arc::clone(limiter)).max_waiters(max_waiters);
    Current { process: std::process::id(), queue: Arc::new(queue) }
}
