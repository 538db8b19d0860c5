//! Processes that share a limiter agree on the time.

use std::os::fd::RawFd;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use tollgate::Clock;
use tollgate::shared::Shared;

use crate::tally::Tally;
use crate::workers::this_test;
use crate::{Folder, Gate, KINDS, quota};

const VARIABLE: &str = "TOLLGATE_TEST_CLOCK";
/// How far two clocks may be apart.
const BOUND_NANOS: i64 = 10_000;
/// Exchanges of which the fastest bound the difference.
const EXCHANGES_MAX: u32 = 2_000_000;

/// Words of a tally.
const REQUEST: usize = 0;
const REPLY: usize = 1;
const TIME: usize = 2;

/// How long clocks are compared, in seconds; `TOLLGATE_CLOCK_SECONDS` sets it.
fn duration() -> Duration {
    let seconds = std::env::var("TOLLGATE_CLOCK_SECONDS");
    Duration::from_secs_f64(seconds.map_or(0.3, |seconds| seconds.parse().expect("a number")))
}

/// A process that tells the time of its limiter's clock, ahead by so much.
fn start(path: &Path, ahead_nanos: u64, tally: &Tally) -> Child {
    let task = format!("{ahead_nanos} {} {}", tally.fd(), path.display());
    this_test("clocks::tell").env(VARIABLE, task).spawn().expect("a process")
}

/// Lets the other thread run where there is no second processor.
fn wait_for(mut has_happened: impl FnMut() -> bool) {
    while !(0..1_000).any(|_| has_happened()) {
        std::thread::yield_now();
    }
}

/// Tells the time, in a process that [`start`] has started.
#[test]
#[ignore = "the work of a process that other tests start"]
fn tell() {
    let task = std::env::var(VARIABLE).expect("started by another test");
    let words: Vec<&str> = task.splitn(3, ' ').collect();
    let [ahead, fd, path] = words[..] else { panic!("not a task: {task}") };
    let tally = Tally::inherited(fd.parse::<RawFd>().expect("a number"), 0);
    let gate = KINDS[0].build(&Shared::file(path), quota(1)).expect("attached");
    let ahead: u64 = ahead.parse().expect("a number");
    let mut told = 0;
    loop {
        wait_for(|| tally.is_over() || tally.free(REQUEST).load(Acquire) != told);
        if tally.is_over() {
            return;
        }
        told = tally.free(REQUEST).load(Acquire);
        tally.free(TIME).store(gate.clock().now().as_nanos() + ahead, Relaxed);
        tally.free(REPLY).store(told, Release);
    }
}

/// Between what the other process's clock is ahead of this one's, in nanoseconds.
#[derive(Debug)]
struct Ahead {
    least: i64,
    most: i64,
}

/// Asks the other process for its time until the difference is known to be within the bound, or not to be. Its
/// time is read after the request and before the reply, by both clocks.
fn compare(gate: &Gate, tally: &Tally, request: &mut u64) -> Ahead {
    let now = || i64::try_from(gate.clock().now().as_nanos()).expect("centuries");
    let mut ahead = Ahead { least: i64::MIN, most: i64::MAX };
    for _ in 0..EXCHANGES_MAX {
        *request += 1;
        let before = now();
        tally.free(REQUEST).store(*request, Release);
        wait_for(|| tally.free(REPLY).load(Acquire) == *request);
        let after = now();
        let told = i64::try_from(tally.free(TIME).load(Relaxed)).expect("centuries");
        ahead.least = ahead.least.max(told - after);
        ahead.most = ahead.most.min(told - before);
        let is_within = -BOUND_NANOS <= ahead.least && ahead.most <= BOUND_NANOS;
        let is_beyond = ahead.least > BOUND_NANOS || ahead.most < -BOUND_NANOS;
        if is_within || is_beyond {
            break;
        }
    }
    ahead
}

#[test]
fn two_processes_agree_on_the_time_to_ten_microseconds() {
    let folder = Folder::new();
    let gate = KINDS[0].build(&folder.shared(), quota(1)).expect("created");
    let tally = Tally::new(0);
    let mut other = start(&folder.path(), 0, &tally);
    let (mut request, mut times, mut widest) = (0, 0, 0);
    let end = gate.clock().now().saturating_add(duration());
    while times == 0 || gate.clock().now() < end {
        let ahead = compare(&gate, &tally, &mut request);
        assert!(ahead.least <= 0 && ahead.most >= 0, "the clocks differ: {ahead:?}");
        let bound = ahead.most.max(-ahead.least);
        assert!(bound <= BOUND_NANOS, "no exchange was fast enough: {ahead:?}");
        (times, widest) = (times + 1, widest.max(bound));
        std::thread::sleep(Duration::from_millis(10));
    }
    tally.end();
    assert!(other.wait().expect("ended").success());
    println!(
        "clocks: compared {times} times in {:?}, each time within {widest} ns at most",
        duration()
    );
}

#[test]
fn a_clock_that_is_twenty_microseconds_ahead_is_noticed() {
    let folder = Folder::new();
    let gate = KINDS[0].build(&folder.shared(), quota(1)).expect("created");
    let tally = Tally::new(0);
    let mut other = start(&folder.path(), 20_000, &tally);
    let ahead = compare(&gate, &tally, &mut 0);
    tally.end();
    assert!(other.wait().expect("ended").success());
    assert!(ahead.least > BOUND_NANOS && ahead.most >= 20_000, "{ahead:?}");
}
