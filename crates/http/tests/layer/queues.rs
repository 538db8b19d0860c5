//! Requests that wait for their turn: which others they delay, and what they are charged.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Empty;
use tokio::time::{Instant, sleep, timeout};
use tollgate::{LeakyQueue, Limiter, ManualClock, Quota};
use tollgate_http::key::Header;
use tollgate_http::{
    Gate, GatePermit, LayerBuilder, Limit, Policy, RateLimitLayer, Reading, Report, Several,
    ShadowGate, Stats, Verdict,
};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt, service_fn};

type Content = Empty<bytes::Bytes>;

/// A limiter with a manual clock.
type Paced = Limiter<str, LeakyQueue, &'static ManualClock>;

fn paced(quota: Quota) -> (Arc<Paced>, &'static ManualClock) {
    let clock: &'static ManualClock = Box::leak(Box::default());
    let builder = Limiter::builder(quota).algorithm(LeakyQueue::new()).clock(clock);
    (Arc::new(builder.build().expect("in range")), clock)
}

fn limit(quota: Quota, limiter: &Arc<Paced>) -> impl Gate + use<> {
    let key = Header::new("key").expect("a name");
    Limit::new(Policy::new("paced", &quota).expect("a name"), Arc::clone(limiter), key)
}

fn waiting<G: Gate>(gate: G) -> LayerBuilder<G> {
    RateLimitLayer::builder(gate).wait(sleep)
}

fn of(key: &str) -> Request<()> {
    Request::builder().header("key", key).body(()).expect("a request")
}

async fn answer(_: Request<()>) -> Result<Response<Content>, Infallible> {
    Ok(Response::new(Content::new()))
}

/// The status, and the time until the response.
async fn ask<G: Gate + 'static>(layer: &RateLimitLayer<G>, key: &str) -> (u16, Duration) {
    let began = Instant::now();
    let service = layer.layer(service_fn(answer));
    let status = service.oneshot(of(key)).await.expect("infallible").status();
    (status.as_u16(), began.elapsed())
}

/// Polls a call once, so that it waits for its turn.
async fn begin<F: Future + Unpin>(call: &mut F) {
    assert!(timeout(Duration::ZERO, call).await.is_err(), "it has to wait");
}

#[tokio::test(start_paused = true)]
async fn a_key_with_nothing_to_wait_for_is_served_while_another_has_20_requests_queued() {
    let quota = Quota::per_second(2).burst(21);
    let (limiter, _) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).build();
    let service = layer.layer(ConcurrencyLimitLayer::new(10).layer(service_fn(answer)));
    let call = |key: &'static str| service.clone().oneshot(of(key));
    let mut queued: Vec<_> = (0..20).map(|_| tokio::spawn(call("busy"))).collect();
    tokio::task::yield_now().await;
    let began = Instant::now();
    assert_eq!(call("other").await.expect("infallible").status(), 200);
    assert_eq!(began.elapsed(), Duration::ZERO);
    for (nth, call) in (0..).zip(queued.drain(..)) {
        assert_eq!(call.await.expect("no panic").expect("infallible").status(), 200);
        // The others of the same key wait only until their own turn.
        let turn = Duration::from_millis(500) * nth;
        assert!(
            began.elapsed() <= turn + Duration::from_millis(20),
            "{nth}: {:?}",
            began.elapsed()
        );
    }
}

/// A service that is ready after 7 ms, for one call of the same clone.
#[derive(Debug, Default)]
struct OneCall {
    opens: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
    is_ready: bool,
}

impl Clone for OneCall {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<()>> for OneCall {
    type Response = Response<Content>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Content>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if !self.is_ready {
            let opens = self.opens.get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(7))));
            std::task::ready!(opens.as_mut().poll(context));
            (self.opens, self.is_ready) = (None, true);
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called before it was ready");
        ready(Ok(Response::new(Content::new())))
    }
}

#[tokio::test(start_paused = true)]
async fn the_inner_service_is_asked_for_readiness_again_after_the_wait() {
    let quota = Quota::per_second(10).burst(3);
    let (limiter, _) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).build();
    let mut service = layer.layer(OneCall::default());
    for (nth, millis) in [(0, 7), (1, 7 + 100 + 7)] {
        let began = Instant::now();
        let call = service.ready().await.expect("infallible").call(of("a"));
        assert_eq!(call.await.expect("infallible").status(), 200);
        assert_eq!(began.elapsed().as_millis(), millis, "{nth}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_or_is_denied_holds_no_place_of_the_inner_service() {
    let quota = Quota::per_second(10).burst(2);
    let (limiter, _) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).build();
    let inner = ConcurrencyLimitLayer::new(1).layer(service_fn(answer));
    let mut service = layer.layer(inner.clone());
    let served = service.ready().await.expect("infallible").call(of("a"));
    assert_eq!(served.await.expect("infallible").status(), 200);
    let mut waits = Box::pin(service.ready().await.expect("infallible").call(of("a")));
    begin(&mut waits).await;
    timeout(Duration::ZERO, inner.clone().ready()).await.expect("free while one waits").ok();
    let denied = service.ready().await.expect("infallible").call(of("a"));
    assert_eq!(denied.await.expect("infallible").status(), 429);
    timeout(Duration::ZERO, inner.clone().ready()).await.expect("free after a denial").ok();
    assert_eq!(waits.await.expect("infallible").status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_full_inner_service_delays_a_request_before_it_is_charged() {
    let quota = Quota::per_second(10).burst(3);
    let (limiter, _) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).build();
    let slow = service_fn(async |request| {
        sleep(Duration::from_millis(50)).await;
        answer(request).await
    });
    let service = layer.layer(ConcurrencyLimitLayer::new(1).layer(slow));
    let mut first = Box::pin(service.clone().oneshot(of("a")));
    begin(&mut first).await;
    let mut second = Box::pin(service.clone().oneshot(of("b")));
    begin(&mut second).await;
    assert_eq!(layer.stats().admitted, 1, "the second is not decided yet");
    drop(first);
    let began = Instant::now();
    assert_eq!(second.await.expect("infallible").status(), 200);
    assert_eq!(began.elapsed().as_millis(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_request_turned_away_since_the_queue_is_full_is_charged_nothing() {
    let quota = Quota::per_second(10).burst(5);
    let (limiter, clock) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).max_waiting(2).build();
    let mut service = layer.layer(service_fn(answer));
    assert_eq!(ask(&layer, "attacker").await.0, 200);
    let mut queued: Vec<_> = (0..2).map(|_| Box::pin(service.call(of("attacker")))).collect();
    for call in &mut queued {
        begin(call).await;
    }
    // The victim has no request waiting, and may send one each 100 ms.
    for _ in 0..3 {
        assert_eq!(ask(&layer, "victim").await, (200, Duration::ZERO));
        for _ in 0..20 {
            assert_eq!(ask(&layer, "victim").await, (503, Duration::ZERO));
        }
        clock.advance(Duration::from_millis(100));
    }
    let Stats { admitted, denied, queue_full, waited, .. } = layer.stats();
    assert_eq!((admitted, denied, queue_full, waited), (6, 0, 60, 2));
}

#[tokio::test(start_paused = true)]
async fn without_a_sleep_a_request_that_would_wait_is_denied_and_charged_nothing() {
    let quota = Quota::per_second(10).burst(5);
    let (limiter, clock) = paced(quota);
    let layer = RateLimitLayer::new(limit(quota, &limiter));
    for _ in 0..3 {
        assert_eq!(ask(&layer, "a").await.0, 200);
        for _ in 0..20 {
            assert_eq!(ask(&layer, "a").await.0, 429);
        }
        clock.advance(Duration::from_millis(100));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_it_waits_frees_its_place_but_stays_charged() {
    let quota = Quota::per_second(10).burst(5);
    let (limiter, _) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).max_waiting(1).build();
    let mut service = layer.layer(service_fn(answer));
    assert_eq!(ask(&layer, "a").await.0, 200);
    for behind in 1..4_u32 {
        let mut leaves = Box::pin(service.call(of("a")));
        begin(&mut leaves).await;
        assert_eq!(ask(&layer, "a").await.0, 503, "the only place is taken");
        drop(leaves);
        let left = limiter.check_n("a", 0).expect("nothing asked for").remaining();
        assert_eq!(left, u64::from(4 - behind), "the charge stays, and nothing more is charged");
    }
    assert_eq!(ask(&layer, "a").await, (200, Duration::from_millis(400)));
}

#[tokio::test(start_paused = true)]
async fn one_key_cannot_take_the_places_of_all_others() {
    let quota = Quota::per_second(10).burst(50);
    let (limiter, clock) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).max_waiting(4).max_waiting_per_key(3).build();
    let mut service = layer.layer(service_fn(answer));
    assert_eq!(ask(&layer, "a").await.0, 200);
    let mut queued: Vec<_> = (0..3).map(|_| Box::pin(service.call(of("a")))).collect();
    for call in &mut queued {
        begin(call).await;
    }
    // Further ones are denied, and charged nothing.
    for _ in 0..10 {
        assert_eq!(ask(&layer, "a").await.0, 429);
    }
    assert_eq!(limiter.check_n("a", 0).expect("nothing asked for").remaining(), 46);
    // There is one place for another key, and then none.
    assert_eq!(ask(&layer, "b").await.0, 200);
    let mut last = Box::pin(service.call(of("b")));
    begin(&mut last).await;
    assert_eq!(ask(&layer, "c").await.0, 200);
    assert_eq!(ask(&layer, "c").await.0, 503);
    let Stats { denied, queue_full, waited, .. } = layer.stats();
    assert_eq!((denied, queue_full, waited), (10, 1, 4));
    // After a turn, the key may queue another request.
    clock.advance(Duration::from_millis(100));
    drop(queued);
    begin(&mut Box::pin(service.call(of("a")))).await;
}

#[tokio::test(start_paused = true)]
async fn if_no_request_of_a_key_may_wait_one_that_would_is_over_the_limit() {
    let quota = Quota::per_second(10).burst(5);
    let (limiter, _) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).max_waiting_per_key(0).build();
    assert_eq!(ask(&layer, "a").await.0, 200);
    assert_eq!(ask(&layer, "a").await, (429, Duration::ZERO));
    let Stats { denied, queue_full, .. } = layer.stats();
    assert_eq!((denied, queue_full), (1, 0));
    assert_eq!(limiter.check_n("a", 0).expect("nothing asked for").remaining(), 4);
}

/// Delays each request, without regard to how many may wait.
struct Late;

impl Gate for Late {
    fn decide(&self, _: &http::request::Parts, _: &mut Report) -> Verdict {
        Verdict::Admit(GatePermit { delay: Duration::from_secs(1), charge: None })
    }
}

#[tokio::test(start_paused = true)]
async fn if_no_request_of_a_key_may_wait_a_gate_that_delays_cannot_make_it_wait() {
    assert_eq!(ask(&waiting(Late).build(), "a").await, (200, Duration::from_secs(1)));
    let layer = waiting(Late).max_waiting_per_key(0).build();
    assert_eq!(ask(&layer, "a").await, (429, Duration::ZERO));
    assert_eq!((layer.stats().denied, layer.stats().waited), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_may_queue_128_requests_by_default() {
    let quota = Quota::per_second(10).burst(1_000);
    let (limiter, _) = paced(quota);
    let layer = waiting(limit(quota, &limiter)).build();
    let mut service = layer.layer(service_fn(answer));
    let calls: Vec<_> = (0..140).map(|_| Box::pin(service.call(of("a")))).collect();
    assert_eq!((layer.stats().waited, layer.stats().denied), (128, 11));
    drop(calls);
}

/// The fields of the response.
async fn fields<G: Gate + 'static>(layer: &RateLimitLayer<G>, key: &str) -> (u16, String) {
    let head = layer.layer(service_fn(answer)).oneshot(of(key)).await.expect("infallible");
    let shown = head.headers()["ratelimit"].to_str().expect("ASCII").to_owned();
    (head.status().as_u16(), shown)
}

#[tokio::test(start_paused = true)]
async fn a_denial_of_a_turn_that_comes_too_late_shows_no_cells_left() {
    let quota = Quota::per_second(10).burst(50);
    let (limiter, _) = paced(quota);
    let second = Quota::per_second(5).burst(50);
    let (other, _) = paced(second);
    let at_once = RateLimitLayer::new(limit(quota, &limiter));
    let both = Several::new().and(limit(quota, &limiter)).and(limit(second, &other));
    let both = RateLimitLayer::new(both);
    assert_eq!(fields(&both, "a").await.0, 200);
    assert_eq!(fields(&at_once, "a").await, (429, r#""paced";r=0;t=1"#.to_owned()));
    let expected = r#""paced";r=0;t=1, "paced";r=0;t=1"#.to_owned();
    assert_eq!(fields(&both, "a").await, (429, expected), "the peek at the second, too");

    let waits = waiting(limit(quota, &limiter)).max_waiting_per_key(1).build();
    let mut queued = Box::pin(waits.layer(service_fn(answer)).oneshot(of("a")));
    begin(&mut queued).await;
    assert_eq!(fields(&waits, "a").await, (429, r#""paced";r=0;t=1"#.to_owned()));
    let full = waiting(limit(quota, &limiter)).max_waiting(0).build();
    assert_eq!(fields(&full, "a").await, (503, r#""paced";r=0;t=1"#.to_owned()));
}

/// Delays by a limiter, without regard to how many may wait.
struct Unaware(Arc<Paced>, Policy);

impl Gate for Unaware {
    fn decide(&self, _: &http::request::Parts, report: &mut Report) -> Verdict {
        let permit = self.0.check("a").expect("it fits");
        report.note(Reading::of(self.1.clone(), &Ok(permit)));
        Verdict::Admit(GatePermit { delay: permit.delay(), charge: None })
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_becomes_a_denial_shows_no_cells_left() {
    let quota = Quota::per_second(10).burst(50);
    let (limiter, _) = paced(quota);
    let gate = Unaware(limiter, Policy::new("paced", &quota).expect("a name"));
    let layer = RateLimitLayer::new(gate);
    assert_eq!(fields(&layer, "a").await.0, 200);
    assert_eq!(fields(&layer, "a").await, (429, r#""paced";r=0;t=1"#.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_queue_in_shadow_counts_the_denials_that_it_would_make_in_force() {
    let quota = Quota::per_second(10).burst(50);
    let denials = async |shadow: bool, max_waiting: Option<u64>| {
        let (limiter, _) = paced(quota);
        let gate = limit(quota, &limiter);
        let gate: Box<dyn Gate> =
            if shadow { Box::new(ShadowGate::new(gate)) } else { Box::new(gate) };
        let builder = RateLimitLayer::builder(gate);
        let layer = match max_waiting {
            Some(max) => builder.wait(sleep).max_waiting_per_key(max).build(),
            None => builder.build(),
        };
        let service = layer.layer(service_fn(answer));
        let mut calls: Vec<_> =
            (0..60).map(|_| Box::pin(service.clone().oneshot(of("a")))).collect();
        for call in &mut calls {
            let _ = timeout(Duration::ZERO, call).await;
        }
        let Stats { denied, shadow_denied, .. } = layer.stats();
        if shadow { shadow_denied } else { denied }
    };
    for (max_waiting, expected) in [(None, 59), (Some(0), 59), (Some(3), 56), (Some(128), 10)] {
        for shadow in [false, true] {
            assert_eq!(denials(shadow, max_waiting).await, expected, "{shadow} {max_waiting:?}");
        }
    }
}
