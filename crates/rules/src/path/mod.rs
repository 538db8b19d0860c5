//! How a path is read.
//!
//! A path has several readings where servers differ: is `%2F` a slash, does `..` go back, does `;v=1`
//! count? A rule must not apply by one reading and be passed over by the one that the upstream has.
//! So each path is split once, as nearly all are read alike, and [`Oddities`] notes what servers read
//! in different ways. A path that has none is done. Any other is read in each way that the file's
//! [`Spelling`] leaves open, and [`Oddities::fits`] tells in how many of them a pattern fits.

use crate::inline_vec::InlineVec;

/// The segments of a path.
pub(crate) type Segments<'a> = InlineVec<&'a str, 16>;

/// A longer path with oddities is not read. It may be read in 12 ways, and by each rule.
const ODD_BYTES_MAX: usize = 2_048;

/// How the upstream reads paths, as far as the file says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling {
    pub(crate) encoded_slash: Separator,
    pub(crate) backslash: Separator,
    /// Whether `;v=1` may or may not belong to its segment; else it does.
    pub(crate) keeps_params: bool,
    /// Whether `/A` is another path than `/a`.
    pub(crate) keeps_case: bool,
}

impl Spelling {
    /// A byte of a path as it counts.
    pub(crate) fn folded(self, byte: u8) -> u8 {
        if self.keeps_case { byte } else { byte.to_ascii_lowercase() }
    }
}

/// Whether something separates segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Separator {
    /// It may or may not. A rule that applies in one of the two cases only rejects the request.
    #[default]
    Unclear,
    Always,
    Never,
}

/// What a path has that servers read in different ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    spelling: Spelling,
    /// `%2F`, unless it is never a separator.
    encoded_slash: bool,
    /// `\` or `%5C`, unless it is never a separator.
    backslash: bool,
    /// `%00`, where some servers end the path.
    nul: bool,
    /// `;`, where parameters may or may not belong to a segment.
    params: bool,
    /// A segment `.` or `..`, perhaps among what one of the above separates.
    dots: bool,
    is_long: bool,
}

/// In how many of its readings a path fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    None,
    /// In some. The rule applies, and does not keep later rules from applying.
    Some,
    All,
    /// In some, and the file does not say that these are to be counted.
    Unclear,
}

/// One way to read a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) encoded_slash: bool,
    pub(crate) backslash: bool,
    pub(crate) ends_at_nul: bool,
    pub(crate) drops_params: bool,
    pub(crate) dots: Dots,
}

/// What becomes of `.` and `..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dots {
    /// They are resolved, after empty segments were left out.
    Resolved,
    /// They are resolved, and `..` may take an empty segment away.
    ResolvedBeforeMerging,
    Kept,
}

/// Splits a path at each slash and tells what is odd about it. What follows a `?` or `#` is left out,
/// and so are empty segments.
pub(crate) fn split<'p>(
    path: &'p str,
    spelling: Spelling,
    segments: &mut Segments<'p>,
) -> Oddities {
    let bytes = path.as_bytes();
    let mut odd = Oddities { spelling, ..Oddities::default() };
    let (mut begin, mut end) = (0, bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'/' => {
                odd.dots |= is_dots(&path[begin..at]);
                if begin < at {
                    segments.push(&path[begin..at]);
                }
                begin = at + 1;
            }
            b'?' | b'#' => {
                end = at;
                break;
            }
            b'%' | b'\\' | b';' => odd.note(&bytes[at..]),
            _ => {}
        }
    }
    odd.dots |= is_dots(&path[begin..end]);
    if begin < end {
        segments.push(&path[begin..end]);
    }
    odd.is_long = end > ODD_BYTES_MAX;
    odd
}

/// Whether a segment is `.` or `..`; it is said of one, too, in which a separator of another kind or
/// a parameter may stand.
#[inline]
fn is_dots(segment: &str) -> bool {
    match segment.as_bytes() {
        [b'.' | b'%', ..] => dot_count(segment.split(';').next().unwrap_or_default()) > 0,
        _ => false,
    }
}

impl Oddities {
    /// Notes what `rest` begins with.
    #[cold]
    fn note(&mut self, rest: &[u8]) {
        let Spelling { encoded_slash, backslash, keeps_params, .. } = self.spelling;
        let (noted, is_odd) = match (rest[0], escaped(rest)) {
            (b'%', Some(b'/')) => (&mut self.encoded_slash, encoded_slash != Separator::Never),
            (b'%', Some(b'\\')) | (b'\\', _) => {
                (&mut self.backslash, backslash != Separator::Never)
            }
            (b'%', Some(0)) => (&mut self.nul, true),
            (b';', _) => (&mut self.params, !keeps_params),
            _ => return,
        };
        *noted |= is_odd;
        // What this separates was not looked at.
        self.dots |= is_odd;
    }

    /// Whether there is more than one reading, or another than to split at each slash.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.dots || self.encoded_slash || self.backslash || self.nul || self.params
    }

    /// In how many of its readings the path fits, where `fits` tells whether segments do.
    #[cold]
    pub(crate) fn fits(&self, path: &str, fits: impl Fn(&[&str]) -> bool) -> Fit {
        let Some(bases) = self.bases() else { return Fit::Unclear };
        let mut outcomes = InlineVec::<Fit, 2>::new(Fit::None);
        for base in bases.as_slice() {
            let (mut some, mut all) = (false, true);
            for reading in self.variants(*base).as_slice() {
                let fits = fits(reading.of(path).as_slice());
                (some, all) = (some | fits, all & fits);
            }
            outcomes.push(match (some, all) {
                (_, true) => Fit::All,
                (true, false) => Fit::Some,
                (false, false) => Fit::None,
            });
        }
        match outcomes.as_slice() {
            [one] => *one,
            [Fit::All, Fit::All] => Fit::All,
            [Fit::None, Fit::None] => Fit::None,
            outcomes if outcomes.contains(&Fit::None) => Fit::Unclear,
            _ => Fit::Some,
        }
    }

    /// All readings; `None` where there are too many.
    pub(crate) fn readings(&self) -> Option<Vec<Reading>> {
        let bases = self.bases()?;
        let all = bases.as_slice().iter().flat_map(|base| self.variants(*base).as_slice().to_vec());
        Some(all.collect())
    }

    /// One of the readings in plain words: how it reads what is odd.
    pub(crate) fn describe(&self, path: &str, reading: Reading) -> String {
        let separates = |is: bool, what: &str| match is {
            true => format!("{what} separates segments"),
            false => format!("{what} belongs to its segment"),
        };
        let nul = match reading.ends_at_nul {
            true => "the path ends at %00",
            false => "%00 belongs to its segment",
        };
        let params = match reading.drops_params {
            true => "without parameters",
            false => "\";\" belongs to its segment",
        };
        let dots = match reading.dots {
            Dots::Resolved => "\"..\" is resolved",
            Dots::ResolvedBeforeMerging => "\"..\" takes away an empty segment",
            Dots::Kept => "\"..\" is kept",
        };
        let kept = Reading { dots: Dots::Kept, ..reading };
        let has_dots = kept.of(path).as_slice().iter().any(|segment| dot_count(segment) > 0);
        let said = [
            (self.encoded_slash, separates(reading.encoded_slash, "%2F")),
            (self.backslash, separates(reading.backslash, "a backslash")),
            (self.nul, nul.to_owned()),
            (self.params, params.to_owned()),
            (has_dots, dots.to_owned()),
        ];
        let said = said.into_iter().filter(|(is_odd, _)| *is_odd).map(|(_, said)| said);
        said.collect::<Vec<_>>().join(", ")
    }

    /// The readings between which the file leaves the choice open: one, or two. `None` where several
    /// things are unclear at once, or the path is too long: nobody sends such a path in good faith.
    fn bases(&self) -> Option<InlineVec<Reading, 2>> {
        let Spelling { encoded_slash, backslash, .. } = self.spelling;
        let slash_is_unclear = self.encoded_slash && encoded_slash == Separator::Unclear;
        let backslash_is_unclear = self.backslash && backslash == Separator::Unclear;
        let unclear = [slash_is_unclear, backslash_is_unclear, self.nul];
        if self.is_long || unclear.iter().filter(|is| **is).count() > 1 {
            return None;
        }
        let first = Reading {
            encoded_slash: encoded_slash != Separator::Never,
            backslash: backslash != Separator::Never,
            ends_at_nul: false,
            drops_params: false,
            dots: Dots::Resolved,
        };
        let mut bases = InlineVec::new(first);
        bases.push(first);
        if unclear.contains(&true) {
            bases.push(Reading {
                encoded_slash: first.encoded_slash && !slash_is_unclear,
                backslash: first.backslash && !backslash_is_unclear,
                ends_at_nul: self.nul,
                ..first
            });
        }
        Some(bases)
    }

    /// The readings that all count: with parameters and without, with dots resolved and not.
    fn variants(&self, base: Reading) -> InlineVec<Reading, 6> {
        let mut variants = InlineVec::new(base);
        for drops_params in [false, true] {
            if drops_params && !self.params {
                continue;
            }
            for dots in [Dots::Resolved, Dots::ResolvedBeforeMerging, Dots::Kept] {
                if self.dots || dots == Dots::Resolved {
                    variants.push(Reading { drops_params, dots, ..base });
                }
            }
        }
        variants
    }
}

impl Reading {
    /// The one that keys are made of: all that may be one path is one.
    pub(crate) fn of_keys(spelling: Spelling) -> Self {
        Self {
            encoded_slash: spelling.encoded_slash != Separator::Never,
            backslash: spelling.backslash != Separator::Never,
            ends_at_nul: false,
            drops_params: !spelling.keeps_params,
            dots: Dots::Resolved,
        }
    }

    /// The segments of a path, none of them empty.
    pub(crate) fn of<'p>(&self, path: &'p str) -> Segments<'p> {
        let mut segments = Segments::new("");
        let bytes = path.as_bytes();
        let (mut begin, mut at) = (0, 0);
        while at < bytes.len() {
            let width = match (bytes[at], escaped(&bytes[at..])) {
                (b'/', _) => 1,
                (b'\\', _) if self.backslash => 1,
                (b'%', Some(b'/')) if self.encoded_slash => 3,
                (b'%', Some(b'\\')) if self.backslash => 3,
                (b'?' | b'#', _) => break,
                (b'%', Some(0)) if self.ends_at_nul => break,
                _ => {
                    at += 1;
                    continue;
                }
            };
            // What stands before the first slash is nothing, and no segment.
            if at > 0 {
                self.add(&path[begin..at], &mut segments);
            }
            at += width;
            begin = at;
        }
        self.add(&path[begin..at], &mut segments);
        segments.retain(|segment| !segment.is_empty());
        segments
    }

    /// Adds a segment, or does what it says.
    fn add<'p>(&self, segment: &'p str, segments: &mut Segments<'p>) {
        let segment = match self.drops_params {
            true => segment.split(';').next().unwrap_or_default(),
            false => segment,
        };
        match (self.dots, dot_count(segment)) {
            (Dots::Resolved, _) if segment.is_empty() => {}
            (Dots::Kept, _) | (_, 0) => segments.push(segment),
            (_, 1) => {}
            _ => segments.pop(),
        }
    }
}

/// How many dots a segment of nothing else has, written out or as `%2e`; 0 for any other, and for
/// more than two.
fn dot_count(segment: &str) -> usize {
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

/// Whether a segment has this byte, written out or escaped.
pub(crate) fn holds(segment: &str, byte: u8) -> bool {
    decoded(segment).any(|its| its == byte)
}

/// The bytes that a segment stands for.
pub(crate) fn decoded(segment: &str) -> impl Iterator<Item = u8> + '_ {
    let mut rest = segment.as_bytes();
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let escaped = escaped(rest);
        rest = if escaped.is_some() { &rest[3..] } else { after };
        Some(escaped.unwrap_or(first))
    })
}

/// The byte that `%XX` stands for, where `bytes` begin so.
fn escaped(bytes: &[u8]) -> Option<u8> {
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
