//! The parts of a path that servers read differently, and the readings that follow.

use super::reading::{Dots, Params, PathReading, dot_count};
use super::{Separator, Spelling, escaped};
use crate::inline_vec::InlineVec;

/// A longer path with oddities is not read: it may have 18 readings, and every rule tries each.
pub(super) const ODD_BYTES_MAX: usize = 2_048;

/// The parts of a path that servers read differently.
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
    /// A segment `.` or `..`, or one that a separator above may produce.
    pub(super) dots: bool,
    pub(super) is_long: bool,
}

/// In how many of its readings a path fits a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    None,
    /// In some. The rule applies, and later rules still do.
    Some,
    All,
    /// In some, and the file does not say which reading the upstream has.
    Unclear,
}

impl Oddities {
    /// None yet, for paths that are read as `spelling` says.
    pub(super) fn new(spelling: Spelling) -> Self {
        Self { spelling, ..Self::default() }
    }

    /// Records the oddity that `rest` begins with, if it is one.
    #[cold]
    pub(super) fn note(&mut self, rest: &[u8]) {
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
        // The text on either side of the oddity may be `.` or `..`. It was not checked.
        self.dots |= is_odd;
    }

    /// Whether the path has a reading other than to split it at each slash.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.dots || self.encoded_slash || self.backslash || self.nul || self.params
    }

    /// Whether servers make different paths of this one, and the file does not say which. `has_dots`: one of its
    /// segments is `.` or `..`.
    pub(super) fn is_unclear_for_keys(&self, has_dots: bool) -> bool {
        let has_unclear_separator = self.encoded_slash
            && self.spelling.encoded_slash == Separator::Unclear
            || self.backslash && self.spelling.backslash == Separator::Unclear;
        let unclear = [has_dots, self.params, has_unclear_separator];
        // A separator within a parameter ends it for some servers only.
        let has_unclear_params = self.params && (self.encoded_slash || self.backslash);
        self.nul || has_unclear_params || unclear.iter().filter(|is| **is).count() > 1
    }

    /// In how many of its readings the path fits. `fits` decides for the segments of one reading.
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

    /// Visits the segments of each reading. Returns `false` and visits none if there are too many.
    #[cold]
    pub(crate) fn visit(&self, path: &str, mut visit: impl FnMut(&[&str])) -> bool {
        let Some(bases) = self.bases() else { return false };
        for base in bases.as_slice() {
            for reading in self.variants(*base).as_slice() {
                visit(reading.of(path).as_slice());
            }
        }
        true
    }

    /// All readings; `None` if there are too many.
    pub(crate) fn readings(&self) -> Option<Vec<PathReading>> {
        let bases = self.bases()?;
        let all = bases.as_slice().iter().flat_map(|base| self.variants(*base).as_slice().to_vec());
        Some(all.collect())
    }

    /// How one of the readings reads the oddities, in plain words.
    pub(crate) fn describe(&self, path: &str, reading: PathReading) -> String {
        let separates = |is: bool, what: &str| match is {
            true => format!("{what} separates segments"),
            false => format!("{what} belongs to its segment"),
        };
        let nul = match reading.ends_at_nul {
            true => "the path ends at %00",
            false => "%00 belongs to its segment",
        };
        let params = match reading.params {
            Params::Dropped => "without parameters",
            Params::DroppedToSlash => "without parameters, each up to the next \"/\"",
            Params::Kept => "\";\" belongs to its segment",
        };
        let dots = match reading.dots {
            Dots::Resolved => "\"..\" is resolved",
            Dots::ResolvedBeforeMerging => "\"..\" takes away an empty segment",
            Dots::Kept => "\"..\" is kept",
        };
        let kept = PathReading { dots: Dots::Kept, ..reading };
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

    /// The readings between which the file leaves the choice open: one or two. `None` if several
    /// oddities are unclear at once, or the path is too long: no honest client sends such a path.
    fn bases(&self) -> Option<InlineVec<PathReading, 2>> {
        let Spelling { encoded_slash, backslash, .. } = self.spelling;
        let slash_is_unclear = self.encoded_slash && encoded_slash == Separator::Unclear;
        let backslash_is_unclear = self.backslash && backslash == Separator::Unclear;
        let unclear = [slash_is_unclear, backslash_is_unclear, self.nul];
        if self.is_long || unclear.iter().filter(|is| **is).count() > 1 {
            return None;
        }
        let first = PathReading {
            encoded_slash: encoded_slash != Separator::Never,
            backslash: backslash != Separator::Never,
            ends_at_nul: false,
            params: Params::Kept,
            dots: Dots::Resolved,
        };
        let mut bases = InlineVec::new(first);
        bases.push(first);
        if unclear.contains(&true) {
            bases.push(PathReading {
                encoded_slash: first.encoded_slash && !slash_is_unclear,
                backslash: first.backslash && !backslash_is_unclear,
                ends_at_nul: self.nul,
                ..first
            });
        }
        Some(bases)
    }

    /// The readings of `base` that all count: with parameters and without, dots resolved and not.
    fn variants(&self, base: PathReading) -> InlineVec<PathReading, 9> {
        let mut variants = InlineVec::new(base);
        let separates =
            self.encoded_slash && base.encoded_slash || self.backslash && base.backslash;
        let all = [Params::Kept, Params::Dropped, Params::DroppedToSlash];
        let counted = match (self.params, separates) {
            (false, _) => &all[..1],
            (true, false) => &all[..2],
            // A separator within a parameter ends it for some servers only.
            (true, true) => &all,
        };
        for &params in counted {
            for dots in [Dots::Resolved, Dots::ResolvedBeforeMerging, Dots::Kept] {
                if self.dots || dots == Dots::Resolved {
                    variants.push(PathReading { params, dots, ..base });
                }
            }
        }
        variants
    }
}
