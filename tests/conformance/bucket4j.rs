//! Bucket4j: greedy refill is a token bucket, refill by intervals a fixed window.

use std::time::Duration;

use serde_json::Value;
use tollgate::internals::oracle::Verdict;
use tollgate::{FixedWindow, Gcra, Quota, Tick};

use crate::Replay;
use crate::gate::{
    Account, Gate, accounts, gates, number, number_if_said, retry_nanos, steps, take_up_to,
};

pub(crate) const VECTORS: &[(&str, Replay)] = &[
    ("try_consume_and_return_remaining_1", greedy),
    ("try_consume_and_return_remaining_3", greedy),
    ("try_consume_and_return_remaining_5", greedy),
    ("estimate_interval_7", by_interval),
    ("available_1", greedy),
    ("available_3", greedy),
    ("available_5", greedy),
    ("refill_simple_1", greedy),
    ("refill_simple_3", set_back),
    ("refill_simple_5", greedy),
    ("refill_simple_7", greedy),
    ("aligned_boundary_kept_after_idle", aligned),
    ("overflow_12h_idle (bucket4j#51)", three_limits),
    ("consume_ignoring_limits_2", afterwards),
    ("consume_ignoring_limits_4", afterwards),
    ("consume_ignoring_limits_6", afterwards),
    ("consume_ignoring_limits_8", afterwards),
    ("add_tokens_1", afterwards),
    ("add_tokens_3", afterwards),
    ("add_tokens_5", afterwards),
    ("force_add_tokens_2", afterwards),
    ("force_add_tokens_4", afterwards),
    ("force_added_surplus_kept", surplus),
    ("rounding_rest_cleared_when_full", afterwards),
    ("aligned_adaptive_initial", entered_midway),
    ("interval_two_bandwidths", by_steps),
];

/// `greedy 100/1000ns` is 100 cells in 1,000 ns; the capacity is the burst.
fn quota(params: &Value, kind: &str) -> Quota {
    let refill = params["refill"].as_str().expect("a refill");
    let rate = refill.strip_prefix(kind).expect("this kind of refill").trim();
    let (limit, period) = rate.split_once('/').expect("cells and a period");
    let period = period.strip_suffix("ns").expect("a period in nanoseconds");
    let limit: u64 = limit.parse().expect("whole cells");
    let period: u64 = period.parse().expect("whole nanoseconds");
    Quota::new(limit, Duration::from_nanos(period)).burst(number(&params["capacity"]))
}

/// Spends from a full bucket down to the initial balance.
fn start_with_initial(gate: &dyn Gate, params: &Value, now: Tick) {
    let spent = number(&params["capacity"]) - number(&params["initial"]);
    assert!(gate.check_at(spent, now).is_ok(), "a full bucket");
}

fn replay_step(gate: &dyn Gate, step: &Value, now: Tick) {
    let n = number_if_said(&step["n"]).unwrap_or(0);
    let decision = match step["op"].as_str().expect("an operation") {
        "try" => gate.check_at(n, now),
        "peek" => gate.peek_at(n, now),
        other => panic!("{other} is not replayed here"),
    };
    let answer = Verdict::from(&decision);
    if let Some(allow) = step["allow"].as_bool() {
        assert_eq!(answer.admitted, allow, "{step}");
    }
    if let Some(remaining) = number_if_said(&step["remaining"]) {
        assert_eq!(answer.remaining, remaining, "{step}");
    }
    match &step["retry_after_ns"] {
        Value::Null => {}
        Value::String(word) => {
            assert_eq!((word.as_str(), answer.retry_after), ("unreachable", None), "{step}");
        }
        wait => assert_eq!(retry_nanos(&answer), Some(number(wait).into()), "{step}"),
    }
}

fn greedy(vector: &Value) {
    for gate in gates(quota(&vector["params"], "greedy"), Gcra::new()) {
        start_with_initial(&*gate, &vector["params"], Tick::ZERO);
        for step in steps(vector) {
            replay_step(&*gate, step, Tick::from_nanos(number(&step["t_ns"])));
        }
    }
}

/// If the capacity is what comes back at once, the bucket is a window that opens with its first
/// event.
fn by_interval(vector: &Value) {
    let quota = quota(&vector["params"], "intervally");
    assert_eq!(quota.burst_cells(), quota.limit());
    for gate in gates(quota, FixedWindow::anchored()) {
        start_with_initial(&*gate, &vector["params"], Tick::ZERO);
        for step in steps(vector) {
            replay_step(&*gate, step, Tick::from_nanos(number(&step["t_ns"])));
        }
    }
}

/// A clock that went back by 1 ns. Bucket4j keeps the balance of 55; here the answer is for the
/// instant that was asked about, at which one cell less had come back. Both grant no cell twice. An
/// answer that depends only on the state and the instant needs no write.
fn set_back(vector: &Value) {
    let [step] = steps(vector) else { panic!("one step") };
    assert_eq!((step["t_ns"].as_i64(), number(&step["remaining"])), (Some(-1), 55));
    for gate in gates(quota(&vector["params"], "greedy"), Gcra::new()) {
        let created = Tick::from_nanos(1_000_000);
        start_with_initial(&*gate, &vector["params"], created);
        let before = created.saturating_sub(Duration::from_nanos(1));
        assert_eq!(Verdict::from(&gate.peek_at(0, before)).remaining, 54);
        assert_eq!(Verdict::from(&gate.peek_at(0, created)).remaining, 55);
    }
}

/// Charges beyond the balance, and gifts. Two answers differ on purpose. Here the remaining cells
/// are never below zero: the time until they come back shows the same debt. And a bucket never
/// holds more than its burst, even if cells are added by force: the bound on every span depends on
/// that.
fn afterwards(vector: &Value) {
    let quota = quota(&vector["params"], "greedy");
    for gate in accounts(quota, Gcra::new()) {
        start_with_initial(&*gate, &vector["params"], Tick::ZERO);
        for step in steps(vector) {
            account_step(&*gate, step, quota.burst_cells());
        }
    }
}

fn account_step(gate: &dyn Account, step: &Value, burst: u64) {
    let now = Tick::from_nanos(number(&step["t_ns"]));
    let n = number_if_said(&step["n"]).unwrap_or(0);
    match step["op"].as_str().expect("an operation") {
        "force_take" => {
            let wait = gate.charge_at(n, now);
            let owed = number_if_said(&step["debt_wait_ns"]);
            assert!(owed.is_none_or(|owed| wait == Duration::from_nanos(owed)), "{step}: {wait:?}");
        }
        "add" | "force_add" => gate.add_at(n, now),
        _ => return replay_step(gate, step, now),
    }
    if let Some(remaining) = step["remaining"].as_i64() {
        let remaining = u64::try_from(remaining).unwrap_or(0).min(burst);
        assert_eq!(Verdict::from(&gate.peek_at(0, now)).remaining, remaining, "{step}");
    }
}

/// In Bucket4j a bucket filled beyond its capacity by force keeps the surplus, and is not refilled
/// until that is spent: 110, then 108 and 105. Here there is never a surplus, so the bucket is
/// full, and time has restored what was taken by the time of the last step.
fn surplus(vector: &Value) {
    let [add, take, check] = steps(vector) else { panic!("three steps") };
    let said = [add, take, check].map(|step| number(&step["remaining"]));
    assert_eq!(said, [110, 108, 105]);
    for gate in accounts(quota(&vector["params"], "greedy"), Gcra::new()) {
        let left = |now| Verdict::from(&gate.peek_at(0, now)).remaining;
        let [first, second, third] = [0, 10, 20].map(Tick::from_nanos);
        gate.add_at(number(&add["n"]), first);
        assert_eq!(left(first), 100);
        assert_eq!(gate.charge_at(number(&take["n"]), second), Duration::ZERO);
        assert_eq!(left(second), 98);
        assert!(gate.check_at(number(&check["n"]), third).is_ok());
        assert_eq!(left(third), 97);
    }
}

/// In Bucket4j a bucket created midway through a window begins with a share of it. Here a key never
/// seen and a key not seen since the last window are the same, so each window grants the whole
/// limit, whenever it is entered. (There is no capacity beyond what comes back at once: those rows
/// use that number as the limit.)
fn entered_midway(vector: &Value) {
    let period = Duration::from_millis(number(&vector["params"]["period_ms"]));
    let rows = vector["rows"].as_array().expect("rows");
    assert!(rows.iter().any(|row| row["initial_tokens"] != row["capacity"]), "shares");
    for row in rows {
        let limit = number(&row["refill_tokens"]);
        let now = Tick::from_nanos(number(&row["now_ms"]) * 1_000_000);
        for gate in gates(Quota::new(limit, period), FixedWindow::aligned()) {
            assert_eq!(take_up_to(&*gate, u64::MAX, now), limit, "{row}");
            assert!(gate.check_at(1, now).is_err());
        }
    }
}

/// In Bucket4j, cells come in steps, at the end of an interval, into a capacity of more than a
/// step. Here they come one by one: as many by the end of each interval, and some of them before.
/// (Cells that come all at once make a fixed window, which keeps nothing of the last one.) The
/// remaining cells are the minimum of both limits.
fn by_steps(vector: &Value) {
    let limits = vector["params"]["limits"].as_array().expect("limits");
    let empty = |limit: &Value| {
        let quota = quota(limit, "intervally");
        assert_eq!(number(&limit["initial"]), 0);
        (quota, gates(quota, Gcra::start_empty()))
    };
    let all: Vec<_> = limits.iter().map(empty).collect();
    for which in 0..3 {
        for step in steps(vector) {
            let at = number(&step["t_ns"]);
            let remaining = |(quota, gates): &(Quota, [Box<dyn Gate>; 3])| {
                let now = Tick::from_nanos(at);
                if at == 0 {
                    // The first denial is where the window begins.
                    assert!(gates[which].check_at(1, now).is_err());
                }
                let left = Verdict::from(&gates[which].peek_at(0, now)).remaining;
                let nanos = u64::try_from(quota.period().as_nanos()).expect("a short period");
                assert_eq!(left, (at * quota.limit() / nanos).min(quota.burst_cells()), "{step}");
                left
            };
            let fewest = all.iter().map(remaining).min().expect("two limits");
            let theirs = number(&step["remaining"]);
            assert!(fewest >= theirs, "{step}: {fewest}");
            assert!(fewest < theirs + 5, "{step}: less than a step more, {fewest}");
        }
    }
}

fn aligned(vector: &Value) {
    let params = &vector["params"];
    assert_eq!(params["refill"], "intervally aligned 400/100ms, first at 200 ms");
    let quota = Quota::new(400, Duration::from_millis(100));
    // The clocks start at the epoch, so that the windows begin at whole tenths of a second.
    for gate in gates(quota, FixedWindow::aligned()) {
        for step in steps(vector) {
            let now = Tick::from_nanos(number(&step["t_ms"]) * 1_000_000);
            match step["op"].as_str() {
                Some("take_all") => {
                    let taken = take_up_to(&*gate, u64::MAX, now);
                    assert_eq!(taken, number(&step["taken"]), "{step}");
                }
                _ => replay_step(&*gate, step, now),
            }
        }
    }
}

/// Three limits, asked in turn: a request that the last one denies has been charged to the others.
fn three_limits(vector: &Value) {
    let limits = vector["params"]["limits"].as_array().expect("limits");
    let quotas: Vec<Quota> = limits
        .iter()
        .map(|limit| limit.as_str().expect("a text").parse().expect("a quota"))
        .collect();
    for which in 0..2 {
        let all: Vec<_> = quotas.iter().map(|quota| gates(*quota, Gcra::new())).collect();
        for gate in &all {
            // The buckets exist, unused, for the twelve hours.
            assert!(gate[which].check_at(1, Tick::ZERO).is_ok());
        }
        for step in steps(vector) {
            let now = Tick::from_nanos(number(&step["t_ns"]));
            let n = number(&step["n"]);
            let admitted = all.iter().all(|gate| gate[which].check_at(n, now).is_ok());
            assert_eq!(Some(admitted), step["allow"].as_bool(), "{step}");
        }
    }
}
