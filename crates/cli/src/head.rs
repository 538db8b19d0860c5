//! The head of a logged request, as far as the log has it, and as rules see it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tollgate_rules::RequestView;

use crate::record::{Field, Fields, Header};

/// What a line tells of its request, kept so that rules may ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    method: Option<String>,
    path: Option<String>,
    host: Told,
    client: Client,
    /// In the order in which they were asked for.
    headers: Vec<Told>,
}

/// A header, out of its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Told {
    Value(String),
    Absent,
    #[default]
    NotInLog,
}

/// Who made a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Client {
    Address(IpAddr),
    /// A name in an address' place: servers that resolve names log those.
    Name(String),
    #[default]
    NotInLog,
}

impl Head {
    /// What a line tells, with the headers of these names.
    pub(crate) fn of(fields: &impl Fields, headers: &[String]) -> Self {
        let text = |field| fields.text(&field).map(Cow::into_owned);
        Self {
            method: text(Field::Method),
            path: text(Field::Path),
            host: fields.header("host").into(),
            client: text(Field::Ip).map_or(Client::NotInLog, Client::from_text),
            headers: headers.iter().map(|name| fields.header(name).into()).collect(),
        }
    }

    /// Whether the client is told by a name.
    pub(crate) fn has_client_name(&self) -> bool {
        matches!(self.client, Client::Name(_))
    }
}

impl Client {
    /// An address, with or without a port; anything else is a name.
    fn from_text(text: String) -> Self {
        let socket = || text.parse::<SocketAddr>().map(|socket| socket.ip());
        match text.parse().or_else(|_| socket()) {
            Ok(address) => Self::Address(address),
            Err(_) if text.is_empty() || text == "-" => Self::NotInLog,
            Err(_) => Self::Name(text),
        }
    }
}

impl From<Header<'_>> for Told {
    fn from(header: Header<'_>) -> Self {
        match header {
            Header::Value(value) => Self::Value(value.into_owned()),
            Header::Absent => Self::Absent,
            Header::NotInLog => Self::NotInLog,
        }
    }
}

/// A head as rules see it. It remembers what was asked for and is not in the log.
#[derive(Debug)]
pub(crate) struct Asked<'h> {
    head: &'h Head,
    /// The names of its headers.
    headers: &'h [String],
    missing: RefCell<BTreeSet<Cow<'h, str>>>,
}

impl<'h> Asked<'h> {
    pub(crate) fn new(head: &'h Head, headers: &'h [String]) -> Self {
        Self { head, headers, missing: RefCell::default() }
    }

    /// What was asked for in vain since the last call.
    pub(crate) fn take_missing(&self) -> BTreeSet<Cow<'h, str>> {
        self.missing.take()
    }

    /// How the client's address is written in reports.
    pub(crate) fn address(&self, address: IpAddr) -> String {
        match &self.head.client {
            Client::Name(name) => name.clone(),
            _ => address.to_string(),
        }
    }

    fn lacks(&self, what: impl Into<Cow<'h, str>>) {
        self.missing.borrow_mut().insert(what.into());
    }

    fn value<'t>(&self, told: &'t Told, what: impl FnOnce() -> Cow<'h, str>) -> Option<&'t str> {
        match told {
            Told::Value(value) => Some(value),
            Told::Absent => None,
            Told::NotInLog => {
                self.lacks(what());
                None
            }
        }
    }
}

impl RequestView for Asked<'_> {
    /// A log may have the whole target in the place of the path.
    const PATH_HAS_QUERY: bool = true;

    fn method(&self) -> &str {
        self.head.method.as_deref().unwrap_or_else(|| {
            self.lacks("method");
            ""
        })
    }

    fn path(&self) -> &str {
        self.head.path.as_deref().unwrap_or_else(|| {
            self.lacks("path");
            ""
        })
    }

    fn host(&self) -> Option<&str> {
        self.value(&self.head.host, || "host".into())
    }

    fn header(&self, name: &str, nth: usize) -> Option<&[u8]> {
        let told = self.headers.iter().position(|its| its == name);
        let told = told.and_then(|index| self.head.headers.get(index)).unwrap_or(&Told::NotInLog);
        let value = self.value(told, || format!("header {name}").into());
        value.filter(|_| nth == 0).map(str::as_bytes)
    }

    fn peer(&self) -> Option<IpAddr> {
        match &self.head.client {
            Client::Address(address) => Some(*address),
            Client::Name(name) => Some(stand_in(name)),
            Client::NotInLog => {
                self.lacks("ip");
                None
            }
        }
    }
}

/// An address for a name, so that every name has a bucket of its own, whatever prefix counts.
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
    fn clients_are_told_by_address_or_name() {
        let client = |text: &str| Client::from_text(text.to_owned());
        for text in ["192.0.2.7", "192.0.2.7:80"] {
            assert_eq!(client(text), Client::Address([192, 0, 2, 7].into()));
        }
        assert_eq!(client("[::1]:80"), Client::Address(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(client("a.example"), Client::Name("a.example".to_owned()));
        assert_eq!((client("-"), client("")), (Client::NotInLog, Client::NotInLog));
        assert_ne!(stand_in("a.example"), stand_in("b.example"));
    }

    #[test]
    fn what_is_not_in_the_log_is_remembered_when_it_is_asked_for() {
        let headers = ["x-user".to_owned(), "referer".to_owned()];
        let told = vec![Told::NotInLog, Told::Absent];
        let head = Head { headers: told, ..Head::default() };
        let asked = Asked::new(&head, &headers);
        assert_eq!(asked.header("referer", 0), None);
        assert!(asked.take_missing().is_empty());
        assert_eq!((asked.header("x-user", 0), asked.peer()), (None, None));
        assert_eq!((asked.host(), asked.path(), asked.method()), (None, "", ""));
        let missing: Vec<_> = asked.take_missing().into_iter().collect();
        assert_eq!(missing, ["header x-user", "host", "ip", "method", "path"]);
        assert!(asked.take_missing().is_empty());
    }
}
