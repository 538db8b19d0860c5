//! Fixed windows: requests stamped in the window before the one that the state is in.

use std::time::Duration;

use tollgate::limiter::SlotLayout;
use tollgate::{Direct, FixedWindow, Limiter, ManualClock, Quota, Tick};

const SECOND: u64 = 1_000_000_000;
const LIMIT: u64 = 10;

fn at(secs: u64) -> Tick {
    Tick::from_nanos(secs * SECOND)
}

/// The earlier window ends at 60 s, the next one at 120 s.
fn decides_in_the_next_window(check: impl Fn(u64, Tick) -> tollgate::Decision) {
    // The earlier window has 4 cells left when another caller opens the next one.
    assert!(check(6, at(0)).is_ok());
    assert_eq!(check(7, at(60)).map(|permit| permit.remaining()), Ok(3));
    // The limit of the next window decides, and the next window is charged.
    let denied = check(4, at(50)).expect_err("3 are left");
    assert_eq!((denied.limit(), denied.remaining()), (LIMIT, 3));
    // The wait runs to the end of the next window, by the caller's own clock.
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(70)));
    let permit = check(3, at(50)).expect("3 are left");
    assert_eq!((permit.remaining(), permit.reset_after()), (0, Duration::from_secs(70)));
    assert!(check(1, at(60)).is_err() && check(1, at(50)).is_err());
    let early = check(1, Tick::from_nanos(120 * SECOND - 1)).expect_err("the window is spent");
    assert_eq!(early.retry_after(), Some(Duration::from_nanos(1)));
    assert!(check(LIMIT, at(120)).is_ok(), "the next window begins with its whole limit");
}

#[test]
fn a_request_stamped_in_the_earlier_window_is_decided_by_and_charged_to_the_next_one() {
    for window in [FixedWindow::aligned(), FixedWindow::anchored()] {
        let quota = Quota::per_minute(LIMIT);
        let gate = Direct::builder(quota).algorithm(window).clock(ManualClock::new()).build();
        let gate = gate.expect("in range");
        decides_in_the_next_window(|n, now| gate.ask().cells(n).at(now).check());
        for slots in [SlotLayout::Wide, SlotLayout::Compact] {
            let gate: Limiter<u64, _, _> = Limiter::builder(quota)
                .algorithm(window)
                .clock(ManualClock::new())
                .max_clock_skew(Duration::from_secs(1))
                .slots(slots)
                .build()
                .expect("in range");
            decides_in_the_next_window(|n, now| gate.ask(&7).cells(n).at(now).check());
        }
    }
}

/// The count of a window is exact, but the stamps of the cells counted in it may lie before it.
#[test]
fn stamps_in_one_window_may_reach_its_limit_and_the_count_of_the_next() {
    for window in [FixedWindow::aligned(), FixedWindow::anchored()] {
        let gate = Direct::builder(Quota::per_minute(LIMIT))
            .algorithm(window)
            .clock(ManualClock::new())
            .build()
            .expect("in range");
        assert!(gate.ask().cells(LIMIT).at(at(0)).check().is_ok());
        assert!(gate.ask().at(at(60)).check().is_ok());
        let granted = (0..100).filter(|_| gate.ask().at(at(59)).check().is_ok()).count();
        assert_eq!(granted as u64, LIMIT - 1);
        assert!(gate.ask().at(at(119)).check().is_err());
    }
}
