//! Bodies that stall: the proxy ends them, and counts them by the side at fault.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::failures::{assert_problem, failures};
use crate::server::runtime;
use crate::support::{
    PATIENCE, Proxy, answer, connect, eventually, get, read_head, scratch, send, upstream,
};

/// A body timeout, in seconds, that a thread which has to send does not exceed on a busy machine.
const TIMEOUT: &str = "3";
/// Eight of these are longer than the timeout.
const PAUSE: Duration = Duration::from_millis(400);

fn stalls(proxy: &Proxy) -> [f64; 4] {
    let name = |of| format!("tollgate_stalls_total{{of=\"{of}\"}}");
    let names = ["response", "upload", "reader", "tunnel"].map(name);
    proxy.metrics(names.each_ref().map(String::as_str))
}

fn is_all_over(proxy: &Proxy) {
    eventually("no request is left", || {
        proxy.metric("tollgate_http_requests_in_flight") == 0.0
            && proxy.metric("tollgate_connections_open") == 0.0
    });
}

#[test]
fn a_response_that_stops_is_ended_and_never_looks_complete() {
    for (name, head, whole) in [
        ("half-length", "content-length: 10\r\n\r\nhalf", "half"),
        ("half-chunks", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", "4\r\nhalf\r\n"),
    ] {
        let stops = upstream(move |mut stream| {
            read_head(&mut stream);
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}").as_bytes()).expect("written");
            // Wait until the proxy closes the connection.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let proxy = Proxy::before(name, stops, &["--body-timeout", "0.3"]);
        let mut client = connect(proxy.listen);
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
        assert!(read_head(&mut client).starts_with("HTTP/1.1 200 "));
        let mut body = String::new();
        // Closed or reset.
        let _ = client.read_to_string(&mut body);
        assert_eq!(body, whole);
        is_all_over(&proxy);
        assert_eq!(stalls(&proxy), [1.0, 0.0, 0.0, 0.0]);
    }
}

#[test]
fn a_response_that_makes_progress_may_take_long() {
    let slow = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n").expect("written");
        for _ in 0..8 {
            std::thread::sleep(PAUSE);
            stream.write_all(b"x").expect("written");
        }
    });
    let proxy = Proxy::before("moves", slow, &["--body-timeout", TIMEOUT]);
    let answer = send(proxy.listen, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!((answer.status, answer.body.as_str()), (200, "xxxxxxxx"));
    assert_eq!(stalls(&proxy), [0.0; 4]);
}

#[test]
fn a_client_that_stops_reading_is_disconnected() {
    let big = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 134217728\r\n\r\n").expect("written");
        let bytes = vec![7; 64 << 10];
        // Wait until the proxy closes the connection.
        while stream.write_all(&bytes).is_ok() {}
    });
    let proxy = Proxy::before("reader", big, &["--body-timeout", TIMEOUT]);
    let mut client = connect(proxy.listen);
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    read_head(&mut client);
    is_all_over(&proxy);
    assert_eq!(stalls(&proxy), [0.0, 0.0, 1.0, 0.0]);
}

/// The other streams of the connection continue.
#[test]
fn an_http2_stream_that_is_not_read_is_ended_alone() {
    let big = upstream(|mut stream| {
        let head = read_head(&mut stream);
        if head.starts_with("GET /small ") {
            let small = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsmall";
            return stream.write_all(small).expect("written");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 134217728\r\n\r\n").expect("written");
        let bytes = vec![7; 64 << 10];
        // Wait until the proxy closes the connection.
        while stream.write_all(&bytes).is_ok() {}
    });
    let proxy = Proxy::before("stream", big, &["--body-timeout", TIMEOUT]);
    runtime().block_on(async {
        let client: Client<_, Empty<bytes::Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let get = |path: &str| {
            client.get(format!("http://{}{path}", proxy.listen).parse().expect("a URL"))
        };
        let unread = get("/big").await.expect("an answer");
        let began = std::time::Instant::now();
        while stalls(&proxy) != [0.0, 0.0, 1.0, 0.0] {
            assert!(began.elapsed() < PATIENCE, "{:?}", stalls(&proxy));
            let small = get("/small").await.expect("an answer").into_body();
            assert_eq!(small.collect().await.expect("a body").to_bytes(), "small");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(unread.into_body().collect().await.is_err());
        let small = get("/small").await.expect("an answer").into_body();
        assert_eq!(small.collect().await.expect("a body").to_bytes(), "small");
    });
    // Two connections if both requests connected at once; and no stream was ended.
    assert!(proxy.metric("tollgate_connections_total") <= 2.0);
    is_all_over(&proxy);
}

/// An upstream that sends the head and a body of so many bytes in one write.
fn sends_at_once(bytes: usize) -> SocketAddr {
    upstream(move |mut stream| {
        read_head(&mut stream);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
        let _ = stream.write_all(&[head.as_bytes(), &vec![7; bytes]].concat());
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// The client reads 100 kB a second. At that rate, a send buffer of megabytes has no room again within the timeout.
#[test]
fn a_response_that_is_read_slowly_but_steadily_is_not_ended() {
    const READ: usize = 40_000;
    let proxy = Proxy::before("steady-1", sends_at_once(50_000_000), &["--body-timeout", TIMEOUT]);
    let mut stream = connect(proxy.listen);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    for _ in 0..15 {
        std::thread::sleep(PAUSE);
        stream.read_exact(&mut [0; READ]).expect("more of the body");
    }
    assert_eq!(stalls(&proxy), [0.0; 4]);
}

/// The same of an upload, by the upstream.
#[test]
fn an_upload_that_is_read_slowly_but_steadily_is_not_ended() {
    const READ: usize = 40_000;
    const BODY: usize = 50_000_000;
    let (sender, outcome) = std::sync::mpsc::channel();
    let slow = upstream(move |mut stream| {
        read_head(&mut stream);
        let all_read = (0..15).all(|_| {
            std::thread::sleep(PAUSE);
            stream.read_exact(&mut [0; READ]).is_ok()
        });
        sender.send(all_read).expect("the test waits");
    });
    let words = ["--body-timeout", TIMEOUT, "--response-timeout", TIMEOUT];
    let proxy = Proxy::before("steady-upload", slow, &words);
    let mut stream = connect(proxy.listen);
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {BODY}\r\n\r\n");
    std::thread::spawn(move || stream.write_all(&[head.as_bytes(), &vec![7; BODY]].concat()));
    assert!(outcome.recv_timeout(PATIENCE).expect("an outcome"), "the upload went on");
    assert_eq!(failures(&proxy, "response_timeout"), 0);
}

/// The client takes longer to read the body than the timeout.
#[test]
fn an_http2_stream_that_is_read_slowly_but_steadily_is_not_ended() {
    const BODY: usize = 300_000;
    const READ: usize = 8_000;
    let proxy = Proxy::before("steady", sends_at_once(BODY), &["--body-timeout", TIMEOUT]);
    let received = runtime().block_on(async {
        let client: Client<_, Empty<bytes::Bytes>> = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .http2_initial_stream_window_size(32 << 10)
            .build_http();
        let url = format!("http://{}/", proxy.listen).parse().expect("a URL");
        let mut body = client.get(url).await.expect("an answer").into_body();
        let (mut received, mut pauses) = (0, 0);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { break };
            received += frame.data_ref().map_or(0, bytes::Bytes::len);
            // 20 kB a second: 8 kB, then a pause.
            for _ in pauses..received / READ {
                tokio::time::sleep(PAUSE).await;
            }
            pauses = received / READ;
        }
        received
    });
    assert_eq!((received, stalls(&proxy)), (BODY, [0.0; 4]));
}

#[test]
fn an_upload_that_stops_before_the_response_is_a_408() {
    let reader = upstream(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let proxy = Proxy::before("upload-408", reader, &["--body-timeout", "0.3"]);
    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 10\r\n\r\nhalf";
    assert_problem(&send(proxy.listen, head), 408);
    assert_eq!(failures(&proxy, "client_timeout"), 1);
    assert_eq!(stalls(&proxy), [0.0; 4]);
}

const UPLOAD: &str = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
const STREAM: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[test]
fn an_exchange_that_is_idle_in_both_directions_is_ended_once() {
    let mute = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(STREAM.as_bytes()).expect("written");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let proxy = Proxy::before("neither", mute, &["--body-timeout", TIMEOUT]);
    let mut client = connect(proxy.listen);
    client.write_all(UPLOAD.as_bytes()).expect("written");
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200 "));
    let _ = client.read_to_end(&mut Vec::new());
    is_all_over(&proxy);
    let [response, upload, ..] = stalls(&proxy);
    assert_eq!((response + upload).to_bits(), 1_f64.to_bits());
}

#[test]
fn an_exchange_that_is_idle_in_one_direction_continues() {
    let counter = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(STREAM.as_bytes()).expect("written");
        let mut received = Vec::new();
        while !received.ends_with(b"0\r\n\r\n") {
            let mut bytes = [0; 1_024];
            let count = stream.read(&mut bytes).expect("read");
            received.extend_from_slice(&bytes[..count]);
            assert!(count > 0, "cut off");
        }
        stream.write_all(b"4\r\ndone\r\n0\r\n\r\n").expect("written");
        std::thread::sleep(PATIENCE);
    });
    let proxy = Proxy::before("one-way", counter, &["--body-timeout", TIMEOUT]);
    let mut client = connect(proxy.listen);
    client.write_all(UPLOAD.as_bytes()).expect("written");
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200 "));
    for _ in 0..8 {
        std::thread::sleep(PAUSE);
        client.write_all(b"1\r\nx\r\n").expect("written");
    }
    client.write_all(b"0\r\n\r\n").expect("written");
    let mut body = [0; 14];
    client.read_exact(&mut body).expect("the whole body");
    assert_eq!(&body, b"4\r\ndone\r\n0\r\n\r\n");
    assert_eq!(stalls(&proxy), [0.0; 4]);
}

/// The upstream reads the upload only after most of its response, which takes longer than the timeout.
#[test]
fn an_upload_that_is_not_read_continues_while_its_response_moves() {
    const BODY: usize = 14 << 20;
    let late = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(STREAM.as_bytes()).expect("written");
        for _ in 0..10 {
            std::thread::sleep(PAUSE);
            stream.write_all(b"1\r\nx\r\n").expect("written");
        }
        stream.read_exact(&mut vec![0; BODY]).expect("the whole upload");
        stream.write_all(b"0\r\n\r\n").expect("written");
    });
    let proxy = Proxy::before("late-reader", late, &["--body-timeout", TIMEOUT]);
    let mut client = connect(proxy.listen);
    let head = format!(
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {BODY}\r\n\r\n"
    );
    client.write_all(head.as_bytes()).expect("written");
    client.write_all(&vec![7; BODY]).expect("written");
    let answer = answer(client);
    assert_eq!(answer.body, "1\r\nx\r\n".repeat(10) + "0\r\n\r\n");
    assert_eq!(stalls(&proxy), [0.0; 4]);
}

/// The body passes at 12 kB a second, so most of its frames take longer than the timeout.
#[test]
fn a_paced_response_is_not_cut_off_by_an_upload_that_idles() {
    const BODY: usize = 80_000;
    let rules = scratch("paced.toml", "rule = [{ name = \"a\", bytes = \"12kB/s burst 4kB\" }]");
    let url = format!("http://{}", sends_at_once(BODY));
    let words = ["--rules", rules.to_str().expect("UTF-8"), "--upstream", &url];
    let proxy = Proxy::start("paced", &[&words[..], &["--body-timeout", "1"]].concat());
    let mut client = connect(proxy.listen);
    client.write_all(format!("{UPLOAD}1\r\nx\r\n").as_bytes()).expect("written");
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200 "));
    client.read_exact(&mut vec![0; BODY]).expect("the whole body");
    // Now both directions idle, so the exchange ends.
    let _ = client.read_to_end(&mut Vec::new());
    is_all_over(&proxy);
}

#[test]
fn clients_that_read_no_metrics_do_not_block_the_health() {
    const SLOTS: usize = 16;
    // A small table, so that its live keys are soon counted.
    let one_key = r#"rule = [{ name = "all", key = "none", limits = "1/s" }]"#;
    let rules = scratch("admin-readers.toml", one_key);
    let proxy = Proxy::start("admin-readers", &["--rules", rules.to_str().expect("UTF-8")]);
    let pipelined = "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1_000);
    let clients = (0..SLOTS).map(|_| {
        let (mut stream, pipelined) = (connect_narrow(proxy.admin), pipelined.clone());
        std::thread::spawn(move || while stream.write_all(pipelined.as_bytes()).is_ok() {})
    });
    let clients: Vec<_> = clients.collect();
    eventually("they are given up", || stalls(&proxy)[2] >= 16.0);
    assert_eq!(get(proxy.admin, "/healthz", "").status, 200);
    clients.into_iter().for_each(|client| client.join().expect("no panic"));
}

/// A connection whose receive buffer is small, so that few responses fill it.
fn connect_narrow(address: SocketAddr) -> TcpStream {
    let stream = runtime().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4_096).expect("set");
        socket.connect(address).await.expect("listening").into_std().expect("a stream")
    });
    stream.set_nonblocking(false).expect("set");
    stream
}
