//! The times in the rate limit fields: the reset of a denial, and the window of an admission.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use tollgate::concurrency::ConcurrencyLimiter;
use tollgate::penalty::Penalties;
use tollgate::{AnyAlgorithm, Limiter, ManualClock, OnFull, Quota, WarmUp};
use tollgate_http::{
    Dialect, Gate, InFlightLimit, LayerBuilder, Limit, Penalized, Policy, RateLimitLayer, Several,
    denial, key,
};
use tower::{Layer, ServiceExt, service_fn};

use super::dialects::{text, unix_secs};

type Clock = &'static ManualClock;
type Limits = Limiter<u64, AnyAlgorithm, Clock>;

fn algorithms() -> Vec<AnyAlgorithm> {
    let named = AnyAlgorithm::NAMES.iter().map(|name| name.parse().expect("a name"));
    let warm_up = AnyAlgorithm::from(WarmUp::new(Duration::from_secs(20)));
    named.chain([warm_up]).collect()
}

fn limiter(quota: Quota, algorithm: AnyAlgorithm, on_full: OnFull) -> (Arc<Limits>, Clock) {
    let clock: Clock = Box::leak(Box::default());
    clock.advance(Duration::from_millis(12_345_678));
    let builder = Limiter::builder(quota).algorithm(algorithm).clock(clock).on_full(on_full);
    (Arc::new(builder.capacity(16).build().expect("in range")), clock)
}

/// The key is the path.
fn path() -> impl key::Extractor<Key = u64> {
    key::from_fn(|request| request.uri.path()[1..].parse().ok())
}

fn policy(quota: &Quota) -> Policy {
    Policy::new("a", quota).expect("a name")
}

/// Layers that together write all forms of the fields.
fn each_form<G: Gate>(gate: impl Fn() -> G) -> [LayerBuilder<G>; 3] {
    let [first, second, third] = [(); 3].map(|()| RateLimitLayer::builder(gate()));
    [
        first.x_rate_limit(),
        second.dialect(Dialect::Draft7).dialect(Dialect::Envoy),
        third.dialect(Dialect::GitHub),
    ]
}

async fn ask<G: Gate + 'static>(layer: &RateLimitLayer<G>, key: u64) -> (u16, HeaderMap) {
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    let request = Request::builder().uri(format!("/{key}")).body(()).expect("a request");
    let head = service.oneshot(request).await.expect("infallible").into_parts().0;
    (head.status.as_u16(), head.headers)
}

/// The number after a name.
fn number(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(name)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Asks, and checks that no field of a denial tells of an earlier time than `Retry-After`. Returns whether the
/// request was denied.
async fn denies<G: Gate + 'static>(layer: &RateLimitLayer<G>, key: u64) -> bool {
    let before = unix_secs();
    let (status, headers) = ask(layer, key).await;
    let Some(retry_after) = number(text(&headers, "retry-after"), "") else {
        return status == 429;
    };
    // The fields of the newest draft tell of no reset: `t` is not later.
    let newest = number(text(&headers, "ratelimit"), ";t=");
    assert!(newest.is_none_or(|secs| secs <= retry_after), "{headers:?}");
    let draft_7 = number(text(&headers, "ratelimit"), "reset=");
    assert!(draft_7.is_none_or(|secs| secs == retry_after), "{headers:?}");
    let reset = number(text(&headers, "x-ratelimit-reset"), "").expect("a number");
    let is_unix_time = reset > 1_000_000_000;
    let after = if is_unix_time { reset - before } else { reset };
    assert!(after >= retry_after, "{headers:?}");
    true
}

#[tokio::test]
async fn a_denials_reset_is_never_before_its_retry_after() {
    let overflow = OnFull::SharedOverflow(Quota::per_minute(3));
    for on_full in [OnFull::EvictNearestIdle, OnFull::Deny, OnFull::Admit, overflow] {
        for algorithm in algorithms() {
            for quota in [Quota::per_minute(2), Quota::new(3, Duration::from_millis(30_500))] {
                let clocks = std::cell::RefCell::new(Vec::new());
                let layers = each_form(|| {
                    let (limiter, clock) = limiter(quota, algorithm, on_full);
                    clocks.borrow_mut().push((Arc::clone(&limiter), clock));
                    Limit::new(policy(&quota), limiter, path())
                });
                for (layer, (limiter, clock)) in layers.into_iter().zip(clocks.take()) {
                    let (layer, mut denied) = (layer.build(), 0);
                    for step in 0..300 {
                        // Ten keys that come again, and others that fill the table.
                        let key = if step % 3 > 0 { step % 10 } else { step };
                        denied += u32::from(denies(&layer, key).await);
                        clock.advance(Duration::from_micros(30_777));
                    }
                    let case = format!("{algorithm:?} {on_full:?} {quota:?}");
                    assert!(denied > 0, "{case}");
                    let stats = limiter.stats();
                    let found_no_slot = stats.denied_full + stats.admitted_full + stats.overflowed;
                    assert_eq!(found_no_slot > 0, on_full != OnFull::EvictNearestIdle, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_reset_of_other_denials_is_never_before_their_retry_after() {
    // A ban, which ends before the limiter has cells, or after.
    for (quota, secs) in [(Quota::per_hour(1), 60), (Quota::per_minute(1), 600)] {
        let layers = each_form(|| {
            let (limiter, _) = limiter(quota, algorithms()[0], OnFull::Deny);
            let limiter = Arc::into_inner(limiter).expect("one");
            let penalties =
                Penalties::builder(limiter, Quota::per_minute(1), Duration::from_secs(secs));
            let penalties = Arc::new(penalties.build().expect("in range"));
            Penalized::new(policy(&quota), penalties, path(), |_| true)
        });
        for layer in layers {
            let layer = layer.build();
            assert_eq!([denies(&layer, 1).await, denies(&layer, 1).await], [false, true]);
        }
    }
    // A limit of requests in flight, alone and with another.
    let in_flight: Arc<ConcurrencyLimiter<u64>> =
        Arc::new(ConcurrencyLimiter::builder(1).build().expect("in range"));
    let _held = in_flight.ask(&1).enter_owned(&in_flight).expect("admitted");
    let at_once = || {
        let policy = Policy::of_requests_in_flight("at once", 1).expect("a name");
        InFlightLimit::new(policy, Arc::clone(&in_flight), path())
    };
    let fast = Quota::per_second(5).burst(1);
    let both = || {
        let (limiter, _) = limiter(fast, algorithms()[0], OnFull::Deny);
        assert!(limiter.check(&1).is_ok());
        Several::new().and(at_once()).and(Limit::new(policy(&fast), limiter, path()))
    };
    for layer in each_form(at_once) {
        assert!(denies(&layer.build(), 1).await);
    }
    for layer in each_form(both) {
        assert!(denies(&layer.build(), 1).await);
    }
}

/// A wait that jitter or the response's writer lengthens.
#[tokio::test]
async fn a_reset_is_never_before_a_lengthened_retry_after() {
    let quota = Quota::new(1, Duration::from_secs(100));
    let gate = || {
        let (limiter, _) = limiter(quota, algorithms()[0], OnFull::Deny);
        assert!(limiter.check(&1).is_ok());
        Limit::new(policy(&quota), limiter, path())
    };
    for layer in each_form(gate) {
        let layer = layer.retry_after_jitter_percent(100).build();
        for _ in 0..20 {
            assert!(denies(&layer, 1).await);
        }
    }
    for layer in each_form(gate) {
        let layer = layer.deny_with(|denied| {
            let mut response = denial::problem(denied);
            response.headers_mut().insert("retry-after", 1_000.into());
            response
        });
        assert!(denies(&layer.build(), 1).await);
    }
}

/// A client that sends at most `r` requests within `t` is never denied by the limit.
#[tokio::test]
async fn a_client_that_follows_the_window_of_admissions_is_never_denied() {
    for algorithm in algorithms() {
        for quota in [Quota::per_minute(7), Quota::per_second(3).burst(5)] {
            let (limiter, clock) = limiter(quota, algorithm, OnFull::Deny);
            let builder = RateLimitLayer::builder(Limit::new(policy(&quota), limiter, path()));
            // Requests may have turns. Here they take no time.
            let layer = builder.wait(|_| std::future::ready(())).build();
            for step in 0..200_u64 {
                let (status, headers) = ask(&layer, 1).await;
                let field = text(&headers, "ratelimit");
                assert_eq!(status, 200, "{algorithm:?} {quota:?}, request {step}: {headers:?}");
                if number(field, ";r=").expect("a number") == 0 {
                    clock.advance(Duration::from_secs(number(field, ";t=").expect("a number")));
                } else {
                    clock.advance(Duration::from_millis(step % 4 * 100));
                }
            }
        }
    }
}
