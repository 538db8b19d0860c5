//! A reqwest client beside a server over real sockets.

#![allow(clippy::disallowed_types, reason = "a test's clock")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate_reqwest::{PaceLayer, PacedClient, Settings};

/// A server that answers every request with this head.
async fn serve(head: impl Into<String>) -> SocketAddr {
    let head = head.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1_024];
            let _ = stream.read(&mut request).await;
            let answer =
                format!("HTTP/1.1 {head}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

fn client(pace: &PacedClient) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(pace.clone()).build()
}

#[tokio::test]
async fn requests_to_a_host_wait_for_their_turns() {
    let server = serve("200 OK").await;
    let settings = Settings::new(20.0).rates(1.0, 20.0);
    let pace = PacedClient::by_host(settings, 10).expect("in range");
    let client = client(&pace);
    let began = Instant::now();
    for _ in 0..4 {
        let response = client.get(format!("http://{server}/")).send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.text().await.expect("a body"), "ok");
    }
    assert!(began.elapsed() >= Duration::from_millis(149), "three had to wait for 50 ms each");
    assert_eq!(pace.layer().pacer(Some(&server.to_string())).stats().sent, 4);
    assert_eq!(pace.layer().pacer(None).stats().sent, 0, "other hosts have rates of their own");
}

#[tokio::test]
async fn a_denial_lowers_the_rate_and_retry_after_holds_the_next_request_back() {
    let server = serve("429 Too Many Requests\r\nretry-after: 60").await;
    let settings = Settings::new(100.0).max_wait(Duration::from_secs(5));
    let layer = PaceLayer::by_host(settings, 10).expect("in range");
    let client = client(&PacedClient::from(layer.clone()));
    let response = client.get(format!("http://{server}/")).send().await.expect("an answer");
    assert_eq!(response.status(), 429, "the caller sees the denial");
    let pacer = layer.pacer(Some(&server.to_string()));
    assert!(pacer.rate() < 91.0, "{}", pacer.rate());
    let error = client.get(format!("http://{server}/")).send().await.expect_err("in a minute");
    assert!(error.is_middleware(), "{error}");
    assert_eq!((pacer.stats().sent, pacer.stats().failed), (1, 1));
}

#[tokio::test]
async fn an_answer_of_a_host_with_a_pacer_of_its_own_does_not_move_that_of_the_others() {
    let overloaded = serve("429 Too Many Requests\r\nretry-after: 60").await;
    let server = serve(format!("302 Found\r\nlocation: http://{overloaded}/")).await;
    let settings = Settings::new(100.0).max_wait(Duration::from_secs(5));
    let pace = PacedClient::by_host(settings, 1).expect("in range");
    // The only host that has a pacer of its own.
    let _ = pace.layer().pacer(Some(&overloaded.to_string()));
    let response = client(&pace).get(format!("http://{server}/")).send().await.expect("an answer");
    assert_eq!((response.status().as_u16(), response.url().port()), (429, Some(overloaded.port())));
    let others = pace.layer().pacer(None);
    assert_eq!((others.rate(), others.paused_for()), (100.0, Duration::ZERO), "it denied nothing");
    assert_eq!((others.stats().sent, others.stats().denied), (1, 0));
}

#[tokio::test]
async fn an_answer_of_another_host_after_a_redirect_moves_no_rate() {
    let overloaded = serve("429 Too Many Requests\r\nretry-after: 60").await;
    let server = serve(format!("302 Found\r\nlocation: http://{overloaded}/")).await;
    let settings = Settings::new(100.0).max_wait(Duration::from_secs(5));
    let pace = PacedClient::by_host(settings, 10).expect("in range");
    let client = client(&pace);
    let response = client.get(format!("http://{server}/")).send().await.expect("an answer");
    assert_eq!((response.status().as_u16(), response.url().port()), (429, Some(overloaded.port())));
    let pacer = pace.layer().pacer(Some(&server.to_string()));
    assert_eq!((pacer.rate(), pacer.paused_for()), (100.0, Duration::ZERO), "it denied nothing");
    assert_eq!((pacer.stats().sent, pacer.stats().denied), (1, 0));
}
