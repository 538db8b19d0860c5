//! Gates that ask elsewhere: the request waits for the answer, and fares as it says.

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
    Admission, Asking, Body, Charge, Gate, Limit, Policy, RateLimitLayer, Reading, Reason, Report,
    Ruling, Several, Shadow, Verdict,
};
use tower::{Layer, ServiceExt, service_fn};

type Answer = Response<Body<Full<Bytes>>>;

/// Answers after 10 ms as it is told to; its limit is called "afar". It counts how often it was
/// asked and how often its charge was taken back.
#[derive(Clone)]
struct Afar {
    ruling: fn() -> Ruling,
    asked: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
}

impl Afar {
    fn new(ruling: fn() -> Ruling) -> Self {
        Self { ruling, asked: Arc::default(), cancelled: Arc::default() }
    }
}

impl Gate for Afar {
    fn decide(&self, _: &Parts, _: &mut Report) -> Verdict {
        let Self { ruling, asked, cancelled } = self.clone();
        Verdict::Ask(Asking::new(async move {
            asked.fetch_add(1, Relaxed);
            sleep(Duration::from_millis(10)).await;
            let mut ruling = ruling();
            let policy = Policy::new("afar", &Quota::per_minute(60)).expect("a name");
            let mut reading = Reading::new(policy, 60, 7);
            if let Err(Reason::OverLimit) = ruling {
                (reading.denied, reading.retry_after) = (true, Some(Duration::from_millis(2_500)));
            }
            if let Ok(admission) = &mut ruling {
                reading.delay = admission.delay;
                admission.charge = Some(Box::new(Counted(cancelled)));
            }
            let mut report = Report::default();
            report.note(reading);
            (ruling, report)
        }))
    }
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Charge for Counted {
    fn cancel(self: Box<Self>) {
        self.0.fetch_add(1, Relaxed);
    }

    fn answered(self: Box<Self>, _: &http::response::Parts) -> Option<Box<dyn Charge>> {
        None
    }

    fn sent(self: Box<Self>, _: u64) {}
}

fn admit() -> Ruling {
    Ok(Admission::default())
}

fn deny() -> Ruling {
    Err(Reason::OverLimit)
}

/// A limit of this process: so many requests an hour over all, given back if others deny.
fn near(cells: u64) -> impl Gate {
    let one_for_all = from_fn(|_| Some(()));
    Limit::gcra("near", Quota::per_hour(cells), one_for_all).expect("in range").returnable()
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
async fn an_admission_from_afar_passes_the_request_on_with_its_fields() {
    let layer = RateLimitLayer::new(Afar::new(admit));
    let began = Instant::now();
    let answer = send(&layer).await;
    assert_eq!(began.elapsed().as_millis(), 10);
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["ratelimit-policy"], "\"afar\";q=60;w=60");
    assert_eq!(text(answer).await, "body and all");
    assert_eq!((layer.stats().asked, layer.stats().admitted), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_denial_from_afar_says_when_to_come_back() {
    let layer = RateLimitLayer::new(Afar::new(deny));
    let answer = send(&layer).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );
    assert!(text(answer).await.contains("\"violated-policies\":[\"afar\"]"));
    assert_eq!((layer.stats().denied, layer.stats().admitted), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn where_nobody_answers_it_is_503_and_counted() {
    let layer = RateLimitLayer::new(Afar::new(|| Err(Reason::Unavailable)));
    assert_eq!(send(&layer).await.status(), 503);
    assert_eq!((layer.stats().unavailable, layer.stats().denied), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_delay_from_afar_is_waited_for_too() {
    let late = || Ok(Admission { delay: Duration::from_secs(3), charge: None });
    let layer = RateLimitLayer::builder(Afar::new(late)).wait(sleep).build();
    let began = Instant::now();
    assert_eq!(text(send(&layer).await).await, "body and all");
    assert_eq!(began.elapsed().as_millis(), 3_010);
    assert_eq!(layer.stats().waited, 1);
}

#[tokio::test(start_paused = true)]
async fn of_several_those_of_this_process_are_asked_first() {
    let afar = Afar::new(admit);
    let layer = RateLimitLayer::new(Several::new().and(afar.clone()).and(near(1)));
    assert_eq!(send(&layer).await.status(), 200);
    let denied = send(&layer).await;
    assert_eq!(denied.status(), 429);
    assert!(text(denied).await.contains("[\"near\"]"));
    // What the process denied itself was never asked about.
    assert_eq!((afar.asked.load(Relaxed), afar.cancelled.load(Relaxed)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn of_several_what_denies_last_gives_all_others_back() {
    let (grants, denies) = (Afar::new(admit), Afar::new(deny));
    let gate = Several::new().and(near(1)).and(grants.clone()).and(denies.clone());
    let layer = RateLimitLayer::new(gate);
    for _ in 0..3 {
        // Were the cell of "near" kept, the second would name it instead.
        let answer = send(&layer).await;
        assert_eq!(answer.headers()["ratelimit"], "\"afar\";r=7;t=3");
        assert!(text(answer).await.contains("[\"afar\"]"));
    }
    assert_eq!((grants.asked.load(Relaxed), grants.cancelled.load(Relaxed)), (3, 3));
    assert_eq!(layer.stats().denied, 3);
}

#[tokio::test(start_paused = true)]
async fn on_trial_nobody_is_denied_and_it_is_counted() {
    let layer = RateLimitLayer::new(Shadow::new(Afar::new(deny)));
    let answer = send(&layer).await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("ratelimit"));
    assert_eq!((layer.stats().shadow_denied, layer.stats().admitted), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_the_question() {
    let layer = RateLimitLayer::new(Afar::new(admit));
    let gone = tokio::time::timeout(Duration::from_millis(5), send(&layer)).await;
    assert!(gone.is_err());
    assert_eq!((layer.stats().asked, layer.stats().admitted), (1, 0));
}
