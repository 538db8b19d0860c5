//! Words that are derived from the words of a [`VersionedCell`], and kept until those are replaced.
//!
//! Another process may have spoilt the words of a shared block, so no decision uses them unchecked. Each
//! process checks them, and works out a quota from them, once for each version.
//!
//! # Protocol
//!
//! The derived words are a version of a second cell, with the number of the source's version as their last
//! word. A reader loads the source's number first. If the derived words have that number, they are of the
//! version in force at that load. (A number recurs only after 2^63 versions.) Otherwise the reader reads the
//! source, derives, and tries to replace the derived words. It uses its own result even if another thread is
//! replacing them. A thread that is late may put back an older version, which costs the next reader another
//! derivation.
//!
//! # Guarded by
//!
//! `loom-tests/tests/dynamic_quota.rs`, run by `ci/check.sh loom`, with a model that loads the number after
//! the words of the source.

use super::{Fault, VersionedCell, planted};

/// Words derived from a version of `N` words: all but the last of `M`, which is that version's number.
#[derive(Debug)]
#[allow(unreachable_pub, reason = "models see it")]
pub struct DerivedCell<const M: usize>(VersionedCell<M>);

#[allow(unreachable_pub, reason = "models see it")]
impl<const M: usize> DerivedCell<M> {
    /// Derives from the version in force. `None`: nothing can be derived from it.
    pub fn new<const N: usize>(
        source: &VersionedCell<N>,
        derive: impl FnOnce(&[u64; N]) -> Option<[u64; M]>,
    ) -> Option<Self> {
        let (version, words) = source.read_versioned();
        let mut derived = derive(&words)?;
        derived[M - 1] = version;
        Some(Self(VersionedCell::new(&derived)))
    }

    /// The words derived from the version in force. If nothing can be derived from it, the words derived last.
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
        // Busy: another thread is replacing the derived words, and this result need not be kept.
        let _ = self.0.replace(|_| Ok::<_, ()>(derived));
        derived
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;

    /// The sum of the words, and their difference; the last word is the cell's own.
    fn derived(&[a, b]: &[u64; 2]) -> Option<[u64; 3]> {
        (a >= b).then(|| [a + b, a - b, 99])
    }

    fn kept(_: &[u64; 2]) -> Option<[u64; 3]> {
        panic!("the words were derived from this version before")
    }

    fn words([sum, difference, _]: [u64; 3]) -> [u64; 2] {
        [sum, difference]
    }

    #[test]
    fn words_are_derived_once_for_each_version() {
        let source = VersionedCell::new(&[8, 3]);
        let cell = DerivedCell::new(&source, derived).expect("in order");
        assert_eq!(words(cell.read(&source, kept)), [11, 5]);
        for (pair, expected) in [([7, 7], [14, 0]), ([9, 1], [10, 8]), ([2, 1], [3, 1])] {
            assert!(matches!(source.replace(|_| Ok::<_, ()>(pair)), Ok(Ok(()))));
            assert_eq!(words(cell.read(&source, derived)), expected);
            assert_eq!(words(cell.read(&source, kept)), expected);
        }
    }

    #[test]
    fn a_version_of_which_nothing_can_be_derived_leaves_the_words_before() {
        let source = VersionedCell::new(&[1, 2]);
        assert!(DerivedCell::new(&source, derived).is_none());
        let source = VersionedCell::new(&[8, 3]);
        let cell = DerivedCell::new(&source, derived).expect("in order");
        assert!(matches!(source.replace(|_| Ok::<_, ()>([1, 2])), Ok(Ok(()))));
        assert_eq!(words(cell.read(&source, derived)), [11, 5]);
        assert_eq!(words(cell.read(&source, kept)), [11, 5]);
    }
}
