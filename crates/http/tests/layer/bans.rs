//! Bans by failures: the response decides, and `Retry-After` is the end of the ban or of a longer wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tollgate::penalty::{Penalties, PenaltiesBuilder};
use tollgate::{Gcra, Limiter, ManualClock, Quota};
use tollgate_http::key::Header;
use tollgate_http::{Gate, Limit, Penalized, Policy, RateLimitLayer, Several};
use tower::{Layer, ServiceExt, service_fn};

type Clock = &'static ManualClock;

/// Marks a wrong password in the extensions of a response with status 200.
#[derive(Clone)]
struct Wrong;

type Login = Penalized<Header, str, Gcra, Clock>;

/// Ten tries a minute. Three wrong passwords within a minute: banned for ten minutes.
fn login(clock: Clock) -> Login {
    let penalties = |limiter| {
        Penalties::builder(limiter, Quota::per_minute(3), Duration::from_secs(600)).failures_only()
    };
    login_with(Quota::per_minute(10), clock, penalties)
}

fn login_with(
    quota: Quota,
    clock: Clock,
    penalties: impl Fn(Limiter<str, Gcra, Clock>) -> PenaltiesBuilder<str, Gcra, Clock>,
) -> Login {
    let limiter = Limiter::builder(quota).clock(clock).build().expect("in range");
    let penalties = Arc::new(penalties(limiter).build().expect("in range"));
    let policy = Policy::new("login", &quota).expect("a name");
    let user = Header::new("user").expect("a name");
    Penalized::new(policy, penalties, user, |response| {
        response.status == 401 || response.extensions.get::<Wrong>().is_some()
    })
}

/// The status and `Retry-After`. `answer` is the path that tells the service how to answer.
async fn ask<G: Gate + 'static>(
    layer: &RateLimitLayer<G>,
    user: &str,
    answer: &'static str,
) -> (u16, String) {
    let service = layer.layer(service_fn(async |request: Request<()>| {
        let mut response = Response::new(Full::<Bytes>::default());
        match request.uri().path() {
            "/401" => *response.status_mut() = http::StatusCode::UNAUTHORIZED,
            "/wrong" => {
                response.extensions_mut().insert(Wrong);
            }
            _ => {}
        }
        Ok::<_, Infallible>(response)
    }));
    let request = Request::builder().uri(answer).header("user", user).body(());
    let answer = service.oneshot(request.expect("a request")).await.expect("infallible");
    let retry_after = answer.headers().get("retry-after");
    let retry_after = retry_after.map_or("", |value| value.to_str().expect("ASCII"));
    (answer.status().as_u16(), retry_after.to_owned())
}

/// The fragment of the problem's type.
async fn problem_type<G: Gate + 'static>(layer: &RateLimitLayer<G>, user: &str) -> String {
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    let request = Request::builder().header("user", user).body(()).expect("a request");
    let answer = service.oneshot(request).await.expect("infallible");
    let body = answer.into_body().collect().await.expect("infallible").to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    let kind = problem["type"].as_str().expect("a type");
    kind.rsplit_once('#').expect("a fragment").1.to_owned()
}

#[tokio::test]
async fn three_wrong_passwords_ban_the_user_for_as_long_as_retry_after_says() {
    let clock: Clock = Box::leak(Box::default());
    let gate = login(clock);
    let penalties = Arc::clone(gate.penalties());
    let layer = RateLimitLayer::new(gate);
    // Correct passwords are no strikes.
    for answer in ["/401", "/", "/wrong", "/", "/401"] {
        assert_ne!(ask(&layer, "ada", answer).await.0, 429, "{answer}");
    }
    assert_eq!(ask(&layer, "ada", "/").await, (429, "600".to_owned()));
    assert_eq!(problem_type(&layer, "ada").await, "abnormal-usage-detected");
    assert_eq!(ask(&layer, "bob", "/").await.0, 200);
    clock.advance(Duration::from_secs(599));
    assert_eq!(ask(&layer, "ada", "/").await, (429, "1".to_owned()));
    clock.advance(Duration::from_secs(1));
    assert_eq!(ask(&layer, "ada", "/").await.0, 200);
    assert_eq!((penalties.stats().bans, penalties.stats().denied_banned), (1, 3));
    assert_eq!(layer.stats().denied, 3);
}

/// One request an hour, and a strike bans for a minute.
fn hourly(clock: Clock, failures_only: bool) -> Login {
    login_with(Quota::per_hour(1), clock, |limiter| {
        let builder = Penalties::builder(limiter, Quota::per_hour(1), Duration::from_secs(60));
        if failures_only { builder.failures_only() } else { builder }
    })
}

#[tokio::test]
async fn retry_after_of_a_ban_is_enough_if_the_limiter_lacks_a_cell_for_longer() {
    for (failures_only, first) in [(true, "/401"), (false, "/401"), (false, "/")] {
        let clock: Clock = Box::leak(Box::default());
        let layer = RateLimitLayer::new(hourly(clock, failures_only));
        assert_ne!(ask(&layer, "ada", first).await.0, 429);
        // The second denial is by the ban in each case, and finds less than an hour left.
        for (secs, passes) in [("3600", 30), ("3570", 3_570)] {
            assert_eq!(ask(&layer, "ada", "/").await, (429, secs.to_owned()), "after {first}");
            clock.advance(Duration::from_secs(passes));
        }
        assert_eq!(ask(&layer, "ada", "/").await.0, 200, "after {first}");
    }
}

#[tokio::test]
async fn a_denial_by_a_ban_charges_the_limiter_nothing() {
    let clock: Clock = Box::leak(Box::default());
    let gate = hourly(clock, true);
    let penalties = Arc::clone(gate.penalties());
    let layer = RateLimitLayer::new(gate);
    assert!(penalties.strike("ada").is_some());
    for _ in 0..3 {
        assert_eq!(ask(&layer, "ada", "/").await, (429, "60".to_owned()));
    }
    assert!(penalties.limiter().is_empty());
    assert_eq!(penalties.limiter().stats().claimed, 0);
    clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&layer, "ada", "/").await.0, 200);
}

#[tokio::test]
async fn with_failures_only_requests_over_the_limit_do_not_ban() {
    let clock: Clock = Box::leak(Box::default());
    let layer = RateLimitLayer::new(login(clock));
    for nth in 0..30 {
        let expected = if nth < 10 { (200, "") } else { (429, "6") };
        assert_eq!(ask(&layer, "ada", "/").await, (expected.0, expected.1.to_owned()));
    }
    assert_eq!(problem_type(&layer, "ada").await, "quota-exceeded");
    clock.advance(Duration::from_secs(6));
    assert_eq!(ask(&layer, "ada", "/").await.0, 200);
}

#[tokio::test]
async fn a_ban_is_the_longest_wait_of_several_limits() {
    let clock: Clock = Box::leak(Box::default());
    let all = Quota::per_minute(4);
    let limiter: Limiter<str, _, _> = Limiter::builder(all).clock(clock).build().expect("in range");
    let user = Header::new("user").expect("a name");
    let first = Limit::new(Policy::new("all", &all).expect("a name"), Arc::new(limiter), user);
    let layer = RateLimitLayer::new(Several::new().and(first).and(login(clock)));
    for _ in 0..3 {
        assert_eq!(ask(&layer, "ada", "/401").await.0, 401);
    }
    assert_eq!(ask(&layer, "ada", "/").await, (429, "600".to_owned()), "banned");
    // Now the first limit denies, and `Retry-After` is still that of the ban.
    assert_eq!(ask(&layer, "ada", "/").await, (429, "600".to_owned()), "over both");
}

#[tokio::test]
async fn a_ban_shows_the_same_limit_as_an_admission() {
    let clock: Clock = Box::leak(Box::default());
    let gate = login_with(Quota::per_second(10).burst(20), clock, |limiter| {
        Penalties::builder(limiter, Quota::per_minute(1), Duration::from_secs(60))
    });
    let penalties = Arc::clone(gate.penalties());
    let layer = RateLimitLayer::builder(gate).x_rate_limit().build();
    let shown = async || {
        let service = layer.layer(service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }));
        let request = Request::builder().header("user", "ada").body(()).expect("a request");
        let headers = service.oneshot(request).await.expect("infallible").into_parts().0.headers;
        ["limit", "remaining"]
            .map(|name| headers[&format!("x-ratelimit-{name}")].to_str().expect("ASCII").to_owned())
    };
    assert_eq!(shown().await, ["20", "19"]);
    assert!(penalties.strike("ada").is_some());
    assert_eq!(shown().await, ["20", "0"]);
}
