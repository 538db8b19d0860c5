//! One bucket used by many threads.

use std::time::Duration;

use tollgate::{Direct, FixedWindow, Gcra, ManualClock, Quota, Tick};

use crate::{Random, drain, together};

/// Far from the origin, so that clocks can be behind.
const START: Tick = Tick::from_nanos(3_600_000_000_000);

#[test]
fn with_a_frozen_clock_the_grants_sum_to_the_burst() {
    for threads in [2, 3, 4, 8] {
        let gate = Direct::new(Quota::per_second(1).burst(100_000)).expect("in range");
        let admitted: u64 = together(threads, |_| {
            (0..60_000).map(|_| u64::from(gate.ask().at(START).check().is_ok())).sum::<u64>()
        })
        .iter()
        .sum();
        assert_eq!(admitted, 100_000, "{threads} threads");
        assert!(gate.ask().at(START).check().is_err());
    }
}

#[test]
fn costs_of_all_sizes_are_charged_whole_or_not_at_all() {
    for round in 0..20 {
        let gate = Direct::new(Quota::per_second(1).burst(50_000)).expect("in range");
        let admitted: u64 = together(4, |index| {
            let mut random = Random::new(index + round * 100);
            let mut sum = 0;
            for _ in 0..5_000 {
                let n = random.below(20);
                sum += gate.ask().cells(n).at(START).check().map_or(0, |_| n);
            }
            // The remainder is too small for some request; single cells use it up.
            sum + drain(|| gate.ask().at(START).check().is_ok())
        })
        .iter()
        .sum();
        assert_eq!(admitted, 50_000);
    }
}

#[test]
fn a_window_admits_exactly_its_limit() {
    for window in [FixedWindow::anchored(), FixedWindow::aligned()] {
        let gate = Direct::builder(Quota::per_hour(70_000))
            .algorithm(window)
            .clock(ManualClock::new())
            .build()
            .expect("in range");
        for hour in 1..4 {
            let now = Tick::from_nanos(hour * 3_600_000_000_000);
            let admitted: u64 = together(4, |_| {
                (0..30_000).map(|_| u64::from(gate.ask().at(now).check().is_ok())).sum::<u64>()
            })
            .iter()
            .sum();
            assert_eq!(admitted, 70_000);
        }
    }
}

/// The clocks differ, and go back by up to 4 us, like the counters of two cores. The total is at
/// most the burst and what was restored until the latest time that any thread read.
#[test]
fn clocks_that_jump_back_grant_nothing_more() {
    const STEPS: u64 = 40_000;
    // The fast ones move slowly, so that the threads ask for more than three times what is available.
    for (rate, burst, step) in
        [(1_000_000, 10, 500), (1_000, 5, 500), (50_000_000, 1_000, 20), (1_000_000_000, 3, 2)]
    {
        let gate = Direct::new(Quota::per_second(rate).burst(burst)).expect("in range");
        let results = together(4, |index| {
            let mut random = Random::new(index);
            let (mut base, mut latest, mut admitted) = (START, START, 0_u64);
            for _ in 0..STEPS {
                base = base.saturating_add(Duration::from_nanos(random.below(step)));
                let now = base.saturating_sub(Duration::from_nanos(random.below(4_001)));
                latest = latest.max(now);
                admitted += u64::from(gate.ask().at(now).check().is_ok());
            }
            (admitted, latest)
        });
        let admitted: u64 = results.iter().map(|(admitted, _)| admitted).sum();
        let latest = results.iter().map(|(_, latest)| *latest).max().expect("threads");
        // The first charge may be stamped 4 us before the start.
        let span = latest.since(START).as_nanos() + 4_000;
        let max = u128::from(burst) + span * u128::from(rate) / 1_000_000_000 + 1;
        assert!(max < u128::from(4 * STEPS / 3), "{max} at {rate}/s: the bound decides little");
        assert!(u128::from(admitted) <= max, "{admitted} of {max} at {rate}/s");
        assert!(admitted >= burst, "{admitted}");
    }
}

/// A shared clock advances while threads take cells. They take the burst and what was restored, to
/// the cell.
#[test]
fn with_a_moving_clock_the_grants_sum_to_the_burst_and_what_was_restored() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(1_000).burst(1_000_000);
    let gate = Direct::builder(quota).clock(&clock).build().expect("in range");
    let taken: u64 = together(4, |index| {
        let mut taken = 0;
        for turn in 0..150_000_u64 {
            if index == 0 && turn.is_multiple_of(500) {
                clock.advance(Duration::from_millis(7));
            }
            taken += u64::from(gate.check().is_ok());
        }
        taken
    })
    .iter()
    .sum();
    // 600,000 cells were asked for, which is less than was available.
    assert_eq!(taken, 600_000);
    // The remainder is taken too: no cell was lost, and no more than `came_back` was restored.
    let rest = drain(|| gate.check_n(1_000).is_ok()) * 1_000 + drain(|| gate.check().is_ok());
    let came_back = 300 * 7;
    // Only the first advance can find a full bucket, in which nothing is restored.
    let restored = came_back - 7..=came_back;
    assert!(restored.contains(&(taken + rest - 1_000_000)), "{taken} and {rest}");
}

#[test]
fn concurrent_resets_leave_a_bucket_consistent() {
    let gate = Direct::builder(Quota::per_second(1).burst(100))
        .algorithm(Gcra::start_empty())
        .build()
        .expect("in range");
    together(4, |index| {
        let mut random = Random::new(index);
        for _ in 0..20_000 {
            match random.below(10) {
                0 => gate.reset(),
                n => assert!(gate.ask().cells(n).at(START).check().is_err(), "it starts empty"),
            }
            let left = gate.ask().cells(0).at(START).peek().map_or(0, |permit| permit.remaining());
            assert_eq!(left, 0, "a reset empties it again");
        }
    });
}
