//! Requests in flight, counted by a real nginx with `limit_conn` and by the limiter: equal decisions.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tollgate::concurrency::{ConcurrencyLimiter, Guard};

use crate::nginx::Nginx;
use crate::support::eventually;

const LIMIT: u64 = 3;
const KEYS: [&str; 3] = ["a", "b", "c"];
const EVENTS: usize = 600;

/// A request that nginx has forwarded and that has no answer yet.
struct Forwarded<'g> {
    client: TcpStream,
    upstream: TcpStream,
    guard: Guard<'g, ConcurrencyLimiter<str>>,
}

pub(crate) fn decisions_equal_those_of_nginx_limit_conn() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it can be");
    let upstream = listener.local_addr().expect("bound");
    let nginx = Nginx::limiting_connections("limit-conn", LIMIT, upstream);
    let gate: ConcurrencyLimiter<str> =
        ConcurrencyLimiter::builder(LIMIT).build().expect("in range");

    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 33).expect("31 bits") % bound
    };
    let mut in_flight: Vec<Forwarded<'_>> = Vec::new();
    let mut decided: HashMap<bool, u32> = HashMap::new();
    for event in 0..EVENTS {
        // Requests begin as fast as they end, around the sum of the limits.
        if below(16) < in_flight.len() {
            finish(in_flight.swap_remove(below(in_flight.len())));
            continue;
        }
        let key = KEYS[below(KEYS.len())];
        let by_nginx = begin(&nginx, &listener, key);
        let ours = gate.enter(key);
        assert_eq!(ours.is_ok(), by_nginx.is_some(), "event {event}, key {key}: {ours:?}");
        *decided.entry(ours.is_ok()).or_default() += 1;
        if let (Ok(guard), Some((client, upstream))) = (ours, by_nginx) {
            in_flight.push(Forwarded { client, upstream, guard });
        }
    }
    let counts = [true, false].map(|admitted| decided.get(&admitted).copied().unwrap_or(0));
    println!("limit_conn: {} admitted, {} denied, all alike", counts[0], counts[1]);
    assert!(counts.iter().all(|count| *count >= 50), "{counts:?}");
    in_flight.into_iter().for_each(finish);
    assert!(gate.is_empty());
}

/// Sends a request. `Some`: nginx forwards it; it then is in flight.
fn begin(nginx: &Nginx, listener: &TcpListener, key: &str) -> Option<(TcpStream, TcpStream)> {
    let mut client = TcpStream::connect(nginx.address).expect("it listens");
    let request = format!("GET / HTTP/1.1\r\nhost: a\r\nx-key: {key}\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).expect("connected");
    client.set_nonblocking(true).expect("it can be");
    let (mut forwarded, mut head) = (None, [0; 12]);
    eventually("nginx forwards or denies", || {
        if let Ok((upstream, _)) = listener.accept() {
            forwarded = Some(upstream);
            return true;
        }
        match client.peek(&mut head) {
            Ok(read) => read == head.len(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                false
            }
        }
    });
    client.set_nonblocking(false).expect("it can be");
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be");
    match forwarded {
        Some(upstream) => {
            upstream.set_nonblocking(false).expect("it can be");
            Some((client, upstream))
        }
        None => {
            assert_eq!(&head, b"HTTP/1.1 503");
            None
        }
    }
}

/// Answers a request, and waits until nginx has closed its connection: it counts it no more by then.
fn finish(Forwarded { mut client, mut upstream, guard }: Forwarded<'_>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut bytes = [0; 1_024];
        let read = upstream.read(&mut bytes).expect("a request");
        assert!(read > 0, "nginx has closed the connection");
        request.extend_from_slice(&bytes[..read]);
    }
    upstream.write_all(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("connected");
    drop(upstream);
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(guard);
}
