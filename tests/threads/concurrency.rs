//! Entries and exits by many threads: never above the limit, and nothing is left over.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::concurrency::{ConcurrencyLimiter, DirectConcurrency, WhenNoSlot};

use super::{Random, together};

const THREADS: u64 = 8;
const ROUNDS: u64 = 30_000;

/// Counts as the limiter should, with one more count of its own.
#[derive(Default)]
struct InUse {
    now: AtomicU64,
    most: AtomicU64,
}

impl InUse {
    /// Counts a guard until it is dropped.
    fn count<G>(&self, guard: G, limit: u64) -> Counted<'_, G> {
        let before = self.now.fetch_add(1, Ordering::SeqCst);
        assert!(before < limit, "{before} were in flight, of {limit}");
        self.most.fetch_max(before + 1, Ordering::SeqCst);
        Counted { in_use: self, _guard: guard }
    }

    /// Runs while the caller holds a guard.
    fn during(&self, limit: u64) {
        let _counted = self.count((), limit);
        std::hint::spin_loop();
    }
}

/// A guard that is counted. The count is lowered before the guard is dropped.
struct Counted<'a, G> {
    in_use: &'a InUse,
    _guard: G,
}

impl<G> Drop for Counted<'_, G> {
    fn drop(&mut self) {
        self.in_use.now.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn no_more_than_the_limit_are_ever_in_flight() {
    let (gate, limit) = (DirectConcurrency::new(3).expect("in range"), 3);
    let in_use = InUse::default();
    let entered: u64 = together(THREADS, |_| {
        (0..ROUNDS)
            .filter(|_| {
                gate.enter().is_ok_and(|_guard| {
                    in_use.during(limit);
                    true
                })
            })
            .count() as u64
    })
    .iter()
    .sum();
    assert!(entered >= ROUNDS, "one of them at a time, at least");
    assert_eq!(gate.in_flight(), 0, "all have left");
}

/// A guard is held for three more rounds, also while its thread is not running, so that the limit is reached
/// again and again.
#[test]
fn guards_that_are_held_on_reach_the_limit_and_do_not_exceed_it() {
    let (gate, limit) = (DirectConcurrency::new(3).expect("in range"), 3);
    let in_use = InUse::default();
    together(THREADS, |_| {
        let mut held = [const { None }; 3];
        for round in 0..ROUNDS {
            // The new guard is there before the old one is dropped.
            held[(round % 3) as usize] = gate.enter().ok().map(|guard| in_use.count(guard, limit));
        }
    });
    assert_eq!(in_use.most.into_inner(), limit);
    assert_eq!(gate.in_flight(), 0, "all have left");
}

/// More keys than slots, so that slots change hands all the time.
#[test]
fn keys_that_compete_for_slots_are_counted_apart() {
    const KEYS: u64 = 200;
    let limit = 2;
    let gate: ConcurrencyLimiter<u64> = ConcurrencyLimiter::builder(limit)
        .capacity(8)
        .when_no_slot(WhenNoSlot::Deny)
        .count_decisions()
        .build()
        .expect("in range");
    let in_use: Vec<InUse> = (0..KEYS).map(|_| InUse::default()).collect();
    let entered: u64 = together(THREADS, |thread| {
        let mut random = Random::new(thread + 1);
        let (mut entered, mut held) = (0, None);
        for _ in 0..ROUNDS {
            let mut enter = || {
                let key = random.below(KEYS);
                let guard = gate.enter(&key).ok()?;
                Some(in_use[usize::try_from(key).expect("below 200")].count(guard, limit))
            };
            // A second key is held until the next round, so that many slots are in use.
            held = enter();
            entered += u64::from(enter().is_some());
        }
        drop(held);
        entered
    })
    .iter()
    .sum();
    let stats = gate.stats();
    assert!(entered > 0 && stats.claimed > KEYS, "{stats:?}");
    let decided = stats.admitted.expect("counted") + stats.denied.expect("counted");
    assert_eq!(decided, 2 * THREADS * ROUNDS);
    assert_eq!(stats.evicted, 0);
    assert!(gate.is_empty(), "all have left");
    assert!((0..KEYS).all(|key| gate.in_flight(&key) == 0));
}

/// A limit that changes all the time is never exceeded by more than the highest that was in force.
#[test]
fn a_limit_that_changes_is_obeyed() {
    let gate = DirectConcurrency::new(5).expect("in range");
    let in_use = InUse::default();
    together(THREADS, |thread| {
        let mut held = [const { None }; 3];
        for round in 0..ROUNDS {
            if thread == 0 {
                gate.set_limit(1 + round % 5).expect("in range");
            } else {
                // Each guard is held for three more rounds.
                held[(round % 3) as usize] = gate.enter().ok().map(|guard| in_use.count(guard, 5));
            }
        }
    });
    assert_eq!(gate.in_flight(), 0, "all have left");
}
