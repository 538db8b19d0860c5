//! The inputs of `tollgate replay`: beginnings of logs, and their sources.

use crate::support::json_with;

const RULE: [&str; 2] = ["--rule", "1/s burst 1"];
const LINE: &str = "192.0.2.7 - - [01/Aug/1995:06:00:01 +0000] \"GET / HTTP/1.0\" 200 1\n";

#[test]
fn a_log_that_begins_with_many_blank_lines_is_replayed() {
    for blank_lines in [15, 16, 1_000] {
        let log = "\n".repeat(blank_lines) + LINE + "wrong\n";
        let report = json_with(&RULE, log.as_bytes());
        assert_eq!(report["requests"], 1, "{blank_lines}");
        assert_eq!(report["malformed"]["first"][0]["line"], blank_lines + 2);
    }
}

#[test]
fn a_key_by_address_ignores_ports_and_spellings() {
    let clients = [
        "203.0.113.7",
        "203.0.113.7:51712",
        "::ffff:203.0.113.7",
        "[2001:db8::1]:443",
        "2001:DB8:0::1",
        "fe80::1%eth0",
        "a.example:80",
        "a.example:81",
    ];
    let log: String = clients.map(|client| LINE.replace("192.0.2.7", client)).concat();
    let report = json_with(&RULE, log.as_bytes());
    assert_eq!((&report["keys"], &report["denied"]), (&5.into(), &3.into()));
    let most = report["limiters"][0]["denied_most"].as_array().expect("a list");
    let denied: Vec<_> = most.iter().map(|key| (&key["key"], &key["denied"])).collect();
    let expected = [("203.0.113.7", 2), ("2001:db8::1", 1)].map(|(key, n)| (key.into(), n.into()));
    assert_eq!(denied, expected.each_ref().map(|(key, n)| (key, n)));
    let as_written = json_with(&[&RULE[..], &["--key", "field:host"]].concat(), log.as_bytes());
    assert_eq!(as_written["keys"], 8);
}

/// A pipe that is opened, closed and opened again has no writer the second time.
#[cfg(unix)]
#[test]
fn a_named_pipe_is_opened_once() {
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    let pipes = ["one.pipe", "two.pipe"].map(|name| {
        let pipe = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_file(&pipe);
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("it starts").success());
        // A writer waits for its reader. It is not joined, since it would wait forever without one.
        let written = pipe.clone();
        std::thread::spawn(move || drop(std::fs::write(written, LINE)));
        pipe
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["replay", "--json"])
        .args(RULE)
        .args(&pipes)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let pauses_max = 2_000;
    for pauses in 0.. {
        if child.try_wait().expect("it can be asked").is_some() {
            break;
        }
        if pauses == pauses_max {
            child.kill().expect("it still runs");
            panic!("it waits for a second writer");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("it has ended");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&report["requests"], &report["incomplete"]), (&2.into(), &serde_json::json!([])));
}
