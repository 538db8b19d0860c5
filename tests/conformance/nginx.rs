//! nginx `limit_req`: the leaky bucket as a queue, and as a meter (`nodelay`).

use std::time::Duration;

use serde_json::Value;
use tollgate::internals::oracle::Verdict;
use tollgate::{LeakyQueue, Quota, Tick};

use crate::Replay;
use crate::gate::{gates, number, number_if_said, steps};

pub(crate) const VECTORS: &[(&str, Replay)] = &[
    ("burst5_delay0", limit_req),
    ("burst5_nodelay", limit_req),
    ("burst5_delay3", limit_req),
    ("no_burst_1rps", limit_req),
    ("rate_1r_per_min_is_16_millirps", truncated_rate),
];

/// nginx stores rates in thousandths of a request a second.
fn quota(params: &Value) -> Quota {
    let quota = Quota::new(number(&params["rate_milli_rps"]), Duration::from_secs(1_000));
    quota.burst(number(&params["burst"]) + 1)
}

fn queue(params: &Value) -> LeakyQueue {
    let delay = match &params["delay"] {
        Value::String(word) if word == "nodelay" => u64::MAX,
        cells => number(cells) + 1,
    };
    LeakyQueue::new().immediate(delay)
}

fn limit_req(vector: &Value) {
    let params = &vector["params"];
    for gate in gates(quota(params), queue(params)) {
        for step in steps(vector) {
            let now = Tick::from_nanos(number(&step["t_ms"]) * 1_000_000);
            let answer = Verdict::from(&gate.check_at(1, now));
            let result = match (answer.admitted, answer.delay.is_zero()) {
                (true, true) => "pass",
                (true, false) => "delay",
                (false, _) => "reject",
            };
            assert_eq!(Some(result), step["result"].as_str(), "{step}");
            let delay_ms = number_if_said(&step["delay_ms"]).unwrap_or(0);
            assert_eq!(answer.delay, Duration::from_millis(delay_ms), "{step}");
        }
    }
}

/// In nginx `1r/m` becomes 16 thousandths of a request a second, which is 2 in 125 s. At that rate
/// the answers are the same; at the rate in the configuration, the second request passes at 60 s.
fn truncated_rate(vector: &Value) {
    assert_eq!(number(&vector["params"]["rate_milli_rps"]), 16);
    limit_req(vector);
    let per_minute: Quota = "1/minute".parse().expect("a quota");
    for gate in gates(per_minute, queue(&vector["params"])) {
        let at_ms = |ms: u64| gate.check_at(1, Tick::from_nanos(ms * 1_000_000)).is_ok();
        assert!(at_ms(0) && !at_ms(59_999) && at_ms(60_000) && !at_ms(119_999));
    }
}
