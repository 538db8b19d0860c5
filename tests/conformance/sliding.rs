//! The sliding window counter of the textbook and of Upstash.
//!
//! The textbook gives the fraction of a window, ours takes instants, so each case is set up by its
//! own charges: those of the window before at its beginning, those of this one at the instant.

use std::time::Duration;

use serde_json::Value;
use tollgate::internals::oracle::Verdict;
use tollgate::{Quota, SlidingCounter, Tick};

use crate::Replay;
use crate::gate::{Gate, gates, number, retry_nanos, steps};

pub(crate) const VECTORS: &[(&str, Replay)] = &[
    ("seed_example", seed_example),
    ("seed_example_retry_after", retry_after),
    ("upstash_formula", upstash),
    ("overshoot_bound", overshoot),
];

/// A counter whose last window counted `before` and this one `current`, and an instant of this
/// window. A count of 0 needs no charge.
struct Case {
    quota: Quota,
    before: u64,
    current: u64,
    now: Tick,
}

impl Case {
    fn new(limit: u64, window: Duration, (before, current): (u64, u64), into: Duration) -> Self {
        let now = Tick::from_duration(window + into);
        Self { quota: Quota::new(limit, window), before, current, now }
    }

    fn gates(&self) -> [Box<dyn Gate>; 3] {
        let gates = gates(self.quota, SlidingCounter::new());
        for gate in &gates {
            assert!(gate.check_at(self.before, Tick::ZERO).is_ok());
            assert!(gate.check_at(self.current, self.now).is_ok());
        }
        gates
    }
}

fn textbook(vector: &Value, into: Duration) -> Case {
    let window = Duration::from_secs(number(&vector["params"]["window_s"]));
    let counts = (number(&vector["prev"]), number(&vector["cur"]));
    Case::new(number(&vector["params"]["limit"]), window, counts, into)
}

fn seed_example(vector: &Value) {
    assert_eq!(vector["elapsed_fraction"].as_f64(), Some(0.3));
    let case = textbook(vector, Duration::from_secs(18));
    for gate in case.gates() {
        for step in steps(vector) {
            let estimate = step["estimate"].as_f64().expect("a number");
            let left = Verdict::from(&gate.peek_at(0, case.now)).remaining;
            // 6.5 is rounded down to 6, and 7.5 to 7.
            assert_eq!(left, if estimate < 7.0 { 1 } else { 0 }, "{step}");
            let admitted = gate.check_at(1, case.now).is_ok();
            assert_eq!(Some(admitted), step["allow"].as_bool(), "{step}");
        }
    }
}

fn retry_after(vector: &Value) {
    let denied_at = number(&vector["denied_at_s"]);
    let case = textbook(vector, Duration::from_secs(denied_at));
    let boundary = number(&vector["first_admissible_after_s"]) - denied_at;
    for gate in case.gates() {
        let refused = Verdict::from(&gate.check_at(1, case.now));
        // A tick is a nanosecond.
        let wait = Duration::from_secs(boundary) + Duration::from_nanos(1);
        assert_eq!(refused.retry_after, Some(wait));
        assert!(gate.peek_at(1, case.now.saturating_add(Duration::from_secs(boundary))).is_err());
        assert!(gate.check_at(1, case.now.saturating_add(wait)).is_ok());
    }
}

/// `-1` is a denial. Upstash admits a hundred cells where one is left, and reports -99 remaining:
/// ours compares the cost, and denies.
fn upstash(vector: &Value) {
    let rows = vector["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6);
    for row in rows {
        let window = Duration::from_millis(number(&row["window_ms"]));
        let counts = (number(&row["prev"]), number(&row["cur"]));
        let into = Duration::from_millis(number(&row["now_ms"]));
        let case = Case::new(number(&row["limit"]), window, counts, into);
        for gate in case.gates() {
            let answer = Verdict::from(&gate.check_at(number(&row["n"]), case.now));
            match row["remaining_or_minus1"].as_i64().expect("a number") {
                -99 => {
                    assert_eq!((answer.admitted, answer.remaining), (false, 1), "{row}");
                    assert_eq!(answer.retry_after, None, "more than the limit");
                }
                -1 => {
                    assert_eq!((answer.admitted, answer.remaining), (false, 0), "{row}");
                    assert!(retry_nanos(&answer) > Some(0), "{row}");
                }
                left => {
                    assert!(answer.admitted, "{row}");
                    assert_eq!(i64::try_from(answer.remaining), Ok(left), "{row}");
                }
            }
        }
    }
}

/// How far a span of one window may exceed the limit: at worst as far as a fixed window.
fn overshoot(vector: &Value) {
    assert_eq!(vector["offered"], "10 at 999 ms, then 1 per ms for 1 s");
    let limit = number(&vector["params"]["limit"]);
    let window = number(&vector["params"]["window_ms"]);
    let bound = number(&vector["max_in_any_trailing_window"]);
    assert_eq!(bound, 2 * limit);
    let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    for gate in gates(Quota::new(limit, Duration::from_millis(window)), SlidingCounter::new()) {
        let burst = (0..10).map(|_| 999);
        let offered = burst.chain(1_000..2_000);
        let granted: Vec<u64> =
            offered.filter(|millis| gate.check_at(1, at(*millis)).is_ok()).collect();
        let inside = |end: u64| granted.iter().filter(|t| **t <= end && **t + window > end).count();
        let most = (999..2_000).map(inside).max().expect("instants");
        assert!(most as u64 <= bound, "{most} in a window");
        assert!(most as u64 > limit, "an estimate, not a log: {most}");
    }
}
