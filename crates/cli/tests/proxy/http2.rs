//! HTTP/2 to the upstream, and conversions between the versions.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Frame, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::mpsc;

use crate::failures::{assert_problem, failures};
use crate::server::{Authority, Body, runtime, serve, text, with_trailers};
use crate::support::{
    Proxy, UNLIMITED, answer, connect, eventually, get, read_head, scratch, send, upstream,
};

const TRAILERS: [(&str, &str); 2] = [("grpc-status", "0"), ("grpc-message", "fine")];

/// Describes the request in the body of the response, trailers included, and sends trailers.
async fn describe(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body");
    let trailers = body.trailers().cloned().unwrap_or_default();
    let mut said = format!("{:?} {} {}\n", head.version, head.method, head.uri);
    for (name, value) in head.headers.iter().chain(&trailers) {
        said += &format!("{name}: {}\n", value.to_str().expect("ASCII"));
    }
    said += std::str::from_utf8(&body.to_bytes()).expect("UTF-8");
    let response = Response::builder().header("trailer", "grpc-status, grpc-message");
    response.body(with_trailers(said, &TRAILERS)).expect("a response")
}

fn client() -> Client<HttpConnector, Body> {
    Client::builder(TokioExecutor::new()).http2_only(true).build_http()
}

fn call(proxy: &Proxy, body: Body) -> Request<Body> {
    let request = Request::post(format!("http://{}/pkg.Service/Call", proxy.listen));
    let request = request.header("te", "trailers").header("content-type", "application/grpc");
    request.header("trailer", "x-sum").body(body).expect("a request")
}

/// The body and trailers of the response.
fn called(proxy: &Proxy) -> (String, HeaderMap) {
    runtime().block_on(async {
        let body = with_trailers("message", &[("x-sum", "7")]);
        let response = client().request(call(proxy, body)).await.expect("an answer");
        assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
        let body = response.into_body().collect().await.expect("a body");
        let trailers = body.trailers().cloned().unwrap_or_default();
        (String::from_utf8(body.to_bytes().to_vec()).expect("UTF-8"), trailers)
    })
}

#[test]
fn a_call_with_trailers_is_forwarded_completely() {
    let up = serve(None, describe);
    let proxy = Proxy::before("grpc", up, &["--upstream-http2"]);
    let (said, trailers) = called(&proxy);
    let first = format!("HTTP/2.0 POST http://{up}/pkg.Service/Call\n");
    assert!(said.starts_with(&first) && said.ends_with("message"), "{said}");
    for line in ["te: trailers\n", "x-sum: 7\n", "content-type: application/grpc\n"] {
        assert!(said.contains(line), "{line}{said}");
    }
    for gone in ["\nconnection: ", "\nhost: ", "\ntransfer-encoding: "] {
        assert!(!said.contains(gone), "{gone}: {said}");
    }
    for (name, value) in TRAILERS {
        assert_eq!(trailers[name], value);
    }
}

#[test]
fn a_value_with_white_space_around_it_is_not_forwarded() {
    let proxy = Proxy::before("outer-space", serve(None, describe), &["--upstream-http2"]);
    for value in [" a", "a\t"] {
        let mut request = call(&proxy, text(""));
        request.headers_mut().insert("x-user", HeaderValue::from_static(value));
        let response = runtime().block_on(client().request(request)).expect("an answer");
        assert_eq!(response.status(), 400, "{value:?}");
    }
    assert_eq!(failures(&proxy, "header_value"), 2);
    let body = with_trailers("message", &[("x-sum", "7 "), ("x-end", "8")]);
    let said = runtime().block_on(async {
        let response = client().request(call(&proxy, body)).await.expect("an answer");
        response.into_body().collect().await.expect("a body").to_bytes()
    });
    let said = std::str::from_utf8(&said).expect("UTF-8");
    assert!(said.contains("x-sum: 7\n") && said.contains("x-end: 8\n"), "{said}");
}

#[test]
fn a_field_name_with_an_underscore_passes_from_the_client_only_if_that_is_asked_for() {
    let up = serve(None, async |request| {
        let (head, body) = request.into_parts();
        let trailers = body.collect().await.expect("a body").trailers().cloned();
        let trailers = trailers.unwrap_or_default();
        let names = head.headers.keys().chain(trailers.keys());
        let received: String = names.map(|name| format!("{name} ")).collect();
        Response::new(with_trailers(received, &[("x_status", "0")]))
    });
    let through = |name, words: &[&str]| {
        let proxy = Proxy::before(name, up, words);
        runtime().block_on(async {
            let body = with_trailers("message", &[("x-sum", "7"), ("x_sum", "8")]);
            let mut request = call(&proxy, body);
            request.headers_mut().insert("x_user", HeaderValue::from_static("a"));
            let response = client().request(request).await.expect("an answer");
            let body = response.into_body().collect().await.expect("a body");
            // The metadata of a gRPC response may have such names.
            assert_eq!(body.trailers().expect("trailers")["x_status"], "0");
            String::from_utf8(body.to_bytes().to_vec()).expect("UTF-8")
        })
    };
    let received = through("underscores", &["--upstream-http2"]);
    assert!(received.contains("x-sum ") && !received.contains('_'), "{received}");
    let received = through("underscores-kept", &["--upstream-http2", "--any-field-names"]);
    assert!(
        ["x-sum ", "x_sum ", "x_user "].iter().all(|name| received.contains(name)),
        "{received}"
    );
}

#[test]
fn white_space_around_the_values_of_an_http2_response_is_removed() {
    let up = serve(None, async |_| {
        let response = Response::builder().header("x-name", "\t a b ").header("x-name", "c");
        let trailers = [("grpc-status", "5"), ("grpc-message", " not found ")];
        response.body(with_trailers("said", &trailers)).expect("a response")
    });
    let proxy = Proxy::before("outer-space-back", up, &["--upstream-http2"]);
    let (head, trailers) = runtime().block_on(async {
        let response = client().request(call(&proxy, text(""))).await.expect("an answer");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body");
        (head, body.trailers().cloned().unwrap_or_default())
    });
    let names: Vec<_> = head.headers.get_all("x-name").iter().collect();
    assert_eq!(names, ["a b", "c"]);
    assert_eq!([&trailers["grpc-status"], &trailers["grpc-message"]], ["5", "not found"]);
}

#[test]
fn trailers_pass_to_an_http1_upstream_and_back() {
    let up = serve(None, describe);
    let proxy = Proxy::before("grpc-to-1", up, &[]);
    let (said, trailers) = called(&proxy);
    assert!(said.starts_with("HTTP/1.1 POST /pkg.Service/Call\n"), "{said}");
    for line in ["te: trailers\n", "connection: te\n", "x-sum: 7\n", "trailer: x-sum\n"] {
        assert!(said.contains(line), "{line}{said}");
    }
    assert!(said.contains(&format!("host: {up}\n")), "{said}");
    for (name, value) in TRAILERS {
        assert_eq!(trailers[name], value);
    }
}

#[test]
fn trailers_of_an_http1_upstream_have_no_fields_of_the_connection_or_the_message() {
    let up = upstream(|mut stream| {
        read_head(&mut stream);
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n";
        let trailers = "x-sum: 7\r\ncontent-length: 9\r\nconnection: close\r\nkeep-alive: 1\r\n";
        let answer = format!("{head}2\r\nok\r\n0\r\n{trailers}\r\n");
        stream.write_all(answer.as_bytes()).expect("written");
    });
    let proxy = Proxy::before("clean-trailers", up, &[]);
    let trailers = runtime().block_on(async {
        let response = client().request(call(&proxy, text(""))).await.expect("an answer");
        let body = response.into_body().collect().await.expect("a whole body");
        body.trailers().cloned().unwrap_or_default()
    });
    assert_eq!(trailers.len(), 1, "{trailers:?}");
    assert_eq!(trailers["x-sum"], "7");
}

#[test]
fn trailers_of_an_http1_client_have_no_fields_of_the_connection_or_the_message() {
    let proxy = Proxy::before("clean-upload", serve(None, describe), &["--upstream-http2"]);
    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntrailer: x-sum\r\n";
    let trailers = "x-sum: 7\r\nconnection: close\r\nhost: b.example\r\n";
    let body = format!("transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n{trailers}\r\n");
    let answer = send(proxy.listen, &format!("{head}{body}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("x-sum: 7\n"), "{}", answer.body);
    assert!(!answer.body.contains("connection: ") && !answer.body.contains("b.example"));
}

/// The server of this upstream, hyper, sends the body of any response over HTTP/2.
#[test]
fn a_body_that_an_upstream_sends_where_there_is_none_is_left_out() {
    let up = serve(None, async |request: Request<Incoming>| {
        let status = request.uri().path()[1..].parse::<u16>().expect("a status");
        Response::builder().status(status).body(text("body")).expect("a response")
    });
    let proxy = Proxy::before("unasked-body", up, &["--upstream-http2"]);
    let cases = [("HEAD", "200", Some("4")), ("GET", "304", Some("4")), ("GET", "204", None)];
    for (method, status, length) in cases {
        let url = format!("http://{}/{status}", proxy.listen);
        let request = Request::builder().method(method).uri(url).body(text("")).expect("a request");
        runtime().block_on(async {
            let (head, body) = client().request(request).await.expect("an answer").into_parts();
            let stated = head.headers.get("content-length");
            let stated = stated.map(|value| value.to_str().expect("digits"));
            assert_eq!((head.status.as_str(), stated), (status, length), "{method}");
            let body = body.collect().await.expect("a whole body").to_bytes();
            assert!(body.is_empty(), "{method} {status}");
        });
    }
}

/// hyper sends the body of a response to HEAD over HTTP/2, and h2 takes that for malformed.
#[test]
fn a_response_of_the_proxy_to_head_has_no_body() {
    let up = upstream(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"220 mail.example ESMTP\r\n").expect("written");
    });
    let denied =
        r#"rule = [{ name = "a", match = { path = "/denied" }, key = "none", limits = "1/day" }]"#;
    let rules = scratch("head-http2.toml", denied);
    let url = format!("http://{up}");
    let words = ["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")];
    let proxy = Proxy::start("head-http2", &words);
    assert_eq!(get(proxy.listen, "/denied", "").status, 502, "it is charged");
    let ask = |method: &'static str, path: &str, host: &str| {
        let request =
            Request::builder().method(method).uri(format!("http://{}{path}", proxy.listen));
        let request = request.header("host", host).body(text("")).expect("a request");
        runtime().block_on(async {
            let response = client().request(request).await.expect("an answer");
            let (head, body) = response.into_parts();
            let bytes = body.collect().await.expect("a whole body").to_bytes().len();
            let length = head.headers.get("content-length");
            let length = length.map(|value| value.to_str().expect("digits").to_owned());
            (head.status.as_u16(), length, bytes)
        })
    };
    let listen = proxy.listen.to_string();
    for (path, host, status) in [("/denied", &*listen, 429), ("/x", &listen, 502), ("/x", "b", 400)]
    {
        let (of_get, of_head) = (ask("GET", path, host), ask("HEAD", path, host));
        assert_eq!((of_get.0, of_head.0), (status, status));
        assert_eq!((of_head.1, of_head.2), (Some(of_get.2.to_string()), 0), "{path}");
    }
}

#[test]
fn an_http1_client_reaches_an_http2_upstream() {
    let up = serve(None, describe);
    let proxy = Proxy::before("1-to-2", up, &["--upstream-http2"]);
    let head = "POST /x HTTP/1.1\r\nhost: test.example\r\nconnection: close, te, x-own\r\nx-own: 1\r\n\
                keep-alive: 5\r\nte: trailers\r\nupgrade: websocket\r\ntrailer: x-sum\r\n";
    let body = "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n";
    let answer = send(proxy.listen, &format!("{head}{body}"));
    assert_eq!(answer.status, 200);
    let said = answer.body.to_ascii_lowercase();
    assert!(said.contains(&format!("http/2.0 post http://{up}/x\n")), "{said}");
    for line in ["x-forwarded-host: test.example\n", "x-sum: 7\nhello", "te: trailers\n"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    for gone in ["\nhost: ", "\nconnection: ", "\nx-own: ", "\nkeep-alive: ", "\nupgrade: "] {
        assert!(!said.contains(gone), "{gone}: {said}");
    }
    // The last chunk, followed by the trailers.
    assert!(said.ends_with("\r\n0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\n\r\n"), "{said}");
}

#[test]
fn each_message_of_a_stream_is_forwarded_before_the_next_is_sent() {
    let up = serve(None, async |request: Request<Incoming>| {
        let frames = request.into_body();
        Response::new(frames.map_err(|error| panic!("{error}")).boxed())
    });
    let proxy = Proxy::before("bidirectional", up, &["--upstream-http2"]);
    runtime().block_on(async {
        let (messages, source) = mpsc::channel(1);
        let response = client().request(call(&proxy, Source(source).boxed()));
        messages.send("first").await.expect("it is taken");
        let mut body = response.await.expect("an answer").into_body();
        for (message, next) in [("first", Some("second")), ("second", Some("last")), ("last", None)]
        {
            let frame = body.frame().await.expect("a frame").expect("no error");
            assert_eq!(frame.data_ref().expect("data"), message);
            if let Some(next) = next {
                messages.send(next).await.expect("it is taken");
            }
        }
        drop(messages);
        assert!(body.collect().await.expect("it ends").to_bytes().is_empty());
    });
}

/// A body whose frames come from a channel.
struct Source(mpsc::Receiver<&'static str>);

impl hyper::body::Body for Source {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|message| message.map(|text| Ok(Frame::data(text.into()))))
    }
}

#[test]
fn many_requests_share_a_connection() {
    let up = serve(None, async |request: Request<Incoming>| {
        Response::new(text(format!("{:?}", request.version())))
    });
    let proxy = Proxy::before("many", up, &["--upstream-http2"]);
    runtime().block_on(async {
        let client = client();
        let requests = (0..100).map(|_| client.request(call(&proxy, Empty::new().boxed())));
        let requests: Vec<_> = requests.map(tokio::spawn).collect();
        for request in requests {
            let response = request.await.expect("no panic").expect("an answer");
            let body = response.into_body().collect().await.expect("a body");
            assert_eq!(body.to_bytes(), "HTTP/2.0");
        }
    });
}

/// An address in front of an upstream. The first connections are accepted and remain silent, so that their TLS
/// handshake does not end.
fn silent_at_first(upstream_address: SocketAddr, silent: usize) -> SocketAddr {
    let accepted = AtomicUsize::new(0);
    upstream(move |mut client| {
        if accepted.fetch_add(1, Ordering::Relaxed) < silent {
            let _ = client.read_to_end(&mut Vec::new());
            return;
        }
        let mut server = connect(upstream_address);
        let (mut of_client, mut to_server) =
            (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
        std::thread::spawn(move || std::io::copy(&mut of_client, &mut to_server));
        // The proxy may have reset the connection.
        let _ = std::io::copy(&mut server, &mut client);
    })
}

/// A proxy in front of an HTTP/2 upstream with TLS whose first connections are silent.
fn before_silent(name: &str, silent: usize, words: &[&str]) -> Proxy {
    let authority = Authority::new();
    let up = serve(Some(authority.certify(&["localhost"], &["h2"])), describe);
    let url = format!("https://localhost:{}", silent_at_first(up, silent).port());
    let (ca, rules) = (authority.file(name), scratch(&format!("{name}.toml"), UNLIMITED));
    let [ca, rules] = [&ca, &rules].map(|file| file.to_str().expect("UTF-8"));
    let given = ["--upstream", &url, "--upstream-ca", ca, "--rules", rules, "--upstream-http2"];
    Proxy::start(name, &[&given, words].concat())
}

#[test]
fn a_client_that_leaves_does_not_fail_the_requests_that_wait_for_its_connection() {
    let proxy = before_silent("leader-leaves", 1, &["--connect-timeout", "30"]);
    runtime().block_on(async {
        let client = client();
        let mut requests = Vec::new();
        for count in 1..=5 {
            requests.push(tokio::spawn(client.request(call(&proxy, text("")))));
            let in_flight = || proxy.metric("tollgate_http_requests_in_flight");
            eventually("it is in flight", || in_flight() == f64::from(count));
        }
        requests.remove(0).abort();
        for request in requests {
            let response = request.await.expect("no panic").expect("an answer");
            assert_eq!(response.status(), 200);
        }
    });
    assert_eq!(failures(&proxy, "protocol"), 0);
}

#[test]
fn all_requests_that_wait_for_a_connection_are_a_504_after_the_connect_timeout() {
    let proxy = before_silent("silent", usize::MAX, &["--connect-timeout", "0.5"]);
    std::thread::scope(|scope| {
        let requests: Vec<_> = (0..8).map(|_| scope.spawn(|| get(proxy.listen, "/", ""))).collect();
        for request in requests {
            assert_problem(&request.join().expect("no panic"), 504);
        }
    });
    assert_eq!(failures(&proxy, "connect_timeout"), 8);
}

#[test]
fn an_upstream_without_http2_is_a_502() {
    let old = upstream(|mut stream| {
        read_head(&mut stream);
        let denial = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(denial).expect("written");
    });
    let proxy = Proxy::before("old", old, &["--upstream-http2"]);
    assert_problem(&get(proxy.listen, "/", ""), 502);
    assert_eq!(failures(&proxy, "protocol"), 1);
}

#[test]
fn the_bounds_of_the_head_of_a_response_are_those_that_the_help_states() {
    let up = serve(None, async |request: Request<Incoming>| {
        let wanted = &request.uri().path()[1..];
        let mut response = Response::new(text("done"));
        match wanted.strip_suffix("kB") {
            Some(kb) => {
                let value = "a".repeat(kb.parse::<usize>().expect("a number") << 10);
                response.headers_mut().insert("x", value.parse().expect("a value"));
            }
            None => (0..wanted.parse::<usize>().expect("a number")).for_each(|at| {
                let name = http::HeaderName::try_from(format!("x-{at}")).expect("a name");
                response.headers_mut().insert(name, HeaderValue::from_static("1"));
            }),
        }
        response
    });
    let proxy = Proxy::before("large-heads", up, &["--upstream-http2"]);
    let status = |path| get(proxy.listen, path, "").status;
    assert_eq!(["/99", "/500", "/17kB", "/120kB"].map(status), [200; 4]);
    assert_problem(&get(proxy.listen, "/300kB", ""), 502);
}

#[test]
fn an_http1_body_that_ends_early_never_looks_complete() {
    let up = serve(None, describe);
    let proxy = Proxy::before("torn", up, &["--upstream-http2"]);
    let mut client = connect(proxy.listen);
    let head = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 10\r\n\r\nhalf";
    client.write_all(head).expect("written");
    client.shutdown(std::net::Shutdown::Write).expect("shut");
    assert_problem(&answer(client), 400);
}
