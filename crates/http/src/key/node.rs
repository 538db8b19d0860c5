//! The lists of addresses that proxies write, parsed from the right.
//!
//! Each proxy appends its entry at the right. So everything to the left of a trusted proxy's entry may
//! be forged. Parsed from the right, an entry does not depend on anything to the left of it: a quote
//! that a client opens and does not close cannot hide the entry of a proxy. Nothing here allocates or
//! panics. The caller bounds the bytes and entries, and so the work.

use core::net::{IpAddr, Ipv6Addr};
use core::str;

/// The sender of the request, according to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Address(IpAddr),
    /// `unknown`, an obfuscated identifier, or no `for`.
    Hidden,
    Malformed,
}

/// Splits off the last entry: returns what is to the left of its comma, and the entry. If `quotes`, a
/// comma in quotes does not separate entries. `None`: a closing quote has no opening one.
pub(super) fn split_last(list: &[u8], quotes: bool) -> Option<(Option<&[u8]>, &[u8])> {
    let mut quoted = false;
    for (at, &byte) in list.iter().enumerate().rev() {
        match byte {
            b'"' if quotes && !(quoted && is_escaped(list, at)) => quoted = !quoted,
            b',' if !quoted => return Some((Some(&list[..at]), trim(&list[at + 1..]))),
            _ => {}
        }
    }
    if quoted { None } else { Some((None, trim(list))) }
}

/// Whether an odd number of backslashes precedes.
fn is_escaped(text: &[u8], at: usize) -> bool {
    let backslashes = text[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
    backslashes % 2 == 1
}

/// An entry of `Forwarded`: `for=192.0.2.7;proto=https`.
pub(super) fn forwarded_node(entry: &[u8]) -> Node {
    let mut found = Node::Hidden;
    let mut seen = false;
    let mut rest = entry;
    while !rest.is_empty() {
        let Some((pair, after)) = split_pair(rest) else { return Node::Malformed };
        rest = after;
        if pair.is_empty() {
            continue; // `for=a;;proto=b`, and a semicolon at the end
        }
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else {
            return Node::Malformed;
        };
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        if !name.eq_ignore_ascii_case(b"for") {
            continue;
        }
        if seen {
            return Node::Malformed; // the RFC does not say which one counts
        }
        seen = true;
        found = match value {
            [b'"', inner @ .., b'"'] => quoted_node(inner),
            _ => node(value),
        };
    }
    found
}

/// Splits off the first pair, at a semicolon outside quotes. `None`: a quote is not closed.
fn split_pair(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, &byte) in entry.iter().enumerate() {
        if escaped {
            escaped = false;
            continue;
        }
        match byte {
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => return Some((trim(&entry[..at]), &entry[at + 1..])),
            _ => {}
        }
    }
    if quoted { None } else { Some((trim(entry), &[])) }
}

/// An address needs no escapes, so a text with escapes is none.
fn quoted_node(inner: &[u8]) -> Node {
    if inner.iter().any(|byte| matches!(byte, b'"' | b'\\')) {
        return Node::Malformed;
    }
    node(inner)
}

/// `192.0.2.7`, `192.0.2.7:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`, `unknown`,
/// `_hidden`.
pub(super) fn node(text: &[u8]) -> Node {
    let Ok(text) = str::from_utf8(text) else { return Node::Malformed };
    if let Ok(address) = text.parse::<IpAddr>() {
        return Node::Address(address.to_canonical());
    }
    if let Some(rest) = text.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((address, port)) if port.is_empty() || is_port(port) => {
                let address = address.parse::<Ipv6Addr>();
                address.map_or(Node::Malformed, |v6| Node::Address(v6.to_canonical()))
            }
            _ => Node::Malformed,
        };
    }
    let (name, port) = text.find(':').map_or((text, ""), |colon| text.split_at(colon));
    if !port.is_empty() && !is_port(port) {
        return Node::Malformed;
    }
    if let Ok(address) = name.parse() {
        return Node::Address(IpAddr::V4(address));
    }
    let hidden = name.eq_ignore_ascii_case("unknown") || is_obfuscated(name);
    if hidden { Node::Hidden } else { Node::Malformed }
}

/// A colon, and 1 to 5 digits or an obfuscated name.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return false };
    let digits = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    digits || is_obfuscated(port)
}

fn is_obfuscated(text: &str) -> bool {
    let name = text.strip_prefix('_').unwrap_or_default();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.bytes().all(allowed)
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> Node {
        Node::Address(text.parse().expect("an address"))
    }

    #[test]
    fn a_node_is_an_address_hidden_or_malformed() {
        for (text, expected) in [
            ("192.0.2.7", address("192.0.2.7")),
            ("192.0.2.7:80", address("192.0.2.7")),
            ("192.0.2.7:_gate", address("192.0.2.7")),
            ("2001:db8::1", address("2001:db8::1")),
            ("[2001:db8::1]", address("2001:db8::1")),
            ("[2001:db8::1]:65535", address("2001:db8::1")),
            ("::ffff:192.0.2.7", address("192.0.2.7")),
            ("[::ffff:c000:207]:1", address("192.0.2.7")),
            ("unknown", Node::Hidden),
            ("UNKNOWN:80", Node::Hidden),
            ("_SEVKISEK", Node::Hidden),
            ("_a.b-c_d:_port", Node::Hidden),
            ("", Node::Malformed),
            ("_", Node::Malformed),
            ("_a b", Node::Malformed),
            ("localhost", Node::Malformed),
            ("192.0.2.7:", Node::Malformed),
            ("192.0.2.7:123456", Node::Malformed),
            ("192.0.2.007", Node::Malformed),
            ("192.0.2", Node::Malformed),
            ("[192.0.2.7]", Node::Malformed),
            ("[2001:db8::1", Node::Malformed),
            ("[2001:db8::1]80", Node::Malformed),
            ("[fe80::1%eth0]", Node::Malformed),
            ("[]", Node::Malformed),
            ("\"192.0.2.7\"", Node::Malformed),
        ] {
            assert_eq!(node(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(node(b"\xff\xfe"), Node::Malformed);
    }

    #[test]
    fn a_forwarded_entry_has_the_node_of_its_only_for() {
        for (text, expected) in [
            ("for=192.0.2.60", address("192.0.2.60")),
            ("For=\"[2001:db8:cafe::17]:4711\"", address("2001:db8:cafe::17")),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", address("192.0.2.60")),
            ("proto=http; FOR=192.0.2.60 ;", address("192.0.2.60")),
            ("by=\"a;for=6.6.6.6\";for=192.0.2.60", address("192.0.2.60")),
            ("by=\"a\\\";for=6.6.6.6\";for=192.0.2.60", address("192.0.2.60")),
            ("for=\"_gazonk\"", Node::Hidden),
            ("for=unknown", Node::Hidden),
            ("proto=https", Node::Hidden),
            ("", Node::Hidden),
            ("for=1.1.1.1;for=2.2.2.2", Node::Malformed),
            ("for", Node::Malformed),
            ("for=", Node::Malformed),
            ("for=\"192.0.2.60", Node::Malformed),
            ("for=\"1.1.1.\\1\"", Node::Malformed),
            ("for=\"\"", Node::Malformed),
            ("for=\"", Node::Malformed),
            ("for = 1.1.1.1", Node::Hidden), // no name has a space
        ] {
            assert_eq!(forwarded_node(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn bytes_to_the_left_never_change_the_last_entry() {
        for left in ["for=\"", "for=\"a\\", "\"", "\\", "for=\"x\\\"", ";;;", "for=a\",\""] {
            for entry in [
                "for=192.0.2.60",
                "for=\"[2001:db8::1]:80\"",
                "by=\"a, b\";for=1.1.1.1",
                "host=\"a\\\", for=6.6.6.6;b=\\\"\";for=1.1.1.1",
            ] {
                let list = format!("{left}, {entry}");
                let (rest, last) = split_last(list.as_bytes(), true).expect("quotes match");
                assert_eq!((rest, last), (Some(left.as_bytes()), entry.as_bytes()), "{list}");
            }
        }
    }

    #[test]
    fn a_backslash_outside_quotes_is_an_ordinary_character() {
        let split = split_pair(br"for=192.0.2.7\;proto=http");
        assert_eq!(split, Some((&br"for=192.0.2.7\"[..], &b"proto=http"[..])));
        let split = split_pair(br#"for="a\";b";proto=http"#);
        assert_eq!(split, Some((&br#"for="a\";b""#[..], &b"proto=http"[..])));
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_does_not_panic(list in prop::collection::vec(any::<u8>(), 0..200), quotes: bool) {
            let mut rest = Some(list.as_slice());
            while let Some(list) = rest {
                let Some((left, entry)) = split_last(list, quotes) else { break };
                prop_assert!(left.is_none_or(|left| left.len() < list.len()));
                let _ = (node(entry), forwarded_node(entry));
                rest = left;
            }
        }

        #[test]
        fn parsing_any_line_of_list_characters_does_not_panic(list in "[fFoOrR=\";,:\\[\\]\\\\ _.0-9a-f]{0,80}") {
            let mut rest = Some(list.as_bytes());
            while let Some(list) = rest {
                let Some((left, entry)) = split_last(list, true) else { break };
                let _ = forwarded_node(entry);
                rest = left;
            }
        }

        #[test]
        fn a_written_address_parses_back(address: IpAddr, port: u16, left in "[ -~]{0,60}") {
            let texts = match address {
                IpAddr::V4(v4) => [format!("for={v4}"), format!("for=\"{v4}:{port}\"")],
                IpAddr::V6(v6) => [format!("for=\"[{v6}]\""), format!("for=\"[{v6}]:{port}\"")],
            };
            for text in texts {
                let list = format!("{left},{text};proto=http");
                let (rest, entry) = split_last(list.as_bytes(), true).expect("quotes match");
                prop_assert_eq!(rest, Some(left.as_bytes()));
                prop_assert_eq!(forwarded_node(entry), Node::Address(address.to_canonical()));
            }
            let plain = format!("{left},{address}");
            let (rest, entry) = split_last(plain.as_bytes(), false).expect("quotes do not count");
            prop_assert_eq!(rest, Some(left.as_bytes()));
            prop_assert_eq!(node(entry), Node::Address(address.to_canonical()));
        }
    }
}
