//! The bandwidth of responses: `bytes` in a rule.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::{Proxy, connect, get, read_head, scratch, upstream};

const BODY: usize = 400_000;

/// An upstream with a large body, and a rule of 500 kB/s for each user.
fn proxy(name: &str) -> Proxy {
    let large: SocketAddr = upstream(|mut stream| {
        if !read_head(&mut stream).is_empty() {
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY}\r\nconnection: close\r\n\r\n");
            // A client may have left.
            let _ = stream.write_all(&[head.as_bytes(), &vec![b'x'; BODY]].concat());
        }
    });
    let rules = r#"rule = [{ name = "each", match = { path = "/slow" }, key = "header:x-user",
        bytes = "500kB/s burst 100kB" }]"#;
    let rules = scratch(&format!("{name}.toml"), rules);
    let url = format!("http://{large}");
    Proxy::start(name, &["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")])
}

/// How long the body takes.
fn download(listen: SocketAddr, path: &str, user: &str) -> Duration {
    let began = Instant::now();
    let answer = get(listen, path, &format!("x-user: {user}\r\n"));
    assert_eq!((answer.status, answer.body.len()), (200, BODY));
    began.elapsed()
}

#[test]
fn a_body_passes_at_the_rate_of_its_key_and_no_slower() {
    let proxy = proxy("bytes");
    let listen = proxy.listen;
    // 300 kB beyond the burst take 0.6 s. A part of it is in buffers when the last byte is charged.
    let one = download(listen, "/slow", "ada");
    assert!((550..3_000).contains(&one.as_millis()), "{one:?}");
    assert!(download(listen, "/fast", "ada") < one, "no rule applies");
    // Two bodies of one key share its rate: 800 kB from an empty bucket. Another key has its own.
    let began = Instant::now();
    let clients = ["ada", "ada", "bob"]
        .map(|user| std::thread::spawn(move || download(listen, "/slow", user)));
    let [first, second, other] = clients.map(|client| client.join().expect("no panic"));
    let both = began.elapsed();
    assert!(both.as_millis() >= 1_350, "{both:?}: {first:?}, {second:?}");
    assert!(other < first.max(second), "{other:?}: {first:?}, {second:?}");
    let decided = |word: &str| {
        proxy.metric(&format!("tollgate_decisions_total{{decision=\"{word}\"}}")).to_string()
    };
    assert_eq!(["admitted", "no_rule"].map(decided), ["4", "1"]);
}

#[test]
fn a_client_that_leaves_returns_what_it_did_not_take() {
    let proxy = proxy("bytes-left");
    let mut client = connect(proxy.listen);
    let head = "GET /slow HTTP/1.1\r\nhost: a\r\nx-user: eve\r\n\r\n";
    client.write_all(head.as_bytes()).expect("written");
    assert!(read_head(&mut client).contains("200 OK"));
    client.read_exact(&mut [0; 1_000]).expect("the first bytes");
    drop(client);
    // At most the burst and what the sockets took was charged, so this is no slower than a first download.
    let next = download(proxy.listen, "/slow", "eve");
    assert!(next.as_millis() < 5_000, "{next:?}");
}

/// The rate is too low for the body of any denial, and the server of the store does not answer.
#[test]
fn a_denial_by_a_store_is_not_paced() {
    let burst = upstream(|mut stream| {
        if !read_head(&mut stream).is_empty() {
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(&[head.as_bytes(), &[b'x'; 100_000]].concat());
        }
    });
    let rules = r#"rule = [
        { name = "paced", key = "header:x-user", bytes = "1B/s burst 100kB" },
        { name = "stored", key = "header:x-user", limits = "1/day",
          store = { url = "redis://127.0.0.1:1", ask = "always", fallback = "local" } }]"#;
    let rules = scratch("bytes-store.toml", rules);
    let url = format!("http://{burst}");
    let proxy = Proxy::start(
        "bytes-store",
        &["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")],
    );
    assert_eq!(get(proxy.listen, "/", "x-user: ada\r\n").status, 200);
    let began = Instant::now();
    assert_eq!(get(proxy.listen, "/", "x-user: ada\r\n").status, 429);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
