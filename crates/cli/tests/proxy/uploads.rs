//! Uploads that are denied, and clients that close their sending side.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::server::runtime;
use crate::support::{
    PATIENCE, Proxy, answer, connect, eventually, read_head, scratch, upstream, value,
};

/// One request per day for each client.
const ONCE: &str = r#"rule = [{ name = "a", limits = "1/day" }]"#;
const UPLOAD_BYTES: usize = 300_000;

/// A proxy whose only cell is spent, so that it denies.
fn denying(name: &str, words: &[&str]) -> Proxy {
    let rules = scratch(&format!("{name}.toml"), ONCE);
    let rules = ["--rules", rules.to_str().expect("UTF-8")];
    let proxy = Proxy::start(name, &[&rules, words].concat());
    assert_eq!(crate::support::get(proxy.listen, "/", "").status, 200);
    proxy
}

fn head(length: usize, more: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n{more}\r\n")
}

/// Reads one response with a Content-Length, and returns its status line.
fn one_answer(client: &mut std::net::TcpStream) -> String {
    let head = read_head(client);
    let length = value(&head, "content-length").parse().expect("a length");
    client.read_exact(&mut vec![0; length]).expect("the body");
    head.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_denied_upload_may_continue_after_its_429_and_the_connection_is_reused() {
    let proxy = denying("denied-on", &[]);
    let body = vec![b'x'; UPLOAD_BYTES];
    for chunked in [false, true] {
        let mut client = connect(proxy.listen);
        for _ in 0..3 {
            let (head, end) = match chunked {
                false => (head(body.len(), ""), &b""[..]),
                true => {
                    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
                    (format!("{head}{:x}\r\n", body.len()), &b"\r\n0\r\n\r\n"[..])
                }
            };
            client.write_all(head.as_bytes()).expect("written");
            assert_eq!(one_answer(&mut client), "HTTP/1.1 429 Too Many Requests");
            client.write_all(&body).expect("it is still read");
            client.write_all(end).expect("it is still read");
        }
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
        assert_eq!(one_answer(&mut client), "HTTP/1.1 429 Too Many Requests");
    }
    assert_eq!(proxy.metric("tollgate_connections_total").to_string(), "3");
}

#[test]
fn every_denied_upload_receives_its_429() {
    let proxy = denying("denied-all", &[]);
    let upload =
        [head(UPLOAD_BYTES, "connection: close\r\n").into_bytes(), vec![b'x'; UPLOAD_BYTES]];
    let upload = upload.concat();
    for _ in 0..100 {
        let mut client = connect(proxy.listen);
        // Like many clients, read the response only after writing the whole body.
        client.write_all(&upload).expect("no broken pipe");
        assert_eq!(answer(client).status, 429);
    }
}

#[test]
fn every_denied_upload_over_http2_receives_its_429() {
    let proxy = denying("denied-http2", &[]);
    runtime().block_on(async {
        let client: Client<_, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        for _ in 0..100 {
            let body = Full::new(Bytes::from(vec![b'x'; UPLOAD_BYTES]));
            let request = http::Request::post(format!("http://{}/", proxy.listen)).body(body);
            let response = client.request(request.expect("a request")).await.expect("an answer");
            assert_eq!(response.status(), 429);
            response.into_body().collect().await.expect("the whole body");
        }
    });
}

#[test]
fn a_denied_client_that_waits_for_100_continue_is_not_asked_to_send() {
    let proxy = denying("denied-100", &[]);
    let mut client = connect(proxy.listen);
    let head = head(UPLOAD_BYTES, "expect: 100-continue\r\n");
    client.write_all(head.as_bytes()).expect("written");
    assert_eq!(one_answer(&mut client), "HTTP/1.1 429 Too Many Requests");
}

/// The proxy asks the client to send as soon as it forwards the body.
#[test]
fn an_upload_that_a_client_was_asked_for_may_continue_after_an_early_answer() {
    const BODY: usize = 14 << 20;
    const BEGIN: usize = 1 << 20;
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let up = upstream(move |mut stream| {
        if read_head(&mut stream).starts_with("GET ") {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            return stream.write_all(answer).expect("written");
        }
        stream.read_exact(&mut vec![0; 64 << 10]).expect("the begin of the body");
        let answer = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).expect("written");
        // Closing sooner could discard the answer.
        wait.lock().expect("no panic").recv_timeout(PATIENCE).expect("the client has its answer");
    });
    let proxy = Proxy::before("asked-on", up, &[]);
    let mut client = connect(proxy.listen);
    client.write_all(head(BODY, "expect: 100-continue\r\n").as_bytes()).expect("written");
    assert_eq!(read_head(&mut client), "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(&vec![b'x'; BEGIN]).expect("it is read");
    assert_eq!(one_answer(&mut client), "HTTP/1.1 413 Content Too Large");
    go.send(()).expect("it is heard");
    client.write_all(&vec![b'x'; BODY - BEGIN]).expect("the rest is read");
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    assert_eq!(one_answer(&mut client), "HTTP/1.1 200 OK");
}

/// Only `100-continue` in HTTP/1.1 makes a client wait. The others send their body at once.
#[test]
fn every_denied_upload_whose_expectation_asks_for_no_100_receives_its_429() {
    // More than the sockets hold.
    const BODY: usize = 14 << 20;
    let proxy = denying("denied-expect", &[]);
    let body = vec![b'x'; BODY];
    for (version, expect) in [("1.0", "100-continue"), ("1.1", "a-reply")] {
        let head = format!(
            "POST / HTTP/{version}\r\nhost: a\r\nconnection: close\r\nexpect: {expect}\r\n\
             content-length: {BODY}\r\n\r\n"
        );
        let upload = [head.as_bytes(), &body].concat();
        for _ in 0..5 {
            let mut client = connect(proxy.listen);
            client.write_all(&upload).expect("no broken pipe");
            assert_eq!(answer(client).status, 429, "{version} {expect}");
        }
    }
}

#[test]
fn the_rest_of_a_denied_upload_is_bounded_in_bytes_and_time() {
    const FAR_TOO_MUCH: usize = 256 << 20;
    let proxy = denying("denied-bounds", &["--header-timeout", "3"]);
    let mut client = connect(proxy.listen);
    client.write_all(head(FAR_TOO_MUCH, "").as_bytes()).expect("written");
    let piece = vec![b'x'; 1 << 20];
    let written = (0..FAR_TOO_MUCH / piece.len()).take_while(|_| client.write_all(&piece).is_ok());
    let began = Instant::now();
    let written = written.count();
    // 16 MiB are read, unless a busy machine takes the 3 s. The sockets hold 8 more, and hardly ever more than 36.
    let is_in_time = began.elapsed() < Duration::from_millis(2_900);
    assert!(written < 64 && (written >= 16 || !is_in_time), "{written} MiB");

    let mut client = connect(proxy.listen);
    client.write_all(head(UPLOAD_BYTES, "").as_bytes()).expect("written");
    assert_eq!(one_answer(&mut client), "HTTP/1.1 429 Too Many Requests");
    // The client sends nothing more, and the proxy closes the connection.
    assert_eq!(client.read(&mut [0]).expect("closed"), 0);
    eventually("none is open", || proxy.metric("tollgate_connections_open") == 0.0);
}

/// The upstream keeps its connection open, and reads nothing of the upload.
#[test]
fn an_upload_that_is_not_read_after_the_whole_response_is_given_up() {
    // More than the sockets hold, and less than the rest that is read.
    const BODY: usize = 14 << 20;
    let (go, wait) = mpsc::channel::<()>();
    let (ended, bytes_read) = mpsc::channel();
    let inner = std::sync::Mutex::new((wait, ended));
    let up = upstream(move |mut stream| {
        if read_head(&mut stream).starts_with("GET ") {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            return stream.write_all(answer).expect("written");
        }
        let answer = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).expect("written");
        let inner = inner.lock().expect("no panic");
        inner.0.recv_timeout(PATIENCE).expect("it is time");
        let mut bytes = Vec::new();
        // Closed or reset.
        let _ = stream.read_to_end(&mut bytes);
        inner.1.send(bytes.len()).expect("it is heard");
    });
    let proxy = Proxy::before("unread-rest", up, &["--body-timeout", "3"]);
    let mut client = connect(proxy.listen);
    client.write_all(head(BODY, "").as_bytes()).expect("written");
    assert_eq!(one_answer(&mut client), "HTTP/1.1 413 Content Too Large");
    client.write_all(&vec![b'x'; BODY]).expect("the rest is read");
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    assert_eq!(one_answer(&mut client), "HTTP/1.1 200 OK");
    go.send(()).expect("it is heard");
    let read = bytes_read.recv_timeout(PATIENCE).expect("it ends");
    assert!(read < BODY, "{read}");
}

/// An upstream that reports each request, and answers on request or never.
fn held() -> (SocketAddr, mpsc::Receiver<()>, mpsc::Sender<()>, mpsc::Receiver<bool>) {
    let (sender, asked) = mpsc::channel();
    let (go, wait) = mpsc::channel();
    let (ended, is_cut) = mpsc::channel();
    let inner = std::sync::Mutex::new((sender, wait, ended));
    let up = upstream(move |mut stream| {
        read_head(&mut stream);
        // The connection has only one request.
        let inner = inner.lock().expect("no panic");
        inner.0.send(()).expect("it is heard");
        if inner.1.recv_timeout(PATIENCE).is_ok() {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("written");
        }
        // The receiver may be gone.
        let _ = inner.2.send(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    });
    (up, asked, go, is_cut)
}

#[test]
fn a_half_closed_client_receives_its_response() {
    for request in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let (up, asked, go, _) = held();
        let proxy = Proxy::before("half-closed", up, &[]);
        let mut client = connect(proxy.listen);
        client.write_all(request.as_bytes()).expect("written");
        client.shutdown(Shutdown::Write).expect("shut");
        asked.recv_timeout(PATIENCE).expect("it is passed on");
        // Long enough for the proxy to notice the closed sending side.
        std::thread::sleep(Duration::from_millis(200));
        go.send(()).expect("it is heard");
        let answer = answer(client);
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"), "{request}");
        eventually("none is open", || proxy.metric("tollgate_connections_open") == 0.0);
        assert_eq!(proxy.metric("tollgate_http_requests_abandoned_total").to_string(), "0");
    }
}

#[test]
fn two_requests_of_a_half_closed_client_are_both_answered() {
    let proxy = Proxy::start("half-closed-two", &[]);
    let mut client = connect(proxy.listen);
    client.write_all("GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2).as_bytes()).expect("written");
    client.shutdown(Shutdown::Write).expect("shut");
    assert_eq!(answer(client).body.matches("hello from").count(), 2);
}

#[test]
fn a_client_that_is_half_closed_for_too_long_is_given_up() {
    let (up, asked, _go, is_cut) = held();
    let proxy = Proxy::before("half-closed-long", up, &["--half-close-timeout", "0.3"]);
    let mut client = connect(proxy.listen);
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    asked.recv_timeout(PATIENCE).expect("it is passed on");
    client.shutdown(Shutdown::Write).expect("shut");
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    drop(_go);
    assert!(is_cut.recv_timeout(PATIENCE).expect("it ends"));
    eventually("it is counted", || proxy.metric("tollgate_http_requests_abandoned_total") == 1.0);
}

/// A reset means that the client is gone, so the proxy does not wait.
#[test]
fn a_client_that_resets_its_connection_is_given_up_immediately() {
    // The upstream answers the first request and not the second, on whatever connection they come.
    let (sender, asked) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let up = upstream(move |mut stream| {
        if read_head(&mut stream).starts_with("GET /first ") {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(answer).expect("written");
            if read_head(&mut stream).is_empty() {
                return;
            }
        }
        sender.lock().expect("no panic").send(()).expect("it is heard");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let proxy = Proxy::before("reset", up, &["--half-close-timeout", "3600"]);
    let mut client = connect(proxy.listen);
    client.write_all(b"GET /first HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    client.peek(&mut [0]).expect("the answer comes");
    client.write_all(b"GET /second HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    // The first request may still count as in flight, so this does not wait for the metric.
    asked.recv_timeout(PATIENCE).expect("the second is passed on");
    // Unread bytes make the system send a reset instead of a close.
    drop(client);
    eventually("it is counted", || proxy.metric("tollgate_http_requests_abandoned_total") == 1.0);
}
