//! A concurrent map of bounded size.
//!
//! Lookups take no lock (`papaya`). If the map is full, idle entries are evicted, which takes at
//! most a twentieth of the time. A key may find no room. A long key is given none: clients choose how
//! long keys are.

use core::borrow::Borrow;
use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::sync::Arc;

use papaya::HashMap;
use tollgate::Tick;

use crate::sync::RelaxedCounter;

/// A value of the map.
pub(crate) trait Entry: Send + Sync + 'static {
    /// The entry of a key that is seen for the first time.
    fn new(key: &[u8]) -> Self;

    fn key(&self) -> &[u8];

    /// Whether the entry can be evicted with little loss. If later updates of the entry
    /// would matter, it marks itself as retired, and threads that still hold it stop using it.
    fn retire(&self, now: Tick) -> bool;

    /// Cells that are lost with the entry.
    fn unspent(&self) -> u64;
}

/// An entry, found by its key.
#[derive(Debug)]
struct ByKey<E>(Arc<E>);

impl<E: Entry> Borrow<[u8]> for ByKey<E> {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl<E: Entry> Hash for ByKey<E> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl<E: Entry> PartialEq for ByKey<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<E: Entry> Eq for ByKey<E> {}

/// A longer key has no entry.
const KEY_BYTES_MAX: usize = 1_024;
/// The shortest time between two evictions.
const EVICT_PAUSE_NANOS: u64 = 100_000_000;

/// A map from keys to entries.
pub(crate) struct BoundedMap<E> {
    entries: HashMap<ByKey<E>, (), ahash::RandomState>,
    capacity: u64,
    /// The number of entries, never above the capacity: a slot is reserved before an insert.
    taken: RelaxedCounter,
    evict_at_nanos: RelaxedCounter,
}

/// The entries and cells that evictions dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Unspent cells, too old to be used, in the dropped entries.
    pub(crate) cells: u64,
}

impl<E: Entry> BoundedMap<E> {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            entries: HashMap::with_hasher(ahash::RandomState::new()),
            capacity,
            taken: RelaxedCounter::default(),
            evict_at_nanos: RelaxedCounter::default(),
        }
    }

    /// The result of `read` on a key's entry, if the key has one.
    #[inline]
    pub(crate) fn read<R>(&self, key: &[u8], read: impl FnOnce(&Arc<E>) -> R) -> Option<R> {
        self.entries.pin().get_key_value(key).map(|(entry, ())| read(&entry.0))
    }

    /// A key's entry, created if it has none. `None` if there is no room, or the key is too long.
    /// Threads that create it at the same time receive the same entry.
    pub(crate) fn get_or_insert(
        &self,
        key: &[u8],
        now: impl Fn() -> Tick,
    ) -> (Option<Arc<E>>, Dropped) {
        let mut dropped = Dropped::default();
        if key.len() > KEY_BYTES_MAX {
            return (None, dropped);
        }
        loop {
            if let Some(entry) = self.read(key, Arc::clone) {
                return (Some(entry), dropped);
            }
            if !self.reserve_slot() {
                dropped.cells += self.evict_idle(&now).cells;
                if !self.reserve_slot() {
                    // Another thread may have taken the last slot for this key.
                    return (self.read(key, Arc::clone), dropped);
                }
            }
            let entry = Arc::new(E::new(key));
            // `insert` would replace an entry that another thread already holds.
            if self.entries.pin().try_insert(ByKey(Arc::clone(&entry)), ()).is_ok() {
                return (Some(entry), dropped);
            }
            self.taken.subtract(1);
        }
    }

    /// Removes an entry. Returns whether it was still in the map.
    pub(crate) fn remove(&self, entry: &Arc<E>) -> bool {
        let entries = self.entries.pin();
        let same = |entries: &ByKey<E>, (): &()| Arc::ptr_eq(&entries.0, entry);
        let was_there = matches!(entries.remove_if(entry.key(), same), Ok(Some(_)));
        if was_there {
            self.taken.subtract(1);
        }
        was_there
    }

    fn reserve_slot(&self) -> bool {
        let room = self.taken.add(1) < self.capacity;
        if !room {
            self.taken.subtract(1);
        }
        room
    }

    pub(crate) fn len(&self) -> u64 {
        self.taken.read().min(self.capacity)
    }

    /// Evicts idle entries, unless another thread did so a moment ago.
    #[cold]
    fn evict_idle(&self, now: &impl Fn() -> Tick) -> Dropped {
        let begun = now();
        let due = self.evict_at_nanos.read();
        if begun.as_nanos() < due || !self.evict_at_nanos.exchange(due, u64::MAX) {
            return Dropped::default();
        }
        let entries = self.entries.pin();
        let mut dropped = Dropped::default();
        for entry in entries.keys() {
            if entry.0.retire(begun) && self.remove(&entry.0) {
                dropped.cells += entry.0.unspent();
            }
        }
        let ended = now();
        let took = ended.since(begun);
        let pause = (took * 19).max(Duration::from_nanos(EVICT_PAUSE_NANOS));
        self.evict_at_nanos.set(ended.saturating_add(pause).as_nanos());
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Idle while `busy` is zero.
    struct Note {
        key: Box<[u8]>,
        busy: RelaxedCounter,
    }

    impl Entry for Note {
        fn new(key: &[u8]) -> Self {
            Self { key: key.into(), busy: RelaxedCounter::default() }
        }

        fn key(&self) -> &[u8] {
            &self.key
        }

        fn retire(&self, _: Tick) -> bool {
            self.busy.read() == 0
        }

        fn unspent(&self) -> u64 {
            3
        }
    }

    fn at(millis: u64) -> impl Fn() -> Tick {
        move || Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_key_keeps_its_entry() {
        let map = BoundedMap::<Note>::new(2);
        let (first, _) = map.get_or_insert(b"a", at(0));
        let (again, _) = map.get_or_insert(b"a", at(0));
        assert!(Arc::ptr_eq(&first.expect("room"), &again.expect("there")));
        assert_eq!((map.len(), map.read(b"b", |_| ())), (1, None));
    }

    #[test]
    fn idle_entries_make_room_and_busy_ones_stay() {
        let map = BoundedMap::<Note>::new(2);
        map.get_or_insert(b"busy", at(0)).0.expect("room").busy.set(1);
        assert!(map.get_or_insert(b"idle", at(0)).0.is_some());
        let (new, dropped) = map.get_or_insert(b"new", at(200));
        assert!(new.is_some(), "the idle one made room");
        assert_eq!(dropped.cells, 3);
        assert!(map.read(b"busy", |_| ()).is_some() && map.read(b"idle", |_| ()).is_none());
        assert!(map.get_or_insert(b"newer", at(250)).0.is_none(), "a search was made just now");
        assert!(map.get_or_insert(b"newer", at(300)).0.is_some());
        assert_eq!(map.len(), 2);
    }

    /// An entry whose creation waits until another thread creates one too.
    struct Twin(Note);

    static BOTH_MAKE: std::sync::Barrier = std::sync::Barrier::new(2);

    impl Entry for Twin {
        fn new(key: &[u8]) -> Self {
            BOTH_MAKE.wait();
            Self(Note::new(key))
        }

        fn key(&self) -> &[u8] {
            self.0.key()
        }

        fn retire(&self, now: Tick) -> bool {
            self.0.retire(now)
        }

        fn unspent(&self) -> u64 {
            self.0.unspent()
        }
    }

    #[test]
    fn threads_that_insert_a_key_together_get_one_entry() {
        let map = BoundedMap::<Twin>::new(2);
        let get_or_insert = || map.get_or_insert(b"a", at(0)).0.expect("room");
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(get_or_insert);
            (get_or_insert(), other.join().expect("it exits"))
        });
        assert!(Arc::ptr_eq(&one, &other) && Arc::ptr_eq(&one, &get_or_insert()));
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn removing_an_entry_twice_frees_one_slot() {
        let map = BoundedMap::<Note>::new(2);
        let get_or_insert = || map.get_or_insert(b"a", at(0)).0.expect("room");
        let first = get_or_insert();
        assert!(map.remove(&first) && !map.remove(&first));
        let second = get_or_insert();
        assert!(!map.remove(&first), "another entry has its key now");
        assert!(Arc::ptr_eq(&second, &get_or_insert()) && map.len() == 1);
    }

    #[test]
    fn threads_never_make_more_than_the_capacity() {
        let map = BoundedMap::<Note>::new(50);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let map = &map;
                scope.spawn(move || {
                    for key in 0..100_u64 {
                        let key = (key * 7 + thread % 2).to_be_bytes();
                        if let (Some(note), _) = map.get_or_insert(&key, at(0)) {
                            note.busy.set(1);
                        }
                    }
                });
            }
        });
        assert!((40..=50).contains(&map.len()), "{}", map.len());
        assert_eq!(map.entries.pin().len() as u64, map.len());
    }
}
