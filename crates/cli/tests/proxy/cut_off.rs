//! HTTP/1.0 has no chunks, so a response without a length ends with the connection. A response that the proxy cuts off
//! must not look complete.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::support::{Proxy, answer, connect, eventually, read_head, upstream};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const PIECE: &[u8] = b"6\r\nhello \r\n";

/// An upstream that sends one piece of its body and no more.
fn mute() -> SocketAddr {
    upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(&[HEAD, PIECE].concat()).expect("written");
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// A client that has the head of a response.
fn begun(proxy: &Proxy) -> TcpStream {
    let mut client = connect(proxy.listen);
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("written");
    let head = read_head(&mut client);
    assert!(head.starts_with("HTTP/1.0 200 ") && !head.contains("chunked"), "{head}");
    client
}

/// The body begins as it should, and its connection is reset.
fn is_reset(mut client: TcpStream) {
    let mut body = Vec::new();
    let read = client.read_to_end(&mut body).map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::ConnectionReset));
    assert!(body.chunks(6).all(|piece| b"hello ".starts_with(piece)));
}

#[test]
fn an_http_1_0_client_sees_a_reset_if_the_proxy_stops_within_a_response() {
    let mut proxy = Proxy::before("stops", mute(), &["--drain-timeout", "0.3"]);
    let mut client = begun(&proxy);
    client.read_exact(&mut [0; 6]).expect("the first piece");
    proxy.signal("TERM");
    is_reset(client);
    assert_eq!(proxy.wait(), 1);
}

#[test]
fn an_http_1_0_client_sees_a_reset_if_it_is_given_up_after_it_has_closed_its_sending_side() {
    let proxy = Proxy::before("half-closed", mute(), &["--half-close-timeout", "0.3"]);
    let client = begun(&proxy);
    client.shutdown(Shutdown::Write).expect("open");
    is_reset(client);
}

#[test]
fn an_http_1_0_client_sees_a_reset_if_it_is_given_up_because_it_does_not_read() {
    let endless = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(HEAD).expect("written");
        // Wait until the proxy closes the connection.
        let body = "hello ".repeat(10_000);
        let piece = format!("{:x}\r\n{body}\r\n", body.len());
        while stream.write_all(piece.as_bytes()).is_ok() {}
    });
    let proxy = Proxy::before("unread", endless, &["--body-timeout", "3"]);
    let client = begun(&proxy);
    eventually("it is given up", || proxy.metric("tollgate_connections_open") == 0.0);
    is_reset(client);
}

#[test]
fn an_http_1_0_client_sees_a_close_after_a_response_without_length_or_body() {
    let chunked = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(HEAD).expect("written");
    });
    let proxy = Proxy::before("head", chunked, &[]);
    let mut client = connect(proxy.listen);
    client.write_all(b"HEAD / HTTP/1.0\r\n\r\n").expect("written");
    let answer = answer(client);
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
}
