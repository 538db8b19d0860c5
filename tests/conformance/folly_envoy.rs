//! The token buckets of folly and Envoy.

use serde_json::Value;
use tollgate::internals::oracle::Verdict;
use tollgate::{Clock, Direct, Gcra, Limiter, ManualClock, Quota, Tick};

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Replay;
use crate::gate::{Gate, accounts, gates, number, number_if_said, steps, take_up_to};

pub(crate) const VECTORS: &[(&str, Replay)] = &[
    ("folly_drain_on_fail", folly_drain_on_fail),
    ("folly_sanity", folly_sanity),
    ("folly_consume_or_borrow", folly_borrow),
    ("envoy_consume", envoy),
    ("envoy_partial", envoy),
    ("envoy_multi_thread_conservation", envoy_conservation),
];

fn replay_step(gate: &dyn Gate, step: &Value) {
    let now = Tick::from_nanos(number(&step["t_ns"]));
    let n = number_if_said(&step["n"]).unwrap_or(0);
    match step["op"].as_str().expect("an operation") {
        "try" => {
            let admitted = gate.check_at(n, now).is_ok();
            let allowed = match &step["taken"] {
                Value::Null => step["allow"] == true,
                taken => number(taken) == n,
            };
            assert_eq!(admitted, allowed, "{step}");
        }
        "peek" => {
            let remaining = Verdict::from(&gate.peek_at(n, now)).remaining;
            assert_eq!(remaining, number(&step["remaining"]), "{step}");
        }
        "take_up_to" => {
            assert_eq!(take_up_to(gate, n, now), number(&step["taken"]), "{step}");
        }
        other => panic!("{other} is not replayed here"),
    }
}

fn folly_drain_on_fail(vector: &Value) {
    let params = &vector["params"];
    let quota = Quota::per_second(number(&params["rate_per_s"])).burst(number(&params["burst"]));
    for gate in gates(quota, Gcra::new()) {
        steps(vector).iter().for_each(|step| replay_step(&*gate, step));
    }
}

/// Borrowed cells are charged at once, and the borrower waits for them.
fn folly_borrow(vector: &Value) {
    let params = &vector["params"];
    let quota = Quota::per_second(number(&params["rate_per_s"])).burst(number(&params["burst"]));
    for gate in accounts(quota, Gcra::new()) {
        for step in steps(vector) {
            if step["op"] == "reserve" {
                let now = Tick::from_nanos(number(&step["t_ns"]));
                let wait = gate.charge_at(number(&step["n"]), now);
                assert_eq!(wait, Duration::from_nanos(number(&step["wait_ns"])), "{step}");
            } else {
                replay_step(&*gate, step);
            }
        }
    }
}

fn envoy(vector: &Value) {
    let params = &vector["params"];
    let rate = params["rate_per_s"].as_str().expect("a rate").parse().expect("a whole number");
    let quota = Quota::per_second(rate).burst(number(&params["capacity"]));
    for gate in gates(quota, Gcra::new()) {
        steps(vector).iter().for_each(|step| replay_step(&*gate, step));
    }
}

/// Ten seconds in steps of a millisecond, taking all there is: never over the rate, and never under
/// it by more than one request asks for. (Their test allows a tenth less.)
fn folly_sanity(vector: &Value) {
    for params in vector["params"].as_array().expect("several") {
        let (rate, n) = (number(&params["rate"]), number(&params["n"]));
        let burst = n.max(rate / 100);
        for gate in gates(Quota::per_second(rate).burst(burst), Gcra::start_empty()) {
            let mut consumed = 0;
            for millis in 0..=10_000 {
                let now = Tick::from_nanos(millis * 1_000_000);
                assert!(gate.check_at(burst + 1, now).is_err());
                let taken = (0..1_000).take_while(|_| gate.check_at(n, now).is_ok());
                consumed += taken.map(|_| n).sum::<u64>();
                assert!(consumed * 1_000 <= rate * millis, "{params}: {consumed} in {millis} ms");
                assert!((consumed + n) * 1_000 > rate * millis, "{params}: {consumed}");
            }
        }
    }
}

/// Four threads take cells while the clock advances: together they get what came back.
fn conserves(clock: &ManualClock, check: impl Fn() -> bool + Sync) {
    let exhausted = (0..2_000).filter(|_| check()).count();
    assert_eq!(exhausted, 1_200);
    let done = AtomicBool::new(false);
    let take = || {
        let mut taken = 0_u64;
        loop {
            // The flag is read first: after the clock has stopped, one more request takes what is
            // left.
            let last = done.load(Ordering::Acquire);
            taken += (0..10_000).take_while(|_| check()).map(|_| 1).sum::<u64>();
            if last {
                return taken;
            }
            std::thread::yield_now();
        }
    };
    let taken: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        for (times, seconds) in [(200, 1), (100, 10)] {
            for _ in 0..times {
                clock.advance(Duration::from_secs(seconds));
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(taken, 1_200);
    assert!(!check(), "the bucket is empty");
}

fn envoy_conservation(_: &Value) {
    let quota = Quota::per_second(1).burst(1_200);
    let clock = ManualClock::new();
    let gate = Direct::builder(quota).clock(&clock).build().expect("in range");
    conserves(&clock, || gate.check().is_ok());

    let clock = ManualClock::new();
    let gate: Limiter<str, _, _> = Limiter::builder(quota).clock(&clock).build().expect("in range");
    conserves(&clock, || gate.check("key").is_ok());
    assert_eq!(gate.clock().now(), clock.now());
}
