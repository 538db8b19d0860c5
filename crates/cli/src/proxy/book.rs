//! What the proxy keeps of each rule: the names that clients are told, and counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_http::Policy;
use tollgate_redis::Origin;
use tollgate_rules::{Rule, RuleLimit, RulesLimiter};

/// Who decides about limits in a store, as metrics call it.
pub(super) const ORIGINS: [(Origin, &str); 4] = [
    (Origin::Server, "server"),
    (Origin::Lease, "lease"),
    (Origin::Memory, "memory"),
    (Origin::Fallback, "fallback"),
];

/// Of the rules in force, by name. Another one takes its place when they change.
#[derive(Debug, Default)]
pub(super) struct Book {
    pages: HashMap<String, Arc<Page>>,
}

/// Of one rule.
#[derive(Debug)]
pub(super) struct Page {
    /// In the order of the rule's limits.
    pub(super) policies: Vec<Policy>,
    pub(super) counts: Arc<Counts>,
}

impl Page {
    fn new(rule: &Rule, index: Option<usize>, counts: Arc<Counts>) -> Self {
        let policies = rule.limits().iter().map(|limit| policy(rule, limit, index)).collect();
        Self { policies, counts }
    }
}

/// How often a rule denied. It outlives a change of the rule.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) denied: AtomicU64,
    pub(super) shadow_denied: AtomicU64,
    /// Requests that all limits in a store admitted.
    pub(super) store_admitted: AtomicU64,
    origins: [AtomicU64; ORIGINS.len()],
}

impl Counts {
    pub(super) fn count_denial(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_store_admission(&self) {
        self.store_admitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_shadow_denial(&self) {
        self.shadow_denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a decision about a limit in a store.
    pub(super) fn count_origin(&self, origin: Origin) {
        if let Some(at) = ORIGINS.iter().position(|(its, _)| *its == origin) {
            self.origins[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Decisions about limits in a store, by who made them.
    pub(super) fn origins(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.origins.iter().map(|count| count.load(Ordering::Relaxed));
        ORIGINS.iter().map(|(_, word)| *word).zip(counts)
    }
}

impl Book {
    /// Of these rules; those that were there before count on.
    pub(super) fn new(gate: &RulesLimiter, before: &Self) -> Self {
        let page = |(index, rule): (usize, &Rule)| {
            let counts = before.pages.get(rule.name()).map(|page| Arc::clone(&page.counts));
            let page = Page::new(rule, Some(index), counts.unwrap_or_default());
            (rule.name().to_owned(), Arc::new(page))
        };
        Self { pages: gate.rules().enumerate().map(page).collect() }
    }

    /// What clients are told of a limit of a rule.
    pub(super) fn policy(&self, rule: &Rule, limit: &RuleLimit) -> Policy {
        let position = rule.limits().iter().position(|its| std::ptr::eq(its, limit));
        let known = self.pages.get(rule.name()).zip(position);
        let known = known.and_then(|(page, position)| page.policies.get(position));
        match known {
            Some(policy) => policy.clone(),
            // The rules have just changed, and the book is about to.
            None => policy(rule, limit, None),
        }
    }

    /// A rule's page, for whoever outlives the book.
    pub(super) fn page(&self, rule: &Rule) -> Arc<Page> {
        let known = self.pages.get(rule.name());
        match known.filter(|page| page.policies.len() == rule.limits().len()) {
            Some(page) => Arc::clone(page),
            // The rules have just changed, and the book is about to.
            None => {
                let counts = known.map(|page| Arc::clone(&page.counts));
                Arc::new(Page::new(rule, None, counts.unwrap_or_default()))
            }
        }
    }

    /// Counts a denial; a rule that has just left the file is not counted any more.
    pub(super) fn count(&self, rule: &Rule, of: impl Fn(&Counts) -> &AtomicU64) {
        if let Some(page) = self.pages.get(rule.name()) {
            of(&page.counts).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Every rule's name and counts, by name.
    pub(super) fn counts(&self) -> Vec<(&str, &Counts)> {
        let pages = self.pages.iter();
        let mut counts: Vec<_> = pages.map(|(name, page)| (name.as_str(), &*page.counts)).collect();
        counts.sort_unstable_by_key(|(name, _)| *name);
        counts
    }
}

/// Named by the rule; where that has several limits, by the limit too. A name that the header
/// cannot carry is replaced by the rule's place in the file.
fn policy(rule: &Rule, limit: &RuleLimit, index: Option<usize>) -> Policy {
    let full = match rule.limits() {
        [_] => rule.name().to_owned(),
        _ => format!("{}/{}", rule.name(), limit.name()),
    };
    let place = index.map_or("rule".to_owned(), |index| format!("rule-{}", index + 1));
    let quota = limit.quota();
    let policy = Policy::new(&full, &quota).or_else(|_| Policy::new(&place, &quota));
    policy.expect("the place is printable")
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
                { name = "drei Straßen", limits = "3/s" },
            ]"#,
        );
        let book = Book::new(&gate, &Book::default());
        let policies = gate.rules().flat_map(|rule| rule.limits().iter().map(move |l| (rule, l)));
        let policies: Vec<_> =
            policies.map(|(rule, limit)| book.policy(rule, limit).to_string()).collect();
        let expected = [
            r#""one";q=1;w=1"#,
            r#""two/2/s";q=2;w=1"#,
            r#""two/day";q=9;w=86400"#,
            r#""rule-3";q=3;w=1"#,
        ];
        assert_eq!(policies, expected);
    }

    #[test]
    fn counts_outlive_a_change() {
        let before =
            gate(r#"rule = [{ name = "a", limits = "1/s" }, { name = "b", limits = "1/s" }]"#);
        let book = Book::new(&before, &Book::default());
        before.rules().for_each(|rule| book.count(rule, |counts| &counts.denied));
        let after =
            gate(r#"rule = [{ name = "c", limits = "1/s" }, { name = "a", limits = "9/s" }]"#);
        let book = Book::new(&after, &book);
        after.rules().for_each(|rule| book.count(rule, |counts| &counts.denied));
        before.rules().for_each(|rule| book.count(rule, |counts| &counts.shadow_denied));
        let counts = book.counts().into_iter().map(|(name, counts)| {
            let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
            (name, read(&counts.denied), read(&counts.shadow_denied))
        });
        assert_eq!(counts.collect::<Vec<_>>(), [("a", 2, 1), ("c", 1, 0)]);
    }
}
