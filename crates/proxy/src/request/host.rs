//! The host that a request asks for: a server answers 400 where it is missing, repeated or malformed
//! (RFC 9112, 3.2), and where user info stands before it (RFC 9110, 4.2.4).

use std::net::Ipv6Addr;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Version};

/// A name of DNS has no more.
const NAME_BYTES_MAX: usize = 255;

/// A request that does not say which host it asks for, or does not say it clearly.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadHost;

/// Whether it is clear which host a request asks for.
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
        // A target that names a host goes before `Host`, but does not replace it.
        (Version::HTTP_11, Some(_), _) => Ok(()),
        (Version::HTTP_11, None, _) => Err(BadHost),
        // RFC 9113, 8.3.1: a `host` beside `:authority` says the same.
        (_, Some(field), Some(authority)) if field.eq_ignore_ascii_case(authority) => Ok(()),
        (_, Some(_), Some(_)) | (_, None, None) => Err(BadHost),
        _ => Ok(()),
    }
}

/// Whether this is a host and perhaps a port (RFC 3986, 3.2.2), without user info. A name has no
/// `%`, which is no host's, and which some servers decode.
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

/// Labels, none of them empty, and perhaps a dot at the end.
fn is_name(name: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~!$&'()*+,;=".contains(&byte);
    let labels = name.strip_suffix('.').unwrap_or(name);
    name.len() <= NAME_BYTES_MAX
        && labels.split('.').all(|label| !label.is_empty() && label.bytes().all(may_be))
}

/// Nothing, or what follows a name: `:80`, or `:`.
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
    fn hosts_and_what_is_none() {
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
    fn one_host_has_to_be_named_unless_the_version_is_1_0() {
        for (version, target, hosts, is_clear) in [
            (Version::HTTP_11, "/", &["a"][..], true),
            (Version::HTTP_11, "/", &[], false),
            (Version::HTTP_11, "/", &["a", "a"], false),
            (Version::HTTP_11, "/", &[""], false),
            (Version::HTTP_11, "http://a/", &["a"], true),
            // The target goes before the field.
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
