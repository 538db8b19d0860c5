//! Real logs through the real limiters, compared with figures from other programs.

use std::collections::HashMap;

use crate::support::{
    AZURE_CODE, AZURE_CONV, ELASTIC, HACKERS, NASA, data, json, json_with, scratch, unpacked,
};

/// Figures of the NASA day from a naive token bucket in Python: rule, percentage of requests denied,
/// hosts denied.
const NASA_TRUTHS: [(&str, &str, u64); 8] = [
    ("1/s burst 1", "18.02", 1_413),
    ("1/s burst 5", "0.33", 38),
    ("1/s burst 10", "0.02", 2),
    ("1/s burst 20", "0.00", 0),
    ("10/min burst 1", "48.80", 1_864),
    ("10/min burst 5", "5.92", 576),
    ("10/min burst 10", "0.57", 35),
    ("10/min burst 20", "0.02", 4),
];

#[test]
fn denials_of_the_nasa_day_equal_the_known_figures() {
    let file = data(NASA);
    let rules = NASA_TRUTHS.iter().flat_map(|(rule, _, _)| ["--rule", rule]);
    let words: Vec<&str> = rules.chain(["--key", "ip", &file]).collect();
    let report = json(&words);
    assert_eq!((&report["requests"], &report["keys"]), (&30_969.into(), &2_365.into()));
    let limiters = report["limiters"].as_array().unwrap();
    assert_eq!(limiters.len(), NASA_TRUTHS.len());
    for (limiter, (rule, percent, hosts)) in limiters.iter().zip(NASA_TRUTHS) {
        assert_eq!(limiter["rule"], rule);
        let share = limiter["denied_share"].as_f64().unwrap() * 100.0;
        assert_eq!(format!("{share:.2}"), percent, "{rule}");
        assert_eq!(limiter["keys_denied"], hosts, "{rule}");
        let denied = limiter["denied"].as_u64().unwrap();
        assert_eq!(limiter["admitted"].as_u64().unwrap() + denied, 30_969, "{rule}");
        let over_time: u64 = limiter["denied_over_time"]["denied"]
            .as_array()
            .unwrap()
            .iter()
            .map(|count| count.as_u64().unwrap())
            .sum();
        assert_eq!(over_time, denied, "{rule}");
    }
}

/// Figures of the NASA day from a naive queue in Python: rule, immediate cells, requests denied,
/// requests delayed, and the longest delay in seconds.
#[test]
fn delays_of_the_nasa_day_equal_the_known_figures() {
    let file = data(NASA);
    for (rule, immediate, denied, delayed, longest_secs) in [
        ("10/min burst 5", "1", 1_832, 16_432, 24),
        ("10/min burst 5", "3", 1_832, 5_569, 12),
        ("15/min", "1", 17, 16_100, 56),
        ("15/min", "3", 17, 5_624, 48),
        ("60/h", "1", 288, 26_451, 3_540),
        ("60/h", "3", 288, 19_728, 3_420),
    ] {
        let words = ["--rule", rule, "-a", "leaky-queue", "--immediate", immediate, &file];
        let report = json(&words);
        assert_eq!(report["denied"], denied, "{rule} {immediate}");
        assert_eq!(report["delayed"], delayed, "{rule} {immediate}");
        let longest_nanos = longest_secs * 1_000_000_000_u64;
        assert_eq!(report["longest_delay_nanos"], longest_nanos, "{rule} {immediate}");
    }
}

/// The expected figure is a count by host and minute in a map.
#[test]
fn the_aligned_window_denies_what_a_count_by_minute_denies() {
    let text = String::from_utf8(unpacked(NASA)).unwrap();
    let mut counts: HashMap<(&str, &str), u64> = HashMap::new();
    for line in text.lines() {
        let host = line.split(' ').next().unwrap();
        let minute = &line[line.find('[').unwrap()..][..18];
        *counts.entry((host, minute)).or_default() += 1;
    }
    let expected: u64 = counts.values().map(|count| count.saturating_sub(7)).sum();
    let file = data(NASA);
    let report = json(&["--rule", "7/min", "--algorithm", "fixed-window-aligned", &file]);
    assert_eq!(report["denied"], expected);
    assert!(expected > 100);
}

#[test]
fn the_model_agrees_on_every_log_and_algorithm() {
    let azure = ["--key", "none", "--cost", "field:ContextTokens"];
    let generated = ["--key", "none", "--cost", "field:GeneratedTokens"];
    let runs: [(&str, &[&str], u64); 10] = [
        (NASA, &["--rule", "1/s burst 5", "--rule", "7 per 3 min"], 30_969),
        (NASA, &["--rule", "100000/min burst 50000", "--cost", "bytes"], 30_969),
        (HACKERS, &["--rule", "1/min burst 2", "--key", "path+method"], 3_456),
        (HACKERS, &["--rule", "10000/min", "--cost", "bytes"], 3_456),
        (ELASTIC, &["--rule", "3/s burst 2", "--rule", "1/d burst 9"], 10_000),
        (ELASTIC, &["--rule", "10000/min", "--cost", "bytes", "--immediate", "4000"], 10_000),
        (AZURE_CODE, &[&["--rule", "200000/min"][..], &azure].concat(), 8_819),
        (
            AZURE_CODE,
            &[&["--rule", "900/min", "--sub-windows", "7"][..], &generated].concat(),
            8_819,
        ),
        (AZURE_CONV, &[&["--rule", "100000/min burst 10000"][..], &azure].concat(), 19_366),
        (
            AZURE_CONV,
            &["--rule", "33 per 7 s burst 11", "--key", "none", "--immediate", "4"],
            19_366,
        ),
    ];
    for (name, words, requests) in runs {
        let file = data(name);
        let report = json(&[words, &["--compare", "all", "--verify", &file]].concat());
        assert_eq!(report["requests"], requests, "{name}");
        assert_eq!(report["malformed"]["lines"], 0, "{name}");
        assert_eq!(report["differences"], 0, "{name} {words:?}");
        for limiter in report["limiters"].as_array().unwrap() {
            assert_eq!(limiter["differences"], 0);
            assert_eq!(limiter["table_full"], 0);
            assert!(limiter["denied"].as_u64().unwrap() > 0, "{name} {words:?} denies nothing");
        }
    }
}

#[test]
fn a_log_that_goes_back_in_time_is_reported() {
    let file = data(ELASTIC);
    let back = json(&["--rule", "1/s", &file])["back_in_time"].clone();
    assert_eq!(back["max_nanos"], 59_000_000_000_u64);
    assert_eq!(back["lines"], lines_behind(&unpacked(ELASTIC)));
    for name in [NASA, HACKERS] {
        assert_eq!(json(&["--rule", "1/s", &data(name)])["back_in_time"]["lines"], 0);
    }
}

/// Lines that are older than the latest line before them. The log is of one month, so its times
/// compare as text.
fn lines_behind(log: &[u8]) -> usize {
    let text = String::from_utf8_lossy(log);
    let mut latest = "";
    text.lines()
        .filter(|line| {
            let time = &line[line.find('[').unwrap() + 1..][..20];
            let behind = time < latest;
            latest = latest.max(time);
            behind
        })
        .count()
}

#[test]
fn packed_plain_piped_and_split_logs_give_the_same_report() {
    let text = unpacked(NASA);
    let middle = text.len() / 2;
    let middle = middle + text[middle..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let first = scratch("nasa-first.log", &text[..middle]);
    let second = scratch("nasa-second.log", &text[middle..]);
    let packed = std::fs::read(data(NASA)).unwrap();
    let rule = ["--rule", "10/min burst 5"];
    let expected = json(&[&rule[..], &[&data(NASA)]].concat());
    assert_eq!(json_with(&rule, &text), expected);
    assert_eq!(json_with(&[&rule[..], &["-"]].concat(), &packed), expected);
    assert_eq!(json(&[&rule[..], &[&first, &second]].concat()), expected);
    let mixed = [&rule[..], &[&first, "-"]].concat();
    assert_eq!(json_with(&mixed, &text[middle..]), expected);
}

#[test]
fn every_format_gives_the_same_report() {
    let rule = ["--rule", "1/s burst 5"];
    let expected = json(&[&rule[..], &[&data(NASA)]].concat());
    let mut lines = String::new();
    let mut table = String::from("Time,IP,Note\r\n");
    for line in String::from_utf8(unpacked(NASA)).unwrap().lines() {
        let host = line.split(' ').next().unwrap();
        let time = &line[line.find('[').unwrap() + 1..line.find(']').unwrap()];
        lines += &format!("{{\"remote_addr\":{host:?},\"time_local\":{time:?}}}\n");
        table += &format!("{time},\"{host}\",\"a, \"\"b\"\"\"\r\n");
    }
    assert_eq!(json_with(&rule, lines.as_bytes()), expected);
    assert_eq!(json_with(&rule, table.as_bytes()), expected);
}

/// The naive token bucket found 122 denials on three paths, and none by address.
#[test]
fn an_address_limit_misses_what_a_path_limit_catches() {
    let file = data(HACKERS);
    assert_eq!(json(&["--rule", "12/min", "--key", "ip", &file])["denied"], 0);
    let report = json(&["--rule", "2/min", "--key", "path", &file]);
    assert_eq!((&report["denied"], &report["keys_denied"]), (&122.into(), &3.into()));
    let most = &report["limiters"][0]["denied_most"][0];
    assert_eq!((&most["key"], &most["denied"]), (&"/join_form".into(), &59.into()));
}
