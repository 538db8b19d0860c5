//! One bucket, many threads.

use std::time::Duration;

use tollgate::{Direct, FixedWindow, Gcra, ManualClock, Quota, Tick};

use crate::{Random, drain, together};

/// Far from the origin, so that clocks can be behind.
const START: Tick = Tick::from_nanos(3_600_000_000_000);

#[test]
fn with_a_frozen_clock_the_sum_is_the_burst() {
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
fn with_costs_of_all_sizes_nothing_is_lost_and_nothing_is_over() {
    for round in 0..20 {
        let gate = Direct::new(Quota::per_second(1).burst(50_000)).expect("in range");
        let admitted: u64 = together(4, |index| {
            let mut random = Random::new(index + round * 100);
            let mut sum = 0;
            for _ in 0..5_000 {
                let n = random.below(20);
                sum += gate.ask().cells(n).at(START).check().map_or(0, |_| n);
            }
            // What is left is too little for somebody; in ones it all goes.
            sum + drain(|| gate.ask().at(START).check().is_ok())
        })
        .iter()
        .sum();
        assert_eq!(admitted, 50_000);
    }
}

#[test]
fn a_window_counts_to_its_limit() {
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

/// Clocks that differ, and go back by up to 4 us, as two cores' counters do: the total is at most
/// the burst and what came back until the latest time that any of them read.
#[test]
fn clocks_that_jump_back_gain_nothing() {
    const STEPS: u64 = 40_000;
    for (rate, burst) in [(1_000_000, 10), (1_000, 5), (50_000_000, 1_000), (1_000_000_000, 3)] {
        let gate = Direct::new(Quota::per_second(rate).burst(burst)).expect("in range");
        let results = together(4, |index| {
            let mut random = Random::new(index);
            let (mut base, mut latest, mut admitted) = (START, START, 0_u64);
            for _ in 0..STEPS {
                base = base.saturating_add(Duration::from_nanos(random.below(500)));
                let now = base.saturating_sub(Duration::from_nanos(random.below(4_001)));
                latest = latest.max(now);
                admitted += u64::from(gate.ask().at(now).check().is_ok());
            }
            (admitted, latest)
        });
        let admitted: u64 = results.iter().map(|(admitted, _)| admitted).sum();
        let latest = results.iter().map(|(_, latest)| *latest).max().expect("threads");
        // The first charge may have been made at a time 4 us before the start.
        let span = latest.since(START).as_nanos() + 4_000;
        let most = u128::from(burst) + span * u128::from(rate) / 1_000_000_000 + 1;
        assert!(u128::from(admitted) <= most, "{admitted} of {most} at {rate}/s");
        assert!(admitted >= burst, "{admitted}");
    }
}

/// A shared clock is moved on while threads take: what they take together is the burst and what
/// came back, to the cell.
#[test]
fn with_a_moving_clock_the_sum_is_what_came_back() {
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
    // 600,000 were asked for, which is less than there was.
    assert_eq!(taken, 600_000);
    // What is left goes too: nothing was lost on the way, and no more than this came back.
    let rest = drain(|| gate.check_n(1_000).is_ok()) * 1_000 + drain(|| gate.check().is_ok());
    let came_back = 300 * 7;
    assert!((1_000_000..=1_000_000 + came_back).contains(&(taken + rest)), "{taken} and {rest}");
}

#[test]
fn threads_that_reset_at_will_leave_a_sound_bucket() {
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
