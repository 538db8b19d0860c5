//! Killing a process at a random instant frees no cells, loses none, and blocks no other process.

use std::time::Duration;

use tollgate::Clock;
use tollgate::clock::MonotonicClock;

use crate::workers::{Task, Worker, add};
use crate::{Folder, Gate, KINDS, quota, quota_of, words};

/// The kinds whose processes are killed: wide and compact slots, and rings.
const KILLED: [usize; 5] = [0, 1, 4, 5, 7];
/// Processes that use the limiter while others are killed.
const OTHERS: usize = 4;

/// Processes that are killed, by test and kind of limiter; `TOLLGATE_KILLS` sets it.
fn kills() -> u64 {
    std::env::var("TOLLGATE_KILLS").map_or(12, |kills| kills.parse().expect("a number"))
}

/// A process that was killed: what it was granted, and whether it had decided anything.
struct Killed {
    granted: Vec<u64>,
    at_work: bool,
}

/// Starts a process and kills it: one of four within 10 ms of its start, the others at work.
fn start_and_kill(folder: &Folder, task: Task, random: &mut impl Iterator<Item = u64>) -> Killed {
    let mut next = || random.next().expect("endless") >> 20;
    let mut victim = Worker::start(&folder.path(), task);
    let pause = match next() % 4 {
        0 => next() % 10_000,
        _ => {
            victim.wait_until_ready();
            next() % 2_000
        }
    };
    std::thread::sleep(Duration::from_micros(pause));
    victim.kill();
    Killed { granted: victim.tally.granted(), at_work: victim.tally.asked() > 0 }
}

#[test]
fn processes_killed_at_random_instants_leave_every_key_exact_and_usable() {
    let mut random = words(std::process::id().into());
    let (mut killed, mut at_work) = (0, 0);
    for kind in KILLED {
        let mut left = kills();
        while left > 0 {
            let batch = killed_until_used_up(kind, left, &mut random);
            left -= batch.0;
            (killed, at_work) = (killed + batch.0, at_work + batch.1);
        }
    }
    println!("exact totals: {killed} processes killed, {at_work} of them after a decision");
    assert!(at_work > killed / 4, "{at_work} of {killed} were killed at work");
}

/// Kills up to `most` processes, until all keys are used up. Returns how many, and how many of them at work.
fn killed_until_used_up(
    kind: usize,
    most: u64,
    random: &mut impl Iterator<Item = u64>,
) -> (u64, u64) {
    const KEYS: u64 = 20;
    // A log keeps a word for each cell.
    let limit = if KINDS[kind].algorithm == "sliding-log" { 5_000 } else { 100_000 };
    let folder = Folder::new();
    let gate = KINDS[kind].build(&folder.shared(), quota(limit)).expect("created");
    let task = Task::in_turn(kind, limit, KEYS, u64::MAX);
    let mut others = [(); OTHERS].map(|()| Worker::start(&folder.path(), task));
    let mut granted = vec![0; usize::try_from(KEYS).expect("few")];
    let (mut killed, mut at_work) = (0, 0);
    while killed < most && (0..KEYS).any(|key| gate.ask(&key).peek().is_ok()) {
        let victim = start_and_kill(&folder, task, random);
        add(&mut granted, &victim.granted);
        killed += 1;
        at_work += u64::from(victim.at_work);
    }
    for other in &mut others {
        other.kill();
        add(&mut granted, &other.tally.granted());
    }
    for (key, granted) in (0..).zip(&mut granted) {
        while gate.check(&key).is_ok() {
            *granted += 1;
        }
    }
    // A process that is killed between a decision and its record leaves out one cell.
    let unwritten = killed + OTHERS as u64;
    let all: u64 = granted.iter().sum();
    assert!(granted.iter().all(|cells| *cells <= limit), "over the limit: {granted:?}");
    assert!(
        all + unwritten >= KEYS * limit,
        "{all} cells, {killed} processes killed: cells were lost"
    );
    assert_eq!((gate.stats().evicted, gate.len() as u64), (0, KEYS));
    for key in KEYS..KEYS + 200 {
        assert!(gate.check(&key).is_ok(), "a new key finds a slot");
    }
    assert_eq!(gate.len() as u64, KEYS + 200);
    (killed.max(1), at_work)
}

/// The quota of keys that come and go: a slot is idle, and free for another key, so soon after a cell.
const PERIOD: Duration = Duration::from_millis(5);
/// A small table, so that a slot that a killed process has left behind is a large part of it.
const SMALL: u64 = 128;
/// Keys that are asked for again and again, beside those that are asked for once.
const STAYING: u64 = 100;
/// The kinds that have such a period.
const CLAIMED: [usize; 5] = [0, 1, 3, 5, 7];

#[test]
fn processes_killed_while_they_claim_slots_leave_every_slot_usable() {
    let mut random = words(u64::from(std::process::id()) << 7 | 1);
    for kind in CLAIMED {
        let folder = Folder::new();
        let clock = MonotonicClock::new();
        let begin = clock.now();
        let gate = KINDS[kind].build_for(SMALL, &folder.shared(), quota_of(1, PERIOD));
        let gate = gate.expect("created");
        let mut seed = 0_u64;
        let mut task = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let (keys, asks) = (STAYING, u64::MAX);
            Task { kind, capacity: SMALL, cells: 1, period: PERIOD, keys, asks, seed }
        };
        let mut others = [(); OTHERS].map(|()| Worker::start(&folder.path(), task()));
        let mut granted = vec![0; usize::try_from(STAYING).expect("few")];
        let mut at_work = 0;
        for _ in 0..kills() {
            let victim = start_and_kill(&folder, task(), &mut random);
            add(&mut granted, &victim.granted);
            at_work += u64::from(victim.at_work);
        }
        for other in &mut others {
            other.kill();
            add(&mut granted, &other.tally.granted());
        }
        let elapsed = clock.now().since(begin);
        let periods = u64::try_from(elapsed.as_nanos() / PERIOD.as_nanos()).expect("soon");
        let (most, claimed) = (granted.iter().max().expect("keys"), gate.stats().claimed);
        let (kind, kills, slots) = (KINDS[kind], kills(), gate.occupancy().slots as u64);
        println!(
            "claims, {kind:?}: {kills} processes killed, {at_work} of them after a decision; {claimed} \
             claims of {slots} slots; at most {most} cells of a key in {periods} periods"
        );
        // A window has one cell of each period that the time touches.
        assert!(*most <= periods + 2, "{most} cells of a key in {periods} periods");
        assert!(claimed > 5 * slots, "{claimed} claims of {slots} slots");
        assert_eq!(gate.stats().evicted, 0);
        every_slot_is_usable(&gate);
    }
}

/// Nothing is live a while after the last decision, and keys then fill the slots again. These all ask at one time,
/// so that no key becomes idle meanwhile.
fn every_slot_is_usable(gate: &Gate) {
    std::thread::sleep(10 * PERIOD);
    let now = gate.clock().now();
    assert_eq!(gate.len_at(now), 0, "a key that is not asked for becomes idle");
    let slots = gate.occupancy_at(now).slots;
    let mut keys = STAYING..;
    for _ in 0..100 {
        for key in keys.by_ref().take(slots) {
            let _ = gate.ask(&key).at(now).check();
        }
        if gate.len_at(now) == slots {
            return;
        }
    }
    panic!("keys fill {} of {slots} slots", gate.len_at(now));
}
