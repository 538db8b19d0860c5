//! A request, as rules see it.

use std::net::IpAddr;

/// What rules may ask of a request.
///
/// Implement it for the request type of a server; every method is asked for only where a rule
/// needs it.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate_rules::RequestView;
///
/// struct Login { from: IpAddr }
/// impl RequestView for Login {
///     fn method(&self) -> &str { "POST" }
///     fn path(&self) -> &str { "/login" }
///     fn host(&self) -> Option<&str> { None }
///     fn header(&self, _name: &str, _nth: usize) -> Option<&[u8]> { None }
///     fn peer(&self) -> Option<IpAddr> { Some(self.from) }
/// }
/// assert_eq!(Login { from: [192, 0, 2, 7].into() }.path(), "/login");
/// ```
pub trait RequestView {
    /// The method, in upper case.
    fn method(&self) -> &str;

    /// The path as it came, percent-encoded. What follows a `?` or `#` is not looked at.
    fn path(&self) -> &str;

    /// The host that was asked for (`Host`, or `:authority`), with or without a port. User info is
    /// left out. Whether there is one host, and a well-formed one, is for the server to check.
    fn host(&self) -> Option<&str>;

    /// The `nth` value, from 0, of the header of that name, which is given in lower case.
    fn header(&self, name: &str, nth: usize) -> Option<&[u8]>;

    /// The address of the client. Behind proxies this is for the caller to establish: a header
    /// that clients can write must not choose it.
    fn peer(&self) -> Option<IpAddr>;
}

/// A request of borrowed parts: for tests, replay, and servers without a type of their own.
///
/// ```
/// use tollgate_rules::{RequestView, Request};
///
/// let headers = [("X-User", "ada")];
/// let request = Request { path: "/", headers: &headers, ..Request::default() };
/// assert_eq!(request.header("x-user", 0), Some(&b"ada"[..]));
/// assert_eq!(request.header("x-user", 1), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The path, percent-encoded.
    pub path: &'a str,
    /// The host, with or without a port.
    pub host: Option<&'a str>,
    /// Names, in any case, and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// The address of the client.
    pub peer: Option<IpAddr>,
}

impl RequestView for Request<'_> {
    fn method(&self) -> &str {
        self.method
    }

    fn path(&self) -> &str {
        self.path
    }

    fn host(&self) -> Option<&str> {
        self.host
    }

    fn header(&self, name: &str, nth: usize) -> Option<&[u8]> {
        let named = self.headers.iter().filter(|(its, _)| its.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_bytes()).nth(nth)
    }

    fn peer(&self) -> Option<IpAddr> {
        self.peer
    }
}
