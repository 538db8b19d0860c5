//! A proxy and its upstream on loopback, over real sockets.

#![allow(clippy::disallowed_types, reason = "the tests' clock, not a limiter's")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::apps::HttpServerOptions;
use pingora_core::server::Server;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_http::ResponseHeader;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};
use tollgate_http::key::{ClientIp, Trust};
use tollgate_pingora::{ResponseFields, RulesFilter};
use tollgate_rules::{Rules, RulesLimiter};

const PATIENCE: Duration = Duration::from_secs(10);

struct Proxy {
    upstream: SocketAddr,
    limits: Arc<RulesFilter>,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ResponseFields;

    fn new_ctx(&self) -> ResponseFields {
        ResponseFields::default()
    }

    async fn request_filter(
        &self,
        session: &mut Session,
        ctx: &mut ResponseFields,
    ) -> Result<bool> {
        self.limits.request_filter(session, ctx).await
    }

    async fn response_filter(
        &self,
        _: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut ResponseFields,
    ) -> Result<()> {
        ctx.add_to(response)
    }

    async fn upstream_peer(
        &self,
        _: &mut Session,
        _: &mut ResponseFields,
    ) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream, false, String::new())))
    }
}

/// A proxy that runs until the tests end.
struct Running {
    address: SocketAddr,
    limits: Arc<RulesFilter>,
    served: Arc<AtomicUsize>,
}

/// Starts a proxy with rules. `behind` determines the client behind a trusted proxy.
fn start(rules: &str, behind: Option<ClientIp>) -> Running {
    let rules = Rules::parse("rules.toml", rules).unwrap_or_else(|error| panic!("{error}"));
    let filter = RulesFilter::new(RulesLimiter::new(rules).expect("memory"));
    let limits = Arc::new(match behind {
        Some(client) => filter.behind(client),
        None => filter,
    });
    let (upstream, served) = start_upstream();
    let proxy = Proxy { upstream, limits: Arc::clone(&limits) };
    // Pingora takes no listener that is bound already.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let mut server = Server::new(None).expect("a server");
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, proxy);
    service.add_tcp(&address.to_string());
    service.threads = Some(2);
    let mut options = HttpServerOptions::default();
    options.h2c = true;
    service.app_logic_mut().expect("it is not running").server_options = Some(options);
    server.add_service(service);
    thread::spawn(move || server.run_forever());
    let begin = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begin.elapsed() < PATIENCE, "the proxy does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    Running { address, limits, served }
}

/// Answers every request with `hello`, and counts them.
fn start_upstream() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let served = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&served);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let served = Arc::clone(&counted);
            thread::spawn(move || {
                let mut peer = Peer { stream: connection, unread: Vec::new() };
                while peer.message(false).is_some() {
                    served.fetch_add(1, Ordering::Relaxed);
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
                    if peer.stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, served)
}

/// One end of a keep-alive connection.
struct Peer {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Peer {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("listening");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream, unread: Vec::new() }
    }

    /// Sends a request, and returns the response's status, head and body.
    fn ask(&mut self, line: &str, headers: &str) -> (u16, String, String) {
        self.send(line, &format!("host: example.com\r\n{headers}"), "")
    }

    fn send(&mut self, line: &str, headers: &str, body: &str) -> (u16, String, String) {
        let request = format!("{line} HTTP/1.1\r\n{headers}\r\n{body}");
        self.stream.write_all(request.as_bytes()).expect("connected");
        self.answer(line.starts_with("HEAD "))
    }

    fn answer(&mut self, is_head: bool) -> (u16, String, String) {
        let (head, body) = self.message(is_head).expect("an answer");
        (head[9..12].parse().expect("a status"), head, body)
    }

    /// The next message's head and body; `None` at the end.
    fn message(&mut self, without_body: bool) -> Option<(String, String)> {
        loop {
            let text = String::from_utf8_lossy(&self.unread).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let told = value(&head, "content-length").parse().unwrap_or(0);
                let length: usize = if without_body { 0 } else { told };
                if body.len() >= length {
                    let body = body[..length].to_owned();
                    self.unread.drain(..head.len() + 4 + length);
                    return Some((head, body));
                }
            }
            let mut bytes = [0; 4_096];
            let read = self.stream.read(&mut bytes).ok().filter(|read| *read > 0)?;
            self.unread.extend_from_slice(&bytes[..read]);
        }
    }
}

/// The status of the response to a request on a connection of its own.
fn status_of(address: SocketAddr, request: &str) -> u16 {
    let mut client = Peer::connect(address);
    client.stream.write_all(request.as_bytes()).expect("connected");
    client.answer(false).0
}

/// The fields `RateLimit` of the responses to `GET` requests with these bodies, of no stated length, on a connection of
/// HTTP/2. An empty body ends with the head.
async fn remaining_by_http2(address: SocketAddr, bodies: &[&'static str]) -> Vec<String> {
    let stream = tokio::net::TcpStream::connect(address).await.expect("listening");
    let (mut client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let mut remaining = Vec::new();
    for body in bodies {
        let request = http::Request::get(format!("http://{address}/")).body(()).expect("a request");
        let (response, mut stream) =
            client.send_request(request, body.is_empty()).expect("connected");
        if !body.is_empty() {
            stream.send_data((*body).into(), true).expect("open");
        }
        let response = response.await.expect("an answer");
        let field = response.headers().get("ratelimit").expect("a field");
        remaining.push(field.to_str().expect("text").to_owned());
        client = client.ready().await.expect("connected");
    }
    remaining
}

fn value<'a>(head: &'a str, name: &str) -> &'a str {
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_default()
}

fn counted(proxy: &Running) -> (u64, u64, usize) {
    let counts = proxy.limits.counts();
    (counts.admitted, counts.denied, proxy.served.load(Ordering::Relaxed))
}

#[test]
fn a_quota_of_5_admits_5_over_all_connections() {
    let proxy = start(r#"rule = [{ name = "day", key = "ip", limits = "5 per day" }]"#, None);
    let address = proxy.address;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Peer::connect(address);
                let asked = (0..10).map(|_| match client.ask("GET /", "") {
                    (200, _, body) => {
                        assert_eq!(body, "hello");
                        1
                    }
                    (status, ..) => {
                        assert_eq!(status, 429);
                        0
                    }
                });
                asked.sum::<usize>()
            })
        })
        .collect();
    let admitted: usize = clients.into_iter().map(|client| client.join().expect("no panic")).sum();
    assert_eq!(admitted, 5);
    assert_eq!(counted(&proxy), (5, 75, 5));
}

#[test]
fn responses_say_what_remains_and_when_to_retry() {
    let proxy = start(r#"rule = [{ name = "posts", key = "ip", limits = "2 per day" }]"#, None);
    let mut client = Peer::connect(proxy.address);
    let (status, head, _) = client.ask("GET /", "");
    assert_eq!((status, value(&head, "retry-after")), (200, ""));
    assert_eq!(value(&head, "ratelimit-policy"), "\"posts\";q=2;w=86400");
    assert_eq!(value(&head, "ratelimit"), "\"posts\";r=1;t=43200");
    assert_eq!(client.ask("GET /", "").0, 200);

    // The body is not read, so Pingora closes the connection.
    let sized = "host: example.com\r\ncontent-length: 5\r\n";
    let (status, head, body) = client.send("POST /", sized, "12345");
    assert_eq!(status, 429, "{head}");
    assert_eq!(value(&head, "content-type"), "application/problem+json");
    assert_eq!(value(&head, "ratelimit-policy"), "\"posts\";q=2;w=86400");
    let secs: u64 = value(&head, "retry-after").parse().expect("seconds");
    assert!((43_100..=43_200).contains(&secs), "{secs}");
    assert_eq!(value(&head, "ratelimit"), format!("\"posts\";r=0;t={secs}"));
    assert!(body.contains("\"violated-policies\":[\"posts\"]"), "{body}");

    assert_eq!((value(&head, "connection"), client.message(false)), ("close", None));

    let mut client = Peer::connect(proxy.address);
    let (status, head, body) = client.ask("HEAD /", "");
    assert_eq!((status, body.as_str()), (429, ""));
    assert_ne!(value(&head, "content-length"), "0");
    assert_eq!(client.ask("GET /", "").0, 429);
    assert_eq!(counted(&proxy), (2, 3, 2));
}

#[test]
fn a_denied_grpc_call_is_answered_with_resource_exhausted_and_no_body() {
    let proxy = start(r#"rule = [{ name = "calls", key = "ip", limits = "1 per day" }]"#, None);
    let mut client = Peer::connect(proxy.address);
    let fields = "content-type: application/grpc\r\ncontent-length: 0\r\n";
    assert_eq!(client.ask("POST /pkg.Service/Call", fields).0, 200);
    let (status, head, body) = client.ask("POST /pkg.Service/Call", fields);
    assert_eq!((status, body.as_str()), (200, ""), "{head}");
    assert_eq!(value(&head, "content-type"), "application/grpc");
    assert_eq!(value(&head, "grpc-status"), "8");
    assert_ne!(value(&head, "retry-after"), "");
}

#[test]
fn rules_see_path_method_host_and_headers() {
    let rules = r#"
        [[rule]]
        name = "posts"
        match = { path = "/posts/**", method = "POST", host = "example.com" }
        key = "header:x-user"
        on_no_key = "deny"
        limits = "1 per day"
    "#;
    let proxy = start(rules, None);
    let mut client = Peer::connect(proxy.address);
    let mut ask = |line: &str, user: &str| {
        let header = if user.is_empty() { String::new() } else { format!("x-user: {user}\r\n") };
        client.ask(line, &format!("{header}content-length: 0\r\n"))
    };
    assert_eq!(ask("POST /posts/1", "ada").0, 200);
    assert_eq!(ask("POST //posts/%31?a=b", "ada").0, 429);
    assert_eq!(ask("POST /posts/1", "grace").0, 200);
    assert_eq!(ask("GET /posts/1", "ada").0, 200);
    assert_eq!(ask("POST /postscript", "ada").0, 200);
    let (status, head, body) = ask("POST /posts/1", "");
    assert_eq!((status, value(&head, "retry-after")), (400, ""));
    assert!(body.contains("the request carries no key"), "{body}");
    let (status, head, _) = ask("GET /", "ada");
    assert_eq!((status, value(&head, "ratelimit")), (200, ""));
    let elsewhere = "host: other.example\r\nx-user: ada\r\ncontent-length: 0\r\n";
    assert_eq!(client.send("POST /posts/1", elsewhere, "").0, 200);
}

#[test]
fn behind_a_trusted_proxy_the_client_is_the_forwarded_address() {
    let trust = Trust::networks(["127.0.0.0/8"]).expect("a network");
    let rules = r#"rule = [{ name = "a", key = "ip", on_no_key = "deny", limits = "1 per day" }]"#;
    let proxy = start(rules, Some(ClientIp::x_forwarded_for(trust)));
    let mut client = Peer::connect(proxy.address);
    for (forwarded, status) in [
        ("192.0.2.7", 200),
        ("6.6.6.6, 192.0.2.7", 429),
        ("2001:db8::1", 200),
        ("2001:db8::2", 429), // of one network of 64 bits, which is the rules' choice
        ("192.0.2.7, x", 400),
    ] {
        let header = format!("x-forwarded-for: {forwarded}\r\n");
        assert_eq!(client.ask("GET /", &header).0, status, "{forwarded}");
    }
}

#[test]
fn a_queue_holds_requests_until_their_turn() {
    let rules = r#"
        rule = [{ name = "a", key = "none", algorithm = "leaky-queue", limits = "5/s" }]
    "#;
    let proxy = start(rules, None);
    let mut client = Peer::connect(proxy.address);
    let begin = Instant::now();
    for _ in 0..3 {
        assert_eq!(client.ask("GET /", "").0, 200);
    }
    // The second and the third request have turns of their own, a fifth of a second apart.
    assert!(begin.elapsed() >= Duration::from_millis(390), "{:?}", begin.elapsed());
    assert_eq!(counted(&proxy), (3, 0, 3));
}

#[test]
fn a_rule_by_host_counts_a_whole_url_without_the_header_host() {
    let rules = r#"
        rule = [{ name = "a", match = { host = "api.example.com" }, key = "none", limits = "1 per day" }]
    "#;
    let proxy = start(rules, None);
    for (target, version, status) in [
        ("http://api.example.com/login", "1.1", 200),
        ("http://api.example.com/login", "1.1", 429),
        ("HTTP://API.example.com:80", "1.1", 429),
        ("http://api.example.com/login", "1.0", 429),
        ("http://www.example.com/login", "1.1", 200),
    ] {
        let request = format!("GET {target} HTTP/{version}\r\n\r\n");
        assert_eq!(status_of(proxy.address, &request), status, "{request}");
    }
}

#[test]
fn a_target_without_a_path_gets_400_and_does_not_reach_the_upstream() {
    let rules = r#"
        rule = [{ name = "a", match = { path = "/login" }, key = "none", limits = "1 per day" }]
    "#;
    let proxy = start(rules, None);
    let status = |line: &str| {
        status_of(proxy.address, &format!("{line} HTTP/1.1\r\nhost: example.com\r\n\r\n"))
    };
    for target in ["login", "login:80", "?a=/login", "a:/login"] {
        assert_eq!(status(&format!("GET {target}")), 400, "{target}");
    }
    assert_eq!(counted(&proxy), (0, 4, 0));
    for line in ["GET /", "OPTIONS *", "GET http://example.com", "GET http://example.com/login"] {
        assert_eq!(status(line), 200, "{line}");
    }
    assert_eq!(status("GET /login"), 429);
}

#[tokio::test]
async fn the_header_host_of_a_request_of_http2_is_its_authority() {
    let rules = r#"
        rule = [{ name = "a", key = "header:host", on_no_key = "skip", limits = "9 per day" }]
    "#;
    let proxy = start(rules, None);
    let remaining = remaining_by_http2(proxy.address, &["", ""]).await;
    assert_eq!(remaining.len(), 2);
}

#[tokio::test]
async fn a_body_of_unknown_length_costs_the_default_in_http2() {
    let rules = r#"
        rule = [{ name = "a", key = "none", limits = "100 per day",
                  cost = { bytes = "request", max = 50, default = 20 } }]
    "#;
    let proxy = start(rules, None);
    let remaining = remaining_by_http2(proxy.address, &["", "hello", ""]).await;
    let cells = remaining.iter().map(|field| field.split([';', '=']).nth(2).expect("a number"));
    assert_eq!(cells.collect::<Vec<_>>(), ["99", "79", "78"], "{remaining:?}");
}

#[test]
fn a_body_of_unknown_length_is_announced_by_transfer_encoding_in_http1() {
    let rules = r#"
        rule = [{ name = "a", key = "none", limits = "100 per day",
                  cost = { bytes = "request", max = 50, default = 20 } }]
    "#;
    let proxy = start(rules, None);
    let remaining = |line: &str, headers: &str| {
        let head = Peer::connect(proxy.address).ask(line, headers).1;
        value(&head, "ratelimit").split([';', '=']).nth(2).expect("a number").to_owned()
    };
    assert_eq!(remaining("POST /", ""), "99");
    assert_eq!(remaining("PUT /", "content-length: 0\r\n"), "98");
    assert_eq!(remaining("POST /", "transfer-encoding: chunked\r\n\r\n0\r\n"), "78");
}

#[test]
fn a_header_that_connection_names_is_no_key() {
    let rules = r#"rule = [{ name = "a", key = "header:x-user", limits = "1 per day" }]"#;
    let proxy = start(rules, None);
    let status = |user: &str, connection: &str| {
        let headers = format!("x-user: {user}\r\nconnection: {connection}\r\n");
        Peer::connect(proxy.address).ask("GET /", &headers).0
    };
    assert_eq!(status("ada", "close"), 200);
    assert_eq!(status("one", "X-User"), 200, "the first without a key");
    assert_eq!(status("two", "X-User"), 429);
    assert_eq!(status("three", "close, , x-user "), 429);
    assert_eq!(status("four", "content-length, x-user"), 429);
    assert_eq!(status("grace", "keep-alive"), 200);
}
