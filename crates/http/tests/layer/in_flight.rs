//! Limits of requests in flight: a request counts until its body has ended, however that ends.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body as AxumBody;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel, unbounded_channel};
use tollgate::concurrency::ConcurrencyLimiter;
use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd};
use tollgate::{Limiter, Quota};
use tollgate_http::key::{Header, PeerIp};
use tollgate_http::{
    AdaptiveInFlightLimit, Body, Gate, InFlightLimit, Limit, Policy, RateLimitLayer, Several,
    denial,
};
use tower::{Layer, ServiceExt, service_fn};

use super::volume::{CHUNKS, Chunks, body};

type PerKey = ConcurrencyLimiter<str>;

fn key() -> Header {
    Header::new("x-key").expect("a name")
}

fn of(key: &str) -> Request<()> {
    Request::builder().header("x-key", key).body(()).expect("a request")
}

/// A limit of two in flight, and its limiter.
fn two() -> (InFlightLimit<Header, str>, Arc<PerKey>) {
    let limiter: Arc<PerKey> = Arc::new(ConcurrencyLimiter::builder(2).build().expect("in range"));
    let policy = Policy::of_requests_in_flight("at once", 2).expect("a name");
    (InFlightLimit::new(policy, Arc::clone(&limiter), key()), limiter)
}

/// Sends a request of the key `a` to a service that answers so.
async fn send<G: Gate + 'static>(
    layer: &RateLimitLayer<G>,
    response: Result<Response<Chunks>, &'static str>,
) -> Result<Response<Body<Chunks>>, &'static str> {
    let response = response.map(Response::into_parts);
    let service = service_fn(move |_: Request<()>| {
        let response = response.clone().map(|(head, body)| Response::from_parts(head, body));
        async move { response }
    });
    layer.layer(service).oneshot(of("a")).await
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_body_has_ended_however_that_ends() {
    let (limit, limiter) = two();
    let layer = RateLimitLayer::new(limit);

    let mut whole = send(&layer, Ok(body(2))).await.expect("served").into_body();
    assert_eq!(limiter.in_flight("a"), 1);
    assert!(whole.frame().await.expect("a chunk").is_ok());
    assert_eq!(limiter.in_flight("a"), 1, "a chunk is left");
    assert!(whole.frame().await.expect("a chunk").is_ok());
    assert!(whole.frame().await.is_none());
    assert_eq!(limiter.in_flight("a"), 0, "at its end, before it is dropped");

    let mut failing = send(&layer, Ok(Response::new(Chunks { fails: true, ..CHUNKS }))).await;
    assert_eq!(limiter.in_flight("a"), 1);
    assert!(failing.as_mut().expect("served").body_mut().frame().await.expect("an end").is_err());
    assert_eq!(limiter.in_flight("a"), 0, "failed");

    let early = send(&layer, Ok(body(9))).await.expect("served");
    assert_eq!(limiter.in_flight("a"), 1);
    drop(early);
    assert_eq!(limiter.in_flight("a"), 0, "dropped");

    assert!(send(&layer, Err("the service is gone")).await.is_err());
    assert_eq!(limiter.in_flight("a"), 0, "no response");
}

#[tokio::test]
async fn an_upgraded_connection_is_in_flight_no_more_though_its_stream_is_the_body() {
    let (limit, limiter) = two();
    let load = Arc::new(AdaptiveLimit::builder(Aimd::new()).build().expect("in range"));
    let adaptive = AdaptiveInFlightLimit::new("load", Arc::clone(&load)).expect("a name");
    let layer = RateLimitLayer::new(Several::new().and(limit).and(adaptive));
    let mut upgrade = body(9);
    *upgrade.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let mut response = send(&layer, Ok(upgrade)).await.expect("served");
    assert!(response.body_mut().frame().await.expect("a message").is_ok());
    assert_eq!((limiter.in_flight("a"), load.in_flight()), (0, 0));
}

#[tokio::test]
async fn a_request_whose_client_leaves_before_the_response_is_in_flight_no_more() {
    let (limit, limiter) = two();
    let service = service_fn(|_: Request<()>| async {
        std::future::pending::<()>().await;
        Ok::<_, Infallible>(Response::new(http_body_util::Full::new(Bytes::new())))
    });
    let mut response = Box::pin(RateLimitLayer::new(limit).layer(service).oneshot(of("a")));
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut response).await.is_err());
    assert_eq!(limiter.in_flight("a"), 1);
    drop(response);
    assert_eq!(limiter.in_flight("a"), 0);
}

#[tokio::test]
async fn the_fields_name_the_unit_and_no_time() {
    let (limit, _) = two();
    let layer = RateLimitLayer::new(limit);
    let field = |response: &Response<Body<Chunks>>, name: &str| {
        response.headers().get(name).map(|value| value.to_str().expect("ASCII").to_owned())
    };
    let policy = Some(r#""at once";q=2;qu="concurrent-requests""#.to_owned());
    let first = send(&layer, Ok(body(1))).await.expect("served");
    assert_eq!(field(&first, "ratelimit-policy"), policy);
    assert_eq!(field(&first, "ratelimit"), Some(r#""at once";r=1"#.to_owned()));
    let second = send(&layer, Ok(body(1))).await.expect("served");
    assert_eq!(field(&second, "ratelimit"), Some(r#""at once";r=0"#.to_owned()));

    let denied = send(&layer, Ok(body(1))).await.expect("denied");
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&denied, "ratelimit-policy"), policy);
    assert_eq!(field(&denied, "ratelimit"), Some(r#""at once";r=0"#.to_owned()));
    assert_eq!(field(&denied, "retry-after"), Some("1".to_owned()));
    let problem = denied.into_body().collect().await.expect("a body").to_bytes();
    assert!(
        problem
            .windows(29)
            .any(|part| part == br#""violated-policies":["at once""#.get(..29).expect("29"))
    );
    drop((first, second));
    assert_eq!(send(&layer, Ok(body(1))).await.expect("served").status(), StatusCode::OK);
}

#[tokio::test]
async fn a_grpc_client_is_told_to_retry_after_a_second_too() {
    let (limit, _) = two();
    let layer = RateLimitLayer::builder(limit).deny_with(denial::grpc).build();
    let held = [send(&layer, Ok(body(1))).await, send(&layer, Ok(body(1))).await];
    let denied = send(&layer, Ok(body(1))).await.expect("denied");
    assert_eq!(denied.headers()["grpc-status"], "8");
    assert_eq!(denied.headers()["grpc-retry-pushback-ms"], "1000");
    assert_eq!(denied.headers()["retry-after"], "1");
    drop(held);
}

/// A request that another limit denies is in flight no more, and one in flight too many costs the other limit
/// nothing.
#[tokio::test]
async fn beside_a_rate_nothing_stays_counted_of_a_denial() {
    let (limit, limiter) = two();
    let quota = Quota::per_day(3);
    let rates: Arc<Limiter<str>> = Arc::new(Limiter::builder(quota).build().expect("in range"));
    let policy = Policy::new("rate", &quota).expect("a name");
    let rate = Limit::new(policy, Arc::clone(&rates), key());
    let layer = RateLimitLayer::new(Several::new().and(limit).and(rate));
    let held = [send(&layer, Ok(body(1))).await, send(&layer, Ok(body(1))).await];
    assert_eq!(limiter.in_flight("a"), 2);
    let denied = send(&layer, Ok(body(1))).await.expect("denied");
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(rates.peek("a").expect("one is left").remaining(), 0, "two were charged");
    drop(held);
    drop(send(&layer, Ok(body(1))).await);
    let denied = send(&layer, Ok(body(1))).await.expect("denied by the rate");
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(limiter.in_flight("a"), 0);
}

#[tokio::test]
async fn in_shadow_requests_are_counted_in_flight_and_all_are_served() {
    let (limit, limiter) = two();
    let layer = RateLimitLayer::new(limit.shadow());
    let mut served = Vec::new();
    for _ in 0..3 {
        let response = send(&layer, Ok(body(1))).await.expect("served");
        assert_eq!(response.status(), StatusCode::OK);
        served.push(response);
    }
    assert_eq!((limiter.in_flight("a"), layer.stats().shadow_denied), (2, 1));
    served.clear();
    assert_eq!(limiter.in_flight("a"), 0);
}

/// A body of what is sent to it; it ends when the other end is dropped.
struct Channel(Receiver<Bytes>);

impl http_body::Body for Channel {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(Frame::data).map(Ok))
    }
}

/// A server that sends the first part of each body. The bodies end when the test calls `end_all_bodies`.
struct Server {
    address: SocketAddr,
    limiter: Arc<ConcurrencyLimiter<IpAddr>>,
    /// Of the bodies that have not ended.
    open: UnboundedReceiver<Sender<Bytes>>,
}

impl Server {
    async fn start(limit: u64) -> Self {
        let limit = InFlightLimit::per_key("at once", limit, PeerIp::new()).expect("in range");
        let limiter = Arc::clone(limit.limiter());
        let (bodies, open) = unbounded_channel();
        let handler = move || async move {
            let (sender, receiver) = channel(1);
            sender.try_send(Bytes::from_static(b"part")).expect("there is room");
            bodies.send(sender).expect("the server is there");
            AxumBody::new(Channel(receiver))
        };
        let app = Router::new().route("/", get(handler)).layer(RateLimitLayer::new(limit));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { address, limiter, open }
    }

    fn end_all_bodies(&mut self) {
        while self.open.try_recv().is_ok() {}
    }
}

/// Asks, and returns the connection with the head and the first part of the body.
async fn begin(server: SocketAddr) -> (TcpStream, String) {
    let mut connection = TcpStream::connect(server).await.expect("listening");
    connection.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("connected");
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains("\r\n\r\n") {
        assert!(connection.read_buf(&mut bytes).await.expect("connected") > 0);
    }
    (connection, String::from_utf8_lossy(&bytes).into_owned())
}

async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within ten seconds");
}

#[tokio::test]
async fn over_real_connections_a_client_that_leaves_makes_room_and_so_does_one_that_is_served() {
    let mut server = Server::start(2).await;
    let client = IpAddr::from([127, 0, 0, 1]);
    let limiter = Arc::clone(&server.limiter);
    let in_flight = || limiter.in_flight(&client);
    let (first, head) = begin(server.address).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (second, _) = begin(server.address).await;
    let (_, head) = begin(server.address).await;
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");

    drop(first); // the client leaves in the middle of the body
    until(|| in_flight() == 1).await;
    let (third, head) = begin(server.address).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(in_flight(), 2);

    server.end_all_bodies(); // both are served to the end, on connections that stay open
    until(|| in_flight() == 0).await;
    drop((second, third));
}
