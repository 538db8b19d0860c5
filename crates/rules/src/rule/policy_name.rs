//! The names by which responses announce the limits of rules.

use super::{Rule, RuleLimit};

/// The most bytes of a name in the `RateLimit` fields.
const BYTES_MAX: usize = 64;
/// The suffix of the requests in flight.
const IN_FLIGHT: &str = "concurrency";

impl Rule {
    /// The name of a limit in the fields `RateLimit-Policy` and `RateLimit` of a response: that of the rule, and of the
    /// limit if the rule has several or has plans. It has 1 to 64 printable characters of ASCII. Another name is
    /// replaced by the number of the rule in its file, and of the limit if there are several.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "a", limits = "2/s" },
    ///     { name = "b", limits = ["2/s", { name = "daily", quota = "9/d" }], concurrency = 3 },
    ///     { name = "Straße", limits = ["2/s", { name = "daily", quota = "9/d" }], concurrency = 3 },
    /// ]"#)?;
    /// let names = |rule: usize| {
    ///     let rule = &rules.rules()[rule];
    ///     let of_limits = rule.limits().iter().map(|limit| rule.policy_name(limit));
    ///     of_limits.chain([rule.in_flight_policy_name()]).collect::<Vec<_>>()
    /// };
    /// assert_eq!(names(0)[0], "a");
    /// assert_eq!(names(1), ["b/2/s", "b/daily", "b/concurrency"]);
    /// assert_eq!(names(2), ["rule-3/1", "rule-3/2", "rule-3/concurrency"]);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn policy_name(&self, limit: &RuleLimit) -> String {
        if self.limits.len() == 1 && !self.has_plans() {
            return self.printable(None, None);
        }
        let index = self.limits.iter().position(|its| its.name == limit.name).unwrap_or(0);
        let number = (index + 1).to_string();
        // That is the name of the requests in flight.
        if limit.name == IN_FLIGHT && self.concurrency.is_some() {
            return with_suffix(&format!("rule-{}", self.number), Some(&number));
        }
        self.printable(Some(&limit.name), Some(&number))
    }

    /// The name of the requests in flight, as [`policy_name`](Self::policy_name): that of the rule, with `/concurrency`
    /// if the rule has limits too.
    #[must_use]
    pub fn in_flight_policy_name(&self) -> String {
        let suffix = (!self.limits.is_empty()).then_some(IN_FLIGHT);
        self.printable(suffix, suffix)
    }

    /// The name of the rule and a suffix, or else its number and the other suffix.
    fn printable(&self, suffix: Option<&str>, numbered_suffix: Option<&str>) -> String {
        let name = with_suffix(&self.name, suffix);
        let is_printable = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match is_printable && name.len() <= BYTES_MAX {
            true => name,
            false => with_suffix(&format!("rule-{}", self.number), numbered_suffix),
        }
    }
}

fn with_suffix(name: &str, suffix: Option<&str>) -> String {
    suffix.map_or_else(|| name.to_owned(), |suffix| format!("{name}/{suffix}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::rule::Rules;

    #[test]
    fn names_of_policies_are_printable_short_and_different() {
        let long = "x".repeat(70);
        let text = format!(
            r#"rule = [
                {{ name = "{long}a", limits = "1/s" }},
                {{ name = "{long}b", limits = ["1/s", "2/min"], concurrency = 3 }},
                {{ name = "Straße", limits = ["1/s", {{ name = "täglich", quota = "9/d" }}], concurrency = 3 }},
                {{ name = "Strasse", limits = ["1/s", {{ name = "täglich", quota = "9/d" }}], concurrency = 3 }},
                {{ name = "größe", concurrency = 3 }},
                {{ name = "ünit", plan = {{ by = "header:x", gold = "9/s", default = "1/s" }} }},
                {{ name = "api", plan = {{ by = "header:x", "größe" = "9/s", default = "1/s" }} }},
                {{ name = "a", limits = ["1/s", {{ name = "concurrency", quota = "9/d" }}], concurrency = 3 }},
            ]"#
        );
        let rules = Rules::parse("rules.toml", &text).expect("rules");
        let mut names = Vec::new();
        for rule in rules.rules() {
            names.extend(rule.limits().iter().map(|limit| rule.policy_name(limit)));
            names.extend(rule.concurrency().map(|_| rule.in_flight_policy_name()));
        }
        let expected = [
            "rule-1",
            "rule-2/1",
            "rule-2/2",
            "rule-2/concurrency",
            "rule-3/1",
            "rule-3/2",
            "rule-3/concurrency",
            "Strasse/1/s",
            "rule-4/2",
            "Strasse/concurrency",
            "rule-5",
            "rule-6/1",
            "rule-6/2",
            "rule-7/1",
            "api/default",
            "a/1/s",
            "rule-8/2",
            "a/concurrency",
        ];
        assert_eq!(names, expected);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }
}
