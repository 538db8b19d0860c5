//! Guava's `RateLimiter`: its bursty kind is a queue in which some cells pass without delay, its
//! warming kind a warm-up.

use std::time::Duration;

use serde_json::Value;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::{Direct, LeakyQueue, Quota, Tick, WarmUp};

use crate::Replay;
use crate::gate::{Gate, gates, number, number_if_said, steps};

pub(crate) const VECTORS: &[(&str, Replay)] = &[
    ("simple_5", bursty),
    ("one_second_burst", bursty),
    ("try_acquire_with_timeout", bursty),
    ("bursty_and_update", updated),
    ("warm_up_rate5_4s_cold10", warming_up),
];

/// A caller that waits for its turn.
struct Caller<'a> {
    gate: &'a dyn Gate,
    now: Tick,
}

impl Caller<'_> {
    fn advance(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
    }

    fn acquire(&mut self, n: u64) -> Duration {
        let permit = self.gate.check_at(n, self.now).expect("the queue is long enough");
        self.advance(permit.delay());
        permit.delay()
    }

    fn try_acquire(&mut self, timeout: Duration) -> bool {
        let peeked = self.gate.peek_at(1, self.now).expect("the queue is long enough");
        let in_time = peeked.delay() <= timeout;
        if in_time {
            self.acquire(1);
        }
        in_time
    }

    /// Waits are given to a hundredth of a second.
    fn replay(&mut self, step: &Value, tolerance: Duration) {
        match step["op"].as_str().expect("an operation") {
            "acquire" => {
                let expected = step["wait_s"].as_f64().expect("a wait in seconds");
                let expected = Duration::from_secs_f64(expected);
                let wait = self.acquire(number(&step["n"]));
                assert!(wait.abs_diff(expected) <= tolerance, "{step}: waited {wait:?}");
            }
            "advance" => {
                let seconds = step["seconds"].as_f64().map(Duration::from_secs_f64);
                let millis = number_if_said(&step["ms"]).map(Duration::from_millis);
                self.advance(seconds.or(millis).expect("a span"));
            }
            "try" => {
                let timeout = Duration::from_millis(number(&step["timeout_ms"]));
                assert_eq!(Some(self.try_acquire(timeout)), step["ok"].as_bool(), "{step}");
            }
            other => panic!("{other} is not replayed here"),
        }
    }
}

/// Five a second, of which a second's worth is stored: with the cell that never waits, six pass
/// without delay. In Guava the store begins empty, here it begins full, and so is emptied first.
fn bursty(vector: &Value) {
    let queue = LeakyQueue::new().immediate(5 + 1);
    for gate in gates(Quota::per_second(5).burst(100), queue) {
        let mut caller = Caller { gate: &*gate, now: Tick::ZERO };
        assert_eq!(caller.acquire(5), Duration::ZERO);
        for step in steps(vector) {
            caller.replay(step, Duration::ZERO);
        }
    }
}

/// A request waits for the cost of the request before it, not for its own.
///
/// In Guava the current debt is repaid at the old rate after a change. Here a debt is a number of
/// cells, repaid at the new rate, so the one wait after the change is half as long.
fn updated(vector: &Value) {
    let builder = Direct::builder(Quota::per_second(1)).algorithm(DynamicGcra::new());
    let gate = builder.build().expect("in range");
    let (mut now, mut changed) = (Tick::ZERO, false);
    for step in steps(vector) {
        if step["op"] == "set_rate" {
            let quota = Quota::per_second(number(&step["rate_per_s"])).burst(1);
            gate.set_quota_at(quota, Inherit::AsIs, now).expect("in range");
            changed = true;
            continue;
        }
        let expected = step["wait_s"].as_f64().expect("a wait in seconds");
        let expected = if changed { expected / 2.0 } else { expected };
        changed = false;
        let wait = gate.ask().cells(0).at(now).peek().expect("nothing is asked for").reset_after();
        assert_eq!(wait, Duration::from_secs_f64(expected), "{step}");
        now = now.saturating_add(wait);
        gate.ask().cells(number(&step["n"])).at(now).charge();
    }
}

fn warming_up(vector: &Value) {
    let warm_up = WarmUp::new(Duration::from_secs(4)).cold_factor(10);
    for gate in gates(Quota::per_second(5), warm_up.max_wait(Duration::from_secs(2))) {
        let mut caller = Caller { gate: &*gate, now: Tick::ZERO };
        for step in steps(vector) {
            caller.replay(step, Duration::from_millis(5));
        }
    }
    // With no maximum wait there is no delay, and the same requests pass at the same turns.
    let spaced: Quota = "5/s".parse().expect("a quota");
    for gate in gates(spaced, warm_up) {
        let mut now = Tick::ZERO;
        for wait_ms in [0, 1_752, 1_258, 763, 301, 200, 200, 200] {
            let early = now.saturating_add(
                Duration::from_millis(wait_ms).saturating_sub(Duration::from_millis(2)),
            );
            assert_eq!(gate.check_at(1, early).is_ok(), wait_ms == 0);
            if wait_ms > 0 {
                let retry = gate.check_at(1, now).unwrap_err().retry_after();
                now = now.saturating_add(retry.expect("it may go some day"));
                assert!(gate.check_at(1, now).is_ok(), "{wait_ms}");
            }
        }
    }
}
