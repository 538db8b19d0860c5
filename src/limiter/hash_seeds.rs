//! The seeds of a limiter's hash, which a snapshot includes.

use core::hash::BuildHasher;

use ahash::RandomState;

/// The seeds that make one limiter's hash different from another's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seeds([u64; Self::COUNT]);

/// Hashes of some fixed values.
pub(crate) type Proof = [u64; 3];

impl Seeds {
    pub(crate) const COUNT: usize = 4;

    /// Random seeds, which cannot be derived from each other or from those of another limiter: the
    /// system keys their source.
    pub(crate) fn random() -> Self {
        let source = std::collections::hash_map::RandomState::new();
        Self(core::array::from_fn(|index| source.hash_one(index)))
    }

    /// Fixed seeds, for a run that is to be repeated.
    pub(crate) fn of(seed: u64) -> Self {
        Self([seed, !seed, 1, 2])
    }

    pub(crate) fn from_words(words: [u64; Self::COUNT]) -> Self {
        Self(words)
    }

    pub(crate) fn words(self) -> [u64; Self::COUNT] {
        self.0
    }

    pub(crate) fn hasher(self) -> RandomState {
        let Self([a, b, c, d]) = self;
        RandomState::with_seeds(a, b, c, d)
    }

    /// Hashes of fixed values. They differ where keys would hash differently: the hash function is not
    /// the same in all versions of its crate, nor on all processors.
    pub(crate) fn proof(self) -> Proof {
        let hasher = self.hasher();
        let long = [0x5a_u8; 100];
        [hasher.hash_one(7_u64), hasher.hash_one("192.0.2.7"), hasher.hash_one(&long[..])]
    }
}

impl core::fmt::Debug for Seeds {
    /// Prints no seeds: an attacker who knows them can choose keys that collide.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seeds(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seeds_hash_alike_and_random_ones_do_not() {
        let seeds = Seeds::random();
        assert_eq!(Seeds::from_words(seeds.words()).proof(), seeds.proof());
        assert_ne!(Seeds::random().proof(), seeds.proof());
        let words = seeds.words();
        assert!((1..words.len()).all(|index| words[index] != words[0]));
    }

    #[test]
    fn a_seed_that_is_given_fixes_the_hash() {
        assert_eq!(Seeds::of(7).proof(), Seeds::of(7).proof());
        assert_ne!(Seeds::of(7).proof(), Seeds::of(8).proof());
    }

    #[test]
    fn a_text_for_debugging_shows_no_seed() {
        assert_eq!(format!("{:?}", Seeds::of(7)), "Seeds(..)");
    }
}
