//! Helpers for models of hot keys' leases: two threads ask for one key.

use std::sync::Arc;

use loom::thread;
use tollgate::algorithm::Algorithm;
use tollgate::{Limiter, Quota, Tick};

use crate::{Keyed, NoClock, ONE_BUCKET, SEED_APART, ask, at};

/// The hot key.
pub const KEY: u64 = 7;
/// Cells of a lease.
pub const TAKE: u64 = 2;

/// A limiter that leases hot keys, whose key has asked once, at the first second.
#[must_use]
pub fn leasing<A: Algorithm>(algorithm: A, quota: Quota) -> Arc<Keyed<A>> {
    let gate = Limiter::builder(quota)
        .algorithm(algorithm)
        .clock(NoClock)
        .capacity(ONE_BUCKET)
        .lease_hot_keys()
        .hash_seed(SEED_APART)
        .build();
    let gate = Arc::new(gate.expect("in range"));
    assert_eq!(ask(&gate, KEY, at(1)), 1);
    gate
}

/// Asks for one cell `times` times, and returns how many cells were granted or are held.
pub fn asked<A: Algorithm>(gate: &Keyed<A>, times: u64, now: Tick) -> u64 {
    let granted: u64 = (0..times).map(|_| ask(gate, KEY, now)).sum();
    granted + gate.ask(&KEY).at(now).held()
}

/// Two threads ask, each as many times as its number says, and always at its own time. Returns the cells that
/// each was granted or holds.
pub fn asked_by_two<A>(gate: &Arc<Keyed<A>>, [mine, theirs]: [(u64, Tick); 2]) -> [u64; 2]
where
    A: Algorithm<Params: 'static> + 'static,
{
    let other = Arc::clone(gate);
    let thread = thread::spawn(move || asked(&other, theirs.0, theirs.1));
    let mine = asked(gate, mine.0, mine.1);
    [mine, thread.join().unwrap()]
}

/// Of `all` cells that the key has at `later`, charges all but one, and asks for one twice. Returns how many
/// of the two requests were granted: one, if this thread's lease has ended by then.
pub fn granted_of_the_last<A: Algorithm>(gate: &Keyed<A>, all: u64, later: Tick) -> u64 {
    assert!(gate.ask(&KEY).cells(all - 1).at(later).check().is_ok());
    (0..2).map(|_| ask(gate, KEY, later)).sum()
}
