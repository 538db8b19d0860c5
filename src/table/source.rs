//! The source of the memory of a limiter's words.

#[cfg(feature = "shared-memory")]
use super::block::Pieces;
use super::memory::HugePages;

/// The source of memory.
#[derive(Debug)]
pub(crate) enum Source {
    /// The process's own memory.
    Own(#[cfg_attr(tollgate_loom, expect(dead_code, reason = "a model has none"))] HugePages),
    /// A block that several processes map.
    #[cfg(feature = "shared-memory")]
    Block(Pieces),
}

impl Source {
    /// Whether other processes use the memory, too.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Own(_) => false,
            #[cfg(feature = "shared-memory")]
            Self::Block(_) => true,
        }
    }
}

impl Default for Source {
    fn default() -> Self {
        Self::Own(HugePages::default())
    }
}
