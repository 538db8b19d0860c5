//! The bytes on the wire, on both sides of the proxy.

use std::io::Write;
use std::sync::mpsc;

use http_body_util::{BodyExt, Empty, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::failures::{assert_problem, failures};
use crate::support::{Proxy, answer, ask, connect, get, read_head, scratch, send, upstream, value};

/// An upstream that reports the heads it receives, and sends this response.
fn recorder(response: &'static str) -> (std::net::SocketAddr, mpsc::Receiver<String>) {
    let (sender, heads) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let address = upstream(move |mut stream| {
        loop {
            let head = read_head(&mut stream);
            if head.is_empty() {
                return;
            }
            if !head.contains(" HTTP/1.1\r\n") {
                continue; // the end of a body in chunks
            }
            sender.lock().expect("no panic").send(head.to_ascii_lowercase()).expect("it is heard");
            stream.write_all(response.as_bytes()).expect("written");
        }
    });
    (address, heads)
}

#[test]
fn headers_of_a_connection_are_not_forwarded() {
    let (up, heads) = recorder(
        "HTTP/1.1 200 OK\r\nconnection: x-up\r\nx-up: 1\r\nkeep-alive: timeout=5\r\n\
         proxy-authenticate: Basic\r\nx-kept: 1\r\nx-kept: 2\r\nvia: 1.1 other\r\n\
         content-length: 2\r\n\r\nok",
    );
    let proxy = Proxy::before("hops", up, &[]);
    let answer = get(
        proxy.listen,
        "/a%20b/../c?d=%2F",
        "connection: x-down, x-forwarded-for\r\nx-down: 1\r\nkeep-alive: 1\r\nte: trailers\r\n\
         upgrade: websocket\r\nproxy-authorization: Basic eA==\r\nproxy-connection: close\r\n\
         x-forwarded-for: 192.0.2.1\r\nx-forwarded-host: forged\r\nx-forwarded-proto: forged\r\n\
         x-kept: 1\r\nexpect: 100-continue\r\n",
    );
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    for gone in ["x-up", "keep-alive", "proxy-authenticate"] {
        assert_eq!(answer.header(gone), "", "{}", answer.head);
    }
    assert_eq!(answer.head.matches("x-kept: ").count(), 2);
    assert!(answer.head.contains("via: 1.1 other\r\nvia: 1.1 tollgate"), "{}", answer.head);

    let head = heads.recv().expect("it was sent");
    assert!(head.starts_with("get /a%20b/../c?d=%2f http/1.1\r\n"), "{head}");
    for gone in
        ["x-down", "keep-alive", "upgrade", "proxy-authorization", "proxy-connection", "expect"]
    {
        assert_eq!(value(&head, gone), "", "{gone}: {head}");
    }
    assert_eq!((value(&head, "te"), value(&head, "connection")), ("trailers", "te"));
    assert_eq!(value(&head, "host"), up.to_string());
    assert_eq!(value(&head, "x-kept"), "1");
    assert_eq!(value(&head, "x-forwarded-for"), "192.0.2.1, 127.0.0.1");
    assert_eq!(head.matches("x-forwarded-for").count(), 1, "{head}");
    assert_eq!(value(&head, "x-forwarded-host"), "test.example");
    assert_eq!(value(&head, "x-forwarded-proto"), "http");
    assert_eq!(value(&head, "via"), "1.1 tollgate");
}

/// CGI, WSGI and PHP would read each of these as a name with hyphens.
#[test]
fn a_field_name_that_servers_read_in_two_ways_is_not_forwarded() {
    let (up, heads) = recorder("HTTP/1.1 200 OK\r\nx_up: 1\r\ncontent-length: 2\r\n\r\nok");
    let proxy = Proxy::before("field-names", up, &[]);
    let answer = get(
        proxy.listen,
        "/",
        "X_Forwarded_For: 192.0.2.1\r\nX-Forwarded_Host: forged\r\nX_Api_Key: k1\r\n\
         x.api.key: k2\r\nX!Api~Key: k3\r\n_: k4\r\nX-1-Kept: 1\r\n",
    );
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    assert_eq!(answer.header("x_up"), "1", "a client is no CGI program");
    let head = heads.recv().expect("it was sent");
    let names = head.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0));
    let is_clear = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    assert_eq!(names.filter(|name| !is_clear(name)).collect::<Vec<_>>(), [""; 0], "{head}");
    assert_eq!(value(&head, "x-forwarded-for"), "127.0.0.1");
    assert_eq!(value(&head, "x-1-kept"), "1");
}

/// For an upstream that reads names as they are.
#[test]
fn any_field_name_is_forwarded_and_seen_by_rules_where_that_is_asked_for() {
    let (up, heads) = recorder("HTTP/1.1 204 No Content\r\n\r\n");
    let rules = r#"rule = [{ name = "tenant", key = "header:x_tenant.id", limits = "1/day" }]"#;
    let rules = scratch("any-field-names.toml", rules);
    let url = format!("http://{up}");
    let words =
        ["--upstream", &url, "--rules", rules.to_str().expect("UTF-8"), "--any-field-names"];
    let proxy = Proxy::start("any-field-names", &words);
    let statuses = ["a", "a", "b"]
        .map(|tenant| get(proxy.listen, "/", &format!("X_Tenant.Id: {tenant}\r\n")).status);
    assert_eq!(statuses, [204, 429, 204]);
    let head = heads.recv().expect("it was sent");
    assert_eq!(value(&head, "x_tenant.id"), "a");
}

#[test]
fn base_host_and_length_are_kept() {
    let (up, heads) = recorder("HTTP/1.1 204 No Content\r\n\r\n");
    let url = format!("http://{up}/base/");
    let proxy = Proxy::start("base", &["--upstream", &url, "--preserve-host"]);
    assert_eq!(get(proxy.listen, "/x", "content-length: 0\r\n").status, 204);
    let head = heads.recv().expect("it was sent");
    assert!(head.starts_with("get /base/x http/1.1\r\n"), "{head}");
    assert_eq!(value(&head, "host"), "test.example");
    // A response to HEAD has the length of the response to GET.
    let (up, _heads) = recorder("HTTP/1.1 200 OK\r\ncontent-length: 12345\r\n\r\n");
    let proxy = Proxy::before("head", up, &[]);
    let answer = ask(proxy.listen, "HEAD", "/", "");
    assert_eq!((answer.header("content-length"), answer.body.as_str()), ("12345", ""));
}

#[test]
fn an_empty_path_before_a_query_is_the_root() {
    let (up, heads) = recorder("HTTP/1.1 204 No Content\r\n\r\n");
    let rules =
        r#"rule = [{ name = "root", match = { path = "/" }, key = "none", limits = "1/day" }]"#;
    let rules = scratch("empty-path.toml", rules);
    let url = format!("http://{up}");
    let words = ["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")];
    let proxy = Proxy::start("empty-path", &words);
    let statuses = ["http://a?x=1", "/"].map(|target| get(proxy.listen, target, "").status);
    assert_eq!(statuses, [204, 429], "the rule for the root counts both");
    let head = heads.recv().expect("it was sent");
    assert!(head.starts_with("get /?x=1 http/1.1\r\n"), "{head}");
}

#[test]
fn a_request_that_may_not_be_forwarded_any_more_is_answered_by_the_proxy() {
    let (up, heads) = recorder("HTTP/1.1 204 No Content\r\n\r\n");
    let proxy = Proxy::before("max-forwards", up, &[]);
    for (method, status, allow) in [("OPTIONS", 200, ""), ("TRACE", 405, "OPTIONS")] {
        let answer = ask(proxy.listen, method, "/x", "max-forwards: 0\r\n");
        assert_eq!((answer.status, answer.header("allow")), (status, allow), "{method}");
        assert!(heads.try_recv().is_err(), "{method}");
        assert_eq!(ask(proxy.listen, method, "/x", "max-forwards: 3\r\n").status, 204);
        let head = heads.recv().expect("it was sent");
        assert_eq!(value(&head, "max-forwards"), "2", "{head}");
    }
    assert_eq!(get(proxy.listen, "/x", "max-forwards: 0\r\n").status, 204);
    assert_eq!(value(&heads.recv().expect("it was sent"), "max-forwards"), "0");
    // The proxy itself is asked, not the upstream.
    assert_eq!(ask(proxy.listen, "OPTIONS", "*", "max-forwards: 0\r\n").status, 200);
}

#[test]
fn a_path_that_leaves_the_base_never_reaches_the_upstream() {
    let (up, heads) = recorder("HTTP/1.1 204 No Content\r\n\r\n");
    let rules = r#"rule = [{ name = "login", match = { path = "/login" }, key = "none", limits = "1/day" }]"#;
    let rules = scratch("climb.toml", rules);
    let url = format!("http://{up}/base");
    let words = ["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")];
    let proxy = Proxy::start("climb", &words);
    let paths = ["/../base/login", "/%2e%2e/base/login", "/x/../../base/login", "/../secret"];
    for path in paths {
        assert_problem(&get(proxy.listen, path, ""), 400);
    }
    assert!(heads.try_recv().is_err());
    assert_eq!(failures(&proxy, "above_root"), 4);
    assert_eq!(["/login"; 2].map(|path| get(proxy.listen, path, "").status), [204, 429]);
}

#[test]
fn a_body_with_two_lengths_reaches_the_upstream_with_one_or_not_at_all() {
    let (up, heads) = recorder("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let proxy = Proxy::before("smuggle", up, &[]);
    let post = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
    for lengths in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
    ] {
        let answer = send(proxy.listen, &format!("{post}{lengths}\r\n0\r\n\r\n"));
        match heads.try_recv() {
            Err(_) => assert_eq!(answer.status, 400, "{lengths}"),
            Ok(head) => assert_eq!(value(&head, "content-length"), "", "{head}"),
        }
    }
    for lengths in [
        "content-length: 4\r\ncontent-length: 5\r\n",
        "content-length: 4, 5\r\n",
        "content-length: +4\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: xchunked\r\n",
    ] {
        let answer = send(proxy.listen, &format!("{post}{lengths}\r\nabcd"));
        assert_eq!(answer.status, 400, "{lengths}");
        assert!(heads.try_recv().is_err(), "{lengths}");
    }
    let post = "POST / HTTP/1.1\r\nhost: a\r\n";
    let codings = [
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
    ];
    for coding in codings {
        // The connection is closed, although the client does not ask for it.
        assert_problem(&send(proxy.listen, &format!("{post}{coding}\r\n0\r\n\r\n")), 400);
        assert!(heads.try_recv().is_err(), "{coding}");
    }
    assert_eq!(failures(&proxy, "client_framing"), 3);
}

#[test]
fn repeated_equal_lengths_reach_the_other_side_as_one() {
    for lengths in ["content-length: 2, 2\r\n", "content-length: 2\r\ncontent-length: 2\r\n"] {
        let up = upstream(move |mut stream| {
            read_head(&mut stream);
            let text = format!("HTTP/1.1 200 OK\r\n{lengths}connection: close\r\n\r\nok");
            stream.write_all(text.as_bytes()).expect("written");
        });
        let proxy = Proxy::before("equal-lengths", up, &[]);
        for (method, body) in [("GET", "ok"), ("HEAD", "")] {
            let answer = ask(proxy.listen, method, "/", "");
            assert_eq!((answer.status, answer.body.as_str()), (200, body), "{lengths}");
            assert_eq!(answer.header("content-length"), "2", "{lengths}");
            assert_eq!(answer.head.matches("content-length").count(), 1, "{}", answer.head);
        }
    }
    let (up, heads) = recorder("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let proxy = Proxy::before("equal-lengths-http2", up, &[]);
    crate::server::runtime().block_on(async {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let request = http::Request::post(format!("http://{}/", proxy.listen));
        let request = request.header("content-length", "2").header("content-length", "2");
        let request = request.body(Full::new(bytes::Bytes::from("ok"))).expect("a request");
        assert_eq!(client.request(request).await.expect("an answer").status(), 200);
    });
    let head = heads.recv().expect("it was sent");
    assert_eq!(head.matches("content-length: 2\r\n").count(), 1, "{head}");
}

#[test]
fn a_length_that_is_no_number_is_a_502_even_without_a_body() {
    for lengths in ["content-length: abc\r\n", "content-length: 2\r\ncontent-length: 3\r\n"] {
        let up = upstream(move |mut stream| {
            read_head(&mut stream);
            let text = format!("HTTP/1.1 200 OK\r\n{lengths}connection: close\r\n\r\n");
            stream.write_all(text.as_bytes()).expect("written");
        });
        let proxy = Proxy::before("wrong-length", up, &[]);
        assert_eq!(ask(proxy.listen, "HEAD", "/", "").status, 502, "{lengths}");
        assert_eq!(failures(&proxy, "framing"), 1);
    }
}

#[test]
fn a_204_has_no_length() {
    let (up, _heads) = recorder("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n");
    let proxy = Proxy::before("no-content", up, &[]);
    for method in ["GET", "HEAD"] {
        let answer = ask(proxy.listen, method, "/", "");
        assert_eq!((answer.status, answer.header("content-length")), (204, ""), "{method}");
    }
}

#[test]
fn connections_to_the_upstream_are_reused() {
    let (up, heads) = recorder("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let proxy = Proxy::before("again", up, &[]);
    let mut client = connect(proxy.listen);
    let pipelined = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2);
    client.write_all(pipelined.as_bytes()).expect("written");
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("written");
    assert_eq!(answer(client).body.matches("200 OK").count(), 2);
    assert_eq!(heads.iter().take(3).count(), 3);
}

#[test]
fn http2_clients_are_limited_and_forwarded_in_http1() {
    let proxy = Proxy::with_rules("h2", r#"rule = [{ name = "a", limits = "5/day" }]"#);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client: Client<_, Empty<bytes::Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let url: http::Uri = format!("http://{}/x", proxy.listen).parse().expect("a URL");
        let requests = (0..20).map(|_| tokio::spawn(client.get(url.clone())));
        let (mut admitted, mut bodies) = (0, String::new());
        for request in requests.collect::<Vec<_>>() {
            let response = request.await.expect("no panic").expect("an answer");
            assert_eq!(response.version(), http::Version::HTTP_2);
            match response.status().as_u16() {
                200 => {
                    admitted += 1;
                    let body = response.into_body().collect().await.expect("a body").to_bytes();
                    bodies += &String::from_utf8_lossy(&body);
                }
                status => assert_eq!(status, 429),
            }
        }
        assert_eq!(admitted, 5);
        assert_eq!(bodies.matches("via: 2 tollgate\n").count(), 5);
        let host = format!("x-forwarded-host: {}\n", proxy.listen);
        assert_eq!(bodies.matches(&host).count(), 5, "{bodies}");
    });
    // While the first connection is being opened, the client may open another.
    assert!(proxy.metric("tollgate_connections_total") < 20.0);
}
