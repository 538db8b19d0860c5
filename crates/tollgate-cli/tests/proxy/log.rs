//! Standard error: what is logged there, and that nothing depends on who reads it.

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

/// A proxy that goes on although its standard error is of no use: rules are reloaded, the metrics
/// are right, and a request under way is finished.
fn assert_works(name: &str, stderr: Stdio, is_closed: bool) {
    let (go, gone) = mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let slow = upstream(move |mut stream| {
        if read_head(&mut stream).starts_with("GET /slow ") {
            gone.lock().expect("no panic").recv().expect("told");
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
    eventually("it is under way", || count("tollgate_http_requests_in_flight") == 1.0);
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
    // The proxy's writes wait for ever.
    rustix::io::ioctl_fionbio(&writer, false).expect("set");
    assert_works("full", writer.into(), false);
    drop(reader);
}
