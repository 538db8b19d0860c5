//! A request as the rules see it.

use std::net::IpAddr;

use http::header::HOST;
use http::request::Parts;
use tollgate_rules::RequestView;

/// A request's head, and the client's address.
///
/// ```
/// use tollgate_pingora::RequestFacts;
/// use tollgate_rules::RequestView;
///
/// let header = pingora_http::RequestHeader::build("GET", b"/posts?page=2", None)?;
/// let facts = RequestFacts::new(&header, Some([192, 0, 2, 7].into()));
/// assert_eq!((facts.method(), facts.path()), ("GET", "/posts"));
/// # Ok::<(), Box<pingora_core::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    head: &'a Parts,
    client: Option<IpAddr>,
}

impl<'a> RequestFacts<'a> {
    /// Of a head, such as Pingora's `RequestHeader`, and of a client that the caller has found.
    #[must_use]
    pub fn new(head: &'a Parts, client: Option<IpAddr>) -> Self {
        Self { head, client }
    }
}

impl RequestView for RequestFacts<'_> {
    fn method(&self) -> &str {
        self.head.method.as_str()
    }

    fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// The `:authority` of HTTP/2, or the host of a target that is a whole URL; or else `Host`.
    fn host(&self) -> Option<&str> {
        let of_target = self.head.uri.authority().map(|authority| authority.as_str());
        of_target.or_else(|| self.head.headers.get(HOST)?.to_str().ok())
    }

    fn header(&self, name: &str, nth: usize) -> Option<&[u8]> {
        self.head.headers.get_all(name).iter().nth(nth).map(|value| value.as_bytes())
    }

    fn peer(&self) -> Option<IpAddr> {
        self.client
    }
}

#[cfg(test)]
mod tests {
    use pingora_http::RequestHeader;

    use super::*;

    #[test]
    fn headers_and_hosts_are_found_as_the_rules_ask_for_them() {
        let mut header = RequestHeader::build("POST", b"/a/../b?c=/d", None).expect("a request");
        header.append_header("X-User", "ada").expect("a header");
        header.append_header("x-user", "grace").expect("a header");
        header.append_header("Host", "example.com:8080").expect("a header");
        let facts = RequestFacts::new(&header, None);
        assert_eq!((facts.method(), facts.path()), ("POST", "/a/../b"));
        assert_eq!(facts.header("x-user", 0), Some(&b"ada"[..]));
        assert_eq!(facts.header("x-user", 1), Some(&b"grace"[..]));
        assert_eq!((facts.header("x-user", 2), facts.peer()), (None, None));
        assert_eq!(facts.host(), Some("example.com:8080"));
        header.set_uri("http://other.example/a".parse().expect("a target"));
        assert_eq!(RequestFacts::new(&header, None).host(), Some("other.example"));
    }
}
