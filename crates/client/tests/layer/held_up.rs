//! Requests that the inner service holds up after their turn.

use std::time::Duration;

use http::{Request, Response};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_client::{PaceLayer, Pacer, Settings};
use tower::{Layer, ServiceExt};

use crate::one_at_a_time::OneAtATime;

/// The first request takes 30 seconds; those that come meanwhile have had their turns by then.
async fn after_a_hang(service: &OneAtATime) -> (PaceLayer, JoinSet<bool>) {
    let pacer = Pacer::new(Settings::new(10.0).without_slow_start()).expect("in range");
    let layer = PaceLayer::new(pacer);
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let call = layer.layer(service.clone()).oneshot(Request::new(()));
        calls.spawn(async move { call.await.is_ok() });
    }
    sleep(Duration::from_millis(29_900)).await;
    assert_eq!((service.sent(), layer.pacer(None).waiting()), (1, 0));
    (layer, calls)
}

fn takes(nth: u64) -> Duration {
    if nth == 0 { Duration::from_secs(30) } else { Duration::from_millis(1) }
}

#[tokio::test(start_paused = true)]
async fn requests_that_a_slow_response_held_up_go_at_the_rate() {
    let service = OneAtATime::new(|nth| (takes(nth), Response::builder()));
    let (layer, mut calls) = after_a_hang(&service).await;
    sleep(Duration::from_millis(5_100)).await;
    let sent = service.sent();
    // The first two go at once. The rate has grown from 10 by 0.1 a second.
    assert!((45..=70).contains(&sent), "{sent} in 5 s");
    assert!(layer.pacer(None).waiting() > 100);
    // One that comes now does not get ahead of them.
    let last = layer.layer(service.clone()).oneshot(Request::new(())).await;
    assert!(last.is_ok() && service.sent() == 201, "{}", service.sent());
    while let Some(call) = calls.join_next().await {
        assert!(call.expect("no panic"), "all are sent");
    }
    assert_eq!(layer.pacer(None).stats().sent, 201);
}

#[tokio::test(start_paused = true)]
async fn denials_of_requests_that_a_slow_response_held_up_lower_the_rate() {
    let service = OneAtATime::new(|nth| {
        let status = if nth == 0 { 200 } else { 429 };
        (takes(nth), Response::builder().status(status))
    });
    let (layer, _calls) = after_a_hang(&service).await;
    sleep(Duration::from_millis(2_100)).await;
    let (rate, sent) = (layer.pacer(None).rate(), service.sent());
    // It was 10 when they had their turns. Each of the denials is of a request that was sent after the one before it.
    assert!(rate < 2.0 && sent < 10, "{rate} a second, {sent} sent");
}

#[tokio::test(start_paused = true)]
async fn the_rate_grows_while_requests_that_were_held_up_wait_for_it() {
    let service = OneAtATime::new(|nth| (takes(nth), Response::builder()));
    let pacer = Pacer::new(Settings::new(10.0).without_slow_start()).expect("in range");
    let layer = PaceLayer::new(pacer);
    let mut calls = JoinSet::new();
    // They come at less than the rate, so that none waits for its first turn.
    for _ in 0..240 {
        calls.spawn(layer.layer(service.clone()).oneshot(Request::new(())));
        sleep(Duration::from_millis(120)).await;
    }
    assert_eq!((layer.pacer(None).waiting(), layer.pacer(None).rate()), (0, 10.0));
    sleep(Duration::from_secs(11)).await;
    // The hang ended ten seconds ago. The rate has grown by 0.1 a second since.
    let rate = layer.pacer(None).rate();
    assert!(layer.pacer(None).waiting() > 100 && (10.8..=11.2).contains(&rate), "{rate}");
}
