//! Checks the host of a request. A server answers 400 if it is missing, repeated or malformed (RFC 9112,
//! 3.2), or has user info (RFC 9110, 4.2.4).

use std::net::Ipv6Addr;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Version};

/// The longest DNS name.
const NAME_BYTES_MAX: usize = 255;

/// The request does not state its host clearly.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadHost;

/// Checks that a request states its host clearly.
pub(crate) fn check(head: &Parts) -> Result<(), BadHost> {
    let mut fields = head.headers.get_all(HOST).iter();
    let (field, repeated) = (fields.next(), fields.next());
    let field = field.map(HeaderValue::to_str).transpose().map_err(|_| BadHost)?;
    let authority = head.uri.authority().map(http::uri::Authority::as_str);
    if repeated.is_some() || !field.into_iter().chain(authority).all(is_host) {
        return Err(BadHost);
    }
    match (head.version, field, authority) {
        (Version::HTTP_09 | Version::HTTP_10, ..) => Ok(()),
        // A host in the target takes precedence over `Host`, but `Host` is still required.
        (Version::HTTP_11, Some(_), _) => Ok(()),
        (Version::HTTP_11, None, _) => Err(BadHost),
        // RFC 9113, 8.3.1: a `host` beside `:authority` has the same value.
        (_, Some(field), Some(authority)) if field.eq_ignore_ascii_case(authority) => Ok(()),
        (_, Some(_), Some(_)) | (_, None, None) => Err(BadHost),
        _ => Ok(()),
    }
}

/// Whether this is a host with an optional port (RFC 3986, 3.2.2), without user info. A `%` is rejected:
/// no host name has one, and some servers decode it.
fn is_host(text: &str) -> bool {
    let (is_name, rest) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, rest)) = rest.split_once(']') else { return false };
            (address.parse::<Ipv6Addr>().is_ok(), rest)
        }
        None => {
            let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (is_name(name), rest)
        }
    };
    is_name && is_port(rest)
}

/// Non-empty labels, and an optional dot at the end.
fn is_name(name: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~!$&'()*+,;=".contains(&byte);
    let labels = name.strip_suffix('.').unwrap_or(name);
    name.len() <= NAME_BYTES_MAX
        && labels.split('.').all(|label| !label.is_empty() && label.bytes().all(may_be))
}

/// An empty text, `:80`, or `:`.
fn is_port(text: &str) -> bool {
    let Some(digits) = text.strip_prefix(':') else { return text.is_empty() };
    digits.is_empty()
        || (digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(version: Version, target: &str, hosts: &[&str]) -> bool {
        let mut request = http::Request::builder().version(version).uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        check(&head).is_ok()
    }

    #[test]
    fn only_hosts_are_hosts() {
        for host in [
            "a",
            "a.example",
            "A.Example.:80",
            "a_b.example",
            "a.example:",
            "192.0.2.7:8080",
            "[2001:db8::1]",
            "[::ffff:192.0.2.7]:443",
            "xn--nxasmq6b",
        ] {
            assert!(is_host(host), "{host}");
        }
        for no_host in [
            "",
            ":80",
            ".",
            "a..b",
            ".a",
            "a..",
            "x@a",
            "x:y@a",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:-1",
            "a/b",
            "a\\b",
            "a b",
            "a?b",
            "a#b",
            "%61",
            "é",
            "[::1",
            "::1",
            "[::1]a",
            "[::1]:x",
            "[fe80::1%25eth0]",
            "[]",
            "[a]",
            "a\u{7f}",
        ] {
            assert!(!is_host(no_host), "{no_host}");
        }
        assert!(is_host(&"a".repeat(NAME_BYTES_MAX)) && !is_host(&"a".repeat(NAME_BYTES_MAX + 1)));
    }

    #[test]
    fn exactly_one_host_is_required_except_in_http_1_0() {
        for (version, target, hosts, is_clear) in [
            (Version::HTTP_11, "/", &["a"][..], true),
            (Version::HTTP_11, "/", &[], false),
            (Version::HTTP_11, "/", &["a", "a"], false),
            (Version::HTTP_11, "/", &[""], false),
            (Version::HTTP_11, "http://a/", &["a"], true),
            // The target takes precedence over the field.
            (Version::HTTP_11, "http://a/", &["b"], true),
            (Version::HTTP_11, "http://a/", &[], false),
            (Version::HTTP_11, "http://x@a/", &["a"], false),
            (Version::HTTP_11, "http://a/", &["x@a"], false),
            (Version::HTTP_10, "/", &[], true),
            (Version::HTTP_10, "/", &["a"], true),
            (Version::HTTP_10, "/", &["a", "b"], false),
            (Version::HTTP_10, "/", &["x@a"], false),
            (Version::HTTP_2, "http://a/", &[], true),
            (Version::HTTP_2, "http://a/", &["A"], true),
            (Version::HTTP_2, "http://a/", &["b"], false),
            (Version::HTTP_2, "http://x@a/", &[], false),
            (Version::HTTP_2, "/", &["a"], true),
            (Version::HTTP_2, "/", &[], false),
        ] {
            let found = checked(version, target, hosts);
            assert_eq!(found, is_clear, "{version:?} {target} {hosts:?}");
        }
    }
}
