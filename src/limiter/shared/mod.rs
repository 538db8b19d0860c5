//! Limiters in memory that several processes share.
//!
//! A table is a block of words that are changed by compare-and-swap only, without pointers and without the
//! keys. So it can lie in memory that several processes map: a key's quota then holds over all of them, no
//! decision calls a server, and there is no lock that a killed process could keep.
//!
//! ```
//! use tollgate::shared::Shared;
//! use tollgate::{Limiter, Quota};
//!
//! # let path = std::env::temp_dir().join(format!("tollgate-doc-{}", std::process::id()));
//! # let path = path.to_str().unwrap();
//! # /*
//! let path = "/dev/shm/api-limits";
//! # */
//! // In each process:
//! let gate = Limiter::<str>::builder(Quota::per_day(100)).build_shared(&Shared::file(path))?;
//! assert!(gate.check("192.0.2.7").is_ok());
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), tollgate::shared::SharedError>(())
//! ```
//!
//! # Guarantee
//!
//! - The bound of the algorithm holds over all processes, whatever their threads do: they take part in the
//!   [protocols](crate::Limiter) that the threads of one process follow.
//! - A process may be killed at any instruction. It holds no lock. A slot that it had claimed and not yet
//!   charged is finished by the next request of that key, or taken by one of another key. Cells that it had
//!   taken ahead (leases) are lost. Models stop a thread for ever before each of its steps
//!   (`loom-tests/tests/stopped/`), and tests kill processes at random instants.
//! - A process may be forked at any time, also while its threads decide. The child begins without the cells that
//!   its parent's threads hold of [hot keys](crate::Builder::lease_hot_keys).
//! - All processes read one [clock](crate::clock::MonotonicClock).
//! - Attaching checks the block, field by field; [`SharedError`] names the first that differs.
//! - A file that other users may have written is attached only if the [mode](Shared::mode) asked for lets them
//!   write: the group of the process, or all users. So no user who is to have no access can put a block there first.
//! - Whatever words are in the block, no process reads or writes beyond it.
//!
//! # Not guaranteed
//!
//! - A process that may write the file is trusted. Arbitrary words make decisions wrong; a file that is
//!   truncated ends the processes that use it (`SIGBUS`). Files are made with mode 0600. On Linux, anonymous
//!   memory cannot be truncated, nor can a passed `memfd` that allows sealing.
//! - A slot that a killed process had claimed may be closed to other keys for a while: where slots are wide,
//!   until the claim is older than `max_clock_skew`, and a bucket that starts empty has filled up.
//! - A fork copies handles, too: a [`LocalLease`](crate::lease::LocalLease), a
//!   [reservation](crate::reservation::Reservation), a guard, a [queue](crate::wait::WaitQueue) with waiters. Each belongs
//!   to one process. Cells of a lease that both spend, and cells that both refund, are granted twice.
//! - Other machines have other limits: `tollgate-redis` is for those.
//! - Each process has its own [`OnFull`](crate::OnFull) (but the quota of
//!   [`SharedOverflow`](crate::OnFull::SharedOverflow), which all have in common), `max_clock_skew` and
//!   hot-key leases. [Counts](crate::stats::Stats) are of all processes.
//! - A quota cannot be changed while it is in use, but that of a
//!   [`DynamicGcra`](crate::dynamic::DynamicGcra). Processes with another quota need another file.
//! - A process is built with the UTC offset that the file was created with, even if the offset was
//!   [changed](crate::Limiter::set_utc_offset_secs) since: the file has the changed one, too.
//! - After a restart of the machine the clock begins anew. A file that has outlived it is refused:
//!   remove it.
//!
//! # Guarded by
//!
//! `tests/shared_memory/`, and `ci/check.sh shared-memory`, which kills 10,000 processes. The models of
//! `loom-tests/tests/stopped/`, run by `ci/check.sh loom`, stop a thread for ever before each of its steps.

mod build;
mod describe;
mod error;
mod file;
mod header;
mod owner;
mod quota_text;
mod site;
#[cfg(all(test, target_os = "linux", not(any(tollgate_loom, tollgate_shuttle))))]
pub(crate) mod tests;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use build::{Content, build_bucket, build_table};
pub(crate) use header::{Form, Kind};
pub(crate) use quota_text::{DYNAMIC_GCRA, IN_FLIGHT};
pub(crate) use site::{Site, build_at};

use crate::sync::LockableFile;

pub use describe::{Description, describe};
pub use error::SharedError;

/// Where shared memory is.
///
/// ```
/// use tollgate::shared::Shared;
///
/// let for_all_of_the_group = Shared::file("/dev/shm/api-limits").mode(0o660);
/// ```
#[derive(Clone, Debug)]
pub struct Shared {
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Anonymous,
    File { path: PathBuf, mode: u32 },
    Descriptor(Arc<LockableFile>),
}

impl Shared {
    /// Memory without a name, which processes share that are forked after the limiter was built.
    ///
    /// ```
    /// use tollgate::shared::Shared;
    /// use tollgate::{Limiter, Quota};
    ///
    /// let gate = Limiter::<str>::builder(Quota::per_day(100)).build_shared(&Shared::anonymous())?;
    /// // Fork the workers here.
    /// assert!(gate.check("192.0.2.7").is_ok());
    /// # Ok::<(), tollgate::shared::SharedError>(())
    /// ```
    #[must_use]
    pub fn anonymous() -> Self {
        Self { place: Place::Anonymous }
    }

    /// A file, which the first process creates and the others attach. It should be in memory, as files in
    /// `/dev/shm` are.
    ///
    /// The file stays when all processes have ended, and so does what keys have used. It may be removed at
    /// any time: processes that have attached it keep using it, and processes that start later create another file.
    #[must_use]
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self { place: Place::File { path: path.as_ref().to_owned(), mode: 0o600 } }
    }

    /// An open file that another process has passed, such as one of `memfd_create`. It is open for reading
    /// and writing.
    ///
    /// A file that is empty, or whose creator was killed before it had finished, gets a block; any other is
    /// attached. Of processes that do so at once, one creates the block, and the others wait for it.
    #[must_use]
    pub fn descriptor(descriptor: OwnedFd) -> Self {
        let file = LockableFile::new(File::from(descriptor));
        Self { place: Place::Descriptor(Arc::new(file)) }
    }

    /// The permissions of a file that is created. The default is 0600. The setting matters to files only.
    ///
    /// A file that is there already is refused if its own mode lets the group or others write, and this mode does
    /// not. So all processes give the same mode.
    ///
    /// The file of another user is refused, too, unless this mode lets all users write (0666), or lets the group write
    /// (0660) and this process is in the file's group. So processes of several users are all in one group, and the file
    /// has that group: it is the main group of each process, or the one that the folder gives to its files (`chmod g+s`).
    /// Where all users may write to such a folder, its group is not enough.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        let place = match self.place {
            Place::File { path, .. } => Place::File { path, mode },
            other => other,
        };
        Self { place }
    }
}
