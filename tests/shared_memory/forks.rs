//! A process of many threads is forked while its threads decide.

use tollgate::shared::Shared;

use crate::tally::Tally;
use crate::workers::add;
use crate::{Gate, KINDS, quota, words};

const KEYS: u64 = 800;
const FORKS: u64 = 40;
const THREADS: usize = 3;
/// Seconds after which the system ends a child that hangs.
const PATIENCE: u32 = 30;

/// Asks for drawn keys until `is_over`, and at least so often.
fn decide(gate: &Gate, tally: &Tally, seed: u64, least: usize, is_over: impl Fn() -> bool) {
    for (count, word) in words(seed).enumerate() {
        if count >= least && is_over() {
            return;
        }
        let key = (word >> 32) % KEYS;
        tally.note(key, gate.check(&key).is_ok());
    }
}

#[test]
fn a_child_forked_while_threads_decide_decides_at_once_and_the_totals_are_exact() {
    for kind in [0, 1, 7] {
        // A log keeps a word for each cell.
        let limit = if kind == 7 { 100 } else { 2_000 };
        let gate = KINDS[kind].build(&Shared::anonymous(), quota(limit)).expect("memory");
        let tally = Tally::new(KEYS);
        std::thread::scope(|scope| {
            for seed in 1..=THREADS as u64 {
                let (gate, tally) = (&gate, &tally);
                scope.spawn(move || decide(gate, tally, seed, 0, || tally.is_over()));
            }
            let children: Vec<i32> = (0..FORKS).map(|seed| fork(&gate, &tally, seed)).collect();
            // Also if a child has failed, so that the test ends.
            let statuses: Vec<i32> = children.into_iter().map(status).collect();
            tally.end();
            assert!(statuses.iter().all(|status| *status == 0), "{statuses:?}");
        });
        let mut granted = tally.granted();
        let mut left = vec![0; granted.len()];
        for (key, left) in (0..).zip(&mut left) {
            while gate.check(&key).is_ok() {
                *left += 1;
            }
        }
        add(&mut granted, &left);
        let exact = granted.iter().all(|cells| *cells == limit);
        assert!(exact, "{:?}: {limit} cells each, and not {granted:?}", KINDS[kind]);
        assert_eq!(gate.len() as u64, KEYS, "{:?}", KINDS[kind]);
    }
}

/// Forks a child that makes some decisions, and returns its number.
fn fork(gate: &Gate, tally: &Tally, seed: u64) -> i32 {
    // SAFETY: the child decides, which allocates nothing and takes no lock, and ends at once.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: it ends a child that hangs, and nothing else.
            unsafe { libc::alarm(PATIENCE) };
            decide(gate, tally, 1_000 + seed, 2_000, || true);
            // SAFETY: it ends the child without running what other threads have registered.
            unsafe { libc::_exit(0) }
        }
        child => {
            assert!(child > 0, "{}", std::io::Error::last_os_error());
            child
        }
    }
}

/// The status of a child that has ended: 0 if nothing went wrong.
fn status(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}
