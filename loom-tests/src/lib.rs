//! Models of the atomic protocols, explored by loom; one file per protocol in `tests/`.
//!
//! They run only with `RUSTFLAGS="--cfg tollgate_loom"` (see `ci/loom.sh`); without it there is
//! nothing here. Under the flag a bucket has two slots, so that few keys fill it.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{Clock, Gcra, Limiter, Loads, OnFull, Quota, Tick, let_loads_return};

/// Time is given with every call.
#[derive(Debug)]
pub struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Tick {
        Tick::ZERO
    }
}

/// The limiter under test.
pub type Gate = Limiter<u64, Gcra, NoClock>;

/// One cell a second; no model lasts as long.
#[must_use]
pub fn burst(cells: u64) -> Quota {
    Quota::per_second(1).burst(cells)
}

/// A limiter with as few buckets of two slots as hold `capacity` keys at 55 % load.
#[must_use]
pub fn gate(quota: Quota, capacity: u64, on_full: OnFull) -> Arc<Gate> {
    let built = Limiter::builder(quota)
        .clock(NoClock)
        .capacity(capacity)
        .on_full(on_full)
        .hash_seed(1)
        .build();
    Arc::new(built.expect("the quota and the capacity are in range"))
}

/// One bucket, hence two slots for all keys.
pub const ONE_BUCKET: u64 = 1;

/// `seconds` after the origin.
#[must_use]
pub fn at(seconds: u64) -> Tick {
    Tick::from_duration(Duration::from_secs(seconds))
}

/// 1 if one cell was granted.
#[must_use]
pub fn ask(gate: &Gate, key: u64, now: Tick) -> u64 {
    u64::from(gate.check_at(&key, 1, now).is_ok())
}

/// Cells that the key could spend now.
#[must_use]
pub fn left(gate: &Gate, key: u64, now: Tick) -> u64 {
    match gate.peek_at(&key, 0, now) {
        Ok(permit) => permit.remaining(),
        Err(denied) => denied.remaining(),
    }
}

/// Explores two threads: every interleaving with at most 3 preemptions, and every stale value
/// that a load may return. Prints how many there were.
pub fn explore_two(name: &str, model: impl Fn() + Sync + Send + 'static) {
    let_loads_return(Loads::Any);
    explore(name, 3, model);
}

/// Explores three threads: every interleaving with at most 4 preemptions, loads returning the
/// latest value. Prints how many there were.
pub fn explore_three(name: &str, model: impl Fn() + Sync + Send + 'static) {
    let_loads_return(Loads::Latest);
    explore(name, 4, model);
}

fn explore(name: &str, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let explored = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&explored);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{name}: {} interleavings", explored.load(Ordering::Relaxed));
}
