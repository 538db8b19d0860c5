//! A thread that this process has started, and that a forked child does not have.

use std::thread::{self, JoinHandle};

/// A thread, joined when this is dropped: its owner must have told it to end. A forked child does not have the
/// thread and does not wait for it. The thread does not wait for itself.
#[derive(Debug)]
pub(crate) struct OwnThread {
    process: u32,
    /// `None` only while it is dropped.
    handle: Option<JoinHandle<()>>,
}

impl OwnThread {
    pub(crate) fn new(handle: JoinHandle<()>) -> Self {
        Self { process: std::process::id(), handle: Some(handle) }
    }

    /// Whether this process has the thread. `false` in a forked child, where a lock that the thread takes may be
    /// held for ever.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        if !self.is_of_this_process() {
            core::mem::forget(handle);
        } else if handle.thread().id() != thread::current().id() {
            // A panic of the thread was reported, and a drop could not return it.
            let _ = handle.join();
        }
    }
}
