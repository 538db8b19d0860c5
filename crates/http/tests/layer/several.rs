//! Several limits, one of which denies: the response has the longest wait of all.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use tollgate::algorithm::Algorithm;
use tollgate::penalty::Penalties;
use tollgate::{Clock as _, FixedWindow, Gcra, Limiter, ManualClock, Quota, SlidingLog};
use tollgate_http::key::{FromFn, Header, from_fn};
use tollgate_http::{
    Gate, InFlightLimit, Limit, OnNoKey, Penalized, Policy, RateLimitLayer, Several, ShadowGate,
};
use tower::{Layer, ServiceExt, service_fn};

type Clock = &'static ManualClock;
type OneForAll = FromFn<fn(&http::request::Parts) -> Option<()>>;

fn clock() -> Clock {
    Box::leak(Box::default())
}

fn limit<A: Algorithm>(
    name: &str,
    quota: Quota,
    algorithm: A,
    clock: Clock,
) -> Limit<OneForAll, (), A, Clock> {
    let builder = Limiter::builder(quota).algorithm(algorithm).clock(clock).capacity(16);
    let limiter = Arc::new(builder.build().expect("in range"));
    let policy = Policy::new(name, &quota).expect("a name");
    Limit::new(policy, limiter, from_fn(|_| Some(())))
}

/// The status, `Retry-After` and `RateLimit`.
async fn ask<G: Gate + 'static>(layer: &RateLimitLayer<G>) -> (u16, String, String) {
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    }));
    let answer = service.oneshot(Request::new(())).await.expect("infallible");
    let field = |name| {
        let value = answer.headers().get(name).map(|value| value.to_str().expect("ASCII"));
        value.unwrap_or_default().to_owned()
    };
    (answer.status().as_u16(), field("retry-after"), field("ratelimit"))
}

/// The largest `t` of a `RateLimit` field.
fn longest_time(field: &str) -> &str {
    let times = field.split(", ").filter_map(|limit| limit.split_once(";t=")).map(|(_, t)| t);
    times.max_by_key(|t| t.parse::<u64>().expect("seconds")).expect("a limit with a time")
}

/// Sends requests until one is denied, waits as long as `Retry-After` says, and sends again.
async fn each_retry_after_the_wait_is_admitted(several: Several, clock: Clock) {
    let layer = RateLimitLayer::new(several);
    for retry in 0..18 {
        let (secs, field) = loop {
            match ask(&layer).await {
                (200, ..) => clock.advance(Duration::from_millis(70)),
                (_, secs, field) => break (secs, field),
            }
        };
        assert_eq!(longest_time(&field), secs, "{field}");
        clock.advance(Duration::from_secs(secs.parse().expect("seconds")));
        assert_eq!(ask(&layer).await.0, 200, "retry {retry} after {secs} s: {field}");
    }
}

#[tokio::test]
async fn a_retry_after_exactly_the_time_that_several_limits_told_is_admitted() {
    let second = |clock| limit("second", Quota::per_second(2), Gcra::new(), clock);
    let minute = |clock| limit("minute", Quota::per_minute(10), FixedWindow::anchored(), clock);
    let hour = |clock| limit("hour", Quota::per_hour(30), SlidingLog::new(), clock);
    let time = clock();
    let several = Several::new().and(second(time)).and(minute(time)).and(hour(time));
    each_retry_after_the_wait_is_admitted(several, time).await;
    let time = clock();
    let several = Several::new().and(hour(time)).and(minute(time)).and(second(time));
    each_retry_after_the_wait_is_admitted(several, time).await;
    let time = clock();
    let nested = Several::new().and(second(time).refundable()).and(minute(time).refundable());
    each_retry_after_the_wait_is_admitted(Several::new().and(nested).and(hour(time)), time).await;
}

#[tokio::test]
async fn a_denial_names_all_limits_that_would_deny_and_charges_none() {
    let time = clock();
    let (first, second) = (Quota::per_second(1), Quota::per_minute(1));
    let spare = limit("spare", Quota::per_hour(5), FixedWindow::anchored(), time);
    let spare_limiter = Arc::clone(spare.limiter());
    let layer = RateLimitLayer::new(
        Several::new()
            .and(limit("first", first, Gcra::new(), time))
            .and(limit("second", second, Gcra::new(), time))
            .and(ShadowGate::new(limit("shadow", second, Gcra::new(), time)))
            .and(spare),
    );
    assert_eq!(ask(&layer).await.0, 200);
    for _ in 0..10 {
        let (status, retry_after, field) = ask(&layer).await;
        assert_eq!((status, retry_after.as_str()), (429, "60"));
        assert_eq!(field, "\"first\";r=0;t=1, \"second\";r=0;t=60");
    }
    assert_eq!(spare_limiter.check_n(&(), 0).expect("nothing asked for").remaining(), 4);
}

/// The limits differ by what their keys have used, not by their policies.
#[tokio::test]
async fn of_two_limits_with_equal_policies_a_denial_tells_the_longer_wait() {
    let time = clock();
    let quota = Quota::per_minute(2).burst(10);
    for used in [[4, 6], [6, 4]] {
        let mut several = Several::new();
        for cells in used {
            let limit = limit("per-key", quota, Gcra::new(), time).cost(|_| 10);
            assert!(limit.limiter().check_n(&(), cells).is_ok());
            several = several.and(limit);
        }
        let layer = RateLimitLayer::new(several);
        let (status, retry_after, field) = ask(&layer).await;
        assert_eq!((status, retry_after.as_str()), (429, "180"), "after {used:?}");
        assert_eq!(field, "\"per-key\";r=4;t=180");
        time.advance(Duration::from_secs(180));
        assert_eq!(ask(&layer).await.0, 200, "after {used:?}");
    }
}

#[tokio::test]
async fn a_request_that_one_limit_never_admits_has_no_retry_after() {
    let time = clock();
    let few = limit("few", Quota::per_minute(2), Gcra::new(), time).cost(|_| 3);
    let hour = limit("a", Quota::per_hour(1), Gcra::new(), time);
    let hour_limiter = Arc::clone(hour.limiter());
    let layer = RateLimitLayer::new(Several::new().and(hour).and(few));
    assert_eq!(ask(&layer).await.0, 429, "never admitted by the second");
    assert!(hour_limiter.check(&()).is_ok(), "so not charged in the first");
    let (status, retry_after, field) = ask(&layer).await;
    assert_eq!((status, retry_after.as_str()), (429, ""));
    assert_eq!(field, "\"a\";r=0;t=3600, \"few\";r=2");
}

/// A charge that is refunded would cost the limit what time restores in between.
#[tokio::test]
async fn a_client_that_a_later_limit_always_denies_costs_an_earlier_limit_no_refill() {
    let time = clock();
    let quota = Quota::per_second(10);
    let builder = Limiter::builder(quota).algorithm(Gcra::new()).clock(time).capacity(16);
    let limiter = Arc::new(builder.build().expect("in range"));
    let policy = Policy::new("second", &quota).expect("a name");
    let key: OneForAll = from_fn(|_| Some(()));
    let second = Limit::new(policy, Arc::clone(&limiter), key).refundable();
    let hour = limit("hour", Quota::per_hour(10), FixedWindow::anchored(), time);
    let layer = RateLimitLayer::new(Several::new().and(second).and(hour));
    for _ in 0..10 {
        assert_eq!(ask(&layer).await.0, 200);
    }
    for _ in 0..200 {
        time.advance(Duration::from_millis(5));
        assert_eq!(ask(&layer).await.0, 429);
    }
    assert_eq!(limiter.ask(&()).cells(0).at(time.now()).peek().expect("no cells").remaining(), 10);
}

/// Gates that find no key in the request, and treat that as `choice` says.
fn without_a_key(choice: OnNoKey, clock: Clock) -> [Box<dyn Gate>; 3] {
    let (quota, key) = (Quota::per_minute(5), || Header::new("missing").expect("a name"));
    let limiter: Limiter<str, _, _> = Limiter::builder(quota).clock(clock).build().expect("fits");
    let penalties = Penalties::builder(limiter, Quota::per_minute(3), Duration::from_secs(60));
    let penalties = Arc::new(penalties.build().expect("in range"));
    let policy = Policy::new("penalized", &quota).expect("a name");
    [
        Box::new(Limit::gcra("limit", quota, key()).expect("in range").on_no_key(choice)),
        Box::new(InFlightLimit::per_key("held", 5, key()).expect("in range").on_no_key(choice)),
        Box::new(Penalized::new(policy, penalties, key(), |_| false).on_no_key(choice)),
    ]
}

#[tokio::test]
async fn a_denial_for_lack_of_a_key_comes_first_and_charges_no_other_limit() {
    for nth in 0..3 {
        let time = clock();
        let all = Arc::new(limit("all", Quota::per_minute(1), Gcra::new(), time));
        let limiter = Arc::clone(all.limiter());
        let [deny, admit] = [OnNoKey::Deny, OnNoKey::Admit].map(|choice| {
            let gate = without_a_key(choice, time).into_iter().nth(nth).expect("a gate");
            RateLimitLayer::new(Several::new().and(Arc::clone(&all)).and(gate))
        });
        for _ in 0..3 {
            assert_eq!(ask(&deny).await, (400, String::new(), String::new()), "gate {nth}");
        }
        assert_eq!(limiter.check_n(&(), 0).expect("no cells").remaining(), 1, "gate {nth}");
        assert_eq!(ask(&admit).await.0, 200, "gate {nth}");
        assert_eq!(ask(&admit).await.0, 429, "gate {nth}: over the other limit");
        // A wait would not help.
        assert_eq!(ask(&deny).await.0, 400, "gate {nth}: over the other limit");
    }
}
