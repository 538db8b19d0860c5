//! The errors of building a limiter in shared memory.

use core::fmt;
use std::io;
use std::path::PathBuf;

use crate::limiter::builder::BuildError;

/// Why a limiter cannot be built in shared memory; its text says what to do instead.
///
/// ```
/// use tollgate::shared::{Shared, SharedError};
/// use tollgate::{Limiter, Quota};
///
/// let shared = Shared::file("/proc/no/such/folder");
/// let built = Limiter::<str>::builder(Quota::per_day(100)).build_shared(&shared);
/// assert!(matches!(built, Err(SharedError::System { .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SharedError {
    /// A choice is out of range.
    Build(BuildError),
    /// A choice is out of range that other limiters do not have.
    Choice(Box<dyn core::error::Error + Send + Sync>),
    /// A concurrency limiter has no longest hold.
    NoMaxHold,
    /// A call of the system failed.
    System {
        /// The operation that failed.
        call: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The file is none of this crate's.
    Foreign,
    /// Another user owns the file, and the [mode](super::Shared::mode) asked for does not let that user write.
    OtherOwner {
        /// The path of the file.
        path: PathBuf,
        /// The number of the user who owns the file.
        found: u32,
        /// The number of the user that this process runs as.
        expected: u32,
    },
    /// Other users may write the file, and the [mode](super::Shared::mode) asked for does not let them.
    OpenToOthers {
        /// The path of the file.
        path: PathBuf,
        /// The mode of the file.
        found: u32,
        /// The mode asked for.
        expected: u32,
    },
    /// The file was written by a version with another layout.
    OtherVersion {
        /// The number of that layout.
        found: u64,
    },
    /// The file is shorter, or longer, than it says.
    OtherLength {
        /// The length of the file in bytes.
        found: u64,
        /// The length that its header states, or that of a header if it is shorter than one.
        expected: u64,
    },
    /// The file was written before the machine was started.
    OtherBoot,
    /// Keys hash differently in the process that created the file.
    OtherHash,
    /// The file was spoilt: what it says cannot be.
    Spoilt {
        /// The part of the file that was spoilt.
        field: &'static str,
    },
    /// The process that created the file made another choice.
    Different {
        /// The choice that differs.
        field: &'static str,
        /// The value in the file.
        found: u64,
        /// The value of this process.
        expected: u64,
    },
}

impl SharedError {
    pub(super) fn system(call: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { call, error }
    }
}

impl From<BuildError> for SharedError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Choice(error) => error.fmt(f),
            Self::NoMaxHold => f.write_str(
                "shared memory: a process that is killed never ends its requests: say how long a request may \
                 take (max_hold)",
            ),
            Self::System { call, error } => {
                write!(f, "shared memory: {call}: {error}; check the path, its permissions and its free space")
            }
            Self::Foreign => f.write_str("shared memory: the file is no block of limits: give another path"),
            Self::OtherOwner { path, found, expected } => write!(
                f,
                "shared memory: {} belongs to user {found}, and this process to user {expected}: run all \
                 processes as one user, give a path in a folder that only this user may write to, or run them in \
                 one group, which the file has, and ask for a mode that lets the group write",
                path.display()
            ),
            Self::OpenToOthers { path, found, expected } => write!(
                f,
                "shared memory: {path} has mode {found:04o}, and {expected:04o} was asked for, so other users \
                 may have written it: remove it, run chmod {expected:04o} {path}, or ask for its mode",
                path = path.display()
            ),
            Self::OtherVersion { found } => write!(
                f,
                "shared memory: the file has layout {found}, of another version of this crate: remove it, or \
                 give another path"
            ),
            Self::OtherLength { found, expected } => write!(
                f,
                "shared memory: the file has {found} bytes, and should have {expected}: remove it"
            ),
            Self::OtherBoot => f.write_str(
                "shared memory: the file was written before this machine was started, by another clock: \
                 remove it",
            ),
            Self::OtherHash => f.write_str(
                "shared memory: the file was created by a program that hashes keys differently: build both \
                 with the same version of ahash for the same processor",
            ),
            Self::Different { field, found, expected } => write!(
                f,
                "shared memory: {field}: {found} in the file, {expected} here: make the same choice, or give \
                 another path"
            ),
            Self::Spoilt { field } => {
                write!(f, "shared memory: {field} was spoilt by another program: remove the file")
            }
        }
    }
}

impl core::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Build(error) => Some(error),
            Self::Choice(error) => Some(&**error),
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}
