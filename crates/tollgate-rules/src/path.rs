//! Paths and hosts, taken apart once for all rules.

use crate::inline::Inline;

/// The segments of a path, or the labels of a host.
pub(crate) type Segments<'a> = Inline<&'a str, 16>;

/// The segments of a path as servers resolve it: empty ones and `.` are left out, and `..` takes
/// the one before it away, so that `//login`, `/./login` and `/a/../login` are `/login`.
pub(crate) fn split<'p>(path: &'p str, segments: &mut Segments<'p>) {
    let mut begin = 0;
    let mut end = path.len();
    for (at, byte) in path.bytes().enumerate() {
        match byte {
            b'/' => {
                resolve(&path[begin..at], segments);
                begin = at + 1;
            }
            b'?' | b'#' => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    resolve(&path[begin..end], segments);
}

/// The same as a list of its own.
pub(crate) fn segments(path: &str) -> Segments<'_> {
    let mut segments = Segments::new("");
    split(path, &mut segments);
    segments
}

/// Adds a segment, or does what it says.
#[inline]
fn resolve<'p>(segment: &'p str, segments: &mut Segments<'p>) {
    match segment.as_bytes() {
        [] => {}
        [b'.' | b'%', ..] => match dots(segment) {
            0 => segments.push(segment),
            1 => {}
            _ => segments.pop(),
        },
        _ => segments.push(segment),
    }
}

/// How many dots a segment of nothing else has, written out or as `%2e`; 0 for any other, and for
/// more than two.
fn dots(segment: &str) -> usize {
    let mut rest = segment;
    let mut count = 0;
    while !rest.is_empty() {
        let encoded = rest.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("%2e"));
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None if encoded => rest = &rest[3..],
            None => return 0,
        }
        count += 1;
    }
    if count > 2 { 0 } else { count }
}

/// The bytes that a segment stands for.
pub(crate) fn decoded(segment: &str) -> impl Iterator<Item = u8> + '_ {
    let mut rest = segment.as_bytes();
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        if first == b'%'
            && let [high, low, others @ ..] = after
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            rest = others;
            return Some(high << 4 | low);
        }
        rest = after;
        Some(first)
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// A host without its port and without a dot at its end.
pub(crate) fn bare_host(host: &str) -> &str {
    let bare = match host.rfind(':') {
        // An IPv6 address in brackets has colons of its own.
        Some(at) if !host[at..].contains(']') => &host[..at],
        _ => host,
    };
    bare.strip_suffix('.').unwrap_or(bare)
}

/// The labels of a host, without its port.
pub(crate) fn split_host<'h>(host: &'h str, labels: &mut Segments<'h>) {
    for label in bare_host(host).split('.') {
        labels.push(label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_resolved() {
        for (path, expected) in [
            ("/a/b", &["a", "b"][..]),
            ("//a///b/", &["a", "b"]),
            ("/a/./b/%2E/c", &["a", "b", "c"]),
            ("/a/../b/%2e./c", &["c"]),
            ("/../../a", &["a"]),
            ("/a/...", &["a", "..."]),
            ("/a%2fb", &["a%2fb"]),
            ("/a?/b", &["a"]),
            ("/a#/b", &["a"]),
            ("*", &["*"]),
            ("", &[]),
            ("/é/%", &["é", "%"]),
        ] {
            assert_eq!(segments(path).as_slice(), expected, "{path}");
        }
    }

    #[test]
    fn encoded_bytes_are_decoded() {
        for (segment, expected) in
            [("%6cogin", &b"login"[..]), ("a%2Fb", b"a/b"), ("100%", b"100%"), ("%zz%4", b"%zz%4")]
        {
            assert_eq!(decoded(segment).collect::<Vec<_>>(), expected, "{segment}");
        }
    }

    #[test]
    fn hosts_lose_their_port() {
        for (host, bare) in [
            ("example.com:80", "example.com"),
            ("example.com.:80", "example.com"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("", ""),
        ] {
            assert_eq!(bare_host(host), bare, "{host}");
        }
    }

    proptest! {
        #[test]
        fn any_path_has_segments(path in "[/.%2eEa-c?é]{0,40}", count in 0_usize..40) {
            for segment in segments(&path).as_slice() {
                prop_assert!(!segment.is_empty() && !segment.contains('/'));
                prop_assert!(decoded(segment).count() <= segment.len());
            }
            prop_assert_eq!(segments(&"/a".repeat(count)).as_slice().len(), count);
        }
    }
}
