//! Shares work among threads until it is done or the time is up.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Threads that share work.
#[derive(Debug, Clone, Copy)]
pub struct Workers {
    /// How many.
    pub jobs: usize,
    /// When no more work is begun.
    pub until: Option<Instant>,
}

impl Workers {
    /// Whether the time is up.
    pub fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Calls `work` with the number of a worker and of each piece, in order. Tells whether all were begun. The
    /// first error ends it.
    pub fn each(
        &self,
        pieces: usize,
        work: impl Fn(usize, usize) -> io::Result<()> + Sync,
    ) -> io::Result<bool> {
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        std::thread::scope(|scope| {
            for worker in 0..self.jobs.max(1) {
                let (next, failure, work) = (&next, &failure, &work);
                scope.spawn(move || {
                    while !self.is_late() {
                        let piece = next.fetch_add(1, Ordering::Relaxed);
                        if piece >= pieces {
                            break;
                        }
                        if let Err(error) = work(worker, piece) {
                            *failure.lock().expect("no worker panics") = Some(error);
                            next.store(pieces, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        match failure.into_inner().expect("no worker panics") {
            Some(error) => Err(error),
            None => Ok(next.into_inner() >= pieces),
        }
    }
}
