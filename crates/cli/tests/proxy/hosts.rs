//! The host of a request: unclear hosts are answered 400, and no spelling evades a rule by host.

use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::failures::{assert_problem, failures};
use crate::server::runtime;
use crate::support::{Proxy, eventually, scratch, send};

const RULES: &str = "
    [[rule]]
    name = \"api\"
    match = { host = \"api.example.com\" }
    key = \"none\"
    limits = \"1/day\"
    [[rule]]
    name = \"address\"
    match = { host = \"[2001:db8::1]\" }
    key = \"none\"
    limits = \"1/day\"
    ";

/// The status for a request with this target and these header lines.
fn status(proxy: &Proxy, target: &str, version: &str, lines: &[&str]) -> u16 {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let head = format!("GET {target} HTTP/{version}\r\n{lines}connection: close\r\n\r\n");
    send(proxy.listen, &head).status
}

#[test]
fn a_missing_repeated_or_malformed_host_is_answered_400() {
    let proxy = Proxy::start("host-400", &[]);
    let bad: [&[&str]; 10] = [
        &[],
        &["host: a", "host: a"],
        &["host: a", "Host: b"],
        &["host: a, b"],
        &["host:"],
        &["host: x@a"],
        &["host: a/b"],
        &["host: a:port"],
        &["host: a..b"],
        &["host: [::1"],
    ];
    for lines in bad {
        assert_eq!(status(&proxy, "/", "1.1", lines), 400, "{lines:?}");
    }
    let answer = send(proxy.listen, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert_problem(&answer, 400);
    assert_eq!(failures(&proxy, "host"), 11);
    assert_eq!(status(&proxy, "http://x@a/", "1.1", &["host: a"]), 400);
    // HTTP/1.0 may omit the host, but not repeat it.
    assert_eq!(status(&proxy, "/", "1.0", &[]), 200);
    assert_eq!(status(&proxy, "/", "1.0", &["host: a", "host: a"]), 400);
    for good in ["host: a", "Host: A.example.:8080", "host: [2001:db8::1]:80", "host: 192.0.2.7"] {
        assert_eq!(status(&proxy, "/", "1.1", &[good]), 200, "{good}");
    }
}

#[test]
fn no_spelling_of_a_host_evades_its_rule() {
    let file = scratch("hosts.toml", RULES);
    let proxy =
        Proxy::start("hosts", &["--preserve-host", "--rules", file.to_str().expect("UTF-8")]);
    assert_eq!(status(&proxy, "/", "1.1", &["host: api.example.com"]), 200);
    for spelling in ["api.example.com", "API.Example.com", "api.example.com.", "api.example.com:80"]
    {
        let field = format!("host: {spelling}");
        assert_eq!(status(&proxy, "/", "1.1", &[&field]), 429, "{spelling}");
        let target = format!("http://{spelling}/");
        assert_eq!(status(&proxy, &target, "1.1", &["host: other.example"]), 429, "{target}");
    }
    for user in ["host: x@api.example.com", "host: x:y@api.example.com:80"] {
        assert_eq!(status(&proxy, "/", "1.1", &[user]), 400, "{user}");
    }
    let target = "http://x@api.example.com/";
    assert_eq!(status(&proxy, target, "1.1", &["host: api.example.com"]), 400);
    assert_eq!(status(&proxy, "/", "1.1", &["host: [2001:db8:0:0::1]"]), 200);
    assert_eq!(status(&proxy, "/", "1.1", &["host: [2001:DB8::1]:80"]), 429);
    // The target takes precedence over the field, and the upstream receives it.
    let other = send(
        proxy.listen,
        "GET http://other.example/ HTTP/1.1\r\nhost: api.example.com\r\nconnection: close\r\n\r\n",
    );
    assert_eq!(other.status, 200);
    assert!(other.body.contains("\nhost: other.example\n"), "{}", other.body);
}

/// The host that the upstream receives, in whatever version the client speaks.
#[test]
fn a_rule_by_the_header_host_counts_the_requested_host() {
    let rules = r#"rule = [{ name = "a", key = "header:host", limits = "1/day" }]"#;
    let file = scratch("host-header.toml", rules);
    let words = ["--preserve-host", "--rules", file.to_str().expect("UTF-8")];
    let proxy = Proxy::start("host-header", &words);
    let authority = proxy.listen.to_string();
    let target = format!("http://{authority}/");
    assert_eq!(status(&proxy, &target, "1.1", &["host: a"]), 200);
    assert_eq!(status(&proxy, &target, "1.1", &["host: b"]), 429);
    assert_eq!(status(&proxy, "/", "1.1", &[&format!("host: {authority}")]), 429);
    assert_eq!(status(&proxy, "/", "1.1", &["host: a"]), 200);
    let client: Client<_, Empty<bytes::Bytes>> =
        Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    runtime().block_on(async {
        let request = http::Request::get(target).body(Empty::new()).expect("a request");
        assert_eq!(client.request(request).await.expect("an answer").status(), 429);
    });
}

#[test]
fn in_http2_a_host_that_is_not_the_authority_is_answered_400() {
    let proxy = Proxy::start("host-h2", &[]);
    let client: Client<_, Empty<bytes::Bytes>> =
        Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let authority = proxy.listen.to_string();
    runtime().block_on(async {
        for (host, expected) in [
            (None, 200),
            (Some(authority.as_str()), 200),
            (Some("api.example.com"), 400),
            (Some("x@a"), 400),
        ] {
            let mut request = http::Request::get(format!("http://{authority}/"));
            if let Some(host) = host {
                request = request.header("host", host);
            }
            let request = request.body(Empty::new()).expect("a request");
            let answer = client.request(request).await.expect("an answer");
            assert_eq!(answer.status().as_u16(), expected, "{host:?}");
        }
    });
}

#[test]
fn a_rule_by_host_is_logged_unless_the_upstream_receives_the_host() {
    let file = scratch("host-rule.toml", RULES);
    let words = ["--rules", file.to_str().expect("UTF-8")];
    let warning = "WARN rule \"api\" matches the host, ";
    let proxy = Proxy::start("host-warned", &words);
    eventually("it is logged", || proxy.stderr().contains(warning));
    let preserving = Proxy::start("host-preserved", &[&words[..], &["--preserve-host"]].concat());
    // A reload logs the warning again.
    scratch("host-rule.toml", &RULES.replace("\"api\"", "\"other\""));
    let other = warning.replace("api", "other");
    eventually("it is logged again", || proxy.stderr().contains(&other));
    eventually("it is read", || preserving.stderr().contains("rules reloaded"));
    assert!(!preserving.stderr().contains("matches the host"), "{}", preserving.stderr());
}
