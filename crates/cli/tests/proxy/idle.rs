//! HTTP/2 connections without a request in flight: they are closed after a while, or to make room.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::task::JoinHandle;

use crate::server::runtime;
use crate::support::{PATIENCE, Proxy, connect, eventually, get, read_head, upstream};

/// An upstream whose responses take this long before the head, and again before the body.
fn slow(pause: Duration) -> SocketAddr {
    upstream(move |mut stream| {
        read_head(&mut stream);
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n";
        for part in [head, "done"] {
            std::thread::sleep(pause);
            stream.write_all(part.as_bytes()).expect("written");
        }
    })
}

/// A client that keeps its connection, and the task that ends with the connection.
struct Http2 {
    requests: SendRequest<Bytes>,
    closed: JoinHandle<Result<(), h2::Error>>,
}

impl Http2 {
    async fn connect(proxy: &Proxy) -> Self {
        let stream = tokio::net::TcpStream::connect(proxy.listen).await.expect("listening");
        let (requests, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        Self { requests, closed: tokio::spawn(connection) }
    }

    /// Sends a request, and reads its response of four bytes.
    async fn ask(&mut self) {
        std::future::poll_fn(|context| self.requests.poll_ready(context)).await.expect("open");
        let request = Request::get("http://a/").body(()).expect("a request");
        let (response, _) = self.requests.send_request(request, true).expect("sent");
        let mut body = response.await.expect("an answer").into_body();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            let data = data.expect("a whole body");
            body.flow_control().release_capacity(data.len()).expect("released");
            bytes.extend_from_slice(&data);
        }
        assert_eq!(bytes, b"done");
    }
}

#[test]
fn an_http2_connection_is_closed_when_it_idles_but_not_during_a_request() {
    let words = ["--header-timeout", "0.5"];
    let proxy = Proxy::before("idle-http2", slow(Duration::from_secs(1)), &words);
    runtime().block_on(async {
        let mut client = Http2::connect(&proxy).await;
        client.ask().await;
        let closed = tokio::time::timeout(PATIENCE, client.closed).await;
        closed.expect("in time").expect("no panic").expect("closed in order");
    });
}

#[test]
fn idle_http2_connections_make_room_for_another_client() {
    let proxy = Proxy::before(
        "idle-room",
        slow(Duration::ZERO),
        &["--max-connections", "4", "--header-timeout", "3600"],
    );
    runtime().block_on(async {
        let mut idle = Vec::new();
        for _ in 0..4 {
            let mut client = Http2::connect(&proxy).await;
            client.ask().await;
            idle.push(client);
        }
        let listen = proxy.listen;
        let other = tokio::task::spawn_blocking(move || get(listen, "/", "").status);
        assert_eq!(other.await.expect("an answer"), 200);
        // The others may stay.
        assert!(idle.iter().any(|client| client.closed.is_finished()));
    });
}

/// A client that has received the response to `GET http://a/` and answers none of the frames.
fn silent(proxy: &Proxy) -> TcpStream {
    let mut client = connect(proxy.listen);
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    // The first stream, which ends with its head.
    let request = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a";
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    client.write_all(&[&preface[..], settings, request].concat()).expect("written");
    let mut received = Vec::new();
    while !received.ends_with(b"done") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("a response");
        received.push(byte[0]);
    }
    client
}

#[test]
fn a_silent_http2_client_loses_its_connection() {
    let words = ["--header-timeout", "0.5"];
    let proxy = Proxy::before("idle-silent", slow(Duration::ZERO), &words);
    let mut client = silent(&proxy);
    // Closed or reset.
    let _ = client.read_to_end(&mut Vec::new());
    eventually("its slot is free", || proxy.metric("tollgate_connections_open") == 0.0);
}

#[test]
fn a_silent_http2_client_is_not_waited_for_at_a_stop() {
    let words = ["--drain-timeout", "3600", "--header-timeout", "3600"];
    let mut proxy = Proxy::before("stop-silent", slow(Duration::ZERO), &words);
    let _client = silent(&proxy);
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), 0, "no request was cut off");
}
