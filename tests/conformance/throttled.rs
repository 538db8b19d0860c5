//! throttled (Go) and redis-cell: every field of every row.

use std::time::Duration;

use serde_json::Value;
use tollgate::internals::oracle::Verdict;
use tollgate::{Direct, Gcra, Quota, QuotaError, Tick};

use crate::Replay;
use crate::gate::{gates, number, number_if_said, retry_nanos, steps};

pub(crate) const VECTORS: &[(&str, Replay)] = &[
    ("steps", rows),
    ("custom_period", custom_period),
    ("zero_rate", zero_rate),
    ("cas_retry_cap", no_retry_cap),
];

fn rows(file: &Value) {
    assert_eq!(steps(file).len(), 16);
    for gate in gates(Quota::per_second(1).burst(5), Gcra::new()) {
        for (row, step) in steps(file).iter().enumerate() {
            let now = Tick::from_nanos(number(&step["t_ns"]));
            let decision = gate.check_at(number(&step["n"]), now);
            let limit = match &decision {
                Ok(permit) => permit.limit(),
                Err(denied) => denied.limit(),
            };
            let answer = Verdict::from(&decision);
            assert_eq!(answer.admitted, step["limited"] == false, "row {row}");
            assert_eq!(limit, number(&step["limit"]), "row {row}");
            assert_eq!(answer.remaining, number(&step["remaining"]), "row {row}");
            let reset = answer.reset_after.as_nanos();
            assert_eq!(reset, number(&step["reset_after_ns"]).into(), "row {row}");
            // Their answer has no time both for an admission and for what never fits.
            let retry = retry_nanos(&answer).filter(|_| !answer.admitted);
            assert_eq!(retry, number_if_said(&step["retry_after_ns"]).map(u128::from), "row {row}");
        }
    }
}

/// Their test runs in real time; here it is three cells in 10 ms, which no whole number of
/// nanoseconds divides.
fn custom_period(_: &Value) {
    let quota = Quota::new(3, Duration::from_millis(10));
    for gate in gates(quota, Gcra::new()) {
        let back_to_back: Vec<bool> =
            (0..4).map(|now| gate.check_at(1, Tick::from_nanos(now)).is_ok()).collect();
        assert_eq!(back_to_back, [true, true, true, false]);
    }
    for gate in gates(quota.burst(1), Gcra::new()) {
        let polls = (0..1_000_000).map(|micros| Tick::from_nanos(micros * 1_000));
        let granted = polls.filter(|now| gate.check_at(1, *now).is_ok()).count();
        // With polls a microsecond apart, each cell may come that much late, and no more.
        assert!((299..=300).contains(&granted), "{granted} in a second");
    }
}

fn zero_rate(_: &Value) {
    let built = Direct::new(Quota::per_second(0)).map(|_| ());
    assert_eq!(built, Err(QuotaError::ZeroLimit));
}

/// They give up after 5 or 10 lost races. Here a request that lost a race is decided again until it
/// wins.
fn no_retry_cap(_: &Value) {
    for gate in gates(Quota::per_day(40_000), Gcra::new()) {
        let ask = || (0..20_000).filter(|_| gate.check_at(1, Tick::ZERO).is_ok()).count();
        let granted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(granted, 40_000);
    }
}
