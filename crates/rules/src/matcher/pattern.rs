//! Patterns of segments: `*` matches one, `**` any number.

use std::fmt;
use std::net::Ipv6Addr;

use crate::error::printable;
use crate::request::host::in_brackets;
use crate::request::path::{self, Separator, Spelling};

/// A pattern, compared segment by segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pieces: Vec<Piece>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(Box<[u8]>),
    One,
    Any,
}

/// A mistake in a pattern: its byte offset, and what to write instead.
pub(crate) type PatternMistake = (usize, String);

impl Pattern {
    /// `/posts/*/comments/**`.
    pub(crate) fn of_path(text: &str, spelling: Spelling) -> Result<Self, PatternMistake> {
        if !text.starts_with('/') {
            return Err((0, "a path pattern begins with \"/\", as in \"/posts/**\"".into()));
        }
        if let Some(at) = text.find(['?', '#']) {
            let advice = "a path has no query: leave out what begins with \"?\" or \"#\"";
            return Err((at, advice.into()));
        }
        Self::parse(text, '/', |segment| match segment {
            "" => Ok(None),
            _ if path::holds(segment, b'/') && spelling.encoded_slash != Separator::Never => Err(
                "an encoded slash separates nothing in a pattern: write \"/\", or encoded_slash = \
                 \"keep\" before the first rule if the upstream reads it as part of a segment"
                    .to_owned(),
            ),
            _ if path::holds(segment, b'\\') && spelling.backslash != Separator::Never => Err(
                "a backslash separates nothing in a pattern: write \"/\", or backslash = \"keep\" \
                 before the first rule if the upstream reads it as part of a segment"
                    .to_owned(),
            ),
            "." | ".." => Err("write the path without \".\" and \"..\"".to_owned()),
            _ => Ok(Some(path::decoded(segment).collect())),
        })
    }

    /// Whether it is `/**`, which fits all segments, and none.
    pub(crate) fn fits_all(&self) -> bool {
        !self.pieces.is_empty() && self.pieces.iter().all(|piece| *piece == Piece::Any)
    }

    /// `*.example.com`.
    pub(crate) fn of_host(text: &str) -> Result<Self, PatternMistake> {
        const A_HOST: &str = "a host is a name such as \"api.example.com\" or \"*.example.com\", \
                              without a scheme, a port or a path";
        if let Some(at) = text.find(['/', ':', ' ', '@']).filter(|_| !text.starts_with('[')) {
            return Err((at, A_HOST.into()));
        }
        if let Some(at) = text.find(|c: char| !c.is_ascii()) {
            let advice = "a request names its host in ASCII: write this in Punycode, such as \
                          \"xn--mller-kva.example\"";
            return Err((at, advice.into()));
        }
        if let Some(at) = text.find('%') {
            let advice = "no request names a host with \"%\": write the name without escapes";
            return Err((at, advice.into()));
        }
        if let Some(address) = in_brackets(text) {
            let literal = Piece::Literal(format!("[{address}]").into_bytes().into());
            return Ok(Self { pieces: vec![literal], text: text.to_owned() });
        }
        if text.starts_with('[') {
            let advice = "an IPv6 address in brackets is needed, such as \"[2001:db8::1]\"";
            return Err((0, advice.into()));
        }
        Self::parse(text, '.', |label| match label {
            "" => Err(A_HOST.to_owned()),
            _ => Ok(Some(label.to_ascii_lowercase().into_bytes())),
        })
    }

    fn parse(
        text: &str,
        between: char,
        literal: impl Fn(&str) -> Result<Option<Vec<u8>>, String>,
    ) -> Result<Self, PatternMistake> {
        let mut pieces = Vec::new();
        let mut at = 0;
        for segment in text.split(between) {
            match segment {
                "*" => pieces.push(Piece::One),
                "**" => pieces.push(Piece::Any),
                _ => {
                    if let Some(star) = segment.find('*') {
                        let advice = format!(
                            "\"*\" matches a whole part between \"{between}\", and \"**\" any \
                             number of them: write it by itself"
                        );
                        return Err((at + star, advice));
                    }
                    let bytes = literal(segment).map_err(|advice| (at, advice))?;
                    pieces.extend(bytes.map(|bytes| Piece::Literal(bytes.into())));
                }
            }
            at += segment.len() + between.len_utf8();
        }
        Ok(Self { pieces, text: text.to_owned() })
    }

    /// The literal segments that it begins with, decoded.
    pub(crate) fn literal_prefix(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map_while(|piece| match piece {
            Piece::Literal(literal) => Some(&**literal),
            Piece::One | Piece::Any => None,
        })
    }

    /// Whether the pattern fits all that another one fits. Each piece of the other one must be covered: a
    /// `**` by a `**`, and a `*` by a `*` or a `**`.
    ///
    /// It subtracts the comparisons of pieces from `left`, and returns `None` if it would take more.
    pub(crate) fn includes(
        &self,
        other: &Self,
        keeps_case: bool,
        left: &mut usize,
    ) -> Option<bool> {
        let same = |one: &[u8], other: &[u8]| match keeps_case {
            true => one == other,
            false => one.eq_ignore_ascii_case(other),
        };
        // Dynamic programming over prefixes: `covered[count]` is whether the pieces before the current one cover the
        // first `count` pieces of the other pattern.
        let width = other.pieces.len() + 1;
        *left = left.checked_sub(width)?;
        let mut covered = vec![false; width];
        covered[0] = true;
        for piece in &self.pieces {
            *left = left.checked_sub(width)?;
            let mut next = vec![false; covered.len()];
            for count in 0..covered.len() {
                let covers_last = |last: &Piece| match (piece, last) {
                    (Piece::Any, _) | (Piece::One, Piece::One | Piece::Literal(_)) => true,
                    (Piece::Literal(its), Piece::Literal(literal)) => same(its, literal),
                    _ => false,
                };
                let is_covered = count > 0 && covers_last(&other.pieces[count - 1]);
                next[count] = match piece {
                    Piece::Any => covered[count] || (is_covered && next[count - 1]),
                    _ => is_covered && covered[count - 1],
                };
            }
            covered = next;
            if !covered.contains(&true) {
                return Some(false);
            }
        }
        Some(covered[other.pieces.len()])
    }

    /// Whether the segments of a path fit, in at most `segments * pieces` comparisons. Unless
    /// `is_encoded`, no segment has a `%`.
    pub(crate) fn fits_path(&self, segments: &[&str], is_encoded: bool, keeps_case: bool) -> bool {
        self.fits(segments, |segment, literal| match (is_encoded, keeps_case) {
            (false, true) => segment.as_bytes() == literal,
            (false, false) => segment.as_bytes().eq_ignore_ascii_case(literal),
            (true, true) => path::decoded(segment).eq(literal.iter().copied()),
            (true, false) => path::decoded(segment)
                .map(|byte| byte.to_ascii_lowercase())
                .eq(literal.iter().map(u8::to_ascii_lowercase)),
        })
    }

    /// Whether the labels of a host fit.
    pub(crate) fn fits_host(&self, labels: &[&str]) -> bool {
        self.fits(labels, |label, literal| {
            let is_address = || in_brackets(label).is_some_and(|its| is_written(literal, its));
            label.as_bytes().eq_ignore_ascii_case(literal) || is_address()
        })
    }

    /// Greedy matching with backtracking to the latest `**`: on a mismatch, that `**` takes one more
    /// segment. An earlier `**` need not be retried, because the latest can take any segment that
    /// the earlier one would.
    fn fits(&self, segments: &[&str], same: impl Fn(&str, &[u8]) -> bool) -> bool {
        let (mut piece, mut segment) = (0, 0);
        let mut retry = None;
        while segment < segments.len() {
            match self.pieces.get(piece) {
                Some(Piece::Any) => {
                    retry = Some((piece + 1, segment));
                    piece += 1;
                    continue;
                }
                Some(Piece::One) => {
                    (piece, segment) = (piece + 1, segment + 1);
                    continue;
                }
                Some(Piece::Literal(literal)) if same(segments[segment], literal) => {
                    (piece, segment) = (piece + 1, segment + 1);
                    continue;
                }
                _ => {}
            }
            let Some((after, taken)) = retry else { return false };
            retry = Some((after, taken + 1));
            (piece, segment) = (after, taken + 1);
        }
        self.pieces[piece..].iter().all(|piece| *piece == Piece::Any)
    }
}

/// Whether a literal is this address in brackets, in any notation.
fn is_written(literal: &[u8], address: Ipv6Addr) -> bool {
    std::str::from_utf8(literal).is_ok_and(|literal| in_brackets(literal) == Some(address))
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::path::{Fit, Segments};
    use proptest::prelude::*;

    /// Whether a rule with the pattern would apply; panics if that is unclear.
    fn fit(spelling: Spelling, pattern: &str, path: &str) -> bool {
        let pattern = Pattern::of_path(pattern, spelling).expect("a good pattern");
        let mut segments = Segments::new("");
        let path = path.split('?').next().unwrap_or_default();
        let odd = path::split(path, spelling, &mut segments);
        let fits = |its: &[&str]| pattern.fits_path(its, path.contains('%'), spelling.keeps_case);
        match odd.any() {
            false => fits(segments.as_slice()),
            true => match odd.fits(path, fits) {
                Fit::Unclear => panic!("unclear: {pattern} {path}"),
                fit => fit != Fit::None,
            },
        }
    }

    #[test]
    fn a_path_pattern_matches_whole_segments_by_every_reading() {
        for (pattern, path, fits) in [
            ("/", "/", true),
            ("/", "/a", false),
            ("/**", "/", true),
            ("/**", "/a/b", true),
            ("/posts", "/posts", true),
            ("/posts", "/posts/", true),
            ("/posts/", "/posts", true),
            ("/posts", "//posts", true),
            ("/posts", "/%70osts", true),
            ("/posts", "/x/../posts", true),
            ("/posts", "/posts?x=1", true),
            ("/posts", "/Posts", true),
            ("/Posts", "/p%4fsts", true),
            ("/posts/**", "/posts;v=1/a", true),
            ("/posts", "/;v/posts", true),
            ("/posts/**", "/x/../posts/..;/y", true),
            ("/posts/**", "/posts/../y", true),
            ("/posts/a", "/posts//../a", true),
            ("/posts", "/posts/1", false),
            ("/posts/*", "/posts/1", true),
            ("/posts/*", "/posts", false),
            ("/posts/*", "/posts/1/2", false),
            ("/posts/**", "/posts", true),
            ("/posts/**", "/posts/1/2", true),
            ("/posts/**", "/postscript", false),
            ("/*/edit", "/a/edit", true),
            ("/*/edit", "/a/b/edit", false),
            ("/**/edit", "/edit", true),
            ("/**/edit", "/a/b/edit", true),
            ("/**/edit", "/edit/a/edit", true),
            ("/**/edit", "/edit/a", false),
            ("/a/**/b/*/**/c", "/a/b/b/x/c", true),
            ("/a/**/b/*/**/c", "/a/b/c", false),
            ("/a b", "/a%20b", true),
            ("/a%20b", "/a%20b", true),
        ] {
            let found = fit(Spelling::default(), pattern, path);
            assert_eq!(found, fits, "{pattern} {path}");
        }
    }

    #[test]
    fn a_host_pattern_matches_whole_labels_in_any_case_without_port_or_user_info() {
        for (pattern, host, fits) in [
            ("example.com", "example.com", true),
            ("example.com", "EXAMPLE.com:8080", true),
            ("Example.com", "example.com.", true),
            ("example.com", "www.example.com", false),
            ("*.example.com", "www.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "a.b.example.com", false),
            ("**.example.com", "example.com", true),
            ("**.example.com", "a.b.example.com", true),
            ("**.example.com", "example.com.evil.net", false),
            ("**.example.com", "notexample.com", false),
            ("[2001:db8::1]", "[2001:DB8::1]:443", true),
            ("[2001:db8:0::1]", "[2001:db8:0:0:0:0:0:1]", true),
            ("[2001:db8::1]", "[2001:db8::2]", false),
            ("api.example.com", "x@api.example.com", true),
            ("api.example.com", "x:y@API.example.com.:80", true),
            ("192.0.2.*", "192.0.2.7:80", true),
        ] {
            let pattern = Pattern::of_host(pattern).expect("a good pattern");
            let mut labels = Segments::new("");
            crate::request::host::split_host(host, &mut labels);
            assert_eq!(pattern.fits_host(labels.as_slice()), fits, "{pattern} {host}");
        }
    }

    /// The definition of a match, by trying everything.
    fn naive(pieces: &[Piece], segments: &[&str]) -> bool {
        match (pieces.split_first(), segments.split_first()) {
            (None, None) => true,
            (Some((Piece::Any, rest)), _) => {
                (0..=segments.len()).any(|taken| naive(rest, &segments[taken..]))
            }
            (Some((Piece::One, rest)), Some((_, others))) => naive(rest, others),
            (Some((Piece::Literal(literal), rest)), Some((first, others))) => {
                first.as_bytes() == &**literal && naive(rest, others)
            }
            _ => false,
        }
    }

    proptest! {
        /// With two letters and paths of up to five segments, what fits is found by trying all paths.
        #[test]
        fn a_pattern_that_includes_another_fits_all_that_the_other_fits(
            one in "(/(\\*|\\*\\*|a|b)){0,4}", other in "(/(\\*|\\*\\*|a|b)){0,4}",
        ) {
            let pattern = |text: &str| Pattern::of_path(&format!("/{text}"), Spelling::default()).unwrap();
            let (one, other) = (pattern(&one), pattern(&other));
            let paths = (0..6_u32).flat_map(|length| (0..1_u32 << length).map(move |bits| {
                (0..length).map(|nth| if bits >> nth & 1 == 0 { "a" } else { "c" }).collect::<Vec<_>>()
            }));
            let mut only_other = paths.filter(|path| {
                other.fits_path(path, false, true) && !one.fits_path(path, false, true)
            });
            let includes = |other| one.includes(other, true, &mut usize::MAX.clone());
            if includes(&other) == Some(true) {
                prop_assert_eq!(only_other.next(), None);
            }
            prop_assert_eq!(includes(&one), Some(true));
        }

        #[test]
        fn greedy_matching_equals_the_definition(
            pattern in "(/(\\*|\\*\\*|a|b)){0,7}",
            path in "(/(a|b)){0,8}",
        ) {
            let pattern = Pattern::of_path(&format!("/{pattern}"), Spelling::default()).unwrap();
            let mut segments = Segments::new("");
            let _ = path::split(&path, Spelling::default(), &mut segments);
            prop_assert_eq!(
                pattern.fits_path(segments.as_slice(), false, true),
                naive(&pattern.pieces, segments.as_slice())
            );
        }
    }
}
