//! Faulty upstreams as real clients see them, compared with nginx in front of the same upstream.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;

use crate::nginx::Nginx;
use crate::support::{Proxy, read_head, upstream};

/// The number of requests to each proxy.
const REQUESTS: usize = 200;

/// The exit code and the output of curl.
fn curl(address: SocketAddr, words: &[&str]) -> (Option<i32>, String) {
    let url = format!("http://{address}/");
    let curl = Command::new("curl").args(["-s", "--max-time", "60"]).args(words).arg(&url).output();
    let output = curl.expect("it runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

/// The statuses of sequential requests, and how often each occurred.
fn statuses(address: SocketAddr) -> Vec<(String, usize)> {
    let url = format!("http://{address}/[1-{REQUESTS}]");
    let words = ["-s", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}\n", &url];
    let output = Command::new("curl").args(words).output().expect("it runs");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let mut counts = std::collections::BTreeMap::new();
    for line in lines.lines() {
        *counts.entry(line.to_owned()).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// An upstream that closes each connection after reading the third request.
fn two_answers_each() -> SocketAddr {
    upstream(|mut stream| {
        for _ in 0..2 {
            if read_head(&mut stream).is_empty() {
                return;
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(answer).expect("written");
        }
        read_head(&mut stream);
    })
}

pub(crate) fn an_upstream_that_closes_reused_connections() {
    let up = two_answers_each();
    let all_are_200 = [("200".to_owned(), REQUESTS)];
    let nginx = Nginx::before("closes", up);
    assert_eq!(statuses(nginx.address), all_are_200, "nginx");
    let proxy = Proxy::before("closes", up, &[]);
    assert_eq!(statuses(proxy.listen), all_are_200);
    assert!(proxy.metric("tollgate_upstream_retries_total") > 0.0);
}

/// An upstream that sends this response and closes.
fn answers(response: &'static str) -> SocketAddr {
    upstream(move |mut stream| {
        read_head(&mut stream);
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{response}").as_bytes()).expect("written");
    })
}

const VERSIONS: [&str; 3] = ["--http1.0", "--http1.1", "--http2-prior-knowledge"];

pub(crate) fn a_response_with_two_lengths_or_a_longer_body_is_a_502() {
    for (number, response) in [
        "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "content-length: 5\r\n\r\nhello world",
    ]
    .into_iter()
    .enumerate()
    {
        let proxy = Proxy::before(&format!("framing-{number}"), answers(response), &[]);
        for version in VERSIONS {
            let status = curl(proxy.listen, &[version, "-o", "/dev/null", "-w", "%{http_code}"]);
            assert_eq!(status, (Some(0), "502".to_owned()), "{version} {response}");
        }
    }
}

pub(crate) fn a_body_that_is_cut_is_an_error() {
    for (number, (response, clients)) in [
        ("content-length: 11\r\n\r\nhello", &VERSIONS[..]),
        ("transfer-encoding: chunked\r\n\r\nb\r\nhello", &VERSIONS[1..]),
    ]
    .into_iter()
    .enumerate()
    {
        let proxy = Proxy::before(&format!("cut-{number}"), answers(response), &[]);
        for version in clients {
            let (code, _) = curl(proxy.listen, &[version]);
            // "Partial file", "receive failure", and "stream error".
            assert!(matches!(code, Some(18 | 56 | 92)), "{version} {response}: {code:?}");
        }
    }
}
