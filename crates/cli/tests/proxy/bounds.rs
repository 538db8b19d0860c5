//! Bounds of one proxy: open files, connections, and slow bodies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{runtime, serve, text};
use crate::support::{
    PATIENCE, Proxy, UNLIMITED, answer, connect, eventually, get, read_head, scratch, skipped,
    upstream, value,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const DENIED: &str = "tollgate_connections_denied_total";

/// A proxy in front of this upstream, started with these arguments of `ulimit`.
fn limited(name: &str, upstream: SocketAddr, limits: &str, words: &[&str]) -> Proxy {
    let rules = scratch(&format!("{name}.toml"), UNLIMITED);
    let stderr = std::fs::File::create(scratch(&format!("{name}.stderr"), "")).expect("a file");
    let shell = format!("{limits}; exec \"$@\"");
    let url = format!("http://{upstream}");
    let given = ["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")];
    Proxy::launch(name, &[&given, words].concat(), &["sh", "-c", &shell, "sh"], stderr.into())
}

/// Answers each request of a connection.
fn done() -> SocketAddr {
    upstream(|mut stream| {
        while !read_head(&mut stream).is_empty() {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").expect("written");
        }
    })
}

/// Sends a request on an open connection, and returns the status of the response.
fn status(stream: &mut TcpStream) -> u16 {
    exchange(stream).0
}

/// The status, and whether the connection stays open.
fn exchange(stream: &mut TcpStream) -> (u16, bool) {
    stream.write_all(REQUEST).expect("written");
    let head = read_head(stream);
    stream.read_exact(&mut [0; 4]).expect("a body");
    (head[9..12].parse().expect("a status"), !head.contains("connection: close"))
}

#[test]
fn four_hundred_clients_with_two_hundred_files_receive_no_502() {
    const CLIENTS: usize = 400;
    // A connection may be accepted long before its client has its turn to send.
    let patience = PATIENCE.as_secs().to_string();
    let words = ["--header-timeout", &patience, "--max-connections-per-client", "0"];
    let proxy = limited("files", done(), "ulimit -n 200", &words);
    let together = Arc::new(Barrier::new(CLIENTS));
    let clients = (0..CLIENTS).map(|_| {
        let (listen, together) = (proxy.listen, Arc::clone(&together));
        std::thread::spawn(move || {
            let begin = || {
                let stream = connect(listen);
                stream.set_read_timeout(Some(6 * PATIENCE)).expect("set");
                stream
            };
            let mut stream = begin();
            together.wait();
            [(); 5].map(|()| {
                let (status, is_open) = exchange(&mut stream);
                if !is_open {
                    stream = begin();
                }
                status
            })
        })
    });
    let clients: Vec<_> = clients.collect();
    for client in clients {
        assert_eq!(client.join().expect("answers"), [200; 5]);
    }
    assert_eq!(proxy.metric("tollgate_accept_errors_total").to_bits(), 0_f64.to_bits());
    assert_eq!(proxy.metric("tollgate_connections_max").to_bits(), 68_f64.to_bits());
    let warning = " WARN at most 68 connections of clients at a time";
    eventually("it is logged", || proxy.stderr().contains(warning));
}

#[test]
fn an_idle_connection_is_closed_for_a_client_that_waits() {
    let proxy =
        Proxy::before("rotate", done(), &["--max-connections", "1", "--header-timeout", "60"]);
    let mut first = connect(proxy.listen);
    assert_eq!(status(&mut first), 200);
    let mut second = connect(proxy.listen);
    second.write_all(REQUEST).expect("written");
    // Repeat until the proxy has noticed the waiting client.
    eventually("the first is asked to close", || exchange(&mut first) == (200, false));
    assert_eq!(first.read(&mut [0; 1]).expect("the end"), 0);
    assert!(read_head(&mut second).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_response_that_requires_an_upgrade_closes_its_connection_for_a_client_that_waits() {
    let required = upstream(|mut stream| {
        while !read_head(&mut stream).is_empty() {
            let head = "HTTP/1.1 426 Upgrade Required\r\nupgrade: foo\r\ncontent-length: 4\r\n\r\n";
            stream.write_all(format!("{head}done").as_bytes()).expect("written");
        }
    });
    let proxy =
        Proxy::before("426-full", required, &["--max-connections", "1", "--header-timeout", "60"]);
    let mut first = connect(proxy.listen);
    let mut told = || {
        first.write_all(REQUEST).expect("written");
        let head = read_head(&mut first);
        first.read_exact(&mut [0; 4]).expect("a body");
        [value(&head, "upgrade"), value(&head, "connection")].map(str::to_owned)
    };
    assert_eq!(told(), ["foo", "upgrade"]);
    let mut second = connect(proxy.listen);
    second.write_all(REQUEST).expect("written");
    eventually("the first is asked to close", || told() == ["foo", "upgrade, close"]);
    assert_eq!(first.read(&mut [0; 1]).expect("the end"), 0);
    assert!(read_head(&mut second).starts_with("HTTP/1.1 426 "));
}

#[test]
fn a_malformed_request_closes_its_connection_for_a_client_that_waits() {
    let proxy =
        Proxy::before("400-full", done(), &["--max-connections", "1", "--header-timeout", "60"]);
    let mut first = connect(proxy.listen);
    let mut closes = || {
        first.write_all(b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n").expect("written");
        let head = read_head(&mut first);
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        let length: usize = value(&head, "content-length").parse().expect("a length");
        first.read_exact(&mut vec![0; length]).expect("a body");
        value(&head, "connection") == "close"
    };
    assert!(!closes());
    let mut second = connect(proxy.listen);
    second.write_all(REQUEST).expect("written");
    eventually("the first is asked to close", closes);
    assert_eq!(first.read(&mut [0; 1]).expect("the end"), 0);
    assert!(read_head(&mut second).starts_with("HTTP/1.1 200 "));
}

#[test]
fn more_streams_than_files_wait_for_connections_to_the_upstream() {
    const STREAMS: usize = 200;
    let slow = serve(None, |_| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        http::Response::new(text("done"))
    });
    let patience = PATIENCE.as_secs().to_string();
    let words = ["--connect-timeout", &patience, "--max-connections-per-client", "0"];
    let proxy = limited("streams", slow, "ulimit -n 120", &words);
    runtime().block_on(async {
        let client: Client<_, Empty<bytes::Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let url = format!("http://{}/", proxy.listen);
        let get = || client.get(url.parse().expect("a URL"));
        // One connection, which exists already.
        assert_eq!(get().await.expect("an answer").status(), 200);
        let asked: Vec<_> = (0..STREAMS).map(|_| tokio::spawn(get())).collect();
        for asked in asked {
            let answer = asked.await.expect("no panic").expect("an answer");
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.collect().await.expect("a body").to_bytes(), "done");
        }
    });
}

#[test]
fn the_soft_limit_of_files_is_raised_to_the_hard_limit() {
    let proxy = limited("soft", done(), "ulimit -n 1000 && ulimit -S -n 90", &[]);
    assert_eq!(proxy.metric("tollgate_connections_max").to_bits(), 375_f64.to_bits());
}

#[test]
fn too_few_files_are_an_error_at_the_start() {
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 70; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tollgate"), "proxy"])
        .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let expected =
        "tollgate: only 70 files may be open, and at least 88 are needed: raise the limit";
    assert!(stderr.starts_with(expected), "{stderr}");
}

#[test]
fn a_burst_of_connections_waits_in_the_accept_queue() {
    const BURST: usize = 300;
    let path = "/proc/sys/net/core/somaxconn";
    let bound = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    if bound.is_none_or(|bound: usize| bound <= BURST) {
        skipped(&format!("{path} is too low, or not there"));
        return;
    }
    let proxy =
        Proxy::start("burst", &["--max-connections", "1", "--max-connections-per-client", "0"]);
    // If the queue is full, TCP tries again after 1 s, 3 s, 7 s, and so on.
    let connect = |_| TcpStream::connect_timeout(&proxy.listen, PATIENCE).expect("completed");
    let held: Vec<_> = (0..BURST).map(connect).collect();
    assert_eq!(held.len(), BURST);
}

/// The first connection beyond a bound is denied, and counted.
fn one_more_is_denied(proxy: &Proxy) {
    let mut more = connect(proxy.listen);
    let _ = more.write_all(REQUEST);
    // The connection is closed or reset without a response.
    assert_eq!(more.read(&mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(proxy.metric(DENIED).to_bits(), 1_f64.to_bits());
}

/// On Linux all of 127.0.0.0/8 is this machine, on others 127.0.0.1 alone.
#[cfg(target_os = "linux")]
#[test]
fn each_address_has_its_own_bound_on_connections() {
    let proxy = Proxy::before(
        "address",
        done(),
        &["--max-connections-per-client", "3", "--drain-timeout", "1"],
    );
    let mut held = [(); 3].map(|()| connect(proxy.listen));
    for stream in &mut held {
        assert_eq!(status(stream), 200);
    }
    one_more_is_denied(&proxy);
    runtime().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.2:0".parse().expect("an address")).expect("bound");
        let mut other = socket.connect(proxy.listen).await.expect("listening");
        other.write_all(REQUEST).await.expect("written");
        let mut head = [0; 12];
        other.read_exact(&mut head).await.expect("an answer");
        assert_eq!(&head, b"HTTP/1.1 200");
    });
    // A connection that ends frees its slot.
    let [first, ..] = held;
    drop(first);
    // The connection is counted as closed before its slot is free.
    eventually("it frees its slot", || {
        let mut next = connect(proxy.listen);
        next.write_all(REQUEST).is_ok() && next.read(&mut [0; 1]).is_ok_and(|count| count == 1)
    });
}

/// The limit of open files allows 68 connections, and `--max-connections` 10,000.
#[test]
fn an_address_has_half_of_the_connections_that_the_open_files_allow() {
    let proxy = limited("half", done(), "ulimit -n 200", &["--header-timeout", "60"]);
    let mut held: Vec<_> = (0..34).map(|_| connect(proxy.listen)).collect();
    for stream in &mut held {
        assert_eq!(status(stream), 200);
    }
    one_more_is_denied(&proxy);
}

/// The limit of open files allows 68 connections of clients, and as many to the upstream. On Linux all of
/// 127.0.0.0/8 is this machine, on others 127.0.0.1 alone.
#[cfg(target_os = "linux")]
#[test]
fn an_address_has_half_of_the_connections_to_the_upstream_by_http2_too() {
    const STREAMS: usize = 100;
    let upstream = serve(None, |request| async move {
        if request.uri().path() == "/never" {
            std::future::pending::<()>().await;
        }
        http::Response::new(text("done"))
    });
    let proxy = limited("half-http2", upstream, "ulimit -n 200", &[]);
    runtime().block_on(async {
        let client: Client<_, Empty<bytes::Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let url = format!("http://{}", proxy.listen);
        let get = |path| client.get(format!("{url}{path}").parse().expect("a URL"));
        // One connection, which exists already.
        assert_eq!(get("/").await.expect("an answer").status(), 200);
        let held: Vec<_> = (0..STREAMS).map(|_| tokio::spawn(get("/never"))).collect();
        let denied = "tollgate_forward_failures_total{reason=\"client_requests\"}";
        eventually("the others are denied", || proxy.metric(denied) >= 66.0);
        assert_eq!(get("/").await.expect("an answer").status(), 503);
        let mut connector = hyper_util::client::legacy::connect::HttpConnector::new();
        connector.set_local_address(Some([127, 0, 0, 2].into()));
        let other: Client<_, Empty<bytes::Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build(connector);
        let answer = other.get(url.parse().expect("a URL")).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        assert_eq!(proxy.metric(denied).to_bits(), 67_f64.to_bits());
        held.iter().for_each(|task| task.abort());
    });
}

/// The statuses of `count` uploads on one HTTP/2 connection, whose bodies have begun; and what keeps them open.
async fn begun_uploads(
    proxy: &Proxy,
    count: usize,
) -> (Vec<u16>, Vec<h2::SendStream<bytes::Bytes>>, tokio::task::JoinHandle<()>) {
    let stream = tokio::net::TcpStream::connect(proxy.listen).await.expect("listening");
    let (mut requests, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let connection = tokio::spawn(async { drop(connection.await) });
    let (mut statuses, mut uploads) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let request = http::Request::post("http://a/").body(()).expect("a request");
        requests = requests.ready().await.expect("ready");
        let (answer, mut upload) = requests.send_request(request, false).expect("sent");
        upload.send_data("a".into(), false).expect("a window");
        statuses.push(answer.await.expect("an answer").status().as_u16());
        uploads.push(upload);
    }
    (statuses, uploads, connection)
}

/// The upstream answers each upload at once, and reads on.
#[test]
fn an_upload_whose_response_has_ended_keeps_its_place_among_those_of_its_address() {
    let upstream = upstream(|mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let proxy = limited("uploads-http2", upstream, "ulimit -n 200", &[]);
    let (statuses, ..) = runtime().block_on(begun_uploads(&proxy, 40));
    assert_eq!(statuses, [[404; 34].as_slice(), &[503; 6]].concat());
}

/// The upstream answers each upload at once, and does not read it, so that the upload outlives its client. The limit of
/// open files allows 18 connections to the upstream.
#[test]
fn an_upload_whose_client_has_left_keeps_its_place_among_those_of_its_address() {
    const PIECE: &[u8] = &[b'a'; 16 << 10];
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let upstream = upstream(move |mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        eventually("the test is over", || over.load(Ordering::Relaxed));
    });
    let proxy = limited("uploads-left", upstream, "ulimit -n 100", &[]);
    runtime().block_on(async {
        let (statuses, uploads, connection) = begun_uploads(&proxy, 10).await;
        assert_eq!(statuses, [[404; 9].as_slice(), &[503; 1]].concat());
        let sent = Arc::new(AtomicUsize::new(0));
        for mut upload in uploads {
            let sent = Arc::clone(&sent);
            tokio::spawn(async move {
                loop {
                    upload.reserve_capacity(PIECE.len());
                    let room = std::future::poll_fn(|context| upload.poll_capacity(context)).await;
                    let Some(Ok(bytes)) = room else { return };
                    let piece = bytes::Bytes::from_static(&PIECE[..bytes.min(PIECE.len())]);
                    sent.fetch_add(piece.len(), Ordering::Relaxed);
                    upload.send_data(piece, false).expect("a window");
                }
            });
        }
        // Until the buffers of the systems are full.
        let (mut before, mut quiet_seconds) = (usize::MAX, 0);
        while quiet_seconds < 3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = sent.load(Ordering::Relaxed);
            quiet_seconds = if now == before { quiet_seconds + 1 } else { 0 };
            before = now;
        }
        connection.abort();
    });
    eventually("the client has left", || proxy.metric("tollgate_connections_open") == 0.0);
    one_more_is_denied(&proxy);
    is_over.store(true, Ordering::Relaxed);
    eventually("the places are free", || {
        let mut next = connect(proxy.listen);
        next.write_all(REQUEST).is_ok() && next.read(&mut [0; 1]).is_ok_and(|count| count == 1)
    });
}

#[test]
fn each_connection_whose_first_head_takes_too_long_is_counted() {
    let proxy = Proxy::before("heads", done(), &["--header-timeout", "3"]);
    let heads: [&[u8]; 4] = [b"", b"G", b"GET / HTTP/1.1\r\nhost: a\r\n", b"PRI * HTTP/2.0\r\n"];
    let mut held: Vec<_> = (0..40).map(|_| connect(proxy.listen)).collect();
    for (stream, head) in held.iter_mut().zip(heads.into_iter().cycle()) {
        stream.write_all(head).expect("written");
    }
    // This one idles after a request, which is not counted.
    let mut used = connect(proxy.listen);
    assert_eq!(status(&mut used), 200);
    for stream in held.iter_mut().chain([&mut used]) {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let counted = proxy.metric("tollgate_connection_header_timeouts_total");
    assert_eq!(counted.to_bits(), 40_f64.to_bits(), "{counted}");
}

#[test]
fn connections_of_a_trusted_proxy_are_not_bounded_by_its_address() {
    let words = ["--max-connections-per-client", "1", "--trusted-proxies", "127.0.0.1"];
    let proxy = Proxy::before("address-trusted", done(), &words);
    let mut held = [(); 4].map(|()| connect(proxy.listen));
    for stream in &mut held {
        assert_eq!(status(stream), 200);
    }
    assert_eq!(proxy.metric(DENIED).to_bits(), 0_f64.to_bits());
}

#[test]
fn clients_with_trickled_bodies_do_not_hold_all_connections() {
    const CLIENTS: usize = 50;
    let reader = upstream(|mut stream| {
        if read_head(&mut stream).starts_with("POST ") {
            let _ = stream.read_to_end(&mut Vec::new());
        } else {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").expect("written");
        }
    });
    let connections = CLIENTS.to_string();
    let proxy = Proxy::before(
        "trickle",
        reader,
        &["--max-connections", &connections, "--max-connections-per-client", "0"]
            .into_iter()
            .chain(["--body-grace", "1", "--min-body-rate", "100"])
            .collect::<Vec<_>>(),
    );
    let mut trickling: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(proxy.listen)).collect();
    let head = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1000\r\n\r\n";
    trickling.iter_mut().for_each(|stream| stream.write_all(head).expect("written"));
    // From now on another client has to wait for one of them to end. They need not all be in flight at
    // the same moment: on a busy machine the first may end before the last has begun.
    eventually("all connections are taken", || proxy.metric("tollgate_connections_total") >= 50.0);
    let listen = proxy.listen;
    let honest = std::thread::spawn(move || get(listen, "/", "").status);
    // Send about ten bytes per second until the proxy gives each client up.
    eventually("they are given up", || {
        for stream in &mut trickling {
            let _ = stream.write(b"x");
        }
        proxy.metric("tollgate_slow_bodies_total") >= 50.0
    });
    assert_eq!(honest.join().expect("an answer"), 200);
    // The body is counted when it is given up, and the failure when the request to the upstream ends.
    let failures = "tollgate_forward_failures_total{reason=\"client_timeout\"}";
    eventually("the failures are counted", || proxy.metric(failures) >= 50.0);
    assert_eq!(proxy.metric(failures).to_bits(), 50_f64.to_bits());
    assert_eq!(proxy.metric("tollgate_slow_bodies_total").to_bits(), 50_f64.to_bits());
}

#[test]
fn a_trickled_body_is_answered_408() {
    let reader = upstream(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let words = ["--body-grace", "0.5", "--min-body-rate", "1000"];
    let proxy = Proxy::before("too-slow", reader, &words);
    let mut client = connect(proxy.listen);
    let head = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1000\r\n\r\nx";
    client.write_all(head).expect("written");
    // The client stops sending, so that no byte is in flight when the response arrives.
    let answer = answer(client);
    assert_eq!(answer.status, 408, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(proxy.metric("tollgate_slow_bodies_total").to_bits(), 1_f64.to_bits());
}
