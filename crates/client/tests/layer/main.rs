//! The layer: pauses, order, hosts, errors, and a real server on loopback.

mod held_up;
mod one_at_a_time;
mod pauses;

use std::convert::Infallible;
use std::future::Ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, sleep};
use tollgate::wait::WaitError;
use tollgate_client::{PaceLayer, Pacer, PacerError, Settings, SettingsError};
use tower::{Layer, ServiceExt, service_fn};

/// A pacer whose rate does not double.
fn pacer(per_second: f64) -> Pacer {
    Pacer::new(Settings::new(per_second).without_slow_start()).expect("in range")
}

/// Reports a response with this status and these fields.
async fn answer(pacer: &Pacer, status: u16, fields: &[(&str, &str)]) {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    let (head, ()) = response.body(()).expect("a response").into_parts();
    pacer.turn().await.expect("a turn").answered(&head);
}

#[tokio::test(start_paused = true)]
async fn requests_go_in_order_and_at_the_rate() {
    let pacer = Arc::new(pacer(10.0));
    let begin = Instant::now();
    let waiters: Vec<_> = (0..5)
        .map(|_| {
            let pacer = Arc::clone(&pacer);
            tokio::spawn(async move {
                let turn = pacer.turn().await;
                (turn.is_ok(), begin.elapsed().as_millis())
            })
        })
        .collect();
    let mut times = Vec::new();
    for waiter in waiters {
        let (is_ok, at) = waiter.await.expect("no panic");
        assert!(is_ok);
        times.push(at);
    }
    for (index, at) in (0..).zip(times) {
        assert!((index * 100..=index * 101 + 1).contains(&at), "{index}: {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_goes_ahead_when_the_rate_has_grown() {
    let pacer = Pacer::new(Settings::new(0.1)).expect("in range");
    let began = Instant::now();
    let next = || answer(&pacer, 200, &[]);
    tokio::join!(next(), next(), next());
    // The second waited for 10 s, and its answer made the rate a thousand times faster.
    assert!((10_000..10_100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn retry_after_pauses_for_seconds_and_until_a_date() {
    let pacer = pacer(100.0);
    answer(&pacer, 429, &[("retry-after", "3")]).await;
    assert_eq!(pacer.paused_for().as_secs_f64().round(), 3.0);
    assert!((pacer.rate() - 90.0).abs() < 1e-6);
    let begin = Instant::now();
    let dates = [
        ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("date", "Sun, 06 Nov 1994 08:49:30 GMT"),
    ];
    answer(&pacer, 503, &dates).await;
    assert_eq!(begin.elapsed().as_secs(), 3, "it was sent after the pause");
    assert_eq!(pacer.paused_for().as_secs_f64().round(), 7.0);
    assert_eq!(pacer.stats().denied, 2);
}

#[tokio::test(start_paused = true)]
async fn on_an_admission_retry_after_is_no_pause_and_an_exhausted_limit_is_one() {
    let pacer = pacer(100.0);
    answer(&pacer, 200, &[("retry-after", "3"), ("ratelimit", r#""a";r=1;t=9"#)]).await;
    assert!(pacer.paused_for().is_zero());
    answer(&pacer, 200, &[("ratelimit", r#""a";r=0;t=9, "b";r=5;t=60"#)]).await;
    assert_eq!(pacer.paused_for().as_secs_f64().round(), 9.0);
    assert!((pacer.rate() - 95.0).abs() < 0.1, "{}", pacer.rate());
    answer(&pacer, 200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "20")]).await;
    assert_eq!(pacer.paused_for().as_secs_f64().round(), 20.0);
}

#[tokio::test(start_paused = true)]
async fn no_server_stops_the_client_for_longer_than_the_settings_say() {
    let settings = Settings::new(100.0).max_pause(Duration::from_secs(5));
    let pacer = Pacer::new(settings).expect("in range");
    for fields in [
        [("retry-after", "31536000"), ("date", "x")],
        [("retry-after", "99999999999999999999999999"), ("date", "x")],
        [("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"), ("date", "x")],
        [("ratelimit", r#""a";r=0;t=999999999999999"#), ("date", "x")],
        [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "99999999999999")],
    ] {
        answer(&pacer, 429, &fields).await;
        let pause = pacer.paused_for();
        assert!(pause > Duration::from_secs(4) && pause <= Duration::from_secs(5), "{fields:?}");
    }
    // And none slows it below the smallest rate, or stops it by a policy of one request in a year.
    for _ in 0..200 {
        answer(&pacer, 503, &[("ratelimit-policy", r#""a";q=1;w=31536000"#)]).await;
    }
    assert_eq!(pacer.rate(), 0.1);
}

#[tokio::test(start_paused = true)]
async fn the_policy_bounds_the_rate_and_a_later_one_lifts_it() {
    let pacer = pacer(100.0);
    answer(
        &pacer,
        200,
        &[("ratelimit-policy", r#""a";q=600;w=60, "b";q=1;w=1;qu="content-bytes""#)],
    )
    .await;
    assert_eq!(pacer.rate(), 10.0);
    answer(&pacer, 200, &[("ratelimit-policy", r#""a";q=1200;w=60"#)]).await;
    for _ in 0..2_000 {
        answer(&pacer, 200, &[]).await;
    }
    assert!(pacer.rate() >= 10.0 && pacer.rate() <= 20.0, "{}", pacer.rate());
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_begins_holds_back_those_that_wait() {
    let pacer = Arc::new(pacer(10.0));
    let first = pacer.turn().await.expect("a turn");
    let begin = Instant::now();
    let waiter = {
        let pacer = Arc::clone(&pacer);
        tokio::spawn(async move { pacer.turn().await.map(drop).map(|()| begin.elapsed()) })
    };
    sleep(Duration::from_millis(50)).await;
    let denied = Response::builder().status(429).header("retry-after", "30").body(());
    first.answered(&denied.expect("a response").into_parts().0);
    let waited = waiter.await.expect("no panic").expect("a turn");
    assert!(waited >= Duration::from_secs(30), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_would_wait_too_long_fail_at_once_and_are_not_sent() {
    let settings = Settings::new(1.0).max_wait(Duration::from_secs(2)).max_waiting(1);
    let pacer = Arc::new(Pacer::new(settings).expect("in range"));
    drop(pacer.turn().await.expect("a turn"));
    let waiting = tokio::spawn({
        let pacer = Arc::clone(&pacer);
        async move { pacer.turn().await.map(drop) }
    });
    sleep(Duration::from_millis(10)).await;
    let crowded = pacer.turn().await.expect_err("one waits");
    assert_eq!(crowded, PacerError::Wait(WaitError::Crowded { waiters: 1 }));
    assert!(waiting.await.expect("no panic").is_ok());
    answer(&pacer, 429, &[("retry-after", "60")]).await;
    let begin = Instant::now();
    let paused = pacer.turn().await.expect_err("a pause");
    assert!(matches!(paused, PacerError::Paused { wait } if wait > Duration::from_secs(59)));
    assert!(begin.elapsed() < Duration::from_millis(5));
    assert!(paused.to_string().contains("raise max_wait"), "{paused}");
    assert_eq!(pacer.stats().failed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_leaves_the_others_their_turns() {
    let pacer = Arc::new(pacer(10.0));
    drop(pacer.turn().await.expect("a turn"));
    let spawn = || {
        let pacer = Arc::clone(&pacer);
        tokio::spawn(async move { pacer.turn().await.map(drop).is_ok() })
    };
    let [first, second] = [spawn(), spawn()];
    sleep(Duration::from_millis(10)).await;
    assert_eq!(pacer.waiting(), 2);
    first.abort();
    let begin = Instant::now();
    assert!(second.await.expect("no panic"));
    assert!(begin.elapsed() < Duration::from_millis(100), "it moved up");
}

#[tokio::test(start_paused = true)]
async fn each_host_has_its_own_pacer_and_too_many_share_one() {
    let layer = PaceLayer::by_host(Settings::new(100.0).without_slow_start(), 2).expect("in range");
    let send = service_fn(|request: Request<()>| async move {
        let status = if request.uri().path() == "/denied" { 429 } else { 200 };
        Ok::<_, Infallible>(Response::builder().status(status).body(()).expect("a response"))
    });
    let get = |uri: &str| {
        let request = Request::builder().uri(uri).body(()).expect("a request");
        layer.layer(send).oneshot(request)
    };
    assert_eq!(get("http://a.example/denied").await.expect("sent").status(), 429);
    assert_eq!(get("http://user:pw@B.example:81/").await.expect("sent").status(), 200);
    assert_eq!(get("http://c.example/denied").await.expect("sent").status(), 429);
    let by_header = Request::builder().uri("/denied").header("host", "A.Example").body(());
    layer.layer(send).oneshot(by_header.expect("a request")).await.expect("sent");
    let rate = |host| layer.pacer(host).rate();
    assert!((rate(Some("A.EXAMPLE")) - 45.0).abs() < 1e-6, "twice in a row");
    assert!((rate(Some("b.example:81")) - 100.0).abs() < 1e-6);
    assert!((rate(Some("c.example")) - 90.0).abs() < 1e-6);
    assert_eq!(rate(Some("d.example")), rate(None), "the third shares with the fourth");
}

/// A service that is ready once, and counts its calls.
#[derive(Clone)]
struct Failing(Arc<AtomicU64>);

impl tower::Service<Request<()>> for Failing {
    type Response = Response<()>;
    type Error = &'static str;
    type Future = Ready<Result<Response<()>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Err("refused"))
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_the_service_is_passed_on_and_moves_nothing() {
    let layer = PaceLayer::new(pacer(10.0));
    let calls = Arc::new(AtomicU64::new(0));
    let service = layer.layer(Failing(Arc::clone(&calls)));
    let error = service.oneshot(Request::new(())).await.expect_err("it fails");
    assert_eq!(error, PacerError::Service("refused"));
    assert_eq!((layer.pacer(None).rate(), calls.load(Ordering::Relaxed)), (10.0, 1));
}

#[test]
fn settings_out_of_range_are_errors_that_say_what_to_do() {
    let error = |settings: Settings| Pacer::new(settings).expect_err("out of range");
    assert!(matches!(error(Settings::new(f64::NAN)), SettingsError::Initial { .. }));
    assert!(matches!(error(Settings::new(0.0)), SettingsError::Initial { .. }));
    assert!(matches!(error(Settings::new(1.0).rates(2.0, 1.0)), SettingsError::Rates { .. }));
    assert!(matches!(error(Settings::new(1.0).rates(f64::NAN, 1.0)), SettingsError::Rates { .. }));
    assert_eq!(error(Settings::new(1.0).increase(0.0)), SettingsError::Increase);
    assert_eq!(error(Settings::new(1.0).backoff_percent(100)), SettingsError::Backoff);
    let pause = error(Settings::new(1.0).max_pause(Duration::from_secs(86_401)));
    assert_eq!(pause.to_string(), "max_pause must be a day at most");
    for extreme in [1e-6, 1e6] {
        assert!(Pacer::new(Settings::new(extreme).rates(1e-6, 1e6)).is_ok(), "{extreme}");
    }
}

/// A server with tollgate's own layer, and a client over real connections.
#[tokio::test]
async fn over_real_connections_a_client_keeps_to_what_the_server_says() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tollgate::Quota;
    use tollgate_http::{Limit, RateLimitLayer, key};

    let limit = Limit::gcra("hidden", Quota::per_second(50).burst(10), key::from_fn(|_| Some(())));
    let app = axum::Router::new()
        .route("/", axum::routing::get(|| async { "hello" }))
        .layer(RateLimitLayer::new(limit.expect("in range")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let send = service_fn(move |_: Request<()>| async move {
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let mut response = Response::new(());
        for (number, line) in text.split("\r\n").take_while(|line| !line.is_empty()).enumerate() {
            match line.split_once(": ") {
                None if number == 0 => {
                    let code: u16 = line[9..12].parse().expect("a status");
                    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
                }
                Some((name, value)) => {
                    let name: http::HeaderName = name.parse().expect("a name");
                    response.headers_mut().append(name, value.parse().expect("a value"));
                }
                None => {}
            }
        }
        Ok::<_, std::io::Error>(response)
    });
    let layer = PaceLayer::new(pacer(200.0));
    let (mut served, mut denied) = (0, 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        let response = layer.layer(send).oneshot(Request::new(())).await.expect("a response");
        match response.status() {
            StatusCode::OK => served += 1,
            StatusCode::TOO_MANY_REQUESTS => denied += 1,
            other => panic!("{other}"),
        }
    }
    server.abort();
    // The policy says 50 a second, so the first response ends the rate of 200.
    let rate = layer.pacer(None).rate();
    assert!(rate <= 50.0, "{rate}");
    assert!(denied <= 2 && served >= 40, "{served} served, {denied} denied");
}
