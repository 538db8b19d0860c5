//! Known defects of other limiters, each as a scenario that must come out right here.

use std::time::Duration;

use tollgate::{Direct, FixedWindow, Quota, Tick};

const SECOND: u64 = 1_000_000_000;

fn direct(text: &str) -> Direct {
    Direct::new(text.parse().expect("a quota")).expect("in range")
}

/// governor keeps the emission interval in whole nanoseconds, and so turns 600 million cells a
/// second into a thousand million.
#[test]
fn six_hundred_million_a_second_is_not_a_thousand_million() {
    let gate = direct("600000000/s burst 10");
    let granted =
        (0..1_000_000).filter(|now| gate.ask().at(Tick::from_nanos(*now)).check().is_ok()).count();
    assert!((600_000..=600_010).contains(&granted), "{granted} in a millisecond");
}

/// The `ratelimit` crate drops the fraction of a cell that has come back at every poll: one cell
/// a second, asked for every 1.5 us, gave 40 in 60 s.
#[test]
fn polling_loses_no_fraction_of_a_cell() {
    let gate = direct("1/s burst 1");
    let granted = (0..=40_000_000_u64)
        .filter(|poll| gate.ask().at(Tick::from_nanos(poll * 1_500)).check().is_ok())
        .count();
    assert_eq!(granted, 61, "one at once, and then one a second");
}

/// throttlecrab admits seven of a burst of five after some gaps.
#[test]
fn an_idle_gap_gives_the_burst_and_no_more() {
    for quota in ["5/s", "5/min", "7/s burst 5", "1000000000/s burst 5", "1/y burst 5"] {
        let gate = direct(quota);
        let mut now = Tick::ZERO;
        for gap in [0, 1, 999_999_999, SECOND, 61 * SECOND, 86_400 * SECOND] {
            now = now.saturating_add(Duration::from_nanos(gap));
            // Everything that was spent comes back first.
            let all_back =
                gate.ask().cells(0).at(now).peek().expect("nothing is asked for").reset_after();
            now = now.saturating_add(all_back).saturating_add(Duration::from_nanos(gap));
            let granted = (0..20).filter(|_| gate.ask().at(now).check().is_ok()).count();
            assert_eq!(granted, 5, "{quota} after {gap} ns");
        }
    }
}

/// golang.org/x/time/rate takes an older timestamp as its new last one, and then credits the time
/// from there on a second time.
#[test]
fn an_older_timestamp_is_credited_once() {
    let gate = direct("1/s burst 10");
    let at = |seconds: u64| Tick::from_nanos(seconds * SECOND);
    assert!(gate.ask().cells(10).at(at(10)).check().is_ok());
    for stale in [0, 3, 9, 9] {
        assert!(gate.ask().at(at(stale)).check().is_err(), "{stale}");
    }
    assert!(gate.ask().at(at(10)).check().is_err(), "what came back was spent already");
    assert!(gate.ask().at(at(11)).check().is_ok());
    assert!(gate.ask().at(at(2)).check().is_err());
    assert!(gate.ask().at(at(11)).check().is_err(), "one second is one cell");
    let granted = (0..20).filter(|_| gate.ask().at(at(21)).check().is_ok()).count();
    assert_eq!(granted, 10);
}

/// governor was seen to admit 213,505 cells at once of a burst of ten, after an idle time.
#[test]
fn a_cost_beyond_the_burst_is_denied_however_long_the_key_was_idle() {
    for seconds in [0, 1, 86_400, 400 * 86_400, 18_000_000_000] {
        let gate = direct("10/s burst 10");
        let now = Tick::from_nanos(seconds * SECOND);
        for n in [11, 100, 213_505, u64::from(u32::MAX) + 1, u64::MAX] {
            let denied = gate.ask().cells(n).at(now).check().expect_err("more than the burst");
            assert_eq!(denied.retry_after(), None);
            assert_eq!(denied.remaining(), 10);
        }
        assert!(gate.ask().cells(10).at(now).check().is_ok(), "after {seconds} s");
        assert!(gate.ask().at(now).check().is_err(), "after {seconds} s");
    }
}

/// Limiters that count in 32 bits, or multiply before they divide, lose idle times of hours and
/// bursts of 10^9 and more.
#[test]
fn large_bursts_and_long_gaps_do_not_wrap() {
    let gate = direct("1000/s burst 4294967296");
    assert!(gate.ask().cells(1 << 32).at(Tick::ZERO).check().is_ok());
    assert!(gate.ask().at(Tick::ZERO).check().is_err());
    let hours_12 = Tick::from_nanos(12 * 3_600 * SECOND);
    assert_eq!(gate.ask().cells(0).at(hours_12).peek().expect("nothing").remaining(), 43_200_000);
    assert!(gate.ask().cells(43_200_001).at(hours_12).check().is_err());
    assert!(gate.ask().cells(43_200_000).at(hours_12).check().is_ok());
}

/// Two events at the very end of a window and two at the beginning of the next pass, as in every
/// fixed window; a third within one window does not.
#[test]
fn a_window_is_half_open() {
    let gate = Direct::builder(Quota::per_second(2))
        .algorithm(FixedWindow::anchored())
        .build()
        .expect("in range");
    assert!(gate.ask().at(Tick::ZERO).check().is_ok());
    assert!(gate.ask().at(Tick::from_nanos(SECOND - 1)).check().is_ok());
    assert!(gate.ask().at(Tick::from_nanos(SECOND - 1)).check().is_err());
    assert!(gate.ask().cells(2).at(Tick::from_nanos(SECOND)).check().is_ok());
    assert!(gate.ask().at(Tick::from_nanos(2 * SECOND - 1)).check().is_err());
}
