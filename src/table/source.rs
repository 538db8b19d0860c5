//! Where a table's memory comes from.

#[cfg(feature = "shared-memory")]
use super::block::Pieces;
use super::memory::HugePages;

/// The source of a table's memory.
#[derive(Debug)]
pub(crate) enum Source {
    /// The process's own memory.
    Own(#[cfg_attr(tollgate_loom, expect(dead_code, reason = "a model has none"))] HugePages),
    /// A block that several processes map.
    #[cfg(feature = "shared-memory")]
    Block(Pieces),
}
