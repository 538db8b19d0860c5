//! Shared state beside the slots of a limiter: one bucket, requests in flight, the overflow and counts. Files that are
//! passed as descriptors.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tollgate::Clock;
use tollgate::clock::MonotonicClock;
use tollgate::concurrency::{ConcurrencyLimiter, DirectConcurrency, WhenNoSlot};
use tollgate::shared::{Shared, SharedError};
use tollgate::{AnyAlgorithm, Direct, Gcra, Limiter, OnFull};

use crate::{Folder, KINDS, forked, quota};

const HOLD: Duration = Duration::from_secs(3_600);

fn direct(shared: &Shared, algorithm: &str) -> Direct<AnyAlgorithm, MonotonicClock> {
    let algorithm: AnyAlgorithm = algorithm.parse().expect("an algorithm");
    Direct::builder(quota(100)).algorithm(algorithm).build_shared(shared).expect("memory")
}

#[test]
fn forked_processes_use_one_bucket_up_to_its_last_cell() {
    for kind in KINDS {
        let gate = direct(&Shared::anonymous(), kind.algorithm);
        let granted = forked([(); 4], || (0..60).filter(|_| gate.check().is_ok()).count());
        assert_eq!(granted.iter().sum::<usize>(), 100, "{kind:?}: {granted:?}");
        assert!(gate.check().is_err(), "{kind:?}");
    }
}

#[test]
fn a_bucket_in_a_file_keeps_its_state() {
    for kind in KINDS {
        let folder = Folder::new();
        assert!(direct(&folder.shared(), kind.algorithm).check_n(60).is_ok());
        let attached = direct(&folder.shared(), kind.algorithm);
        assert!(attached.check_n(41).is_err(), "{kind:?}");
        assert!(attached.check_n(40).is_ok(), "{kind:?}");
    }
}

#[test]
fn requests_in_flight_are_counted_over_forked_processes() {
    let keyed = ConcurrencyLimiter::<u64>::builder(10)
        .max_hold(HOLD)
        .count_decisions()
        .build_shared(&Shared::anonymous())
        .expect("memory");
    let all = DirectConcurrency::builder(10).max_hold(HOLD).build_shared(&Shared::anonymous());
    let all = all.expect("memory");
    // Each process leaves its guards behind, as one that is killed does.
    let entered = forked([(); 4], || {
        let guards = (0..6).filter_map(|_| keyed.enter(&7).ok()).map(core::mem::forget).count();
        let others = (0..6).filter_map(|_| all.enter().ok()).map(core::mem::forget).count();
        16 * guards + others
    });
    assert_eq!(entered.iter().map(|both| both / 16).sum::<usize>(), 10, "{entered:?}");
    assert_eq!(entered.iter().map(|both| both % 16).sum::<usize>(), 10, "{entered:?}");
    assert_eq!((keyed.in_flight(&7), all.in_flight()), (10, 10));
    assert!(keyed.enter(&7).is_err() && all.enter().is_err());
    assert_eq!((keyed.stats().admitted, keyed.stats().denied), (Some(10), Some(15)));
}

#[test]
fn the_requests_of_a_dead_process_are_in_flight_for_two_holds_at_most() {
    // The shortest hold that a limiter takes.
    const SHORT: Duration = Duration::from_secs(1);
    let keyed = ConcurrencyLimiter::<u64>::builder(10).max_hold(SHORT);
    let keyed = keyed.build_shared(&Shared::anonymous()).expect("memory");
    let all = DirectConcurrency::builder(10).max_hold(SHORT).build_shared(&Shared::anonymous());
    let all = all.expect("memory");
    let clock = MonotonicClock::new();
    let begun = clock.now();
    let entered = forked([()], || {
        let guards = (0..6).filter_map(|_| keyed.enter(&7).ok()).map(core::mem::forget).count();
        guards + (0..6).filter_map(|_| all.enter().ok()).map(core::mem::forget).count()
    });
    assert_eq!(entered, [12]);
    let left = clock.now();
    let counted = (keyed.in_flight(&7), all.in_flight());
    // A busy machine may take the whole hold for a fork.
    assert!(counted == (6, 6) || clock.now().since(begun) >= SHORT, "{counted:?}");
    std::thread::sleep(left.saturating_add(2 * SHORT).since(clock.now()));
    assert_eq!((keyed.in_flight(&7), all.in_flight()), (0, 0));
    assert_eq!((0..11).filter_map(|_| all.enter().ok()).map(core::mem::forget).count(), 10);
}

#[test]
fn the_limit_of_requests_in_flight_changes_for_all_processes() {
    let folder = Folder::new();
    let build = |limit| {
        ConcurrencyLimiter::<u64>::builder(limit).max_hold(HOLD).build_shared(&folder.shared())
    };
    let (one, other) = (build(2).expect("created"), build(5).expect("attached"));
    assert_eq!(other.limit(), 2, "the limit in force");
    one.set_limit(3).expect("a limit");
    assert_eq!(other.limit(), 3);
    let guards: Vec<_> = (0..4).filter_map(|_| other.enter(&1).ok()).collect();
    assert_eq!((guards.len(), one.in_flight(&1)), (3, 3));
    drop(guards);
    assert_eq!(one.in_flight(&1), 0);
}

#[test]
fn requests_in_flight_need_a_longest_hold() {
    let keyed = ConcurrencyLimiter::<u64>::builder(1).build_shared(&Shared::anonymous());
    assert!(matches!(keyed, Err(SharedError::NoMaxHold)));
    let all = DirectConcurrency::builder(1).build_shared(&Shared::anonymous());
    assert!(all.expect_err("refused").to_string().contains("max_hold"));
    let none = DirectConcurrency::builder(0).max_hold(HOLD).build_shared(&Shared::anonymous());
    assert!(none.expect_err("refused").to_string().contains("limit"));
}

#[test]
fn keys_without_a_slot_share_the_overflow_of_all_processes() {
    for kind in KINDS {
        let algorithm: AnyAlgorithm = kind.algorithm.parse().expect("an algorithm");
        let gate = Limiter::<u64, _>::builder(quota(1))
            .algorithm(algorithm)
            .slots(kind.slots)
            .capacity(1)
            .on_full(OnFull::SharedOverflow(quota(100)))
            .build_shared(&Shared::anonymous())
            .expect("memory");
        // Each key may be granted one cell in a slot of its own. There are 16 slots.
        let keys = 500;
        assert_eq!((0..keys).filter(|key| gate.check(key).is_ok()).count(), 116, "{kind:?}");
        assert_eq!(gate.stats().overflowed, keys - 16, "{kind:?}");
        let more =
            forked([(); 2], || (keys..2 * keys).filter(|key| gate.check(key).is_ok()).count());
        assert_eq!(more, [0, 0], "{kind:?}: the overflow is used up");
    }
    let gate = ConcurrencyLimiter::<u64>::builder(1)
        .max_hold(HOLD)
        .capacity(1)
        .when_no_slot(WhenNoSlot::SharedOverflow(9))
        .build_shared(&Shared::anonymous())
        .expect("memory");
    let entered = forked([(); 2], || {
        (0..99).filter_map(|key| gate.enter(&key).ok()).map(core::mem::forget).count()
    });
    assert_eq!(entered.iter().sum::<usize>(), 16 + 9, "{entered:?}");
}

#[test]
fn decisions_are_counted_over_forked_processes() {
    let gate = Limiter::<u64>::builder(quota(100))
        .count_decisions()
        .build_shared(&Shared::anonymous())
        .expect("memory");
    forked([(); 4], || (0..60).filter(|_| gate.check(&7).is_ok()).count());
    assert_eq!((gate.stats().admitted, gate.stats().denied), (Some(100), Some(140)));
}

/// Leases stay in their process. A process that ends loses the cells that its threads had taken ahead.
#[test]
fn leases_of_hot_keys_in_several_processes_keep_the_limit() {
    let gate = Limiter::<u64>::builder(quota(200))
        .algorithm(Gcra::new().leases(8))
        .lease_hot_keys()
        .build_shared(&Shared::anonymous())
        .expect("memory");
    let granted = forked([(); 4], || {
        std::thread::scope(|scope| {
            let ask = || (0..100).filter(|_| gate.check(&7).is_ok()).count();
            let threads = [scope.spawn(ask), scope.spawn(ask)];
            threads.map(|thread| thread.join().expect("counted")).iter().sum()
        })
    });
    let all: usize = granted.iter().sum();
    // The burst is lower by a lease, and each of eight threads may have lost one.
    assert!((200 - 9 * 8..=200).contains(&all), "{granted:?}");
}

/// An open file without content.
fn empty(folder: &Folder) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).open(folder.path()).expect("a file")
}

#[test]
fn a_passed_descriptor_is_given_a_block_once() {
    let folder = Folder::new();
    let passed = || Shared::descriptor(OwnedFd::from(empty(&folder)));
    let granted = forked([(); 4], || {
        let gate = KINDS[0].build(&passed(), quota(100)).expect("a block");
        (0..60).filter(|_| gate.check(&7).is_ok()).count()
    });
    assert_eq!(granted.iter().sum::<usize>(), 100, "{granted:?}");
    assert!(KINDS[1].build(&passed(), quota(100)).is_err(), "another choice");
    assert!(KINDS[0].build(&passed(), quota(100)).expect("attached").check(&7).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_passed_file_in_memory_that_allows_it_is_sealed_against_truncation() {
    use std::os::fd::FromRawFd;
    // SAFETY: a name that ends with a zero, and flags that exist.
    let made = unsafe { libc::memfd_create(c"passed".as_ptr(), libc::MFD_ALLOW_SEALING) };
    assert!(made >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: it was opened just now, and nothing else owns it.
    let file = unsafe { File::from_raw_fd(made) };
    let passed = OwnedFd::from(file.try_clone().expect("a copy"));
    let gate = KINDS[0].build(&Shared::descriptor(passed), quota(2)).expect("a block");
    let error = file.set_len(0).expect_err("sealed");
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(gate.check(&7).is_ok());
}

#[test]
fn a_passed_file_of_a_killed_creator_is_completed_and_no_other_is_changed() {
    let folder = Folder::new();
    let passed = || Shared::descriptor(OwnedFd::from(empty(&folder)));
    drop(KINDS[0].build(&passed(), quota(100)).expect("a block"));
    let bytes = empty(&folder).metadata().expect("a file").len();
    // As it is before the header is written.
    let file = empty(&folder);
    file.set_len(0).expect("emptied");
    file.set_len(bytes).expect("zeros");
    assert!(KINDS[0].build(&passed(), quota(100)).expect("a block").check(&7).is_ok());
    file.set_len(0).expect("emptied");
    file.set_len(bytes + 4_096).expect("zeros");
    let error = KINDS[0].build(&passed(), quota(100)).expect_err("refused");
    assert!(matches!(error, SharedError::OtherLength { .. }), "{error}");
}
