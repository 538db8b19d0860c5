//! Limits in shared memory: `shared` in a rules file.
//!
//! Each limiter of a rule has a file of its own, in the folder of the name. The file's [name](block) is made
//! of everything that must be equal in processes that share it. So an edited rule whose state cannot be kept gets
//! another file. Two processes that read the edit at different times then use two files, and neither spoils the
//! state of the other.

mod block;
#[cfg(feature = "shared-memory")]
mod folder;
mod home;

pub(crate) use block::Block;
pub(crate) use home::{Home, Place, build_at};

/// Why this program cannot share limits; `None`: it can.
pub(crate) fn unavailable() -> Option<&'static str> {
    match (cfg!(target_os = "linux"), cfg!(feature = "shared-memory")) {
        (false, _) => Some("the processes of a machine share limits on Linux only"),
        (true, false) => Some("this program was built without the feature \"shared-memory\""),
        (true, true) => None,
    }
}
