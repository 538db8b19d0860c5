//! A logged request as rules see it, as far as the log records it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tollgate_rules::RequestView;

use crate::log::fields::{Field, Fields, Header, authority_of};

/// The parts of a request that rules match, taken from its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoggedRequest {
    method: Option<String>,
    path: Option<String>,
    query: LoggedHeader,
    host: LoggedHeader,
    client: Client,
    /// In the order of the names that the caller gave.
    headers: Vec<LoggedHeader>,
}

/// A header, copied from its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum LoggedHeader {
    /// In the order of the log. There is at least one.
    Values(Vec<String>),
    Absent,
    #[default]
    NotInLog,
}

/// The client of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Client {
    Address(IpAddr),
    /// A name instead of an address: some servers resolve and log names.
    Name(String),
    #[default]
    NotInLog,
}

impl LoggedRequest {
    /// Takes the parts from a line, with the headers of these names.
    pub(crate) fn of(fields: &impl Fields, headers: &[String]) -> Self {
        let text = |field| fields.text(&field).map(Cow::into_owned);
        Self {
            method: text(Field::Method),
            path: text(Field::Path),
            query: fields.query().into(),
            host: host_of(fields),
            client: text(Field::Ip).map_or(Client::NotInLog, Client::from_text),
            headers: headers.iter().map(|name| fields.header(name).into()).collect(),
        }
    }

    /// Whether the log has a name instead of the client's address.
    pub(crate) fn has_client_name(&self) -> bool {
        matches!(self.client, Client::Name(_))
    }
}

/// The authority of an absolute target, or else the host that the line records (RFC 9112, 3.2.2).
fn host_of(fields: &impl Fields) -> LoggedHeader {
    let target = fields.target().unwrap_or_default();
    match authority_of(&target) {
        Some(authority) => Header::written(Cow::Borrowed(&target[authority])).into(),
        None => match fields.header("host") {
            // A server rejects a request with several, so a list of them says something else.
            Header::Values(_) => LoggedHeader::NotInLog,
            host => host.into(),
        },
    }
}

impl Client {
    /// An address, with or without a port. Any other text is a name.
    fn from_text(text: String) -> Self {
        match client_address(&text) {
            Some(address) => Self::Address(address),
            None if text.is_empty() || text == "-" => Self::NotInLog,
            None => Self::Name(text),
        }
    }
}

/// The address of a client as a log writes it: with or without a port, brackets and a zone.
pub(crate) fn client_address(text: &str) -> Option<IpAddr> {
    address(&without_zone(text))
}

/// `192.0.2.7`, `192.0.2.7:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let socket = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    text.parse().ok().or_else(socket).or_else(bracketed)
}

/// The text without the zone of an IPv6 address, as in `fe80::1%eth0` and `[fe80::1%eth0]:80`. A zone names an
/// interface of the server, and the address of a connection has none.
fn without_zone(text: &str) -> Cow<'_, str> {
    match text.split_once('%') {
        Some((address, zone)) if address.contains(':') => {
            let after = zone.find(']').map_or("", |at| &zone[at..]);
            Cow::Owned([address, after].concat())
        }
        _ => Cow::Borrowed(text),
    }
}

impl From<Header<'_>> for LoggedHeader {
    fn from(header: Header<'_>) -> Self {
        match header {
            Header::Value(value) => Self::Values(vec![value.into_owned()]),
            Header::Values(values) => {
                Self::Values(values.into_iter().map(Cow::into_owned).collect())
            }
            Header::Absent => Self::Absent,
            Header::NotInLog => Self::NotInLog,
        }
    }
}

/// A logged request as rules see it. It notes what rules ask for and the log does not record.
#[derive(Debug)]
pub(crate) struct LoggedRequestView<'h> {
    head: &'h LoggedRequest,
    /// The names of the headers in `request`.
    headers: &'h [String],
    missing: RefCell<BTreeSet<Cow<'h, str>>>,
}

impl<'h> LoggedRequestView<'h> {
    pub(crate) fn new(head: &'h LoggedRequest, headers: &'h [String]) -> Self {
        Self { head, headers, missing: RefCell::default() }
    }

    /// The parts that rules have asked for since the last call and that the log does not record.
    pub(crate) fn take_missing(&self) -> BTreeSet<Cow<'h, str>> {
        self.missing.take()
    }

    /// The client as reports write it: by name if the log has a name.
    pub(crate) fn address(&self, address: IpAddr) -> String {
        match &self.head.client {
            Client::Name(name) => name.clone(),
            _ => address.to_string(),
        }
    }

    /// Notes the address, if the log has a name in its place.
    pub(crate) fn need_address(&self) {
        if let Client::Name(_) = self.head.client {
            self.note_missing("ip");
        }
    }

    fn note_missing(&self, what: impl Into<Cow<'h, str>>) {
        self.missing.borrow_mut().insert(what.into());
    }

    fn values<'t>(
        &self,
        logged: &'t LoggedHeader,
        what: impl FnOnce() -> Cow<'h, str>,
    ) -> &'t [String] {
        match logged {
            LoggedHeader::Values(values) => values,
            LoggedHeader::Absent => &[],
            LoggedHeader::NotInLog => {
                self.note_missing(what());
                &[]
            }
        }
    }
}

impl RequestView for LoggedRequestView<'_> {
    /// A log may have the whole target in the place of the path.
    const PATH_HAS_QUERY: bool = true;

    fn method(&self) -> &str {
        self.head.method.as_deref().unwrap_or_else(|| {
            self.note_missing("method");
            ""
        })
    }

    fn path(&self) -> &str {
        self.head.path.as_deref().unwrap_or_else(|| {
            self.note_missing("path");
            ""
        })
    }

    fn query(&self) -> Option<&str> {
        self.values(&self.head.query, || "query".into()).first().map(String::as_str)
    }

    fn host(&self) -> Option<&str> {
        self.values(&self.head.host, || "host".into()).first().map(String::as_str)
    }

    fn header_values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let logged = self.headers.iter().position(|its| its == name);
        let logged = logged
            .and_then(|index| self.head.headers.get(index))
            .unwrap_or(&LoggedHeader::NotInLog);
        let values = self.values(logged, || format!("header {name}").into());
        values.iter().map(String::as_bytes)
    }

    fn peer(&self) -> Option<IpAddr> {
        match &self.head.client {
            Client::Address(address) => Some(*address),
            Client::Name(name) => Some(stand_in(name)),
            Client::NotInLog => {
                self.note_missing("ip");
                None
            }
        }
    }
}

/// A stand-in address for a name: a hash in both halves, so that each name has its own bucket for
/// any prefix length.
fn stand_in(name: &str) -> IpAddr {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, name).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    IpAddr::V6(Ipv6Addr::from_bits(half(0) << 64 | half(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_address_or_a_name() {
        let client = |text: &str| Client::from_text(text.to_owned());
        for text in ["192.0.2.7", "192.0.2.7:80"] {
            assert_eq!(client(text), Client::Address([192, 0, 2, 7].into()));
        }
        for text in ["::1", "[::1]", "[::1]:80", "::1%lo", "[::1%lo]", "[::1%25lo]:80"] {
            assert_eq!(client(text), Client::Address(Ipv6Addr::LOCALHOST.into()), "{text}");
        }
        for text in ["a.example", "a%b", "[::1", "::1]", "a:80%b", "[a.example]", "[192.0.2.7]"] {
            assert_eq!(client(text), Client::Name(text.to_owned()));
        }
        assert_eq!((client("-"), client("")), (Client::NotInLog, Client::NotInLog));
        assert_ne!(stand_in("a.example"), stand_in("b.example"));
    }

    #[test]
    fn a_part_that_the_log_does_not_record_is_noted_when_a_rule_asks_for_it() {
        let headers = ["x-user".to_owned(), "referer".to_owned()];
        let logged = vec![LoggedHeader::NotInLog, LoggedHeader::Absent];
        let head = LoggedRequest { headers: logged, ..LoggedRequest::default() };
        let asked = LoggedRequestView::new(&head, &headers);
        assert_eq!(asked.header_values("referer").next(), None);
        assert!(asked.take_missing().is_empty());
        assert_eq!((asked.header_values("x-user").next(), asked.peer()), (None, None));
        assert_eq!((asked.host(), asked.path(), asked.method()), (None, "", ""));
        assert_eq!(asked.query(), None);
        let missing: Vec<_> = asked.take_missing().into_iter().collect();
        assert_eq!(missing, ["header x-user", "host", "ip", "method", "path", "query"]);
        assert!(asked.take_missing().is_empty());
    }
}
