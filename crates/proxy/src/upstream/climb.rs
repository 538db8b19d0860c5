//! Finds paths that leave their root by `..`.
//!
//! The proxy puts the base path of the upstream before the client's path, and rules read only the client's path. If
//! `..` went above the root of the client's path, the upstream would serve another path than the rules read.

/// How a server may split a path: at slashes, and at these too.
#[derive(Clone, Copy, Debug)]
struct Separators {
    encoded_slash: bool,
    backslash: bool,
    encoded_backslash: bool,
}

/// Whether `..` goes above the root in any reading of a path without its query.
pub(super) fn is_above_root(path: &str) -> bool {
    // Nearly all paths have no such segment.
    if !path.contains("..") && !path.contains("%2e") && !path.contains("%2E") {
        return false;
    }
    (0..8_u8).any(|choice| {
        let [encoded_slash, backslash, encoded_backslash] = [1, 2, 4].map(|bit| choice & bit != 0);
        climbs(path, Separators { encoded_slash, backslash, encoded_backslash })
    })
}

/// Whether `..` goes above the root in one reading. Empty segments add no depth.
fn climbs(path: &str, separators: Separators) -> bool {
    let bytes = path.as_bytes();
    let (mut depth, mut begin, mut at) = (0_i64, 0, 0);
    while at <= bytes.len() {
        let width = if at == bytes.len() { 1 } else { separators.width(&bytes[at..]) };
        if width > 0 {
            depth += step(&bytes[begin..at]);
            if depth < 0 {
                return true;
            }
            begin = at + width;
        }
        at += width.max(1);
    }
    false
}

impl Separators {
    /// The length of the separator that the bytes begin with; 0 if they begin with none.
    fn width(self, bytes: &[u8]) -> usize {
        match bytes {
            [b'/', ..] => 1,
            [b'\\', ..] if self.backslash => 1,
            [b'%', b'2', b'f' | b'F', ..] if self.encoded_slash => 3,
            [b'%', b'5', b'c' | b'C', ..] if self.encoded_backslash => 3,
            _ => 0,
        }
    }
}

/// By how much a segment changes the depth. A segment ends at a `;` or an encoded NUL, since some servers drop what
/// follows.
fn step(segment: &[u8]) -> i64 {
    let mut rest = segment;
    let mut dots = 0;
    loop {
        rest = match rest {
            [] | [b';', ..] | [b'%', b'0', b'0', ..] => break,
            [b'.', after @ ..] | [b'%', b'2', b'e' | b'E', after @ ..] => after,
            _ => return 1,
        };
        dots += 1;
    }
    match dots {
        0 | 1 => 0,
        2 => -1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_root_in_any_reading_is_found() {
        for path in [
            "/..",
            "/../login",
            "/%2e%2e/login",
            "/%2E./login",
            "/x/../../login",
            "/./../x",
            "//../x",
            "/x//../../y",
            "/..;a=1/x",
            "/;a/../x",
            "/..%00/x",
            "/..\\x",
            "/..%2fx",
            "/..%5Cx",
            "/a%2f../../x",
            "/a\\b/../../x",
            "/a%5cb/../../x",
            "/a;b%2f../../x",
            "/x/..%2F..%5c",
        ] {
            assert!(is_above_root(path), "{path}");
        }
    }

    #[test]
    fn other_dots_stay_below_the_root() {
        for path in [
            "/",
            "/x/..",
            "/x/../y",
            "/x/y/../../z",
            "/...",
            "/..x/",
            "/x..",
            "/%2e/x",
            "/.;a/x",
            "/a%2fb/../x",
            "/%252e%252e/x",
            "/%2e%2e%2e",
        ] {
            assert!(!is_above_root(path), "{path}");
        }
    }
}
