//! Upgraded connections: one request, then bytes in both directions.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;

use crate::failures::failures;
use crate::server::{Authority, Body, serve, text};
use crate::support::{Proxy, connect, eventually, read_head, scratch, upstream, value};

const ASK: &str = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\n\
                   upgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n\
                      upgrade: websocket\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// An upstream that accepts the upgrade and echoes bytes. The receiver gets the heads of requests.
fn echo() -> (SocketAddr, mpsc::Receiver<String>) {
    let (sender, heads) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let address = upstream(move |mut stream| {
        let head = read_head(&mut stream).to_ascii_lowercase();
        sender.lock().expect("no panic").send(head).expect("it is heard");
        stream.write_all(AGREED.as_bytes()).expect("written");
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            stream.write_all(&bytes[..count]).expect("written");
        }
    });
    (address, heads)
}

fn upgraded(proxy: &Proxy) -> TcpStream {
    let mut client = connect(proxy.listen);
    client.write_all(ASK.as_bytes()).expect("written");
    let head = read_head(&mut client);
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    client
}

fn echoed(client: &mut TcpStream, text: &str) {
    client.write_all(text.as_bytes()).expect("written");
    let mut back = vec![0; text.len()];
    client.read_exact(&mut back).expect("it comes back");
    assert_eq!(back, text.as_bytes());
}

fn is(proxy: &Proxy, name: &str, figure: f64) -> bool {
    proxy.metric(name).to_bits() == figure.to_bits()
}

#[test]
fn a_web_socket_is_forwarded_both_ways_and_counts_as_one_request() {
    let (up, heads) = echo();
    let rules = scratch("upgrade.toml", r#"rule = [{ name = "a", limits = "1/day" }]"#);
    let (url, rules) = (format!("http://{up}"), rules.to_str().expect("UTF-8"));
    let proxy = Proxy::start("upgrade", &["--upstream", &url, "--rules", rules]);
    let mut client = connect(proxy.listen);
    // Bytes sent directly after the head must not be lost.
    client.write_all(format!("{ASK}early").as_bytes()).expect("written");
    let head = read_head(&mut client).to_ascii_lowercase();
    for (name, expected) in [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-accept", "s3pplmbitxaq9kygzzhzrbk+xoo="),
        ("via", "1.1 tollgate"),
    ] {
        assert_eq!(value(&head, name), expected, "{head}");
    }
    let asked = heads.recv().expect("it was sent");
    assert_eq!((value(&asked, "connection"), value(&asked, "upgrade")), ("upgrade", "websocket"));
    assert_eq!(value(&asked, "sec-websocket-key"), "dghlihnhbxbszsbub25jzq==");
    let mut early = [0; 5];
    client.read_exact(&mut early).expect("it comes back");
    assert_eq!(&early, b"early");
    for number in 0..100 {
        echoed(&mut client, &format!("message {number}"));
    }
    assert!(is(&proxy, "tollgate_upgrades_total", 1.0));
    assert!(is(&proxy, "tollgate_tunnels_open", 1.0));
    assert!(is(&proxy, "tollgate_connections_open", 1.0));
    assert!(is(&proxy, "tollgate_decisions_total{decision=\"admitted\"}", 1.0));
    assert!(is(&proxy, "tollgate_http_requests_total{code=\"101\"}", 1.0));
    let mut second = connect(proxy.listen);
    second.write_all(ASK.as_bytes()).expect("written");
    assert!(read_head(&mut second).starts_with("HTTP/1.1 429 "));
    drop(second);

    // One direction ends; the other ends when all bytes are echoed.
    client.write_all(b"last").expect("written");
    client.shutdown(Shutdown::Write).expect("shut");
    let mut rest = String::new();
    client.read_to_string(&mut rest).expect("it ends");
    assert_eq!(rest, "last");
    eventually("it is closed", || is(&proxy, "tollgate_tunnels_open", 0.0));
    eventually("it is closed", || is(&proxy, "tollgate_connections_open", 0.0));
    let sent = 5 + (0..100).map(|number| format!("message {number}").len()).sum::<usize>() + 4;
    let sent = f64::from(u32::try_from(sent).expect("small"));
    assert!(is(&proxy, "tollgate_tunnel_bytes_total{to=\"upstream\"}", sent));
    assert!(is(&proxy, "tollgate_tunnel_bytes_total{to=\"client\"}", sent));
}

#[test]
fn an_upgrade_that_is_declined_or_would_hide_requests_is_an_ordinary_request() {
    let (sender, heads) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let up = upstream(move |mut stream| {
        loop {
            let head = read_head(&mut stream).to_ascii_lowercase();
            if head.is_empty() {
                return;
            }
            sender.lock().expect("no panic").send(head).expect("it is heard");
            let answer =
                b"HTTP/1.1 426 Upgrade Required\r\nupgrade: foo\r\ncontent-length: 2\r\n\r\nno";
            stream.write_all(answer).expect("written");
        }
    });
    let proxy = Proxy::before("declined", up, &[]);
    let mut client = connect(proxy.listen);
    for (protocol, passed) in
        [("websocket", "websocket"), ("h2c", ""), ("HTTP/2.0", ""), ("TLS/1.0", "")]
    {
        client
            .write_all(ASK.replace("websocket\r", &format!("{protocol}\r")).as_bytes())
            .expect("written");
        assert!(read_head(&mut client).starts_with("HTTP/1.1 426 "), "{protocol}");
        let mut body = [0; 2];
        client.read_exact(&mut body).expect("a body");
        let head = heads.recv().expect("it was sent");
        assert_eq!(value(&head, "upgrade"), passed, "{head}");
    }
    assert!(is(&proxy, "tollgate_upgrades_total", 0.0));
}

#[test]
fn a_required_upgrade_is_told_to_a_client_that_can_ask_for_it_and_is_a_502_to_others() {
    let up = upstream(|mut stream| {
        loop {
            let head = read_head(&mut stream);
            let Some(target) = head.split(' ').nth(1) else { return };
            let upgrade = match target {
                "/none" => String::new(),
                target => format!("connection: upgrade\r\nupgrade: {}\r\n", &target[1..]),
            };
            let answer =
                format!("HTTP/1.1 426 Upgrade Required\r\n{upgrade}content-length: 2\r\n\r\nno");
            stream.write_all(answer.as_bytes()).expect("written");
        }
    });
    let proxy = Proxy::before("required", up, &[]);
    let mut client = connect(proxy.listen);
    let mut told = |target: &str, version: &str| {
        let request = format!("GET {target} HTTP/{version}\r\nhost: a\r\n\r\n");
        client.write_all(request.as_bytes()).expect("written");
        let head = read_head(&mut client).to_ascii_lowercase();
        let length = value(&head, "content-length").parse().expect("a length");
        client.read_exact(&mut vec![0; length]).expect("a body");
        [&head[9..12], value(&head, "upgrade"), value(&head, "connection")].map(str::to_owned)
    };
    assert_eq!(told("/websocket", "1.1"), ["426", "websocket", "upgrade"]);
    assert_eq!(told("/foo/2,h2c,websocket", "1.1"), ["426", "foo/2, websocket", "upgrade"]);
    assert_eq!(told("/none", "1.1"), ["426", "", ""]);
    assert_eq!(told("/h2c,TLS/1.0", "1.1"), ["502", "", ""]);
    assert_eq!(told("/websocket", "1.0")[..2], ["502", ""]);
    assert_eq!(failures(&proxy, "upgrade_required"), 2);
}

#[test]
fn an_upgrade_without_a_request_for_it_is_a_502() {
    let up = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(AGREED.replace("websocket", "h2c").as_bytes()).expect("written");
    });
    let proxy = Proxy::before("unasked", up, &[]);
    let mut client = connect(proxy.listen);
    client.write_all(ASK.as_bytes()).expect("written");
    assert!(read_head(&mut client).starts_with("HTTP/1.1 502 "));
}

#[test]
fn a_stop_waits_for_tunnels_until_the_drain_timeout() {
    let (up, _heads) = echo();
    let mut proxy = Proxy::before("upgrade-cut", up, &["--drain-timeout", "3"]);
    let mut client = upgraded(&proxy);
    let began = Instant::now();
    proxy.signal("TERM");
    eventually("it stops", || proxy.stderr().contains("stopping"));
    echoed(&mut client, "still here");
    assert_eq!(proxy.wait(), 1);
    assert!(began.elapsed() >= Duration::from_secs(3));
    assert!(proxy.stderr().contains("upgraded connections: 1"), "{}", proxy.stderr());
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));

    let mut proxy = Proxy::before("upgrade-ends", up, &["--drain-timeout", "60"]);
    let mut client = upgraded(&proxy);
    proxy.signal("TERM");
    eventually("it stops", || proxy.stderr().contains("stopping"));
    echoed(&mut client, "bye");
    drop(client);
    assert_eq!(proxy.wait(), 0);
}

#[test]
fn an_idle_tunnel_is_ended() {
    let (up, _heads) = echo();
    let proxy = Proxy::before("upgrade-idle", up, &["--tunnel-timeout", "3"]);
    let mut client = upgraded(&proxy);
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(400));
        echoed(&mut client, "moving");
    }
    assert_eq!(client.read(&mut [0]).expect("closed"), 0);
    eventually("it is counted", || is(&proxy, "tollgate_stalls_total{of=\"tunnel\"}", 1.0));
    eventually("it is closed", || is(&proxy, "tollgate_tunnels_open", 0.0));
}

#[test]
fn a_tunnel_whose_client_sends_and_does_not_read_is_not_idle() {
    let up = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(AGREED.as_bytes()).expect("written");
        let bytes = vec![7; 64 << 10];
        // Wait until the proxy closes the connection.
        while stream.write_all(&bytes).is_ok() {}
    });
    let timeouts = ["--body-timeout", "0.5", "--tunnel-timeout", "3"];
    let proxy = Proxy::before("upgrade-unread", up, &timeouts);
    let mut client = upgraded(&proxy);
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        client.write_all(b"more").expect("the tunnel is open");
    }
    let sent = Instant::now();
    assert!(is(&proxy, "tollgate_tunnels_open", 1.0));
    eventually("it is closed", || is(&proxy, "tollgate_tunnels_open", 0.0));
    // It ends only when the client sends nothing either.
    assert!(sent.elapsed() >= Duration::from_secs(2), "{:?}", sent.elapsed());
    assert!(is(&proxy, "tollgate_stalls_total{of=\"tunnel\"}", 1.0));
    assert!(is(&proxy, "tollgate_stalls_total{of=\"reader\"}", 0.0));
}

#[test]
fn a_tunnel_whose_upstream_sends_and_does_not_read_is_not_idle() {
    let up = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(AGREED.as_bytes()).expect("written");
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(100));
            stream.write_all(b"more").expect("the tunnel is open");
        }
        // Wait until the proxy closes the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let proxy = Proxy::before("upgrade-unread-up", up, &["--body-timeout", "0.5"]);
    let mut client = upgraded(&proxy);
    let mut writer = client.try_clone().expect("a socket");
    let writes = std::thread::spawn(move || {
        let bytes = vec![7; 64 << 10];
        // Wait until the proxy closes the connection.
        while writer.write_all(&bytes).is_ok() {}
    });
    client.read_exact(&mut [0; 20 * 4]).expect("the tunnel is open");
    client.shutdown(Shutdown::Both).expect("shut");
    writes.join().expect("no panic");
    for of in ["response", "upload", "reader", "tunnel"] {
        assert!(is(&proxy, &format!("tollgate_stalls_total{{of=\"{of}\"}}"), 0.0), "{of}");
    }
}

#[test]
fn an_upstream_that_disconnects_ends_the_tunnel() {
    let up = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(AGREED.as_bytes()).expect("written");
    });
    let proxy = Proxy::before("upgrade-gone", up, &[]);
    let mut client = upgraded(&proxy);
    assert_eq!(client.read(&mut [0]).expect("closed"), 0);
    drop(client);
    eventually("it is closed", || is(&proxy, "tollgate_tunnels_open", 0.0));
}

/// The upstream would choose HTTP/2, which cannot be upgraded, if it were offered.
#[test]
fn a_web_socket_reaches_an_https_upstream() {
    let authority = Authority::new();
    let config = authority.certify(&["localhost"], &["h2", "http/1.1"]);
    let up = serve(Some(config), async |mut request: Request<Incoming>| {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let upgraded = upgrade.await.expect("it is upgraded");
            let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
            // Wait until the client has closed.
            let _ = tokio::io::copy(&mut from, &mut to).await;
        });
        let response = Response::builder().status(101).header("connection", "upgrade");
        let response: Response<Body> =
            response.header("upgrade", "websocket").body(text("")).expect("a response");
        response
    });
    let file = authority.file("upgrade-tls");
    let url = format!("https://localhost:{}", up.port());
    let words = ["--upstream", &url, "--upstream-ca", file.to_str().expect("UTF-8")];
    let proxy = Proxy::start("upgrade-tls", &words);
    echoed(&mut upgraded(&proxy), "over TLS");
}
