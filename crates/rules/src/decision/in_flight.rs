//! Requests in flight by a rule.

use crate::rule::{Concurrency, Rule};

/// An entry by a rule with `concurrency`: how many requests of the key were then in flight.
///
/// ```
/// use tollgate_rules::{RulesLimiter, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", key = "none", concurrency = 3 }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// let decision = gate.decide(&Request::default());
/// let [entry] = decision.in_flight() else { panic!() };
/// assert_eq!((entry.rule().name(), entry.in_flight(), entry.remaining()), ("a", 1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RuleInFlight<'g> {
    pub(crate) rule: &'g Rule,
    pub(crate) concurrency: Concurrency,
    pub(crate) in_flight: u64,
}

impl<'g> RuleInFlight<'g> {
    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &'g Rule {
        self.rule
    }

    /// How many requests of a key may be in flight.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.concurrency.limit
    }

    /// How many requests of the key are in flight, this one included.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// How many more may enter.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.limit().saturating_sub(self.in_flight)
    }
}
