//! Entries and exits by many threads: never above the limit, and nothing is left over.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::concurrency::{ConcurrencyLimiter, DirectConcurrency, WhenNoSlot};

use super::{Random, together};

const THREADS: u64 = 8;
const ROUNDS: u64 = 30_000;

/// Counts as the limiter should, with one more count of its own.
struct InUse(AtomicU64);

impl InUse {
    /// Runs while the caller holds a guard.
    fn during(&self, limit: u64) {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        assert!(before < limit, "{before} were in flight, of {limit}");
        std::hint::spin_loop();
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn no_more_than_the_limit_are_ever_in_flight() {
    let (gate, limit) = (DirectConcurrency::new(3).expect("in range"), 3);
    let in_use = InUse(AtomicU64::new(0));
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
    let in_use: Vec<InUse> = (0..KEYS).map(|_| InUse(AtomicU64::new(0))).collect();
    let entered: u64 = together(THREADS, |thread| {
        let mut random = Random::new(thread + 1);
        let mut entered = 0;
        for _ in 0..ROUNDS {
            let key = random.below(KEYS);
            // A second key is held meanwhile, so that many slots are in use.
            let _held = gate.enter(&random.below(KEYS));
            if let Ok(_guard) = gate.enter(&key) {
                in_use[usize::try_from(key).expect("below 200")].during(limit);
                entered += 1;
            }
        }
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
    let in_use = InUse(AtomicU64::new(0));
    together(THREADS, |thread| {
        for round in 0..ROUNDS {
            if thread == 0 {
                gate.set_limit(1 + round % 5).expect("in range");
            } else if let Ok(_guard) = gate.enter() {
                in_use.during(5);
            }
        }
    });
    assert_eq!(gate.in_flight(), 0, "all have left");
}
