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

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_owner_of_a_thread_waits_for_its_end() {
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let own = OwnThread::new(thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            ended.store(true, Ordering::Relaxed);
        }));
        assert!(own.is_of_this_process());
        drop(own);
        assert!(has_ended.load(Ordering::Relaxed));
    }

    #[test]
    fn a_thread_that_owns_itself_does_not_wait_for_its_end() {
        let (give, take) = mpsc::channel::<OwnThread>();
        let (tell, told) = mpsc::channel();
        let handle = thread::spawn(move || {
            drop(take.recv().expect("itself"));
            tell.send(()).expect("a test waits");
        });
        give.send(OwnThread::new(handle)).expect("it waits");
        assert!(told.recv_timeout(Duration::from_secs(60)).is_ok(), "it has not gone on");
    }
}
