//! Penalties over a limiter that delays: a denial charges nothing, and a key takes its share of the queue only.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use tokio::time::{sleep, timeout};
use tollgate::penalty::Penalties;
use tollgate::{LeakyQueue, Limiter, ManualClock, Quota};
use tollgate_http::key::Header;
use tollgate_http::{Gate, Limit, Penalized, Policy, RateLimitLayer, Several};
use tower::{Layer, ServiceExt, service_fn};

type Clock = &'static ManualClock;
type Queue = Penalized<Header, str, LeakyQueue, Clock>;

fn clock() -> Clock {
    Box::leak(Box::default())
}

/// A ban is for ten seconds, after a single failure.
fn queue(quota: Quota, clock: Clock) -> Queue {
    let builder = Limiter::builder(quota).algorithm(LeakyQueue::new()).clock(clock);
    let limiter: Limiter<str, _, _> = builder.build().expect("in range");
    let penalties = Penalties::builder(limiter, Quota::per_hour(1), Duration::from_secs(10));
    let penalties = Arc::new(penalties.failures_only().build().expect("in range"));
    let policy = Policy::new("queue", &quota).expect("a name");
    Penalized::new(policy, penalties, Header::new("key").expect("a name"), |_| false)
}

async fn answer(_: Request<()>) -> Result<Response<Empty<Bytes>>, Infallible> {
    Ok(Response::new(Empty::new()))
}

fn of_a() -> Request<()> {
    Request::builder().header("key", "a").body(()).expect("a request")
}

/// The status and `Retry-After`, 0 if there is none.
async fn ask<G: Gate + 'static>(layer: &RateLimitLayer<G>) -> (u16, u64) {
    let answer = layer.layer(service_fn(answer)).oneshot(of_a()).await.expect("infallible");
    let secs = answer.headers().get("retry-after").map(|value| value.to_str().expect("ASCII"));
    (answer.status().as_u16(), secs.map_or(0, |secs| secs.parse().expect("seconds")))
}

#[tokio::test]
async fn a_client_that_obeys_retry_after_is_admitted() {
    let clock = clock();
    let layer = RateLimitLayer::new(queue(Quota::per_minute(1).burst(5), clock));
    assert_eq!(ask(&layer).await, (200, 0));
    for nth in 0..5 {
        for _ in 0..3 {
            assert_eq!(ask(&layer).await, (429, 60), "{nth}");
        }
        clock.advance(Duration::from_secs(60));
        assert_eq!(ask(&layer).await, (200, 0), "{nth}");
    }
}

#[tokio::test]
async fn retry_after_of_a_ban_is_enough_if_the_turn_comes_later() {
    let clock = clock();
    let gate = queue(Quota::per_minute(1).burst(5), clock);
    let penalties = Arc::clone(gate.penalties());
    let layer = RateLimitLayer::new(gate);
    assert_eq!(ask(&layer).await, (200, 0));
    assert!(penalties.strike("a").is_some());
    assert_eq!(ask(&layer).await, (429, 60));
    clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&layer).await, (200, 0));
}

#[tokio::test]
async fn a_turn_that_comes_too_late_costs_other_limits_nothing() {
    let clock = clock();
    let quota = Quota::per_hour(5);
    let hour: Limiter<str, _, _> = Limiter::builder(quota).clock(clock).build().expect("in range");
    let (hour, policy) = (Arc::new(hour), Policy::new("hour", &quota).expect("a name"));
    let key = Header::new("key").expect("a name");
    let first = Limit::new(policy, Arc::clone(&hour), key);
    let several = Several::new().and(first).and(queue(Quota::per_minute(1).burst(5), clock));
    let layer = RateLimitLayer::new(several);
    assert_eq!(ask(&layer).await, (200, 0));
    for _ in 0..10 {
        assert_eq!(ask(&layer).await, (429, 60));
    }
    assert_eq!(hour.check_n("a", 0).expect("no cells").remaining(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_key_may_queue_128_requests_by_default() {
    let gate = queue(Quota::per_second(10).burst(2_000), clock());
    let layer = RateLimitLayer::builder(gate).wait(sleep).build();
    let service = layer.layer(service_fn(answer));
    let mut calls: Vec<_> = (0..140).map(|_| Box::pin(service.clone().oneshot(of_a()))).collect();
    for call in &mut calls {
        let _ = timeout(Duration::ZERO, call).await;
    }
    assert_eq!((layer.stats().waited, layer.stats().denied), (128, 11));
}
