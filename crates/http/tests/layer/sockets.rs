//! An axum server and its clients, over real sockets.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tollgate::{LeakyQueue, Limiter, Quota};
use tollgate_http::key::{ClientIp, Header, Matched, Method, PeerIp, Trust};
use tollgate_http::{Gate, Limit, Policy, RateLimitLayer};
use tower::ServiceBuilder;
use tower::limit::ConcurrencyLimitLayer;

async fn serve<G: Gate + 'static>(layer: &RateLimitLayer<G>) -> SocketAddr {
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/users/{id}", get(|| async { "a user" }).post(|| async { "changed" }))
        .layer(layer.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// A connection that is kept open.
struct Client(TcpStream);

impl Client {
    async fn new(server: SocketAddr) -> Self {
        Self(TcpStream::connect(server).await.expect("listening"))
    }

    /// Status, head and body.
    async fn ask(&mut self, line: &str, headers: &str) -> (u16, String, String) {
        let request = format!("{line} HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
        self.0.write_all(request.as_bytes()).await.expect("connected");
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let length = value(&head, "content-length").parse().expect("a length");
                if body.len() >= length {
                    let status = head[9..12].parse().expect("a status");
                    return (status, head, body.to_owned());
                }
            }
            assert!(self.0.read_buf(&mut bytes).await.expect("connected") > 0, "closed early");
        }
    }

    async fn status(&mut self, line: &str, headers: &str) -> u16 {
        self.ask(line, headers).await.0
    }
}

fn value<'a>(head: &'a str, name: &str) -> &'a str {
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_of_5_admits_5_over_all_routes_and_connections() {
    let layer =
        RateLimitLayer::new(Limit::gcra("a", Quota::per_day(5), PeerIp::new()).expect("in range"));
    let server = serve(&layer).await;
    let clients = (0..20).map(|n| {
        tokio::spawn(async move {
            let mut client = Client::new(server).await;
            let mut admitted = 0;
            for _ in 0..10 {
                let path = if n % 2 == 0 { "GET /" } else { "GET /users/7" };
                match client.status(path, "").await {
                    200 => admitted += 1,
                    status => assert_eq!(status, 429),
                }
            }
            admitted
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut admitted = 0;
    for client in clients {
        admitted += client.await.expect("no panic");
    }
    assert_eq!(admitted, 5);
    assert_eq!((layer.stats().admitted, layer.stats().denied), (5, 195));
}

#[tokio::test]
async fn a_denial_is_sent_with_its_head_and_body() {
    let limit = Limit::gcra("day", Quota::per_second(1_000).burst(1), PeerIp::new());
    let layer = RateLimitLayer::builder(
        limit.expect("in range").cost(|request| if request.uri.path() == "/" { 1 } else { 2 }),
    );
    let server = serve(&layer.x_rate_limit().build()).await;
    let mut client = Client::new(server).await;
    let (status, head, body) = client.ask("GET /", "").await;
    assert_eq!((status, body.as_str()), (200, "hello"));
    assert_eq!(value(&head, "ratelimit-policy"), "\"day\";q=1000;w=1");
    assert_eq!(value(&head, "ratelimit"), "\"day\";r=0;t=1");
    assert_eq!(value(&head, "x-ratelimit-limit"), "1");
    assert_eq!(value(&head, "retry-after"), "");

    // The request never fits, so there is no `Retry-After`.
    let (status, head, body) = client.ask("GET /users/7", "").await;
    assert_eq!((status, value(&head, "retry-after")), (429, ""));
    assert_eq!(value(&head, "content-type"), "application/problem+json");
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["violated-policies"], serde_json::json!(["day"]));
}

#[tokio::test]
async fn retry_after_is_at_least_1_and_waiting_so_long_is_enough() {
    let limit = Limit::gcra("fast", Quota::per_second(2).burst(1), PeerIp::new());
    let layer = RateLimitLayer::new(limit.expect("in range"));
    let mut client = Client::new(serve(&layer).await).await;
    let mut sent = Instant::now();
    assert_eq!(client.status("GET /", "").await, 200);
    // A busy machine may take half a second between two requests, and then the next one is admitted.
    let head = loop {
        let before = std::mem::replace(&mut sent, Instant::now());
        let (status, head, _) = client.ask("GET /", "").await;
        if status == 429 {
            break head;
        }
        assert_eq!(status, 200);
        assert!(before.elapsed() >= std::time::Duration::from_millis(490), "{head}");
    };
    assert_eq!(value(&head, "retry-after"), "1");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(client.status("GET /", "").await, 200);
}

#[tokio::test]
async fn retry_after_is_rounded_up() {
    use std::time::Duration;
    let cell = Duration::from_millis(1_500);
    let quota = Quota::new(2, 2 * cell).burst(1);
    let layer = RateLimitLayer::new(Limit::gcra("slow", quota, PeerIp::new()).expect("in range"));
    let mut client = Client::new(serve(&layer).await).await;
    let sent = Instant::now();
    assert_eq!(client.status("GET /", "").await, 200);
    let (status, head, _) = client.ask("GET /", "").await;
    let passed = sent.elapsed();
    if passed < cell - Duration::from_secs(1) {
        assert_eq!((status, value(&head, "retry-after")), (429, "2"));
    } else {
        // A busy machine may take half a second between two requests, or a whole cell.
        let retry_after = value(&head, "retry-after");
        assert!(["2", "1", ""].contains(&retry_after), "{head}");
    }
}

#[tokio::test]
async fn a_client_behind_a_proxy_is_known_by_the_entry_of_the_proxy() {
    let key = ClientIp::x_forwarded_for(Trust::networks(["127.0.0.0/8"]).expect("networks"));
    let layer = RateLimitLayer::new(Limit::gcra("a", Quota::per_day(1), key).expect("in range"));
    let mut client = Client::new(serve(&layer).await).await;
    for (forged, status) in [("1.1.1.1", 200), ("2.2.2.2", 429), ("\", 3.3.3.3", 429)] {
        let header = format!("x-forwarded-for: {forged}, 192.0.2.7\r\n");
        assert_eq!(client.status("GET /", &header).await, status, "{forged}");
    }
    assert_eq!(client.status("GET /", "x-forwarded-for: 192.0.2.8\r\n").await, 200);
    assert_eq!(client.status("GET /", "x-forwarded-for: 192.0.2.7, x\r\n").await, 400);
    let oversized = format!("x-forwarded-for: {}192.0.2.7\r\n", "1.1.1.1, ".repeat(2_000));
    assert_eq!(client.status("GET /", &oversized).await, 429);
    assert_eq!(layer.stats().key_malformed, 1);
}

#[tokio::test]
async fn method_and_template_together_are_a_key() {
    let limit = Limit::gcra("a", Quota::per_day(1), (Method, Matched)).expect("in range");
    let layer = RateLimitLayer::new(limit);
    let mut client = Client::new(serve(&layer).await).await;
    assert_eq!(client.status("GET /users/1", "").await, 200);
    assert_eq!(client.status("GET /users/2", "").await, 429);
    assert_eq!(client.status("POST /users/2", "content-length: 0\r\n").await, 200);
    assert_eq!(client.status("GET /", "").await, 200);
    // Requests without a route share one key.
    assert_eq!(client.status("GET /none", "").await, 404);
    assert_eq!(client.status("GET /nor/this", "").await, 429);
}

/// Without this guarantee, the other key once waited 4.68 s at 2 requests a second.
#[tokio::test]
async fn a_client_with_nothing_to_wait_for_is_served_while_20_of_another_wait_for_hours() {
    let quota = Quota::per_hour(1).burst(30);
    let limiter: Limiter<str, LeakyQueue> =
        Limiter::builder(quota).algorithm(LeakyQueue::new()).build().expect("in range");
    let key = Header::new("key").expect("a name");
    let limit = Limit::new(Policy::new("paced", &quota).expect("a name"), limiter.into(), key);
    let layer = RateLimitLayer::builder(limit).wait(tokio::time::sleep).build();
    // Inside the limit, ten requests run at a time.
    let both = ServiceBuilder::new().layer(layer.clone()).layer(ConcurrencyLimitLayer::new(10));
    let app = Router::new().route("/", get(|| async { "hello" })).layer(both);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("bound");
    tokio::spawn(async move { axum::serve(listener, app).await });

    let mut busy = Client::new(server).await;
    assert_eq!(busy.status("GET /", "key: busy\r\n").await, 200);
    let queued = (0..20).map(|_| {
        tokio::spawn(
            async move { Client::new(server).await.status("GET /", "key: busy\r\n").await },
        )
    });
    let queued: Vec<_> = queued.collect();
    let all_wait = async {
        while layer.stats().waited < 20 {
            tokio::task::yield_now().await;
        }
    };
    // Each request is admitted at once or after hours.
    let a_minute = std::time::Duration::from_secs(60);
    assert_eq!(tokio::time::timeout(a_minute, all_wait).await, Ok(()));
    let mut other = Client::new(server).await;
    let answered = other.status("GET /", "key: other\r\n");
    let status = tokio::time::timeout(a_minute, answered).await;
    assert_eq!(status, Ok(200));
    assert!(queued.iter().all(|call| !call.is_finished()));
}
