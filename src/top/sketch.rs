//! The space-saving sketch (Metwally, Agrawal and El Abbadi, 2005), for counts that grow by one.
//!
//! It holds at most `most` keys. A key that is in it is counted; one that is not takes the entry
//! with the lowest count, takes over that count, and remembers it as its error. So counts sum to
//! what was noted, which bounds the lowest one, and with it every error, by `noted / most`.
//!
//! Entries stay where they are. Their numbers are kept in the order of falling counts, in which a
//! count that grows by one changes places with the first of its equals: one binary search and one
//! swap, and the lowest is always last.

use core::borrow::Borrow;

/// A bounded set of keys with counts.
#[derive(Debug)]
pub(super) struct Sketch<K> {
    most: usize,
    noted: u64,
    entries: Vec<Entry<K>>,
    /// Numbers of the entries, by falling count.
    ranks: Vec<u32>,
    index: Index,
}

#[derive(Clone, Debug)]
pub(super) struct Entry<K> {
    pub(super) key: K,
    /// The true count is in `count - error ..= count`.
    pub(super) count: u64,
    pub(super) error: u64,
    tag: u32,
    rank: u32,
}

impl<K> Sketch<K> {
    /// Takes no memory before the first key is noted. `most` is 1 to 2^30.
    pub(super) fn new(most: usize) -> Self {
        let index = Index { slots: Vec::new() };
        Self { most, noted: 0, entries: Vec::new(), ranks: Vec::new(), index }
    }

    pub(super) fn noted(&self) -> u64 {
        self.noted
    }

    pub(super) fn entries(&self) -> &[Entry<K>] {
        &self.entries
    }

    /// The most that a key may have been noted which is not among the entries.
    pub(super) fn floor(&self) -> u64 {
        match self.ranks.last() {
            Some(last) if self.entries.len() == self.most => self.entries[*last as usize].count,
            _ => 0,
        }
    }

    /// Counts one more of `key`, which is copied if it is not among the entries. The tag is 32 bits
    /// of its hash.
    ///
    /// The key's own code, which may panic, runs before anything is changed, or after all is.
    pub(super) fn note<Q>(&mut self, key: &Q, tag: u32)
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Eq + ?Sized,
    {
        if self.index.slots.is_empty() {
            self.entries.reserve_exact(self.most);
            self.ranks.reserve_exact(self.most);
            self.index = Index::of(self.most);
        }
        let entries = &self.entries;
        let same = |number: u32| -> bool {
            let known: &Q = entries[number as usize].key.borrow();
            known == key
        };
        let mut forgotten = None;
        match self.index.find(tag, same) {
            Some(number) => self.raise(number),
            None if self.entries.len() < self.most => self.enter(key.to_owned(), tag),
            None => forgotten = Some(self.take_over(key.to_owned(), tag)),
        }
        self.noted += 1;
        drop(forgotten);
    }

    fn enter(&mut self, key: K, tag: u32) {
        let number = u32::try_from(self.entries.len()).expect("fewer than 2^32");
        // No count is below 1, so the last rank is right.
        self.entries.push(Entry { key, count: 1, error: 0, tag, rank: number });
        self.ranks.push(number);
        self.index.insert(tag, number);
    }

    /// Gives the entry with the lowest count to `key`, and returns whose it was.
    fn take_over(&mut self, key: K, tag: u32) -> K {
        let number = *self.ranks.last().expect("the sketch is full");
        let entry = &mut self.entries[number as usize];
        let forgotten = core::mem::replace(&mut entry.key, key);
        entry.error = entry.count;
        let old = core::mem::replace(&mut entry.tag, tag);
        self.index.remove(old, number);
        self.index.insert(tag, number);
        self.raise(number);
        forgotten
    }

    /// Adds one to an entry's count.
    fn raise(&mut self, number: u32) {
        let Entry { count, rank, .. } = self.entries[number as usize];
        let higher = |other: &u32| self.entries[*other as usize].count > count;
        let first = self.ranks.partition_point(higher);
        let other = self.ranks[first];
        self.ranks.swap(first, rank as usize);
        self.entries[other as usize].rank = rank;
        let entry = &mut self.entries[number as usize];
        entry.rank = u32::try_from(first).expect("a rank");
        entry.count += 1;
    }
}

/// Where the entry of a key is: open addressing by the low bits of the tag, at most half full.
#[derive(Debug)]
struct Index {
    slots: Vec<Slot>,
}

/// The number of an entry, and 32 bits of its key's hash.
#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u32,
    number: u32,
}

const EMPTY: Slot = Slot { tag: 0, number: u32::MAX };

impl Slot {
    fn is_empty(self) -> bool {
        self.number == EMPTY.number
    }
}

impl Index {
    fn of(most: usize) -> Self {
        Self { slots: vec![EMPTY; (2 * most).next_power_of_two()] }
    }

    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// The place of the first that answers, or the empty one where it would be.
    fn place(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> usize {
        let mut place = tag as usize & self.mask();
        while !self.slots[place].is_empty() {
            let slot = self.slots[place];
            if slot.tag == tag && is_it(slot.number) {
                break;
            }
            place = (place + 1) & self.mask();
        }
        place
    }

    fn find(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let slot = self.slots[self.place(tag, is_it)];
        (!slot.is_empty()).then_some(slot.number)
    }

    fn insert(&mut self, tag: u32, number: u32) {
        let place = self.place(tag, |_| false);
        self.slots[place] = Slot { tag, number };
    }

    /// Removes one, and moves up those after it that an empty place would cut off.
    fn remove(&mut self, tag: u32, number: u32) {
        let mut hole = self.place(tag, |other| other == number);
        let mut place = hole;
        loop {
            place = (place + 1) & self.mask();
            let slot = self.slots[place];
            if slot.is_empty() {
                break;
            }
            let from_home = place.wrapping_sub(slot.tag as usize) & self.mask();
            let from_hole = place.wrapping_sub(hole) & self.mask();
            if from_home >= from_hole {
                self.slots[hole] = slot;
                hole = place;
            }
        }
        self.slots[hole] = EMPTY;
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Everything that the sketch promises of a stream whose counts are known.
    fn holds(sketch: &Sketch<u32>, truth: &HashMap<u32, u64>) -> Result<(), TestCaseError> {
        let noted: u64 = truth.values().sum();
        let bound = noted / sketch.most as u64;
        prop_assert_eq!(sketch.noted(), noted);
        prop_assert_eq!(sketch.entries().iter().map(|entry| entry.count).sum::<u64>(), noted);
        prop_assert!(sketch.entries().len() <= sketch.most && sketch.floor() <= bound);
        for Entry { key, count, error, .. } in sketch.entries() {
            let exact = truth[key];
            prop_assert!((count - error..=*count).contains(&exact), "{key}: {exact}");
            prop_assert!(*error <= sketch.floor(), "{key}: {error}");
        }
        let held: HashMap<_, _> =
            sketch.entries().iter().map(|entry| (entry.key, entry.count)).collect();
        prop_assert_eq!(held.len(), sketch.entries().len(), "no key twice");
        for (key, exact) in truth {
            prop_assert!(held.contains_key(key) || *exact <= sketch.floor(), "{key}: {exact}");
        }
        let counts = sketch.ranks.iter().map(|number| sketch.entries[*number as usize].count);
        prop_assert!(counts.is_sorted_by(|one, next| one >= next));
        Ok(())
    }

    proptest! {
        /// With tags of two bits, too: the index has to tell neighbours and equals apart.
        #[test]
        fn the_sketch_keeps_its_bounds(
            most in 1_usize..20,
            bits in prop::sample::select(vec![2_u32, 5, 32]),
            keys in prop::collection::vec((0_u32..60, 0_u32..60), 0..600),
        ) {
            let (mut sketch, mut truth) = (Sketch::new(most), HashMap::new());
            for (one, other) in keys {
                // The lower of two is skewed to low keys.
                let key = one.min(other);
                *truth.entry(key).or_insert(0) += 1;
                sketch.note(&key, key.wrapping_mul(0x9e37_79b9) >> (32 - bits));
                if truth.len() % 7 == 0 {
                    holds(&sketch, &truth)?;
                }
            }
            holds(&sketch, &truth)?;
        }
    }

    #[test]
    fn while_all_keys_fit_counts_are_exact() {
        let mut sketch = Sketch::new(50);
        for key in (0..5_000_u32).map(|turn| turn % 50) {
            sketch.note(&key, key.wrapping_mul(0x9e37_79b9));
        }
        assert!(sketch.entries().iter().all(|entry| entry.count == 100 && entry.error == 0));
    }
}
