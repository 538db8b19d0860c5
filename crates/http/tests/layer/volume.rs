//! Limits by the bytes of bodies: what is charged, however the body ends.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use tollgate::{FixedWindow, Limiter, Quota};
use tollgate_http::key::{FromFn, from_fn};
use tollgate_http::{Body, Limit, Policy, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

const ESTIMATE: u64 = 100;
const ALL: u64 = 100_000;

/// Chunks of 300 bytes, then the end or an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    pub(super) left: usize,
    pub(super) fails: bool,
    pub(super) tells_its_end: bool,
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        if self.left == 0 {
            return Poll::Ready(self.fails.then_some(Err("the disk is gone")));
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'.'; 300])))))
    }

    fn is_end_stream(&self) -> bool {
        self.tells_its_end && self.left == 0 && !self.fails
    }
}

pub(super) const CHUNKS: Chunks = Chunks { left: 0, fails: false, tells_its_end: true };

/// Three bytes, then trailers. Like a body in HTTP/1.1, it does not know that nothing follows.
#[derive(Clone, Copy, Debug)]
struct WithTrailers {
    frames_left: usize,
}

impl http_body::Body for WithTrailers {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.frames_left {
            0 => return Poll::Ready(None),
            1 => Frame::trailers(HeaderMap::new()),
            _ => Frame::data(Bytes::from_static(b"few")),
        };
        self.frames_left -= 1;
        Poll::Ready(Some(Ok(frame)))
    }
}

type OneForAll = FromFn<fn(&http::request::Parts) -> Option<()>>;

/// A limit by bytes around a service that answers with one response.
struct Volume {
    limiter: Arc<Limiter<(), FixedWindow>>,
    layer: RateLimitLayer<Limit<OneForAll, (), FixedWindow>>,
}

impl Volume {
    fn new() -> Self {
        let quota = Quota::per_day(ALL);
        let window = FixedWindow::anchored();
        let limiter = Limiter::builder(quota).algorithm(window).capacity(16).build();
        let limiter = Arc::new(limiter.expect("in range"));
        let policy = Policy::of_bytes("volume", &quota).expect("a name");
        let one_for_all: fn(&http::request::Parts) -> Option<()> = |_| Some(());
        let limit = Limit::new(policy, Arc::clone(&limiter), from_fn(one_for_all));
        let layer = RateLimitLayer::new(limit.cost(|_| ESTIMATE).settle_bytes(|bytes| bytes));
        Self { limiter, layer }
    }

    async fn ask<B>(&self, method: Method, response: Response<B>) -> Response<Body<B>>
    where
        B: http_body::Body<Data = Bytes> + Clone,
    {
        let (head, body) = response.into_parts();
        let service = service_fn(move |_: Request<()>| {
            let response = Response::from_parts(head.clone(), body.clone());
            async move { Ok::<_, Infallible>(response) }
        });
        let request = Request::builder().method(method).body(()).expect("a request");
        self.layer.layer(service).oneshot(request).await.expect("infallible")
    }

    fn charged(&self) -> u64 {
        ALL - self.limiter.check_n(&(), 0).expect("nothing asked for").remaining()
    }
}

pub(super) fn body(left: usize) -> Response<Chunks> {
    Response::new(Chunks { left, ..CHUNKS })
}

fn status(code: StatusCode, body: Chunks) -> Response<Chunks> {
    Response::builder().status(code).body(body).expect("a response")
}

#[tokio::test]
async fn a_body_that_is_sent_to_its_end_is_charged_its_bytes() {
    let volume = Volume::new();
    let answer = volume.ask(Method::GET, body(5)).await;
    assert_eq!(volume.charged(), ESTIMATE);
    assert_eq!(answer.into_body().collect().await.expect("a body").to_bytes().len(), 1_500);
    assert_eq!(volume.charged(), 1_500);
}

#[tokio::test]
async fn a_body_that_is_dropped_after_its_last_byte_is_charged_its_bytes() {
    // The end is known from the body, or from the length in the head.
    for (tells_its_end, length) in [(true, None), (false, Some(300_u64))] {
        let volume = Volume::new();
        let mut response = Response::new(Chunks { left: 1, fails: false, tells_its_end });
        if let Some(length) = length {
            response.headers_mut().insert("content-length", HeaderValue::from(length));
        }
        let mut body = volume.ask(Method::GET, response).await.into_body();
        assert!(body.frame().await.expect("a chunk").is_ok());
        assert_eq!(body.is_end_stream(), tells_its_end);
        drop(body);
        assert_eq!(volume.charged(), 300);
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_after_its_trailers_is_charged_its_bytes() {
    let volume = Volume::new();
    let response = Response::new(WithTrailers { frames_left: 2 });
    let mut body = volume.ask(Method::GET, response).await.into_body();
    assert!(body.frame().await.expect("data").expect("no error").is_data());
    assert!(body.frame().await.expect("trailers").expect("no error").is_trailers());
    drop(body);
    assert_eq!(volume.charged(), 3);
}

#[tokio::test]
async fn a_body_that_is_dropped_early_is_charged_the_bytes_sent_and_at_least_the_estimate() {
    for (chunks, charged) in [(0, ESTIMATE), (1, 300), (3, 900)] {
        let volume = Volume::new();
        let mut body = volume.ask(Method::GET, body(5)).await.into_body();
        for _ in 0..chunks {
            assert!(body.frame().await.expect("a chunk").is_ok());
        }
        drop(body);
        assert_eq!(volume.charged(), charged, "{chunks} chunks");
    }
}

#[tokio::test]
async fn a_body_that_fails_is_charged_the_bytes_sent_and_at_least_the_estimate() {
    for (left, charged) in [(0, ESTIMATE), (2, 600)] {
        let volume = Volume::new();
        let response = Response::new(Chunks { left, fails: true, tells_its_end: true });
        let failed = volume.ask(Method::GET, response).await.into_body().collect().await;
        assert!(failed.is_err());
        assert_eq!(volume.charged(), charged, "{left} chunks");
    }
}

#[tokio::test]
async fn a_response_to_head_is_charged_the_estimate_with_and_without_a_body() {
    for left in [0, 5] {
        let volume = Volume::new();
        drop(volume.ask(Method::HEAD, body(left)).await);
        assert_eq!(volume.charged(), ESTIMATE);
    }
}

#[tokio::test]
async fn an_empty_response_is_charged_no_bytes() {
    for code in [StatusCode::OK, StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED] {
        let volume = Volume::new();
        drop(volume.ask(Method::GET, status(code, CHUNKS)).await);
        assert_eq!(volume.charged(), 0, "{code}");
    }
    // A body that does not report its end, with a status that has none.
    for code in [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED] {
        let volume = Volume::new();
        drop(
            volume.ask(Method::GET, status(code, Chunks { tells_its_end: false, ..CHUNKS })).await,
        );
        assert_eq!(volume.charged(), 0, "{code}");
    }
}

#[tokio::test]
async fn an_upgrade_and_a_tunnel_are_charged_the_estimate() {
    let volume = Volume::new();
    drop(volume.ask(Method::GET, status(StatusCode::SWITCHING_PROTOCOLS, CHUNKS)).await);
    assert_eq!(volume.charged(), ESTIMATE);
    drop(volume.ask(Method::CONNECT, status(StatusCode::OK, CHUNKS)).await);
    assert_eq!(volume.charged(), 2 * ESTIMATE);
}
