//! Requests in flight: `concurrency` in a rule.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use crate::limits::assert_denied;
use crate::support::{Proxy, answer, connect, eventually, get, read_head, scratch, upstream};

/// An upstream that hands out its connections, each after the head of a request. The test answers them.
fn held() -> (SocketAddr, Receiver<TcpStream>) {
    let (sender, requests) = channel();
    let sender = Mutex::new(sender);
    let address = upstream(move |mut stream| {
        if !read_head(&mut stream).is_empty() {
            // The test may have ended.
            let _ = sender.lock().expect("no panic").send(stream);
        }
    });
    (address, requests)
}

fn proxy(name: &str, upstream: SocketAddr, rules: &str) -> Proxy {
    let rules = scratch(&format!("{name}.toml"), rules);
    let url = format!("http://{upstream}");
    Proxy::start(name, &["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")])
}

/// Sends a request of this user, and does not wait for the response.
fn begin(proxy: &Proxy, user: &str) -> TcpStream {
    let mut client = connect(proxy.listen);
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-user: {user}\r\n\r\n");
    client.write_all(head.as_bytes()).expect("written");
    client
}

/// Whether a request of this user would be denied. An admitted request is answered.
fn is_denied(proxy: &Proxy, requests: &Receiver<TcpStream>, user: &str) -> bool {
    let client = begin(proxy, user);
    let mut first = [0; 12];
    loop {
        if let Ok(mut stream) = requests.try_recv() {
            client.set_nonblocking(false).expect("set");
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
                .expect("written");
            assert_eq!(answer(client).status, 204);
            return false;
        }
        client.set_nonblocking(true).expect("set");
        if client.peek(&mut first).is_ok_and(|count| count == first.len()) {
            client.set_nonblocking(false).expect("set");
            assert_eq!(answer(client).status, 429);
            return true;
        }
        std::thread::yield_now();
    }
}

const RULES: &str = r#"rule = [{ name = "at-once", key = "header:x-user", capacity = 1000, concurrency = 2,
        limits = "1000/s" }]"#;

#[test]
fn a_ban_of_a_rule_without_limits_is_reported_as_abnormal_usage() {
    let (upstream, requests) = held();
    let rules = r#"rule = [{ name = "one", key = "none", concurrency = 1, penalty = "10 min" }]"#;
    let proxy = proxy("in-flight-ban", upstream, rules);
    let _client = begin(&proxy, "ada");
    let _held = requests.recv().expect("forwarded");
    for kind in ["#quota-exceeded", "#abnormal-usage-detected"] {
        let denied = get(proxy.listen, "/", "");
        assert_denied(&denied, kind, "one");
        let wait: u64 = denied.header("retry-after").parse().expect("seconds");
        assert!((590..=600).contains(&wait), "{wait}");
    }
}

#[test]
fn a_request_is_in_flight_until_its_body_has_been_sent() {
    let (upstream, requests) = held();
    let proxy = proxy("in-flight", upstream, RULES);
    let clients = [begin(&proxy, "ada"), begin(&proxy, "ada")];
    let mut streams = [0, 1].map(|_| requests.recv().expect("forwarded"));
    let denied = get(proxy.listen, "/", "x-user: ada\r\n");
    assert_eq!((denied.status, denied.header("retry-after")), (429, "1"));
    let policy = r#""at-once/concurrency";q=2;qu="concurrent-requests""#;
    assert_eq!(denied.header("ratelimit-policy"), policy);
    assert_eq!(denied.header("ratelimit"), r#""at-once/concurrency";r=0"#);
    assert!(
        denied.body.contains(r#""violated-policies":["at-once/concurrency"]"#),
        "{}",
        denied.body
    );
    assert!(!is_denied(&proxy, &requests, "bob"), "another key");
    for stream in &mut streams {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nab")
            .expect("written");
    }
    let [mut first, second] = clients;
    let head = read_head(&mut first);
    assert!(head.contains(r#""at-once/concurrency";r=1"#) || head.contains(";r=0"), "{head}");
    assert!(is_denied(&proxy, &requests, "ada"), "half of the bodies is missing");
    let [mut one, other] = streams;
    // The proxy may have connected the two requests in either order.
    one.write_all(b"cd").expect("written");
    drop((one, other));
    let bodies = [&mut { first }, &mut { second }].map(|client| {
        let mut body = Vec::new();
        let read = client.read_to_end(&mut body);
        (read.is_ok(), String::from_utf8_lossy(&body).ends_with("abcd"))
    });
    assert_eq!(bodies.iter().filter(|(_, is_whole)| *is_whole).count(), 1, "the other was cut");
    eventually("both have ended", || !is_denied(&proxy, &requests, "ada"));
    let clients = [begin(&proxy, "ada"), begin(&proxy, "ada")];
    let streams = [0, 1].map(|_| requests.recv().expect("two may enter again"));
    assert!(is_denied(&proxy, &requests, "ada"));
    let keys = proxy.metric("tollgate_rule_in_flight_keys{rule=\"at-once\"}");
    assert_eq!(keys.to_bits(), 1_f64.to_bits());
    drop((clients, streams));
}

#[test]
fn a_request_ends_when_its_client_leaves_or_its_upstream_fails() {
    let (upstream, requests) = held();
    let proxy = proxy("in-flight-ends", upstream, RULES);
    let clients = [begin(&proxy, "ada"), begin(&proxy, "ada")];
    let waiting = [0, 1].map(|_| requests.recv().expect("forwarded"));
    assert!(is_denied(&proxy, &requests, "ada"));
    // Before the response.
    drop(clients);
    eventually("the clients have left", || !is_denied(&proxy, &requests, "ada"));

    drop(waiting);
    let clients = [begin(&proxy, "bob"), begin(&proxy, "bob")];
    let streams = [0, 1].map(|_| requests.recv().expect("forwarded"));
    assert!(is_denied(&proxy, &requests, "bob"));
    for stream in streams {
        stream.shutdown(std::net::Shutdown::Both).expect("open");
    }
    assert_eq!(clients.map(|client| answer(client).status), [502; 2]);
    assert!(!is_denied(&proxy, &requests, "bob"), "the upstream has failed");

    // In the middle of the body.
    let clients = [begin(&proxy, "eve"), begin(&proxy, "eve")];
    let mut streams = [0, 1].map(|_| requests.recv().expect("forwarded"));
    for stream in &mut streams {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab").expect("written");
    }
    let mut clients = clients;
    clients.iter_mut().for_each(|client| assert!(read_head(client).contains("200 OK")));
    assert!(is_denied(&proxy, &requests, "eve"));
    drop(clients);
    eventually("the clients have left", || !is_denied(&proxy, &requests, "eve"));
}

#[test]
fn no_more_requests_reach_the_upstream_than_a_rule_allows() {
    let (now, most) = (Arc::new(Mutex::new(0_u32)), Arc::new(Mutex::new(0_u32)));
    let (seen, peak) = (Arc::clone(&now), Arc::clone(&most));
    let address = upstream(move |mut stream| {
        if read_head(&mut stream).is_empty() {
            return;
        }
        let at_once = {
            let mut now = seen.lock().expect("no panic");
            *now += 1;
            *now
        };
        {
            let mut most = peak.lock().expect("no panic");
            *most = at_once.max(*most);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        *seen.lock().expect("no panic") -= 1;
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    });
    let rules = r#"rule = [{ name = "all", key = "none", concurrency = 3 }]"#;
    let proxy = proxy("in-flight-peak", address, rules);
    let listen = proxy.listen;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let statuses = (0..40).map(|_| get(listen, "/", "").status);
                statuses
                    .filter(|status| {
                        assert!([204, 429].contains(status), "{status}");
                        *status == 204
                    })
                    .count()
            })
        })
        .collect();
    let admitted: usize = clients.into_iter().map(|client| client.join().expect("no panic")).sum();
    let most = *most.lock().expect("no panic");
    assert!((2..=3).contains(&most), "{most} at once, {admitted} admitted");
    assert!(admitted >= 40, "{admitted}");
    eventually("none is left in flight", || {
        proxy.metric("tollgate_rule_in_flight_keys{rule=\"all\"}").to_bits() == 0
    });
}
