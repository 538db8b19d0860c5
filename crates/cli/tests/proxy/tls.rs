//! Upstreams behind TLS: whom the proxy trusts, and in which version it speaks.

use std::net::SocketAddr;

use http::{Request, Response};
use hyper::body::Incoming;

use crate::failures::{assert_problem, failures};
use crate::server::{Authority, Body, serve, text};
use crate::start::denied;
use crate::support::{PATIENCE, Proxy, eventually, get, scratch, upstream};

async fn told(request: Request<Incoming>) -> Response<Body> {
    let host = request.headers().get("host").map_or("", |host| host.to_str().expect("ASCII"));
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    Response::new(text(format!("{:?} {host} {authority}", request.version())))
}

fn before(name: &str, url: &str, authority: &Authority, words: &[&str]) -> Proxy {
    let file = authority.file(name);
    let given = ["--upstream", url, "--upstream-ca", file.to_str().expect("UTF-8")];
    Proxy::start(name, &[&given, words].concat())
}

#[test]
fn alpn_chooses_the_version() {
    let authority = Authority::new();
    let ask = |name: &str, protocols: &[&str], words: &[&str]| {
        let address = serve(Some(authority.vouch(&["localhost"], protocols)), told);
        let url = format!("https://localhost:{}", address.port());
        let proxy = before(name, &url, &authority, words);
        let answer = get(proxy.listen, "/", "");
        assert_eq!(answer.status, 200, "{answer:?} {}", proxy.stderr());
        answer.body.replace(&address.port().to_string(), "P")
    };
    let both = ["h2", "http/1.1"];
    assert_eq!(ask("alpn-both", &both, &[]), "HTTP/2.0  localhost:P");
    assert_eq!(ask("alpn-http1", &both[1..], &[]), "HTTP/1.1 localhost:P ");
    assert_eq!(ask("alpn-none", &[], &[]), "HTTP/1.1 localhost:P ");
    assert_eq!(ask("alpn-only", &both, &["--upstream-http2"]), "HTTP/2.0  localhost:P");
    assert_eq!(ask("alpn-host", &both, &["--preserve-host"]), "HTTP/1.1 test.example ");
}

#[test]
fn an_address_can_be_vouched_for() {
    let authority = Authority::new();
    let address = serve(Some(authority.vouch(&["127.0.0.1"], &["h2"])), told);
    let proxy = before("tls-address", &format!("https://{address}"), &authority, &[]);
    assert_eq!(get(proxy.listen, "/", "").body, format!("HTTP/2.0  {address}"));
}

fn assert_not_trusted(proxy: &Proxy, why: &str) {
    for _ in 0..2 {
        assert_problem(&get(proxy.listen, "/", ""), 502);
    }
    assert_eq!(failures(proxy, "tls"), 2);
    let is_of_it = |line: &&str| line.contains("no secure connection");
    // The log is written beside the answers.
    eventually("the failure is logged", || proxy.stderr().lines().any(|line| is_of_it(&line)));
    let stderr = proxy.stderr();
    let lines: Vec<_> = stderr.lines().filter(is_of_it).collect();
    assert!(lines.len() == 1 && lines[0].contains(why), "{stderr}");
}

#[test]
fn a_certificate_of_another_name_is_a_502() {
    let authority = Authority::new();
    let address = serve(Some(authority.vouch(&["other.example"], &[])), told);
    let url = format!("https://localhost:{}", address.port());
    assert_not_trusted(&before("tls-name", &url, &authority, &[]), "other.example");
}

#[test]
fn an_authority_that_nobody_knows_is_a_502() {
    let address = serve(Some(Authority::named("nobody").vouch(&["localhost"], &[])), told);
    let url = format!("https://localhost:{}", address.port());
    let proxy = before("tls-unknown", &url, &Authority::new(), &[]);
    assert_not_trusted(&proxy, "UnknownIssuer");
}

#[test]
fn an_upstream_without_tls_is_a_502() {
    let plain = serve(None, told);
    let url = format!("https://{plain}");
    assert_not_trusted(&before("tls-plain", &url, &Authority::new(), &[]), "");
}

#[test]
fn a_version_that_the_upstream_has_not_is_a_502() {
    let authority = Authority::new();
    let address = serve(Some(authority.vouch(&["127.0.0.1"], &["http/1.1"])), told);
    let url = format!("https://{address}");
    let proxy = before("tls-version", &url, &authority, &["--upstream-http2"]);
    assert_not_trusted(&proxy, "NoApplicationProtocol");
}

#[test]
fn a_handshake_that_takes_too_long_is_a_504() {
    let mute = upstream(|_stream| std::thread::sleep(PATIENCE));
    let url = format!("https://{mute}");
    let proxy = before("tls-mute", &url, &Authority::new(), &["--connect-timeout", "0.3"]);
    assert_problem(&get(proxy.listen, "/", ""), 504);
    assert_eq!(failures(&proxy, "connect_timeout"), 1);
}

#[test]
fn authorities_that_are_not_there_are_told_at_the_start() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let (http, https) = (format!("http://{nowhere}"), format!("https://{nowhere}"));
    let empty = scratch("no-authority.pem", "nothing\n");
    let empty = empty.to_str().expect("UTF-8");
    let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let torn = scratch("torn-authority.pem", torn);
    let torn = torn.to_str().expect("UTF-8");
    for (url, file, said) in [
        (&http, empty, "--upstream-ca is for an https upstream"),
        (&https, empty, "no certificate in it"),
        (&https, torn, "certificate 1"),
        (&https, "/nowhere/ca.pem", "cannot be read"),
    ] {
        let error = denied(&["--upstream", url, "--upstream-ca", file], &[]);
        assert!(error.contains(said), "{error}");
    }
    // A system that trusts nobody.
    let none = [("SSL_CERT_FILE", empty), ("SSL_CERT_DIR", "/nowhere")];
    let error = denied(&["--upstream", &https], &none);
    assert!(error.contains("ca-certificates"), "{error}");
}
