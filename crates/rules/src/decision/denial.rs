//! Denials by a rule.

use std::time::Duration;

use tollgate::Denied;
use tollgate::concurrency::ConcurrencyDenied;

use crate::rule::{Rule, RuleLimit};

/// A denial: the rule that denies, the reason, and the time until the request would be admitted.
///
/// ```
/// use tollgate_rules::{RulesLimiter, Request, Rules, DenyReason};
///
/// let text = r#"rule = [{ name = "a", key = "header:x-user", on_no_key = "deny", limits = "1/s" }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// let decision = gate.decide(&Request::default());
/// let denied = decision.denied().expect("it has no such header");
/// assert!(matches!(denied.reason(), DenyReason::NoKey));
/// assert_eq!(denied.retry_after(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RuleDenial<'g> {
    rule: &'g Rule,
    reason: DenyReason<'g>,
    /// The wait for every other limit or ban that would deny the same request; `None`: no wait helps.
    min_wait: Option<Duration>,
    /// By every limit that denies.
    comes_too_late: bool,
    /// By the limit that is reported.
    is_late: bool,
    reported: Option<&'g RuleLimit>,
}

/// Why a rule denies a request.
///
/// ```
/// use tollgate_rules::{RulesLimiter, Request, Rules, DenyReason};
///
/// let text = r#"rule = [{ name = "a", key = "none", limits = "1/s", penalty = "1 h" }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// assert!(gate.decide(&Request::default()).is_admitted());
/// assert!(matches!(gate.decide(&Request::default()).denied().unwrap().reason(), DenyReason::Limit(_, _)));
/// assert!(matches!(gate.decide(&Request::default()).denied().unwrap().reason(), DenyReason::Banned(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum DenyReason<'g> {
    /// A limit has not enough cells left.
    Limit(&'g RuleLimit, Denied),
    /// The key has reached the number of requests in flight that the rule's `concurrency` allows, or the
    /// table has no room for another key with requests in flight.
    InFlight(ConcurrencyDenied),
    /// The key is banned, because the rule denied it too often.
    Banned(Denied),
    /// The request lacks a part of the key, and the rule has `on_no_key = "deny"`.
    NoKey,
    /// The rule applies by one reading of the path and not by another, and the file does not say
    /// which one the upstream has: see `encoded_slash` in `docs/rules.md`. A server answers 400.
    UnclearPath,
    /// The rule has `action = "deny"`: it denies every request that it matches. A server answers 403.
    Forbidden,
}

impl<'g> RuleDenial<'g> {
    pub(crate) fn new(rule: &'g Rule, reason: DenyReason<'g>) -> Self {
        let (min_wait, reported) = (Some(Duration::ZERO), rule.limits.first());
        Self { rule, reason, min_wait, comes_too_late: false, is_late: false, reported }
    }

    /// The denial of a request for so many cells by a limit.
    pub(crate) fn of_limit(
        rule: &'g Rule,
        limit: &'g RuleLimit,
        denied: Denied,
        cells: u64,
    ) -> Self {
        let (is_late, reported) = (denied.remaining() >= cells, Some(limit));
        let denial = Self::new(rule, DenyReason::Limit(limit, denied));
        Self { comes_too_late: is_late, is_late, reported, ..denial }
    }

    /// The same denial of a request whose plan has this index; it is 0 if the rule has no plans.
    pub(crate) fn by_plan(self, plan: usize) -> Self {
        Self { reported: self.rule.limits.get(plan), ..self }
    }

    /// The same denial, if another limit or ban would deny the request until `wait` has passed; `None`: for ever.
    pub(crate) fn no_sooner(self, wait: Option<Duration>) -> Self {
        let min_wait = self.min_wait.and_then(|longest| Some(longest.max(wait?)));
        Self { min_wait, ..self }
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &'g Rule {
        self.rule
    }

    /// Why it denies.
    #[must_use]
    pub fn reason(&self) -> &DenyReason<'g> {
        &self.reason
    }

    /// The limit that denies; `None` for any other reason.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let decision = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert_eq!(decision.denied().unwrap().limit().unwrap().name(), "5/h");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> Option<&'g RuleLimit> {
        match self.reason {
            DenyReason::Limit(limit, _) => Some(limit),
            _ => None,
        }
    }

    /// The limit that a response names: the one that denies, or by a ban the one of the request's plan, or else the
    /// rule's first. It is `None` if the rule has no limits.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", penalty = "1 h", plan = { by = "header:x-plan", gold = "9/h", default = "1/h" } }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// for _ in 0..2 { // the second time by a ban
    ///     let decision = gate.decide(&Request::default());
    ///     assert_eq!(decision.denied().unwrap().reported_limit().unwrap().name(), "default");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reported_limit(&self) -> Option<&'g RuleLimit> {
        self.reported
    }

    fn denied(&self) -> Option<&Denied> {
        match &self.reason {
            DenyReason::Limit(_, denied) | DenyReason::Banned(denied) => Some(denied),
            DenyReason::InFlight(_)
            | DenyReason::NoKey
            | DenyReason::UnclearPath
            | DenyReason::Forbidden => None,
        }
    }

    /// Cells that the key can spend now: fewer than the request costs. It is 0 if no limit denies, or if the turn of
    /// the request in the limit's queue comes too late.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let decision = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert_eq!(decision.denied().unwrap().remaining(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        let denied = self.denied().filter(|_| !self.is_late);
        denied.map_or(0, Denied::remaining)
    }

    /// Whether the key has the cells that the request costs, and only its turn in the queue would come too late for
    /// [`decide_queued`](crate::RulesLimiter::decide_queued).
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "1/h burst 9", algorithm = "leaky-queue" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide_queued(&Request::default(), 0).is_admitted());
    /// let (late, large) = (gate.decide_queued(&Request::default(), 0), gate.decide_n(&Request::default(), 9));
    /// assert!(late.denied().unwrap().comes_too_late(), "eight cells are left");
    /// assert!(!large.denied().unwrap().comes_too_late());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn comes_too_late(&self) -> bool {
        self.comes_too_late
    }

    /// The shortest time after which the same request would be admitted; `None` if no wait helps. If too many
    /// requests are in flight, it is zero, because nothing tells when one of them ends.
    ///
    /// A denial by a ban also waits for the limits that would deny when the ban has ended, and a denial that
    /// begins a ban waits for its end.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide_n(&Request::default(), 5).is_admitted());
    /// let decision = gate.decide(&Request::default());
    /// assert!(decision.denied().unwrap().retry_after().unwrap().as_secs() <= 720);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = match self.reason {
            DenyReason::InFlight(_) => Some(Duration::ZERO),
            _ => self.denied().and_then(Denied::retry_after),
        };
        wait.and_then(|wait| Some(wait.max(self.min_wait?)))
    }

    /// The time until the key again has the whole quota of the limit that denies it or, during a ban, of the
    /// [reported limit](Self::reported_limit). For any other reason it is zero. If a ban holds or begins, it is no
    /// shorter than the ban. While a ban holds, it is also no shorter than the wait for the other limits that would
    /// deny.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "10/h", concurrency = 1 }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let first = gate.decide_n(&Request::default(), 9);
    /// let in_flight = gate.decide(&Request::default());
    /// assert!(in_flight.denied().unwrap().reset_after().is_zero(), "no limit denies");
    /// drop(first);
    /// let by_limit = gate.decide_n(&Request::default(), 2);
    /// assert!(by_limit.denied().unwrap().reset_after().as_secs() > 3_000, "nine tenths of an hour");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        let reset_after = self.denied().map_or(Duration::ZERO, Denied::reset_after);
        reset_after.max(self.min_wait.unwrap_or_default())
    }

    /// The denial that lasts longer.
    pub(crate) fn longer(self, other: Self) -> Self {
        let span = |denial: &Self| denial.retry_after().unwrap_or(Duration::MAX);
        let longest = if span(&other) > span(&self) { other } else { self };
        Self { comes_too_late: self.comes_too_late && other.comes_too_late, ..longest }
    }
}
