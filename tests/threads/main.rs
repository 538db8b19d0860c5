//! Real threads: exact totals, whatever the interleaving.
//!
//! Each test starts its threads at a barrier and compares totals after they are joined, so that
//! nothing depends on how fast they were.

mod composite;
mod direct;
mod keyed;
mod live;
mod penalty;
mod reserve;
mod rings;
mod share;
mod shared;
mod top;

use std::sync::Barrier;
use std::thread;

/// Runs `body` on `threads` threads that start together, and returns what each returns.
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

/// Takes until it is denied, but not for ever where a limiter never denies.
fn drain(take: impl Fn() -> bool) -> u64 {
    (0..1_000_000).take_while(|_| take()).map(|_| 1).sum()
}

/// Small steps of a generator, so that threads do not march in line.
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
