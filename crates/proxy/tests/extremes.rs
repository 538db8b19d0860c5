//! A proxy with the largest values that its configuration can hold, over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use http::Request;
use tollgate_proxy::{BodyRate, Config, Timeouts};

/// The longest wait of a step. It only ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(60);
const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn config(upstream: SocketAddr) -> Config {
    let max = Duration::MAX;
    Config {
        listen: ANY_PORT,
        admin: ANY_PORT,
        rules: None,
        upstream: Some(format!("http://{upstream}").parse().expect("a URL")),
        upstream_ca: None,
        upstream_http2: false,
        preserve_host: false,
        any_field_names: false,
        trusted_proxies: None,
        trusted_hops: Some(u8::MAX),
        timeouts: Timeouts {
            header: max,
            connect: max,
            response: max,
            body: max,
            half_close: max,
            tunnel: max,
            drain: max,
        },
        body_rate: BodyRate { grace: max, min_bytes_per_s: u32::MAX },
        max_connections: u32::MAX,
        max_connections_per_client: Some(u32::MAX),
        max_waiting: usize::MAX,
        dialect: None,
    }
}

/// Starts a proxy that runs until the test process ends, and returns its address.
fn start(config: Config) -> SocketAddr {
    let (sender, announced) = mpsc::channel();
    std::thread::spawn(move || {
        tollgate_proxy::run(config, |text| Ok(sender.send(text.to_owned())?))
    });
    let text = announced.recv_timeout(PATIENCE).expect("it starts");
    let (_, rest) = text.split_once("http://").expect("the address to listen at");
    rest[..rest.find(' ').expect("the end of the address")].parse().expect("an address")
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("listening");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// The head of a message; less if the connection ends.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("UTF-8")
}

/// A server that echoes the bytes after an upgrade, and answers `ok` to other requests.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind(ANY_PORT).expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            std::thread::spawn(move || {
                while let head = read_head(&mut stream)
                    && !head.is_empty()
                {
                    if !head.contains("upgrade: ") {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
                        continue;
                    }
                    let _ = stream.write_all(
                        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                          upgrade: websocket\r\n\r\n",
                    );
                    let mut reader = stream.try_clone().expect("open");
                    let _ = std::io::copy(&mut reader, &mut stream);
                }
            });
        }
    });
    address
}

#[test]
fn the_longest_timeouts_end_no_request() {
    let proxy = start(config(upstream()));
    let mut stream = connect(proxy);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200 "));

    let mut tunnel = connect(proxy);
    let head = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    tunnel.write_all(head).expect("written");
    assert!(read_head(&mut tunnel).starts_with("HTTP/1.1 101 "));
    for sent in [*b"ping", *b"pong"] {
        tunnel.write_all(&sent).expect("written");
        let mut echoed = [0; 4];
        tunnel.read_exact(&mut echoed).expect("the tunnel is open");
        assert_eq!(echoed, sent);
    }
}

#[tokio::test]
async fn the_longest_timeouts_end_no_http2_stream() {
    let stream =
        tokio::net::TcpStream::connect(start(config(upstream()))).await.expect("listening");
    let (mut client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    for _ in 0..8 {
        let request = Request::get("http://a/").body(()).expect("a request");
        let (response, _) = client.send_request(request, true).expect("sent");
        let response = tokio::time::timeout(PATIENCE, response).await.expect("in time");
        let mut body = response.expect("an answer").into_body();
        assert_eq!(body.data().await.expect("a body").expect("whole"), "ok");
    }
}
