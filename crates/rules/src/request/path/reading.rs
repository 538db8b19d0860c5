//! One way to read a path.

use super::{Segments, Separator, Spelling, escaped};

/// One way to read a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathReading {
    pub(super) encoded_slash: bool,
    pub(super) backslash: bool,
    pub(super) ends_at_nul: bool,
    pub(super) params: Params,
    pub(super) dots: Dots,
}

/// How parameters such as `;v=1` are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Params {
    /// They belong to their segments.
    Kept,
    /// Each is left out up to the end of its segment.
    Dropped,
    /// Each is left out up to the next `/` that is written as such: before escapes are decoded and backslashes
    /// replaced, as in Tomcat and Jetty.
    DroppedToSlash,
}

/// How `.` and `..` are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dots {
    /// They are resolved after empty segments are left out.
    Resolved,
    /// They are resolved first, so `..` may remove an empty segment.
    ResolvedBeforeMerging,
    Kept,
}

impl PathReading {
    /// The reading for keys: paths without dots that may be the same have the same segments.
    pub(super) fn of_keys(spelling: Spelling) -> Self {
        Self {
            encoded_slash: spelling.encoded_slash != Separator::Never,
            backslash: spelling.backslash != Separator::Never,
            ends_at_nul: false,
            params: if spelling.keeps_params { Params::Kept } else { Params::Dropped },
            dots: Dots::Resolved,
        }
    }

    /// The segments of a path without its query. None of them is empty.
    pub(crate) fn of<'p>(&self, path: &'p str) -> Segments<'p> {
        let mut segments = Segments::new("");
        self.split(path, &mut segments);
        segments
    }

    /// Adds the segments of a path without its query.
    pub(super) fn split<'p>(&self, path: &'p str, segments: &mut Segments<'p>) {
        let bytes = path.as_bytes();
        let (mut begin, mut at) = (0, 0);
        // Where the segment ends, if a parameter up to the next slash follows it.
        let mut end = None;
        while at < bytes.len() {
            let width = match (bytes[at], escaped(&bytes[at..])) {
                (b'/', _) => 1,
                (b';', _) if self.params == Params::DroppedToSlash && end.is_none() => {
                    end = Some(at);
                    continue;
                }
                _ if end.is_some() => {
                    at += 1;
                    continue;
                }
                (b'\\', _) if self.backslash => 1,
                (b'%', Some(b'/')) if self.encoded_slash => 3,
                (b'%', Some(b'\\')) if self.backslash => 3,
                (b'%', Some(0)) if self.ends_at_nul => break,
                _ => {
                    at += 1;
                    continue;
                }
            };
            // Before a slash at the beginning there is no segment.
            if at > 0 {
                self.add(&path[begin..end.take().unwrap_or(at)], segments);
            }
            at += width;
            begin = at;
        }
        self.add(&path[begin..end.unwrap_or(at)], segments);
        segments.retain(|segment| !segment.is_empty());
    }

    /// Adds a segment, or resolves it if it is `.` or `..`.
    fn add<'p>(&self, segment: &'p str, segments: &mut Segments<'p>) {
        let segment = match self.params {
            Params::Dropped => segment.split(';').next().unwrap_or_default(),
            Params::Kept | Params::DroppedToSlash => segment,
        };
        match self.dots {
            Dots::Kept | Dots::Resolved if segment.is_empty() => {}
            Dots::Kept => segments.push(segment),
            Dots::Resolved | Dots::ResolvedBeforeMerging => match dot_count(segment) {
                0 => segments.push(segment),
                1 => {}
                _ => segments.pop(),
            },
        }
    }
}

/// 1 for `.`, 2 for `..`, also if dots are written as `%2e`; 0 for any other segment.
pub(super) fn dot_count(segment: &str) -> usize {
    let mut rest = segment.as_bytes();
    let mut count = 0;
    while !rest.is_empty() {
        rest = match rest {
            [b'.', after @ ..] | [b'%', b'2', b'e' | b'E', after @ ..] => after,
            _ => return 0,
        };
        count += 1;
    }
    if count > 2 { 0 } else { count }
}

/// Whether a segment is `.` or `..`, with or without a parameter. The segment may still hold a
/// separator of another kind.
#[inline]
pub(super) fn is_dots(segment: &str) -> bool {
    match segment.as_bytes() {
        [b'.' | b'%', ..] => dot_count(segment.split(';').next().unwrap_or_default()) > 0,
        _ => false,
    }
}
