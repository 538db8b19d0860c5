//! Values that a request carries under a name: headers, cookies, and parameters of the query.

use std::fmt;
use std::ops::Range;

use super::path;
use super::{RequestView, header_values};

/// The kind and the name that a value is looked up by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A header, by its name in lower case.
    Header(String),
    Cookie(String),
    /// A parameter of the query, by its decoded name.
    Query(String),
}

impl Named {
    /// Whether one of the values is this.
    pub(crate) fn has_value(&self, request: &impl RequestView, wanted: &[u8]) -> bool {
        match self {
            Self::Header(name) => {
                header_values(request, name).any(|its| its.trim_ascii() == wanted)
            }
            Self::Cookie(name) => cookies(request, name).any(|its| its.bytes == wanted),
            Self::Query(name) => parameters(request, name).any(|its| is_decoded(its, wanted)),
        }
    }

    /// Whether there is a value, be it empty.
    pub(crate) fn is_present(&self, request: &impl RequestView) -> bool {
        match self {
            Self::Header(name) => header_values(request, name).next().is_some(),
            Self::Cookie(name) => cookies(request, name).next().is_some(),
            Self::Query(name) => parameters(request, name).next().is_some(),
        }
    }

    /// `header`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Header(_) => "header",
            Self::Cookie(_) => "cookie",
            Self::Query(_) => "parameter",
        }
    }

    /// The header that holds the value, in lower case.
    pub(crate) fn header_name(&self) -> Option<&str> {
        match self {
            Self::Header(name) => Some(name),
            Self::Cookie(_) => Some("cookie"),
            Self::Query(_) => None,
        }
    }
}

/// `header x-user`.
impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header {name}"),
            Self::Cookie(name) => write!(f, "cookie {name}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
        }
    }
}

/// The value of a cookie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieValue<'v> {
    /// As the client sent it, without quotes.
    pub(crate) bytes: &'v [u8],
    /// The bytes that keys count, still with their escapes.
    counted: &'v [u8],
    is_quoted: bool,
}

impl<'v> CookieValue<'v> {
    fn new(value: &'v [u8]) -> Self {
        let bytes = &value[within_quotes(value)];
        // After a quote at the beginning, some servers drop the last byte, whatever it is.
        let opened = value.strip_prefix(b"\"");
        let counted = opened.map_or(value, |rest| rest.split_last().map_or(rest, |(_, its)| its));
        Self { bytes, counted, is_quoted: bytes.len() < value.len() }
    }

    /// The bytes with all escapes decoded once that one server or another decodes: `%61`, and within quotes `\141` and
    /// `\a`, each of which is an `a`. A `+` that is not escaped is a space in Rack and a `+` in others, so both are a `+`
    /// here, however they are written.
    pub(crate) fn decoded(self) -> impl Iterator<Item = u8> + Clone {
        self.unescaped_bytes().map(|byte| if byte == b' ' { b'+' } else { byte })
    }

    fn unescaped_bytes(self) -> impl Iterator<Item = u8> + Clone {
        let mut rest = self.counted;
        std::iter::from_fn(move || {
            let (byte, after) = self.unescaped(rest)?;
            rest = after;
            if byte == b'%'
                && let Some((high, after)) = self.unescaped(after)
                && let Some((low, after)) = self.unescaped(after)
                && let Some(byte) = path::escaped(&[b'%', high, low])
            {
                rest = after;
                return Some(byte);
            }
            Some(byte)
        })
    }

    /// The byte that `rest` begins with, which may be escaped by a backslash, and what follows it.
    fn unescaped(self, rest: &[u8]) -> Option<(u8, &[u8])> {
        match rest {
            [b'\\', high @ b'0'..=b'3', mid @ b'0'..=b'7', low @ b'0'..=b'7', rest @ ..]
                if self.is_quoted =>
            {
                Some(((high - b'0') << 6 | (mid - b'0') << 3 | (low - b'0'), rest))
            }
            [b'\\', byte, rest @ ..] if self.is_quoted => Some((*byte, rest)),
            [byte, rest @ ..] => Some((*byte, rest)),
            [] => None,
        }
    }
}

/// The place of the value of a cookie within the quotes around it, if it has any.
fn within_quotes(value: &[u8]) -> Range<usize> {
    match value {
        [b'"', .., b'"'] => 1..value.len() - 1,
        _ => 0..value.len(),
    }
}

/// The value of a cookie without the white space and the quotes around it, as [`CookieValue::bytes`].
pub(crate) fn cookie_value(text: &str) -> &str {
    let value = text.trim_ascii();
    &value[within_quotes(value.as_bytes())]
}

/// Whether a request can have a cookie of this value, as [`CookieValue::bytes`].
pub(crate) fn is_cookie_value(value: &str) -> bool {
    !value.contains(';') && cookie_value(value) == value
}

/// The values of the cookies of this name. White space around a name or a value is left out, as some
/// servers do.
pub(crate) fn cookies<'v>(
    request: &'v impl RequestView,
    name: &str,
) -> impl Iterator<Item = CookieValue<'v>> {
    let pairs = request.header_values("cookie").flat_map(|its| its.split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| {
        let (its, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=')?);
        (its.trim_ascii() == name.as_bytes()).then(|| CookieValue::new(value[1..].trim_ascii()))
    })
}

/// The values, still encoded, of the parameters of this name. A parameter without `=` has an empty
/// value.
pub(crate) fn parameters<'v>(
    request: &'v impl RequestView,
    name: &str,
) -> impl Iterator<Item = &'v str> {
    let pairs = request.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.filter_map(move |pair| {
        let (its, value) = pair.split_once('=').unwrap_or((pair, ""));
        is_decoded(its, name.as_bytes()).then_some(value)
    })
}

/// The bytes of a name or a value of the query: `+` is a space, and escapes are decoded once.
pub(crate) fn decoded(text: &str) -> impl Iterator<Item = u8> + Clone + '_ {
    path::decoded_with(text, |plain| if plain == b'+' { b' ' } else { plain })
}

/// Whether an encoded text means these bytes.
fn is_decoded(text: &str, bytes: &[u8]) -> bool {
    decoded(text).eq(bytes.iter().copied())
}

/// Whether a header or a cookie can have this name.
pub(crate) fn is_token(name: &str) -> bool {
    let is_tchar = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(is_tchar)
}

/// Whether a parameter of a query can have this name, decoded.
pub(crate) fn is_parameter(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    #[test]
    fn a_parameter_is_found_by_its_decoded_name_and_value() {
        let has = |path, name: &str, value: &str| {
            let request = Request { path, ..Request::default() };
            Named::Query(name.to_owned()).has_value(&request, value.as_bytes())
        };
        for (path, name, value, is) in [
            ("/?a=1", "a", "1", true),
            ("/?b=2&a=1", "a", "1", true),
            ("/?a=2&a=1", "a", "1", true),
            ("/?%61=%31", "a", "1", true),
            ("/?a=1#b=2", "b", "2", false),
            ("/?a=1#b", "a", "1", true),
            ("/?a=x+y%2B", "a", "x y+", true),
            ("/?a=%252F", "a", "%2F", true),
            ("/?a=%2", "a", "%2", true),
            ("/?a=1=2", "a", "1=2", true),
            ("/?a=1?b=2", "a", "1?b=2", true),
            ("/?a", "a", "", true),
            ("/?a=", "a", "", true),
            ("/?A=1", "a", "1", false),
            ("/?a=1;b=2", "b", "2", false),
            ("/?&&", "", "", false),
            ("/?ab=1", "a", "1", false),
            ("/a=1", "a", "1", false),
        ] {
            assert_eq!(has(path, name, value), is, "{path} {name}={value}");
        }
    }

    /// In HTTP/2 it is no header, and in HTTP/1 the target of the request takes precedence over it.
    #[test]
    fn the_header_host_is_the_requested_host() {
        let named = Named::Header("host".to_owned());
        let headers = [("Host", "b.example")];
        for (host, headers) in [(Some("a.example"), &headers[..]), (Some("a.example"), &[])] {
            let request = Request { host, headers, ..Request::default() };
            assert!(named.is_present(&request) && named.has_value(&request, b"a.example"));
            assert!(!named.has_value(&request, b"b.example"), "{headers:?}");
        }
        assert!(!named.is_present(&Request::default()));
    }

    #[test]
    fn a_value_is_present_even_if_it_is_empty() {
        let headers = [("Cookie", "a=; b=1"), ("x-a", "")];
        let request = Request { path: "/?a&b=", headers: &headers, ..Request::default() };
        let is_present =
            |named: fn(String) -> Named, name: &str| named(name.to_owned()).is_present(&request);
        for name in ["a", "b"] {
            assert!(is_present(Named::Cookie, name) && is_present(Named::Query, name), "{name}");
        }
        assert!(is_present(Named::Header, "x-a") && !is_present(Named::Header, "x-b"));
        assert!(!is_present(Named::Cookie, "c") && !is_present(Named::Query, "c"));
    }
}
