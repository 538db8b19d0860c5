//! A request as rules read it.

use std::net::IpAddr;

use http::Method;
use http::header::{CONNECTION, HOST, HeaderName};
use pingora_http::RequestHeader;
use pingora_http::authority::{RawTargetAuthority, raw_target_authority};
use tollgate_rules::RequestView;

/// Headers that stay in a request whose `Connection` names them. The session still reads the first ones, for upgrades
/// and the framing of the body. Pingora answers 400 if one of the last four is named.
const KEPT: [&str; 13] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// The head of a request, and the client's address.
///
/// ```
/// use tollgate_pingora::RequestHead;
/// use tollgate_rules::RequestView;
///
/// let header = pingora_http::RequestHeader::build("GET", b"/posts?page=2", None)?;
/// let request = RequestHead::new(&header, Some([192, 0, 2, 7].into()));
/// assert_eq!((request.method(), request.path()), ("GET", "/posts"));
/// # Ok::<(), Box<pingora_core::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    head: &'a RequestHeader,
    client: Option<IpAddr>,
    has_open_body: Option<bool>,
}

impl<'a> RequestHead<'a> {
    /// A view of a head, and of a client that the caller has determined.
    #[must_use]
    pub fn new(head: &'a RequestHeader, client: Option<IpAddr>) -> Self {
        Self { head, client, has_open_body: None }
    }

    /// Whether a body of unknown length follows the head, if the session knows: see [`RequestView::has_open_body`].
    #[must_use]
    pub fn open_body(self, has_open_body: bool) -> Self {
        Self { has_open_body: Some(has_open_body), ..self }
    }

    /// The `:authority` of HTTP/2, or the host of a target that is a whole URL. Pingora sends it to the upstream as
    /// `Host`, whatever the request's own `Host` is.
    fn authority(&self) -> Option<&'a [u8]> {
        match self.head.uri.authority() {
            Some(authority) => Some(authority.as_str().as_bytes()),
            // Pingora keeps the authority of HTTP/1 out of the URI, and adds a `Host` only for the upstream.
            None => raw_target_authority(self.head.raw_path()).authority(),
        }
    }
}

impl RequestView for RequestHead<'_> {
    const PATH_HAS_QUERY: bool = false;

    fn method(&self) -> &str {
        self.head.method.as_str()
    }

    fn path(&self) -> &str {
        self.head.uri.path()
    }

    fn query(&self) -> Option<&str> {
        self.head.uri.query()
    }

    /// The `Host` that Pingora sends to the upstream.
    fn host(&self) -> Option<&str> {
        match self.authority() {
            Some(authority) => std::str::from_utf8(authority).ok(),
            None => self.head.headers.get(HOST)?.to_str().ok(),
        }
    }

    fn header_values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.head.headers.get_all(name).iter().map(|value| value.as_bytes())
    }

    fn has_open_body(&self) -> Option<bool> {
        self.has_open_body
    }

    fn peer(&self) -> Option<IpAddr> {
        self.client
    }
}

/// Removes the headers that `Connection` names (RFC 9110, 7.6.1), so that rules see the headers that the upstream gets.
pub(crate) fn remove_named_by_connection(head: &mut RequestHeader) {
    let values = head.headers.get_all(CONNECTION).iter();
    let words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let named: Vec<HeaderName> = words
        .filter_map(|word| HeaderName::from_bytes(word.trim_ascii()).ok())
        .filter(|name| !KEPT.contains(&name.as_str()))
        .collect();
    for name in &named {
        head.remove_header(name);
    }
}

/// Whether the target has a path that begins with a slash, or is `*`, a whole URL, or that of `CONNECT`.
///
/// Pingora sends any other target to the upstream as it is, and rules would read `/` in its place.
pub(crate) fn has_path(head: &RequestHeader) -> bool {
    let target = head.raw_path();
    let is_whole_url =
        || matches!(raw_target_authority(target), RawTargetAuthority::Absolute { .. });
    target.starts_with(b"/") || target == b"*" || head.method == Method::CONNECT || is_whole_url()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_headers_and_hosts_of_a_pingora_request() {
        let mut header = RequestHeader::build("POST", b"/a/../b?c=/d", None).expect("a request");
        header.append_header("X-User", "ada").expect("a header");
        header.append_header("x-user", "grace").expect("a header");
        header.append_header("Host", "example.com:8080").expect("a header");
        let request = RequestHead::new(&header, None);
        assert_eq!((request.method(), request.path()), ("POST", "/a/../b"));
        assert_eq!(request.query(), Some("c=/d"));
        assert!(request.header_values("x-user").eq([&b"ada"[..], b"grace"]));
        assert_eq!((request.header_values("x-plan").next(), request.peer()), (None, None));
        assert_eq!(request.host(), Some("example.com:8080"));
        header.set_uri("http://other.example/a".parse().expect("a target"));
        assert_eq!(RequestHead::new(&header, None).host(), Some("other.example"));
    }

    #[test]
    fn the_host_of_a_whole_url_needs_no_header() {
        for (target, host, path) in [
            ("http://api.example.com/login", Some("api.example.com"), "/login"),
            ("HTTPS://api.example.com:443?a", Some("api.example.com:443"), "/"),
            ("/http://api.example.com/login", None, "/http://api.example.com/login"),
        ] {
            let header = RequestHeader::build("GET", target.as_bytes(), None).expect("a request");
            let request = RequestHead::new(&header, None);
            assert_eq!((request.host(), request.path()), (host, path), "{target}");
        }
    }

    #[test]
    fn a_target_has_a_path() {
        for (method, target, has_one) in [
            ("GET", "/", true),
            ("GET", "//x", true),
            ("GET", "http://a", true),
            ("OPTIONS", "*", true),
            ("CONNECT", "a:80", true),
            ("GET", "login", false),
            ("GET", "a:80", false),
            ("GET", "http:/login", false),
            ("GET", "?x", false),
            ("GET", "*/login", false),
        ] {
            let header = RequestHeader::build(method, target.as_bytes(), None).expect("a request");
            assert_eq!(has_path(&header), has_one, "{method} {target}");
        }
    }
}
