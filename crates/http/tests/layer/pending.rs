//! Gates with a pending verdict: the request waits for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, sleep};
use tollgate::Quota;
use tollgate_http::key::from_fn;
use tollgate_http::{
    Body, Charge, Gate, GateDecision, GatePermit, Limit, PendingVerdict, Policy, RateLimitLayer,
    Reading, Reason, Report, Several, ShadowGate, Verdict,
};
use tower::{Layer, ServiceExt, service_fn};

type Answer = Response<Body<Full<Bytes>>>;

/// Decides after 10 ms; its limit is called "remote". It counts how often it was asked, and how often
/// its charge was refunded.
#[derive(Clone)]
struct Remote {
    decision: fn() -> GateDecision,
    asked: Arc<AtomicUsize>,
    refunded: Arc<AtomicUsize>,
}

impl Remote {
    fn new(decision: fn() -> GateDecision) -> Self {
        Self { decision, asked: Arc::default(), refunded: Arc::default() }
    }
}

impl Gate for Remote {
    fn decide(&self, _: &Parts, _: &mut Report) -> Verdict {
        let Self { decision, asked, refunded } = self.clone();
        Verdict::Pending(PendingVerdict::new(async move {
            asked.fetch_add(1, Relaxed);
            sleep(Duration::from_millis(10)).await;
            let mut decision = decision();
            let policy = Policy::new("remote", &Quota::per_minute(60)).expect("a name");
            let mut reading = Reading::new(policy, 60, 7);
            if let Err(Reason::OverLimit) = decision {
                (reading.denied, reading.retry_after) = (true, Some(Duration::from_millis(2_500)));
            }
            if let Ok(admission) = &mut decision {
                reading.delay = admission.delay;
                admission.charge = Some(Box::new(Counted(refunded)));
            }
            let mut report = Report::default();
            report.note(reading);
            (decision, report)
        }))
    }
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Charge for Counted {
    fn refund(self: Box<Self>) {
        self.0.fetch_add(1, Relaxed);
    }

    fn answered(self: Box<Self>, _: &http::response::Parts) -> Option<Box<dyn Charge>> {
        None
    }

    fn sent(self: Box<Self>, _: u64) {}
}

fn admit() -> GateDecision {
    Ok(GatePermit::default())
}

fn deny() -> GateDecision {
    Err(Reason::OverLimit)
}

/// A limit of this process: a number of requests an hour over all keys, refunded if others deny.
fn local(cells: u64) -> impl Gate {
    let one_for_all = from_fn(|_| Some(()));
    Limit::gcra("local", Quota::per_hour(cells), one_for_all).expect("in range").refundable()
}

async fn send<G: Gate + 'static>(layer: &RateLimitLayer<G>) -> Answer {
    let echo = service_fn(async |request: Request<Full<Bytes>>| {
        let body = request.into_body().collect().await.expect("infallible").to_bytes();
        Ok::<_, Infallible>(Response::new(Full::new(body)))
    });
    let request = Request::new(Full::from("body and all"));
    layer.layer(echo).oneshot(request).await.expect("infallible")
}

async fn text(answer: Answer) -> String {
    let bytes = answer.into_body().collect().await.expect("infallible").to_bytes();
    String::from_utf8(bytes.into()).expect("UTF-8")
}

#[tokio::test(start_paused = true)]
async fn a_remote_admission_forwards_the_request_and_adds_its_fields() {
    let layer = RateLimitLayer::new(Remote::new(admit));
    let began = Instant::now();
    let answer = send(&layer).await;
    assert_eq!(began.elapsed().as_millis(), 10);
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["ratelimit-policy"], "\"remote\";q=60;w=60");
    assert_eq!(text(answer).await, "body and all");
    assert_eq!((layer.stats().pending, layer.stats().admitted), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_remote_denial_has_retry_after() {
    let layer = RateLimitLayer::new(Remote::new(deny));
    let answer = send(&layer).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );
    assert!(text(answer).await.contains("\"violated-policies\":[\"remote\"]"));
    assert_eq!((layer.stats().denied, layer.stats().admitted), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_gets_503_and_is_counted() {
    let layer = RateLimitLayer::new(Remote::new(|| Err(Reason::Unavailable)));
    assert_eq!(send(&layer).await.status(), 503);
    assert_eq!((layer.stats().unavailable, layer.stats().denied), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_store_no_field_shows_cells_that_were_refunded() {
    let down = Remote::new(|| Err(Reason::Unavailable));
    let layer = RateLimitLayer::new(Several::new().and(local(5)).and(down));
    let answer = send(&layer).await;
    assert_eq!((answer.status().as_u16(), answer.headers().get("ratelimit")), (503, None));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_remote_delay() {
    let late = || Ok(GatePermit { delay: Duration::from_secs(3), charge: None });
    let layer = RateLimitLayer::builder(Remote::new(late)).wait(sleep).build();
    let began = Instant::now();
    assert_eq!(text(send(&layer).await).await, "body and all");
    assert_eq!(began.elapsed().as_millis(), 3_010);
    assert_eq!(layer.stats().waited, 1);
}

#[tokio::test(start_paused = true)]
async fn several_limits_ask_those_of_this_process_first() {
    let remote = Remote::new(admit);
    let layer = RateLimitLayer::new(Several::new().and(remote.clone()).and(local(1)));
    assert_eq!(send(&layer).await.status(), 200);
    let denied = send(&layer).await;
    assert_eq!(denied.status(), 429);
    assert!(text(denied).await.contains("[\"local\"]"));
    // The remote limit was not asked about the request that the local one denied.
    assert_eq!((remote.asked.load(Relaxed), remote.refunded.load(Relaxed)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn several_limits_are_refunded_if_the_last_one_denies() {
    let (grants, denies) = (Remote::new(admit), Remote::new(deny));
    let gate = Several::new().and(local(1)).and(grants.clone()).and(denies.clone());
    let layer = RateLimitLayer::new(gate);
    for _ in 0..3 {
        // If the cell of "local" were kept, the second denial would name that limit.
        let answer = send(&layer).await;
        assert_eq!(answer.headers()["ratelimit"], "\"remote\";r=7;t=3");
        assert!(text(answer).await.contains("[\"remote\"]"));
    }
    assert_eq!((grants.asked.load(Relaxed), grants.refunded.load(Relaxed)), (3, 3));
    assert_eq!(layer.stats().denied, 3);
}

#[tokio::test(start_paused = true)]
async fn limits_within_limits_are_refunded_if_one_of_this_process_denies() {
    let full = Limit::gcra("full", Quota::per_hour(1), from_fn(|_| Some(()))).expect("in range");
    let (local, remote) = (Counts::default(), Remote::new(admit));
    let nested = Several::new().and(local.clone()).and(remote.clone());
    let layer = RateLimitLayer::new(Several::new().and(nested).and(Unpeeked(full)));
    assert_eq!(send(&layer).await.status(), 200);
    assert_eq!(local.refunded.load(Relaxed), 0);
    for denials in 1..3 {
        assert_eq!(send(&layer).await.status(), 429);
        assert_eq!(local.refunded.load(Relaxed), denials);
    }
    assert_eq!(remote.asked.load(Relaxed), 1);
}

/// Admits every request, and counts how often its charge was refunded.
#[derive(Clone, Default)]
struct Counts {
    refunded: Arc<AtomicUsize>,
}

impl Gate for Counts {
    fn decide(&self, _: &Parts, _: &mut Report) -> Verdict {
        let charge = Some(Box::new(Counted(self.refunded.clone())) as Box<dyn Charge>);
        Verdict::Admit(GatePermit { charge, ..GatePermit::default() })
    }
}

/// A gate that is not peeked at.
struct Unpeeked<G>(G);

impl<G: Gate> Gate for Unpeeked<G> {
    fn decide(&self, request: &Parts, report: &mut Report) -> Verdict {
        self.0.decide(request, report)
    }
}

#[tokio::test(start_paused = true)]
async fn a_remote_limit_in_shadow_denies_nothing_and_is_counted() {
    let layer = RateLimitLayer::new(ShadowGate::new(Remote::new(deny)));
    let answer = send(&layer).await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("ratelimit"));
    assert_eq!((layer.stats().shadow_denied, layer.stats().admitted), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_drops_the_pending_verdict() {
    let layer = RateLimitLayer::new(Remote::new(admit));
    let gone = tokio::time::timeout(Duration::from_millis(5), send(&layer)).await;
    assert!(gone.is_err());
    assert_eq!((layer.stats().pending, layer.stats().admitted), (1, 0));
}
