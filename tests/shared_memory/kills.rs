//! Killing a process at a random instant frees no cells, loses none, and blocks no other process.

use std::time::Duration;

use crate::workers::{Task, Worker};
use crate::{Folder, KINDS, quota, words};

const KEYS: u64 = 20;
const LIMIT: u64 = 5_000;
/// Many more than the quota, so that it is used up.
const ROUNDS: u64 = 1_000_000;

/// Processes that are killed, by kind of limiter; `TOLLGATE_KILLS` sets it.
fn kills() -> u64 {
    std::env::var("TOLLGATE_KILLS").map_or(12, |kills| kills.parse().expect("a number"))
}

#[test]
fn processes_killed_at_random_instants_leave_every_key_exact_and_usable() {
    let mut random = words(std::process::id().into());
    for kind in [0, 1, 4, 5, 7] {
        let mut left = kills();
        while left > 0 {
            left -= killed_until_used_up(kind, left, &mut random);
        }
    }
}

/// Kills up to `most` processes, until all keys are used up. Returns how many.
fn killed_until_used_up(kind: usize, most: u64, random: &mut impl Iterator<Item = u64>) -> u64 {
    let folder = Folder::new();
    let gate = KINDS[kind].build(&folder.shared(), quota(LIMIT)).expect("created");
    let task = Task { kind, limit: LIMIT, keys: KEYS, rounds: ROUNDS };
    let mut others = [(); 4].map(|()| Worker::start(&folder.path(), task));
    let mut granted = vec![0; usize::try_from(KEYS).expect("few")];
    let count = |granted: &mut Vec<u64>, worker: Worker| {
        worker.granted().into_iter().for_each(|key| granted[key] += 1);
    };
    let mut killed = 0;
    while killed < most && (0..KEYS).any(|key| gate.ask(&key).peek().is_ok()) {
        let mut victim = Worker::start(&folder.path(), task);
        std::thread::sleep(Duration::from_micros(random.next().expect("endless") % 20_000));
        victim.kill();
        count(&mut granted, victim);
        killed += 1;
    }
    others.iter_mut().for_each(Worker::kill);
    others.into_iter().for_each(|worker| count(&mut granted, worker));
    for (key, granted) in (0..).zip(&mut granted) {
        while gate.check(&key).is_ok() {
            *granted += 1;
        }
    }
    // A process that is killed between a decision and its line leaves out one cell.
    let unwritten = killed + 4;
    let all: u64 = granted.iter().sum();
    assert!(granted.iter().all(|cells| *cells <= LIMIT), "over the limit: {granted:?}");
    assert!(
        all + unwritten >= KEYS * LIMIT,
        "{all} cells, {killed} processes killed: cells were lost"
    );
    assert_eq!((gate.stats().evicted, gate.len() as u64), (0, KEYS));
    for key in KEYS..KEYS + 200 {
        assert!(gate.check(&key).is_ok(), "a new key finds a slot");
    }
    assert_eq!(gate.len() as u64, KEYS + 200);
    killed.max(1)
}
