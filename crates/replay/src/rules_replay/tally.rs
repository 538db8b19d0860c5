//! The counts of each rule of a file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::RuleOutcome;
use crate::tally::KeyCounts;
use crate::tally::timeline::Timeline;

/// The counts of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleCounts {
    /// Requests to which the rule applies.
    pub(crate) requests: u64,
    /// Requests that were admitted.
    pub(crate) admitted: u64,
    /// Requests that this rule denied. If several rules deny, the one that denies for longest counts.
    pub(crate) denied: u64,
    /// Requests that another rule denied.
    pub(crate) denied_by_others: u64,
    /// Requests of `denied` whose key was banned.
    pub(crate) banned: u64,
    /// Requests of `denied` that have no key.
    pub(crate) without_key: u64,
    /// Requests of `denied` to which the rule applies by one reading of the path and not by another.
    pub(crate) unclear_path: u64,
    /// Keys that the rule denied at least once.
    pub(crate) keys_denied: u64,
    /// Requests decided without the rule, because the rule needs something that the log does not
    /// record.
    pub(crate) not_in_log: u64,
    /// The data that the log does not record, and for how many requests.
    pub(crate) missing: BTreeMap<String, u64>,
}

/// All counts. Memory: a few words for each key of each rule.
#[derive(Debug)]
pub(crate) struct RulesTally {
    rules: Vec<RuleTally>,
    /// All rules together, counted by `--key`.
    all_rules: RuleTally,
    /// One series per rule, and one for all rules together.
    over_time: Timeline,
    lines_not_http: u64,
}

#[derive(Debug, Default)]
struct RuleTally {
    counts: RuleCounts,
    keys: HashMap<Box<str>, KeyTally>,
}

/// The counts of one key.
#[derive(Clone, Copy, Debug, Default)]
struct KeyTally {
    requests: u64,
    denied: u64,
}

impl RulesTally {
    /// Empty counts for this number of rules.
    pub(super) fn new(rules: usize, offset_secs: i32) -> Self {
        Self {
            rules: std::iter::repeat_with(RuleTally::default).take(rules).collect(),
            all_rules: RuleTally::default(),
            over_time: Timeline::new(rules + 1, offset_secs),
            lines_not_http: 0,
        }
    }

    /// Counts a request for all rules together.
    pub(super) fn request(&mut self, key: &str, unix_nanos: u64, is_denied: bool) {
        self.over_time.advance(unix_nanos);
        let outcome = if is_denied { RuleOutcome::Denied } else { RuleOutcome::Admitted };
        self.all_rules.count(key, outcome);
        if is_denied {
            self.over_time.count(self.rules.len());
        }
    }

    /// Counts a line that records no request of HTTP.
    pub(super) fn count_not_http(&mut self, unix_nanos: u64) {
        self.over_time.advance(unix_nanos);
        self.lines_not_http += 1;
    }

    /// Counts the outcome of a rule for the request that was counted last.
    pub(super) fn count(&mut self, rule: usize, key: &str, outcome: RuleOutcome) {
        if self.rules[rule].count(key, outcome) {
            self.over_time.count(rule);
        }
    }

    /// Counts a request that is decided without a rule.
    pub(super) fn leave_out(&mut self, rule: usize, missing: &BTreeSet<Cow<'_, str>>) {
        let counts = &mut self.rules[rule].counts;
        counts.not_in_log += 1;
        for what in missing {
            match counts.missing.get_mut(what.as_ref()) {
                Some(count) => *count += 1,
                None => {
                    counts.missing.insert(what.to_string(), 1);
                }
            }
        }
    }

    /// Lines that no rule decided, because they record no request of HTTP.
    pub(crate) fn lines_not_http(&self) -> u64 {
        self.lines_not_http
    }

    /// The counts of each rule.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &RuleCounts> {
        self.rules.iter().map(|rule| &rule.counts)
    }

    /// The counts of all rules together. Keys are those of `--key`.
    pub(crate) fn all_rules(&self) -> &RuleCounts {
        &self.all_rules.counts
    }

    /// Different keys of a rule.
    pub(crate) fn keys(&self, rule: usize) -> u64 {
        self.rules[rule].keys.len() as u64
    }

    /// Denials over time: one series per rule, and one for all rules together.
    pub(crate) fn over_time(&self) -> &Timeline {
        &self.over_time
    }

    /// The keys that a rule denied most often, at most `count` of them.
    pub(crate) fn denied_most(&self, rule: usize, count: usize) -> Vec<KeyCounts<'_>> {
        let keys = self.rules[rule].keys.iter().map(|(key, its)| KeyCounts {
            key,
            requests: its.requests,
            denied: its.denied,
        });
        KeyCounts::denied_most(keys, count)
    }
}

impl RuleTally {
    /// Counts a request. Returns whether this rule denied it.
    fn count(&mut self, key: &str, outcome: RuleOutcome) -> bool {
        let counts = &mut self.counts;
        counts.requests += 1;
        let denies = match outcome {
            RuleOutcome::Admitted => {
                counts.admitted += 1;
                false
            }
            RuleOutcome::DeniedByOthers => {
                counts.denied_by_others += 1;
                false
            }
            RuleOutcome::Denied
            | RuleOutcome::Banned
            | RuleOutcome::WithoutKey
            | RuleOutcome::UnclearPath => true,
        };
        counts.denied += u64::from(denies);
        counts.banned += u64::from(outcome == RuleOutcome::Banned);
        counts.without_key += u64::from(outcome == RuleOutcome::WithoutKey);
        counts.unclear_path += u64::from(outcome == RuleOutcome::UnclearPath);
        let tally = match self.keys.get_mut(key) {
            Some(tally) => tally,
            None => self.keys.entry(key.into()).or_default(),
        };
        tally.requests += 1;
        counts.keys_denied += u64::from(denies && tally.denied == 0);
        tally.denied += u64::from(denies);
        denies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_counts_the_outcomes_of_its_requests() {
        let mut tally = RulesTally::new(2, 0);
        let denied = [
            RuleOutcome::Admitted,
            RuleOutcome::Denied,
            RuleOutcome::Banned,
            RuleOutcome::WithoutKey,
            RuleOutcome::UnclearPath,
        ];
        for (at, outcome) in denied.into_iter().chain([RuleOutcome::DeniedByOthers]).enumerate() {
            tally.request("client", at as u64, outcome != RuleOutcome::Admitted);
            tally.count(1, "a", outcome);
        }
        tally.leave_out(0, &BTreeSet::from(["host".into(), "header x".into()]));
        let counts: Vec<_> = tally.rules().cloned().collect();
        let missing = [("header x", 1), ("host", 1)];
        let missing = missing.map(|(what, count)| (what.to_owned(), count)).into();
        let left_out = RuleCounts { not_in_log: 1, missing, ..RuleCounts::default() };
        assert_eq!(counts[0], left_out);
        let its = &counts[1];
        assert_eq!((its.requests, its.admitted, its.denied, its.denied_by_others), (6, 1, 4, 1));
        let reasons = [its.banned, its.without_key, its.unclear_path];
        assert_eq!((reasons, its.keys_denied), ([1, 1, 1], 1));
        assert_eq!((tally.all_rules().denied, tally.all_rules().keys_denied), (5, 1));
        assert_eq!((tally.keys(0), tally.keys(1)), (0, 1));
        assert_eq!(tally.denied_most(1, 9), [KeyCounts { key: "a", requests: 6, denied: 4 }]);
        assert_eq!(tally.over_time().columns(1).counts, [[0], [4], [5]]);
    }
}
