//! Algorithms with a ring beside the state word: one bucket, and many keys, used by many threads.
//!
//! A decision then reads the state in several loads and writes it in several stores. A charge that
//! is lost or counted twice shows in the total.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::{
    Direct, Limiter, ManualClock, OnFull, Quota, SlidingCounter, SlidingLog, SubWindows, Tick,
};

use crate::{Random, drain, together};

const SECOND: u64 = 1_000_000_000;
/// Far from the origin, so that clocks can be behind.
const START: Tick = Tick::from_nanos(3_600 * SECOND);

fn after(nanos: u64) -> Tick {
    START.saturating_add(Duration::from_nanos(nanos))
}

fn direct<A: Algorithm>(quota: Quota, algorithm: A) -> Direct<A, ManualClock> {
    let clock = ManualClock::new();
    Direct::builder(quota).algorithm(algorithm).clock(clock).build().expect("in range")
}

/// Takes the quota's cells, in charges of all sizes, at each of the instants, with nothing left
/// between them. Each instant starts from the ring that the one before left.
fn exact_while_time_stands_still<A: Algorithm + Copy + Sync>(
    quota: Quota,
    algorithm: A,
    instants: &[(Tick, u64)],
) where
    A::Params: Sync,
{
    for threads in [2, 4, 8] {
        let gate = direct(quota, algorithm);
        for (now, expected) in instants {
            let granted: u64 = together(threads, |index| {
                let mut random = Random::new(index + 77);
                let mut sum = 0;
                for _ in 0..2_000 {
                    let n = random.below(6);
                    sum += gate.ask().cells(n).at(*now).check().map_or(0, |_| n);
                }
                sum + drain(|| gate.ask().at(*now).check().is_ok())
            })
            .iter()
            .sum();
            assert_eq!(granted, *expected, "{threads} threads, {now:?}");
        }
    }
}

#[test]
fn sub_windows_grant_exactly_the_cells_that_have_left() {
    let quota = Quota::per_minute(6_000);
    // All cells in the first sub-window of ten seconds; then none until it leaves, a minute later.
    let instants = [
        (after(0), 6_000),
        (after(10 * SECOND), 0),
        (after(60 * SECOND - 1), 0),
        (after(60 * SECOND), 6_000),
        (after(400 * SECOND), 6_000),
    ];
    exact_while_time_stands_still(quota, SubWindows::new(), &instants);
}

#[test]
fn a_sliding_counter_grants_exactly_what_its_estimate_leaves() {
    let quota = Quota::per_minute(6_000);
    // A quarter of the 6,000 has left when a quarter of the next minute has passed, another quarter
    // at its half. At its end the 3,000 granted in it still count in full.
    let instants = [
        (after(0), 6_000),
        (after(60 * SECOND), 0),
        (after(75 * SECOND), 1_500),
        (after(90 * SECOND), 1_500),
        (after(120 * SECOND), 3_000),
    ];
    exact_while_time_stands_still(quota, SlidingCounter::new(), &instants);
}

#[test]
fn a_log_grants_exactly_the_cells_that_have_left() {
    let quota = Quota::per_minute(6_000);
    let log = SlidingLog::new().and(Quota::new(4_000, Duration::from_secs(10)));
    let instants = [
        (after(0), 4_000),
        (after(5 * SECOND), 0),
        (after(10 * SECOND), 2_000),
        (after(60 * SECOND - 1), 0),
        (after(60 * SECOND), 4_000),
        (after(70 * SECOND - 1), 0),
        (after(70 * SECOND), 2_000),
    ];
    exact_while_time_stands_still(quota, log, &instants);
}

/// Denied attempts also advance the word. No admitted event may be lost by that.
#[test]
fn a_log_that_counts_denials_grants_exactly_its_limit() {
    for threads in [2, 4, 8] {
        let gate = direct(Quota::per_minute(500), SlidingLog::new().count_denials());
        let granted: u64 = together(threads, |index| {
            let mut random = Random::new(index);
            (0..20_000)
                .map(|_| after(random.below(4_000) * 1_000))
                .map(|now| u64::from(gate.ask().at(now).check().is_ok()))
                .sum::<u64>()
        })
        .iter()
        .sum();
        assert_eq!(granted, 500, "{threads} threads");
    }
}

/// The time and the cells of every grant of all threads, in the order of time.
fn in_order(granted: Vec<Vec<(u64, u64)>>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = granted.into_iter().flatten().collect();
    all.sort_unstable();
    all
}

/// The largest number of cells in any span of `nanos`.
fn max_within(events: &[(u64, u64)], nanos: u64) -> u64 {
    let (mut first, mut inside, mut max) = (0, 0, 0);
    for (at, n) in events {
        inside += n;
        while events[first].0 + nanos <= *at {
            inside -= events[first].1;
            first += 1;
        }
        max = max.max(inside);
    }
    max
}

/// No window of a log has more events than its limit, and the same holds for its further rate,
/// however far the threads' clocks are behind.
///
/// The times are those of the requests. An event is entered at that time or later, and a clock that
/// is behind counts all events ahead of it. So of all requests in one window, the one that was
/// decided last was counted together with all others.
#[test]
fn no_window_of_a_log_exceeds_its_limit_while_time_advances() {
    for (limit, nanos, step) in [(10, 100_000, 900), (200, 1_000_000, 900), (64, 50_000, 60)] {
        let quota = Quota::new(limit, Duration::from_nanos(nanos));
        let short = Quota::new((limit / 3).max(3), Duration::from_nanos(nanos / 10));
        let gate = direct(quota, SlidingLog::new().and(short));
        let (units, per_nanos) = gate.params().grid().ratio();
        let unit = per_nanos.div_ceil(units);
        let clock = AtomicU64::new(START.as_nanos());
        let granted = together(4, |index| {
            let mut random = Random::new(index + 5);
            let mut granted = Vec::new();
            for _ in 0..40_000 {
                // One shared clock that all threads advance. A thread that was suspended is far
                // behind.
                let now = clock.fetch_add(random.below(step), Ordering::Relaxed);
                let now = now - random.below(4_001);
                let n = 1 + random.below(3);
                if gate.ask().cells(n).at(Tick::from_nanos(now)).check().is_ok() {
                    granted.push((now, n));
                }
            }
            granted
        });
        let events = in_order(granted);
        let max = max_within(&events, nanos - unit);
        assert!(max <= limit, "{max} of {limit} in {nanos} ns");
        assert!(max > limit / 2, "asked for too rarely: {max} of {limit}");
        let max = max_within(&events, nanos / 10 - unit);
        assert!(max <= short.limit(), "{max} of {short}");
    }
}

/// A clock that is behind charges the latest sub-window, so time advances while all threads wait.
/// Then no clock is further behind than its 4 us, and a span of five sub-windows lies within six
/// successive ones.
#[test]
fn no_successive_sub_windows_exceed_the_limit_while_time_advances() {
    const PHASES: u64 = 2_000;
    let quota = Quota::new(120, Duration::from_micros(600));
    let gate = direct(quota, SubWindows::new());
    let phase_over = Barrier::new(4);
    let granted = together(4, |index| {
        let mut random = Random::new(index + 5);
        let mut granted = Vec::new();
        for phase in 0..PHASES {
            for _ in 0..15 {
                let now = START.as_nanos() + phase * 17_000 - random.below(4_001);
                let n = 1 + random.below(3);
                if gate.ask().cells(n).at(Tick::from_nanos(now)).check().is_ok() {
                    granted.push((now, n));
                }
            }
            phase_over.wait();
        }
        granted
    });
    let max = max_within(&in_order(granted), 500_000 - 4_001);
    assert!(max <= 120, "{max} in six successive sub-windows");
    assert!(max > 60, "asked for too rarely: {max}");
}

/// Slots change hands again and again, and the old ring beside a slot must mean nothing to the next
/// key. With a frozen clock a key gets its limit, or more only by being evicted.
#[test]
fn each_eviction_of_a_key_with_a_ring_grants_at_most_one_more_limit() {
    fn run<A: Algorithm + Copy>(algorithm: A)
    where
        Limiter<usize, A, ManualClock>: Sync,
    {
        const LIMIT: u64 = 5;
        for round in 0..6 {
            let gate: Limiter<usize, A, _> = Limiter::builder(Quota::per_minute(LIMIT))
                .algorithm(algorithm)
                .clock(ManualClock::new())
                .capacity(1)
                .on_full(if round % 2 == 0 { OnFull::EvictNearestIdle } else { OnFull::Deny })
                .hash_seed(round)
                .build()
                .expect("in range");
            // Two and a half minutes between the phases, so that all keys are idle.
            for phase in 0..6 {
                let before = gate.stats().evicted;
                let results = together(4, |index| {
                    let mut random = Random::new(index * 31 + round + phase);
                    let mut granted = vec![0_u64; 48];
                    for _ in 0..1_500 {
                        let key = usize::try_from(random.below(48)).expect("below 48");
                        let now = after(phase * 150 * SECOND);
                        granted[key] += u64::from(gate.ask(&key).at(now).check().is_ok());
                    }
                    granted
                });
                let sum = |key: usize| results.iter().map(|granted| granted[key]).sum::<u64>();
                let granted: u64 = (0..48).map(sum).sum();
                let evicted = gate.stats().evicted - before;
                assert!((0..48).all(|key| sum(key) <= LIMIT * (1 + evicted)));
                if round % 2 == 0 {
                    assert!(evicted > 0 && granted <= LIMIT * (48 + evicted), "{granted}");
                } else {
                    assert_eq!((evicted, granted), (0, LIMIT * 16), "sixteen keys have slots");
                }
            }
        }
    }
    run(SubWindows::new());
    run(SlidingCounter::new());
    run(SlidingLog::new());
    run(SlidingLog::new().and(Quota::new(5, Duration::from_secs(20))));
}
