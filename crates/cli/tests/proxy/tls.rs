//! TLS upstreams: which certificates the proxy trusts, and which version it uses.

use std::net::SocketAddr;

use http::{Request, Response};
use hyper::body::Incoming;

use crate::failures::{assert_logged_once, assert_problem, failures};
use crate::server::{Authority, Body, serve, text};
use crate::start::start_error;
use crate::support::{PATIENCE, Proxy, get, scratch, upstream};

async fn describe(request: Request<Incoming>) -> Response<Body> {
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
fn an_https_upstream_is_asked_for_http1_unless_http2_is_wanted() {
    let authority = Authority::new();
    let ask = |name: &str, protocols: &[&str], words: &[&str]| {
        let address = serve(Some(authority.certify(&["localhost"], protocols)), describe);
        let url = format!("https://localhost:{}", address.port());
        let proxy = before(name, &url, &authority, words);
        let answer = get(proxy.listen, "/", "");
        assert_eq!(answer.status, 200, "{answer:?} {}", proxy.stderr());
        answer.body.replace(&address.port().to_string(), "P")
    };
    let both = ["h2", "http/1.1"];
    assert_eq!(ask("alpn-both", &both, &[]), "HTTP/1.1 localhost:P ");
    assert_eq!(ask("alpn-http1", &both[1..], &[]), "HTTP/1.1 localhost:P ");
    assert_eq!(ask("alpn-none", &[], &[]), "HTTP/1.1 localhost:P ");
    assert_eq!(ask("alpn-only", &both, &["--upstream-http2"]), "HTTP/2.0  localhost:P");
    assert_eq!(ask("alpn-host", &both, &["--preserve-host"]), "HTTP/1.1 test.example ");
}

#[test]
fn a_certificate_for_an_address_is_accepted() {
    let authority = Authority::new();
    let address = serve(Some(authority.certify(&["127.0.0.1"], &["h2"])), describe);
    let url = format!("https://{address}");
    let proxy = before("tls-address", &url, &authority, &["--upstream-http2"]);
    assert_eq!(get(proxy.listen, "/", "").body, format!("HTTP/2.0  {address}"));
}

fn assert_not_trusted(proxy: &Proxy, why: &str) {
    for _ in 0..2 {
        assert_problem(&get(proxy.listen, "/", ""), 502);
    }
    assert_eq!(failures(proxy, "tls"), 2);
    assert_logged_once(proxy, "no TLS connection", why);
}

#[test]
fn a_certificate_for_another_name_is_a_502() {
    let authority = Authority::new();
    let address = serve(Some(authority.certify(&["other.example"], &[])), describe);
    let url = format!("https://localhost:{}", address.port());
    assert_not_trusted(&before("tls-name", &url, &authority, &[]), "other.example");
}

#[test]
fn an_unknown_authority_is_a_502() {
    let address = serve(Some(Authority::named("nobody").certify(&["localhost"], &[])), describe);
    let url = format!("https://localhost:{}", address.port());
    let proxy = before("tls-unknown", &url, &Authority::new(), &[]);
    assert_not_trusted(&proxy, "UnknownIssuer");
}

#[test]
fn an_upstream_without_tls_is_a_502() {
    let plain = serve(None, describe);
    let url = format!("https://{plain}");
    assert_not_trusted(&before("tls-plain", &url, &Authority::new(), &[]), "");
}

#[test]
fn a_version_that_the_upstream_lacks_is_a_502() {
    let authority = Authority::new();
    let address = serve(Some(authority.certify(&["127.0.0.1"], &["http/1.1"])), describe);
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
fn missing_authorities_are_an_error_at_the_start() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let (http, https) = (format!("http://{nowhere}"), format!("https://{nowhere}"));
    let empty = scratch("no-authority.pem", "nothing\n");
    let empty = empty.to_str().expect("UTF-8");
    let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let torn = scratch("torn-authority.pem", torn);
    let torn = torn.to_str().expect("UTF-8");
    for (url, file, expected) in [
        (&http, empty, "--upstream-ca needs an https upstream"),
        (&https, empty, "it contains no certificate"),
        (&https, torn, "certificate 1"),
        (&https, "/nowhere/ca.pem", "cannot be read"),
    ] {
        let error = start_error(&["--upstream", url, "--upstream-ca", file], &[]);
        assert!(error.contains(expected), "{error}");
    }
    // A system without certificate authorities.
    let none = [("SSL_CERT_FILE", empty), ("SSL_CERT_DIR", "/nowhere")];
    let error = start_error(&["--upstream", &https], &none);
    assert!(error.contains("ca-certificates"), "{error}");
}
