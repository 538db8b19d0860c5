//! The parts of a request that rules require. A replay checks that its log has them.

use super::{Action, Rule, Rules};
use crate::request::RequestView;
use crate::request::path::Fit;

/// The header that rules read with [`RequestView::host`].
const HOST: &str = "host";

impl Rules {
    /// The headers that the rules read, by their names in lower case, each once. Cookies are read
    /// from `cookie`. The host is not among them: rules read it with [`RequestView::host`].
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "a", key = ["header:X-User", "cookie:session"], limits = "5/s" },
    ///     { name = "b", match = { header = { x-plan = "free" } }, limits = "1/s" },
    /// ]"#)?;
    /// assert_eq!(rules.required_headers(), ["cookie", "x-plan", "x-user"]);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn required_headers(&self) -> Vec<&str> {
        let names = self.rules.iter().flat_map(Rule::header_names);
        let mut names: Vec<&str> = names.filter(|name| *name != HOST).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Rule {
    /// The headers that the rule reads, by their names in lower case.
    fn header_names(&self) -> impl Iterator<Item = &str> {
        let values = self.matcher.all_conditions().flat_map(|its| &its.values);
        let matched = values.filter_map(|its| its.of.header_name());
        let plan = self.plan.iter().filter_map(|plan| plan.by.header_name());
        let cost = self.cost.iter().flat_map(|cost| cost.estimate.header_names());
        let key = self.key.parts.iter().filter_map(|part| part.reads().header);
        matched.chain(plan).chain(cost).chain(key)
    }

    /// Whether the rule's `match` holds for a request, by any reading of its path, or by every reading
    /// if it exempts. The check stops at the first condition that does not hold and reads nothing more
    /// of the request.
    ///
    /// ```
    /// use tollgate_rules::{Request, Rules};
    ///
    /// let rules = Rules::parse("rules.toml", r#"
    ///     rule = [{ name = "a", match = { path = "/a/**" }, limits = "5/s" }]
    /// "#)?;
    /// let rule = &rules.rules()[0];
    /// assert!(rule.matches(&Request { path: "/a/b", ..Request::default() }));
    /// assert!(!rule.matches(&Request { path: "/b", ..Request::default() }));
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    pub fn matches(&self, request: &impl RequestView) -> bool {
        self.effective(self.matcher.fit_of(request)) != Fit::None
    }

    /// The fit of a rule whose conditions have this one. A client could choose the spelling of a path, so a
    /// rule exempts no request that it matches by some readings only.
    pub(crate) fn effective(&self, fit: Fit) -> Fit {
        match (self.action, fit) {
            (Action::Exempt, Fit::Some | Fit::Unclear) => Fit::None,
            _ => fit,
        }
    }

    /// Whether the rule matches by the address of the client: `ip` in its `match`, also within `not`.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "a", match = { not = { ip = "10.0.0.0/8" } }, limits = "5/s" },
    ///     { name = "b", key = "ip", limits = "5/s" },
    /// ]"#)?;
    /// assert!(rules.rules()[0].matches_ip() && !rules.rules()[1].matches_ip());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn matches_ip(&self) -> bool {
        self.matcher.uses_client()
    }

    /// Whether the rule matches or counts by the requested host, also as the header `host`.
    ///
    /// If the upstream gives the same answer for every host, a client evades such a rule by
    /// requesting another host.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let rules = Rules::parse("rules.toml", r#"rule = [
    ///     { name = "a", match = { host = "api.example.com" }, limits = "5/s" },
    ///     { name = "b", key = "header:host", limits = "5/s" },
    ///     { name = "c", limits = "5/s" },
    /// ]"#)?;
    /// assert_eq!([0, 1, 2].map(|index| rules.rules()[index].uses_host()), [true, true, false]);
    /// assert!(rules.required_headers().is_empty());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn uses_host(&self) -> bool {
        self.matcher.uses_host()
            || self.key.parts.iter().any(|part| part.reads().host)
            || self.header_names().any(|name| name == HOST)
    }
}
