//! The parts of a key: the one list of them, and what each part reads from a request.
//!
//! A new part takes a variant of [`Part`], a row of [`FORMS`], and the arms that the compiler then names in
//! this file. The parser, the messages, the key's bytes and its text follow from these.

use std::fmt;

use super::value::Value;
use crate::request::named::{self, Named};
use crate::request::path::{self, Spelling};
use crate::request::{RequestView, header_values};

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The client's address; of an IPv6 address, its first `ipv6_prefix` bits.
    Ip {
        ipv6_prefix: u8,
    },
    /// A header, by its name in lower case.
    Header(String),
    Cookie(String),
    /// A parameter of the query, by its decoded name.
    Query(String),
    Path(Spelling),
    Method,
    Host,
}

/// The settings of a part from other lines of a rules file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartSettings {
    pub(crate) ipv6_prefix: u8,
    pub(crate) spelling: Spelling,
}

/// The parts of a request that a part of a key reads, as far as rules must know them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads<'p> {
    /// A header, in lower case.
    pub(crate) header: Option<&'p str>,
    pub(crate) address: bool,
    pub(crate) path: bool,
    pub(crate) host: bool,
}

/// How a rules file writes a part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// As a word: `"path"`.
    Word(&'static str, fn(PartSettings) -> Part),
    /// As a word and a name: `"header:x-user"`.
    Named(NamedForm),
}

/// A part that is written as a word and a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedForm {
    pub(crate) word: &'static str,
    /// A name, for messages.
    pub(crate) example: &'static str,
    pub(crate) is_name: fn(&str) -> bool,
    pub(crate) part: fn(&str) -> Part,
}

/// Every part that a rules file can write, in the order in which messages list them.
pub(crate) const FORMS: &[Form] = &[
    Form::Word("ip", |settings| Part::Ip { ipv6_prefix: settings.ipv6_prefix }),
    Form::Named(NamedForm {
        word: "header",
        example: "x-user",
        is_name: named::is_token,
        part: |name| Part::Header(name.to_ascii_lowercase()),
    }),
    Form::Named(NamedForm {
        word: "cookie",
        example: "session",
        is_name: named::is_token,
        part: |name| Part::Cookie(name.to_owned()),
    }),
    Form::Named(NamedForm {
        word: "query",
        example: "user",
        is_name: named::is_parameter,
        part: |name| Part::Query(name.to_owned()),
    }),
    Form::Word("path", |settings| Part::Path(settings.spelling)),
    Form::Word("method", |_| Part::Method),
    Form::Word("host", |_| Part::Host),
];

impl Part {
    /// The value that the part reads from a request; `None` if the request lacks it. A header, cookie,
    /// parameter or host that is empty counts as missing, and so does a header of white space, or a value that is
    /// too long.
    pub(super) fn value<'v>(&self, request: &'v impl RequestView) -> Option<Value<'v>> {
        self.any_value(request).filter(|value| !value.is_too_long())
    }

    /// The value of any length.
    fn any_value<'v>(&self, request: &'v impl RequestView) -> Option<Value<'v>> {
        match self {
            Self::Ip { ipv6_prefix } => Some(Value::address(request.peer()?, *ipv6_prefix)),
            // HTTP/2 takes values with white space around them, and a server may trim it.
            Self::Header(name) => {
                let value = header_values(request, name).next()?.trim_ascii();
                (!value.is_empty()).then_some(Value::Bytes(value))
            }
            Self::Cookie(name) => {
                let value = named::cookies(request, name).next()?;
                (!value.bytes.is_empty()).then_some(Value::Cookie(value))
            }
            Self::Query(name) => {
                let value = named::parameters(request, name).next()?;
                (!value.is_empty()).then_some(Value::Parameter(value))
            }
            Self::Path(spelling) => Some(Value::Path(path::of_request(request), *spelling)),
            Self::Method => Some(Value::Method(request.method())),
            Self::Host => Value::host(request.host()?),
        }
    }

    /// The setting of the rules file that differs between the two parts; `None` if both count the same.
    pub(super) fn changed(&self, before: &Self) -> Option<&'static str> {
        match self {
            Self::Ip { ipv6_prefix } => {
                let Self::Ip { ipv6_prefix: before } = before else { return Some("key") };
                (before != ipv6_prefix).then_some("ipv6_prefix")
            }
            Self::Path(spelling) => {
                let Self::Path(before) = before else { return Some("key") };
                spelling.changed(*before)
            }
            Self::Header(_) | Self::Cookie(_) | Self::Query(_) | Self::Method | Self::Host => {
                (before != self).then_some("key")
            }
        }
    }

    /// The parts of a request that this one reads.
    pub(crate) fn reads(&self) -> Reads<'_> {
        let nothing = Reads::default();
        match self {
            Self::Ip { .. } => Reads { address: true, ..nothing },
            Self::Header(name) => Reads { header: Some(name), ..nothing },
            Self::Cookie(_) => Reads { header: Some("cookie"), ..nothing },
            Self::Path(_) => Reads { path: true, ..nothing },
            Self::Host => Reads { host: true, ..nothing },
            Self::Query(_) | Self::Method => nothing,
        }
    }

    /// The header, cookie or parameter of this name, if the part is one.
    pub(crate) fn into_named(self) -> Option<Named> {
        match self {
            Self::Header(name) => Some(Named::Header(name)),
            Self::Cookie(name) => Some(Named::Cookie(name)),
            Self::Query(name) => Some(Named::Query(name)),
            Self::Ip { .. } | Self::Path(_) | Self::Method | Self::Host => None,
        }
    }
}

/// The part as `tollgate check` explains it.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip { ipv6_prefix } => write!(f, "ip (IPv6 by /{ipv6_prefix})"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Cookie(name) => write!(f, "cookie {name}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
            Self::Path(_) => f.write_str("path"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
        }
    }
}
