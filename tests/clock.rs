//! The default clock beside the system's.
//!
//! The measurement of a minute in several processes is not part of the ordinary run:
//!
//! ```sh
//! cargo test -p tollgate --test clock -- --ignored --nocapture
//! ```

#![allow(clippy::disallowed_types, reason = "the system's clock is what is compared with")]

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tollgate::Clock;
use tollgate::clock::{CoarseClock, QuantaClock, TieredClock};

/// The error at any time that `QuantaClock` documents.
const BOUND: Duration = Duration::from_millis(1);

/// The counters of two cores may differ, and a thread may move from one to the other.
const CORES: Duration = Duration::from_micros(50);

/// Reads a clock between two readings of the system's, and returns how far it is outside of them,
/// ahead and behind.
fn off(clock: &impl Clock, origin: Instant) -> (Duration, Duration) {
    let before = origin.elapsed();
    let read = Duration::from_nanos(clock.now().as_nanos());
    let after = origin.elapsed();
    (read.saturating_sub(after), before.saturating_sub(read))
}

/// The clock begins some time before or after the origin, so its first reading is taken away.
fn watch(clock: &impl Clock, span: Duration, pause: impl Fn()) -> Duration {
    let began = (Instant::now(), clock.now());
    let origin = began.0 - Duration::from_nanos(began.1.as_nanos());
    let (mut worst, mut last) = (Duration::ZERO, began.1);
    while began.0.elapsed() < span {
        let (ahead, behind) = off(clock, origin);
        worst = worst.max(ahead).max(behind);
        let now = clock.now();
        assert!(last.since(now) <= CORES, "{last:?}, then {now:?}");
        last = now;
        pause();
    }
    worst
}

#[test]
fn a_busy_clock_and_a_seldom_read_one_keep_the_systems_time() {
    let (busy, seldom) = (QuantaClock::new(), QuantaClock::new());
    thread::scope(|scope| {
        let seldom = scope.spawn(move || {
            watch(&seldom, Duration::from_secs(3), || thread::sleep(Duration::from_millis(700)))
        });
        let busy = watch(&busy, Duration::from_secs(3), || ());
        let seldom = seldom.join().expect("no step back");
        assert!(busy < BOUND && seldom < BOUND, "busy: {busy:?} off, seldom: {seldom:?}");
    });
}

#[test]
fn clones_and_the_clocks_that_are_refreshed_from_it_agree() {
    let coarse = CoarseClock::new();
    let tiered = TieredClock::new(coarse.clone());
    let precise = QuantaClock::new();
    let clone = precise.clone();
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(10));
        let (first, second, third) = (precise.now(), clone.now(), precise.now());
        assert!(first.since(second) <= CORES && second.since(third) <= CORES);
        let (before, refreshed, after) = (tiered.now(), coarse.refresh(), tiered.now());
        assert!(before.since(refreshed) <= CORES && refreshed.since(after) <= CORES);
    }
}

/// Processes that measure at once.
const PROCESSES: usize = 5;
const IS_CHILD: &str = "TOLLGATE_CLOCK_CHILD";

/// Prints how many parts in a million the clocks differ from the system's over a minute, in each of
/// several processes, and fails if it is more than one for the default clock.
#[test]
#[ignore = "takes a minute"]
fn a_minute_is_a_minute_within_1_ppm_in_every_process() {
    if std::env::var_os(IS_CHILD).is_some() {
        return measure();
    }
    let program = std::env::current_exe().expect("the test's own file");
    let child = || {
        let name = "a_minute_is_a_minute_within_1_ppm_in_every_process";
        let mut command = Command::new(&program);
        command.args([name, "--exact", "--ignored", "--nocapture"]).env(IS_CHILD, "1");
        command.spawn().expect("starts")
    };
    let children: Vec<_> = (0..PROCESSES).map(|_| child()).collect();
    for mut child in children {
        assert!(child.wait().expect("ends").success(), "see above");
    }
}

fn measure() {
    let (clock, counter) = (QuantaClock::new(), quanta::Clock::new());
    // The three clocks, read as close together as can be.
    let read = || {
        let attempt = |_| {
            let before = counter.raw();
            let (system, ours) = (Instant::now(), clock.now());
            (counter.raw() - before, system, ours, before)
        };
        (0..100).map(attempt).min_by_key(|(took, ..)| *took).expect("some")
    };
    let (_, system, ours, ticks) = read();
    let mut worst = Duration::ZERO;
    while system.elapsed() < Duration::from_secs(60) {
        let (_, now, then, _) = read();
        worst = worst.max((now - system).abs_diff(then.since(ours)));
        thread::sleep(Duration::from_millis(1));
    }
    let (_, then, theirs, raw) = read();
    let passed = (then - system).as_nanos() as f64;
    let ppm = |nanos: f64| (nanos / passed - 1.0) * 1e6;
    let by_quanta = ppm(counter.delta_as_nanos(ticks, raw) as f64);
    let by_ours = ppm(theirs.since(ours).as_nanos() as f64);
    println!(
        "ppm in a minute: quanta {by_quanta:+.3}, QuantaClock {by_ours:+.3}; at most {worst:?} off"
    );
    assert!(by_ours.abs() < 1.0 && worst < BOUND);
}
