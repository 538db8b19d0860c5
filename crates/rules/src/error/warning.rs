//! Warnings about rules that have no mistake.

use std::fmt;
use std::ops::Range;

use super::{RuleError, printable};

/// A rule that no request can reach. It is no mistake, but probably not what was meant.
///
/// `Display` writes `line:column: what is wrong: what to write`.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [
///         { name = "api", match = { path = "/api/**" }, action = "exempt" },
///         { name = "posts", match = { path = "/api/posts" }, limits = "5/s" },
///     ]
/// "#)?;
/// let [warning] = rules.warnings() else { panic!() };
/// assert_eq!((warning.rule(), warning.line(), warning.column()), ("posts", 4, 18));
/// assert_eq!(warning.to_string(), "4:18: rule \"posts\" is never reached, since \"api\" on line 3 \
///     exempts all that it matches, by every reading of the path: put it before, or leave it out");
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleWarning {
    rule: String,
    place: RuleError,
}

impl RuleWarning {
    pub(crate) fn at(text: &str, span: Range<usize>, rule: &str, message: &str) -> Self {
        Self { rule: rule.to_owned(), place: RuleError::at(text, span, printable(message)) }
    }

    /// The name of the rule.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// The line of the rule's name, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.place.line
    }

    /// The column of the rule's name, counted in characters from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.place.column
    }

    /// Why no request reaches the rule, and what to write instead.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.place.message
    }
}

impl fmt::Display for RuleWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line(), self.column(), self.message())
    }
}
