//! Checks and trims the values of header fields. hyper checks which characters they have.

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};

/// A value begins or ends with white space.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadValue;

/// Checks that no value of an HTTP/2 request begins or ends with white space, which would make it malformed (RFC 9113,
/// 8.2.1). h2 does not check it. In HTTP/1, such white space does not belong to the value, and hyper removes it.
pub(crate) fn check(head: &Parts) -> Result<(), BadValue> {
    match head.version == Version::HTTP_2 && head.headers.values().any(has_outer_space) {
        true => Err(BadValue),
        false => Ok(()),
    }
}

/// Removes the white space around the values, which does not belong to them (RFC 9110, 5.5). With it, an HTTP/2 message
/// would be malformed.
pub(super) fn trim(headers: &mut HeaderMap) {
    for value in headers.values_mut().filter(|value| has_outer_space(value)) {
        // Every part of a value is a value.
        if let Ok(mut trimmed) = HeaderValue::from_bytes(trimmed(value.as_bytes())) {
            trimmed.set_sensitive(value.is_sensitive());
            *value = trimmed;
        }
    }
}

/// Whether a value begins or ends with a space or a tab.
fn has_outer_space(value: &HeaderValue) -> bool {
    trimmed(value.as_bytes()).len() < value.len()
}

/// The bytes without the spaces and tabs around them.
fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http2_values_may_not_begin_or_end_with_white_space() {
        let checked = |version: Version, value: &str| {
            let request = http::Request::builder().version(version).header("a", "1");
            let request = request.header("b", value).header("c", "3").body(());
            check(&request.expect("a request").into_parts().0).is_ok()
        };
        for (value, is_clear) in [
            ("", true),
            ("a b\tc", true),
            (" ", false),
            (" a", false),
            ("a ", false),
            ("\ta", false),
            ("a\t", false),
        ] {
            assert_eq!(checked(Version::HTTP_2, value), is_clear, "{value:?}");
            assert!(checked(Version::HTTP_11, value), "{value:?}");
        }
    }

    #[test]
    fn values_are_trimmed_and_stay_sensitive() {
        for (value, expected) in [
            ("", ""),
            ("a b\tc", "a b\tc"),
            (" \t", ""),
            (" a", "a"),
            ("a\t ", "a"),
            ("\t a b \u{85}\t", "a b \u{85}"),
        ] {
            for is_sensitive in [true, false] {
                let mut sent = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
                sent.set_sensitive(is_sensitive);
                let mut headers = HeaderMap::new();
                headers.append("a", HeaderValue::from_static("1"));
                headers.append("a", sent);
                trim(&mut headers);
                let kept: Vec<_> = headers.get_all("a").iter().collect();
                assert_eq!(kept, ["1".as_bytes(), expected.as_bytes()], "{value:?}");
                assert_eq!(kept[1].is_sensitive(), is_sensitive, "{value:?}");
            }
        }
    }
}
