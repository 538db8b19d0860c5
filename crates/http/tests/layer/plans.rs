//! Limits whose quota depends on the request.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use tollgate::{FixedWindow, Limiter, Quota};
use tollgate_http::key::Header;
use tollgate_http::{Gate, Limit, Policy, RateLimitLayer, Several};
use tower::{Layer, ServiceExt, service_fn};

type Tenants = Limit<Header, str, FixedWindow>;

/// Ten a day for each tenant, 4 where `x-plan` is `small`.
fn limit() -> Tenants {
    let quota = Quota::per_day(10);
    let limiter = Limiter::builder(quota).algorithm(FixedWindow::anchored()).capacity(16).build();
    let policy = Policy::of_bytes("tenant", &quota).expect("a name");
    let key = Header::new("x-tenant").expect("a name");
    let limit = Limit::new(policy, Arc::new(limiter.expect("in range")), key);
    let small = limit.plan(Quota::per_day(4)).expect("of the same length");
    limit.plans(move |request| {
        let plan = request.headers.get("x-plan")?;
        (plan == "small").then(|| small.clone())
    })
}

/// The status of a request, and the fields about limits.
async fn ask<G: Gate + 'static>(
    layer: &RateLimitLayer<G>,
    (tenant, plan): (&str, &str),
) -> (StatusCode, String, String) {
    let service = service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(
            Response::builder().header("x-used", "1").body(String::new()).expect("valid"),
        )
    });
    let request = Request::builder().header("x-tenant", tenant).header("x-plan", plan);
    let request = request.body(()).expect("a request");
    let response = layer.layer(service).oneshot(request).await.expect("infallible");
    let field = |name: &str| response.headers()[name].to_str().expect("ASCII").to_owned();
    (response.status(), field("ratelimit-policy"), field("ratelimit"))
}

fn left((status, policy, field): (StatusCode, String, String)) -> (bool, String, u64) {
    let left = field.split(";r=").nth(1).and_then(|left| left.split(';').next());
    (status == StatusCode::OK, policy, left.expect("cells left").parse().expect("a number"))
}

const SMALL: &str = r#""tenant";q=4;qu="content-bytes";w=86400"#;
const OWN: &str = r#""tenant";q=10;qu="content-bytes";w=86400"#;

#[tokio::test]
async fn a_request_is_decided_and_shown_by_its_plan() {
    let layer = RateLimitLayer::new(limit());
    for expected in [(true, 3), (true, 2), (true, 1), (true, 0), (false, 0)] {
        let (admitted, policy, left) = left(ask(&layer, ("a", "small")).await);
        assert_eq!((admitted, left, &*policy), (expected.0, expected.1, SMALL));
    }
    // Another tenant's plan is unknown: the limit's own quota.
    assert_eq!(left(ask(&layer, ("b", "none")).await), (true, OWN.to_owned(), 9));
    // A larger plan keeps the count.
    assert_eq!(left(ask(&layer, ("a", "none")).await), (true, OWN.to_owned(), 5));
}

#[tokio::test]
async fn an_estimate_is_reserved_and_settled_by_the_plan() {
    let used = |response: &http::response::Parts| {
        response.headers["x-used"].to_str().expect("ASCII").parse().expect("a number")
    };
    let layer = RateLimitLayer::new(limit().cost(|_| 3).settle(used));
    // Each reserves 3 of 4 and uses 1. The field is written before the response settles it.
    assert_eq!(left(ask(&layer, ("a", "small")).await), (true, SMALL.to_owned(), 1));
    assert_eq!(left(ask(&layer, ("a", "small")).await), (true, SMALL.to_owned(), 0));
    assert_eq!(left(ask(&layer, ("a", "small")).await), (false, SMALL.to_owned(), 2));
    assert_eq!(left(ask(&layer, ("a", "none")).await), (true, OWN.to_owned(), 5));
}

/// If another limit denies, the charge of the plan is refunded, and a limit that would deny too is named.
#[tokio::test]
async fn several_limits_refund_and_peek_by_the_plan() {
    let tenants = limit().refundable();
    let limiter = Arc::clone(tenants.limiter());
    let quota = Quota::per_day(2);
    let built = Limiter::builder(quota).algorithm(FixedWindow::anchored()).capacity(16).build();
    let policy = Policy::new("all", &quota).expect("a name");
    let key = Header::new("x-tenant").expect("a name");
    let all: Tenants = Limit::new(policy, Arc::new(built.expect("in range")), key);
    let layer = RateLimitLayer::new(Several::new().and(tenants).and(all));
    for _ in 0..2 {
        assert_eq!(ask(&layer, ("a", "small")).await.0, StatusCode::OK);
    }
    assert_eq!(ask(&layer, ("a", "small")).await.0, StatusCode::TOO_MANY_REQUESTS);
    let left = |plan| limiter.ask("a").plan(plan).cells(0).peek().map(|permit| permit.remaining());
    assert_eq!(left(&limiter.plan(Quota::per_day(4)).expect("of the same length")), Ok(2));
}
