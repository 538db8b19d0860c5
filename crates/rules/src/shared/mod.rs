//! Limits that the processes of a machine share: `shared` in a rules file.
//!
//! Each limiter of a rule has a file of its own, in the folder of the name. The file's [name](block) is made
//! of everything that must be equal in processes that share it. So an edited rule whose state cannot be kept gets
//! another file. Two processes that read the edit at different times then use two files, and neither spoils the
//! state of the other.

mod block;
#[cfg(feature = "shared-memory")]
mod folder;
mod home;

use std::path::PathBuf;

pub(crate) use block::Block;
pub(crate) use home::{Home, Place, build_at};

/// The folder of files that are in memory.
const MEMORY: &str = "/dev/shm";

/// The name by which processes find each other's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedName(String);

impl SharedName {
    pub(crate) const BYTES_MAX: usize = 64;

    /// `None`: the name is malformed.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = (1..=Self::BYTES_MAX).contains(&name.len())
            && !name.starts_with('.')
            && name.chars().all(is_known);
        is_name.then(|| Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder of its blocks.
    pub(crate) fn folder(&self) -> PathBuf {
        PathBuf::from(format!("{MEMORY}/tollgate-{}", self.0))
    }
}

/// Why this program cannot share limits; `None`: it can.
pub(crate) fn unavailable() -> Option<&'static str> {
    match (cfg!(target_os = "linux"), cfg!(feature = "shared-memory")) {
        (false, _) => Some("the processes of a machine share limits on Linux only"),
        (true, false) => Some("this program was built without the feature \"shared-memory\""),
        (true, true) => None,
    }
}
