//! The rate that a client gets if it takes all it can, from one cell a year to one a nanosecond.
//!
//! At the instant of an admission, the rate has no error to average away: however many cells came
//! beyond the burst, their time must be exact to the nanosecond, except for one unit of the grid. A
//! bound in percent would hide drift; this one does not.

use std::time::Duration;

use tollgate::internals::StateMachine;
use tollgate::{Direct, FixedWindow, ManualClock, Quota, Tick};

use crate::bodies::grid::nanos;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 3_600 * SECOND;
const YEAR: u64 = 365 * DAY;

/// Limit, and period in nanoseconds.
const RATES: [(u64, u64); 26] = [
    (1, YEAR),
    (1, 30 * DAY),
    (1, DAY),
    (7, DAY),
    (1, 3_600 * SECOND),
    (1, 60 * SECOND),
    (1, SECOND),
    (3, SECOND),
    (7, SECOND),
    (10, SECOND),
    (100, SECOND),
    (1_000, SECOND),
    (10_000, SECOND),
    (100_000, SECOND),
    (999_983, SECOND),
    (1_000_000, SECOND),
    (1_000_003, SECOND),
    (10_000_000, SECOND),
    (99_999_989, SECOND),
    (100_000_000, SECOND),
    (300_000_000, SECOND),
    (600_000_000, SECOND),
    (700_000_001, SECOND),
    (999_999_937, SECOND),
    (999_999_999, SECOND),
    (1_000_000_000, SECOND),
];

/// The whole life of a clock, and then some room.
const LATEST: u64 = u64::MAX - 20 * YEAR;

fn exact_nanos(cells: u64, limit: u64, period: u64) -> u128 {
    (u128::from(cells) * u128::from(period)).div_ceil(limit.into())
}

/// A client that always retries at the retry time.
fn jumping_client(limit: u64, period: u64, burst: u64, cells_at_once: u64) {
    let quota = Quota::new(limit, Duration::from_nanos(period)).burst(burst);
    let gate = Direct::new(quota).expect("in range");
    let (units, per_nanos) = gate.params().grid().ratio();
    let unit_nanos = u128::from(per_nanos).div_ceil(units.into());
    let start = 12_345_678_901_u64;
    let (mut now, mut granted) = (start, 0_u64);
    while granted < 20_000 * cells_at_once && now < LATEST {
        if let Err(denied) = gate.ask().cells(cells_at_once).at(Tick::from_nanos(now)).check() {
            now += nanos(denied.retry_after().expect("what fits comes back"));
            continue;
        }
        granted += cells_at_once;
        let took = u128::from(now - start);
        let due = exact_nanos(granted.saturating_sub(burst), limit, period);
        assert!(took + unit_nanos >= due, "{quota}: {granted} in {took} ns, too fast for {due}");
        assert!(took <= due + 1, "{quota}: {granted} in {took} ns, too slow for {due}");
    }
    assert!(granted >= 400, "{quota}: {granted} in the life of a clock");
}

#[test]
fn a_client_that_retries_when_told_gets_the_rate_to_the_nanosecond() {
    for (limit, period) in RATES {
        for (burst, at_once) in [(2, 1), (10, 1), (10, 3), (1_000, 7)] {
            if Quota::new(limit, Duration::from_nanos(period)).burst(burst).validate().is_ok() {
                jumping_client(limit, period, burst, at_once);
            }
        }
    }
}

/// A client that polls at fixed times, far more often than it is granted anything.
#[test]
fn a_client_that_polls_gets_the_rate_to_the_cell() {
    for (limit, period) in RATES {
        let quota = Quota::new(limit, Duration::from_nanos(period)).burst(20);
        let gate = Direct::new(quota).expect("in range");
        // About seven polls a cell, at steps that share no factor with other numbers here.
        let step = (period / limit / 7).max(1) | 1;
        let (mut now, mut granted) = (0_u64, 0_u64);
        let polls = (LATEST / step).min(70_000);
        for _ in 0..polls {
            now += step;
            // The bound ends the loop for a limiter that never denies.
            let polled =
                (0..100).take_while(|_| gate.ask().at(Tick::from_nanos(now)).check().is_ok());
            granted += polled.map(|_| 1).sum::<u64>();
        }
        // The whole burst is available at the first poll.
        let since_first = u128::from(now - step);
        let due = 20 + since_first * u128::from(limit) / u128::from(period);
        let more = due.abs_diff(u128::from(granted));
        assert!(more <= 1, "{quota}: {granted} granted, {due} due");
    }
}

/// With a burst of one, a client that is late by a part of a nanosecond loses that part, so its
/// rate may be lower; it is never higher.
#[test]
fn a_burst_of_one_is_never_over_the_rate() {
    for (limit, period) in RATES {
        let quota = Quota::new(limit, Duration::from_nanos(period)).burst(1);
        let gate = Direct::new(quota).expect("in range");
        let (mut now, mut granted) = (0, 0_u64);
        while granted < 5_000 && now < LATEST {
            match gate.ask().at(Tick::from_nanos(now)).check() {
                Ok(_) => granted += 1,
                Err(denied) => now += nanos(denied.retry_after().expect("one fits")),
            }
        }
        let due = exact_nanos(granted - 1, limit, period);
        assert!(u128::from(now) >= due, "{quota}: {granted} in {now} ns, due in {due}");
    }
}

#[test]
fn windows_grant_their_limit_a_period() {
    for window in [FixedWindow::anchored(), FixedWindow::aligned()] {
        for (limit, period) in RATES {
            let quota = Quota::new(limit, Duration::from_nanos(period));
            let gate = Direct::builder(quota)
                .algorithm(window)
                .clock(ManualClock::new())
                .build()
                .expect("in range");
            let windows = (LATEST / period).min(2_000);
            let (mut now, mut granted) = (0_u64, 0_u64);
            for _ in 0..windows {
                assert!(gate.ask().cells(limit).at(Tick::from_nanos(now)).check().is_ok());
                granted += limit;
                let denied =
                    gate.ask().at(Tick::from_nanos(now)).check().expect_err("all is spent");
                now += nanos(denied.retry_after().expect("the window ends"));
            }
            assert_eq!(granted, windows * limit);
            assert_eq!(u128::from(now), exact_nanos(granted, limit, period), "{quota}");
        }
    }
}

/// The rate is as exact after years as on the first day: no state is in floating point.
#[test]
fn the_rate_is_exact_after_years() {
    for (limit, period) in RATES {
        let quota = Quota::new(limit, Duration::from_nanos(period)).burst(5);
        let mut taken = Vec::new();
        for start in [0, 30 * DAY, 100 * YEAR, u64::MAX - 60 * YEAR] {
            let gate = Direct::new(quota).expect("in range");
            let mut now = start;
            for _ in 0..50 {
                while let Err(denied) = gate.ask().at(Tick::from_nanos(now)).check() {
                    now += nanos(denied.retry_after().expect("one fits"));
                }
            }
            taken.push(now - start);
        }
        let (least, most) = (taken.iter().min(), taken.iter().max());
        let spread = most.zip(least).map_or(0, |(most, least)| most - least);
        assert!(spread <= 2_501, "{quota}: {taken:?}");
    }
}
