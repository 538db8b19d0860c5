//! The fields of responses in other forms, and waits that are lengthened.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use tollgate::{Limiter, ManualClock, Quota};
use tollgate_http::{Dialect, Gate, LayerBuilder, Limit, Policy, RateLimitLayer, Several, key};
use tower::{Layer, ServiceExt, service_fn};

/// A limit whose clock stands still.
fn limit(name: &str, quota: Quota) -> impl Gate + use<> + 'static {
    let clock: &'static ManualClock = Box::leak(Box::default());
    let limiter = Limiter::<(), _, _>::builder(quota).clock(clock).build().expect("in range");
    let policy = Policy::new(name, &quota).expect("a name");
    Limit::new(policy, limiter.into(), key::from_fn(|_| Some(())))
}

/// 2 a second with a burst of 5.
fn builder() -> LayerBuilder<impl Gate + 'static> {
    RateLimitLayer::builder(limit("per-client", Quota::per_second(2).burst(5)))
}

async fn ask<G: Gate + 'static>(layer: &RateLimitLayer<G>) -> HeaderMap {
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    service.oneshot(Request::new(())).await.expect("infallible").into_parts().0.headers
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
}

#[allow(clippy::disallowed_types, reason = "the field is a time of the system's clock")]
pub(super) fn unix_secs() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()
}

#[tokio::test]
async fn draft_7_replaces_the_fields_of_the_newest_draft() {
    let layer = builder().dialect(Dialect::Draft7).build();
    let headers = ask(&layer).await;
    assert_eq!(text(&headers, "ratelimit-policy"), r#"2;w=1;burst=5;comment="per-client""#);
    assert_eq!(text(&headers, "ratelimit"), "limit=5, remaining=4, reset=1");
    assert_eq!(headers.get_all("ratelimit").iter().count(), 1);
    assert_eq!(text(&headers, "x-ratelimit-limit"), "");
    for _ in 0..4 {
        ask(&layer).await;
    }
    let headers = ask(&layer).await;
    assert_eq!(text(&headers, "ratelimit"), "limit=5, remaining=0, reset=1");
    assert_eq!(text(&headers, "retry-after"), "1");
}

#[tokio::test]
async fn draft_7_has_no_policy_without_a_window_of_whole_seconds() {
    let gate = limit("a", Quota::new(3, Duration::from_millis(1_500)));
    let headers = ask(&RateLimitLayer::builder(gate).dialect(Dialect::Draft7).build()).await;
    assert!(!headers.contains_key("ratelimit-policy"), "{headers:?}");
    assert_eq!(text(&headers, "ratelimit"), "limit=3, remaining=2, reset=1");
}

#[tokio::test]
async fn envoys_and_githubs_fields_stand_beside_those_of_the_draft_or_alone() {
    let headers = ask(&builder().dialect(Dialect::Envoy).build()).await;
    assert_eq!(text(&headers, "ratelimit"), r#""per-client";r=4;t=1"#);
    assert_eq!(text(&headers, "x-ratelimit-limit"), r#"5, 2;w=1;name="per-client""#);
    assert_eq!(text(&headers, "x-ratelimit-remaining"), "4");
    assert_eq!(text(&headers, "x-ratelimit-reset"), "1");

    let layer = builder().without_rate_limit_fields().dialect(Dialect::GitHub).build();
    let headers = ask(&layer).await;
    assert_eq!(text(&headers, "ratelimit"), "");
    assert_eq!(text(&headers, "x-ratelimit-limit"), "5");
    let reset: u64 = text(&headers, "x-ratelimit-reset").parse().expect("a number");
    let now = unix_secs();
    assert!((now - 60..=now + 2).contains(&reset), "{reset} is half a second after {now}");
}

/// The fields of a request that two limits deny, for a second and for an hour.
async fn of_two_denials(dialect: Dialect) -> HeaderMap {
    let second = limit("second", Quota::per_second(1));
    let gate = Several::new().and(second).and(limit("hour", Quota::per_hour(1)));
    let layer = RateLimitLayer::builder(gate).dialect(dialect).build();
    ask(&layer).await;
    let headers = ask(&layer).await;
    assert_eq!(text(&headers, "retry-after"), "3600");
    headers
}

#[tokio::test]
async fn of_two_denials_each_dialect_tells_the_longer_wait_as_retry_after_does() {
    let headers = of_two_denials(Dialect::Draft7).await;
    assert_eq!(text(&headers, "ratelimit"), "limit=1, remaining=0, reset=3600");
    let headers = of_two_denials(Dialect::Envoy).await;
    assert_eq!(text(&headers, "x-ratelimit-reset"), "3600");
    let before = unix_secs();
    let headers = of_two_denials(Dialect::GitHub).await;
    let reset: u64 = text(&headers, "x-ratelimit-reset").parse().expect("a number");
    assert!(reset >= before + 3_600, "{reset} is an hour after {before}");
}

#[tokio::test]
async fn retry_after_is_lengthened_at_random_within_its_bound() {
    let limit = limit("a", Quota::new(1, Duration::from_secs(1_000)));
    let layer = RateLimitLayer::builder(limit).retry_after_jitter_percent(20).build();
    ask(&layer).await;
    let mut waits = Vec::new();
    for _ in 0..100 {
        let headers = ask(&layer).await;
        assert_eq!(text(&headers, "ratelimit"), r#""a";r=0;t=1000"#, "it stays exact");
        waits.push(text(&headers, "retry-after").parse::<u64>().expect("a number"));
    }
    assert!(waits.iter().all(|secs| (1_000..=1_200).contains(secs)), "{waits:?}");
    waits.sort_unstable();
    waits.dedup();
    // The chance of fewer is below 10^-30.
    assert!(waits.len() > 20, "{waits:?}");
}
