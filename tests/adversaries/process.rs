//! Adverse actions of the operating system on a process and its threads.

use std::collections::HashSet;
use std::process::Command;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tollgate::clock::CoarseClock;
use tollgate::{Clock, Gcra, Limiter, ManualClock, OnFull, Quota, Tick};

const NOW: Tick = Tick::from_nanos(3_600_000_000_000);

/// Bound: the burst, exactly.
#[test]
fn thousands_of_threads_share_one_burst() {
    const THREADS: usize = 2_000;
    let gate: Limiter<str, _, _> = Limiter::builder(Quota::per_hour(3_600).burst(1_500))
        .clock(ManualClock::new())
        .algorithm(Gcra::new().leases(64))
        .lease_hot_keys()
        .count_decisions()
        .build()
        .expect("in range");
    let start = Barrier::new(THREADS);
    let ask = || {
        start.wait();
        let granted = u64::from(gate.ask("one").at(NOW).check().is_ok());
        (granted, gate.ask("one").at(NOW).held())
    };
    let (granted, held) = thread::scope(|scope| {
        let small = || thread::Builder::new().stack_size(64 << 10);
        let spawn = |_| small().spawn_scoped(scope, ask).expect("a thread");
        let threads: Vec<_> = (0..THREADS).map(spawn).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        ended.fold((0, 0), |sum, (granted, held)| (sum.0 + granted, sum.1 + held))
    });
    // Cells that a thread had leased and not spent when it ended are lost. Cells that threads may
    // lease are deducted from the burst.
    assert!(granted <= 1_500 && granted + held >= 1_500 - 64, "{granted} granted, {held} held");
    let stats = gate.stats();
    let counted = stats.admitted.zip(stats.denied).map(|(yes, no)| yes + no);
    assert_eq!(counted, Some(THREADS as u64));
}

/// The last owner drops the limiter, on whatever thread; the others have just decided.
#[test]
fn the_last_owner_drops_the_limiter_on_any_thread() {
    for round in 0..200 {
        let gate: Arc<Limiter<u64, _, _>> = Arc::new(
            Limiter::builder(Quota::per_day(10))
                .clock(ManualClock::new())
                .capacity(64)
                .build()
                .expect("in range"),
        );
        let threads: Vec<_> = (0..4)
            .map(|index| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || {
                    let keys = 0..50 + 10 * ((round + index) % 5);
                    keys.filter(|key| gate.ask(key).at(NOW).check().is_ok()).count()
                })
            })
            .collect();
        drop(gate);
        let granted: usize = threads.into_iter().map(|t| t.join().expect("no panic")).sum();
        assert!(granted >= 200, "each of four asks for 50 keys at least, 10 a key: {granted}");
    }
}

/// The child prints which of many keys find no slot in a full table.
#[test]
fn each_process_hashes_with_its_own_seed() {
    const ROLE: &str = "TOLLGATE_TEST_PRINTS_PLACES";
    if std::env::var_os(ROLE).is_some() {
        let gate: Limiter<u64> = Limiter::builder(Quota::per_day(1))
            .capacity(100)
            .on_full(OnFull::Deny)
            .build()
            .expect("in range");
        let without: Vec<_> =
            (0..2_000_u64).filter(|key| gate.check(key).is_err()).map(|k| k.to_string()).collect();
        println!("without slots: {}", without.join(","));
        return;
    }
    let child = || {
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "process::each_process_hashes_with_its_own_seed", "--nocapture"])
            .env(ROLE, "1")
            .output()
            .expect("it runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let from = text.find("without slots: ").unwrap_or_else(|| panic!("{text}"));
        text[from..].lines().next().expect("a line").to_owned()
    };
    let seen: HashSet<_> = (0..3).map(|_| child()).collect();
    assert_eq!(seen.len(), 3, "which keys find no slot cannot be predicted");
}

/// Sixteen slots, in which each new key evicts another.
#[cfg(unix)]
fn small_table() -> Limiter<u64, Gcra, ManualClock> {
    Limiter::builder(Quota::per_day(1))
        .clock(ManualClock::new())
        .capacity(1)
        .on_full(OnFull::EvictNearestIdle)
        .build()
        .expect("in range")
}

/// The status of a child in which the answer is yes.
#[cfg(unix)]
const YES: i32 = 7 << 8;

/// How a child ends that answers this question: by [`YES`], by another status for a no, or by its alarm.
#[cfg(unix)]
#[allow(unsafe_code, reason = "the child only decides, and leaves without unwinding")]
fn status_of_child(question: impl Fn() -> bool) -> i32 {
    // SAFETY: the child calls nothing but decisions, which neither lock nor allocate, and `alarm` and `_exit`. All
    // of that may be called between fork and exec in a process with threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::alarm(30);
            libc::_exit(if question() { 7 } else { 8 })
        }
    }
    let mut status = -1;
    if child > 0 {
        // SAFETY: the child belongs to this process, and the pointer to its status is valid.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
    }
    status
}

/// The child of a fork has the limiter as it was at that moment, and from then on a copy of its
/// own. It can decide whatever the other threads were doing, since a decision takes no lock and
/// allocates nothing.
///
/// Bound: each process grants one quota from then on; the memory is not shared.
#[test]
#[cfg(unix)]
fn a_forked_child_starts_from_the_charges_of_its_parent() {
    let gate = tollgate::Direct::builder(Quota::per_day(1).burst(100))
        .clock(ManualClock::new())
        .build()
        .expect("in range");
    assert!(gate.ask().cells(40).at(NOW).check().is_ok());
    let drain = || (0..1_000).filter(|_| gate.ask().at(NOW).check().is_ok()).count();
    // Four keys a slot, so that a slot is being claimed at almost any moment.
    let (busy, keys, asked) = (small_table(), 0..64_u64, AtomicU64::new(0));
    let decide = |key| busy.ask(&key).at(NOW).check().is_ok();
    let forked_all = AtomicBool::new(false);
    thread::scope(|scope| {
        // A thread that decides during each fork.
        scope.spawn(|| {
            for key in keys.clone().cycle().take_while(|_| !forked_all.load(Ordering::Relaxed)) {
                asked.store(key, Ordering::Relaxed);
                decide(key);
            }
        });
        while busy.stats().claimed < 100 {
            thread::yield_now();
        }
        let is_decided = || {
            // The key that the thread was deciding comes first: for another key, its claim could be displaced.
            let first = asked.load(Ordering::Relaxed);
            let admitted = [first].into_iter().chain(keys.clone()).filter(|key| decide(*key));
            admitted.count() > 0 && drain() == 60
        };
        let failed = (0..40).map(|_| status_of_child(is_decided)).find(|status| *status != YES);
        forked_all.store(true, Ordering::Relaxed);
        // Status 14: a decision hangs, and the alarm has ended the child. Status -1: there was no child.
        assert_eq!(failed, None, "in each child, 60 are left and other keys are decided");
    });
    assert_eq!(drain(), 60, "the child's charges do not affect the parent");
}

/// The thread that refreshes a clock does not exist in the child of a fork.
#[test]
#[cfg(unix)]
#[allow(
    unsafe_code,
    reason = "the child only reads and drops a clock, and leaves without unwinding"
)]
fn a_forked_child_knows_that_no_thread_refreshes_its_clock_and_drops_it_without_a_wait() {
    let clock = CoarseClock::with_upkeep(Duration::from_millis(1)).expect("a thread");
    assert!(clock.has_upkeep());
    // SAFETY: the child reads and drops a clock, which neither locks nor allocates, and calls `alarm` and `_exit`.
    // All of that may be done between fork and exec in a process with threads. A drop that panicked would end its
    // only thread, and so the process, with the status 0.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above. A drop that waits for ever ends by the alarm.
        unsafe { libc::alarm(10) };
        let before = clock.now();
        let stands = clock.now() == before && clock.refresh() > before && !clock.has_upkeep();
        drop(clock);
        // SAFETY: as above.
        unsafe { libc::_exit(if stands { 7 } else { 8 }) };
    }
    assert!(child > 0, "it forked");
    let mut status = 0;
    // SAFETY: the child belongs to this process, and the pointer to its status is valid.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "it waited for a thread that does not exist: {status}");
    assert_eq!(libc::WEXITSTATUS(status), 7, "its clock stands still, and says so");
    assert!(clock.has_upkeep());
}
