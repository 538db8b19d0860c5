//! Mistakes in a rules file, and where they are.

mod reload;
mod warning;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::ops::Range;

pub(crate) use reload::LimiterError;
pub use reload::{ReloadError, RulesBuildError};
pub use warning::RuleWarning;

/// How many characters of a line are shown before a mistake, at most.
const SHOWN_CHARS: usize = 120;
/// The longest message, in characters.
const MESSAGE_CHARS: usize = 600;
/// Of more mistakes, only the number is kept.
const MISTAKES_MAX: usize = 100;

/// One mistake in a rules file.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let text = "[[rule]]\nname = \"a\"\nlimit = \"5/s\"";
/// let errors = Rules::parse("rules.toml", text).unwrap_err();
/// let error = &errors.errors()[0];
/// assert_eq!((error.line(), error.column()), (1, 1));
/// assert_eq!(error.message(), "the rule has no limits: write, for example, limits = \"100/s\"");
/// assert_eq!(errors.errors()[1].message(), "unknown key \"limit\": write \"limits\"");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    line: usize,
    column: usize,
    /// Characters to underline, at least one, within the line.
    width: usize,
    message: String,
}

impl RuleError {
    /// The line, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column, counted in characters from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// The mistake, and the text to write instead.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A mistake at these bytes of a text. It reads the text up to them. A byte order mark has no column.
    pub(super) fn at(text: &str, span: Range<usize>, message: String) -> Self {
        let first = text.len() - without_mark(text).len();
        let start = floor_boundary(text, span.start).max(first);
        let end = floor_boundary(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(first, |at| at + 1);
        // A line can be as long as the file, so it is not searched beyond the mistake.
        let within_line = text[start..end].find(['\r', '\n']).map_or(end, |at| start + at);
        Self {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: text[start..within_line].chars().count().max(1),
            message,
        }
    }
}

/// A message may quote the file, but without control characters and at a bounded length.
pub(crate) fn printable(message: &str) -> String {
    if let Some((cut, _)) = message.char_indices().nth(MESSAGE_CHARS) {
        return printable(&message[..cut]) + " ...";
    }
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    message.chars().map(escaped).collect()
}

/// The text after a byte order mark, which some editors write.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// All mistakes in a rules file, in the order of the file. Of more than 100, the first 100 are kept, and the
/// number of the others.
///
/// `Display` writes a line for each: `file:line:column: what is wrong: what to write`.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let text = "[[rule]]\nname = \"a\"\nlimits = \"5/s\"\nshadow = \"yes\"";
/// let errors = Rules::parse("rules.toml", text).unwrap_err();
/// assert_eq!(errors.to_string(), "rules.toml:4:10: a string, where true or false is needed");
/// assert_eq!(errors.with_source(), "\
/// error: a string, where true or false is needed
///  --> rules.toml:4:10
///   |
/// 4 | shadow = \"yes\"
///   |          ^^^^^
/// ");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesError {
    file: String,
    text: String,
    errors: Vec<RuleError>,
    left_out: usize,
}

/// Mistakes as they are found, in any order. It keeps the first ones of the file.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    /// Messages and where they end, by where they begin and how many were found before.
    kept: BTreeMap<(usize, usize), (usize, String)>,
    found: usize,
}

impl Mistakes {
    /// Adds a mistake at these bytes of the text.
    pub(crate) fn add(&mut self, span: Range<usize>, message: &str) {
        let key = (span.start, self.found);
        self.found += 1;
        let is_full = self.kept.len() == MISTAKES_MAX;
        if is_full && self.kept.last_key_value().is_some_and(|(last, _)| *last < key) {
            return;
        }
        self.kept.insert(key, (span.end, printable(message)));
        if is_full {
            self.kept.pop_last();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found == 0
    }
}

impl RulesError {
    pub(crate) fn new(file: &str, text: &str, mistakes: Mistakes) -> Self {
        assert!(!mistakes.is_empty(), "there is something wrong");
        let left_out = mistakes.found - mistakes.kept.len();
        let error = |((start, _), (end, message))| RuleError::at(text, start..end, message);
        let errors = mistakes.kept.into_iter().map(error).collect();
        Self { file: file.to_owned(), text: text.to_owned(), errors, left_out }
    }

    /// The file, as the caller named it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The mistakes, at least one and at most 100.
    #[must_use]
    pub fn errors(&self) -> &[RuleError] {
        &self.errors
    }

    /// How many more mistakes there are.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// `and 41 more mistakes`.
    fn more(&self) -> Option<String> {
        let noun = if self.left_out == 1 { "mistake" } else { "mistakes" };
        (self.left_out > 0).then(|| format!("and {} more {noun}", self.left_out))
    }

    /// All mistakes, each with its line of the file and carets under the place.
    ///
    /// ```
    /// let errors = tollgate_rules::Rules::parse("r.toml", "rule = 7").unwrap_err();
    /// assert!(errors.with_source().ends_with("  |        ^\n"));
    /// ```
    #[must_use]
    pub fn with_source(&self) -> String {
        let shown = self.errors.iter().map(|error| self.shown(error));
        let more = self.more().map(|more| format!("{more}\n"));
        shown.chain(more).collect::<Vec<_>>().join("\n")
    }

    fn shown(&self, error: &RuleError) -> String {
        let line = without_mark(&self.text).lines().nth(error.line - 1).unwrap_or("");
        // A control character could move the cursor, and a tab would move the carets.
        let printable = line.chars().map(|c| if c.is_control() { ' ' } else { c });
        // Of a long line, only the part around the mistake is shown.
        let skipped = if error.column > SHOWN_CHARS { error.column - SHOWN_CHARS / 2 } else { 0 };
        let line: String = printable.skip(skipped).take(SHOWN_CHARS * 3 / 2).collect();
        let column = error.column - skipped;
        let width = error.width.min((line.chars().count() + 1).saturating_sub(column)).max(1);
        let gutter = " ".repeat(error.line.to_string().len());
        let mut out = String::new();
        let written = write!(
            out,
            "error: {}\n{gutter}--> {}:{}:{}\n{gutter} |\n{} | {}\n{gutter} | {}{}\n",
            error.message,
            self.file,
            error.line,
            error.column,
            error.line,
            line.trim_end(),
            " ".repeat(column - 1),
            "^".repeat(width),
        );
        written.expect("a string takes everything");
        out
    }
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, RuleError { line, column, message, .. }) in self.errors.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{}:{line}:{column}: {message}", self.file)?;
        }
        self.more().map_or(Ok(()), |more| write!(f, "\n{more}"))
    }
}

impl std::error::Error for RulesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_a_long_line_is_shown_with_a_part_of_the_line() {
        for place in [1, 90, 130, 1 << 19] {
            let (begin, end) = ("x".repeat(place - 1), "z".repeat(1 << 20));
            let text = format!("{begin}{}{end}", "y".repeat(300));
            let mut mistakes = Mistakes::default();
            mistakes.add(place - 1..place + 299, &text);
            let shown = RulesError::new("r.toml", &text, mistakes).with_source();
            assert!(shown.len() < 1_500, "{} of {place}", shown.len());
            let [.., source, carets] = shown.lines().collect::<Vec<_>>()[..] else { panic!() };
            let at = carets.find('^').expect("a caret");
            assert_eq!(source.find('y'), Some(at), "{shown}");
            assert!(carets.len() <= source.len(), "{shown}");
        }
    }

    #[test]
    fn a_span_of_bytes_becomes_a_line_a_column_and_a_width() {
        let at = |text, span| {
            let RuleError { line, column, width, .. } = RuleError::at(text, span, String::new());
            (line, column, width)
        };
        assert_eq!(at("abcdef\n", 1..6), (1, 2, 5));
        assert_eq!(at("ab\ncdef\r\n", 4..7), (2, 2, 3));
        assert_eq!(at("ab\ncd\n", 1..5), (1, 2, 1), "no wider than its line");
        // A span that begins within a character begins at that character.
        assert_eq!(at("aéb", 2..3), (1, 2, 1));
        assert_eq!(at("a\u{10348}b", 4..6), (1, 2, 2));
        assert_eq!(at("ab", 7..9), (1, 3, 1));
        assert_eq!(at("\u{feff}ab", 0..1), (1, 1, 1), "a byte order mark takes no column");
    }
}
