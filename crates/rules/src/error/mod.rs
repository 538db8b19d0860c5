//! What can be wrong with a rules file, and where.

use std::fmt::{self, Write};
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use tollgate::BuildError;

/// Characters of a line of the file that are shown before a mistake, at most.
const SHOWN_CHARS: usize = 120;
/// The longest message, in characters.
const MESSAGE_CHARS: usize = 600;

/// One thing that is wrong in a rules file.
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
    /// The line, from 1.
    ///
    /// ```
    /// let errors = tollgate_rules::Rules::parse("r.toml", "rule = 7").unwrap_err();
    /// assert_eq!(errors.errors()[0].line(), 1);
    /// ```
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column, counted in characters from 1.
    ///
    /// ```
    /// let errors = tollgate_rules::Rules::parse("r.toml", "rule = 7").unwrap_err();
    /// assert_eq!(errors.errors()[0].column(), 8);
    /// ```
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// What is wrong, and what to write instead.
    ///
    /// ```
    /// let errors = tollgate_rules::Rules::parse("r.toml", "rule = 7").unwrap_err();
    /// assert!(errors.errors()[0].message().starts_with("a whole number, where a list"));
    /// ```
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// An error at these bytes of a text.
    pub(crate) fn at(text: &str, span: Range<usize>, message: String) -> Self {
        let start = floor_boundary(text, span.start);
        let end = floor_boundary(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find(['\r', '\n']).map_or(text.len(), |at| start + at);
        Self {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end.min(line_end).max(start)].chars().count().max(1),
            message: printable(&message),
        }
    }
}

/// A message may repeat what a file says, but no control characters of it, and not at length.
fn printable(message: &str) -> String {
    if let Some((cut, _)) = message.char_indices().nth(MESSAGE_CHARS) {
        return printable(&message[..cut]) + " ...";
    }
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    message.chars().map(escaped).collect()
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// All that is wrong in a rules file, in the order of the file.
///
/// Displayed, it is a line for each: `file:line:column: what is wrong: what to write`.
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
}

impl RulesError {
    pub(crate) fn new(file: &str, text: &str, mut errors: Vec<RuleError>) -> Self {
        assert!(!errors.is_empty(), "there is something wrong");
        errors.sort_by_key(|error| (error.line, error.column));
        Self { file: file.to_owned(), text: text.to_owned(), errors }
    }

    /// The file, as it was named.
    ///
    /// ```
    /// let errors = tollgate_rules::Rules::parse("r.toml", "rule = 7").unwrap_err();
    /// assert_eq!(errors.file(), "r.toml");
    /// ```
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Each of them; at least one.
    ///
    /// ```
    /// let errors = tollgate_rules::Rules::parse("r.toml", "rule = 7").unwrap_err();
    /// assert_eq!(errors.errors().len(), 1);
    /// ```
    #[must_use]
    pub fn errors(&self) -> &[RuleError] {
        &self.errors
    }

    /// All of them, each with its line of the file and carets under what is wrong.
    ///
    /// ```
    /// let errors = tollgate_rules::Rules::parse("r.toml", "rule = 7").unwrap_err();
    /// assert!(errors.with_source().ends_with("  |        ^\n"));
    /// ```
    #[must_use]
    pub fn with_source(&self) -> String {
        let shown: Vec<String> = self.errors.iter().map(|error| self.shown(error)).collect();
        shown.join("\n")
    }

    fn shown(&self, error: &RuleError) -> String {
        let line = self.text.lines().nth(error.line - 1).unwrap_or("");
        // A control character could move the cursor; a tab would move the carets.
        let printable = line.chars().map(|c| if c.is_control() { ' ' } else { c });
        // Of a long line, what is around the mistake.
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
        Ok(())
    }
}

impl std::error::Error for RulesError {}

/// A limiter for which the system has no memory.
///
/// ```
/// use tollgate_rules::{Gate, Rules};
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "a", key = "ip", limits = "60000/s", algorithm = "sliding-log",
///               capacity = 1_000_000_000 }]
/// "#)?;
/// let failed = Gate::new(rules).unwrap_err();
/// assert!(failed.to_string().starts_with("rule \"a\", limit \"60000/s\": "));
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildFailed {
    pub(crate) rule: String,
    pub(crate) limit: String,
    pub(crate) error: BuildError,
}

impl fmt::Display for BuildFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule \"{}\", limit \"{}\": {}", self.rule, self.limit, self.error)
    }
}

impl std::error::Error for BuildFailed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Why a rules file was not taken over. The rules that were in force still are.
///
/// ```
/// use tollgate_rules::{ReloadError, RulesFile};
///
/// let error = RulesFile::open("no/such/rules.toml").unwrap_err();
/// assert!(matches!(error, ReloadError::Unreadable { .. }));
/// assert!(error.to_string().starts_with("no/such/rules.toml cannot be read: "));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The file cannot be read, is not UTF-8, or is longer than a mebibyte.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// What is wrong in it.
    Rules(RulesError),
    /// There is no memory for it.
    Build(BuildFailed),
    /// Whoever follows the file cannot keep such rules, and says why: see
    /// [`RulesFile::poll_if`](crate::RulesFile::poll_if).
    Unfit(String),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => {
                write!(f, "{} cannot be read: {error}", path.display())
            }
            Self::Rules(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
            Self::Unfit(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReloadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Rules(error) => Some(error),
            Self::Build(error) => Some(error),
            Self::Unfit(_) => None,
        }
    }
}

impl From<RulesError> for ReloadError {
    fn from(error: RulesError) -> Self {
        Self::Rules(error)
    }
}

impl From<BuildFailed> for ReloadError {
    fn from(error: BuildFailed) -> Self {
        Self::Build(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_has_its_cause() {
        let (rule, limit) = ("a".to_owned(), "5/s".to_owned());
        let build = BuildFailed { rule, limit, error: BuildError::ZeroCapacity };
        assert!(build.source().is_some_and(|cause| cause.is::<BuildError>()));
        let rules = crate::Rules::parse("r.toml", "rule = []").expect_err("no rules");
        let (path, error) = (PathBuf::new(), io::Error::other("gone"));
        for (error, is_caused) in [
            (ReloadError::from(build), true),
            (ReloadError::from(rules), true),
            (ReloadError::Unreadable { path, error }, true),
            (ReloadError::Unfit("no".to_owned()), false),
        ] {
            assert_eq!(error.source().is_some(), is_caused, "{error:?}");
        }
    }

    #[test]
    fn a_mistake_in_a_long_line_is_shown_in_a_few_short_ones() {
        for place in [1, 90, 130, 1 << 19] {
            let (begin, end) = ("x".repeat(place - 1), "z".repeat(1 << 20));
            let text = format!("{begin}{}{end}", "y".repeat(300));
            let error = RuleError::at(&text, place - 1..place + 299, text.clone());
            let shown = RulesError::new("r.toml", &text, vec![error]).with_source();
            assert!(shown.len() < 1_500, "{} of {place}", shown.len());
            let [.., source, carets] = shown.lines().collect::<Vec<_>>()[..] else { panic!() };
            let at = carets.find('^').expect("a caret");
            assert_eq!(source.find('y'), Some(at), "{shown}");
            assert!(carets.len() <= source.len(), "{shown}");
        }
    }

    #[test]
    fn a_place_is_a_line_a_column_and_a_width() {
        let at = |text, span| {
            let RuleError { line, column, width, .. } = RuleError::at(text, span, String::new());
            (line, column, width)
        };
        assert_eq!(at("abcdef\n", 1..6), (1, 2, 5));
        assert_eq!(at("ab\ncdef\r\n", 4..7), (2, 2, 3));
        assert_eq!(at("ab\ncd\n", 1..5), (1, 2, 1), "no wider than its line");
        // Within a character: from where it begins.
        assert_eq!(at("aéb", 2..3), (1, 2, 1));
        assert_eq!(at("a\u{10348}b", 4..6), (1, 2, 2));
        assert_eq!(at("ab", 7..9), (1, 3, 1));
    }
}
