//! Admissions by a rule.

use std::time::Duration;

use tollgate::Permit;

use crate::rule::{Rule, RuleLimit};

/// An admission: the tightest limit that admits, and the cells that are left of it.
///
/// ```
/// use tollgate_rules::{RulesLimiter, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", key = "none", algorithm = "leaky-queue", limits = "2/s" }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// assert!(gate.decide(&Request::default()).is_admitted());
/// let decision = gate.decide(&Request::default());
/// let permit = decision.permit().expect("there is room in the queue");
/// assert!(permit.delay().as_millis() > 100); // its turn comes half a second after the first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RulePermit<'g> {
    pub(crate) rule: &'g Rule,
    pub(crate) limit: &'g RuleLimit,
    pub(crate) permit: Permit,
    pub(crate) delay: Duration,
}

impl<'g> RulePermit<'g> {
    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &'g Rule {
        self.rule
    }

    /// Its limit.
    #[must_use]
    pub fn limit(&self) -> &'g RuleLimit {
        self.limit
    }

    /// Cells that the key can spend now. In a queue they may have to wait, and those that may not are denied.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.permit.remaining()
    }

    /// The time until the key has its whole quota again.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let decision = gate.decide(&Request::default());
    /// assert!(decision.permit().unwrap().reset_after().as_secs() >= 719);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.permit.reset_after()
    }

    /// How long the request waits for its turn: the longest delay of all limits. It is zero unless a
    /// limit is a queue.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// The permit with fewer cells left.
    pub(crate) fn tighter(self, other: Self) -> Self {
        if other.remaining() < self.remaining() { other } else { self }
    }
}
