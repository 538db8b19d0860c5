//! During a pause no request is sent, and no more wait than the settings say. A pause is as long as the server says.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use tokio::time::{Instant, sleep};
use tollgate::wait::WaitError;
use tollgate_client::{PaceLayer, Pacer, PacerError, Settings};
use tower::{Layer, ServiceExt};

use crate::answer;
use crate::one_at_a_time::OneAtATime;

fn pacer(settings: Settings) -> Arc<Pacer> {
    Arc::new(Pacer::new(settings.without_slow_start()).expect("in range"))
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waited_for_the_service_is_not_sent_in_a_pause() {
    let service = OneAtATime::new(|_| {
        let denied = Response::builder().status(429).header("retry-after", "30");
        (Duration::from_millis(500), denied)
    });
    let layer = PaceLayer::new(Pacer::new(Settings::new(100.0)).expect("in range"));
    let call = || tokio::spawn(layer.layer(service.clone()).oneshot(Request::new(())));
    let calls: Vec<_> = (0..3).map(|_| call()).collect();
    sleep(Duration::from_secs(29)).await;
    assert_eq!(service.sent(), 1, "the others wait for the end of the pause");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(service.sent(), 2);
    // The third would have its turn 61 seconds after it came, and may wait for 60.
    let mut paused = 0;
    for call in calls {
        let ended = call.await.expect("no panic");
        paused += u64::from(matches!(ended, Err(PacerError::Paused { .. })));
    }
    let stats = layer.pacer(None).stats();
    assert_eq!((paused, stats.sent, stats.failed), (1, 2, 1));
}

/// The hang is longer than a request may wait for its turn.
#[tokio::test(start_paused = true)]
async fn a_pause_after_a_hang_fails_no_request_that_the_hang_held_up() {
    let service = OneAtATime::new(|nth| match nth {
        0 => (Duration::from_secs(65), Response::builder()),
        1 => (Duration::from_millis(1), Response::builder().status(429).header("retry-after", "1")),
        _ => (Duration::from_millis(1), Response::builder()),
    });
    let pacer = Pacer::new(Settings::new(10.0).without_slow_start()).expect("in range");
    let layer = PaceLayer::new(pacer);
    let call = || tokio::spawn(layer.layer(service.clone()).oneshot(Request::new(())));
    let calls: Vec<_> = (0..20).map(|_| call()).collect();
    sleep(Duration::from_millis(65_900)).await;
    assert_eq!(service.sent(), 2, "the others wait for the end of the pause");
    for call in calls {
        let ended = call.await.expect("no panic");
        assert!(ended.is_ok(), "{ended:?}");
    }
    assert_eq!((service.sent(), layer.pacer(None).stats().failed), (20, 0));
}

/// The second hang is longer than a request may wait for its turn, and begins after their second turns.
#[tokio::test(start_paused = true)]
async fn a_pause_after_a_second_hang_fails_no_request_that_it_held_up() {
    let service = OneAtATime::new(|nth| match nth {
        0 => (Duration::from_secs(30), Response::builder()),
        1 => {
            let denied = Response::builder().status(429).header("retry-after", "1");
            (Duration::from_secs(65), denied)
        }
        _ => (Duration::from_millis(1), Response::builder()),
    });
    let pacer = Pacer::new(Settings::new(10.0).without_slow_start()).expect("in range");
    let layer = PaceLayer::new(pacer);
    let call = || tokio::spawn(layer.layer(service.clone()).oneshot(Request::new(())));
    let calls: Vec<_> = (0..20).map(|_| call()).collect();
    for call in calls {
        let ended = call.await.expect("no panic");
        assert!(ended.is_ok(), "{ended:?}");
    }
    assert_eq!((service.sent(), layer.pacer(None).stats().failed), (20, 0));
}

#[tokio::test(start_paused = true)]
async fn in_a_pause_no_more_wait_than_the_settings_say() {
    let pacer = pacer(Settings::new(100.0).max_waiting(2));
    answer(&pacer, 429, &[("retry-after", "30")]).await;
    let begin = Instant::now();
    let turn = |pacer: Arc<Pacer>| async move { pacer.turn().await.map(drop) };
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(turn(Arc::clone(&pacer)))).collect();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(pacer.waiting(), 2);
    let crowded = Err(PacerError::Wait(WaitError::Crowded { waiters: 2 }));
    let mut ends = Vec::new();
    for call in calls {
        ends.push(call.await.expect("no panic"));
    }
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 2);
    assert_eq!(ends.iter().filter(|end| **end == crowded).count(), 3);
    assert!(begin.elapsed() >= Duration::from_secs(30));
    assert_eq!(pacer.waiting(), 0);

    answer(&pacer, 429, &[("retry-after", "30")]).await;
    let dropped = tokio::spawn(turn(Arc::clone(&pacer)));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(pacer.waiting(), 1);
    dropped.abort();
    assert!(dropped.await.expect_err("aborted").is_cancelled());
    assert_eq!(pacer.waiting(), 0, "a request that is dropped leaves its place");
}

#[tokio::test(start_paused = true)]
async fn retry_after_takes_precedence_over_a_reset() {
    let fields: [&[(&str, &str)]; 2] = [
        &[("retry-after", "1"), ("ratelimit", "\"a\";r=0;t=300")],
        &[("retry-after", "1"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "300")],
    ];
    for fields in fields {
        let pacer = pacer(Settings::new(100.0));
        answer(&pacer, 429, fields).await;
        let paused = pacer.paused_for();
        assert!(paused <= Duration::from_secs(1) && !paused.is_zero(), "{paused:?}");
        answer(&pacer, 429, &fields[1..]).await;
        assert!(pacer.paused_for() > Duration::from_secs(299));
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_slightly_below_the_rate_is_obeyed() {
    let pacer = pacer(Settings::new(0.2003));
    answer(&pacer, 200, &[("ratelimit-policy", "\"a\";q=1;w=5")]).await;
    let begin = Instant::now();
    for _ in 0..1_000 {
        drop(pacer.turn().await.expect("a turn"));
    }
    // The first of them may already wait for a while.
    let elapsed = begin.elapsed();
    assert!(elapsed >= Duration::from_secs(999 * 5), "{elapsed:?}");
}

/// Their turns come at 1 and 2 seconds, and the pause ends between them.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_in_a_pause_is_taken_when_it_ends() {
    let pacer = pacer(Settings::new(1.0));
    let (begin, first) = (Instant::now(), pacer.turn().await.expect("a turn"));
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let pacer = Arc::clone(&pacer);
            tokio::spawn(async move { pacer.turn().await.map(|_| begin.elapsed().as_millis()) })
        })
        .collect();
    sleep(Duration::from_millis(500)).await;
    let response = Response::builder().header("ratelimit", "\"a\";r=0;t=1").body(());
    first.answered(&response.expect("a response").into_parts().0);
    for (waiter, expected) in waiters.into_iter().zip([1_500, 2_500, 3_500]) {
        let at = waiter.await.expect("no panic").expect("a turn");
        assert!((expected..expected + 10).contains(&at), "{expected}: {at}");
    }
}
