//! The log on standard error. The proxy must work whether or not its log is read.

use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::mpsc;

use crate::support::{Proxy, answer, connect, eventually, get, read_head, scratch, upstream};

const SUCCESSFUL: &str = "tollgate_rules_last_reload_successful";
const RELOADS: &str = "tollgate_rules_reloads_total";
const FAILURES: &str = "tollgate_rules_reload_failures_total";
const DROPPED: &str = "tollgate_log_messages_dropped_total";

/// A file with one rule for `/`.
fn rules(name: &str, quota: &str) -> String {
    let text = format!("[[rule]]\nname = \"a\"\nlimits = \"{quota}\"\n");
    scratch(&format!("{name}.toml"), &text).to_str().expect("UTF-8").to_owned()
}

/// Checks that a proxy with an unusable standard error works: it reloads rules, its metrics are correct,
/// and it finishes a request in flight.
fn assert_works(name: &str, stderr: Stdio, is_closed: bool) {
    let (go, gone) = mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let slow = upstream(move |mut stream| {
        if read_head(&mut stream).starts_with("GET /slow ") {
            gone.lock().expect("no panic").recv().expect("requested");
        }
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n";
        stream.write_all(format!("{head}done").as_bytes()).expect("written");
    });
    let (file, slow) = (rules(name, "1000000/s"), format!("http://{slow}"));
    let words = ["--upstream", &slow, "--rules", &file];
    let mut proxy = Proxy::launch(name, &words, &[], stderr);
    let count = |metric: &str| proxy.metric(metric);

    rules(name, "wrong");
    proxy.signal("HUP");
    eventually("it is seen to be wrong", || count(FAILURES) > 0.0);
    eventually("the metric tells so", || count(SUCCESSFUL) == 0.0);
    let before = count(RELOADS);
    rules(name, "1/day");
    proxy.signal("HUP");
    eventually("it is taken over", || count(RELOADS) > before);
    eventually("the metric tells so", || count(SUCCESSFUL) == 1.0);
    assert_eq!(["/", "/"].map(|path| get(proxy.listen, path, "").status), [200, 429]);
    assert_eq!(count("tollgate_task_restarts_total{task=\"rules\"}").to_bits(), 0_f64.to_bits());

    rules(name, "1000000/s");
    proxy.signal("HUP");
    eventually("it is taken over", || get(proxy.listen, "/", "").status == 200);
    let mut client = connect(proxy.listen);
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    eventually("it is in flight", || count("tollgate_http_requests_in_flight") == 1.0);
    eventually("what nobody can read is counted", || (count(DROPPED) > 0.0) == is_closed);
    proxy.signal("TERM");
    eventually("no more connections", || TcpStream::connect(proxy.listen).is_err());
    go.send(()).expect("it waits");
    let answer = answer(client);
    assert_eq!((answer.status, answer.body.as_str()), (200, "done"));
    assert_eq!(proxy.wait(), 0);
}

#[test]
fn with_stderr_closed_rules_are_reloaded_and_requests_finished() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_works("closed", writer.into(), true);
}

#[test]
fn with_stderr_full_and_unread_rules_are_reloaded_and_requests_finished() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("set");
    while writer.write(&[b'x'; 4 << 10]).is_ok() {}
    // All writes of the proxy block forever.
    rustix::io::ioctl_fionbio(&writer, false).expect("set");
    assert_works("full", writer.into(), false);
    drop(reader);
}

#[test]
fn a_wrong_rules_file_of_a_megabyte_is_logged_in_a_few_lines_and_only_once() {
    let long = format!("rule = [{{ name = \"{}\", limits = 7 }}]\n", "x".repeat(1_000_000));
    let wrong = |n| format!("[[rule]]\nname = \"r{n}\"\nlimits = \"5/fortnight\"\n");
    let many = (0..1_000).map(wrong).collect::<String>();
    for (name, text) in [("long", long), ("many", many)] {
        let proxy = Proxy::with_rules(name, "rule = [{ name = \"a\", limits = \"1/s\" }]");
        // The same mistakes in a file that is written repeatedly.
        for count in 1..=3 {
            scratch(&format!("{name}.toml"), &format!("{text}{}", "\n".repeat(count)));
            eventually("it is looked at", || proxy.metric(FAILURES) >= count as f64);
        }
        eventually("it is logged", || proxy.stderr().contains("stay unchanged"));
        let stderr = proxy.stderr();
        assert_eq!(stderr.matches("the rules in force stay unchanged").count(), 1, "{stderr}");
        assert!(stderr.contains(&format!("{name}.toml:")), "{stderr}");
        assert!(stderr.len() < 4_000, "{} bytes", stderr.len());
        let lines = stderr.lines().filter(|line| !line.contains(" WARN "));
        assert!((2..=8).contains(&lines.clone().count()), "{stderr}");
        for line in lines {
            let (time, rest) = line.split_once("Z ERROR ").expect("a time and a level");
            assert!(time.starts_with("20") && time.len() == 23 && rest.len() <= 510, "{line}");
        }
        // SIGHUP logs them again.
        proxy.signal("HUP");
        eventually("it is logged again", || {
            proxy.stderr().matches("the rules in force stay unchanged").count() == 2
        });
    }
}
