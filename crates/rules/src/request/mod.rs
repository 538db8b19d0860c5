//! A request, as rules read it: the trait, its path, its host, and the values that it carries under a name.

pub(crate) mod host;
pub(crate) mod named;
pub(crate) mod path;

use std::net::IpAddr;

/// The parts of a request that rules read.
///
/// Implement it for the request type of a server. The limiter calls a method only if a rule needs
/// its answer.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate_rules::RequestView;
///
/// struct Login { from: IpAddr }
/// impl RequestView for Login {
///     const PATH_HAS_QUERY: bool = false;
///     fn method(&self) -> &str { "POST" }
///     fn path(&self) -> &str { "/login" }
///     fn query(&self) -> Option<&str> { None }
///     fn host(&self) -> Option<&str> { None }
///     fn header_values(&self, _name: &str) -> impl Iterator<Item = &[u8]> { std::iter::empty() }
///     fn peer(&self) -> Option<IpAddr> { Some(self.from) }
/// }
/// assert_eq!(Login { from: [192, 0, 2, 7].into() }.path(), "/login");
/// ```
pub trait RequestView {
    /// Whether [`path`](Self::path) may hold a query or a fragment.
    ///
    /// If `true`, rules ignore everything from the first `?` or `#` on. If `false`, rules read the
    /// whole path, and a `?` in it is an ordinary character. There is no default, because the wrong
    /// choice lets a client evade a rule: with `false`, `/login?x` is not `/login`.
    const PATH_HAS_QUERY: bool;

    /// The method as the client sent it.
    ///
    /// A client may write `post`, which some servers read as `POST`. Rules count it as both.
    fn method(&self) -> &str;

    /// The path as the client sent it, percent-encoded.
    fn path(&self) -> &str;

    /// The query as the client sent it, percent-encoded and without the `?`; `None` if there is none.
    ///
    /// There is no default: a query that is not passed on lets a client evade a rule.
    fn query(&self) -> Option<&str>;

    /// The requested host (`Host`, or `:authority`), with or without a port. Rules ignore user
    /// info. The server checks that there is exactly one host and that it is well formed.
    ///
    /// It is also what rules read as the header `host`: HTTP/2 may have none, and the target of an HTTP/1 request
    /// takes precedence over it.
    fn host(&self) -> Option<&str>;

    /// The values of the header `name`, which is in lower case and not `host`, in the order of the request.
    ///
    /// Rules read all of them, each rule anew, so a step of the iterator should not search the headers again.
    fn header_values(&self, name: &str) -> impl Iterator<Item = &[u8]>;

    /// Whether a body whose length the head does not state follows it; `None` if that is unknown. With a
    /// `Content-Length`, rules do not ask.
    ///
    /// The default is `None`: then `cost = { bytes = "request" }` takes a request without a length to have no body if
    /// it is `GET`, `HEAD`, `OPTIONS`, `DELETE` or `TRACE` without `Transfer-Encoding`. A server should answer. In
    /// HTTP/1 a body without a length has `Transfer-Encoding` (RFC 9112, 6.3). HTTP/2 has no header that announces
    /// one: there, a body follows unless the head ends the stream.
    fn has_open_body(&self) -> Option<bool> {
        None
    }

    /// The address of the client. Behind a proxy, the implementer determines it. A header that
    /// clients can write must not choose it.
    fn peer(&self) -> Option<IpAddr>;
}

/// The values of the header `name`, which is in lower case. That of `host` is the [host](RequestView::host).
pub(crate) fn header_values<'r>(
    request: &'r impl RequestView,
    name: &str,
) -> impl Iterator<Item = &'r [u8]> {
    let is_host = name == "host";
    let host = if is_host { request.host() } else { None };
    let others = (!is_host).then(|| request.header_values(name));
    host.map(str::as_bytes).into_iter().chain(others.into_iter().flatten())
}

/// A request of borrowed parts: for tests, replay, and servers without a request type of their own.
///
/// ```
/// use tollgate_rules::{RequestView, Request};
///
/// let headers = [("X-User", "ada")];
/// let request = Request { path: "/", headers: &headers, ..Request::default() };
/// assert!(request.header_values("x-user").eq([b"ada"]));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The method, as the client sent it.
    pub method: &'a str,
    /// The path, percent-encoded, with or without a query.
    pub path: &'a str,
    /// The host, with or without a port. A header `host` is not read.
    pub host: Option<&'a str>,
    /// Names, in any case, and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// The address of the client.
    pub peer: Option<IpAddr>,
}

impl RequestView for Request<'_> {
    const PATH_HAS_QUERY: bool = true;

    fn method(&self) -> &str {
        self.method
    }

    fn path(&self) -> &str {
        self.path
    }

    fn query(&self) -> Option<&str> {
        let before = self.path.split('#').next().unwrap_or_default();
        before.split_once('?').map(|(_, query)| query)
    }

    fn host(&self) -> Option<&str> {
        self.host
    }

    fn header_values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let named = self.headers.iter().filter(move |(its, _)| its.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_bytes())
    }

    fn peer(&self) -> Option<IpAddr> {
        self.peer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_cut_only_from_a_path_that_may_hold_one() {
        struct Bare(&'static str);
        impl RequestView for Bare {
            const PATH_HAS_QUERY: bool = false;
            fn method(&self) -> &str {
                "GET"
            }
            fn path(&self) -> &str {
                self.0
            }
            fn query(&self) -> Option<&str> {
                None
            }
            fn host(&self) -> Option<&str> {
                None
            }
            fn header_values(&self, _: &str) -> impl Iterator<Item = &[u8]> {
                std::iter::empty()
            }
            fn peer(&self) -> Option<IpAddr> {
                None
            }
        }
        let path = "/a?/../b#c";
        let with_query = Request { path, ..Request::default() };
        assert_eq!((path::of_request(&with_query), with_query.query()), ("/a", Some("/../b")));
        assert_eq!(path::of_request(&Bare(path)), path);
    }
}
