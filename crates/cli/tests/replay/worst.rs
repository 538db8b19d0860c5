//! Worst windows: known figures of a real day, and a recount of every decision.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::support::{
    AZURE_CODE, AZURE_CONV, ELASTIC, HACKERS, NASA, data, json, json_with, replay, scratch,
};

/// The algorithms whose figures are written here. Those of any other are recounted, and its bound is checked.
const ALGORITHMS: [&str; 7] = [
    "gcra",
    "fixed-window",
    "fixed-window-aligned",
    "leaky-queue",
    "sub-windows",
    "sliding-counter",
    "sliding-log",
];

/// The name of each algorithm, and the words for the most that it admits, in the order of a report.
fn bounds() -> Vec<(String, String)> {
    let out = replay(&["--rule", "10/min burst 5", "--compare", "all", &data(HACKERS)]).out;
    let head = |line: &&str| line.starts_with("algorithm ") && line.ends_with("  at most");
    let rows =
        out.lines().skip_while(|line| !head(line)).skip(1).take_while(|line| !line.is_empty());
    let row = |line: &str| {
        let (name, bound) = line.split_once("  ").expect("two columns");
        (name.to_owned(), bound.trim().to_owned())
    };
    let bounds: Vec<_> = rows.map(row).collect();
    let names: Vec<_> = bounds.iter().map(|(name, _)| &**name).collect();
    assert!(ALGORITHMS.iter().all(|known| names.contains(known)), "{names:?}");
    bounds
}

/// The number of cells that the words of a bound stand for, where each request costs one.
fn cells_of(bound: &str, burst: u64, limit: u64) -> u64 {
    match bound.split([':', ';', ',']).next().expect("words") {
        "burst + limit" => burst + limit,
        "limit + one request" => limit + 1,
        "the limit" => limit,
        "2 x limit" => 2 * limit,
        unknown => panic!("how many cells are \"{unknown}\"?"),
    }
}

/// Cells, end of the window, and key.
type Truth = (u64, &'static str, &'static str);

/// The figures of the NASA day, computed by naive limiters and a naive count in Python. The order is
/// that of the algorithms.
const NASA_TRUTHS: [(&str, [Truth; 7]); 3] = [
    // The bucket stays below 5 + 10. One window comes near 2 x 10, and the aligned one reaches it. The
    // queue and the log stay at 10, and the approximations of the log are between.
    (
        "10/min burst 5",
        [
            (14, "07:13:52", "maurice.cfr.washington.edu"),
            (16, "13:28:24", "max65.uni-c.dk"),
            (20, "09:12:19", "news.dfrc.nasa.gov"),
            (10, "06:16:37", "pc-heh.icl.dk"),
            (15, "08:47:42", "128.159.76.67"),
            (17, "08:47:42", "128.159.76.67"),
            (10, "06:11:53", "dialup12.leuven.eunet.be"),
        ],
    ),
    // With a burst as large as the limit, the bucket comes near 2 x the limit as well.
    (
        "15/min",
        [
            (29, "16:55:00", "titan02f"),
            (19, "16:55:00", "titan02f"),
            (28, "09:12:26", "news.dfrc.nasa.gov"),
            (15, "06:26:54", "glim.stanford.edu"),
            (19, "07:13:54", "maurice.cfr.washington.edu"),
            (22, "09:12:26", "news.dfrc.nasa.gov"),
            (15, "06:26:31", "glim.stanford.edu"),
        ],
    ),
    (
        "60/h",
        [
            (116, "12:26:57", "130.110.74.81"),
            (96, "16:07:19", "edams.ksc.nasa.gov"),
            (120, "12:15:30", "130.110.74.81"),
            (60, "11:37:33", "www-relay.pa-x.dec.com"),
            (72, "17:33:04", "arc.dental.upenn.edu"),
            (89, "13:44:54", "huge.oso.chalmers.se"),
            (60, "07:50:38", "s150.phxslip4.indirect.com"),
        ],
    ),
];

#[test]
fn worst_windows_of_the_nasa_day_equal_the_known_figures() {
    for (rule, truths) in NASA_TRUTHS {
        let report = json(&["--rule", rule, "--compare", "all", &data(NASA)]);
        let limit: f64 = rule.split('/').next().unwrap().parse().unwrap();
        for (name, (cells, clock, key)) in ALGORITHMS.iter().zip(truths) {
            let worst = worst(&report, name);
            assert_eq!(worst["cells"], cells, "{rule} {name}");
            assert_eq!(worst["end_time"], format!("1995-08-01T{clock}Z"), "{rule} {name}");
            assert_eq!(worst["key"], key, "{rule} {name}");
            let of_limit = worst["of_limit"].as_f64().unwrap();
            assert!((of_limit - cells as f64 / limit).abs() < 1e-9, "{rule} {name}: {of_limit}");
        }
    }
}

#[test]
fn the_report_compares_worst_windows_of_all_algorithms() {
    let all = ALGORITHMS.join(",");
    let ran = replay(&["--rule", "10/min burst 5", "--compare", &all, &data(NASA)]);
    let table = "
The most requests that one key was admitted within any minute
  algorithm             worst minute  of limit  ended     key
10/min burst 5
  gcra                            14     1.40x  07:13:52  maurice.cfr.washingto…
  fixed-window                    16     1.60x  13:28:24  max65.uni-c.dk
  fixed-window-aligned            20     2.00x  09:12:19  news.dfrc.nasa.gov
  leaky-queue                     10     1.00x  06:16:37  pc-heh.icl.dk
  sub-windows                     15     1.50x  08:47:42  128.159.76.67
  sliding-counter                 17     1.70x  08:47:42  128.159.76.67
  sliding-log                     10     1.00x  06:11:53  dialup12.leuven.eunet…

algorithm             at most
gcra                  burst + limit: a full bucket, plus the refill of a period
fixed-window          2 x limit: one on each side of a window's edge
fixed-window-aligned  2 x limit: one on each side of a window's edge
leaky-queue           limit + one request, or + --immediate cells if more
sub-windows           2 x limit; the limit within a period less one sub-window
sliding-counter       2 x limit: it assumes that the last window was even
sliding-log           the limit, exactly
";
    assert!(ran.out.contains(table), "{}", ran.out);
    let ran = replay(&["--rule", "9/min", "--rule", "7 per 15 min", &data(NASA)]);
    assert!(ran.out.contains("within any period of its rule\n"), "{}", ran.out);
    assert!(ran.out.contains("  worst window  "), "{}", ran.out);
    let ran = replay(&["--rule", "7 per 15 min", "--cost", "bytes", &data(NASA)]);
    assert!(ran.out.contains("The most cells that one key was admitted within any 15 min\n"));
}

#[test]
fn no_algorithm_exceeds_its_bound() {
    let bounds = bounds();
    let rules = [("3/s burst 2", 2, 3), ("7/min", 7, 7), ("7/3min burst 30", 30, 7), ("9/d", 9, 9)];
    let options = rules.map(|(rule, ..)| ["--rule", rule]).concat();
    for name in [NASA, HACKERS, ELASTIC, AZURE_CODE, AZURE_CONV] {
        let key = if [AZURE_CODE, AZURE_CONV].contains(&name) { "none" } else { "ip" };
        let report =
            json(&[&options[..], &["--key", key, "--compare", "all", &data(name)]].concat());
        for (rule, burst, limit) in rules {
            for (algorithm, bound) in &bounds {
                let cells = worst_of(&report, rule, algorithm)["cells"].as_u64().unwrap();
                let most = cells_of(bound, burst, limit);
                assert!(cells <= most, "{name} {rule} {algorithm}: {cells}");
            }
        }
    }
}

/// These logs have microseconds, and a time unit is 5 us.
#[test]
fn sliding_log_keeps_the_limit_below_its_time_unit() {
    for (rule, limit) in [("3/s", 3), ("10/s", 10)] {
        for name in [AZURE_CODE, AZURE_CONV] {
            let report = json(&["--rule", rule, "--key", "none", "-a", "sliding-log", &data(name)]);
            assert_eq!(report["worst_window"]["cells"], limit, "{name} {rule}");
        }
    }
}

/// The outlet is even, up to one time unit, so a window holds the immediate cells plus one limit.
#[test]
fn leaky_queue_keeps_the_limit_plus_its_immediate_cells() {
    for (rule, limit) in [("10/s burst 30", 10), ("33 per 7 s burst 40", 33), ("7/min", 7)] {
        for immediate in [1, 4] {
            let cells = immediate.to_string();
            let words = ["--rule", rule, "--key", "none", "-a", "leaky-queue", "--immediate"];
            let report = json(&[&words[..], &[&cells, &data(AZURE_CODE)]].concat());
            let most = report["worst_window"]["cells"].as_u64().unwrap();
            assert_eq!(most, limit + immediate, "{rule} {immediate}");
        }
        let cost = ["--cost", "5", "--key", "none", "-a", "leaky-queue", &data(AZURE_CODE)];
        let report = json(&[&["--rule", rule][..], &cost].concat());
        let most = report["worst_window"]["cells"].as_u64().unwrap();
        assert!((limit..=limit + 5).contains(&most), "{rule}: {most}");
    }
}

/// More sub-windows come nearer to the exact log.
#[test]
fn finer_sub_windows_admit_less_at_worst() {
    let nasa = data(NASA);
    let cells = |count: &str| {
        let words = ["--rule", "60/h", "-a", "sub-windows", "--sub-windows", count, &nasa];
        json(&words)["worst_window"]["cells"].as_u64().unwrap()
    };
    let [two, six, sixty] = ["2", "6", "60"].map(cells);
    assert!(two > six && six > sixty && sixty > 60, "{two} {six} {sixty}");
    assert_eq!(json(&["--rule", "60/h", "-a", "sub-windows", &nasa])["worst_window"]["cells"], six);
}

/// Covers a log that goes back in time, and one with costs and fractions of a second.
#[test]
fn a_recount_of_all_decisions_gives_the_same_windows() {
    let cost = ["--key", "none", "--cost", "field:ContextTokens"];
    let elastic = data(ELASTIC);
    let azure = data(AZURE_CODE);
    recount("elastic", "4/min burst 2", 60, &[&elastic]);
    recount("azure", "3000/s burst 8000", 1, &[&cost[..], &[&azure]].concat());
    let immediate = ["--immediate", "5000", &azure];
    recount("azure-immediate", "3000/s burst 8000", 1, &[&cost[..], &immediate].concat());
}

fn recount(name: &str, rule: &str, period_secs: i128, words: &[&str]) {
    let decisions = scratch(&format!("worst-{name}.jsonl"), b"");
    let replay = ["--rule", rule, "--compare", "all", "--decisions", &decisions];
    let report = json(&[&replay[..], words].concat());
    let admitted = admitted(&decisions);
    for (algorithm, _) in &bounds() {
        let most = admitted
            .iter()
            .filter(|((by, _), _)| by == algorithm)
            .map(|(_, events)| naive(events, period_secs * 1_000_000_000))
            .max();
        let worst = worst(&report, algorithm);
        assert_eq!(worst["cells"].as_u64(), most, "{name} {algorithm}");
        let of = (algorithm.clone(), worst["key"].as_str().unwrap().to_owned());
        assert_eq!(Some(naive(&admitted[&of], period_secs * 1_000_000_000)), most);
    }
}

/// Time and number of the admitted cells, by algorithm and key.
fn admitted(decisions: &str) -> HashMap<(String, String), Vec<(i128, u64)>> {
    let written = std::fs::read_to_string(decisions).unwrap();
    let mut admitted: HashMap<_, Vec<_>> = HashMap::new();
    for line in written.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["verdict"] != "admitted" {
            continue;
        }
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        let at: Timestamp = text("decided_at").or(text("time")).unwrap().parse().unwrap();
        let of = (text("algorithm").unwrap(), text("key").unwrap());
        let cost = line["cost"].as_u64().unwrap();
        let delay_nanos = i128::from(line["delay_nanos"].as_u64().unwrap());
        admitted.entry(of).or_default().push((at.as_nanosecond() + delay_nanos, cost));
    }
    admitted
}

/// The most cells in any window that ends with an event.
fn naive(events: &[(i128, u64)], period_nanos: i128) -> u64 {
    let window = |(end, _): &(i128, u64)| {
        let is_in = |(at, _): &&(i128, u64)| at <= end && end - at < period_nanos;
        events.iter().filter(is_in).map(|(_, cost)| cost).sum()
    };
    events.iter().map(window).max().unwrap_or(0)
}

#[test]
fn a_window_ends_exactly_one_period_later() {
    let line = |time: &str| format!("{{\"time\":\"2024-05-01T{time}Z\",\"ip\":\"h\"}}\n");
    for (last, cells) in [("12:01:00.500000006", 2), ("12:01:00.500000007", 1)] {
        let log = line("12:00:00.500000007") + &line(last);
        let report = json_with(&["--rule", "2/min"], log.as_bytes());
        assert_eq!(report["worst_window"]["cells"], cells, "{last}");
        assert_eq!(report["worst_window"]["period_nanos"], 60_000_000_000_u64);
        assert_eq!(report["worst_window"], report["limiters"][0]["worst_window"]);
    }
}

#[test]
fn without_admissions_there_is_no_worst_window() {
    let log = b"{\"time\":1,\"ip\":\"h\"}\n";
    let report = json_with(&["--rule", "1/s", "--cost", "2"], log);
    assert_eq!((&report["denied"], &report["worst_window"]), (&1.into(), &Value::Null));
    let report = json_with(&["--rule", "1/s"], b"");
    assert_eq!(report["worst_window"], Value::Null);
}

/// The worst window of an algorithm, in the report of one rule.
fn worst<'r>(report: &'r Value, algorithm: &str) -> &'r Value {
    worst_of(report, report["limiters"][0]["rule"].as_str().unwrap(), algorithm)
}

fn worst_of<'r>(report: &'r Value, rule: &str, algorithm: &str) -> &'r Value {
    let is_meant = |its: &&Value| its["rule"] == rule && its["algorithm"] == algorithm;
    &report["limiters"].as_array().unwrap().iter().find(is_meant).unwrap()["worst_window"]
}
