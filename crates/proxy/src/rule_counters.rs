//! The counters of each rule, and the policy names that responses carry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_http::Policy;
use tollgate_redis::Origin;
use tollgate_rules::{Concurrency, Rule, RuleLimit, RulesLimiter};

/// The origins of decisions on limits in a store, and their labels in metrics.
const ORIGINS: [(Origin, &str); 4] = [
    (Origin::Server, "server"),
    (Origin::Lease, "lease"),
    (Origin::Memory, "memory"),
    (Origin::Fallback, "fallback"),
];

/// The entries of the rules in force, by name. A reload replaces the whole value.
#[derive(Debug, Default)]
pub(crate) struct RuleCounters {
    entries: HashMap<String, Arc<RuleEntry>>,
}

/// The policies and counters of one rule.
#[derive(Debug)]
pub(crate) struct RuleEntry {
    /// In the order of the limits of the rule.
    pub(crate) policies: Vec<Policy>,
    /// That of the requests in flight.
    in_flight: Option<Policy>,
    pub(crate) counts: Arc<Counters>,
}

impl RuleEntry {
    fn new(rule: &Rule, counts: Arc<Counters>) -> Self {
        let policies = rule.limits().iter().map(|limit| policy(rule, limit)).collect();
        let in_flight = rule.concurrency().map(|its| in_flight_policy(rule, its));
        Self { policies, in_flight, counts }
    }
}

/// The counters of a rule. They survive a reload.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) denied: AtomicU64,
    pub(crate) shadow_denied: AtomicU64,
    /// Requests that all limits of the rule in a store admitted.
    pub(crate) store_admitted: AtomicU64,
    origins: [AtomicU64; ORIGINS.len()],
}

impl Counters {
    pub(crate) fn count_denial(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_store_admission(&self) {
        self.store_admitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_shadow_denial(&self) {
        self.shadow_denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a decision on a limit in a store.
    pub(crate) fn count_origin(&self, origin: Origin) {
        if let Some(at) = ORIGINS.iter().position(|(its, _)| *its == origin) {
            self.origins[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Decisions on limits in a store, by origin.
    pub(crate) fn origins(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.origins.iter().map(|count| count.load(Ordering::Relaxed));
        ORIGINS.iter().map(|(_, word)| *word).zip(counts)
    }
}

impl RuleCounters {
    /// Entries for these rules. A rule that existed before keeps its counters.
    pub(crate) fn new(gate: &RulesLimiter, before: &Self) -> Self {
        let entry = |rule: &Rule| {
            let counts = before.entries.get(rule.name()).map(|entry| Arc::clone(&entry.counts));
            let entry = RuleEntry::new(rule, counts.unwrap_or_default());
            (rule.name().to_owned(), Arc::new(entry))
        };
        Self { entries: gate.rules().map(entry).collect() }
    }

    /// The policy that responses carry for a limit of a rule.
    pub(crate) fn policy(&self, rule: &Rule, limit: &RuleLimit) -> Policy {
        let position = rule.limits().iter().position(|its| std::ptr::eq(its, limit));
        let known = self.entries.get(rule.name()).zip(position);
        let known = known.and_then(|(entry, position)| entry.policies.get(position));
        match known {
            Some(policy) => policy.clone(),
            // The rules have just changed, and this value is about to be replaced.
            None => policy(rule, limit),
        }
    }

    /// The policy that responses carry for the requests in flight of a rule.
    pub(crate) fn in_flight_policy(&self, rule: &Rule, concurrency: Concurrency) -> Policy {
        let known = self.entries.get(rule.name()).and_then(|entry| entry.in_flight.clone());
        known.unwrap_or_else(|| in_flight_policy(rule, concurrency))
    }

    /// The entry of a rule, shared so that it can outlive this value.
    pub(crate) fn entry(&self, rule: &Rule) -> Arc<RuleEntry> {
        let known = self.entries.get(rule.name());
        match known.filter(|entry| entry.policies.len() == rule.limits().len()) {
            Some(entry) => Arc::clone(entry),
            // The rules have just changed, and this value is about to be replaced.
            None => {
                let counts = known.map(|entry| Arc::clone(&entry.counts));
                Arc::new(RuleEntry::new(rule, counts.unwrap_or_default()))
            }
        }
    }

    /// Adds one to a counter of a rule. A rule that has just left the file is ignored.
    pub(crate) fn count(&self, rule: &Rule, of: impl Fn(&Counters) -> &AtomicU64) {
        if let Some(entry) = self.entries.get(rule.name()) {
            of(&entry.counts).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The names and counters of all rules, sorted by name.
    pub(crate) fn counts(&self) -> Vec<(&str, &Counters)> {
        let entries = self.entries.iter();
        let mut counts: Vec<_> =
            entries.map(|(name, entry)| (name.as_str(), &*entry.counts)).collect();
        counts.sort_unstable_by_key(|(name, _)| *name);
        counts
    }
}

fn policy(rule: &Rule, limit: &RuleLimit) -> Policy {
    let (name, quota) = (rule.policy_name(limit), limit.quota());
    let policy = match rule.counts_bytes() {
        true => Policy::of_bytes(&name, &quota),
        false => Policy::new(&name, &quota),
    };
    policy.expect("the name is printable")
}

fn in_flight_policy(rule: &Rule, concurrency: Concurrency) -> Policy {
    let policy = Policy::of_requests_in_flight(&rule.in_flight_policy_name(), concurrency.limit());
    policy.expect("the name is printable")
}

#[cfg(test)]
mod tests {
    use tollgate_rules::Rules;

    use super::*;

    fn gate(text: &str) -> RulesLimiter {
        RulesLimiter::new(Rules::parse("rules.toml", text).expect("rules")).expect("memory")
    }

    #[test]
    fn policies_are_named_after_rules() {
        let gate = gate(
            r#"rule = [
                { name = "one", limits = "1/s" },
                { name = "two", limits = ["2/s", { name = "day", quota = "9/d" }] },
                { name = "drei Straßen", limits = "3/s", concurrency = 8 },
                { name = "four", concurrency = 4 },
                { name = "bytes", limits = "9/s", cost = { bytes = "response", estimate = 5 } },
            ]"#,
        );
        let counters = RuleCounters::new(&gate, &RuleCounters::default());
        let policies = gate.rules().flat_map(|rule| rule.limits().iter().map(move |l| (rule, l)));
        let policies: Vec<_> =
            policies.map(|(rule, limit)| counters.policy(rule, limit).to_string()).collect();
        let expected = [
            r#""one";q=1;w=1"#,
            r#""two/2/s";q=2;w=1"#,
            r#""two/day";q=9;w=86400"#,
            r#""rule-3";q=3;w=1"#,
            r#""bytes";q=9;qu="content-bytes";w=1"#,
        ];
        assert_eq!(policies, expected);
        let in_flight = gate.rules().filter_map(|rule| {
            Some(counters.in_flight_policy(rule, rule.concurrency()?).to_string())
        });
        let expected = [
            r#""rule-3/concurrency";q=8;qu="concurrent-requests""#,
            r#""four";q=4;qu="concurrent-requests""#,
        ];
        assert_eq!(in_flight.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn counters_survive_a_reload() {
        let before =
            gate(r#"rule = [{ name = "a", limits = "1/s" }, { name = "b", limits = "1/s" }]"#);
        let counters = RuleCounters::new(&before, &RuleCounters::default());
        before.rules().for_each(|rule| counters.count(rule, |counts| &counts.denied));
        let after =
            gate(r#"rule = [{ name = "c", limits = "1/s" }, { name = "a", limits = "9/s" }]"#);
        let counters = RuleCounters::new(&after, &counters);
        after.rules().for_each(|rule| counters.count(rule, |counts| &counts.denied));
        before.rules().for_each(|rule| counters.count(rule, |counts| &counts.shadow_denied));
        let counts = counters.counts().into_iter().map(|(name, counts)| {
            let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
            (name, read(&counts.denied), read(&counts.shadow_denied))
        });
        assert_eq!(counts.collect::<Vec<_>>(), [("a", 2, 1), ("c", 1, 0)]);
    }
}
