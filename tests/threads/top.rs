//! The keys that are denied most, noted by several threads at once, and read meanwhile.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate::stats::DecisionCount;
use tollgate::top::TopKeys;
use tollgate::{Direct, Limiter, Quota};

use crate::{Random, together};

/// The minimum of four random keys, so that low keys are frequent.
fn skewed(random: &mut Random, keys: u64) -> u64 {
    (0..4).map(|_| random.below(keys)).min().expect("four")
}

/// The exact notes of each key are known only if no note is dropped. That is so while there are no
/// more threads than sketches, and no reader.
#[test]
fn merged_counts_of_several_sketches_stay_within_their_bounds() {
    const ENTRIES: usize = 64;
    let top = TopKeys::new(ENTRIES);
    // One thread after the other, so that no note is dropped. Each has a sketch of its own, because
    // all of them live until the last has noted.
    let turn = AtomicU64::new(0);
    let counts = together(6, |index| {
        while turn.load(Ordering::Acquire) != index {
            thread::yield_now();
        }
        let (mut random, mut counts) = (Random::new(index + 1), HashMap::new());
        for _ in 0..20_000 {
            // Every thread also has keys of its own.
            let key = skewed(&mut random, 5_000) * (1 + index % 3);
            top.note(&key);
            *counts.entry(key).or_insert(0_u64) += 1;
        }
        turn.fetch_add(1, Ordering::Release);
        while turn.load(Ordering::Acquire) < 6 {
            thread::yield_now();
        }
        counts
    });
    let mut truth = HashMap::new();
    counts.into_iter().flatten().for_each(|(key, count)| *truth.entry(key).or_insert(0) += count);
    assert_eq!((top.noted(), top.dropped()), (120_000, 0));

    let bound = 120_000 / ENTRIES as u64;
    let all = top.top(usize::MAX);
    let held: HashMap<_, _> = all.iter().map(|entry| (entry.key, entry)).collect();
    assert_eq!(held.len(), all.len(), "no key twice");
    assert!(all.len() > ENTRIES, "several sketches were used");
    for entry in &all {
        let exact = truth[&entry.key];
        assert!((entry.at_least()..=entry.denied).contains(&exact), "{entry:?}: {exact}");
        assert!(entry.error <= bound, "{entry:?}");
    }
    for (key, count) in truth {
        assert!(held.contains_key(&key) || count <= bound, "{key}: {count} of {bound}");
    }
    assert!(all.is_sorted_by(|one, next| one.denied >= next.denied));
}

#[test]
fn notes_that_are_not_taken_are_counted_as_dropped() {
    const EACH: u64 = 50_000;
    let top: TopKeys<String> = TopKeys::new(16);
    let threads = 6;
    // The last thread reads all the time, so that it competes with the others for the locks.
    together(threads + 1, |index| {
        if index == threads {
            for _ in 0..200 {
                let seen = top.top(5);
                assert!(seen.iter().all(|entry| entry.error <= entry.denied));
                assert!(top.noted() <= threads * EACH);
            }
            return;
        }
        let mut random = Random::new(index + 1);
        for _ in 0..EACH {
            top.note(format!("key {}", skewed(&mut random, 1_000)).as_str());
        }
    });
    assert_eq!(top.noted() + top.dropped(), threads * EACH);
    top.reset();
    assert_eq!((top.noted(), top.dropped(), top.top(9).len()), (0, 0, 0));
    top.note("again");
    assert_eq!((top.noted(), top.dropped()), (1, 0));
}

#[test]
fn watch_notes_the_keys_that_were_denied() {
    let gate: Limiter<str> =
        Limiter::builder(Quota::per_day(10)).count_decisions().build().expect("in range");
    let top: TopKeys<String> = TopKeys::new(16);
    let admitted: u64 = together(2, |_| {
        let names = ["rare", "often", "often", "often"].iter().cycle().take(400);
        names.map(|name| u64::from(top.watch(*name, gate.check(name)).is_ok())).sum::<u64>()
    })
    .iter()
    .sum();
    let stats = gate.stats();
    assert_eq!((admitted, stats.admitted), (20, Some(20)));
    assert_eq!(Some(top.noted() + top.dropped()), stats.denied);
    assert_eq!(top.top(1)[0].key, "often");
    assert!(top.top(1)[0].denied <= 590);
}

#[test]
fn a_key_that_panics_leaves_the_sketch_unchanged() {
    #[derive(Debug, PartialEq, Eq, Hash)]
    struct Fragile(u32);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert_ne!(self.0, 13, "cannot be copied");
            Self(self.0)
        }
    }
    let top = TopKeys::new(2);
    top.note(&Fragile(1));
    top.note(&Fragile(1));
    assert!(catch_unwind(AssertUnwindSafe(|| top.note(&Fragile(13)))).is_err());
    top.note(&Fragile(2));
    top.note(&Fragile(3)); // takes the place of 2
    assert!(catch_unwind(AssertUnwindSafe(|| top.note(&Fragile(13)))).is_err());
    let seen: Vec<_> =
        top.top(9).into_iter().map(|entry| (entry.key.0, entry.denied, entry.error)).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.contains(&(1, 2, 0)) && seen.contains(&(3, 2, 1)));
    assert_eq!((top.noted(), top.dropped()), (4, 0));
}

#[test]
fn decisions_of_many_threads_are_counted_exactly() {
    let gate = Direct::new(Quota::per_day(1_000)).expect("in range");
    let count = DecisionCount::new();
    // More threads than there are counter stripes.
    together(80, |_| {
        for _ in 0..500 {
            let _ = count.watch(gate.check());
        }
    });
    assert_eq!((count.admitted(), count.denied()), (1_000, 39_000));
}
