//! `tollgate replay` from the command line: options, unusual input, output, and exit codes.

use std::process::{Command, Stdio};

use crate::support::{AZURE_CODE, NASA, data, json_with, replay, replay_with, scratch, unpacked};
use serde_json::Value;
use tollgate::AnyAlgorithm;

const RULE: [&str; 2] = ["--rule", "1/s burst 1"];

/// A line of host `h` at that second of 1 August 1995, 06:00.
fn line(second: u64) -> String {
    format!("h - - [01/Aug/1995:06:00:{second:02} +0000] \"GET / HTTP/1.0\" 200 1\n")
}

#[test]
fn the_report_shows_limiters_and_the_keys_denied_most() {
    let file = data(NASA);
    let ran = replay(&["--rule", "1/s burst 1", "--rule", "1/s burst 20", "--top", "2", &file]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let start = "\
30,969 requests by 2,365 keys (ip)
1995-08-01 06:00:00 to 1995-08-01 18:52:01 (UTC), 12 h 52 min

rule          algorithm  admitted  denied  denied %  keys denied   keys %
1/s burst 1   gcra         25,388   5,581   18.02 %        1,413  59.75 %
1/s burst 20  gcra         30,969       0    0.00 %            0   0.00 %

The most requests that one key was admitted within any second
rule          algorithm  worst second  of limit  ended     key
1/s burst 1   gcra                  1     1.00x  06:00:00  pppa006.compuserve.c…
1/s burst 20  gcra                 11    11.00x  12:59:30  isaac.ksc.nasa.gov

algorithm  at most
gcra       burst + limit: a full bucket, plus the refill of a period

Denied most by 1/s burst 1, gcra
denied  requests  key
   164       364  edams.ksc.nasa.gov
    51        97  163.205.156.16

Denied over time, 15 min a column, on the log's clock (UTC)

1/s burst 1, gcra: at most 242, at 15:15
";
    assert!(ran.out.starts_with(start), "{}", ran.out);
    assert!(ran.out.contains("1/s burst 20, gcra: nothing denied"), "{}", ran.out);
    assert!(ran.out.ends_with("18:00\n"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'));
}

#[test]
fn a_table_of_many_limiters_fits_80_columns() {
    let ran = replay(&["--rule", "10/min burst 5", "--compare", &data(NASA)]);
    assert!(ran.out.contains("\n10/min burst 5\n  gcra "), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    let listed =
        "fixed-window,fixed-window-aligned,leaky-queue,sliding-counter,sliding-log,sub-windows";
    let ran = replay(&["--rule", "10/min burst 5", "--compare", listed, &data(NASA)]);
    let without_burst = "
fixed-window, fixed-window-aligned, sliding-counter, sliding-log, sub-windows:
  the burst is ignored
10/min burst 5, leaky-queue: 16,432 requests were delayed, by at most 24 s
";
    assert!(ran.out.contains(without_burst), "{}", ran.out);
}

#[test]
fn malformed_lines_are_counted_shown_and_skipped() {
    let mut log = line(1);
    for number in 0..7 {
        log += &format!("broken {number} \u{1b}[2J\n");
    }
    log += &line(2);
    let file = scratch("malformed.log", log.as_bytes());
    let ran = replay(&[&RULE[..], &[&file]].concat());
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("2 requests by 1 key (ip)\n"), "{}", ran.out);
    assert!(ran.out.contains("7 malformed lines were skipped\n"), "{}", ran.out);
    assert!(ran.out.contains("malformed.log, line 2: no \" [\""), "{}", ran.out);
    assert!(ran.out.contains("malformed.log, line 6: "), "{}", ran.out);
    assert!(!ran.out.contains("line 7: "), "{}", ran.out);
    assert!(ran.out.ends_with("  and 2 more\n"), "{}", ran.out);
    let report = json_with(&RULE, log.as_bytes());
    assert_eq!(report["malformed"]["lines"], 7);
    assert_eq!(report["malformed"]["first"][4]["line"], 6);
    assert_eq!(report["malformed"]["first"][0]["file"], "standard input");
}

#[test]
fn bytes_that_are_not_text_are_malformed_lines() {
    let log = [line(1).as_bytes(), &[0xff; 300], b"\n\0\0\n", line(3).as_bytes()].concat();
    let report = json_with(&RULE, &log);
    assert_eq!((&report["requests"], &report["malformed"]["lines"]), (&2.into(), &2.into()));
}

#[test]
fn an_older_line_is_decided_at_the_latest_time() {
    let log: String = [10, 8, 11, 5, 30].map(line).concat();
    let decisions = scratch("back.jsonl", b"");
    let report = json_with(&[&RULE[..], &["--decisions", &decisions]].concat(), log.as_bytes());
    assert_eq!(report["back_in_time"]["lines"], 2);
    assert_eq!(report["back_in_time"]["max_nanos"], 6_000_000_000_u64);
    // The line of second 8 is decided at second 10, and the line of second 5 at second 11.
    assert_eq!(report["denied"], 2);
    assert_eq!(report["last_time"], "1995-08-01T06:00:30Z");
    let written = std::fs::read_to_string(decisions).unwrap();
    let lines: Vec<Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[3]["time"], "1995-08-01T06:00:05Z");
    assert_eq!(lines[3]["decided_at"], "1995-08-01T06:00:11Z");
    assert_eq!(lines[2].get("decided_at"), None);
    let ran = replay_with(&RULE, log.as_bytes());
    assert!(ran.out.contains("2 lines went back in time, by at most 6 s"), "{}", ran.out);
}

#[test]
fn decisions_have_one_line_per_request_and_limiter() {
    let out = scratch("decisions.jsonl", b"old");
    let log: String = [1, 1, 2].map(line).concat();
    let words = ["--rule", "1/s", "--compare", "gcra,fixed-window", "--decisions", &out];
    json_with(&words, log.as_bytes());
    let written = std::fs::read_to_string(&out).unwrap();
    assert_eq!(written.lines().count(), 3 * 2);
    assert_eq!(
        written.lines().nth(2).unwrap(),
        "{\"time\":\"1995-08-01T06:00:01Z\",\"key\":\"h\",\"cost\":1,\"rule\":\"1/s\",\
         \"algorithm\":\"gcra\",\"verdict\":\"denied\",\"remaining\":0,\
         \"reset_after_nanos\":1000000000,\"delay_nanos\":null,\"retry_after_nanos\":1000000000}"
    );
    let words = ["--rule", "1/s", "--cost", "2", "--decisions", &out];
    assert_eq!(json_with(&words, log.as_bytes())["never_fit"], 3);
    let written = std::fs::read_to_string(&out).unwrap();
    assert_eq!(written.matches("\"verdict\":\"never\"").count(), 3);
    // The decisions of a real log can be replayed as a log.
    json_with(&[&RULE[..], &["--decisions", &out, &data(NASA)]].concat(), b"");
    let again = json_with(&[&RULE[..], &["--key", "field:key", &out]].concat(), b"");
    assert_eq!((&again["requests"], &again["denied"]), (&30_969.into(), &5_581.into()));
}

#[test]
fn delays_are_reported_per_decision_and_in_total() {
    let out = scratch("delays.jsonl", b"");
    let log = line(1).repeat(5);
    let words = ["--rule", "1/s burst 4", "-a", "leaky-queue", "--decisions", &out];
    for (immediate, delays, text) in [
        ("1", [0_u64, 1, 2, 3], Some("3 requests were delayed, by at most 3 s\n")),
        ("3", [0, 0, 0, 1], Some("1 request was delayed, by at most 1 s\n")),
        ("9", [0; 4], None),
    ] {
        let words = [&words[..], &["--immediate", immediate]].concat();
        let report = json_with(&words, log.as_bytes());
        let delayed = delays.iter().filter(|delay| **delay > 0).count();
        assert_eq!((&report["admitted"], &report["denied"]), (&4.into(), &1.into()));
        assert_eq!(report["delayed"], delayed, "{immediate}");
        assert_eq!(report["longest_delay_nanos"], delays[3] * 1_000_000_000, "{immediate}");
        let written = std::fs::read_to_string(&out).unwrap();
        let delays_written: Vec<Value> = written
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["delay_nanos"].take())
            .collect();
        assert_eq!(delays_written[..4], delays.map(|delay| Value::from(delay * 1_000_000_000)));
        assert_eq!(delays_written[4..], [Value::Null]);
        let ran = replay_with(&words, log.as_bytes());
        match text {
            Some(text) => assert!(ran.out.contains(text), "{}", ran.out),
            None => assert!(!ran.out.contains("delayed"), "{}", ran.out),
        }
    }
}

#[test]
fn decisions_do_not_overwrite_the_log() {
    let log = scratch("kept.log", line(1).as_bytes());
    let ran = replay(&[&RULE[..], &["--decisions", &log, &log]].concat());
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("would overwrite"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(log).unwrap(), line(1));
}

/// A hard link is another name of the same file.
#[cfg(unix)]
#[test]
fn output_does_not_overwrite_a_log_by_another_of_its_names() {
    let log = scratch("linked.log", line(1).as_bytes());
    let link = format!("{log}.link");
    let _ = std::fs::remove_file(&link);
    std::fs::hard_link(&log, &link).unwrap();
    for option in ["--decisions", "--html"] {
        let ran = replay(&[&RULE[..], &[option, &link, &log]].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("would overwrite a log to be read"), "{}", ran.err);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), line(1));
    }
    let other = scratch("linked-other.log", line(1).as_bytes());
    let ran = replay(&[&RULE[..], &["--decisions", &log, "--html", &link, &other]].concat());
    assert!(ran.err.contains("would overwrite the file of --decisions"), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn output_does_not_overwrite_the_log_on_standard_input() {
    let log = scratch("kept-stdin.log", line(1).as_bytes());
    for option in ["--decisions", "--html"] {
        let input = std::fs::File::open(&log).unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .arg("replay")
            .args(RULE)
            .args([option, &log])
            .stdin(input)
            .output()
            .unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{err}");
        assert!(err.contains("would overwrite a log to be read"), "{err}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), line(1));
    }
}

#[test]
fn a_single_limiter_has_its_counts_at_the_top_level_too() {
    let report = json_with(&RULE, line(1).as_bytes());
    for name in ["requests", "keys", "admitted", "denied", "keys_denied"] {
        assert!(report[name].is_u64(), "{name}");
        assert_eq!(report[name], report["limiters"][0][name], "{name}");
    }
    let report = json_with(&["--rule", "1/s", "--compare"], line(1).as_bytes());
    assert_eq!(report.get("admitted"), None);
    assert_eq!(report["limiters"][2]["algorithm"], "fixed-window-aligned");
    assert_eq!(report["limiters"][2]["admitted"], 1);
}

#[test]
fn the_utc_offset_sets_where_the_days_of_aligned_windows_begin() {
    // 21:00 and 22:00 UTC are on one day in UTC and on two days at +02:00.
    let log = line(0).replace(":06:", ":21:") + &line(0).replace(":06:", ":22:");
    let words = ["--rule", "1/d", "--algorithm", "fixed-window-aligned"];
    assert_eq!(json_with(&words, log.as_bytes())["denied"], 1);
    let words = [&words[..], &["--utc-offset", "+02:00"]].concat();
    assert_eq!(json_with(&words, log.as_bytes())["denied"], 0);
}

#[test]
fn a_full_limiter_follows_on_full_and_is_reported() {
    let denied = |on_full: &str| {
        let words = ["--rule", "1/h", "--capacity", "10", "--on-full", on_full, &data(NASA)];
        let report = json_with(&words, b"");
        assert!(report["limiters"][0]["table_full"].as_u64().unwrap() > 0);
        report["denied"].as_u64().unwrap()
    };
    assert!(denied("admit") < denied("evict"));
    assert!(denied("evict") < denied("deny"));
    let ran = replay(&["--rule", "1/h", "--capacity", "10", &data(NASA)]);
    assert!(ran.out.contains("raise --capacity"), "{}", ran.out);
    // The model still counts a key that the limiter has evicted.
    let ran = replay(&["--rule", "1/h", "--capacity", "10", "--verify", &data(NASA)]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("differences from the reference model"), "{}", ran.out);
}

#[test]
fn an_algorithm_that_cannot_keep_a_rule_is_left_out_and_reported() {
    let words = ["--rule", "70000/min", "--rule", "9/min", "--compare", "all"];
    let ran = replay_with(&words, line(1).as_bytes());
    let left_out = "
left out: 70000/min, sliding-log: a log keeps at most 65,536 events a window:
  use sub-windows or the token bucket, or count in larger cells
";
    assert!(ran.code == 0 && ran.out.contains(left_out), "{}", ran.out);
    let report = json_with(&words, line(1).as_bytes());
    let all = AnyAlgorithm::NAMES.len();
    assert_eq!(report["limiters"].as_array().unwrap().len(), all - 1 + all);
    let left_out = report["left_out"].as_array().unwrap();
    assert_eq!((left_out.len(), &left_out[0]["rule"]), (1, &"70000/min".into()));
    assert_eq!(left_out[0]["algorithm"], "sliding-log");
    assert_eq!(json_with(&RULE, b"")["left_out"], Value::Array(Vec::new()));
}

#[test]
fn a_limiter_with_large_rings_has_room_for_fewer_keys() {
    // There is room for 1,126 of the 2,365 keys.
    let words = ["--rule", "65536/d", "--algorithm", "sliding-log", &data(NASA)];
    let report = json_with(&words, b"");
    assert_eq!((&report["limiters"][0]["capacity"], &report["denied"]), (&1_126.into(), &0.into()));
    let ran = replay(&words);
    assert!(ran.out.contains("with room for 1,126 keys: raise --capacity"), "{}", ran.out);
    let roomy = json_with(&[&words[..], &["--capacity", "3000"]].concat(), b"");
    assert_eq!(
        (&roomy["limiters"][0]["capacity"], &roomy["limiters"][0]["table_full"]),
        (&3_000.into(), &0.into())
    );
}

#[test]
fn empty_input_has_a_report() {
    for input in [&b""[..], b"\n\n", &[0x1f]] {
        let ran = replay_with(&[&RULE[..], &["--format", "clf"]].concat(), input);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.starts_with("0 requests by 0 keys (ip)\nthe input contains no request"));
    }
    let report = json_with(&[&RULE[..], &["--verify"]].concat(), b"");
    assert_eq!((&report["requests"], &report["denied"]), (&0.into(), &0.into()));
    assert_eq!(report["first_time"], Value::Null);
}

#[test]
fn a_truncated_file_is_reported_as_incomplete() {
    let packed = std::fs::read(data(NASA)).unwrap();
    let file = scratch("broken.log.gz", &packed[..100_000]);
    let ran = replay(&[&RULE[..], &[&file]].concat());
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("broken.log.gz could not be read to its end"), "{}", ran.err);
    assert!(ran.out.contains("9,774 requests"), "{}", ran.out);
    assert!(ran.out.contains("INCOMPLETE: "), "{}", ran.out);
    let ran = replay_with(&[&RULE[..], &["--json"]].concat(), &packed[..100_000]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["incomplete"][0]["file"]), (2, &"standard input".into()));
}

#[test]
fn a_wrong_option_or_file_is_an_error_without_a_report() {
    let nasa = data(NASA);
    let azure = data(AZURE_CODE);
    for (words, why) in [
        (&["--rule", "1/s", "/no/such.log"][..], "cannot open /no/such.log"),
        (&["--rule", "1/s", "/"], "it is a directory"),
        (&["--rule", "1/s", "--decisions", "/no/such/dir", &nasa], "cannot write /no/such/dir"),
        (&["--rule", "1/s", "--html", "/no/such/page", &nasa], "there is no folder /no/such"),
        (&["--rule", "1/s", "--key", "field:colour", &nasa], "may be host, ident, user"),
        (&["--rule", "1/s", &azure], "TIMESTAMP, ContextTokens, GeneratedTokens"),
        (&["--rule", "1/s", "--key", "none", "--time-field", "t", &azure], "no column \"t\""),
        (&["--rule", "1/s", "--format", "csv", &nasa], "--time-field"),
        (&["--rule", "1/s", "--compare", "gcra,magic", &nasa], "`magic` is not an algorithm"),
        (&["--rule", "2000000000 per 10 s", "-a", "fixed-window", &nasa], "fixed-window"),
        (&["--rule", "70000/min", "-a", "sliding-log", &nasa], "at most 65,536 events"),
        (&["--rule", "70000/min", "--compare", "gcra,sliding-log", &nasa], "at most 65,536 events"),
        (
            &["--rule", "60000/min", "-a", "sliding-log", "--capacity", "1000000000", &nasa],
            "lower --capacity",
        ),
        (&["--rule", "1/s", "--sub-windows", "12", &nasa], "choose it with --algorithm"),
        (&["--rule", "1/s", "-a", "sub-windows", "--sub-windows", "1", &nasa], "2..=256"),
        (&["--rule", "1/s", "--immediate", "3", &nasa], "choose it with --algorithm"),
        (&["--rule", "1/s", "-a", "leaky-queue", "--immediate", "0", &nasa], "--immediate <K>"),
        (&["--rule", "10 per fortnight", &nasa], "column 8"),
        (&["--rule", "1/s", "--key", "colour", &nasa], "field:NAME"),
        (&[&nasa], "--rule"),
    ] {
        let ran = replay(words);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{words:?}");
        assert!(ran.err.contains(why), "{words:?}: {}", ran.err);
    }
    let ran = replay_with(&RULE, b"What is this?\nIt is a letter.\n");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--format clf, jsonl or csv"), "{}", ran.err);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["replay", "--rule", "1/s", &data(NASA)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn the_help_describes_time_and_algorithms() {
    let ran = replay(&["--help"]);
    assert_eq!(ran.code, 0);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    let help = words.join(" ");
    assert!(help.contains(
        "never goes back: a line that is older than a line before it is decided at the latest"
    ));
    for name in ["fixed-window-aligned", "leaky-queue", "sub-windows", "sliding-counter"] {
        assert!(help.contains(&format!("{name} (")), "{help}");
    }
}

#[test]
fn json_lines_without_the_key_are_malformed() {
    let log = b"{\"time\":1,\"user\":\"a\"}\n{\"time\":1.5}\n{\"time\":2,\"user\":null}\n";
    let report = json_with(&[&RULE[..], &["--key", "user"]].concat(), log);
    assert_eq!((&report["requests"], &report["malformed"]["lines"]), (&1.into(), &2.into()));
    assert_eq!(report["malformed"]["first"][0]["why"], "the line has no `user`");
}

#[test]
fn the_last_line_needs_no_line_end() {
    let text = unpacked(AZURE_CODE);
    assert!(!text.ends_with(b"\n"));
    let report = json_with(&["--rule", "1/s", "--key", "none"], &text);
    assert_eq!(report["requests"], 8_819);
}
