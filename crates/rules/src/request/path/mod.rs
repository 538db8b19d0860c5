//! The readings of a path.
//!
//! Servers read some paths differently: is `%2F` a slash, does `..` go back, does `;v=1` count? If a
//! rule applied by one reading only, a client could evade it at an upstream that has another. So
//! [`split`] splits each path once, and [`Oddities`] records which parts servers read differently. Nearly
//! all paths have no oddity, and one reading. Every other path is read in each way that the file's
//! [`Spelling`] leaves open, and [`Oddities::fits`] returns in how many of these a pattern fits.

mod counted;
mod oddities;
mod reading;

use super::RequestView;
use crate::inline_vec::InlineVec;
pub(crate) use counted::split_for_keys;
pub(crate) use oddities::{Fit, Oddities};

/// The segments of a path.
pub(crate) type Segments<'a> = InlineVec<&'a str, 16>;

/// How the upstream reads paths, as far as the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling {
    pub(crate) encoded_slash: Separator,
    pub(crate) backslash: Separator,
    /// If `true`, `;v=1` belongs to its segment. If `false`, it may or may not.
    pub(crate) keeps_params: bool,
    /// Whether `/A` differs from `/a`.
    pub(crate) keeps_case: bool,
}

impl Spelling {
    /// The first line of a rules file that differs; `None` if both are the same.
    pub(crate) fn changed(self, before: Self) -> Option<&'static str> {
        let checks = [
            (before.encoded_slash != self.encoded_slash, "encoded_slash"),
            (before.backslash != self.backslash, "backslash"),
            (before.keeps_params != self.keeps_params, "path_params"),
            (before.keeps_case != self.keeps_case, "path_case"),
        ];
        checks.iter().find(|(is_changed, _)| *is_changed).map(|(_, what)| *what)
    }

    /// A byte of a path, in lower case unless case counts.
    pub(crate) fn folded(self, byte: u8) -> u8 {
        if self.keeps_case { byte } else { byte.to_ascii_lowercase() }
    }
}

/// Whether an encoded slash, or a backslash, separates segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Separator {
    /// The file does not say. A rule that applies in one of the two cases only denies the request.
    #[default]
    Unclear,
    Always,
    Never,
}

/// The path of a request, without its query.
#[inline]
pub(crate) fn of_request<R: RequestView>(request: &R) -> &str {
    let path = request.path();
    if R::PATH_HAS_QUERY { without_query(path) } else { path }
}

/// The part before the first `?` or `#`.
fn without_query(path: &str) -> &str {
    let end = path.bytes().position(|byte| matches!(byte, b'?' | b'#'));
    &path[..end.unwrap_or(path.len())]
}

/// Splits a path without query at each slash, leaves empty segments out, and returns its oddities.
pub(crate) fn split<'p>(
    path: &'p str,
    spelling: Spelling,
    segments: &mut Segments<'p>,
) -> Oddities {
    let bytes = path.as_bytes();
    let mut odd = Oddities::new(spelling);
    let mut begin = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'/' => {
                odd.dots |= reading::is_dots(&path[begin..at]);
                if begin < at {
                    segments.push(&path[begin..at]);
                }
                begin = at + 1;
            }
            b'%' | b'\\' | b';' => odd.note(&bytes[at..]),
            _ => {}
        }
    }
    odd.dots |= reading::is_dots(&path[begin..]);
    if begin < path.len() {
        segments.push(&path[begin..]);
    }
    odd.is_long = path.len() > oddities::ODD_BYTES_MAX;
    odd
}

/// Whether a segment has this byte, plain or escaped.
pub(crate) fn holds(segment: &str, byte: u8) -> bool {
    decoded(segment).any(|its| its == byte)
}

/// The bytes of a segment, with escapes decoded once.
pub(crate) fn decoded(segment: &str) -> impl Iterator<Item = u8> + Clone + '_ {
    decoded_with(segment, |plain| plain)
}

/// The bytes of a text, with escapes decoded once. `plain` maps the bytes that are not escaped.
pub(crate) fn decoded_with<'t>(
    text: &'t str,
    plain: impl Fn(u8) -> u8 + Clone + 't,
) -> impl Iterator<Item = u8> + Clone + 't {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let escaped = escaped(rest);
        rest = if escaped.is_some() { &rest[3..] } else { after };
        Some(escaped.unwrap_or_else(|| plain(first)))
    })
}

/// The byte that `bytes` begin with as `%XX`.
pub(crate) fn escaped(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'%', high, low, ..] => Some(hex(*high)? << 4 | hex(*low)?),
        _ => None,
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests;
