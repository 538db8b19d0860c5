//! A lock between processes, for what is done seldom: to attach a passed file, to change a quota.
//!
//! It is the system's record lock of a file, which ends with the process that holds it. Such a lock has two
//! gaps: it also ends when the process closes any descriptor of the file, and it does not exclude other threads
//! of the process. So each process has a second lock, a word that gives one thread at a time the turn to hold a
//! record lock or to close such a file. No decision waits for either: one that passes an edge of the wall clock tries
//! once, and publishes nothing if it gets no lock.
//!
//! # Guarded by
//!
//! `tests/shared_memory/locks.rs` and `ci/check.sh shared-memory`: the system's locks are not part of a model.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

/// How long a thread sleeps before it tries again. A decision tries once.
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// The process whose thread has the turn; 0 if none has it. A forked child may find its parent's number here,
/// of a thread that the child does not have. So a number other than the process's own counts as 0.
static HOLDER: AtomicU32 = AtomicU32::new(0);

/// The turn of one thread of this process.
struct Turn(());

impl Turn {
    fn try_take() -> Option<Self> {
        let (this, holder) = (std::process::id(), HOLDER.load(Ordering::Relaxed));
        if holder == this {
            return None;
        }
        // Acquire: pairs with the Release of the thread that had it before.
        let taken = HOLDER.compare_exchange(holder, this, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(Self(()))
    }

    fn wait() -> Self {
        loop {
            match Self::try_take() {
                Some(turn) => return turn,
                None => std::thread::sleep(BETWEEN_TRIES),
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HOLDER.store(0, Ordering::Release);
    }
}

/// An open file that can be locked.
#[derive(Debug)]
pub(crate) struct LockableFile(Option<File>);

impl LockableFile {
    pub(crate) fn new(file: File) -> Self {
        Self(Some(file))
    }

    /// The lock, without waiting for it. `None`: another thread or process holds it.
    pub(crate) fn try_lock(&self) -> Option<FileLock<'_>> {
        let turn = Turn::try_take()?;
        let locked = fcntl_lock(&**self, FlockOperation::NonBlockingLockExclusive);
        locked.is_ok().then(|| FileLock { file: self, _turn: turn })
    }

    /// Waits for the lock for about this long. `None`: another thread or process holds it.
    pub(crate) fn lock_within(&self, wait: Duration) -> Option<FileLock<'_>> {
        let mut waited = Duration::ZERO;
        loop {
            let lock = self.try_lock();
            if lock.is_some() || waited >= wait {
                return lock;
            }
            std::thread::sleep(BETWEEN_TRIES);
            waited += BETWEEN_TRIES;
        }
    }

    /// Waits for the lock for about this long. An error is the system's, or says that the time is up.
    pub(crate) fn lock(&self, wait: Duration) -> io::Result<FileLock<'_>> {
        let mut waited = Duration::ZERO;
        loop {
            // The turn is given back between two tries, so that other files can be locked and closed.
            let turn = Turn::wait();
            match fcntl_lock(&**self, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(FileLock { file: self, _turn: turn }),
                Err(Errno::AGAIN | Errno::ACCESS | Errno::INTR) => drop(turn),
                Err(error) => return Err(error.into()),
            }
            if waited >= wait {
                let why = "another process holds its lock, and is perhaps stopped";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            std::thread::sleep(BETWEEN_TRIES);
            waited += BETWEEN_TRIES;
        }
    }
}

impl core::ops::Deref for LockableFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.0.as_ref().expect("it is taken out when it is dropped only")
    }
}

impl Drop for LockableFile {
    fn drop(&mut self) {
        let _turn = Turn::wait();
        drop(self.0.take());
    }
}

/// A value in a block that other processes map.
pub(crate) trait InBlock<T>: core::fmt::Debug + Send + Sync {
    fn get(&self) -> &T;

    /// The lock of the block; `None`: another thread or process holds it.
    fn try_lock(&self) -> Option<FileLock<'_>>;
}

/// The lock of a file, held until this is dropped. Its thread drops no [`LockableFile`] meanwhile.
pub(crate) struct FileLock<'a> {
    file: &'a LockableFile,
    _turn: Turn,
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        // If it cannot be released now, it ends with the process.
        let _ = fcntl_lock(&**self.file, FlockOperation::Unlock);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn file() -> LockableFile {
        let file = memfd_create("tollgate-test", MemfdFlags::CLOEXEC).expect("memory");
        LockableFile::new(file.into())
    }

    #[test]
    #[expect(clippy::disallowed_types, reason = "it measures how long a thread waits")]
    fn a_lock_that_another_holds_is_waited_for_as_long_as_the_caller_says() {
        let file = file();
        let held = file.lock_within(LONG).expect("other tests hold locks for a moment");
        assert!(file.try_lock().is_none());
        let began = std::time::Instant::now();
        let wait = 3 * BETWEEN_TRIES;
        assert!(file.lock_within(wait).is_none());
        assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| file.lock_within(LONG).is_some());
            std::thread::sleep(wait);
            drop(held);
            assert!(waits.join().expect("no panic"), "it was given back");
        });
    }
}
