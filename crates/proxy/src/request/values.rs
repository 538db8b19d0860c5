//! Checks the values of header fields. hyper checks which characters they have.

use http::request::Parts;
use http::{HeaderValue, Version};

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

/// Whether a value begins or ends with a space or a tab.
pub(super) fn has_outer_space(value: &HeaderValue) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let bytes = value.as_bytes();
    is_space(bytes.first()) || is_space(bytes.last())
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
}
