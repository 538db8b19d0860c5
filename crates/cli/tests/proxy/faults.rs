//! Upstreams that close a connection between two requests, or send a body whose length is not the
//! announced one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::failures::{assert_problem, failures};
use crate::server::runtime;
use crate::support::{
    Answer, PATIENCE, Proxy, ask, connect, eventually, get, read_head, send, upstream,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn retries(proxy: &Proxy) -> u64 {
    proxy.metric("tollgate_upstream_retries_total").to_string().parse().expect("whole")
}

fn faults(proxy: &Proxy, fault: &str) -> u64 {
    let name = format!("tollgate_response_faults_total{{fault=\"{fault}\"}}");
    proxy.metric(&name).to_string().parse().expect("whole")
}

/// An upstream that answers the first request of each connection, reads the second one, and closes. The
/// receiver gets the heads of all requests.
fn one_answer_each() -> (SocketAddr, mpsc::Receiver<String>) {
    let (sender, heads) = mpsc::channel();
    let sender = Mutex::new(sender);
    let address = upstream(move |mut stream| {
        for answer in [Some(OK), None] {
            let head = read_head(&mut stream);
            if head.is_empty() {
                return;
            }
            let has_body = !head.starts_with("HEAD ");
            sender.lock().expect("no panic").send(head).expect("it is heard");
            if let Some(answer) = answer {
                let end = if has_body { answer.len() } else { answer.len() - 2 };
                stream.write_all(&answer[..end]).expect("written");
            }
        }
    });
    (address, heads)
}

/// Sends requests until the proxy has retried `count` times. A single request may not find a kept
/// connection, because the pool may not have it back yet.
fn until_retried(proxy: &Proxy, times: u64, mut ask: impl FnMut()) {
    eventually("a kept connection is taken", || {
        ask();
        retries(proxy) >= times
    });
}

#[test]
fn a_get_on_a_closed_reused_connection_is_sent_again() {
    let (up, heads) = one_answer_each();
    let proxy = Proxy::before("retry-get", up, &[]);
    let mut requests = 0;
    until_retried(&proxy, 10, || {
        let answer = get(proxy.listen, "/", "");
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
        requests += 1;
    });
    assert_eq!(heads.try_iter().count() as u64, requests + retries(&proxy));
    for reason in ["closed", "protocol"] {
        assert_eq!(failures(&proxy, reason), 0, "{reason}");
    }
}

#[test]
fn only_idempotent_requests_without_a_body_are_sent_again() {
    for (method, headers) in
        [("HEAD", ""), ("OPTIONS", ""), ("PUT", "content-length: 0\r\n"), ("DELETE", "")]
    {
        let (up, heads) = one_answer_each();
        let proxy = Proxy::before(&format!("retry-{method}"), up, &[]);
        let mut requests = 0;
        until_retried(&proxy, 1, || {
            assert_eq!(ask(proxy.listen, method, "/", headers).status, 200, "{method}");
            requests += 1;
        });
        assert_eq!(heads.try_iter().count() as u64, requests + retries(&proxy), "{method}");
    }
    let put = "PUT / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx";
    for request in [
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        "PATCH / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        "PURGE / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        // A body may have been read, so it cannot be sent again.
        put,
    ] {
        let (up, heads) = one_answer_each();
        let name = request.split(' ').next().expect("a method");
        let proxy = Proxy::before(&format!("no-retry-{name}"), up, &[]);
        let mut requests = 0;
        eventually("a kept connection is taken", || {
            assert_eq!(get(proxy.listen, "/", "").status, 200);
            let status = send(proxy.listen, request).status;
            assert!(matches!(status, 200 | 502), "{status}");
            requests += 1;
            status == 502
        });
        assert_eq!(failures(&proxy, "closed"), 1, "{name}");
        // The upstream does not read bodies. If it is sent another request on the same connection, the
        // body of the first one precedes the head.
        let is_sent = |head: &String| head.trim_start_matches('x').starts_with(name);
        assert_eq!(heads.try_iter().filter(is_sent).count(), requests, "{name}");
    }
}

/// All kept connections may be closed, so the second attempt must not use one of them.
#[test]
fn the_second_attempt_uses_a_new_connection() {
    const KEPT: usize = 4;
    let all_asked = Arc::new(Barrier::new(KEPT));
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let up = upstream(move |mut stream| {
        read_head(&mut stream);
        // Responses wait until all requests have arrived, so each request has its own connection.
        if count.fetch_add(1, Ordering::Relaxed) < KEPT {
            all_asked.wait();
        }
        stream.write_all(OK).expect("written");
        read_head(&mut stream);
    });
    let proxy = Proxy::before("retry-many", up, &[]);
    let listen = proxy.listen;
    let clients = [(); KEPT].map(|()| std::thread::spawn(move || get(listen, "/", "").status));
    for client in clients {
        assert_eq!(client.join().expect("no panic"), 200);
    }
    until_retried(&proxy, 4, || assert_eq!(get(listen, "/", "").status, 200));
}

#[test]
fn a_failed_second_attempt_is_not_repeated() {
    let is_down = Arc::new(AtomicBool::new(false));
    let requests = Arc::new(AtomicUsize::new(0));
    let (down, count) = (Arc::clone(&is_down), Arc::clone(&requests));
    let up = upstream(move |mut stream| {
        while !read_head(&mut stream).is_empty() {
            count.fetch_add(1, Ordering::Relaxed);
            if down.load(Ordering::Relaxed) {
                return;
            }
            stream.write_all(OK).expect("written");
        }
    });
    let proxy = Proxy::before("retry-once", up, &[]);
    let mut expected = 0;
    until_retried(&proxy, 1, || {
        is_down.store(false, Ordering::Relaxed);
        assert_eq!(get(proxy.listen, "/", "").status, 200);
        is_down.store(true, Ordering::Relaxed);
        assert_problem(&get(proxy.listen, "/", ""), 502);
        expected += 2;
    });
    assert_eq!((requests.load(Ordering::Relaxed), retries(&proxy)), (expected + 1, 1));
    // A new connection that is closed is not a reused one: nothing is sent again.
    assert_problem(&get(proxy.listen, "/", ""), 502);
    assert_eq!((requests.load(Ordering::Relaxed), retries(&proxy)), (expected + 2, 1));
    assert_eq!(failures(&proxy, "closed"), 0);
}

#[test]
fn a_request_whose_response_has_begun_is_not_sent_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let up = upstream(move |mut stream| {
        for answer in [OK, b"HTTP/1.1 200 OK\r\ncontent-le"] {
            if read_head(&mut stream).is_empty() {
                return;
            }
            count.fetch_add(1, Ordering::Relaxed);
            stream.write_all(answer).expect("written");
        }
    });
    let proxy = Proxy::before("retry-begun", up, &[]);
    let mut asked = 0;
    eventually("a kept connection is taken", || {
        asked += 1;
        get(proxy.listen, "/", "").status == 502
    });
    assert_eq!((requests.load(Ordering::Relaxed), retries(&proxy)), (asked, 0));
}

/// An upstream that answers each request with these bytes, and then closes or waits.
fn answers(response: &'static [u8], closes: bool) -> SocketAddr {
    upstream(move |mut stream| {
        while !read_head(&mut stream).is_empty() {
            stream.write_all(response).expect("written");
            if closes {
                return;
            }
        }
    })
}

#[test]
fn a_response_with_two_lengths_or_an_unknown_encoding_is_a_502() {
    let answers_of: [&[u8]; 8] = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: -3\r\n\r\nabc",
    ];
    for (number, answer) in answers_of.into_iter().enumerate() {
        for closes in [true, false] {
            let proxy =
                Proxy::before(&format!("two-lengths-{number}"), answers(answer, closes), &[]);
            let said = String::from_utf8_lossy(answer);
            assert_problem(&get(proxy.listen, "/", ""), 502);
            assert_eq!(failures(&proxy, "framing") + failures(&proxy, "protocol"), 1, "{said}");
        }
    }
}

/// The bytes after the first response could be a second response without a request.
#[test]
fn a_connection_with_two_lengths_is_not_reused() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let up = upstream(move |mut stream| {
        count.fetch_add(1, Ordering::Relaxed);
        let both =
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
        while !read_head(&mut stream).is_empty() {
            stream.write_all(both.as_bytes()).expect("written");
        }
    });
    let proxy = Proxy::before("poisoned", up, &[]);
    for _ in 0..5 {
        assert_problem(&get(proxy.listen, "/", ""), 502);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 5);
}

/// A response that arrives with another one answers no request. It must not answer the next request.
#[test]
fn a_connection_with_a_response_too_many_is_not_reused() {
    const UNASKED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nunasked";
    let is_reused = Arc::new(AtomicBool::new(false));
    let reused = Arc::clone(&is_reused);
    let up = upstream(move |mut stream| {
        let head = read_head(&mut stream);
        let Some(target) = head.split(' ').nth(1) else { return };
        let response = match target {
            "/length" => "200 OK\r\ncontent-length: 2\r\n\r\n",
            "/chunked" => "200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "/204" => "204 No Content\r\n\r\n",
            "/304" => "304 Not Modified\r\ncontent-length: 2\r\n\r\n",
            _ => "200 OK\r\ncontent-length: 2\r\n\r\nok",
        };
        let unasked = if target == "/" { "" } else { UNASKED };
        stream.write_all(format!("HTTP/1.1 {response}{unasked}").as_bytes()).expect("written");
        if target != "/" && !read_head(&mut stream).is_empty() {
            reused.store(true, Ordering::Relaxed);
        }
    });
    let proxy = Proxy::before("unasked-response", up, &[]);
    for (method, target, status) in [
        ("HEAD", "/length", 200),
        ("GET", "/chunked", 200),
        ("GET", "/204", 204),
        ("GET", "/304", 304),
    ] {
        for _ in 0..20 {
            assert_eq!(ask(proxy.listen, method, target, "").status, status, "{target}");
            let answer = get(proxy.listen, "/", "");
            assert_eq!((answer.status, &*answer.body), (200, "ok"), "after {target}");
            assert!(!is_reused.load(Ordering::Relaxed), "after {target}");
        }
    }
}

#[test]
fn a_body_longer_than_announced_is_a_502_if_it_arrives_with_the_head() {
    let answers_of: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello world",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nhello world",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello world",
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.0 200 OK\ncontent-length: 5\n\nhello world",
    ];
    for (number, answer) in answers_of.into_iter().enumerate() {
        for closes in [true, false] {
            let proxy = Proxy::before(&format!("long-{number}"), answers(answer, closes), &[]);
            assert_problem(&get(proxy.listen, "/", ""), 502);
            assert_eq!(failures(&proxy, "framing"), 1, "{number}");
        }
    }
    // A response without a length cannot exceed it, and one without a body states the length of another.
    let fitting: [(&str, &[u8]); 4] = [
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\nhello"),
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"),
    ];
    for (number, (method, answer)) in fitting.into_iter().enumerate() {
        let proxy = Proxy::before(&format!("fits-{number}"), answers(answer, true), &[]);
        assert!(matches!(ask(proxy.listen, method, "/", "").status, 200 | 304));
        assert_eq!(failures(&proxy, "framing"), 0);
    }
}

/// Returns the head and the body that an HTTP/1.1 client receives until its connection ends. Calls the
/// function when the client has the head and this many bytes of the body.
fn seen(proxy: &Proxy, bytes: usize, then: impl FnOnce()) -> (String, String) {
    let mut client = connect(proxy.listen);
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    let head = read_head(&mut client);
    let mut body = vec![0; bytes];
    client.read_exact(&mut body).expect("the begin of the body");
    then();
    // Closed or reset, not left open.
    let read = client.read_to_end(&mut body);
    let body = String::from_utf8(body).expect("UTF-8");
    let waits = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!read.as_ref().is_err_and(waits), "{head}{body}");
    (head, body)
}

/// An upstream that sends the second part on request.
fn in_two_parts(
    head: &'static [u8],
    rest: &'static [u8],
    ends: fn(TcpStream),
) -> (SocketAddr, impl Fn()) {
    let (go, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let up = upstream(move |mut stream| {
        read_head(&mut stream);
        stream.write_all(head).expect("written");
        wait.lock().expect("no panic").recv_timeout(PATIENCE).expect("requested");
        stream.write_all(rest).expect("written");
        ends(stream);
    });
    (up, move || go.send(()).expect("it is heard"))
}

#[test]
fn a_body_longer_than_announced_never_looks_complete() {
    let stays = |mut stream: TcpStream| drop(stream.read_to_end(&mut Vec::new()));
    for (number, ends) in [drop as fn(TcpStream), stays].into_iter().enumerate() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello ";
        let (up, go) = in_two_parts(head, b"world, and more", ends);
        let proxy = Proxy::before(&format!("later-{number}"), up, &[]);
        // If the rest arrives before this part is passed on, the proxy passes nothing on.
        let (head, body) = seen(&proxy, "hello ".len(), go);
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-length: 11\r\n"));
        assert_eq!(body, "hello ");
        eventually("it is counted", || faults(&proxy, "long") == 1);
    }
}

#[test]
fn a_body_shorter_than_announced_never_looks_complete() {
    for (number, (head, rest, shown)) in [
        ("content-length: 11\r\n\r\nhello ", "worl", "hello worl"),
        (
            "transfer-encoding: chunked\r\n\r\n6\r\nhello \r\n",
            "5\r\nwo",
            "6\r\nhello \r\n2\r\nwo\r\n",
        ),
        (
            "transfer-encoding: chunked\r\n\r\n6\r\nhello \r\n",
            "5\r\nworld\r\n",
            "6\r\nhello \r\n5\r\nworld\r\n",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let head: &'static str = format!("HTTP/1.1 200 OK\r\n{head}").leak();
        let (up, go) = in_two_parts(head.as_bytes(), rest.as_bytes(), drop);
        let proxy = Proxy::before(&format!("short-{number}"), up, &[]);
        let (head, body) = seen(&proxy, 0, go);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        // Bytes that were not sent before the reset are lost.
        assert!(shown.starts_with(&body), "{body}");
        eventually("it is counted", || faults(&proxy, "short") == 1);
    }
}

/// HTTP/1.0 has no chunks, so the end of the connection is the end of the body.
#[test]
fn an_http_1_0_client_sees_a_reset_if_a_response_without_length_is_cut_and_a_close_if_not() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nhello \r\n";
    let rests: [(&[u8], bool); 2] = [(b"5\r\nwo", true), (b"5\r\nworld\r\n0\r\n\r\n", false)];
    for (rest, is_cut) in rests {
        let (up, go) = in_two_parts(head, rest, drop);
        let proxy = Proxy::before(&format!("http-1-0-cut-{is_cut}"), up, &[]);
        let mut client = connect(proxy.listen);
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("written");
        let head = read_head(&mut client);
        assert!(head.starts_with("HTTP/1.0 200 ") && !head.contains("chunked"), "{head}");
        go();
        let mut body = Vec::new();
        let read = client.read_to_end(&mut body).map_err(|error| error.kind());
        match is_cut {
            true => assert_eq!(read, Err(std::io::ErrorKind::ConnectionReset)),
            false => assert_eq!((read, &body[..]), (Ok(11), &b"hello world"[..])),
        }
        assert_eq!(faults(&proxy, "short"), u64::from(is_cut));
    }
}

#[test]
fn an_http2_client_sees_that_a_body_is_cut() {
    // If the body ends before the head is sent, the client sees neither.
    let (up, go) = in_two_parts(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello", b"", drop);
    let proxy = Proxy::before("cut", up, &[]);
    runtime().block_on(async {
        let client: Client<_, Empty<bytes::Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let url = format!("http://{}/", proxy.listen).parse().expect("a URL");
        let response = client.get(url).await.expect("a head");
        go();
        assert!(response.into_body().collect().await.is_err());
    });
    eventually("it is counted", || faults(&proxy, "short") == 1);
}

/// An HTTP/2 upstream that answers the first request of each connection, and closes at the second.
fn one_answer_each_in_http2() -> (SocketAddr, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let up = upstream(move |stream| {
        stream.set_nonblocking(true).expect("set");
        runtime().block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).expect("a stream");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            for is_first in [true, false] {
                let Some(Ok((_request, mut answer))) = connection.accept().await else { return };
                count.fetch_add(1, Ordering::Relaxed);
                if is_first {
                    answer.send_response(http::Response::new(()), true).expect("sent");
                }
            }
        });
    });
    (up, requests)
}

#[test]
fn a_get_on_a_closed_reused_http2_connection_is_sent_again() {
    let (up, requests) = one_answer_each_in_http2();
    let proxy = Proxy::before("retry-http2", up, &["--upstream-http2"]);
    for _ in 0..4 {
        assert_eq!(get(proxy.listen, "/", "").status, 200);
    }
    assert_eq!((requests.load(Ordering::Relaxed), retries(&proxy)), (7, 3));
    assert_problem(&ask(proxy.listen, "POST", "/", ""), 502);
    assert_eq!((requests.load(Ordering::Relaxed), retries(&proxy)), (8, 3));
    assert_eq!(failures(&proxy, "closed"), 1);
}

/// Many requests are in flight when the connection that all share closes.
#[test]
fn all_requests_that_are_sent_again_share_one_new_http2_connection() {
    const REQUESTS: usize = 20;
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let up = upstream(move |stream| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        stream.set_nonblocking(true).expect("set");
        runtime().block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).expect("a stream");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            let mut unanswered = Vec::new();
            while let Some(Ok((request, mut answer))) = connection.accept().await {
                if is_first && request.uri().path() == "/again" {
                    unanswered.push(answer);
                } else {
                    answer.send_response(http::Response::new(()), true).expect("sent");
                }
                if unanswered.len() == REQUESTS {
                    return;
                }
            }
        });
    });
    let proxy = Proxy::before("retries-http2", up, &["--upstream-http2"]);
    assert_eq!(get(proxy.listen, "/", "").status, 200);
    std::thread::scope(|scope| {
        let again = || get(proxy.listen, "/again", "").status;
        let asked: Vec<_> = (0..REQUESTS).map(|_| scope.spawn(again)).collect();
        for asked in asked {
            assert_eq!(asked.join().expect("an answer"), 200);
        }
    });
    assert_eq!((connections.load(Ordering::Relaxed), retries(&proxy)), (2, 20));
}

#[test]
fn connections_with_complete_responses_are_reused() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let up = upstream(move |mut stream| {
        count.fetch_add(1, Ordering::Relaxed);
        let answers: [&[u8]; 4] = [
            OK,
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        ];
        for answer in answers.into_iter().cycle() {
            if read_head(&mut stream).is_empty() {
                return;
            }
            stream.write_all(answer).expect("written");
        }
    });
    let proxy = Proxy::before("reused", up, &[]);
    let answers: Vec<Answer> = (0..40).map(|_| get(proxy.listen, "/", "")).collect();
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 204)), "{answers:?}");
    // A connection that the pool does not have back yet is not reused, so there may be several.
    assert!(connections.load(Ordering::Relaxed) < answers.len());
}
