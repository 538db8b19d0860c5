//! Quotas that differ from key to key: `plan` in a rules file.

use super::{Rule, RuleLimit};
use crate::request::RequestView;
use crate::request::named::Named;

/// The choice of one of a rule's limits by a value that the request carries. The last limit is the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanChoice {
    pub(crate) by: Named,
}

impl PlanChoice {
    /// The index of the limit that is named after one of the values, or else of the last one.
    pub(crate) fn limit_of(&self, request: &impl RequestView, limits: &[RuleLimit]) -> usize {
        let last = limits.len().saturating_sub(1);
        let has_value = |limit: &RuleLimit| self.by.has_value(request, limit.name.as_bytes());
        limits[..last].iter().position(has_value).unwrap_or(last)
    }
}

impl Rule {
    /// The limits that a request is charged to if the rule applies: all of them, or if the rule has a `plan`,
    /// the one of the request's plan.
    ///
    /// ```
    /// use tollgate_rules::{Request, Rules};
    ///
    /// let rules = Rules::parse("rules.toml", r#"
    ///     [[rule]]
    ///     name = "api"
    ///     key = "header:x-user"
    ///     plan = { by = "header:x-plan", gold = "500/s", silver = "50/s", default = "5/s" }
    /// "#)?;
    /// let rule = &rules.rules()[0];
    /// let plan_of = |plan| {
    ///     let request = Request { headers: &[("x-plan", plan)], ..Request::default() };
    ///     rule.limits_of(&request)[0].name().to_owned()
    /// };
    /// assert_eq!(["gold", "silver", "lead"].map(plan_of), ["gold", "silver", "default"]);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    pub fn limits_of(&self, request: &impl RequestView) -> &[RuleLimit] {
        match &self.plan {
            None => &self.limits,
            Some(choice) => {
                let at = choice.limit_of(request, &self.limits);
                self.limits.get(at..=at).unwrap_or_default()
            }
        }
    }

    /// Whether each key has one of the rule's limits, by a value of the request: `plan` in a rules file.
    #[must_use]
    pub fn has_plans(&self) -> bool {
        self.plan.is_some()
    }
}
