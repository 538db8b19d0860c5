//! Limits that several processes share: those of rules with a store.
//!
//! ```text
//! build    a rule's limits: on which store, how counted, whether leased, what if it is down
//! ask      one request's questions, answered at once or in turn
//! figures  what became of all calls, for the metrics
//! watch    asks idle servers for a sign of life, and tells which are down
//! ```

mod ask;
mod build;
mod figures;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_redis::{Answer, Leased, RedisLimiter, Store, WithFallback};
use tollgate_rules::{Fallback, Key, Rule, RuleLimit};

pub(super) use self::ask::{Inquiry, Question};
pub(super) use self::figures::write;
pub(super) use self::watch::{Down, watch};

/// The limits of all rules that have a store.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// One for each way in which a server is reached.
    stores: Vec<(tollgate_rules::Store, Store)>,
    rules: HashMap<String, Arc<SharedRule>>,
    /// Those of the rules before, whom some requests may still be judged by.
    before: HashMap<String, Arc<SharedRule>>,
}

/// The limits of a rule that has a store.
#[derive(Debug)]
pub(super) struct SharedRule {
    key: Key,
    limits: Vec<RuleLimit>,
    capacity: u64,
    store: tollgate_rules::Store,
    /// In the order of the rule's limits.
    tiers: Vec<Tier>,
}

/// A limit on a server.
#[derive(Debug)]
enum Tier {
    /// The server is asked about each request.
    Always(WithFallback<RedisLimiter>),
    /// It is asked for some cells ahead.
    Ahead(WithFallback<Leased<RedisLimiter>>),
}

impl Shared {
    /// The limits of these rules. What is the same as before lives on: leases, and what is known of
    /// the servers.
    ///
    /// The error says which rule cannot be kept, and why. It waits for nobody, and connects nowhere.
    pub(super) fn new<'r>(
        rules: impl Iterator<Item = &'r Rule>,
        before: &Self,
    ) -> Result<Self, String> {
        let mut next = Self { before: before.rules.clone(), ..Self::default() };
        for rule in rules {
            let Some(at) = rule.store() else { continue };
            let in_rule = |why: String| format!("rule \"{}\": {why}", rule.name());
            let store = match next.store(at).or_else(|| before.store(at)) {
                Some(store) => store.clone(),
                None => build::store(at).map_err(in_rule)?,
            };
            if next.store(at).is_none() {
                next.stores.push((at.clone(), store.clone()));
            }
            let same = before.rules.get(rule.name()).filter(|limits| limits.are_of(rule));
            let limits = match same {
                Some(same) => Arc::clone(same),
                None => Arc::new(build::rule(rule, at, &store).map_err(in_rule)?),
            };
            next.rules.insert(rule.name().to_owned(), limits);
        }
        Ok(next)
    }

    fn store(&self, at: &tollgate_rules::Store) -> Option<&Store> {
        let found = self.stores.iter().find(|(known, _)| known.shares_connections_with(at));
        found.map(|(_, store)| store)
    }

    /// A rule's limits. There are none of a rule that left the file two changes ago.
    pub(super) fn find(&self, rule: &Rule) -> Option<&Arc<SharedRule>> {
        let known = [&self.rules, &self.before];
        let mut known = known.iter().filter_map(|rules| rules.get(rule.name()));
        known.find(|limits| limits.are_of(rule))
    }
}

impl SharedRule {
    /// Whether a rule asks for just these limits.
    fn are_of(&self, rule: &Rule) -> bool {
        Some(&self.store) == rule.store()
            && self.limits == rule.limits()
            && self.key == *rule.key()
            && self.capacity == rule.capacity()
    }

    /// Whether requests are denied that the server gives no decision about.
    fn denies_without_store(&self) -> bool {
        self.store.fallback() == Fallback::Deny
    }
}

impl Tier {
    /// The answer, if it can be told without waiting.
    fn try_check_n(&self, key: &[u8], cells: u64) -> Option<Answer> {
        match self {
            Self::Always(limiter) => limiter.try_check_n(key, cells),
            Self::Ahead(limiter) => limiter.try_check_n(key, cells),
        }
    }

    /// The answer, by the store's deadline.
    async fn check_n(&self, key: &[u8], cells: u64) -> Answer {
        match self {
            Self::Always(limiter) => limiter.check_n(key, cells).await,
            Self::Ahead(limiter) => limiter.check_n(key, cells).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_rules::Rules;

    use super::*;

    fn shared(text: &str, before: &Shared) -> (Rules, Result<Shared, String>) {
        let rules = Rules::parse("rules.toml", text).expect("rules");
        let shared = Shared::new(rules.rules().iter(), before);
        (rules, shared)
    }

    fn rule(name: &str, limits: &str, store: &str) -> String {
        format!("[[rule]]\nname = \"{name}\"\nlimits = {limits}\nstore = {store}\n")
    }

    #[test]
    fn what_is_the_same_lives_on_and_old_rules_are_known_for_one_change() {
        let here = "\"redis://127.0.0.1:1\"";
        let text = [rule("a", "\"100/s\"", here), rule("b", "\"9/min\"", here)].concat();
        let (old_rules, first) = shared(&text, &Shared::default());
        let first = first.expect("they can be kept");
        assert_eq!((first.stores.len(), first.rules.len()), (1, 2));
        let (_, second) = shared(&text.replace("9/min", "8/min"), &first);
        let second = second.expect("they can be kept");
        assert!(Arc::ptr_eq(&first.rules["a"], &second.rules["a"]));
        assert!(!Arc::ptr_eq(&first.rules["b"], &second.rules["b"]));
        let old = second.find(&old_rules.rules()[1]).expect("still known");
        assert!(Arc::ptr_eq(&first.rules["b"], old));
        let (_, third) = shared(&text.replace("9/min", "7/min"), &second);
        assert!(third.expect("they can be kept").find(&old_rules.rules()[1]).is_none());
    }

    #[test]
    fn rules_share_what_is_known_of_a_server_if_they_reach_it_in_the_same_way() {
        let url = "url = \"redis://127.0.0.1:1\"";
        let stores = ["", ", nodes = 2", ", deadline = \"1 s\"", ", prefix = \"b\""];
        let text = stores.iter().zip('a'..).map(|(more, name)| {
            rule(&name.to_string(), "\"9/min\"", &format!("{{ {url}{more} }}"))
        });
        let text: String = text.collect();
        let (_, first) = shared(&text, &Shared::default());
        let first = first.expect("they can be kept");
        assert_eq!((first.stores.len(), first.rules.len()), (3, 4));
        let (_, second) = shared(&text.replace("\"1 s\"", "\"2 s\""), &first);
        let second = second.expect("they can be kept");
        assert_eq!(second.stores.len(), 3);
        assert!(Arc::ptr_eq(&first.rules["d"], &second.rules["d"]));
        assert!(!Arc::ptr_eq(&first.rules["c"], &second.rules["c"]), "its deadline is another");
    }

    #[test]
    fn what_a_server_cannot_keep_names_the_rule_and_hides_the_password() {
        let wrong = [
            (rule("a", "\"9/min\"", "\"redis://user:secret@:x:y/z\""), "store redis://"),
            (
                rule(
                    "a",
                    "{ quota = \"5/1500ns\", algorithm = \"fixed-window\" }",
                    "\"redis://h\"",
                ),
                "in store redis://h: on a server a window is a whole number of microseconds",
            ),
        ];
        for (text, place) in wrong {
            let error = shared(&text, &Shared::default()).1.expect_err("it cannot be kept");
            assert!(error.starts_with("rule \"a\": ") && error.contains(place), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
