//! Where requests go to.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use http::header::HeaderValue;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Uri};

/// A server to which requests are passed on.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    authority: Authority,
    /// Stands before every path; empty, or with a slash at its start and none at its end.
    base: String,
    host: HeaderValue,
}

/// A request whose target cannot be passed on: `CONNECT host:port`, or `OPTIONS *`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotPassedOn;

impl Upstream {
    /// One at this address.
    pub(super) fn at(address: SocketAddr) -> Self {
        format!("http://{address}").parse().expect("an address is a host and a port")
    }

    /// Its name and port, for `Host`.
    pub(super) fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Where a request for this goes.
    pub(super) fn target(&self, method: &Method, asked: &Uri) -> Result<Uri, NotPassedOn> {
        let path = asked.path_and_query().ok_or(NotPassedOn)?;
        if method == Method::CONNECT || !path.as_str().starts_with('/') {
            return Err(NotPassedOn);
        }
        let path = if self.base.is_empty() {
            path.clone()
        } else {
            PathAndQuery::try_from(format!("{}{path}", self.base)).map_err(|_| NotPassedOn)?
        };
        let target = Uri::builder().scheme(Scheme::HTTP).authority(self.authority.clone());
        target.path_and_query(path).build().map_err(|_| NotPassedOn)
    }
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it like http://127.0.0.1:3000 or http://backend/base";
        let uri: Uri = text.parse().map_err(|error| format!("{error}; {example}"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err("https upstreams are not supported: the proxy speaks no TLS; put one \
                            that does in between"
                    .to_owned());
            }
            _ => return Err(example.to_owned()),
        }
        let authority = uri.authority().expect("what has a scheme has a host");
        if authority.as_str().contains('@') {
            return Err("a user in the URL is not supported".to_owned());
        }
        if uri.query().is_some() {
            return Err("a query in the URL is not supported".to_owned());
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?;
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { authority: authority.clone(), base, host })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.base)
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
    fn paths_and_queries_are_kept() {
        for (upstream, asked, expected) in [
            ("http://a:3000", "/", "http://a:3000/"),
            ("http://a:3000/", "/x/../y?q=%2F", "http://a:3000/x/../y?q=%2F"),
            ("http://a/v1/", "/x?y", "http://a/v1/x?y"),
            ("http://a", "http://other.example/x", "http://a/x"),
            ("http://[::1]:80", "//evil.example/x", "http://[::1]:80//evil.example/x"),
            ("http://a", "*", "none"),
            ("http://a", "other.example:443", "none"),
        ] {
            assert_eq!(target(upstream, asked), expected);
        }
        let upstream: Upstream = "http://a".parse().expect("an upstream");
        let asked = "/x".parse().expect("a target");
        assert_eq!(upstream.target(&Method::CONNECT, &asked), Err(NotPassedOn));
    }

    #[test]
    fn what_is_no_upstream_is_told() {
        for (text, said) in [
            ("https://a", "speaks no TLS"),
            ("a:3000", "write it like"),
            ("/x", "write it like"),
            ("ftp://a", "write it like"),
            ("http://u:p@a", "a user"),
            ("http://a/?q", "a query"),
            ("http://", "write it like"),
        ] {
            let error = text.parse::<Upstream>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
