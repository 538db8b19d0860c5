//! Bodies are forwarded as they arrive, without buffering.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{PATIENCE, Proxy, connect, eventually, read_head, upstream};

const SENT: usize = 128 << 20;

/// An upper bound on the bytes in the sockets of two connections and in the proxy; the tests send more.
fn kept_max() -> usize {
    // The least, the usual and the largest size of a socket's buffer.
    let largest = |name: &str| {
        let sizes = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
        sizes.split_whitespace().last()?.parse::<usize>().ok()
    };
    let sockets = largest("tcp_rmem").zip(largest("tcp_wmem"));
    let max =
        sockets.map_or(32 << 20, |(receiving, sending)| 2 * (receiving + sending) + (8 << 20));
    assert!(max < SENT, "the system's sockets hold too much for this test: {max} bytes");
    max
}

#[test]
fn each_chunk_is_forwarded_before_the_next_is_sent() {
    let echo = upstream(|mut stream| {
        read_head(&mut stream);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .expect("written");
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            // Echo each chunk.
            stream.write_all(&bytes[..count]).expect("written");
        }
    });
    let proxy = Proxy::before("pieces", echo, &[]);
    let mut client = connect(proxy.listen);
    let head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    client.write_all(head).expect("written");
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200 OK\r\n"));
    for piece in ["one", "two", "three"] {
        let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
        client.write_all(chunk.as_bytes()).expect("written");
        let mut back = vec![0; chunk.len()];
        client.read_exact(&mut back).expect("it is passed on");
        assert_eq!(String::from_utf8(back).expect("UTF-8").to_ascii_lowercase(), chunk);
    }
}

#[test]
fn an_upload_is_not_buffered_while_the_upstream_does_not_read() {
    let stuck = upstream(|mut stream| {
        read_head(&mut stream);
        // Longer than the test: the proxy reads the rest of a body whose upstream has gone.
        std::thread::sleep(PATIENCE);
    });
    let proxy = Proxy::before("upload", stuck, &[]);
    let mut client = connect(proxy.listen);
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {SENT}\r\n\r\n");
    client.write_all(head.as_bytes()).expect("written");
    client.set_write_timeout(Some(Duration::from_millis(500))).expect("set");
    let sent = write_until_stuck(&mut client);
    assert!(sent < kept_max(), "{sent}");
}

#[test]
fn a_download_is_not_buffered_while_the_client_does_not_read_and_is_complete_later() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let big = upstream(move |mut stream| {
        read_head(&mut stream);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SENT}\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("written");
        let bytes = vec![7; 64 << 10];
        for _ in 0..SENT / bytes.len() {
            stream.write_all(&bytes).expect("written");
            count.fetch_add(bytes.len(), Ordering::Relaxed);
        }
    });
    let proxy = Proxy::before("download", big, &[]);
    let mut client = connect(proxy.listen);
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("written");
    read_head(&mut client);
    eventually("the upstream sends", || sent.load(Ordering::Relaxed) > 0);
    std::thread::sleep(Duration::from_millis(500));
    let kept = sent.load(Ordering::Relaxed);
    assert!((1..kept_max()).contains(&kept), "{kept}");
    let mut received = 0;
    let mut bytes = vec![0; 256 << 10];
    while let count @ 1.. = client.read(&mut bytes).expect("read") {
        assert!(bytes[..count].iter().all(|byte| *byte == 7));
        received += count;
    }
    assert_eq!(received, SENT);
}

/// How many bytes can be written before writes block.
fn write_until_stuck(stream: &mut TcpStream) -> usize {
    let bytes = vec![7; 64 << 10];
    let mut sent = 0;
    while sent < SENT {
        match stream.write(&bytes) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    sent
}
