//! ClassDojo's rolling-rate-limiter: the exact log, in which denied attempts count.

use std::time::Duration;

use serde_json::Value;
use tollgate::internals::oracle::Verdict;
use tollgate::{Quota, SlidingLog, Tick};

use crate::Replay;
use crate::gate::{Gate, gates, number, number_if_said, steps};

pub(crate) const VECTORS: &[(&str, Replay)] =
    &[("max_in_interval", attempts), ("min_gap", attempts), ("info_no_gap", infos)];

fn log_gates(params: &Value) -> [Box<dyn Gate>; 3] {
    let window = Duration::from_millis(number(&params["window_ms"]));
    assert!(params["rejected_counted"].as_bool().unwrap_or(true), "all of them do");
    let log = SlidingLog::new().count_denials();
    let log = match number_if_said(&params["min_gap_ms"]) {
        None | Some(0) => log,
        Some(millis) => log.min_gap(Duration::from_millis(millis)),
    };
    gates(Quota::new(number(&params["max"]), window), log)
}

fn at(step: &Value) -> Tick {
    Tick::from_nanos(number(&step["t_ms"]) * 1_000_000)
}

fn attempts(vector: &Value) {
    for gate in log_gates(&vector["params"]) {
        for step in steps(vector) {
            // The vectors use one key.
            assert_eq!(step["key"], 1);
            let decision = match step["op"].as_str() {
                Some("try") => gate.check_at(1, at(step)),
                Some("peek") => gate.peek_at(1, at(step)),
                other => panic!("{other:?} is not replayed here"),
            };
            assert_eq!(Some(decision.is_ok()), step["allow"].as_bool(), "{step}");
        }
    }
}

/// There the wait is until *another* attempt would pass, and an admission has one too: ours is
/// found by trying every millisecond from there on. Their peek answers what an attempt would
/// answer, and so does ours.
fn infos(vector: &Value) {
    let rows = vector["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6);
    for gate in log_gates(&vector["params"]) {
        for row in rows {
            let now = at(row);
            let peeked = Verdict::from(&gate.peek_at(1, now));
            let attempt = row["op"] == "try";
            let answer = if attempt { Verdict::from(&gate.check_at(1, now)) } else { peeked };
            assert_eq!(answer, peeked, "{row}");
            assert_eq!(Some(!answer.admitted), row["blocked"].as_bool(), "{row}");
            assert_eq!(answer.remaining, number(&row["remaining"]), "{row}");
            let expected = Duration::from_millis(number(&row["ms_until_allowed"]));
            if !answer.admitted {
                assert_eq!(answer.retry_after, Some(expected), "{row}");
            }
            if attempt {
                let passes = |millis: &u64| {
                    gate.peek_at(1, now.saturating_add(Duration::from_millis(*millis))).is_ok()
                };
                let wait = (0..20).find(passes).map(Duration::from_millis);
                assert_eq!(wait, Some(expected), "{row}");
            }
        }
    }
}
