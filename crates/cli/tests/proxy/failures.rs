//! Failing upstreams and misbehaving clients: each gets a clear response and is counted.

use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;

use crate::server::runtime;
use crate::support::{
    Answer, Proxy, answer, ask, connect, eventually, get, read_head, refusing, send, upstream,
};

pub(crate) fn assert_problem(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let problem: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(problem["status"], status);
}

pub(crate) fn failures(proxy: &Proxy, reason: &str) -> u64 {
    let name = format!("tollgate_forward_failures_total{{reason=\"{reason}\"}}");
    proxy.metric(&name).to_string().parse().expect("whole")
}

#[test]
fn an_upstream_that_is_down_is_a_502() {
    let (_held, address) = refusing();
    let proxy = Proxy::before("down", address, &[]);
    for _ in 0..2 {
        assert_problem(&get(proxy.listen, "/", ""), 502);
    }
    assert_eq!(failures(&proxy, "connect"), 2);
    assert_logged_once(&proxy, "no connection", "refused");
}

#[test]
fn an_upstream_whose_name_is_not_found_is_a_502_and_the_log_says_so() {
    // Names of `.invalid` do not exist (RFC 6761).
    let proxy = Proxy::start(
        "no-name",
        &["--upstream", "http://upstream.invalid", "--connect-timeout", "30"],
    );
    let answer = get(proxy.listen, "/", "");
    assert_problem(&answer, 502);
    assert!(answer.body.contains("no connection to the upstream could be opened"), "{answer:?}");
    assert_eq!(failures(&proxy, "connect"), 1);
    assert_logged_once(&proxy, "no connection", "lookup");
}

/// Checks that one line of the log says `what` and `why`.
pub(crate) fn assert_logged_once(proxy: &Proxy, what: &str, why: &str) {
    let is_of_it = |line: &&str| line.contains(what);
    // The log is written beside the answers.
    eventually("the failure is logged", || proxy.stderr().lines().any(|line| is_of_it(&line)));
    let stderr = proxy.stderr();
    let lines: Vec<_> = stderr.lines().filter(is_of_it).collect();
    assert!(lines.len() == 1 && lines[0].contains(why), "{stderr}");
}

#[test]
fn an_upstream_that_is_slow_is_a_504() {
    let slow = upstream(|mut stream| {
        read_head(&mut stream);
        read_head(&mut stream);
    });
    let proxy = Proxy::before("slow", slow, &["--response-timeout", "0.2"]);
    assert_problem(&get(proxy.listen, "/", ""), 504);
    assert_eq!(failures(&proxy, "response_timeout"), 1);
}

#[test]
fn a_response_that_is_not_http_is_a_502() {
    let answers = [
        "220 mail.example ESMTP\r\n",
        "",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let garbage = upstream(move |mut stream| {
            read_head(&mut stream);
            stream.write_all(answer.as_bytes()).expect("written");
        });
        let proxy = Proxy::before(&format!("garbage-{number}"), garbage, &[]);
        assert_problem(&get(proxy.listen, "/", ""), 502);
        assert_eq!(failures(&proxy, "protocol"), 1);
    }
}

#[test]
fn targets_that_cannot_be_forwarded_are_a_501() {
    let proxy = Proxy::start("targets", &[]);
    assert_problem(&ask(proxy.listen, "OPTIONS", "*", ""), 501);
    assert_problem(&ask(proxy.listen, "CONNECT", "other.example:443", ""), 501);
    assert_eq!(failures(&proxy, "not_passed_on"), 2);
}

#[test]
fn a_target_without_a_path_is_a_400_except_of_an_absolute_form() {
    let proxy = Proxy::start("no-path", &[]);
    for target in ["x", "other.example:443"] {
        assert_problem(&get(proxy.listen, target, ""), 400);
    }
    assert_eq!(get(proxy.listen, "http://test.example?x", "").status, 200);
    // In HTTP/2, a path begins with a slash (RFC 9113, 8.3.1).
    let status = |path| runtime().block_on(status_in_http2(proxy.listen, path));
    assert_eq!([status("?x"), status("/?x")], [400, 200]);
    assert_eq!(failures(&proxy, "target"), 3);
}

#[test]
fn the_bounds_of_a_head_are_those_that_the_help_states() {
    let fields = |count| (0..count).map(|at| format!("x-{at}: 1\r\n")).collect::<String>();
    let up = upstream(move |mut stream| {
        while let Some(wanted) = read_head(&mut stream).split(['/', ' ']).nth(2) {
            let fields = match wanted.strip_suffix("kB").map(str::parse::<usize>) {
                Some(kb) => format!("x: {}\r\n", "a".repeat(kb.expect("a number") << 10)),
                None => fields(wanted.parse::<usize>().unwrap_or(1) - 1),
            };
            let head = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n");
            // The proxy closes the connection within a head that is too large.
            let _ = stream.write_all(head.as_bytes());
        }
    });
    let proxy = Proxy::before("large-heads", up, &[]);
    assert_eq!(get(proxy.listen, "/100", "").status, 200);
    assert_problem(&get(proxy.listen, "/101", ""), 502);
    assert_eq!(get(proxy.listen, "/120kB", "").status, 200);
    assert_problem(&get(proxy.listen, "/300kB", ""), 502);
    // Each request has a host and `Connection`, too.
    let status = |path: &str, headers: &str| get(proxy.listen, path, headers).status;
    assert_eq!([98, 99].map(|count| status("/", &fields(count))), [200, 431]);
    let large = |kb: usize| format!("x: {}\r\n", "a".repeat(kb << 10));
    assert_eq!(status("/", &large(120)), 200);
    // The connection may be reset with the response, because the rest of the head is not read.
    let mut client = connect(proxy.listen);
    let _ = client.write_all(format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", large(300)).as_bytes());
    let mut start = [0; 12];
    match client.read_exact(&mut start) {
        Ok(()) => assert_eq!(start, *b"HTTP/1.1 431"),
        Err(error) => {
            let is_closed = matches!(error.kind(), ConnectionReset | UnexpectedEof);
            assert!(is_closed, "{error}");
        }
    }
    assert_eq!([60, 64].map(|kb| status(&format!("/{}", "a".repeat(kb << 10)), "")), [200, 414]);
}

#[test]
fn a_target_that_is_too_long_behind_the_base_is_a_414() {
    let (_held, address) = refusing();
    let proxy = Proxy::start("base", &["--upstream", &format!("http://{address}/base")]);
    let path = |bytes: usize| format!("/{}", "a".repeat(bytes - 1));
    assert_problem(&get(proxy.listen, &path(65_529), ""), 502);
    assert_problem(&get(proxy.listen, &path(65_530), ""), 414);
    assert_eq!((failures(&proxy, "target_too_long"), failures(&proxy, "not_passed_on")), (1, 0));
}

/// The status for a GET request in HTTP/2 with exactly this path.
async fn status_in_http2(listen: SocketAddr, path: &'static str) -> u16 {
    let stream = tokio::net::TcpStream::connect(listen).await.expect("listening");
    let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let uri = http::Uri::builder().scheme("http").authority("test.example");
    let uri = uri.path_and_query(http::uri::PathAndQuery::from_static(path));
    let request = http::Request::get(uri.build().expect("a URI")).body(()).expect("a request");
    let mut client = client.ready().await.expect("ready");
    let (answer, _) = client.send_request(request, true).expect("sent");
    answer.await.expect("an answer").status().as_u16()
}

#[test]
fn a_body_that_stops_is_a_408_and_a_malformed_one_is_a_400() {
    let proxy = Proxy::start("bodies", &[]);
    let post = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
    let stops = format!("{post}content-length: 10\r\n\r\nhalf");
    // The built-in upstream answers without reading the body, so this needs one that reads it.
    let reader = upstream(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    // The timeout includes the time until the upstream asks for the body. Before that, it is a 504.
    let proxy_of_reader = Proxy::before("reader", reader, &["--response-timeout", "2"]);
    assert_problem(&send(proxy_of_reader.listen, &stops), 408);
    let malformed = format!("{post}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n");
    assert_problem(&send(proxy_of_reader.listen, &malformed), 400);
    assert_eq!(failures(&proxy_of_reader, "client_timeout"), 1);
    assert_eq!(failures(&proxy_of_reader, "client_body"), 1);
    assert_eq!(get(proxy.listen, "/", "").status, 200);
}

#[test]
fn a_client_that_disconnects_cancels_its_request() {
    let (sender, ended) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let slow = upstream(move |mut stream| {
        read_head(&mut stream);
        // The proxy closes the connection, so this ends.
        let is_end = matches!(stream.read(&mut [0]), Ok(0) | Err(_));
        sender.lock().expect("no panic").send(is_end).expect("it is heard");
    });
    // The client may have closed only its sending side, so the proxy waits for `--half-close-timeout`.
    let proxy = Proxy::before("vanish", slow, &["--half-close-timeout", "0.3"]);
    let mut client = connect(proxy.listen);
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    eventually("it is in flight", || proxy.metric("tollgate_http_requests_in_flight") == 1.0);
    drop(client);
    assert!(ended.recv_timeout(crate::support::PATIENCE / 2).expect("before its timeout"));
    eventually("it is counted", || proxy.metric("tollgate_http_requests_abandoned_total") == 1.0);
    assert_eq!(proxy.metric("tollgate_http_requests_in_flight").to_bits(), 0_f64.to_bits());
}

#[test]
fn connections_that_send_no_request_are_closed() {
    let proxy = Proxy::start("mute", &["--header-timeout", "0.3"]);
    for start in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HT", "GET / HTTP/1.1\r\nhost: a\r\n"] {
        let mut client = connect(proxy.listen);
        client.write_all(start.as_bytes()).expect("written");
        let mut rest = Vec::new();
        // Closed or reset, not left open.
        let read = client.read_to_end(&mut rest);
        let waits = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!read.as_ref().is_err_and(waits), "{start}");
    }
    eventually("none is open", || proxy.metric("tollgate_connections_open") == 0.0);
}

#[test]
fn a_head_that_is_too_large_is_rejected() {
    let proxy = Proxy::start("heads", &[]);
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    assert_eq!(get(proxy.listen, "/", &many).status, 431);
    for request in
        ["GET / HTTP/1.1\r\nhost a\r\n\r\n", "nonsense\r\n\r\n", "GET /\0 HTTP/1.1\r\n\r\n"]
    {
        assert_eq!(send(proxy.listen, request).status, 400, "{request}");
    }
    let mut client = connect(proxy.listen);
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("written");
    assert_eq!(answer(client).body.matches("hello from").count(), 2);
}
