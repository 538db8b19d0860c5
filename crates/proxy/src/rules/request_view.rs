//! A request as the rules see it.

use std::net::IpAddr;

use http::request::Parts;
use tollgate_rules::RequestView;

use crate::request::body::OpenBody;
use crate::request::client::Client;
use crate::request::headers::requested_host;

/// The head of a request that [`ClientFinder::mark`](crate::request::client::ClientFinder::mark) has marked,
/// without the headers that `Connection` names, and those with an ambiguous name.
pub(super) struct HeadView<'a>(pub(super) &'a Parts);

impl RequestView for HeadView<'_> {
    const PATH_HAS_QUERY: bool = false;

    fn method(&self) -> &str {
        self.0.method.as_str()
    }

    fn path(&self) -> &str {
        self.0.uri.path()
    }

    fn query(&self) -> Option<&str> {
        self.0.uri.query()
    }

    fn host(&self) -> Option<&str> {
        requested_host(&self.0.uri, &self.0.headers)
    }

    fn header_values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.0.headers.get_all(name).iter().map(|value| value.as_bytes())
    }

    fn has_open_body(&self) -> Option<bool> {
        Some(self.0.extensions.get::<OpenBody>().is_some())
    }

    fn peer(&self) -> Option<IpAddr> {
        self.0.extensions.get::<Client>()?.address
    }
}
