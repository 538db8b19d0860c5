//! Clocks that are frozen, jump, or disagree.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::Oracle;
use tollgate::limiter::SlotLayout;
use tollgate::{AnyAlgorithm, Direct, Limiter, ManualClock, Quota, Tick};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
const YEAR: u64 = 365 * DAY;

fn named(name: &str, quota: Quota) -> Direct<AnyAlgorithm, ManualClock> {
    let algorithm: AnyAlgorithm = name.parse().expect("a name");
    Direct::builder(quota).clock(ManualClock::new()).algorithm(algorithm).build().expect("in range")
}

/// Bound: what the quota grants at one instant, for ever.
#[test]
fn a_frozen_clock_grants_the_burst_once() {
    for name in AnyAlgorithm::NAMES {
        for at in [0, 1, SECOND, YEAR, u64::MAX - 1, u64::MAX] {
            let gate = named(name, Quota::per_minute(60));
            let now = Tick::from_nanos(at);
            let granted = (0..50_000).filter(|_| gate.ask().at(now).check().is_ok()).count();
            assert_eq!(granted, 60, "{name} at {at}");
        }
    }
}

/// Bound: one burst for each jump ahead. The burst is charged at the later time, and all earlier
/// times are denied until they have caught up, so going back grants nothing. A log recognizes jumps
/// back of up to an hour, the other algorithms of any length.
#[test]
fn a_clock_that_jumps_years_and_back_grants_one_burst_for_each_jump_ahead() {
    for name in AnyAlgorithm::NAMES {
        let gate = named(name, Quota::per_minute(60));
        let back_most = gate.params().skew_tolerance().map_or(u64::MAX, nanos);
        let drain = |at: u64| {
            (0..1_000).filter(|_| gate.ask().at(Tick::from_nanos(at)).check().is_ok()).count()
        };
        let mut last = YEAR;
        assert_eq!(drain(last), 60, "{name}");
        for later in [2 * YEAR, 4 * YEAR, 4 * YEAR + DAY, u64::MAX - 3 * YEAR, u64::MAX] {
            if later - last > 3 * YEAR && back_most < u64::MAX {
                break; // beyond the horizon of a log
            }
            assert_eq!(drain(later), 60, "{name} at {later}");
            last = later;
            for back in [1, SECOND, 3_000 * SECOND, DAY, YEAR, last, 0] {
                if back <= back_most {
                    assert_eq!(drain(last - back), 0, "{name} back from {last} by {back}");
                }
            }
        }
    }
}

/// Clocks of cores differ by microseconds, and a thread may be suspended between reading the clock
/// and deciding.
///
/// Bound: burst + rate x span. The span runs from the latest time that any thread has passed.
#[test]
fn threads_whose_clocks_differ_share_one_quota() {
    const RATE: u64 = 100_000;
    const END: u64 = 200_000_000;
    for (slots, burst) in [(SlotLayout::Wide, 50), (SlotLayout::Compact, 5_000)] {
        let gate: Limiter<str, _, _> = Limiter::builder(Quota::per_second(RATE).burst(burst))
            .clock(ManualClock::new())
            .capacity(1_000)
            .slots(slots)
            .build()
            .expect("in range");
        // The first request uses a clock that is right; otherwise the span would begin with one
        // that is behind.
        assert!(gate.ask("one").at(Tick::from_nanos(SECOND)).check().is_ok());
        let latest = AtomicU64::new(SECOND);
        let run = |skew_nanos: u64| {
            let (mut granted, mut turn) = (0_u64, skew_nanos);
            loop {
                let true_now = latest.fetch_add(500, Relaxed);
                if true_now >= SECOND + END {
                    return granted;
                }
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let behind = (turn >> 40) % (skew_nanos + 1);
                let now = Tick::from_nanos(true_now - behind);
                granted += u64::from(gate.ask("one").at(now).check().is_ok());
            }
        };
        let granted: u64 = thread::scope(|scope| {
            let skews = [0, 4_000, 4_000, 3_000_000];
            let threads = skews.map(|skew| scope.spawn(move || run(skew)));
            1 + threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>()
        });
        // The time unit of a burst of half a millisecond is shorter than a cell's interval.
        let max = burst + RATE * END / SECOND + 1;
        assert!(granted <= max, "{granted} of {max}, {slots:?}");
        // 400,000 requests for 20,000 cells. The clocks that are right get nearly all of them,
        // unless the thread that is behind asks thousands of times before the others begin.
        assert!(granted > max / 2, "{granted} of {max}, {slots:?}");
    }
}

/// A suspended machine resumes later; some threads have read the clock before it was suspended.
///
/// Bound: one burst from before, and one for the time since.
#[test]
fn threads_that_slept_through_a_suspension_are_granted_no_more() {
    for name in AnyAlgorithm::NAMES {
        let gate = named(name, Quota::per_minute(60));
        let slept = gate.params().skew_tolerance().map_or(3 * DAY, |max| nanos(max).min(3 * DAY));
        let (before, after) = (Tick::from_nanos(DAY), Tick::from_nanos(DAY + slept));
        let granted: usize = thread::scope(|scope| {
            let gate = &gate;
            let threads = [before, after, before, after].map(|now| {
                scope.spawn(move || {
                    (0..5_000).filter(|_| gate.ask().at(now).check().is_ok()).count()
                })
            });
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert!((60..=120).contains(&granted), "{name}: {granted}");
        assert!(gate.ask().at(after).check().is_err(), "{name}");
    }
}

/// One cell a year, a thousand million a second, 2^32 at once: exactly the burst, and then what
/// time restores.
#[test]
fn extreme_quotas_grant_exactly_their_burst_and_rate() {
    let year = Duration::from_nanos(YEAR);
    for (quota, cell_nanos) in [
        (Quota::new(1, year), YEAR),
        (Quota::new(1, year).burst(100), YEAR),
        (Quota::per_second(1_000_000_000), 1),
        (Quota::per_second(1_000_000_000).burst(1 << 32), 1),
    ] {
        let gate = Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
        let burst = quota.burst_cells();
        let now = Tick::from_nanos(YEAR);
        assert_eq!(
            gate.ask().cells(burst + 1).at(now).check().expect_err("too much").retry_after(),
            None
        );
        assert_eq!(
            gate.ask().cells(u64::MAX).at(now).check().expect_err("too much").retry_after(),
            None
        );
        assert!(gate.ask().cells(burst).at(now).check().is_ok(), "{quota}");
        let denied = gate.ask().at(now).check().expect_err("all is spent");
        let wait = denied.retry_after().expect("the cell is restored");
        assert!(wait.as_nanos() <= u128::from(cell_nanos) && !wait.is_zero(), "{quota}: {wait:?}");
        assert!(gate.ask().at(now.saturating_add(wait)).check().is_ok(), "{quota}");
    }
}

/// Bound: the skew tolerance that the limiter states before its quota changes. (It once stated
/// eleven years, and a clock that was an hour behind was granted a fresh burst by the faster
/// quota.)
#[test]
fn a_faster_quota_still_holds_for_clocks_within_the_stated_skew_tolerance() {
    for first in [Quota::per_minute(1), Quota::per_second(10), Quota::per_second(31_250)] {
        let clock = ManualClock::new();
        let build = Direct::builder(first).algorithm(DynamicGcra::new()).clock(clock);
        let gate = build.build().expect("in range");
        let tolerance = gate.params().skew_tolerance().expect("a ring");
        let (changed, now) = (Tick::from_nanos(YEAR), Tick::from_nanos(YEAR + DAY));
        let mut rates = 0;
        for rate in (0..30).map(|bits| 1_u64 << bits) {
            let faster = gate.set_quota_at(Quota::per_second(rate), Inherit::Reset, changed);
            if faster.is_ok() {
                rates += 1;
                gate.reset();
                assert!(gate.ask().cells(rate).at(now).check().is_ok(), "{first}, then {rate}/s");
                let behind = now.saturating_sub(tolerance);
                assert!(gate.ask().at(behind).check().is_err(), "{first}, then {rate}/s");
            }
        }
        assert!(rates > 5, "{first}: {rates}");
    }
}

/// The oracle gives the same answers for a clock that jumps between both ends of the range;
/// for a log, at each end separately.
#[test]
fn decisions_at_both_ends_of_time_agree_with_the_oracle() {
    let quota = Quota::per_minute(60);
    for (name, ends) in AnyAlgorithm::NAMES.iter().flat_map(|name| {
        let is_bounded = named(name, quota).params().skew_tolerance().is_some();
        let apart = [vec![0], vec![1]];
        if is_bounded { apart.to_vec() } else { vec![vec![0, 1]] }.into_iter().map(|e| (*name, e))
    }) {
        let gate = named(name, quota);
        let mut model = gate.params().oracle();
        let mut turn = 7_u64;
        for _ in 0..5_000 {
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let near = (turn >> 33) % (100 * SECOND);
            let is_late = ends[usize::try_from(turn >> 63).expect("a bit") % ends.len()] == 1;
            let at = if is_late { u64::MAX - near } else { near };
            let (now, n) = (Tick::from_nanos(at), (turn >> 20) % 4);
            let admitted = gate.ask().cells(n).at(now).check().is_ok();
            assert_eq!(admitted, model.decide(now, n).admitted, "{name} at {at}, {n} cells");
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("below 584 years")
}
