//! Checks the target of a request. Rules and upstream read its path, so it must have one.

use http::request::Parts;
use http::{Method, Version};

/// The target has no path, or one that does not begin with a slash.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadTarget;

/// Checks that a target has a path, unless it is `*` or that of `CONNECT`.
///
/// In HTTP/1.1, `host:port` is for `CONNECT` only (RFC 9112, 3.2.3), and the path of an absolute target may be empty.
/// In HTTP/2, a path begins with a slash (RFC 9113, 8.3.1).
pub(crate) fn check(head: &Parts) -> Result<(), BadTarget> {
    if head.method == Method::CONNECT {
        return Ok(());
    }
    let target = head.uri.path_and_query().ok_or(BadTarget)?.as_str();
    let may_be_empty = head.version != Version::HTTP_2 && head.uri.authority().is_some();
    match target.starts_with('/') || target == "*" || may_be_empty {
        true => Ok(()),
        false => Err(BadTarget),
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use http::uri::PathAndQuery;

    use super::*;

    fn checked(method: Method, version: Version, target: Uri) -> bool {
        let request = http::Request::builder().method(method).version(version).uri(target);
        let (head, ()) = request.body(()).expect("a request").into_parts();
        check(&head).is_ok()
    }

    #[test]
    fn a_target_has_a_path() {
        for (method, target, is_clear) in [
            (Method::GET, "/", true),
            (Method::GET, "//x", true),
            (Method::GET, "/?x", true),
            (Method::GET, "http://a", true),
            (Method::GET, "http://a?x", true),
            (Method::OPTIONS, "*", true),
            (Method::GET, "a", false),
            (Method::GET, "a:80", false),
            (Method::CONNECT, "a:80", true),
        ] {
            let uri = target.parse().expect("a target");
            let found = checked(method.clone(), Version::HTTP_11, uri);
            assert_eq!(found, is_clear, "{method} {target}");
        }
    }

    #[test]
    fn a_path_of_http2_begins_with_a_slash() {
        for (path, is_clear) in [("/", true), ("/?x", true), ("*", true), ("?x", false)] {
            let uri = Uri::builder().scheme("http").authority("a");
            let uri = uri.path_and_query(PathAndQuery::from_static(path)).build().expect("a URI");
            assert_eq!(checked(Method::GET, Version::HTTP_2, uri), is_clear, "{path}");
        }
    }
}
