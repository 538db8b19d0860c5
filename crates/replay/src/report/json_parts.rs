//! The parts of the JSON report for a rules file and for a suggestion.

use std::collections::BTreeMap;

use serde::Serialize;

use super::suggest;
use crate::log::charge::readable;
use crate::outcome::ReplayOutcome;
use crate::plan::ReplayPlan;
use crate::rules_replay::{RuleCounts, RulesReplay};
use crate::suggest::{Analysis, Candidate, Denials, cells_in_a_minute};
use crate::tally::KeyCounts;
use crate::words;

/// A key that was denied.
#[derive(Serialize)]
pub(super) struct Key {
    key: String,
    requests: u64,
    denied: u64,
}

impl From<KeyCounts<'_>> for Key {
    fn from(counts: KeyCounts<'_>) -> Self {
        let KeyCounts { key, requests, denied } = counts;
        Self { key: readable(key), requests, denied }
    }
}

/// One rule of a file.
#[derive(Serialize)]
pub(super) struct Rule {
    rule: String,
    shadow: bool,
    requests: u64,
    admitted: u64,
    denied: u64,
    denied_share: f64,
    denied_by_others: u64,
    /// Requests of `denied` whose key was banned, requests of `denied` without a key, and requests of `denied` to
    /// which the rule applies by one reading of the path and not by another.
    banned: u64,
    without_key: u64,
    unclear_path: u64,
    keys: u64,
    keys_denied: u64,
    keys_denied_share: f64,
    /// Requests that were decided without the rule.
    not_in_log: u64,
    /// The data that the rule needs and the log does not record, each with the number of requests.
    missing: BTreeMap<String, u64>,
    /// Keys of the rule that a replay leaves out.
    not_replayed: Vec<&'static str>,
    denied_most: Vec<Key>,
}

/// A suggestion.
#[derive(Serialize)]
pub(super) struct Suggested {
    /// Null if no burst is possible.
    quota: Option<String>,
    rule: Option<String>,
    cells_in_a_minute: Option<u64>,
    at_most: f64,
    keys: u64,
    well_behaved_keys: u64,
    well_behaved_keys_that_may_be_denied: u64,
    requests: u64,
    /// The log was thinned to one in this many keys. Keys of a list stay.
    one_in_keys: u64,
    /// Requests at the end of the log that were ignored.
    requests_cut: u64,
    rates: Vec<Rate>,
}

#[derive(Serialize)]
struct Rate {
    rate: String,
    /// Null if no burst is possible.
    burst: Option<u64>,
    well_behaved_keys_denied: Option<u64>,
    keys_denied: Option<u64>,
    denied: Option<u64>,
    burst_for_none: u64,
}

/// The rules, in the order of the file.
pub(super) fn rules(plan: &ReplayPlan, rules_replay: &RulesReplay) -> Vec<Rule> {
    let tally = rules_replay.tally();
    let rules = rules_replay.rules().zip(tally.rules()).enumerate();
    rules
        .map(|(index, (rule, counts))| Rule {
            rule: readable(rule.name()),
            shadow: rule.is_shadow(),
            not_replayed: super::rules::left_out(rule).into_iter().map(|(key, _)| key).collect(),
            denied_most: tally.denied_most(index, plan.top).into_iter().map(Key::from).collect(),
            ..counted(counts, tally.keys(index))
        })
        .collect()
}

/// All rules together.
pub(super) fn all_rules(rules_replay: &RulesReplay, keys: u64) -> Rule {
    counted(rules_replay.tally().all_rules(), keys)
}

fn counted(counts: &RuleCounts, keys: u64) -> Rule {
    Rule {
        rule: super::rules::TOGETHER.to_owned(),
        shadow: false,
        requests: counts.requests,
        admitted: counts.admitted,
        denied: counts.denied,
        denied_share: words::share(counts.denied, counts.requests),
        denied_by_others: counts.denied_by_others,
        banned: counts.banned,
        without_key: counts.without_key,
        unclear_path: counts.unclear_path,
        keys,
        keys_denied: counts.keys_denied,
        keys_denied_share: words::share(counts.keys_denied, keys),
        not_in_log: counts.not_in_log,
        missing: counts.missing.clone(),
        not_replayed: Vec::new(),
        denied_most: Vec::new(),
    }
}

/// The suggestion; `None` without `--suggest`, or if there was no request.
pub(super) fn suggestion(plan: &ReplayPlan, outcome: &ReplayOutcome) -> Option<Suggested> {
    let analysis: &Analysis = outcome.analysis.as_ref()?;
    let suggestion = analysis.suggestion.as_ref()?;
    let quota = suggestion.best().map(|(quota, _)| quota);
    Some(Suggested {
        quota: quota.map(|quota| quota.to_string()),
        rule: suggest::rule(plan, analysis, suggestion),
        cells_in_a_minute: quota.as_ref().map(cells_in_a_minute),
        at_most: suggestion.at_most.as_f64(),
        keys: analysis.keys,
        well_behaved_keys: analysis.well_behaved.count,
        well_behaved_keys_that_may_be_denied: suggestion.may_deny,
        requests: analysis.requests,
        one_in_keys: 1 << analysis.kept.halvings.min(63),
        requests_cut: analysis.kept.cut,
        rates: suggestion.candidates.iter().map(rate).collect(),
    })
}

fn rate(candidate: &Candidate) -> Rate {
    let of = |figure: fn(&Denials) -> u64| candidate.found.as_ref().map(|(_, its)| figure(its));
    Rate {
        rate: candidate.rate.to_string(),
        burst: candidate.found.map(|(quota, _)| quota.burst_cells()),
        well_behaved_keys_denied: of(|its| its.well_behaved),
        keys_denied: of(|its| its.keys),
        denied: of(|its| its.requests),
        burst_for_none: candidate.burst_for_none,
    }
}
