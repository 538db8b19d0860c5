//! The space-saving sketch (Metwally, Agrawal and El Abbadi, 2005), for counts that grow by one.
//!
//! It holds at most `max_entries` keys. A key in the sketch is counted. When the sketch is full, a
//! new key replaces the entry with the lowest count, starts from that count, and records it as its error.
//! So the counts sum to the number of notes, which bounds the lowest count, and with it every
//! error, by `noted / max_entries`.
//!
//! Entries do not move. `ranks` holds their numbers in the order of falling counts. To increment a
//! count, the entry changes places with the first entry of equal count: one binary search and one
//! swap. The lowest count is always last.

use core::borrow::Borrow;

/// A bounded set of keys with counts.
#[derive(Debug)]
pub(super) struct Sketch<K> {
    max_entries: usize,
    noted: u64,
    entries: Vec<Entry<K>>,
    /// The numbers of the entries, by falling count.
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
    /// Allocates nothing before the first key is noted. `max_entries` is 1 to 2^30.
    pub(super) fn new(max_entries: usize) -> Self {
        let index = Index { slots: Vec::new() };
        Self { max_entries, noted: 0, entries: Vec::new(), ranks: Vec::new(), index }
    }

    pub(super) fn noted(&self) -> u64 {
        self.noted
    }

    pub(super) fn entries(&self) -> &[Entry<K>] {
        &self.entries
    }

    /// An upper bound of the notes of any key that is not among the entries.
    pub(super) fn floor(&self) -> u64 {
        match self.ranks.last() {
            Some(last) if self.entries.len() == self.max_entries => {
                self.entries[*last as usize].count
            }
            _ => 0,
        }
    }

    /// Counts one note of `key`, which is copied if it is not among the entries. The tag is 32 bits
    /// of its hash.
    ///
    /// The key's own code may panic; it runs before anything is changed, or after everything is.
    pub(super) fn note<Q>(&mut self, key: &Q, tag: u32)
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Eq + ?Sized,
    {
        if self.index.slots.is_empty() {
            self.entries.reserve_exact(self.max_entries);
            self.ranks.reserve_exact(self.max_entries);
            self.index = Index::with_room_for(self.max_entries);
        }
        let entries = &self.entries;
        let same = |number: u32| -> bool {
            let known: &Q = entries[number as usize].key.borrow();
            known == key
        };
        let mut replaced = None;
        match self.index.find(tag, same) {
            Some(number) => self.increment(number),
            None if self.entries.len() < self.max_entries => self.insert_new(key.to_owned(), tag),
            None => replaced = Some(self.replace_lowest(key.to_owned(), tag)),
        }
        self.noted += 1;
        drop(replaced);
    }

    fn insert_new(&mut self, key: K, tag: u32) {
        let number = u32::try_from(self.entries.len()).expect("fewer than 2^32");
        // No count is below 1, so the last rank is right.
        self.entries.push(Entry { key, count: 1, error: 0, tag, rank: number });
        self.ranks.push(number);
        self.index.insert(tag, number);
    }

    /// Gives the entry with the lowest count to `key`, and returns the key that it replaces.
    fn replace_lowest(&mut self, key: K, tag: u32) -> K {
        let number = *self.ranks.last().expect("the sketch is full");
        let entry = &mut self.entries[number as usize];
        let replaced = core::mem::replace(&mut entry.key, key);
        entry.error = entry.count;
        let old = core::mem::replace(&mut entry.tag, tag);
        self.index.remove(old, number);
        self.index.insert(tag, number);
        self.increment(number);
        replaced
    }

    /// Increments an entry's count.
    fn increment(&mut self, number: u32) {
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

/// The index from tags to entries: open addressing by the low bits of the tag, at most half full.
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
    fn with_room_for(max_entries: usize) -> Self {
        Self { slots: vec![EMPTY; (2 * max_entries).next_power_of_two()] }
    }

    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// The position of the first slot with this tag that `is_it` accepts, or of the empty slot
    /// where it would be.
    fn position(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> usize {
        let mut position = tag as usize & self.mask();
        while !self.slots[position].is_empty() {
            let slot = self.slots[position];
            if slot.tag == tag && is_it(slot.number) {
                break;
            }
            position = (position + 1) & self.mask();
        }
        position
    }

    fn find(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let slot = self.slots[self.position(tag, is_it)];
        (!slot.is_empty()).then_some(slot.number)
    }

    fn insert(&mut self, tag: u32, number: u32) {
        let position = self.position(tag, |_| false);
        self.slots[position] = Slot { tag, number };
    }

    /// Removes an entry, and moves back the slots after it that the empty slot would cut off.
    fn remove(&mut self, tag: u32, number: u32) {
        let mut hole = self.position(tag, |other| other == number);
        let mut position = hole;
        loop {
            position = (position + 1) & self.mask();
            let slot = self.slots[position];
            if slot.is_empty() {
                break;
            }
            let from_home = position.wrapping_sub(slot.tag as usize) & self.mask();
            let from_hole = position.wrapping_sub(hole) & self.mask();
            if from_home >= from_hole {
                self.slots[hole] = slot;
                hole = position;
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

    /// Checks all bounds of the sketch against the exact counts.
    fn holds(sketch: &Sketch<u32>, truth: &HashMap<u32, u64>) -> Result<(), TestCaseError> {
        let noted: u64 = truth.values().sum();
        let bound = noted / sketch.max_entries as u64;
        prop_assert_eq!(sketch.noted(), noted);
        prop_assert_eq!(sketch.entries().iter().map(|entry| entry.count).sum::<u64>(), noted);
        prop_assert!(sketch.entries().len() <= sketch.max_entries && sketch.floor() <= bound);
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
        /// Tags of two bits are included: the index has to distinguish neighbours and equal tags.
        #[test]
        fn counts_and_errors_stay_within_their_bounds_for_any_stream(
            max_entries in 1_usize..20,
            bits in prop::sample::select(vec![2_u32, 5, 32]),
            keys in prop::collection::vec((0_u32..60, 0_u32..60), 0..600),
        ) {
            let (mut sketch, mut truth) = (Sketch::new(max_entries), HashMap::new());
            for (one, other) in keys {
                // The minimum of two favours low keys.
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
    fn counts_are_exact_while_all_keys_fit() {
        let mut sketch = Sketch::new(50);
        for key in (0..5_000_u32).map(|turn| turn % 50) {
            sketch.note(&key, key.wrapping_mul(0x9e37_79b9));
        }
        assert!(sketch.entries().iter().all(|entry| entry.count == 100 && entry.error == 0));
    }
}
