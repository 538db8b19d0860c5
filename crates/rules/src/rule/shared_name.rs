//! The name by which processes share the limits of the rules: `shared` in a rules file.

use std::path::PathBuf;

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
