//! What a process keeps by key: for as many keys as were asked for, and no more.
//!
//! Found without a lock (`papaya`). Where all places are taken, those with nothing in them are
//! given up, for which at most a twentieth of the time is spent; a key may find no place.

use core::borrow::Borrow;
use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::sync::Arc;

use papaya::HashMap;
use tollgate::Tick;

use crate::sync::RelaxedCounter;

/// What is kept of a key.
pub(crate) trait Entry: Send + Sync + 'static {
    /// Of a key that nothing is known of.
    fn new(key: &[u8]) -> Self;

    fn key(&self) -> &[u8];

    /// Whether little is forgotten with it. One in which it matters that nothing is put any more, by
    /// whoever has it in hand, denies that from then on.
    fn give_up(&self, now: Tick) -> bool;

    /// Cells that are lost with it.
    fn unspent(&self) -> u64;
}

/// An entry that is found by its key.
#[derive(Debug)]
struct Held<E>(Arc<E>);

impl<E: Entry> Borrow<[u8]> for Held<E> {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl<E: Entry> Hash for Held<E> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl<E: Entry> PartialEq for Held<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<E: Entry> Eq for Held<E> {}

/// The least time between two searches for entries to drop.
const SEARCH_NANOS: u64 = 100_000_000;

/// Entries by key.
pub(crate) struct Places<E> {
    held: HashMap<Held<E>, (), ahash::RandomState>,
    capacity: u64,
    /// How many there are. Never more than the capacity: a place is reserved first.
    taken: RelaxedCounter,
    search_at_nanos: RelaxedCounter,
}

/// What a search for entries to drop found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Cells that were in them, and too old.
    pub(crate) cells: u64,
}

impl<E: Entry> Places<E> {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            held: HashMap::with_hasher(ahash::RandomState::new()),
            capacity,
            taken: RelaxedCounter::default(),
            search_at_nanos: RelaxedCounter::default(),
        }
    }

    /// What `look` sees in a key's entry, if it has one.
    #[inline]
    pub(crate) fn look<R>(&self, key: &[u8], look: impl FnOnce(&Arc<E>) -> R) -> Option<R> {
        self.held.pin().get_key_value(key).map(|(held, ())| look(&held.0))
    }

    /// A key's entry, made if it has none; `None` if there is no place. Threads that make it at the
    /// same time are given the same one.
    pub(crate) fn open(&self, key: &[u8], now: impl Fn() -> Tick) -> (Option<Arc<E>>, Dropped) {
        let mut dropped = Dropped::default();
        loop {
            if let Some(entry) = self.look(key, Arc::clone) {
                return (Some(entry), dropped);
            }
            if !self.reserve() {
                dropped.cells += self.search(&now).cells;
                if !self.reserve() {
                    // Somebody may have taken the last place for this key.
                    return (self.look(key, Arc::clone), dropped);
                }
            }
            let entry = Arc::new(E::new(key));
            // Not `insert`, which puts it in the place of one that somebody else has in hand.
            if self.held.pin().try_insert(Held(Arc::clone(&entry)), ()).is_ok() {
                return (Some(entry), dropped);
            }
            self.taken.subtract(1);
        }
    }

    /// Takes out an entry that was given up. Whether it was still there.
    pub(crate) fn forget(&self, entry: &Arc<E>) -> bool {
        let held = self.held.pin();
        let same = |held: &Held<E>, (): &()| Arc::ptr_eq(&held.0, entry);
        let was_there = matches!(held.remove_if(entry.key(), same), Ok(Some(_)));
        if was_there {
            self.taken.subtract(1);
        }
        was_there
    }

    fn reserve(&self) -> bool {
        let room = self.taken.add(1) < self.capacity;
        if !room {
            self.taken.subtract(1);
        }
        room
    }

    pub(crate) fn len(&self) -> u64 {
        self.taken.read().min(self.capacity)
    }

    /// Drops the entries that have nothing in them, unless somebody just did.
    #[cold]
    fn search(&self, now: &impl Fn() -> Tick) -> Dropped {
        let begun = now();
        let due = self.search_at_nanos.read();
        if begun.as_nanos() < due || !self.search_at_nanos.exchange(due, u64::MAX) {
            return Dropped::default();
        }
        let held = self.held.pin();
        let mut dropped = Dropped::default();
        for entry in held.keys() {
            if entry.0.give_up(begun) && self.forget(&entry.0) {
                dropped.cells += entry.0.unspent();
            }
        }
        let ended = now();
        let took = ended.since(begun);
        let pause = (took * 19).max(Duration::from_nanos(SEARCH_NANOS));
        self.search_at_nanos.put(ended.saturating_add(pause).as_nanos());
        dropped
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    /// Idle until it is told otherwise.
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

        fn give_up(&self, _: Tick) -> bool {
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
        let places = Places::<Note>::new(2);
        let (first, _) = places.open(b"a", at(0));
        let (again, _) = places.open(b"a", at(0));
        assert!(Arc::ptr_eq(&first.expect("room"), &again.expect("there")));
        assert_eq!((places.len(), places.look(b"b", |_| ())), (1, None));
    }

    #[test]
    fn idle_ones_make_room_and_busy_ones_stay() {
        let places = Places::<Note>::new(2);
        places.open(b"busy", at(0)).0.expect("room").busy.put(1);
        assert!(places.open(b"idle", at(0)).0.is_some());
        let (new, dropped) = places.open(b"new", at(200));
        assert!(new.is_some(), "the idle one made room");
        assert_eq!(dropped.cells, 3);
        assert!(places.look(b"busy", |_| ()).is_some() && places.look(b"idle", |_| ()).is_none());
        assert!(places.open(b"newer", at(250)).0.is_none(), "a search was made just now");
        assert!(places.open(b"newer", at(300)).0.is_some());
        assert_eq!(places.len(), 2);
    }

    /// Made only when another one is made, too.
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

        fn give_up(&self, now: Tick) -> bool {
            self.0.give_up(now)
        }

        fn unspent(&self) -> u64 {
            self.0.unspent()
        }
    }

    #[test]
    fn threads_that_open_a_new_key_together_have_one_entry() {
        let places = Places::<Twin>::new(2);
        let open = || places.open(b"a", at(0)).0.expect("room");
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(open);
            (open(), other.join().expect("it ends"))
        });
        assert!(Arc::ptr_eq(&one, &other) && Arc::ptr_eq(&one, &open()));
        assert_eq!(places.len(), 1);
    }

    #[test]
    fn what_is_forgotten_takes_nobody_elses_place() {
        let places = Places::<Note>::new(2);
        let open = || places.open(b"a", at(0)).0.expect("room");
        let first = open();
        assert!(places.forget(&first) && !places.forget(&first));
        let second = open();
        assert!(!places.forget(&first), "another has its key now");
        assert!(Arc::ptr_eq(&second, &open()) && places.len() == 1);
    }

    #[test]
    fn threads_never_make_more_than_the_capacity() {
        let places = Places::<Note>::new(50);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let places = &places;
                scope.spawn(move || {
                    for key in 0..100_u64 {
                        let key = (key * 7 + thread % 2).to_be_bytes();
                        if let (Some(note), _) = places.open(&key, at(0)) {
                            note.busy.put(1);
                        }
                    }
                });
            }
        });
        assert!((40..=50).contains(&places.len()), "{}", places.len());
        assert_eq!(places.held.pin().len() as u64, places.len());
    }
}
