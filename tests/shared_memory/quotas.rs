//! The quota of a key holds over all processes, and is used up to the last cell.

use tollgate::shared::Shared;

use crate::workers::{Task, Worker};
use crate::{Folder, KINDS, forked, quota};

#[test]
fn four_processes_are_granted_exactly_a_hundred_cells_in_all() {
    for (index, kind) in KINDS.iter().enumerate() {
        let folder = Folder::new();
        let task = Task::in_turn(index, 100, 1, 60);
        let workers = [(); 4].map(|()| Worker::start(&folder.path(), task));
        let granted: u64 = workers.map(|worker| worker.granted()[0]).iter().sum();
        assert_eq!(granted, 100, "{kind:?}");
        let gate = kind.build(&folder.shared(), quota(100)).expect("attached");
        assert!(gate.check(&0).is_err(), "{kind:?}: what was used stays when all have ended");
        assert_eq!(gate.stats().claimed, 1, "{kind:?}: slots are counted over all processes");
    }
}

#[test]
fn fifty_processes_that_create_a_file_at_once_share_one() {
    let folder = Folder::new();
    let task = Task::in_turn(1, 100, 1, 4);
    let workers: Vec<_> = (0..50).map(|_| Worker::start(&folder.path(), task)).collect();
    let granted: u64 = workers.into_iter().map(|worker| worker.granted()[0]).sum();
    assert_eq!(granted, 100);
    assert_eq!(folder.names(), ["limits"], "no other file is left");
}

#[test]
fn a_limiter_in_anonymous_memory_decides_like_one_in_its_own() {
    for kind in KINDS {
        let gate = kind.build(&Shared::anonymous(), quota(5)).expect("memory");
        let granted = (0..1_000).filter(|round| gate.check(&(round % 100)).is_ok()).count();
        assert_eq!(granted, 500, "{kind:?}");
        assert_eq!(gate.len(), 100, "{kind:?}");
    }
}

#[test]
fn processes_that_are_forked_share_anonymous_memory() {
    for kind in KINDS {
        let gate = kind.build(&Shared::anonymous(), quota(100)).expect("memory");
        let granted = forked([(); 4], || (0..60).filter(|_| gate.check(&7).is_ok()).count());
        assert_eq!(granted.iter().sum::<usize>(), 100, "{kind:?}: {granted:?}");
        assert!(gate.check(&7).is_err());
    }
}

#[test]
fn two_limiters_of_one_process_share_a_file() {
    let folder = Folder::new();
    for kind in [KINDS[0], KINDS[7]] {
        let [one, other] =
            [(); 2].map(|()| kind.build(&folder.shared(), quota(10)).expect("a file"));
        for _ in 0..5 {
            assert!(one.check(&7).is_ok() && other.check(&7).is_ok());
        }
        assert!(one.check(&7).is_err() && other.check(&7).is_err());
        one.reset(&7);
        assert_eq!(other.check(&7).expect("reset by the other").remaining(), 9);
        std::fs::remove_file(folder.path()).expect("removed");
    }
}

#[test]
fn a_file_that_is_removed_while_in_use_stays_with_those_that_use_it() {
    let folder = Folder::new();
    let first = KINDS[0].build(&folder.shared(), quota(2)).expect("created");
    let second = KINDS[0].build(&folder.shared(), quota(2)).expect("attached");
    std::fs::remove_file(folder.path()).expect("removed");
    let later = KINDS[0].build(&folder.shared(), quota(2)).expect("created anew");
    assert!(first.check(&1).is_ok() && second.check(&1).is_ok());
    assert!(first.check(&1).is_err());
    assert_eq!(later.check(&1).expect("another file").remaining(), 1);
}
