//! The limits of all rules that have a store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_redis::Store;
use tollgate_rules::{Fallback, Rule, Rules};

use super::build;
use super::counters::{Counters, Retired};
use super::limits::RuleLimits;

/// Checks that the limits of all rules with a store can be kept there, and that this process can keep its
/// part of them while the store is down. This opens no connection.
///
/// # Errors
///
/// A rule cannot be kept; the error names it and says why.
///
/// ```
/// let text = r#"rule = [{ name = "a", limits = "1/day", store = { url = "redis://cache", nodes = 900 } }]"#;
/// let rules = tollgate_rules::Rules::parse("rules.toml", text)?;
/// let error = tollgate_proxy::check_stores(&rules).unwrap_err();
/// assert!(error.contains("the part of one of 900 nodes: quota: the rate is below one cell in 366 days"));
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
pub fn check_stores(rules: &Rules) -> Result<(), String> {
    StoreLimits::new(rules.rules().iter(), &StoreLimits::default()).map(drop)
}

/// The limits of all rules that have a store.
#[derive(Debug, Default)]
pub(crate) struct StoreLimits {
    /// One for each distinct way to reach a server.
    pub(super) stores: Vec<(tollgate_rules::Store, Store)>,
    pub(super) rules: HashMap<String, Arc<RuleLimits>>,
    /// The stores without which a rule denies requests. A rule in shadow denies none.
    pub(super) denying: Vec<tollgate_rules::Store>,
    /// The limits before the last reload, which requests in flight may still need.
    before: HashMap<String, Arc<RuleLimits>>,
    /// The stores that left at the last reload. Requests in flight may still call them.
    left: Vec<(tollgate_rules::Store, Store)>,
    /// The counters of the stores that left at earlier reloads.
    retired: Retired,
}

impl StoreLimits {
    /// Builds the limits of these rules. A rule that did not change keeps its limits, with their leases and
    /// the state of the server. This opens no connection and does not wait.
    ///
    /// # Errors
    ///
    /// A rule cannot be kept; the error names it and says why.
    pub(crate) fn new<'r>(
        rules: impl Iterator<Item = &'r Rule>,
        before: &Self,
    ) -> Result<Self, String> {
        let retired = before.retired();
        let mut next = Self { before: before.rules.clone(), retired, ..Self::default() };
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
            if at.fallback() == Fallback::Deny && !rule.is_shadow() {
                next.denying.push(at.clone());
            }
            let same = before.rules.get(rule.name()).filter(|limits| limits.are_of(rule));
            let limits = match same {
                Some(same) => Arc::clone(same),
                None => Arc::new(build::rule(rule, at, &store).map_err(in_rule)?),
            };
            next.rules.insert(rule.name().to_owned(), limits);
        }
        let left = before.stores.iter().filter(|(at, _)| next.store(at).is_none());
        next.left = left.cloned().collect();
        let in_use: HashSet<_> =
            next.stores.iter().chain(&next.left).map(|(at, _)| at.to_string()).collect();
        next.retired.prune(|url| in_use.contains(url));
        Ok(next)
    }

    /// The counters of all stores that have left.
    pub(super) fn retired(&self) -> Retired {
        let mut retired = self.retired.clone();
        for (at, store) in &self.left {
            retired.add(at.to_string(), Counters::of(&store.stats()));
        }
        retired
    }

    fn store(&self, at: &tollgate_rules::Store) -> Option<&Store> {
        let found = self.stores.iter().find(|(known, _)| known.shares_connections_with(at));
        found.map(|(_, store)| store)
    }

    /// The limits of a rule; `None` if the rule left the file two reloads ago.
    pub(crate) fn find(&self, rule: &Rule) -> Option<&Arc<RuleLimits>> {
        let known = [&self.rules, &self.before];
        let mut known = known.iter().filter_map(|rules| rules.get(rule.name()));
        known.find(|limits| limits.are_of(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(text: &str, before: &StoreLimits) -> (Rules, Result<StoreLimits, String>) {
        let rules = Rules::parse("rules.toml", text).expect("rules");
        let shared = StoreLimits::new(rules.rules().iter(), before);
        (rules, shared)
    }

    fn rule(name: &str, limits: &str, store: &str) -> String {
        format!("[[rule]]\nname = \"{name}\"\nlimits = {limits}\nstore = {store}\n")
    }

    #[test]
    fn unchanged_rules_keep_their_limits_and_old_rules_are_known_for_one_reload() {
        let here = "\"redis://127.0.0.1:1\"";
        let text = [rule("a", "\"100/s\"", here), rule("b", "\"9/min\"", here)].concat();
        let (old_rules, first) = shared(&text, &StoreLimits::default());
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

    /// So keys keep their leases, and their share of the quota while the store is down.
    #[test]
    fn a_new_cost_keeps_the_limits_unless_they_would_be_others() {
        let parsed = |limits: &str, cost: u64, before: &StoreLimits| {
            let limits = format!("{limits}\ncost = {cost}");
            shared(&rule("a", &limits, "\"redis://127.0.0.1:1\""), before).1
        };
        let is_kept = |limits: &str, one: u64, other: u64| {
            let first = parsed(limits, one, &StoreLimits::default()).expect("they can be kept");
            let second = parsed(limits, other, &first).expect("they can be kept");
            Arc::ptr_eq(&first.rules["a"], &second.rules["a"])
        };
        // Leases of 100 ms withhold ten cells.
        let leased = "\"100/s\"";
        assert!(is_kept(leased, 5, 6) && is_kept(leased, 90, 1) && is_kept(leased, 91, 100));
        assert!(!is_kept(leased, 90, 91) && !is_kept(leased, 91, 90));
        assert!(is_kept("\"20/day\"", 1, 20));
        let two = "[\"100/s\", \"200/s\"]";
        assert!(is_kept(two, 5, 90) && is_kept(two, 95, 100) && !is_kept(two, 90, 91));
        let log = "{ quota = \"5000/h\", algorithm = \"sliding-log\" }";
        assert!(is_kept(log, 1, 1_000));
        let first = parsed(log, 1, &StoreLimits::default()).expect("it can be kept");
        let error = parsed(log, 1_001, &first).expect_err("it is never granted");
        assert!(error.contains("a request may cost 1001 cells"), "{error}");
    }

    #[test]
    fn rules_share_a_store_if_they_reach_the_server_in_the_same_way() {
        let url = "url = \"redis://127.0.0.1:1\"";
        let stores = ["", ", nodes = 2", ", deadline = \"1 s\"", ", prefix = \"b\""];
        let text = stores.iter().zip('a'..).map(|(more, name)| {
            rule(&name.to_string(), "\"9/min\"", &format!("{{ {url}{more} }}"))
        });
        let text: String = text.collect();
        let (_, first) = shared(&text, &StoreLimits::default());
        let first = first.expect("they can be kept");
        assert_eq!((first.stores.len(), first.rules.len()), (3, 4));
        let (_, second) = shared(&text.replace("\"1 s\"", "\"2 s\""), &first);
        let second = second.expect("they can be kept");
        assert_eq!(second.stores.len(), 3);
        assert!(Arc::ptr_eq(&first.rules["d"], &second.rules["d"]));
        assert!(!Arc::ptr_eq(&first.rules["c"], &second.rules["c"]), "its deadline changed");
    }

    #[test]
    fn an_error_names_the_rule_and_hides_the_password() {
        let wrong = [
            (rule("a", "\"9/min\"", "\"redis://user:secret@h?protocol=9\""), "store redis://"),
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
            let error = shared(&text, &StoreLimits::default()).1.expect_err("it cannot be kept");
            assert!(error.starts_with("rule \"a\": ") && error.contains(place), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
