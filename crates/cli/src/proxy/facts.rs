//! A request as the rules see it.

use std::net::IpAddr;

use http::request::Parts;
use tollgate_rules::RequestView;

use super::client::Client;
use super::headers::asked_host;

/// A request's head, which [`Finder::mark`](super::client::Finder::mark) has marked.
pub(super) struct Head<'a>(pub(super) &'a Parts);

impl RequestView for Head<'_> {
    const PATH_HAS_QUERY: bool = false;

    fn method(&self) -> &str {
        self.0.method.as_str()
    }

    fn path(&self) -> &str {
        self.0.uri.path()
    }

    fn host(&self) -> Option<&str> {
        asked_host(&self.0.uri, &self.0.headers)
    }

    fn header(&self, name: &str, nth: usize) -> Option<&[u8]> {
        self.0.headers.get_all(name).iter().nth(nth).map(|value| value.as_bytes())
    }

    fn peer(&self) -> Option<IpAddr> {
        self.0.extensions.get::<Client>()?.address
    }
}
