//! Requests in flight: a decision and its end, beside a semaphore for each key in a map.

use std::hint::black_box;
use std::sync::Arc;

use ahash::RandomState;
use dashmap::DashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate::concurrency::ConcurrencyLimiter;
use tollgate_benches::keys::{Draw, key, ranks};
use tollgate_benches::report::{compared, table};
use tollgate_benches::rounds::{Row, Turn, compare};

use crate::choice::Choice;

const OURS: &str = "tollgate";
const OURS_HOLD: &str = "tollgate, longest hold 60 s";
const THEIRS: &str = "tokio Semaphore in a DashMap (ahash)";

/// A semaphore for each key that was ever seen.
struct Semaphores {
    map: DashMap<u64, Arc<Semaphore>, RandomState>,
    limit: usize,
}

impl Semaphores {
    fn new(limit: usize) -> Self {
        Self { map: DashMap::with_hasher(RandomState::new()), limit }
    }

    fn enter(&self, key: u64) -> Option<OwnedSemaphorePermit> {
        if let Some(semaphore) = self.map.get(&key) {
            return Arc::clone(&semaphore).try_acquire_owned().ok();
        }
        let made = || Arc::new(Semaphore::new(self.limit));
        let semaphore = Arc::clone(&self.map.entry(key).or_insert_with(made));
        semaphore.try_acquire_owned().ok()
    }
}

pub(crate) fn run(choice: &Choice) {
    let cases = [
        ("in-flight-1k-zipf-admit", Draw::Zipf, 1_000, 1, false),
        ("in-flight-1k-zipf-deny", Draw::Zipf, 1_000, 1, true),
        ("in-flight-100k-uniform-admit", Draw::Uniform, 100_000, 2, false),
        ("in-flight-hot-key-admit", Draw::One, 1, 2, false),
        ("in-flight-hot-key-deny", Draw::One, 1, 2, true),
    ];
    for (name, draw, keys, threads, denies) in cases {
        if choice.wants_case(name) {
            one(choice, name, (draw, keys), threads, denies);
        }
    }
}

/// A request enters and leaves again; or it is denied, since others hold all cells of its key.
fn one(choice: &Choice, name: &str, (draw, keys): (Draw, usize), threads: usize, denies: bool) {
    let limit = black_box(if denies { 1 } else { 1_000 });
    let built = |begun: tollgate::concurrency::ConcurrencyBuilder<u64>| {
        begun.capacity(keys as u64).build().expect("in range")
    };
    let plain = built(ConcurrencyLimiter::builder(limit));
    let hold = std::time::Duration::from_secs(60);
    let expiring = built(ConcurrencyLimiter::builder(limit).max_hold(hold));
    let semaphores = Semaphores::new(usize::try_from(limit).expect("small"));
    for rank in 0..keys {
        let key = key(rank);
        if denies {
            std::mem::forget((plain.enter(&key), expiring.enter(&key), semaphores.enter(key)));
        } else {
            drop((plain.enter(&key), expiring.enter(&key), semaphores.enter(key)));
        }
    }
    let sequence: Vec<u64> = ranks(draw, keys).into_iter().map(key).collect();
    let asked = |turn: Turn, enter: &dyn Fn(&[u64]) -> usize| {
        let (first, second) = turn.part(&sequence, threads);
        enter(first) + enter(second)
    };
    let rows = [
        Row::new(OURS, threads, |turn| {
            asked(turn, &|keys| keys.iter().filter(|key| plain.enter(key).is_ok()).count())
        }),
        Row::new(OURS_HOLD, threads, |turn| {
            asked(turn, &|keys| keys.iter().filter(|key| expiring.enter(key).is_ok()).count())
        }),
        Row::new(THEIRS, threads, |turn| {
            asked(turn, &|keys| keys.iter().filter(|key| semaphores.enter(**key).is_some()).count())
        }),
    ];
    let figures = compare(&choice.options, 100_000, &rows);
    table(name, &figures);
    compared(name, &figures, [THEIRS, OURS]);
    compared(&format!("{name}, longest hold"), &figures, [THEIRS, OURS_HOLD]);
    println!();
}
