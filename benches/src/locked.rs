//! What a ring stands beside: the same limiters under a lock, as a textbook has them.
//!
//! They answer yes or no and nothing else, and use no time of their own: who calls gives it.

#![allow(clippy::disallowed_types, reason = "a lock is what is measured")]

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Mutex;

use ahash::RandomState;

/// Maps that the keys are spread over.
const SHARDS: usize = 64;

/// What is kept for a key.
pub trait Locked: Send + Sized {
    /// For at most `limit` cells in `period_nanos`.
    fn new(limit: usize, period_nanos: u64) -> Self;

    /// Asks for one cell.
    fn check(&mut self, now_nanos: u64) -> bool;
}

/// When each cell of the window was granted. What has left goes from the front; then the length
/// tells.
#[derive(Debug)]
pub struct Log {
    granted: VecDeque<u64>,
    limit: usize,
    period_nanos: u64,
}

impl Locked for Log {
    fn new(limit: usize, period_nanos: u64) -> Self {
        Self { granted: VecDeque::with_capacity(limit), limit, period_nanos }
    }

    #[inline]
    fn check(&mut self, now_nanos: u64) -> bool {
        while self.granted.front().is_some_and(|&at| at + self.period_nanos <= now_nanos) {
            self.granted.pop_front();
        }
        let admitted = self.granted.len() < self.limit;
        if admitted {
            self.granted.push_back(now_nanos);
        }
        admitted
    }
}

/// Sub-windows of [`SubWindowCounts`].
const SUB_WINDOWS: usize = 6;

/// Six counts in a ring, and their sum. A decision divides only when it begins a sub-window.
#[derive(Debug)]
pub struct SubWindowCounts {
    counts: [u32; SUB_WINDOWS],
    sum: u32,
    limit: u32,
    place: usize,
    end_nanos: u64,
    length_nanos: u64,
}

impl Locked for SubWindowCounts {
    fn new(limit: usize, period_nanos: u64) -> Self {
        let limit = u32::try_from(limit).expect("a small limit");
        let length_nanos = period_nanos / SUB_WINDOWS as u64;
        Self { counts: [0; 6], sum: 0, limit, place: 0, end_nanos: 0, length_nanos }
    }

    #[inline]
    fn check(&mut self, now_nanos: u64) -> bool {
        if now_nanos >= self.end_nanos {
            self.move_on(now_nanos);
        }
        let admitted = self.sum < self.limit;
        if admitted {
            self.counts[self.place] += 1;
            self.sum += 1;
        }
        admitted
    }
}

impl SubWindowCounts {
    fn move_on(&mut self, now_nanos: u64) {
        let passed = (now_nanos - self.end_nanos) / self.length_nanos + 1;
        for _ in 0..passed.min(SUB_WINDOWS as u64) {
            self.place = if self.place == SUB_WINDOWS - 1 { 0 } else { self.place + 1 };
            self.sum -= std::mem::take(&mut self.counts[self.place]);
        }
        self.end_nanos += passed * self.length_nanos;
    }
}

/// One of them under a lock.
#[derive(Debug)]
#[repr(align(128))]
pub struct One<L>(Mutex<L>);

impl<L: Locked> One<L> {
    /// For at most `limit` cells in `period_nanos`.
    #[must_use]
    pub fn new(limit: usize, period_nanos: u64) -> Self {
        Self(Mutex::new(L::new(limit, period_nanos)))
    }

    /// Asks for one cell.
    ///
    /// # Panics
    ///
    /// If another thread panicked meanwhile.
    #[inline]
    pub fn check(&self, now_nanos: u64) -> bool {
        self.0.lock().expect("no panic").check(now_nanos)
    }
}

/// One for every key, in maps with a lock each. A key is hashed once.
#[derive(Debug)]
pub struct Keyed<L> {
    hasher: RandomState,
    shards: Box<[Shard<L>]>,
    limit: usize,
    period_nanos: u64,
}

type Map<L> = HashMap<Hashed, L, BuildHasherDefault<HashedAlready>>;

#[derive(Debug)]
#[repr(align(128))]
struct Shard<L>(Mutex<Map<L>>);

impl<L: Locked> Keyed<L> {
    /// For at most `limit` cells of each key in `period_nanos`.
    #[must_use]
    pub fn new(limit: usize, period_nanos: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(Map::default()))).collect();
        Self { hasher: RandomState::new(), shards, limit, period_nanos }
    }

    /// Asks for one cell for a key.
    ///
    /// # Panics
    ///
    /// If another thread panicked meanwhile.
    #[inline]
    pub fn check(&self, key: u64, now_nanos: u64) -> bool {
        let hash = self.hasher.hash_one(key);
        // The map uses the lowest bits and the highest.
        let shard = usize::try_from(hash >> 32).expect("64 bits") % SHARDS;
        let mut map = self.shards[shard].0.lock().expect("no panic");
        let new = || L::new(self.limit, self.period_nanos);
        map.entry(Hashed { hash, key }).or_insert_with(new).check(now_nanos)
    }
}

/// A key with its hash.
#[derive(Clone, Copy, Debug)]
struct Hashed {
    hash: u64,
    key: u64,
}

impl PartialEq for Hashed {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Hashed {}

impl Hash for Hashed {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Passes on the hash that a key brings along.
#[derive(Debug, Default)]
struct HashedAlready(u64);

impl Hasher for HashedAlready {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a key writes its hash");
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_exact() {
        let mut log = Log::new(2, 100);
        let at = [0, 50, 99, 100, 149, 150, 300];
        assert_eq!(at.map(|now| log.check(now)), [true, true, false, true, false, true, true]);
    }

    #[test]
    fn sub_windows_leave_one_by_one() {
        let mut counts = SubWindowCounts::new(2, 60);
        let at = [5, 15, 59, 60, 69, 70, 1_000, 1_001, 1_002];
        let admitted = [true, true, false, true, false, true, true, true, false];
        assert_eq!(at.map(|now| counts.check(now)), admitted);
    }

    #[test]
    fn keys_are_apart() {
        let gate: Keyed<Log> = Keyed::new(1, 100);
        assert!(gate.check(1, 0) && gate.check(2, 0));
        assert!(!gate.check(1, 0) && !gate.check(2, 99) && gate.check(1, 100));
    }
}
