//! Models of the atomic protocols, explored by loom; one file per protocol in `tests/`.
//!
//! They run only with `RUSTFLAGS="--cfg tollgate_loom"` (see `ci/check.sh loom`); without the flag this
//! package is empty. Under the flag a bucket has two slots, so that few keys fill it.

#![cfg(tollgate_loom)]

mod explore;
pub mod hot_keys;
pub mod redis;
mod stacks;
pub mod stopped;

// The names are those of the crate whose files are included.
#[path = "../../verify/states/src/bounded_map.rs"]
mod bounded_map;
#[allow(dead_code, reason = "a file of another crate")]
#[path = "../../crates/redis/src/sync.rs"]
mod sync;
#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
#[path = "../../crates/redis/src/unavailable.rs"]
mod unavailable;

use std::sync::Arc;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::limiter::SlotLayout;
use tollgate::{Builder, Clock, Direct, Gcra, Limiter, OnFull, Quota, Tick};

pub use explore::{
    Preemptions, catch_latest, catch_stops, catch_three, catch_two, catch_two_to, explore_four,
    explore_four_to, explore_latest, explore_no_stop, explore_stale_stops, explore_stops,
    explore_three, explore_three_stops, explore_two, explore_two_to, explore_two_whole,
};

/// A clock for limiters whose callers pass the time with every call.
#[derive(Debug)]
pub struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Tick {
        Tick::ZERO
    }
}

/// A limiter under test.
pub type Keyed<A> = Limiter<u64, A, NoClock>;
/// The same with a token bucket.
pub type Gate = Keyed<Gcra>;
/// A limiter without keys under test.
pub type Bucket<A> = Direct<A, NoClock>;

/// One cell a second; no model lasts as long.
#[must_use]
pub fn burst(cells: u64) -> Quota {
    Quota::per_second(1).burst(cells)
}

/// Builds a limiter of one kind of slot: [`gate`] or [`compact`].
pub type Make = fn(Quota, u64, OnFull) -> Arc<Gate>;

/// A limiter of wide slots, with as few buckets of two as hold `capacity` keys at 55 % load.
#[must_use]
pub fn gate(quota: Quota, capacity: u64, on_full: OnFull) -> Arc<Gate> {
    keyed(Gcra::new(), quota, capacity, on_full)
}

/// The same for another algorithm.
#[must_use]
pub fn keyed<A: Algorithm>(
    algorithm: A,
    quota: Quota,
    capacity: u64,
    on_full: OnFull,
) -> Arc<Keyed<A>> {
    let begun = begun(quota, capacity, on_full).slots(SlotLayout::Wide).hash_seed(SEED_APART);
    let begun = begun.algorithm(algorithm);
    Arc::new(begun.build().expect("the quota and the capacity are in range"))
}

/// A [`gate`] whose slots are compact.
#[must_use]
pub fn compact(quota: Quota, capacity: u64, on_full: OnFull) -> Arc<Gate> {
    let begun = begun(quota, capacity, on_full).slots(SlotLayout::Compact).hash_seed(TOGETHER);
    Arc::new(begun.build().expect("the quota fits a compact slot"))
}

fn begun(quota: Quota, capacity: u64, on_full: OnFull) -> Builder<u64, Gcra, NoClock> {
    Limiter::builder(quota).clock(NoClock).capacity(capacity).on_full(on_full)
}

/// By this seed of the hash, the keys 1 and 3 prefer one slot of a bucket, 2 and 7 the other.
pub const SEED_APART: u64 = 76;
/// By this one, 1, 3 and 7 prefer the same slot.
const TOGETHER: u64 = 8;

/// One bucket, so two slots for all keys.
pub const ONE_BUCKET: u64 = 1;

/// `seconds` after the origin.
#[must_use]
pub fn at(seconds: u64) -> Tick {
    Tick::from_duration(Duration::from_secs(seconds))
}

/// `millis` milliseconds after the origin.
#[must_use]
pub fn at_millis(millis: u64) -> Tick {
    Tick::from_duration(Duration::from_millis(millis))
}

/// 1 if one cell was granted.
#[must_use]
pub fn ask<A: Algorithm>(gate: &Keyed<A>, key: u64, now: Tick) -> u64 {
    u64::from(gate.ask(&key).at(now).check().is_ok())
}

/// Cells that the key could spend now.
#[must_use]
pub fn left<A: Algorithm>(gate: &Keyed<A>, key: u64, now: Tick) -> u64 {
    match gate.ask(&key).cells(0).at(now).peek() {
        Ok(permit) => permit.remaining(),
        Err(denied) => denied.remaining(),
    }
}

/// Runs three functions on a thread each, and returns the sum of their results.
pub fn together(
    gate: &Arc<Gate>,
    (a, b, c): (
        impl FnOnce(&Gate) -> u64 + 'static,
        impl FnOnce(&Gate) -> u64 + 'static,
        impl FnOnce(&Gate) -> u64 + 'static,
    ),
) -> u64 {
    let threads = [begin(gate, a), begin(gate, b), begin(gate, c)];
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

fn begin(
    gate: &Arc<Gate>,
    body: impl FnOnce(&Gate) -> u64 + 'static,
) -> loom::thread::JoinHandle<u64> {
    let gate = Arc::clone(gate);
    loom::thread::spawn(move || body(&gate))
}

/// Runs `body` with `shared` and the number of the thread on each of `threads` threads. The caller is
/// the first of them. Returns what each thread returned.
pub fn each_of<T: Send + Sync + 'static>(
    threads: usize,
    shared: &Arc<T>,
    body: impl Fn(&T, usize) -> u64 + Copy + Send + 'static,
) -> Vec<u64> {
    let begin = |number| {
        let shared = Arc::clone(shared);
        loom::thread::spawn(move || body(&shared, number))
    };
    let others: Vec<_> = (1..threads).map(begin).collect();
    let mine = body(shared, 0);
    let theirs = others.into_iter().map(|thread| thread.join().unwrap());
    core::iter::once(mine).chain(theirs).collect()
}

/// Each of `threads` threads asks for a cell of a key that was never seen. The key has one cell less.
///
/// # Panics
///
/// If the threads were not granted exactly the key's cells, or a charge was lost.
pub fn several_ask_for_one_less(gate: &Arc<Gate>, threads: usize) {
    const KEY: u64 = 7;
    let granted = each_of(threads, gate, |gate, _| ask(gate, KEY, at(1)));
    assert_eq!(granted.iter().sum::<u64>(), threads as u64 - 1, "granted in all");
    assert_eq!(left(gate, KEY, at(1)), 0, "no charge was lost");
}

/// Cells, and the milliseconds after the origin at which they are asked for.
pub type Request = (u64, u64);

/// A bucket that was never used, or was reset after its last use.
#[must_use]
pub fn bucket<A: Algorithm>(algorithm: A, quota: Quota) -> Arc<Bucket<A>> {
    let built = Direct::builder(quota).algorithm(algorithm).clock(NoClock).build();
    Arc::new(built.expect("the quota is in range"))
}

/// The requests to a [`bucket`].
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// By one thread.
    pub before: &'static [Request],
    /// By several at once.
    pub threads: &'static [&'static [Request]],
    /// By one thread again.
    pub after: &'static [Request],
}

impl Story {
    /// Plays the story, and returns the cells granted to the threads.
    ///
    /// Every answer must be the oracle's, in every field, for some order of the threads' requests. The
    /// requests that come after show the state that they left.
    #[must_use]
    pub fn play<A: Algorithm + 'static>(&self, bucket: &Arc<Bucket<A>>) -> u64 {
        let mut oracle = bucket.params().oracle();
        for answer in answers(bucket, self.before) {
            assert!(answer.is_by(&mut oracle), "before the threads: {answer:?}");
        }
        let (mine, theirs) = self.threads.split_first().expect("a thread asks");
        let spawn = |&requests: &&'static [Request]| {
            let bucket = Arc::clone(bucket);
            loom::thread::spawn(move || answers(&bucket, requests))
        };
        let others: Vec<_> = theirs.iter().map(spawn).collect();
        let mut given = vec![answers(bucket, mine)];
        given.extend(others.into_iter().map(|thread| thread.join().unwrap()));
        let after = answers(bucket, self.after);
        let slices: Vec<&[Answer]> = given.iter().map(Vec::as_slice).collect();
        assert!(
            some_order_explains(&oracle, &slices, &after),
            "no order explains {given:#?}, then {after:#?}"
        );
        given.iter().flatten().map(Answer::granted).sum()
    }
}

/// A request and its answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    request: Request,
    verdict: Verdict,
}

impl Answer {
    fn granted(&self) -> u64 {
        if self.verdict.admitted { self.request.0 } else { 0 }
    }

    fn is_by(&self, oracle: &mut impl Oracle) -> bool {
        let (cells, millis) = self.request;
        oracle.decide(at_millis(millis), cells) == self.verdict
    }
}

/// Makes the requests. One for no cells is a peek.
fn answers<A: Algorithm>(bucket: &Bucket<A>, requests: &[Request]) -> Vec<Answer> {
    let answer = |&request: &Request| {
        let (cells, now) = (request.0, at_millis(request.1));
        let decision = match cells {
            0 => bucket.ask().cells(0).at(now).peek(),
            _ => bucket.ask().cells(cells).at(now).check(),
        };
        Answer { request, verdict: Verdict::from(&decision) }
    };
    requests.iter().map(answer).collect()
}

/// Whether the oracle gives the same answers for some order of the threads' requests that keeps each
/// thread's own order.
fn some_order_explains(oracle: &impl Oracle, threads: &[&[Answer]], after: &[Answer]) -> bool {
    if threads.iter().all(|answers| answers.is_empty()) {
        let mut oracle = oracle.clone();
        return after.iter().all(|answer| answer.is_by(&mut oracle));
    }
    threads.iter().enumerate().any(|(index, answers)| {
        let Some((next, rest)) = answers.split_first() else { return false };
        let mut oracle = oracle.clone();
        let mut threads = threads.to_vec();
        threads[index] = rest;
        next.is_by(&mut oracle) && some_order_explains(&oracle, &threads, after)
    })
}
