//! The limits in a store that start afresh.

use std::time::Duration;

use super::pair::{is_kept, is_renumbered, is_same};
use super::warning::ReloadWarning;
use crate::rule::{Rule, RuleLimit, Store};

/// The properties by which a store finds a limit of a rule: its id, its algorithm, and the period of its windows.
type KnownBy<'r> = (String, &'static str, Option<Duration>);

/// A warning for each limit whose state the store does not find any more, since one of these properties has changed or
/// is now that of another limit. Only a rule that has a store before and after the change has any.
pub(super) fn warnings(before: &Rule, rule: &Rule) -> Vec<ReloadWarning> {
    let (Some(old), Some(new)) = (&before.store, &rule.store) else { return Vec::new() };
    if !is_same_place(old, new) {
        return vec![ReloadWarning::keys_changed(rule, "store")];
    }
    if let Some(what) = rule.key.changed(&before.key) {
        return vec![ReloadWarning::stored_keys_changed(rule, what)];
    }
    let (old, new) = (known_by(before), known_by(rule));
    // How many old limits the store does not find any more, without those that are only renumbered. Each is replaced
    // by one new limit at most.
    let left = before.limits.iter().zip(&old);
    let mut left = left.filter(|(limit, its)| !new.contains(its) && !is_kept(limit, rule)).count();
    let warning = |(limit, its): (&RuleLimit, &KnownBy<'_>)| {
        let found = old.iter().position(|old| old == its).map(|at| &before.limits[at]);
        match found {
            Some(old) if is_same(old, limit) => None,
            _ if is_renumbered(before, limit) => {
                Some(ReloadWarning::renumbered(rule, limit, "key of the store"))
            }
            Some(_) => None,
            // An additional limit loses nothing.
            None if left == 0 => None,
            None => {
                left -= 1;
                Some(ReloadWarning::stored_elsewhere(rule, limit))
            }
        }
    };
    rule.limits.iter().zip(&new).filter_map(warning).collect()
}

/// Whether two stores keep their keys on one server, under one prefix. User and password do not matter.
fn is_same_place(one: &Store, other: &Store) -> bool {
    one.to_string() == other.to_string() && one.prefix == other.prefix
}

fn known_by(rule: &Rule) -> Vec<KnownBy<'_>> {
    let windows = |limit: &RuleLimit| {
        let stored = limit.algorithm.in_stores.filter(|stored| stored.by_period);
        stored.map(|_| limit.quota.period())
    };
    let ids = rule.limit_ids().into_iter().zip(&rule.limits);
    ids.map(|(id, limit)| (id, limit.algorithm.name, windows(limit))).collect()
}
