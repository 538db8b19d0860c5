//! Bodies in paused time, and of a real server.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Response};
use axum::routing::get;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Limiter, Quota};
use tollgate_paced::{Pace, PacedBody};

use crate::support::{gate, left};

#[derive(Debug, PartialEq, Eq)]
struct Failed;

/// A body of given frames, whose hint says how many bytes are left.
struct Frames(VecDeque<Result<Frame<Bytes>, Failed>>);

impl Frames {
    fn new(frames: impl IntoIterator<Item = Result<Frame<Bytes>, Failed>>) -> Self {
        Self(frames.into_iter().collect())
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        Poll::Ready(self.0.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let lengths = self.0.iter().flatten().filter_map(Frame::data_ref).map(Bytes::len);
        let bytes = lengths.sum::<usize>() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(bytes);
        hint.set_upper(bytes + 5);
        hint
    }
}

fn data(length: usize) -> Result<Frame<Bytes>, Failed> {
    Ok(Frame::data(Bytes::from((0..length).map(|n| n.to_le_bytes()[0]).collect::<Vec<_>>())))
}

#[tokio::test(start_paused = true)]
async fn data_trailers_hint_and_end_pass_through() {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", HeaderValue::from_static("7"));
    let gate = gate(Quota::per_second(1_000).burst(1_000));
    let frames = [data(100), data(0), data(2_000), Ok(Frame::trailers(trailers.clone()))];
    let mut body = PacedBody::new(Frames::new(frames), Pace::shared(&gate).expect("large"));
    let start = tokio::time::Instant::now();
    let (mut bytes, mut ended_with) = (Vec::new(), None);
    let mut rest = 2_100;
    loop {
        assert_eq!((body.size_hint().lower(), body.size_hint().upper()), (rest, Some(rest + 5)));
        assert_eq!(body.is_end_stream(), ended_with.is_some());
        let Some(frame) = body.frame().await else { break };
        match frame.expect("no error").into_data() {
            Ok(piece) => {
                rest -= piece.len() as u64;
                bytes.extend_from_slice(&piece);
            }
            Err(frame) => ended_with = frame.into_trailers().ok(),
        }
    }
    assert_eq!(ended_with, Some(trailers));
    let sent: Vec<_> = [data(100), data(2_000)].into_iter().flatten().collect();
    let sent: Vec<u8> =
        sent.into_iter().flat_map(|frame| frame.into_data().expect("data").to_vec()).collect();
    assert!(bytes == sent, "the content");
    // A thousand bytes are there, and a thousand come back each second.
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(1_100), "{elapsed:?}");
    assert!(elapsed < Duration::from_millis(1_110), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_passes_through_after_the_data_before_it() {
    let gate = gate(Quota::per_second(1_000).burst(1_000));
    let frames = Frames::new([data(3_000), Err(Failed), data(50)]);
    let mut body = PacedBody::new(frames, Pace::shared(&gate).expect("large"));
    let mut bytes = 0;
    let error = loop {
        match body.frame().await.expect("no end before the error") {
            Ok(frame) => bytes += frame.into_data().expect("data").len(),
            Err(error) => break error,
        }
    };
    assert_eq!((bytes, error), (3_000, Failed));
}

#[tokio::test(start_paused = true)]
async fn a_body_dropped_while_it_waits_refunds_its_chunk() {
    let gate = gate(Quota::per_second(1_000).burst(1_000));
    let pace = Pace::shared(&gate).expect("large");
    let mut body = PacedBody::new(Full::<Bytes>::from(vec![7; 5_000]), pace);
    let mut bytes = 0;
    while let Ok(frame) = tokio::time::timeout(Duration::from_millis(10), body.frame()).await {
        bytes += frame.expect("more").expect("no error").into_data().expect("data").len();
    }
    assert_eq!(bytes, 1_000);
    drop(body);
    let restored = left(&gate);
    assert!((10..=12).contains(&restored), "what 10 ms restore, not less the chunk: {restored}");
}

/// A server that sends `length` bytes at `/` by the pace that it is given, and a client's request to it.
async fn download(app: Router, address: &str) -> (String, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("bound");
    let server_task = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut stream = TcpStream::connect(server).await.expect("listening");
    let request = format!("GET {address} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("connected");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("connected");
    server_task.abort();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head is text");
    (head.to_ascii_lowercase(), bytes.split_off(end + 4))
}

#[tokio::test]
async fn a_server_sends_paced_bodies_with_their_length_by_key_and_in_total() {
    let quota = Quota::per_second(5_000_000).burst(100_000);
    let clients: Arc<Limiter<str>> = Arc::new(Limiter::builder(quota).build().expect("in range"));
    let total = Pace::new(Quota::per_second(1_000_000_000).burst(1 << 30)).expect("large");
    let content: Bytes = (0..1_000_000_u32).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
    let sent = content.clone();
    let app = Router::new().route(
        "/",
        get(move || async move {
            let pace = Pace::keyed(&clients, String::from("client")).expect("large").and(&total);
            Response::new(axum::body::Body::new(PacedBody::new(Full::new(sent), pace)))
        }),
    );
    let start = Instant::now();
    let (head, body) = download(app, "/").await;
    // 900 kB at 5 MB/s.
    assert!(start.elapsed() >= Duration::from_millis(179), "{:?}", start.elapsed());
    assert!(head.starts_with("http/1.1 200") && head.contains("content-length: 1000000"), "{head}");
    assert!(body == content, "the content");
}

#[tokio::test]
async fn a_body_that_fails_ends_the_response_early() {
    let app = Router::new().route(
        "/",
        get(|| async {
            let pace = Pace::new(Quota::per_second(1_000_000).burst(1_000)).expect("in range");
            let frames = [data(3_000), data(2_000), Err(Failed)];
            let body = Frames::new(frames).map_err(|Failed| std::io::Error::other("failed"));
            Response::new(axum::body::Body::new(PacedBody::new(body, pace)))
        }),
    );
    let (head, body) = download(app, "/").await;
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert!(!body.ends_with(b"0\r\n\r\n"), "no last chunk, so the client sees the failure");
    let served: Vec<u8> = (0..16_u8).collect();
    assert!(body.windows(16).any(|bytes| bytes == served), "data came before the error");
}
