//! The layer around a service, without sockets: charges, fields, skipped requests and queues.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::{FixedWindow, LeakyQueue, Limiter, ManualClock, Quota, SlidingLog};
use tollgate_http::key::{Header, from_fn};
use tollgate_http::{
    Body, Gate, GatePermit, Limit, OnNoKey, Policy, RateLimit, RateLimitLayer, Report, Several,
    ShadowGate, Verdict, denial,
};
use tower::{Layer, Service, ServiceExt, service_fn};

type Answer = Response<Body<Full<Bytes>>>;

/// Answers with as many bytes as the query says, and with the status of a header.
async fn echo(request: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
    let bytes = request.uri().query().map_or(2, |text| text.parse().expect("a number"));
    let mut response = Response::new(Full::from(vec![b'.'; bytes]));
    if let Some(status) = request.headers().get("status") {
        *response.status_mut() = status.to_str().expect("ASCII").parse().expect("a status");
    }
    Ok(response)
}

async fn send<G: Gate + 'static>(layer: &RateLimitLayer<G>, request: Request<()>) -> Answer {
    layer.layer(service_fn(echo)).oneshot(request).await.expect("infallible")
}

fn of(key: &str) -> Request<()> {
    with(key, "/", &[])
}

fn with(key: &str, uri: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().uri(uri).header("key", key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request")
}

fn key() -> Header {
    Header::new("key").expect("a name")
}

fn field<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().expect("ASCII"))
}

#[tokio::test]
async fn the_fields_of_an_admission_and_of_a_denial() {
    let clock: &'static ManualClock = Box::leak(Box::default());
    let quota = Quota::per_minute(2);
    let limiter: Limiter<str, _, _> =
        Limiter::builder(quota).clock(clock).build().expect("in range");
    let policy = Policy::new("pages", &quota).expect("a name");
    let limit = Limit::new(policy, Arc::new(limiter), key());
    let layer = RateLimitLayer::builder(limit).x_rate_limit().build();
    let fields = |answer: &Answer| {
        [
            "ratelimit-policy",
            "ratelimit",
            "retry-after",
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ]
        .map(|name| field(answer, name).to_owned())
    };
    let first = send(&layer, of("a")).await;
    assert_eq!(fields(&first), ["\"pages\";q=2;w=60", "\"pages\";r=1;t=30", "", "2", "1", "30"]);
    let second = send(&layer, of("a")).await;
    assert_eq!(fields(&second), ["\"pages\";q=2;w=60", "\"pages\";r=0;t=60", "", "2", "0", "60"]);
    let third = send(&layer, of("a")).await;
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fields(&third), ["\"pages\";q=2;w=60", "\"pages\";r=0;t=30", "30", "2", "0", "60"]);
    // Ten microseconds before the end of the wait, `Retry-After` is still a whole second.
    clock.advance(Duration::from_nanos(29_999_990_000));
    let early = send(&layer, of("a")).await;
    assert_eq!(field(&early, "retry-after"), "1");
    assert_eq!(field(&early, "ratelimit"), "\"pages\";r=0;t=1");
    clock.advance(Duration::from_nanos(10_000));
    assert_eq!(send(&layer, of("a")).await.status(), 200);
    assert_eq!((layer.stats().admitted, layer.stats().denied), (3, 2));
}

#[tokio::test]
async fn the_body_of_a_denial_is_a_problem_or_as_configured() {
    let limit = || Limit::gcra("a", Quota::per_hour(1), key()).expect("in range").cost(|_| 2);
    let answer = send(&RateLimitLayer::new(limit()), of("a")).await;
    assert_eq!((answer.status().as_u16(), field(&answer, "retry-after")), (429, ""));
    assert_eq!(field(&answer, "content-type"), "application/problem+json");
    let body = answer.into_body().collect().await.expect("infallible").to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["violated-policies"], serde_json::json!(["a"]));

    let layer = RateLimitLayer::builder(limit()).deny_with(denial::grpc).build();
    let answer = send(&layer, of("a")).await;
    assert_eq!((answer.status().as_u16(), field(&answer, "grpc-status")), (200, "8"));
}

#[tokio::test]
async fn a_request_without_a_key_is_denied_or_admitted_as_configured() {
    for (choice, status) in [(OnNoKey::Deny, 400), (OnNoKey::Admit, 200)] {
        let limit = Limit::gcra("a", Quota::per_hour(1), key()).expect("in range");
        let layer = RateLimitLayer::new(limit.on_no_key(choice));
        for _ in 0..3 {
            let answer = send(&layer, Request::new(())).await;
            assert_eq!(answer.status(), status);
            assert_eq!(field(&answer, "ratelimit"), "");
        }
        let twice = with("a", "/", &[("key", "b")]);
        assert_eq!(send(&layer, twice).await.status(), 400, "a back end may take either key");
        let stats = layer.stats();
        assert_eq!((stats.key_missing, stats.key_malformed), (3, 1));
        assert_eq!(stats.denied_no_key, if status == 400 { 4 } else { 1 });
    }
}

/// Allows only `GET`, whatever a limit has left.
struct ReadOnly;

impl Gate for ReadOnly {
    fn decide(&self, request: &http::request::Parts, _: &mut Report) -> Verdict {
        match request.method {
            Method::GET => Verdict::Admit(GatePermit::default()),
            _ => Verdict::Forbidden,
        }
    }
}

#[tokio::test]
async fn a_request_that_is_not_allowed_gets_403_and_costs_the_other_limits_nothing() {
    let limit = || Limit::gcra("a", Quota::per_hour(1), key()).expect("in range").refundable();
    let post = || {
        let mut request = with("a", "/", &[]);
        *request.method_mut() = Method::POST;
        request
    };
    let layer = RateLimitLayer::new(Several::new().and(limit()).and(ReadOnly));
    for _ in 0..3 {
        let answer = send(&layer, post()).await;
        assert_eq!((answer.status().as_u16(), field(&answer, "retry-after")), (403, ""));
    }
    assert_eq!(send(&layer, with("a", "/", &[])).await.status(), 200);
    assert_eq!((layer.stats().forbidden, layer.stats().denied), (3, 0));
    let layer = RateLimitLayer::new(ShadowGate::new(ReadOnly));
    assert_eq!(send(&layer, post()).await.status(), 200);
}

fn preflight() -> Request<()> {
    let headers = [("origin", "https://a.example"), ("access-control-request-method", "PUT")];
    let mut request = with("a", "/", &headers);
    *request.method_mut() = Method::OPTIONS;
    request
}

#[tokio::test]
async fn preflights_are_limited_unless_they_are_skipped() {
    let limit = || Limit::gcra("a", Quota::per_hour(1), key()).expect("in range");
    let layer = RateLimitLayer::new(limit());
    assert_eq!(send(&layer, preflight()).await.status(), 200);
    for _ in 0..3 {
        assert_eq!(send(&layer, preflight()).await.status(), 429);
    }
    assert_eq!((layer.stats().skipped, layer.stats().denied), (0, 3));

    let layer = RateLimitLayer::builder(limit()).skip_preflights().build();
    for _ in 0..3 {
        assert_eq!(send(&layer, preflight()).await.status(), 200);
    }
    assert_eq!(layer.stats().skipped, 3);
    // An OPTIONS that lacks either header is no preflight.
    for (nth, header) in [(0, "origin"), (1, "access-control-request-method")] {
        let mut options = with("a", "/", &[(header, "PUT")]);
        *options.method_mut() = Method::OPTIONS;
        assert_eq!(send(&layer, options).await.status(), [200, 429][nth]);
    }
}

#[tokio::test]
async fn skipped_methods_are_not_counted() {
    let limit = Limit::gcra("a", Quota::per_hour(1), key()).expect("in range");
    let layer = RateLimitLayer::builder(limit).skip_methods([Method::HEAD]).build();
    for _ in 0..3 {
        let mut head = of("a");
        *head.method_mut() = Method::HEAD;
        assert_eq!(send(&layer, head).await.status(), 200);
    }
    assert_eq!((layer.stats().skipped, layer.stats().admitted), (3, 0));
}

#[tokio::test]
async fn a_limit_in_shadow_denies_nothing_and_is_counted() {
    let (log, seen) = mpsc::channel();
    let limit = Limit::gcra("shadow", Quota::per_hour(1), key()).expect("in range").shadow();
    let layer = RateLimitLayer::builder(limit)
        .inspect(move |request, report| {
            for reading in report.shadow_denials() {
                let line = format!("{} {}", reading.policy.name(), request.uri);
                log.send(line).expect("received below");
            }
        })
        .build();
    for uri in ["/1", "/2", "/3"] {
        let answer = send(&layer, with("a", uri, &[])).await;
        assert_eq!((answer.status().as_u16(), field(&answer, "ratelimit")), (200, ""));
    }
    assert_eq!(send(&layer, Request::new(())).await.status(), 200);
    let stats = layer.stats();
    assert_eq!(
        (stats.admitted, stats.denied, stats.shadow_denied, stats.key_missing),
        (4, 0, 2, 1)
    );
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["shadow /2", "shadow /3"]);
}

#[tokio::test]
async fn the_response_settles_what_a_request_costs() {
    let limit = Limit::gcra("failed", Quota::per_hour(2), key()).expect("in range");
    let layer =
        RateLimitLayer::new(limit.settle(|response| u64::from(!response.status.is_success())));
    for _ in 0..5 {
        assert_eq!(send(&layer, of("a")).await.status(), 200);
    }
    for _ in 0..2 {
        assert_eq!(send(&layer, with("a", "/", &[("status", "401")])).await.status(), 401);
    }
    assert_eq!(send(&layer, of("a")).await.status(), 429);
}

#[tokio::test]
async fn the_bytes_sent_settle_what_a_request_costs() {
    let quota = Quota::per_hour(1_000);
    let limiter: Arc<Limiter<str, FixedWindow>> = Arc::new(
        Limiter::builder(quota).algorithm(FixedWindow::anchored()).build().expect("in range"),
    );
    let policy = Policy::of_bytes("volume", &quota).expect("a name");
    let limit =
        Limit::new(policy, Arc::clone(&limiter), key()).cost(|_| 100).settle_bytes(|bytes| bytes);
    let layer = RateLimitLayer::new(limit);
    let left = || limiter.check_n("a", 0).expect("room").remaining();

    let answer = send(&layer, with("a", "/?300", &[])).await;
    assert_eq!(field(&answer, "ratelimit"), "\"volume\";r=900;t=3600");
    assert_eq!(left(), 900);
    let body = answer.into_body().collect().await.expect("infallible").to_bytes();
    assert_eq!((body.len(), left()), (300, 700));
    // A smaller body is charged its bytes. A body that is not read is charged the estimate.
    send(&layer, with("a", "/?40", &[])).await.into_body().collect().await.expect("infallible");
    assert_eq!(left(), 660);
    drop(send(&layer, with("a", "/?500", &[])).await);
    assert_eq!(left(), 560);
    // A client that leaves before the response is charged the estimate.
    drop(
        layer
            .layer(service_fn(|_: Request<()>| {
                std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
            }))
            .call(of("a")),
    );
    assert_eq!(left(), 460);
}

#[tokio::test]
async fn several_limits_all_admit_or_none_is_charged() {
    let second = Limit::gcra("many", Quota::per_hour(10), key()).expect("in range").refundable();
    let many = Arc::clone(second.limiter());
    let quota = Quota::per_hour(3);
    let log: Limiter<(), SlidingLog> =
        Limiter::builder(quota).algorithm(SlidingLog::new()).build().expect("in range");
    let few = Limit::new(
        Policy::new("few", &quota).expect("a name"),
        Arc::new(log),
        from_fn(|_| Some(())),
    );
    let layer = RateLimitLayer::new(Several::new().and(second).and(few));
    for left in [2, 1, 0] {
        let answer = send(&layer, of("a")).await;
        assert_eq!(field(&answer, "ratelimit-policy"), "\"many\";q=10;w=3600, \"few\";q=3;w=3600");
        let fields: Vec<_> = field(&answer, "ratelimit").split(';').collect();
        assert_eq!(fields[3], format!("r={left}"));
    }
    for _ in 0..20 {
        let answer = send(&layer, of("a")).await;
        assert_eq!(answer.status(), 429);
        assert_eq!(field(&answer, "ratelimit-policy"), "\"few\";q=3;w=3600");
    }
    assert_eq!(many.check_n(&"a".into(), 0).expect("room").remaining(), 7);
}

/// Turns half a second apart: a busy machine may take long between two requests.
fn paced(burst: u64, max_waiting: usize) -> RateLimitLayer<impl Gate> {
    let quota = Quota::per_second(2).burst(burst);
    let limiter: Limiter<str, LeakyQueue> =
        Limiter::builder(quota).algorithm(LeakyQueue::new()).build().expect("in range");
    let limit = Limit::new(Policy::new("paced", &quota).expect("a name"), Arc::new(limiter), key());
    RateLimitLayer::builder(limit).wait(tokio::time::sleep).max_waiting(max_waiting).build()
}

#[tokio::test]
async fn requests_wait_for_their_turn_in_a_bounded_queue() {
    let layer = paced(4, 100);
    let start = tokio::time::Instant::now();
    let mut service = layer.layer(service_fn(echo));
    let calls: Vec<_> = (0..6).map(|_| service.call(of("a"))).collect();
    let mut answers = Vec::new();
    for call in calls {
        let status = call.await.expect("infallible").status().as_u16();
        answers.push((status, start.elapsed()));
    }
    let statuses: Vec<_> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    for (nth, (_, at)) in (0..4).zip(&answers) {
        assert!(*at >= Duration::from_millis(499 * nth), "{nth} at {at:?}");
    }
    assert_eq!((layer.stats().waited, layer.stats().denied), (3, 2));
}

#[tokio::test]
async fn the_queue_of_all_keys_is_bounded_and_places_are_freed() {
    let layer = paced(100, 2);
    let mut service: RateLimit<_, _> = layer.layer(service_fn(echo));
    let mut calls: Vec<_> = (0..4).map(|_| Box::pin(service.call(of("a")))).collect();
    let full = calls.pop().expect("four").await.expect("infallible");
    assert_eq!((full.status().as_u16(), field(&full, "retry-after")), (503, "2"));
    assert_eq!(field(&full, "ratelimit").rsplit(';').next(), Some("t=2"));
    assert_eq!(layer.stats().queue_full, 1);
    drop(calls);
    let next = service.call(of("b"));
    assert_eq!(next.await.expect("infallible").status(), 200);
    drop(service.call(of("b")));
    assert_eq!((layer.stats().queue_full, layer.stats().waited), (1, 3));
}

#[tokio::test]
async fn without_a_sleep_a_request_that_would_wait_is_denied() {
    let quota = Quota::per_second(2).burst(4);
    let limiter: Limiter<str, LeakyQueue> =
        Limiter::builder(quota).algorithm(LeakyQueue::new()).build().expect("in range");
    let limit = Limit::new(Policy::new("paced", &quota).expect("a name"), Arc::new(limiter), key());
    let layer = RateLimitLayer::new(limit);
    assert_eq!(send(&layer, of("a")).await.status(), 200);
    let answer = send(&layer, of("a")).await;
    assert_eq!((answer.status().as_u16(), field(&answer, "retry-after")), (429, "1"));
}

#[tokio::test]
async fn each_of_thousands_of_keys_has_its_own_quota() {
    let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_hour(1), key()).expect("in range"));
    for n in 0..5_000 {
        assert_eq!(send(&layer, of(&n.to_string())).await.status(), 200);
    }
    assert_eq!(layer.stats().admitted, 5_000);
}
