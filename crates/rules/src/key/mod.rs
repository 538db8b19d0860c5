//! What gets a bucket of its own.

use std::fmt;
use std::net::IpAddr;

use crate::request_view::RequestView;
use crate::host;
use crate::inline_vec::InlineVec;
use crate::path::{self, Reading, Spelling};

/// What gets a bucket of its own: `key` in a rules file.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "a", key = ["ip", "header:X-Device"], ipv6_prefix = 56, limits = "5/s" }]
/// "#)?;
/// assert_eq!(rules.rules()[0].key().to_string(), "ip (IPv6 by /56) and header x-device");
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// None: one bucket for all.
    pub(crate) parts: Vec<Part>,
}

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The client's address; of IPv6 so many bits.
    Ip {
        ipv6_prefix: u8,
    },
    /// A header, by its name in lower case.
    Header(String),
    Cookie(String),
    Path(Spelling),
    Method,
    Host,
}

/// What happens to a request that has not all parts of a rule's key: `on_no_key` in a rules file.
///
/// ```
/// use tollgate_rules::{OnNoKey, Rules};
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "a", key = "header:x-user", on_no_key = "block", limits = "5/s" }]
/// "#)?;
/// assert_eq!(rules.rules()[0].on_no_key(), OnNoKey::Block);
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNoKey {
    /// All such requests share one bucket of the rule. The default: leaving a header out gains
    /// nobody anything, and does not lock everybody out at once.
    #[default]
    Shared,
    /// The rule does not apply to it.
    Skip,
    /// It is denied.
    Block,
}

/// The bytes of keys, one after the other, on the stack while there are few.
pub(crate) type KeyBytes = InlineVec<u8, 256>;

/// What the bucket of requests without a key is filed under; every key begins with another byte.
const NO_KEY: u8 = 0;
const A_KEY: u8 = 1;

impl Key {
    /// Whether the path is part of it.
    pub(crate) fn has_path(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Path(_)))
    }

    /// Writes the key of a request; false, and nothing, where a part is missing.
    ///
    /// Every part has its length before it, so that no two keys of different parts are the same
    /// bytes.
    pub(crate) fn write(&self, facts: &impl RequestView, out: &mut KeyBytes) -> bool {
        let begin = out.as_slice().len();
        out.push(A_KEY);
        for part in &self.parts {
            if !part.write(facts, out) {
                out.truncate(begin);
                return false;
            }
        }
        true
    }

    /// Writes what requests without a key share.
    pub(crate) fn write_shared(out: &mut KeyBytes) {
        out.push(NO_KEY);
    }
}

impl Part {
    fn write(&self, facts: &impl RequestView, out: &mut KeyBytes) -> bool {
        match self {
            Self::Ip { ipv6_prefix } => match facts.peer() {
                Some(address) => write_address(address, *ipv6_prefix, out),
                None => return false,
            },
            Self::Header(_) | Self::Cookie(_) => match self.field(facts) {
                Some(value) => write_sized(value, out),
                None => return false,
            },
            Self::Path(spelling) => write_path(facts.path(), *spelling, out),
            Self::Method => write_sized(facts.method().as_bytes(), out),
            Self::Host => match facts.host().map(host::bare_host) {
                Some(host) if !host.is_empty() => write_host(host, out),
                _ => return false,
            },
        }
        true
    }

    /// The value of a header or a cookie, if it has one.
    pub(crate) fn field<'f>(&self, facts: &'f impl RequestView) -> Option<&'f [u8]> {
        let value = match self {
            Self::Header(name) => facts.header(name, 0),
            Self::Cookie(name) => cookie(facts, name),
            _ => None,
        };
        value.filter(|value| !value.is_empty())
    }
}

fn write_count(count: usize, out: &mut KeyBytes) {
    // Longer values do not occur in memory; what this cuts off would be told apart by the bytes.
    out.extend(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn write_sized(bytes: &[u8], out: &mut KeyBytes) {
    write_count(bytes.len(), out);
    out.extend(bytes);
}

/// An IPv4 address is four bytes, also where it comes mapped into IPv6; of any other IPv6 address
/// the bits of the prefix remain.
fn write_address(address: IpAddr, ipv6_prefix: u8, out: &mut KeyBytes) {
    match masked(address, ipv6_prefix) {
        IpAddr::V4(four) => write_sized(&four.octets(), out),
        IpAddr::V6(six) => write_sized(&six.octets(), out),
    }
}

/// As much of an address as counts.
pub(crate) fn masked(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match address.to_canonical() {
        four @ IpAddr::V4(_) => four,
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix)).unwrap_or(0);
            IpAddr::V6((six.to_bits() & mask).into())
        }
    }
}

/// The path as it was resolved and decoded, so that no spelling of it has a bucket of its own.
fn write_path(path: &str, spelling: Spelling, out: &mut KeyBytes) {
    let segments = Reading::of_keys(spelling).of(path);
    write_count(segments.as_slice().len(), out);
    for segment in segments.as_slice() {
        write_count(path::decoded(segment).count(), out);
        path::decoded(segment).for_each(|byte| out.push(spelling.folded(byte)));
    }
}

/// A host that is not empty: in lower case, and an IPv6 address however it is written.
fn write_host(host: &str, out: &mut KeyBytes) {
    match host::in_brackets(host) {
        Some(address) => write_sized(&address.octets(), out),
        None => {
            write_count(host.len(), out);
            host.bytes().for_each(|byte| out.push(byte.to_ascii_lowercase()));
        }
    }
}

/// The value of the first cookie of that name.
fn cookie<'f>(facts: &'f impl RequestView, name: &str) -> Option<&'f [u8]> {
    (0..).map_while(|nth| facts.header("cookie", nth)).find_map(|header| {
        header.split(|byte| *byte == b';').find_map(|pair| {
            let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            let unquoted = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
            Some(unquoted.unwrap_or(value))
        })
    })
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("nothing: one bucket for all");
        }
        for (index, part) in self.parts.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " and " })?;
            match part {
                Part::Ip { ipv6_prefix } => write!(f, "ip (IPv6 by /{ipv6_prefix})")?,
                Part::Header(name) => write!(f, "header {name}")?,
                Part::Cookie(name) => write!(f, "cookie {name}")?,
                Part::Path(_) => f.write_str("path")?,
                Part::Method => f.write_str("method")?,
                Part::Host => f.write_str("host")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_view::Request;
    use crate::path::Separator;

    fn key(parts: &[Part], request: &Request<'_>) -> Option<Vec<u8>> {
        let mut out = KeyBytes::new(0);
        let key = Key { parts: parts.to_vec() };
        let written = key.write(request, &mut out);
        assert_eq!(written, !out.as_slice().is_empty());
        written.then(|| out.as_slice().to_vec())
    }

    fn of_peer(ipv6_prefix: u8, peer: &str) -> Option<Vec<u8>> {
        let request = Request { peer: Some(peer.parse().unwrap()), ..Request::default() };
        key(&[Part::Ip { ipv6_prefix }], &request)
    }

    #[test]
    fn addresses_are_unified() {
        assert_eq!(of_peer(64, "192.0.2.7"), of_peer(64, "::ffff:192.0.2.7"));
        assert_ne!(of_peer(64, "192.0.2.7"), of_peer(64, "192.0.2.8"));
        assert_eq!(of_peer(64, "2001:db8::1"), of_peer(64, "2001:db8::ffff:2"));
        assert_ne!(of_peer(64, "2001:db8::1"), of_peer(64, "2001:db8:0:1::1"));
        assert_eq!(of_peer(56, "2001:db8::1"), of_peer(56, "2001:db8:0:ff::1"));
        assert_ne!(of_peer(128, "2001:db8::1"), of_peer(128, "2001:db8::2"));
        assert_eq!(of_peer(1, "8000::"), of_peer(1, "ffff::"));
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let parts = [Part::Header("a".into()), Part::Header("b".into())];
        let of = |headers| key(&parts, &Request { headers, ..Request::default() });
        assert_ne!(of(&[("a", "xy"), ("b", "z")]), of(&[("a", "x"), ("b", "yz")]));
        assert_eq!(of(&[("a", "xy")]), None);
        assert_eq!(of(&[("a", "xy"), ("b", "")]), None);
    }

    #[test]
    fn a_path_has_one_bucket_however_it_is_spelt() {
        let by =
            |spelling, path| key(&[Part::Path(spelling)], &Request { path, ..Request::default() });
        let of = |path| by(Spelling::default(), path);
        assert_eq!(of("/login"), of("//x/../%6cogin/?next=/"));
        for alike in
            ["/a/B", "/a%2fb", "/a;v=1/b", "/x%2f..%2fa/b", "/a\\b", "/a%5Cb", "/x/..;/a/b"]
        {
            assert_eq!(of("/a/b"), of(alike), "{alike}");
        }
        let spelling = Spelling {
            encoded_slash: Separator::Never,
            backslash: Separator::Never,
            keeps_params: true,
            keeps_case: true,
        };
        for other in ["/a/B", "/a%2fb", "/a;v=1/b", "/a\\b", "/a%5Cb"] {
            assert_ne!(by(spelling, "/a/b"), by(spelling, other), "{other}");
        }
    }

    #[test]
    fn hosts_and_methods() {
        let of = |host| key(&[Part::Host], &Request { host, ..Request::default() });
        assert_eq!(of(Some("Example.com:80")), of(Some("example.com")));
        assert_eq!(of(None), None);
        assert_eq!(of(Some(":80")), None);
        let of = |method| key(&[Part::Method], &Request { method, ..Request::default() });
        assert_ne!(of("GET"), of("PUT"));
    }

    #[test]
    fn cookies_are_found() {
        let session = [Part::Cookie("session".into())];
        let of =
            |value| key(&session, &Request { headers: &[("Cookie", value)], ..Request::default() });
        let other = of("session=12");
        assert!(other.is_some() && of("session=1").is_some() && other != of("session=1"));
        assert_eq!(of("session=1; a=2"), of("session=1"));
        assert_eq!(of("a=2;  session=\"1\""), of("session=1"));
        assert_eq!(of("sessions=1; xsession=2"), None);
        assert_eq!(of("session="), None);
        let headers = [("cookie", "a=2"), ("cookie", "session=1")];
        let apart = key(&session, &Request { headers: &headers, ..Request::default() });
        assert_eq!(apart, of("session=1"));
    }
}
