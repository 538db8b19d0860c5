//! GCRA under a lock, as a user would write it for speed: in maps that have a lock each, and alone.

use ahash::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::bucket::{Pace, Watch};
use crate::peer::{Direct, Keyed, TimeGiven};
use crate::plan::Plan;

/// A value on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

/// A power of two.
const MAPS: usize = 64;

/// The arrival times of keys in 64 maps with a lock each. A key is hashed once, and the clock is read
/// before a lock is taken.
#[derive(Debug)]
pub struct LockedMaps {
    maps: Box<[OwnLine<Mutex<HashTable<State>>>; MAPS]>,
    hasher: RandomState,
    pace: Pace,
    watch: Watch,
}

#[derive(Debug)]
struct State {
    key: u64,
    /// Theoretical arrival time; zero is a full bucket.
    tat_nanos: u64,
}

impl LockedMaps {
    #[inline]
    fn charge(&self, key: u64, now_nanos: u64, n: u64) -> bool {
        let hash = self.hasher.hash_one(key);
        // A map itself uses the lowest bits of the hash and the highest.
        let map = usize::try_from(hash >> 32).expect("64 bits") % MAPS;
        let mut states = self.maps[map].0.lock();
        let entry =
            states.entry(hash, |state| state.key == key, |state| self.hasher.hash_one(state.key));
        let state = entry.or_insert(State { key, tat_nanos: 0 }).into_mut();
        charge(&mut state.tat_nanos, &self.pace, now_nanos, n)
    }
}

/// Charges `n` cells, if there are as many.
#[inline]
fn charge(tat_nanos: &mut u64, pace: &Pace, now_nanos: u64, n: u64) -> bool {
    let next = pace.charged(*tat_nanos, now_nanos, n);
    if let Some(next) = next {
        *tat_nanos = next;
    }
    next.is_some()
}

impl Keyed for LockedMaps {
    const NAME: &'static str = "64 parking_lot maps";
    const EXACT: bool = true;
    const BOUNDED_BY: Option<&'static str> = Some("swept every 100 ms");
    type Key = u64;

    fn new(plan: Plan, _keys: usize) -> Self {
        Self {
            maps: Box::new(std::array::from_fn(|_| OwnLine::default())),
            hasher: RandomState::new(),
            pace: Pace::new(plan),
            watch: Watch::start(),
        }
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.charge(*key, self.watch.nanos(), 1)
    }

    fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
        Some(self.charge(*key, self.watch.nanos(), n.into()))
    }

    fn sweep(&self) {
        let now = self.watch.nanos();
        for map in self.maps.iter() {
            map.0.lock().retain(|state| state.tat_nanos > now);
        }
    }
}

impl TimeGiven for LockedMaps {
    #[inline]
    fn check_at(&self, key: &u64, now_nanos: u64) -> bool {
        self.charge(*key, now_nanos, 1)
    }
}

/// One arrival time under a lock. The clock is read before the lock is taken.
#[derive(Debug)]
#[repr(align(128))]
pub struct LockedBucket {
    tat_nanos: OwnLine<Mutex<u64>>,
    pace: Pace,
    watch: Watch,
}

impl LockedBucket {
    #[inline]
    fn charge(&self, now_nanos: u64, n: u64) -> bool {
        charge(&mut self.tat_nanos.0.lock(), &self.pace, now_nanos, n)
    }
}

impl Direct for LockedBucket {
    const NAME: &'static str = "parking_lot Mutex";

    fn new(plan: Plan) -> Self {
        Self { tat_nanos: OwnLine::default(), pace: Pace::new(plan), watch: Watch::start() }
    }

    #[inline]
    fn check(&self) -> bool {
        self.charge(self.watch.nanos(), 1)
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(self.charge(self.watch.nanos(), n.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_forgets_only_keys_that_owe_nothing() {
        let gate = LockedMaps::new(Plan::hourly(1), 2);
        assert!(gate.check(&1));
        assert!(!gate.check_n(&2, 2).expect("has such a call"), "beyond the burst");
        gate.sweep();
        let kept: usize = gate.maps.iter().map(|map| map.0.lock().len()).sum();
        assert_eq!(kept, 1);
        assert!(!gate.check(&1) && gate.check(&2));
    }
}
