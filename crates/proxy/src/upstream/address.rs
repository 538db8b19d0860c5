//! The address of the upstream.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Uri};
use rustls::pki_types::ServerName;

use super::climb::is_above_root;
use crate::metrics::Failure;

/// The server that receives the requests. Parses from a URL.
#[derive(Clone, Debug)]
pub struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// The prefix of every path: empty, or with a slash at its start and none at its end.
    base: String,
}

impl Upstream {
    /// A server at this address, over http.
    pub(crate) fn at(address: SocketAddr) -> Self {
        format!("http://{address}").parse().expect("an address is a host and a port")
    }

    /// Whether the scheme is https.
    pub(super) fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The URI at the upstream for a request. `CONNECT host:port` and `OPTIONS *` have none, and neither has a
    /// path that would leave the base, or is too long behind it.
    pub(super) fn target(&self, method: &Method, requested: &Uri) -> Result<Uri, Failure> {
        let path = requested.path_and_query().ok_or(Failure::NotPassedOn)?;
        if method == Method::CONNECT || !path.path().starts_with('/') {
            return Err(Failure::NotPassedOn);
        }
        if !self.base.is_empty() && is_above_root(path.path()) {
            return Err(Failure::AboveRoot);
        }
        let path = if self.base.is_empty() && path.as_str().starts_with('/') {
            path.clone()
        } else {
            // An empty path before a query, as in `http://a?x`, is formatted with its slash (RFC 9110, 4.2.3).
            PathAndQuery::try_from(format!("{}{path}", self.base))
                .map_err(|_| Failure::TargetTooLong)?
        };
        let target = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        target.path_and_query(path).build().map_err(|_| Failure::NotPassedOn)
    }
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it like http://127.0.0.1:3000 or https://backend/base";
        let uri: Uri = text.parse().map_err(|error| format!("{error}; {example}"))?;
        let scheme = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => scheme.clone(),
            _ => return Err(example.to_owned()),
        };
        let authority = uri.authority().expect("a URI with a scheme has a host");
        if authority.as_str().contains('@') {
            return Err("a user in the URL is not supported".to_owned());
        }
        if uri.query().is_some() {
            return Err("a query in the URL is not supported".to_owned());
        }
        if text.contains('#') {
            return Err("a fragment in the URL is not supported".to_owned());
        }
        if has_wrong_port(authority) {
            return Err(format!("the port is not a number from 1 to 65535; {example}"));
        }
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        if scheme == Scheme::HTTPS && ServerName::try_from(name).is_err() {
            return Err(format!("no certificate can name `{name}`; {example}"));
        }
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme, authority: authority.clone(), base })
    }
}

/// Whether there is a port that is none: the HTTP client would connect to the scheme's port instead.
fn has_wrong_port(authority: &Authority) -> bool {
    let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    !matches!(port, "" | ":") && authority.port_u16().is_none_or(|port| port == 0)
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(upstream: &str, asked: &str) -> String {
        let upstream: Upstream = upstream.parse().expect("an upstream");
        let asked = asked.parse().expect("a target");
        upstream.target(&Method::GET, &asked).map_or("none".to_owned(), |uri| uri.to_string())
    }

    #[test]
    fn path_and_query_are_kept_behind_the_base() {
        for (upstream, asked, expected) in [
            ("http://a:3000", "/", "http://a:3000/"),
            ("http://a:3000/", "/x/../y?q=%2F", "http://a:3000/x/../y?q=%2F"),
            ("http://a/v1/", "/x?y", "http://a/v1/x?y"),
            ("http://a:65535", "/", "http://a:65535/"),
            ("http://a", "http://other.example/x", "http://a/x"),
            ("http://a", "http://other.example", "http://a/"),
            ("http://a", "http://other.example?x=/..", "http://a/?x=/.."),
            ("http://a/v1", "http://other.example?x", "http://a/v1/?x"),
            ("http://[::1]:80", "//evil.example/x", "http://[::1]:80//evil.example/x"),
            ("https://a/v1", "/x", "https://a/v1/x"),
            ("http://a", "*", "none"),
            ("http://a", "other.example:443", "none"),
        ] {
            assert_eq!(target(upstream, asked), expected);
        }
        let upstream: Upstream = "http://a".parse().expect("an upstream");
        let asked = "/x".parse().expect("a target");
        assert_eq!(upstream.target(&Method::CONNECT, &asked), Err(Failure::NotPassedOn));
    }

    #[test]
    fn a_path_that_leaves_the_base_has_no_target() {
        for asked in ["/../v1/x", "/%2e%2e/v1/x", "/x/..%2f../y", "/..;a/x?y"] {
            assert_eq!(target("http://a/v1", asked), "none", "{asked}");
            // Without a base, rules and upstream read the same path.
            assert_eq!(target("http://a", asked), format!("http://a{asked}"));
        }
        assert_eq!(target("http://a/v1", "/x/../y?../.."), "http://a/v1/x/../y?../..");
    }

    #[test]
    fn a_wrong_url_says_what_to_write() {
        for (text, said) in [
            ("https://-a", "no certificate can name"),
            ("a:3000", "write it like"),
            ("/x", "write it like"),
            ("ftp://a", "write it like"),
            ("http://u:p@a", "a user"),
            ("http://a/?q", "a query"),
            ("http://", "write it like"),
            ("http://a:99999", "the port is not a number"),
            ("http://[::1]:65536/", "the port is not a number"),
            ("http://a:0", "the port is not a number"),
            ("http://a:80#f", "a fragment"),
            ("http://a/#", "a fragment"),
        ] {
            let error = text.parse::<Upstream>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
