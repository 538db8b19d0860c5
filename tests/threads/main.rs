//! Real threads: exact totals under any interleaving.
//!
//! Each test starts its threads at a barrier and compares totals after joining them, so that no
//! result depends on their speed.

mod adaptive;
mod composite;
mod concurrency;
mod direct;
mod dynamic_gcra;
mod hot_keys;
mod keyed;
mod penalty;
mod reserve;
mod rings;
mod shared;
mod top;

use std::sync::Barrier;
use std::thread;

/// Runs `body` on `threads` threads that start together, and returns their results.
fn together<T: Send>(threads: u64, body: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(usize::try_from(threads).expect("a few"));
    let run = |index| {
        start.wait();
        body(index)
    };
    let run = &run;
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|index| scope.spawn(move || run(index))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    })
}

/// Takes cells until a denial, with a bound for limiters that never deny.
fn drain(take: impl Fn() -> bool) -> u64 {
    (0..1_000_000).take_while(|_| take()).map(|_| 1).sum()
}

/// A small random generator, so that threads do not run in lockstep.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
