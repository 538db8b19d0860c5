//! An adaptive limit of requests in flight, by the responses.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd, MinLatency};
use tollgate::{LeakyQueue, Limiter, ManualClock, Quota};
use tollgate_http::key::Header;
use tollgate_http::{
    AdaptiveInFlightLimit, Body, GatePermit, Limit, PendingVerdict, Policy, RateLimitLayer, Report,
    Several, Verdict,
};
use tower::{Layer, ServiceExt, service_fn};

use super::volume::{Chunks, body};

type Gate = AdaptiveInFlightLimit<ManualClock>;

/// A limit of 10, to 20, whose windows last a second and have a sample.
fn limit() -> (Arc<AdaptiveLimit<ManualClock>>, ManualClock) {
    let clock = ManualClock::new();
    let limit = AdaptiveLimit::builder(Aimd::new().max_latency(Duration::from_millis(100)))
        .limits(1, 20)
        .initial(1)
        .window(Duration::from_secs(1))
        .min_samples(1)
        .clock(clock.clone())
        .build();
    (Arc::new(limit.expect("in range")), clock)
}

fn layer(limit: &Arc<AdaptiveLimit<ManualClock>>) -> RateLimitLayer<Gate> {
    RateLimitLayer::new(AdaptiveInFlightLimit::new("load", Arc::clone(limit)).expect("a name"))
}

/// One request, of which the head comes after `millis`, in a window of its own.
async fn send(
    layer: &RateLimitLayer<Gate>,
    clock: &ManualClock,
    millis: u64,
    status: StatusCode,
) -> Response<Body<Chunks>> {
    clock.advance(Duration::from_secs(1));
    let clock = clock.clone();
    let service = service_fn(move |_: Request<()>| {
        clock.advance(Duration::from_millis(millis));
        let mut response = body(2);
        *response.status_mut() = status;
        async move { Ok::<_, Infallible>(response) }
    });
    let response = layer.clone().layer(service).oneshot(Request::new(())).await;
    response.expect("served")
}

#[tokio::test]
async fn good_responses_raise_the_limit_and_slow_or_failed_ones_lower_it() {
    let (limit, clock) = limit();
    let layer = layer(&limit);
    for expected in [2, 3] {
        drop(send(&layer, &clock, 20, StatusCode::OK).await);
        assert_eq!(limit.limit(), expected);
    }
    drop(send(&layer, &clock, 20, StatusCode::NOT_FOUND).await);
    assert_eq!(limit.limit(), 3, "one of three in flight is no load, and 404 no failure");
    drop(send(&layer, &clock, 200, StatusCode::OK).await);
    assert_eq!(limit.limit(), 2, "slow");
    for status in [500, 502, 503, 504] {
        drop(send(&layer, &clock, 1, StatusCode::from_u16(status).expect("a status")).await);
    }
    assert_eq!(limit.limit(), 1, "failed");
    assert_eq!(limit.reading().expect("no thread steps").samples, 8);
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_body_ends_and_its_latency_is_that_of_the_head() {
    let (limit, clock) = limit();
    let layer = layer(&limit);
    let response = send(&layer, &clock, 20, StatusCode::OK).await;
    assert_eq!(limit.in_flight(), 1);
    let denied = send(&layer, &clock, 20, StatusCode::OK).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers()["retry-after"], "1");
    assert_eq!(denied.headers()["ratelimit-policy"], r#""load";q=20;qu="concurrent-requests""#);
    clock.advance(Duration::from_secs(10));
    drop(response);
    assert_eq!((limit.in_flight(), limit.limit()), (0, 2), "10 s of body are no latency");
}

#[tokio::test]
async fn until_the_head_streams_hold_no_place_and_end_a_measurement() {
    let clock = ManualClock::new();
    let limit = AdaptiveLimit::builder(MinLatency::new().measure_samples(3))
        .limits(3, 500)
        .initial(100)
        .window(Duration::from_secs(1))
        .clock(clock.clone())
        .build();
    let limit = Arc::new(limit.expect("in range"));
    assert_eq!(limit.limit(), 3, "it measures");
    let gate = || AdaptiveInFlightLimit::new("load", Arc::clone(&limit)).expect("a name");

    let whole = RateLimitLayer::new(gate());
    let mut streams = Vec::new();
    for expected in [200, 200, 200, 429] {
        let response = send(&whole, &clock, 20, StatusCode::OK).await;
        assert_eq!(response.status(), expected);
        streams.push(response);
    }
    drop(streams);
    assert_eq!(limit.limit(), 100, "the streams ended, and so did the measurement");

    clock.advance(Duration::from_secs(120));
    let heads = RateLimitLayer::new(gate().until_head());
    let (mut streams, mut lowest) = (Vec::new(), u64::MAX);
    for _ in 0..20 {
        let response = send(&heads, &clock, 20, StatusCode::OK).await;
        assert_eq!((response.status(), limit.in_flight()), (StatusCode::OK, 0));
        streams.push(response);
        lowest = lowest.min(limit.limit());
    }
    assert_eq!(lowest, 3, "it measured again");
    assert!(limit.limit() > 3, "and ended the measurement while all streams are open");
}

#[tokio::test]
async fn a_request_without_a_response_is_no_sample() {
    let (limit, clock) = limit();
    let layer = layer(&limit);
    clock.advance(Duration::from_secs(1));
    let service = service_fn(|_: Request<()>| async {
        Err::<Response<Full<bytes::Bytes>>, &str>("the service is gone")
    });
    assert!(layer.layer(service).oneshot(Request::new(())).await.is_err());
    assert_eq!((limit.in_flight(), limit.limit()), (0, 1));
    assert_eq!(limit.reading().expect("no thread steps").samples, 0);
}

/// A server that decides each request, and takes half a second.
struct Remote(ManualClock);

impl tollgate_http::Gate for Remote {
    fn decide(&self, _: &http::request::Parts, _: &mut Report) -> Verdict {
        let clock = self.0.clone();
        Verdict::Pending(PendingVerdict::new(async move {
            clock.advance(Duration::from_millis(500));
            (Ok(GatePermit::default()), Report::default())
        }))
    }
}

#[tokio::test]
async fn neither_a_wait_for_a_turn_nor_for_a_verdict_is_latency_of_the_service() {
    let (limit, clock) = limit();
    let load = || AdaptiveInFlightLimit::new("load", Arc::clone(&limit)).expect("a name");
    let quota = Quota::new(1, Duration::from_secs(2)).burst(9);
    let queue: Limiter<str, LeakyQueue, ManualClock> = Limiter::builder(quota)
        .algorithm(LeakyQueue::new())
        .clock(clock.clone())
        .build()
        .expect("in range");
    let policy = Policy::new("queue", &quota).expect("a name");
    let queue = Limit::new(policy, Arc::new(queue), Header::new("key").expect("a name"));
    let sleeper = clock.clone();
    let queued = RateLimitLayer::builder(Several::new().and(load()).and(queue))
        .wait(move |delay| {
            sleeper.advance(delay);
            std::future::ready(())
        })
        .build();
    let remote = RateLimitLayer::new(Several::new().and(load()).and(Remote(clock.clone())));
    for (layer, expected) in [(&queued, 2), (&queued, 3), (&remote, 3)] {
        clock.advance(Duration::from_secs(1));
        let service = service_fn(|_: Request<()>| {
            clock.advance(Duration::from_millis(20));
            async { Ok::<_, Infallible>(body(2)) }
        });
        let request = Request::builder().header("key", "a").body(()).expect("a request");
        drop(layer.layer(service).oneshot(request).await);
        assert_eq!(limit.limit(), expected, "20 ms each");
    }
}
