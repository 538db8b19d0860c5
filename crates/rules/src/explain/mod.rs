//! Rules in plain words, for `tollgate check`.

mod request;

use std::fmt::Write;

use tollgate::OnFull;

use crate::key::OnNoKey;
use crate::limiter::RulesLimiter;
use crate::request::path::Separator;
use crate::rule::{
    Action, Concurrency, Estimate, Fallback, Rule, RuleCost, RuleLimit, Rules, Store,
};
use crate::words::{self, span};

impl Rules {
    /// How the rules read paths, in plain words; `None` if no rule uses the path.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let text = r#"rule = [{ name = "a", match = { path = "/a" }, limits = "5/s" }]"#;
    /// assert_eq!(Rules::parse("rules.toml", text)?.explain_paths().unwrap(), "\
    ///     %2F and backslashes are denied where a rule depends on how they are read; \
    ///     parameters (;v=1) and case are ignored");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn explain_paths(&self) -> Option<String> {
        let uses_path = |rule: &Rule| rule.matcher.uses_path() || rule.key.has_path();
        let spelling = self.rules.iter().find(|rule| uses_path(rule))?.matcher.spelling;
        let separator = |what: &str, separator| match separator {
            Separator::Unclear => {
                format!("{what} are denied where a rule depends on how they are read")
            }
            Separator::Always => format!("{what} separate segments"),
            Separator::Never => format!("{what} belong to their segments"),
        };
        let slashes = match (spelling.encoded_slash, spelling.backslash) {
            (encoded, back) if encoded == back => separator("%2F and backslashes", encoded),
            (encoded, back) => {
                format!("{}; {}", separator("%2F", encoded), separator("backslashes", back))
            }
        };
        let rest = match (spelling.keeps_params, spelling.keeps_case) {
            (false, false) => "parameters (;v=1) and case are ignored",
            (false, true) => "parameters (;v=1) are ignored, case counts",
            (true, false) => "parameters (;v=1) count, case is ignored",
            (true, true) => "parameters (;v=1) and case count",
        };
        Some(format!("{slashes}; {rest}"))
    }

    /// The processes that share the limits, in plain words; `None`: this process shares them with no other.
    #[must_use]
    pub fn explain_sharing(&self) -> Option<String> {
        let folder = self.shared.as_ref()?.folder();
        let folder = folder.display();
        Some(format!(
            "by all processes of this machine and user whose file has this name, in {folder}; they stay when the \
             processes have ended, until the machine restarts"
        ))
    }
}

impl Rule {
    /// The rule in plain words, with a line for each of its parts.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let rules = Rules::parse("rules.toml", r#"
    ///     rule = [{ name = "api", match = { path = "/api/**" }, limits = "100/s burst 20" }]
    /// "#)?;
    /// assert_eq!(rules.rules()[0].explain(), "\
    /// matches  path /api/**
    /// key      ip (IPv6 by /64); requests without it share one bucket
    /// limit    100/s burst 20 (gcra): at most 20 at once and 100 a second; in any second at most 120
    /// keys     room for 100000 at least; when full, the key with the least debt is forgotten
    /// ");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn explain(&self) -> String {
        let mut lines = vec![("matches", self.matcher.to_string())];
        match self.action {
            Action::Limit => lines.push(("key", self.explain_key())),
            Action::Exempt => lines.push(("exempts", "later rules do not apply".to_owned())),
            Action::Deny => lines.push(("denies", "every such request".to_owned())),
        }
        if let Some(choice) = &self.plan {
            let said = format!("the limit named like the {}, or else default", choice.by);
            lines.push(("plan", said));
        }
        for limit in &self.limits {
            lines.push(("limit", limit.explain()));
        }
        if let Some(cost) = &self.cost {
            lines.push(("cost", self.explain_cost(cost)));
        }
        if let Some(concurrency) = self.concurrency {
            lines.push(("at once", explain_concurrency(concurrency)));
        }
        if let Some(rate) = self.bytes {
            lines.push(("bytes", format!("{rate}: so fast pass the bodies of a key's responses")));
        }
        if let Some(penalty) = self.penalty {
            let often = match penalty.after {
                1 => "a denial".to_owned(),
                after => format!("{after} denials within {}", span(penalty.within)),
            };
            lines.push(("penalty", format!("after {often}, denied for {}", span(penalty.ban))));
        }
        match &self.store {
            _ if self.action != Action::Limit => {}
            Some(store) => lines.push(("store", explain_store(store, &self.limits))),
            None => lines.push(("keys", self.explain_room())),
        }
        if self.is_shadow {
            lines.push(("shadow", "denies nothing, and reports what it would have denied".into()));
        }
        let mut text = String::new();
        for (about, said) in lines {
            writeln!(text, "{about:<7}  {said}").expect("a string takes everything");
        }
        text
    }

    fn explain_key(&self) -> String {
        let key = &self.key;
        let without = match self.on_no_key {
            _ if key.parts.is_empty() => return key.to_string(),
            OnNoKey::Shared => "requests without it share one bucket",
            OnNoKey::Skip => "the rule does not apply to requests without it",
            OnNoKey::Deny => "requests without it are denied",
        };
        format!("{key}; {without}")
    }

    fn explain_cost(&self, cost: &RuleCost) -> String {
        let at_once = RuleLimit::most_at_once(&self.limits, self.plan.is_some());
        match (&cost.estimate, at_once) {
            (Estimate::Length { default, .. }, Some(at_once)) if *default > at_once => {
                format!("{cost}, so such a request is denied")
            }
            _ => cost.to_string(),
        }
    }

    fn explain_room(&self) -> String {
        let denied = "new keys are denied";
        let has_limits = !self.limits.is_empty();
        let when_full = match self.on_full {
            // A key with requests in flight is never forgotten.
            OnFull::EvictNearestIdle | OnFull::SharedOverflow(_)
                if !has_limits && self.concurrency.is_some() =>
            {
                denied.to_owned()
            }
            OnFull::SharedOverflow(quota) if has_limits => format!("new keys share {quota}"),
            OnFull::EvictNearestIdle | OnFull::SharedOverflow(_) => {
                "the key with the least debt is forgotten".to_owned()
            }
            // Bytes are delayed, and never denied.
            OnFull::Deny if !has_limits && self.concurrency.is_none() => {
                "the bytes of new keys wait for a free slot".to_owned()
            }
            OnFull::Deny => denied.to_owned(),
            OnFull::Admit => "new keys are admitted and not remembered".to_owned(),
            _ => "see the documentation of `OnFull`".to_owned(),
        };
        let in_flight = match self.on_full {
            OnFull::EvictNearestIdle | OnFull::SharedOverflow(_)
                if has_limits && self.concurrency.is_some() =>
            {
                format!("; when full of keys with requests in flight, {denied}")
            }
            _ => String::new(),
        };
        format!("room for {} at least; when full, {when_full}{in_flight}", self.capacity)
    }
}

fn explain_concurrency(Concurrency { limit, max_hold }: Concurrency) -> String {
    let requests = if limit == 1 { "request" } else { "requests" };
    let lost = max_hold.map(|hold| format!("; counted for {} at least", span(hold)));
    format!("at most {limit} {requests} of a key in flight{}", lost.unwrap_or_default())
}

fn explain_store(store: &Store, limits: &[RuleLimit]) -> String {
    let may_lease =
        |limit: &RuleLimit| limit.algorithm.in_stores.is_some_and(|stored| stored.may_lease);
    let mode = match !store.asks_always && limits.iter().any(may_lease) {
        true => {
            "from which each process may lease cells ahead (a tenth of a burst may be withheld)"
        }
        false => "which decides each request",
    };
    let down = match store.fallback {
        Fallback::Local if store.nodes == 1 => {
            "each process decides by all of the quota".to_owned()
        }
        Fallback::Local => format!("each process decides by 1/{} of the quota", store.nodes),
        Fallback::Deny => "requests are denied".to_owned(),
        Fallback::Admit => "requests are admitted".to_owned(),
    };
    let deadline = store.deadline.map(|span| format!(" with a deadline of {}", words::span(span)));
    let prefix = store.prefix.as_ref().map(|prefix| format!(", keys begin with \"{prefix}\""));
    let [deadline, prefix] = [deadline, prefix].map(Option::unwrap_or_default);
    format!("{store}, {mode}{deadline}{prefix}; while it is down, {down}")
}

impl RuleLimit {
    /// The limit in plain words: the most that it admits.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let rules = Rules::parse("rules.toml", r#"
    ///     rule = [{ name = "rewards", algorithm = "sliding-log", limits = "5 per week" }]
    /// "#)?;
    /// let limit = &rules.rules()[0].limits()[0];
    /// assert_eq!(limit.explain(), "5/7d (sliding-log): at most 5 in any 7 days");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn explain(&self) -> String {
        let quota = self.quota;
        let named = if self.name == quota.to_string() {
            self.name.clone()
        } else {
            format!("{} = {quota}", self.name)
        };
        let bound = self.algorithm.bound(quota, RulesLimiter::MAX_WAITING_PER_KEY);
        format!("{named} ({}): {bound}", self.algorithm.name)
    }
}
