//! Flow control of HTTP/2: a body that is not read holds up no other body, and holds little memory.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::server::{Body, runtime, serve, text};
use crate::support::{PATIENCE, Proxy, connect, get, read_head, upstream, value};

const LONG_TIMEOUTS: [&str; 4] = ["--body-timeout", "3600", "--response-timeout", "3600"];
/// The most unread bytes of one of many responses from an HTTP/2 upstream: its window of 256 KiB, the buffer of its
/// stream, and its part of the sockets' buffers.
const UNREAD_MAX: usize = 512 << 10;

/// A body without an end, which counts its bytes.
struct Endless(Arc<AtomicUsize>);

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const PIECE: Bytes = Bytes::from_static(&[7; 16 << 10]);
        self.0.fetch_add(PIECE.len(), Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(PIECE))))
    }
}

/// An upstream that answers `/small` with one word, and each other path with an endless body. And how many bytes of
/// endless bodies have been sent.
fn endless() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let up = serve(None, move |request: Request<Incoming>| {
        let body = match request.uri().path() {
            "/small" => text("small"),
            _ => Endless(Arc::clone(&count)).boxed(),
        };
        std::future::ready(Response::new(body))
    });
    (up, sent)
}

/// Waits until a count no longer grows, and returns it.
fn settled(count: &AtomicUsize) -> usize {
    let mut before = 0;
    for _ in 0..PATIENCE.as_secs() {
        std::thread::sleep(Duration::from_secs(1));
        let now = count.load(Ordering::Relaxed);
        if now > 0 && now == before {
            return now;
        }
        before = now;
    }
    panic!("{before} bytes, and still more");
}

#[test]
fn downloads_that_are_not_read_do_not_stop_others_of_an_http2_upstream() {
    let (up, sent) = endless();
    let words = [&["--upstream-http2"], &LONG_TIMEOUTS[..]].concat();
    let proxy = Proxy::before("unread-downloads", up, &words);
    let unread = [(); 3].map(|()| {
        let mut client = connect(proxy.listen);
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
        read_head(&mut client);
        client
    });
    settled(&sent);
    assert_eq!(get(proxy.listen, "/small", "").body, "small");
    drop(unread);
}

#[test]
fn an_upload_that_is_not_read_does_not_stop_others_of_its_connection() {
    let up = upstream(|mut stream| {
        let head = read_head(&mut stream);
        if head.starts_with("POST /unread ") {
            return std::thread::sleep(PATIENCE);
        }
        let length = value(&head, "content-length").parse().expect("a length");
        stream.read_exact(&mut vec![0; length]).expect("the body");
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("written");
    });
    let proxy = Proxy::before("unread-upload", up, &LONG_TIMEOUTS);
    let runtime = runtime();
    let client: Client<_, Body> =
        Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let post = |path: &str, body| {
        let request = Request::post(format!("http://{}{path}", proxy.listen)).body(body);
        client.request(request.expect("a request"))
    };
    // From now on there is a connection, which all requests share.
    assert_eq!(runtime.block_on(post("/", text("first"))).expect("an answer").status(), 200);
    let sent = Arc::new(AtomicUsize::new(0));
    let unread = runtime.spawn(post("/unread", Endless(Arc::clone(&sent)).boxed()));
    settled(&sent);
    assert_eq!(runtime.block_on(post("/", text("second"))).expect("an answer").status(), 200);
    assert_eq!(proxy.metric("tollgate_connections_total").to_string(), "1");
    unread.abort();
}

/// Reads a frame of HTTP/2: its kind, its stream and its payload.
fn read_frame(stream: &mut TcpStream) -> (u8, u32, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("a frame");
    let [high, middle, low, kind, _, id @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
    stream.read_exact(&mut payload).expect("its payload");
    (kind, u32::from_be_bytes(id), payload)
}

/// SETTINGS_MAX_CONCURRENT_STREAMS is 3, SETTINGS_INITIAL_WINDOW_SIZE is 4.
#[test]
fn the_window_of_an_http2_connection_has_room_for_all_its_streams_and_is_small() {
    let proxy = Proxy::start("windows", &[]);
    let mut client = connect(proxy.listen);
    let settings = frame(4, 0, 0, &[]);
    client
        .write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat())
        .expect("written");
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    let (mut streams, mut of_stream, mut of_connection) = (0, 0, 65_535);
    while streams == 0 || of_connection == 65_535 {
        let (kind, _, payload) = read_frame(&mut client);
        match kind {
            4 => {
                for setting in payload.chunks(6) {
                    match setting[1] {
                        3 => streams = number(&setting[2..]),
                        4 => of_stream = number(&setting[2..]),
                        _ => {}
                    }
                }
            }
            8 => of_connection += number(&payload),
            _ => {}
        }
    }
    assert!(streams >= 100 && of_stream >= 64 << 10, "{streams} streams, each {of_stream} bytes");
    assert_eq!(of_connection, streams * of_stream);
    assert!(of_connection <= 8 << 20, "{of_connection} bytes");
}

/// A frame of HTTP/2 (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("small").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[test]
fn an_http2_client_that_reads_nothing_holds_little_of_each_response() {
    const STREAMS: usize = 100;
    const WINDOW_MAX: u32 = (1 << 31) - 1;
    let (up, sent) = endless();
    let words = [&["--upstream-http2"], &LONG_TIMEOUTS[..]].concat();
    let proxy = Proxy::before("unread-streams", up, &words);
    let mut client = connect(proxy.listen);
    // The largest windows: SETTINGS_INITIAL_WINDOW_SIZE, and WINDOW_UPDATE of the connection.
    let settings = [&[0, 4][..], &WINDOW_MAX.to_be_bytes()].concat();
    let window = (WINDOW_MAX - 65_535).to_be_bytes();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([frame(4, 0, 0, &settings), frame(8, 0, 0, &window)].concat());
    // `:method: GET`, `:scheme: http`, `:path: /`, `:authority: a`; the head ends, and the stream.
    let head = [0x82, 0x86, 0x84, 0x41, 1, b'a'];
    for stream in 0..STREAMS {
        let id = u32::try_from(2 * stream + 1).expect("small");
        bytes.extend(frame(1, 5, id, &head));
    }
    client.write_all(&bytes).expect("written");
    let kept = settled(&sent);
    assert!(kept < STREAMS * UNREAD_MAX, "{kept}");
    assert_eq!(proxy.metric("tollgate_http_requests_in_flight").to_string(), STREAMS.to_string());
}
