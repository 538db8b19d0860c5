//! A quota that changes for all processes at once.

use std::time::Duration;

use tollgate::clock::MonotonicClock;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::shared::{Shared, SharedError};
use tollgate::{Direct, Limiter, OnFull, Quota, QuotaError};

use crate::{Folder, forked, quota, words};

type Changing = Limiter<u64, DynamicGcra, MonotonicClock>;

fn build(shared: &Shared, quota: Quota) -> Changing {
    let builder = Limiter::builder(quota).algorithm(DynamicGcra::new()).capacity(1_000);
    builder.on_full(OnFull::Deny).build_shared(shared).expect("memory")
}

#[test]
fn a_change_in_one_process_holds_in_the_others() {
    let gate = build(&Shared::anonymous(), quota(10));
    assert!(gate.check_n(&7, 10).is_ok());
    // A child grants ten more, and uses seven of them.
    let used = forked([()], || {
        gate.set_quota(quota(20), Inherit::Spent).expect("changed");
        (0..7).filter(|_| gate.check(&7).is_ok()).count()
    });
    assert_eq!((used, gate.quota().limit()), ([7], 20));
    assert_eq!((0..9).filter(|_| gate.check(&7).is_ok()).count(), 3);
    let all = Direct::builder(quota(10)).algorithm(DynamicGcra::new());
    let all = all.build_shared(&Shared::anonymous()).expect("memory");
    forked([()], || usize::from(all.set_quota(quota(5), Inherit::AsIs).is_ok()));
    assert_eq!((0..9).filter(|_| all.check().is_ok()).count(), 5);
}

#[test]
fn a_process_that_attaches_takes_the_quota_in_force() {
    let folder = Folder::new();
    let first = build(&folder.shared(), quota(10));
    let second = build(&folder.shared(), quota(500));
    assert_eq!(second.quota(), quota(10));
    first.set_quota(quota(30), Inherit::Spent).expect("changed");
    assert_eq!(second.quota(), quota(30));
    drop((first, second));
    let third = build(&folder.shared(), quota(10));
    assert_eq!(third.quota(), quota(30));
    assert_eq!((0..99).filter(|_| third.check(&1).is_ok()).count(), 30);
    let empty = Limiter::<u64>::builder(quota(1)).algorithm(DynamicGcra::start_empty());
    assert!(
        empty.capacity(1_000).build_shared(&folder.shared()).is_err(),
        "an option that differs"
    );
}

#[test]
fn a_change_that_cannot_be_leaves_the_quota() {
    let gate = build(&Shared::anonymous(), quota(10));
    assert_eq!(gate.set_quota(Quota::per_second(0), Inherit::AsIs), Err(QuotaError::ZeroLimit));
    assert_eq!(gate.quota(), quota(10));
    assert!(gate.set_quota(quota(11), Inherit::AsIs).is_ok());
}

#[test]
fn processes_that_are_killed_while_they_change_a_quota_stop_no_other() {
    const ROUNDS: u32 = 200;
    let gate = build(&Shared::anonymous(), quota(15));
    let (mut round, mut changed) = (0, 0);
    // On a busy machine, many a child is killed before it begins.
    while round < ROUNDS || changed <= ROUNDS / 10 && round < 20 * ROUNDS {
        round += 1;
        // SAFETY: the child changes the quota until it is killed, at the latest by its alarm.
        let child = unsafe { libc::fork() };
        // Otherwise the signal would go to all processes.
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            // SAFETY: it ends a child whose parent is gone, and nothing else.
            unsafe { libc::alarm(60) };
            for cells in (10..=20).cycle() {
                let _ = gate.set_quota(quota(cells), Inherit::Spent);
            }
        }
        std::thread::sleep(Duration::from_micros(200 + u64::from(round) % 7 * 131));
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, &raw mut status, 0);
        }
        assert!((10..=20).contains(&gate.quota().limit()), "{:?}", gate.quota());
        changed += u32::from(gate.quota() != quota(15));
        gate.set_quota(quota(15), Inherit::Spent).expect("no dead process is waited for");
        assert_eq!(gate.quota(), quota(15));
    }
    assert!(changed > ROUNDS / 10, "{changed} of {round} children changed it");
    assert_eq!((0..99).filter(|_| gate.check(&7).is_ok()).count(), 15);
}

#[test]
fn spoilt_words_of_a_quota_are_refused_or_passed_over() {
    let folder = Folder::new();
    let file = || std::fs::OpenOptions::new().write(true).open(folder.path()).expect("a file");
    let mut words = words(0x1234_5678);
    let mut refused = 0;
    for _ in 0..300 {
        let _ = std::fs::remove_file(folder.path());
        let gate = build(&folder.shared(), quota(10));
        assert!(gate.check(&7).is_ok());
        // The two quotas are the first pieces after the header.
        for _ in 0..8 {
            let place = 4_096 + words.next().expect("endless") % 1_024 / 8 * 8;
            let word = words.next().expect("endless").to_ne_bytes();
            std::os::unix::fs::FileExt::write_all_at(&file(), &word, place).expect("written");
        }
        let _ = (gate.check(&7), gate.check(&8), gate.quota(), gate.len());
        let _ = gate.set_quota(quota(11), Inherit::Reset);
        let _ = (gate.check(&7), gate.check(&8), gate.quota());
        let attached = Limiter::<u64>::builder(quota(10)).algorithm(DynamicGcra::new());
        match attached.capacity(1_000).on_full(OnFull::Deny).build_shared(&folder.shared()) {
            Ok(attached) => drop((attached.check(&7), attached.quota())),
            Err(SharedError::Spoilt { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0, "some were spoilt");
}
