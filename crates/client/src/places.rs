//! Places for requests that wait.

use core::sync::atomic::{AtomicUsize, Ordering};

use tollgate::wait::WaitError;

/// At most so many requests wait at a time, in a queue or for the end of a pause.
#[derive(Debug)]
pub(crate) struct Places {
    taken: AtomicUsize,
    most: usize,
}

/// The place of one request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Places);

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most }
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Result<Place<'_>, WaitError> {
        let one_more = |taken| (taken < self.most).then_some(taken + 1);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Place(self)),
            Err(waiters) => Err(WaitError::Crowded { waiters }),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
