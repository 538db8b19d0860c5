//! Words that are worked out from the words of a [`VersionedCell`], kept until these are replaced.
//!
//! The words of a shared block may be any: another process may have spoilt them. So they are checked, and a
//! quota worked out from them, once for each version and process.
//!
//! # Protocol
//!
//! The derived words are a version of a second cell, with the number of the source's version as their last
//! word. A reader loads the source's number first. If the derived words have that number, they are of
//! the version in force then, or of a later one that has the same number only after all 2^63 others. Otherwise
//! the reader reads the source, derives, and tries to replace the derived words. It uses what it has derived,
//! also if another thread is replacing them. A thread that is late may put back an older version, which costs
//! the next reader another derivation.
//!
//! # Guarded by
//!
//! `loom-tests/tests/dynamic_quota.rs`, run by `ci/check.sh loom`, with a model of a number that is loaded
//! after the words that it is kept with.

use super::{Fault, VersionedCell, planted};

/// Words derived from a version of `N` words: all but the last of `M`, which is that version's number.
#[derive(Debug)]
#[allow(unreachable_pub, reason = "models see it")]
pub struct DerivedCell<const M: usize>(VersionedCell<M>);

#[allow(unreachable_pub, reason = "models see it")]
impl<const M: usize> DerivedCell<M> {
    /// Keeps what is derived from the present version. `None`: nothing can be.
    pub fn new<const N: usize>(
        source: &VersionedCell<N>,
        derive: impl FnOnce(&[u64; N]) -> Option<[u64; M]>,
    ) -> Option<Self> {
        let (version, words) = source.read_versioned();
        let mut derived = derive(&words)?;
        derived[M - 1] = version;
        Some(Self(VersionedCell::new(&derived)))
    }

    /// The words derived from the version in force; from the last one that something can be derived from, if
    /// nothing can be from that.
    #[inline]
    pub fn read<const N: usize>(
        &self,
        source: &VersionedCell<N>,
        derive: impl FnOnce(&[u64; N]) -> Option<[u64; M]>,
    ) -> [u64; M] {
        let version = source.version();
        let derived = self.0.read();
        match derived[M - 1] == version {
            true => derived,
            false => self.renew(source, derived, derive),
        }
    }

    #[cold]
    #[inline(never)]
    fn renew<const N: usize>(
        &self,
        source: &VersionedCell<N>,
        before: [u64; M],
        derive: impl FnOnce(&[u64; N]) -> Option<[u64; M]>,
    ) -> [u64; M] {
        let (mut version, words) = source.read_versioned();
        if planted(Fault::NumberLoadedLate) {
            version = source.version();
        }
        let mut derived = derive(&words).unwrap_or(before);
        derived[M - 1] = version;
        // If another thread is replacing them, it does so as well.
        let _ = self.0.replace(|_| Ok::<_, ()>(derived));
        derived
    }
}
