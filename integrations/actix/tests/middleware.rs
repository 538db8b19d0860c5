//! The middleware in an application, and in a server over real sockets.

#![allow(clippy::disallowed_types, reason = "a test's clock")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::error::ErrorUnauthorized;
use actix_web::http::{StatusCode, Uri};
use actix_web::middleware::{Next, from_fn};
use actix_web::test::{TestRequest, call_service, init_service, read_body, try_call_service};
use actix_web::{App, HttpResponse, HttpServer, web};
use tollgate_actix::{Limit, Quota, RateLimit, RateLimitLayer, key};
use tollgate_http::tollgate::penalty::Penalties;
use tollgate_http::tollgate::{LeakyQueue, Limiter};
use tollgate_http::{Dialect, InFlightLimit, Penalized, Policy};

const PEER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)), 4_711);

fn per_day(cells: u64) -> Limit<key::PeerIp> {
    Limit::gcra("per-client", Quota::per_day(cells), key::PeerIp::new()).expect("in range")
}

async fn hello() -> &'static str {
    "hello"
}

/// An application of one route.
macro_rules! app {
    ($limit:expr, $handler:expr) => {
        init_service(App::new().wrap($limit).route("/{tail:.*}", web::to($handler))).await
    };
}

fn get(path: &str) -> TestRequest {
    TestRequest::get().uri(path).peer_addr(PEER)
}

#[actix_web::test]
async fn a_cap_of_2_admits_2_and_the_3rd_is_told_when_to_return() {
    let limit = RateLimit::new(per_day(2));
    let app = app!(limit.clone(), hello);
    for left in [1, 0] {
        let response = call_service(&app, get("/").to_request()).await;
        assert_eq!(response.status(), 200);
        let fields = response.headers();
        assert_eq!(fields.get("ratelimit-policy").expect("it"), r#""per-client";q=2;w=86400"#);
        let shown = fields.get("ratelimit").expect("it").to_str().expect("ASCII").to_owned();
        assert!(shown.starts_with(&format!("\"per-client\";r={left};t=")), "{shown}");
        assert_eq!(response.response().body().size(), BodySize::Sized(5));
        assert_eq!(read_body(response).await, "hello");
    }
    let response = call_service(&app, get("/").to_request()).await;
    assert_eq!(response.status(), 429);
    let secs: u64 = response
        .headers()
        .get("retry-after")
        .expect("it")
        .to_str()
        .expect("ASCII")
        .parse()
        .expect("secs");
    assert!((43_000..=43_200).contains(&secs), "{secs}");
    assert_eq!(response.headers().get("content-type").expect("it"), "application/problem+json");
    assert!(
        String::from_utf8(read_body(response).await.to_vec()).expect("UTF-8").contains("quota")
    );
    let other = get("/").peer_addr("192.0.2.8:1".parse().expect("an address"));
    assert_eq!(call_service(&app, other.to_request()).await.status(), 200);
    let stats = limit.layer().stats();
    assert_eq!((stats.admitted, stats.denied), (3, 1));
}

#[actix_web::test]
async fn the_application_sees_the_request_and_its_response_stays_as_it_was() {
    async fn echo(request: actix_web::HttpRequest, body: String) -> HttpResponse {
        let tail = request.match_info().get("tail").unwrap_or_default().to_owned();
        HttpResponse::Created()
            .append_header(("set-cookie", "a=1"))
            .append_header(("set-cookie", "b=2"))
            .body(format!("{} {tail} {body}", request.method()))
    }
    let app = app!(RateLimit::new(per_day(9)), echo);
    let request = TestRequest::post().uri("/a/b?c=d").peer_addr(PEER).set_payload("content");
    let response = call_service(&app, request.to_request()).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let cookies: Vec<_> =
        response.headers().get_all("set-cookie").map(|value| value.as_bytes()).collect();
    assert_eq!(cookies, [b"a=1", b"b=2"]);
    assert_eq!(read_body(response).await, "POST a/b content");
}

#[actix_web::test]
async fn the_bytes_of_a_stream_settle_the_cost() {
    async fn stream() -> HttpResponse {
        let chunks =
            (0..4).map(|_| Ok::<_, actix_web::Error>(web::Bytes::from_static(b"0123456789")));
        HttpResponse::Ok().streaming(futures_util::stream::iter(chunks))
    }
    let limit = per_day(100).settle_bytes(|bytes| bytes);
    let limit = RateLimit::new(limit);
    let app = app!(limit.clone(), stream);
    let response = call_service(&app, get("/").to_request()).await;
    assert_eq!(response.response().body().size(), BodySize::Stream);
    assert_eq!(read_body(response).await.len(), 40);
    let key = PEER.ip();
    assert_eq!(
        limit
            .layer()
            .gate()
            .limiter()
            .ask(&key)
            .cells(0)
            .peek()
            .expect("cells are left")
            .remaining(),
        60
    );
}

#[actix_web::test]
async fn a_request_in_flight_ends_with_its_body() {
    let limit = InFlightLimit::per_key("at once", 1, key::PeerIp::new()).expect("a name");
    let app = app!(RateLimit::new(limit), hello);
    let first = call_service(&app, get("/").to_request()).await;
    assert_eq!(first.status(), 200);
    assert_eq!(call_service(&app, get("/").to_request()).await.status(), 429);
    assert_eq!(read_body(first).await, "hello");
    assert_eq!(call_service(&app, get("/").to_request()).await.status(), 200);
}

#[actix_web::test]
async fn an_upgraded_connection_is_in_flight_no_more() {
    async fn upgrade() -> HttpResponse {
        let messages = futures_util::stream::pending::<Result<web::Bytes, actix_web::Error>>();
        HttpResponse::SwitchingProtocols().upgrade("websocket").streaming(messages)
    }
    let limit = InFlightLimit::per_key("at once", 1, key::PeerIp::new()).expect("a name");
    let app = app!(RateLimit::new(limit), upgrade);
    let first = call_service(&app, get("/").to_request()).await;
    assert_eq!(first.status(), 101);
    assert_eq!(call_service(&app, get("/").to_request()).await.status(), 101);
    drop(first);
}

#[actix_web::test]
async fn a_layer_with_settings_may_wait_skip_and_speak_another_dialect() {
    let quota = Quota::per_second(20).burst(3);
    let limiter = Limiter::<std::net::IpAddr, _>::builder(quota).algorithm(LeakyQueue::new());
    let limiter = limiter.build().expect("in range");
    let policy = Policy::new("paced", &quota).expect("a name");
    let limit = Limit::new(policy, limiter.into(), key::PeerIp::new());
    let layer = RateLimitLayer::builder(limit)
        .wait(actix_web::rt::time::sleep)
        .skip(|request| request.uri.path() == "/health")
        .dialect(Dialect::Draft7)
        .build();
    let app = app!(RateLimit::from(layer.clone()), hello);
    let began = std::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(call_service(&app, get("/").to_request()).await.status(), 200);
    }
    assert!(began.elapsed() >= Duration::from_millis(99), "two had to wait for 50 ms each");
    let response = call_service(&app, get("/health").to_request()).await;
    assert!(!response.headers().contains_key("ratelimit"));
    let response = call_service(&app, get("/").to_request()).await;
    assert!(
        response
            .headers()
            .get("ratelimit")
            .is_some_and(|value| value.as_bytes().starts_with(b"limit="))
    );
    let stats = layer.stats();
    assert_eq!((stats.admitted, stats.skipped), (4, 1));
    assert!(stats.waited >= 2, "{stats:?}");
}

#[actix_web::test]
async fn without_a_peer_address_the_request_is_denied_as_a_fault_of_the_server() {
    let app = app!(RateLimit::new(per_day(2)), hello);
    let response = call_service(&app, TestRequest::get().to_request()).await;
    assert_eq!(response.status(), 500);
}

/// A middleware within, which fails as those that check passwords do.
async fn wrong_password(
    _: ServiceRequest,
    _: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    Err(ErrorUnauthorized("wrong password"))
}

#[actix_web::test]
async fn an_error_of_a_middleware_within_counts_as_the_response_that_actix_makes_of_it() {
    let quota = Quota::per_day(100);
    let limiter = Limiter::<std::net::IpAddr>::builder(quota).build().expect("in range");
    let penalties = Penalties::builder(limiter, Quota::per_day(3), Duration::from_secs(600));
    let gate = Penalized::new(
        Policy::new("logins", &quota).expect("a name"),
        Arc::new(penalties.failures_only().build().expect("in range")),
        key::PeerIp::new(),
        |response| response.status == http::StatusCode::UNAUTHORIZED,
    );
    let app = App::new().wrap(from_fn(wrong_password)).wrap(RateLimit::new(gate));
    let app = init_service(app.default_service(web::to(hello))).await;
    for _ in 0..3 {
        let error = try_call_service(&app, get("/").to_request()).await.expect_err("it fails");
        assert_eq!(error.error_response().status(), 401);
        assert_eq!(error.to_string(), "wrong password");
    }
    assert_eq!(call_service(&app, get("/").to_request()).await.status(), 429);
}

#[actix_web::test]
async fn an_error_of_a_middleware_within_costs_the_estimate_where_bytes_settle() {
    let limit = RateLimit::new(per_day(100).cost(|_| 30).settle_bytes(|bytes| bytes));
    let app = App::new().wrap(from_fn(wrong_password)).wrap(limit.clone());
    let app = init_service(app.default_service(web::to(hello))).await;
    try_call_service(&app, get("/").to_request()).await.expect_err("it fails");
    let (limiter, key) = (limit.layer().gate().limiter(), PEER.ip());
    assert_eq!(limiter.ask(&key).cells(0).peek().expect("some are left").remaining(), 70);
}

#[actix_web::test]
async fn a_target_that_the_layer_cannot_read_is_not_forwarded() {
    let limit = Limit::gcra(
        "logins",
        Quota::per_day(1),
        key::from_fn(|request| request.uri.path().starts_with("/login").then_some(())),
    );
    let limit = limit.expect("in range").on_no_key(tollgate_http::OnNoKey::Admit);
    let app = app!(RateLimit::new(limit), hello);
    assert_eq!(call_service(&app, get("/login").to_request()).await.status(), 200);
    assert_eq!(call_service(&app, get("/login").to_request()).await.status(), 429);
    // HTTP/2 bounds the parts of a target, and not their sum.
    let path = format!("/login?{}", "a".repeat(65_520));
    let target = Uri::builder().scheme("https").authority("an.example:443").path_and_query(path);
    let mut request = get("/").to_request();
    request.head_mut().uri = target.build().expect("a target");
    let status = match app.call(request).await {
        Ok(response) => response.status(),
        Err(error) => error.error_response().status(),
    };
    assert_eq!(status, 414);
}

#[actix_web::test]
async fn a_request_with_many_headers_is_decided_as_any_other() {
    let app = app!(RateLimit::new(per_day(1)), hello);
    let mut request = get("/");
    for _ in 0..30_000 {
        request = request.append_header(("a", "b"));
    }
    assert_eq!(call_service(&app, request.to_request()).await.status(), 200);
}

/// Sends a request to a server with a cap of `cells`, after as many that are admitted.
async fn answer_over_a_cap_of(cells: u64, request: &'static str) -> String {
    let limit = RateLimit::new(per_day(cells));
    let server = HttpServer::new(move || App::new().wrap(limit.clone()).route("/", web::to(hello)));
    let server = server.workers(1).bind("127.0.0.1:0").expect("a port");
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    let running = actix_web::rt::spawn(server);
    let exchange = actix_web::rt::task::spawn_blocking(move || {
        let mut answer = String::new();
        for _ in 0..=cells {
            answer.clear();
            let mut stream = TcpStream::connect(address).expect("listening");
            stream.write_all(request.as_bytes()).expect("sent");
            stream.read_to_string(&mut answer).expect("an answer");
        }
        answer
    });
    let answer = exchange.await.expect("no panic");
    handle.stop(false).await;
    running.await.expect("no panic").expect("it ended well");
    answer
}

#[actix_web::test]
async fn the_denial_of_a_head_request_has_the_length_of_the_body_that_get_would_have() {
    let get = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let head = "HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let length = |answer: &str| {
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        (length.expect("it").parse::<usize>().expect("a number"), body.len())
    };
    let (of_get, sent) = length(&answer_over_a_cap_of(1, get).await);
    assert_eq!(of_get, sent);
    assert_eq!(length(&answer_over_a_cap_of(1, head).await), (of_get, 0));
}

#[actix_web::test]
async fn all_workers_of_a_server_share_one_quota() {
    let limit = RateLimit::new(per_day(5));
    let shared = limit.clone();
    let server =
        HttpServer::new(move || App::new().wrap(shared.clone()).route("/", web::get().to(hello)));
    let server = server.workers(2).bind("127.0.0.1:0").expect("a port");
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    let running = actix_web::rt::spawn(server);
    let clients = (0..10).map(|_| {
        actix_web::rt::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).expect("listening");
            stream
                .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                .expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer[9..12].to_owned()
        })
    });
    let mut statuses = Vec::new();
    for client in clients {
        statuses.push(client.await.expect("no panic"));
    }
    statuses.sort();
    assert_eq!(statuses, [["200"; 5], ["429"; 5]].concat());
    handle.stop(false).await;
    running.await.expect("no panic").expect("it ended well");
    assert_eq!(limit.layer().stats().admitted, 5);
}
