//! Containers of states under a lock: one state alone, or maps with one state for each key.

#![allow(clippy::disallowed_types, reason = "a lock is what is measured")]

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use ahash::RandomState;

use super::{Answer, Arrival, FullAnswer, Kind, Lock, Locked, Std};

/// The default number of maps.
const SHARDS: usize = 64;

/// A limiter that decides at a given time.
pub trait Gate: Sync {
    /// Asks for one cell for a key (without keys, the key is ignored).
    fn check(&self, key: u64, now_nanos: u64) -> bool;
}

/// One state under a lock.
#[derive(Debug)]
#[repr(align(128))]
pub struct One<L: Locked, K: Kind = Std> {
    state: K::Of<L>,
    rule: L::Rule,
}

impl<L: Locked, K: Kind> One<L, K> {
    /// Admits at most `limit` cells in `period_nanos`.
    #[must_use]
    pub fn new(limit: usize, period_nanos: u64) -> Self {
        let rule = L::rule(limit, period_nanos);
        Self { state: Lock::new(L::new(&rule)), rule }
    }

    /// Asks for one cell.
    #[inline]
    pub fn check(&self, now_nanos: u64) -> bool {
        self.state.with(|state| state.check(&self.rule, now_nanos))
    }
}

impl<L: Locked, K: Kind> Gate for One<L, K> {
    #[inline]
    fn check(&self, _: u64, now_nanos: u64) -> bool {
        self.check(now_nanos)
    }
}

/// A state for each key, in several maps with a lock each. A key is hashed once.
#[derive(Debug)]
pub struct Keyed<L: Locked, K: Kind = Std> {
    hasher: RandomState,
    shards: Box<[Shard<LockedMap<L, K>>]>,
    rule: L::Rule,
}

type Map<T> = HashMap<Hashed, T, BuildHasherDefault<HashedAlready>>;
type LockedMap<L, K> = <K as Kind>::Of<Map<L>>;

#[derive(Debug)]
#[repr(align(128))]
struct Shard<M>(M);

impl<L: Locked, K: Kind> Keyed<L, K> {
    /// Admits at most `limit` cells of each key in `period_nanos`, with 64 maps.
    #[must_use]
    pub fn new(limit: usize, period_nanos: u64) -> Self {
        Self::with_shards(SHARDS, limit, period_nanos)
    }

    /// Like [`new`](Self::new), with `shards` maps.
    ///
    /// # Panics
    ///
    /// If `shards` is not a power of two.
    #[must_use]
    pub fn with_shards(shards: usize, limit: usize, period_nanos: u64) -> Self {
        assert!(shards.is_power_of_two(), "so that a mask chooses the map");
        let shards = (0..shards).map(|_| Shard(Lock::new(Map::default()))).collect();
        Self { hasher: RandomState::new(), shards, rule: L::rule(limit, period_nanos) }
    }

    /// Asks for one cell for a key.
    #[inline]
    pub fn check(&self, key: u64, now_nanos: u64) -> bool {
        self.with(key, |state| state.check(&self.rule, now_nanos))
    }

    #[inline]
    fn with<R>(&self, key: u64, act: impl FnOnce(&mut L) -> R) -> R {
        let key = Hashed::new(key, &self.hasher);
        // The map itself uses the lowest bits and the highest.
        let shard = usize::try_from(key.hash >> 32).expect("64 bits") & (self.shards.len() - 1);
        let new = || L::new(&self.rule);
        self.shards[shard].0.with(|map| act(map.entry(key).or_insert_with(new)))
    }
}

impl<L: FullAnswer, K: Kind> Keyed<L, K> {
    /// Asks for one cell for a key, and computes the whole answer after releasing the lock.
    #[inline]
    pub fn answer(&self, key: u64, now_nanos: u64) -> Answer {
        let answer = self.with(key, |state| state.charge(&self.rule, now_nanos));
        L::answer(&self.rule, answer, now_nanos)
    }
}

impl<L: Locked, K: Kind> Gate for Keyed<L, K> {
    #[inline]
    fn check(&self, key: u64, now_nanos: u64) -> bool {
        self.check(key, now_nanos)
    }
}

/// A state under its own lock for each key, in a map behind a read-write lock: locked for reading
/// to look a key up, and for writing to insert a new one.
#[derive(Debug)]
#[repr(align(128))]
pub struct ReadThenLock<L: Locked> {
    hasher: RandomState,
    map: RwLock<Map<Mutex<L>>>,
    rule: L::Rule,
}

impl<L: Locked> ReadThenLock<L> {
    /// Admits at most `limit` cells of each key in `period_nanos`.
    #[must_use]
    pub fn new(limit: usize, period_nanos: u64) -> Self {
        let rule = L::rule(limit, period_nanos);
        Self { hasher: RandomState::new(), map: RwLock::default(), rule }
    }
}

impl<L: Locked> Gate for ReadThenLock<L> {
    #[inline]
    fn check(&self, key: u64, now_nanos: u64) -> bool {
        let key = Hashed::new(key, &self.hasher);
        let decide = |state: &Mutex<L>| state.with(|state| state.check(&self.rule, now_nanos));
        look_up(&self.map, key, || Mutex::new(L::new(&self.rule)), decide)
    }
}

/// Like [`ReadThenLock`], with the arrival time of GCRA in an atomic that is compared and swapped.
#[derive(Debug)]
#[repr(align(128))]
pub struct ReadThenSwap {
    hasher: RandomState,
    map: RwLock<Map<AtomicU64>>,
    rule: <Arrival as Locked>::Rule,
}

impl ReadThenSwap {
    /// Admits at most `limit` cells of each key in `period_nanos`.
    #[must_use]
    pub fn new(limit: usize, period_nanos: u64) -> Self {
        let rule = Arrival::rule(limit, period_nanos);
        Self { hasher: RandomState::new(), map: RwLock::default(), rule }
    }
}

impl Gate for ReadThenSwap {
    #[inline]
    fn check(&self, key: u64, now_nanos: u64) -> bool {
        let decide = |tat: &AtomicU64| {
            let after = |seen| self.rule.after(seen, now_nanos);
            tat.fetch_update(Ordering::AcqRel, Ordering::Acquire, after).is_ok()
        };
        look_up(&self.map, Hashed::new(key, &self.hasher), AtomicU64::default, decide)
    }
}

/// Decides by the state of a key, which is inserted if it is new.
#[inline]
fn look_up<T>(
    map: &RwLock<Map<T>>,
    key: Hashed,
    new: impl FnOnce() -> T,
    decide: impl Fn(&T) -> bool,
) -> bool {
    if let Some(state) = map.read().expect("no panic").get(&key) {
        return decide(state);
    }
    decide(map.write().expect("no panic").entry(key).or_insert_with(new))
}

/// A key with its hash.
#[derive(Clone, Copy, Debug)]
struct Hashed {
    hash: u64,
    key: u64,
}

impl Hashed {
    #[inline]
    fn new(key: u64, hasher: &RandomState) -> Self {
        Self { hash: hasher.hash_one(key), key }
    }
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

/// A hasher that returns the hash stored in the key.
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
    use crate::locked::{Log, OurStep, ParkingLot};

    fn keys_are_independent(gate: &impl Gate) {
        assert!(gate.check(1, 1_000) && gate.check(2, 1_000));
        assert!(!gate.check(1, 1_000) && !gate.check(2, 1_099) && gate.check(1, 1_100));
    }

    #[test]
    fn keys_are_independent_in_every_map() {
        keys_are_independent(&Keyed::<Log>::new(1, 100));
        keys_are_independent(&Keyed::<Log>::with_shards(1, 1, 100));
        keys_are_independent(&Keyed::<Arrival, ParkingLot>::with_shards(256, 1, 100));
        keys_are_independent(&Keyed::<OurStep, ParkingLot>::new(1, 100));
        keys_are_independent(&ReadThenLock::<Arrival>::new(1, 100));
        keys_are_independent(&ReadThenSwap::new(1, 100));
    }

    fn four_threads_are_granted_the_limit(gate: &impl Gate) {
        let ask = || (0..500).filter(|_| gate.check(7, 5)).count();
        let granted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(granted, 1_000);
    }

    #[test]
    fn threads_together_are_granted_the_limit() {
        four_threads_are_granted_the_limit(&One::<Arrival>::new(1_000, 1_000_000));
        four_threads_are_granted_the_limit(&One::<Arrival, ParkingLot>::new(1_000, 1_000_000));
        four_threads_are_granted_the_limit(&Keyed::<Arrival>::new(1_000, 1_000_000));
        four_threads_are_granted_the_limit(&ReadThenLock::<Arrival>::new(1_000, 1_000_000));
        four_threads_are_granted_the_limit(&ReadThenSwap::new(1_000, 1_000_000));
    }

    #[test]
    fn a_map_returns_the_whole_answer() {
        let gate = Keyed::<Arrival, ParkingLot>::new(1, 100);
        let granted = Answer { admitted: true, remaining: 0, retry_after_nanos: 0 };
        assert_eq!(gate.answer(1, 1_000), granted);
        let denied = Answer { admitted: false, remaining: 0, retry_after_nanos: 70 };
        assert_eq!(gate.answer(1, 1_030), denied);
    }
}
