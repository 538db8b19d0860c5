//! Floors: the minimum cost of a decision, to compare the rows with.

#![allow(clippy::disallowed_types, reason = "a floor is made of bare atomics")]

use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;

/// One bucket with nothing around it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Cell(AtomicU64);

impl Cell {
    /// A load and a compare-and-swap, repeated until it succeeds: the arithmetic of GCRA without a
    /// limit, a time grid or an answer.
    #[inline]
    pub fn charge(&self, now: u64, cost: u64) -> u64 {
        charge(&self.0, now, cost)
    }
}

#[inline]
fn charge(word: &AtomicU64, now: u64, cost: u64) -> u64 {
    let mut seen = word.load(Ordering::Acquire);
    loop {
        let next = seen.max(now) + cost;
        match word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return next,
            Err(actual) => seen = actual,
        }
    }
}

/// One word for every key, 16 bytes apart, without handling of collisions.
#[derive(Debug)]
pub struct Words {
    hasher: RandomState,
    words: Box<[[AtomicU64; 2]]>,
}

impl Words {
    /// Words for `count` keys, as many as a table of that capacity has.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let slots = (count * 100).div_ceil(55);
        Self { hasher: RandomState::new(), words: (0..slots).map(|_| Default::default()).collect() }
    }

    /// The hash alone.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: u64) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Hash and load.
    #[inline]
    #[must_use]
    pub fn load(&self, key: u64) -> u64 {
        self.word(key).load(Ordering::Acquire)
    }

    /// Hash, load and compare-and-swap.
    #[inline]
    pub fn charge(&self, key: u64, now: u64, cost: u64) -> u64 {
        charge(self.word(key), now, cost)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "below the length")]
    fn word(&self, key: u64) -> &AtomicU64 {
        let wide = u128::from(self.hash(key)) * self.words.len() as u128;
        &self.words[(wide >> 64) as usize][0]
    }
}
