//! Stopping: requests in flight finish, or are cut off after the drain timeout.

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{Proxy, answer, connect, eventually, get, read_head, upstream};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn sigterm_finishes_a_request_in_flight() {
    let (go, gone) = mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let slow = upstream(move |mut stream| {
        read_head(&mut stream);
        gone.lock().expect("no panic").recv().expect("requested");
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").expect("written");
    });
    let mut proxy = Proxy::before("drain", slow, &[]);
    let idle = connect(proxy.listen);
    let mut client = connect(proxy.listen);
    client.write_all(REQUEST).expect("written");
    eventually("it is in flight", || proxy.metric("tollgate_http_requests_in_flight") == 1.0);
    proxy.signal("TERM");
    eventually("no more connections", || TcpStream::connect(proxy.listen).is_err());
    assert_eq!(get(proxy.admin, "/healthz", "").status, 503);
    go.send(()).expect("it waits");
    let answer = answer(client);
    assert_eq!((answer.status, answer.body.as_str()), (200, "done"));
    assert_eq!(proxy.wait(), 0);
    drop(idle);
}

#[test]
fn a_request_that_exceeds_the_drain_timeout_is_cut_off() {
    let never = upstream(|mut stream| {
        read_head(&mut stream);
        read_head(&mut stream); // until the proxy hangs up
    });
    let mut proxy = Proxy::before("cut", never, &["--drain-timeout", "0.3"]);
    let mut client = connect(proxy.listen);
    client.write_all(REQUEST).expect("written");
    eventually("it is in flight", || proxy.metric("tollgate_http_requests_in_flight") == 1.0);
    let began = Instant::now();
    proxy.signal("INT");
    assert_eq!(proxy.wait(), 1);
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert!(proxy.stderr().contains("requests cut off: 1"), "{}", proxy.stderr());
}

#[test]
fn a_connection_that_has_had_no_request_is_not_cut_off() {
    let mut proxy = Proxy::start("unused", &["--drain-timeout", "0.3", "--header-timeout", "60"]);
    let mut client = connect(proxy.listen);
    client.write_all(b"GET / HTTP/1.1\r\nhost").expect("written");
    eventually("it is open", || proxy.metric("tollgate_connections_open") == 1.0);
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), 0);
    assert!(!proxy.stderr().contains("cut off"), "{}", proxy.stderr());
}

#[test]
fn a_second_signal_stops_immediately() {
    let never = upstream(|mut stream| {
        read_head(&mut stream);
        read_head(&mut stream);
    });
    let mut proxy = Proxy::before("twice", never, &["--drain-timeout", "60"]);
    let mut client = connect(proxy.listen);
    client.write_all(REQUEST).expect("written");
    eventually("it is in flight", || proxy.metric("tollgate_http_requests_in_flight") == 1.0);
    proxy.signal("TERM");
    eventually("it stops", || proxy.stderr().contains("stopping; requests in flight: 1"));
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), 1);
}
