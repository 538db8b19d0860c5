//! The cost of requests: `cost` in a rule.

use std::io::Write;
use std::net::SocketAddr;

use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::server::{Body, runtime, with_trailers};
use crate::support::{Proxy, ask, eventually, get, read_head, scratch, send, upstream};

/// An upstream whose responses have this header and a body of 4,000 bytes.
fn tokens(header: &'static str) -> SocketAddr {
    upstream(move |mut stream| {
        if !read_head(&mut stream).is_empty() {
            let text = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n{header}connection: close\r\n\r\n{}",
                "x".repeat(4_000)
            );
            // A client of HEAD may have left.
            let _ = stream.write_all(text.as_bytes());
        }
    })
}

fn proxy(name: &str, upstream: SocketAddr, cost: &str, limits: &str) -> Proxy {
    let rules = format!(
        "rule = [{{ name = \"a\", key = \"none\", cost = {cost}, limits = \"{limits}\" }}]"
    );
    let rules = scratch(&format!("{name}.toml"), &rules);
    let url = format!("http://{upstream}");
    Proxy::start(name, &["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")])
}

/// The cells that are left, by the header fields of a request that costs more.
fn left(proxy: &Proxy) -> String {
    let denied = get(proxy.listen, "/", "x-cost: 1000000\r\n");
    assert_eq!(denied.status, 429, "{}", denied.head);
    denied.header("ratelimit").split(';').nth(1).expect("what is left").to_owned()
}

#[test]
fn a_header_of_the_response_settles_what_a_request_reserved() {
    let cost = "{ response_header = \"x-tokens\", estimate = 60 }";
    let proxy = proxy("cost-response", tokens("x-tokens: 30\r\n"), cost, "100/h");
    let statuses = [1, 2, 3].map(|_| {
        let answer = get(proxy.listen, "/", "");
        (answer.status, answer.header("ratelimit").split(';').nth(1).unwrap_or_default().to_owned())
    });
    // 60 of 100, 60 of 70, and 60 of 40.
    let expected = [(200, "r=40"), (200, "r=10"), (429, "r=40")];
    assert_eq!(statuses.each_ref().map(|(status, left)| (*status, &**left)), expected);
}

#[test]
fn the_bytes_of_the_response_settle_what_a_request_reserved() {
    let cost = "{ bytes = \"response\", estimate = { header = \"x-cost\", max = 1000000 } }";
    // A cell comes back every 4 minutes.
    let proxy = proxy("cost-bytes", tokens(""), cost, "10000/30d");
    assert_eq!(get(proxy.listen, "/", "").status, 200);
    eventually("the body was counted", || left(&proxy) == "r=6000");
    // No body: the estimate.
    assert_eq!(ask(proxy.listen, "HEAD", "/", "x-cost: 50\r\n").status, 200);
    eventually("the estimate was kept", || left(&proxy) == "r=5950");
    assert_eq!([1, 2].map(|_| get(proxy.listen, "/", "").status), [200; 2]);
    eventually("the quota is overdrawn", || get(proxy.listen, "/", "").status == 429);
    assert_eq!(left(&proxy), "r=0");
}

#[test]
fn a_request_that_a_store_denies_is_refunded_what_it_reserved() {
    // No server listens at the address of the store.
    let rules = r#"
        [[rule]]
        name = "a"
        key = "none"
        cost = { response_header = "x-tokens", estimate = { header = "x-cost", max = 1000000, default = 60 } }
        limits = "100/h"
        [[rule]]
        name = "b"
        match = { path = "/b" }
        key = "none"
        limits = "100/h"
        store = { url = "redis://127.0.0.1:1", fallback = "deny" }
        "#;
    let proxy = Proxy::with_rules("cost-store", rules);
    for _ in 0..3 {
        assert_eq!(get(proxy.listen, "/b", "").status, 503);
        assert_eq!(left(&proxy), "r=100");
    }
}

#[test]
fn a_client_cannot_lower_its_cost() {
    let cost = "{ header = \"x-cost\", max = 50, default = 20 }";
    let proxy = proxy("cost-header", tokens(""), cost, "100/h burst 100");
    let cost = |headers: &str| {
        let header = get(proxy.listen, "/", headers).header("ratelimit").to_owned();
        header.split(';').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(cost("x-cost: 1\r\nx-cost: 30\r\n"), "r=70");
    assert_eq!(cost("x-cost: -5\r\n"), "r=50");
    assert_eq!(cost("x-cost: 4294967297\r\n"), "r=0");
}

#[test]
fn an_http2_body_of_unknown_length_costs_the_default_of_its_rule() {
    let cost = "{ bytes = \"request\", max = 1000, default = 60 }";
    let proxy = proxy("cost-open-body", tokens(""), cost, "100/h");
    let status = |method: &str, body: Body| {
        let request = Request::builder().method(method).uri(format!("http://{}/", proxy.listen));
        let request = request.body(body).expect("a request");
        runtime().block_on(async {
            let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
            client.request(request).await.expect("an answer").status().as_u16()
        })
    };
    assert_eq!(status("DELETE", with_trailers("ok", &[])), 200);
    assert_eq!(status("GET", with_trailers("ok", &[])), 429);
    // One of the 40 cells that are left.
    assert_eq!(status("GET", Empty::new().boxed()), 200);
}

#[test]
fn an_http1_request_without_a_body_costs_one_cell_whatever_its_method() {
    let cost = "{ bytes = \"request\", max = 1000, default = 60 }";
    let proxy = proxy("cost-no-body", tokens(""), cost, "100/h");
    let left = |head: &str| {
        let answer = send(proxy.listen, &format!("{head}connection: close\r\n\r\n"));
        answer.header("ratelimit").split(';').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(left("POST / HTTP/1.1\r\nhost: a\r\n"), "r=99");
    assert_eq!(left("PATCH / HTTP/1.1\r\nhost: a\r\n"), "r=98");
    assert_eq!(left("PUT / HTTP/1.0\r\n"), "r=97");
    assert_eq!(left("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n"), "r=96");
    let chunked = "transfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n";
    let answer = send(proxy.listen, &format!("POST / HTTP/1.1\r\nhost: a\r\n{chunked}"));
    assert!(answer.header("ratelimit").contains("r=36"), "{answer:?}");
}
