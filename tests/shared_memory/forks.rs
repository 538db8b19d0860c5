//! A process of many threads is forked while its threads decide.

use tollgate::clock::MonotonicClock;
use tollgate::shared::Shared;
use tollgate::{FixedWindow, Limiter};

use crate::tally::Tally;
use crate::workers::add;
use crate::{Gate, KINDS, forked, quota, skipped, words};

type Leasing = Limiter<u64, FixedWindow, MonotonicClock>;

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

/// A limiter whose calling thread has taken so many cells of key 7 ahead or more, and the cells granted so far.
/// `None`: no thread has lost a race.
fn with_a_lease(limit: u64, held_min: u64) -> Option<(Leasing, u64)> {
    let windows = FixedWindow::anchored().leases(1_000);
    for _ in 0..1_000 {
        let gate = Limiter::<u64>::builder(quota(limit)).algorithm(windows).lease_hot_keys();
        let gate = gate.capacity(1_000).build_shared(&Shared::anonymous()).expect("memory");
        let (tally, mut granted) = (Tally::new(0), 0);
        let others = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let asks = (0..limit * 2 / 5).take_while(|_| !tally.is_over());
                asks.filter(|_| gate.check(&7).is_ok()).count() as u64
            });
            while gate.ask(&7).held() < held_min && granted < limit * 2 / 5 && !other.is_finished()
            {
                granted += u64::from(gate.check(&7).is_ok());
            }
            tally.end();
            other.join().expect("no panic")
        });
        if gate.ask(&7).held() >= held_min {
            return Some((gate, granted + others));
        }
    }
    None
}

#[test]
fn cells_that_a_thread_has_taken_ahead_are_not_spent_by_a_forked_child() {
    const LIMIT: u64 = 100_000;
    let Some((gate, granted)) = with_a_lease(LIMIT, 100) else {
        skipped("no thread has lost a race");
        return;
    };
    let held = gate.ask(&7).held();
    // The child begins without cells, so it charges every cell that it is granted.
    let [held_by_child] =
        forked([()], || usize::try_from(gate.ask(&7).held()).expect("few").min(255));
    assert_eq!(held_by_child, 0, "of {held} before the fork");
    let [of_child] = forked([()], || (0..100).filter(|_| gate.check(&7).is_ok()).count());
    assert_eq!(gate.ask(&7).held(), held, "the thread that has taken them keeps them");
    let mut of_this = 0;
    while gate.check(&7).is_ok() {
        of_this += 1;
    }
    // The thread that has ended may have kept as many as a lease holds.
    let granted = granted + of_child as u64 + of_this;
    assert!((LIMIT - 1_000..=LIMIT).contains(&granted), "{granted} of {LIMIT}");
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
