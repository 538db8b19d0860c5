//! The text report of a rules file.

use super::chart;
use super::table::{self, Side};
use crate::log::charge::readable;
use crate::outcome::ReplayOutcome;
use crate::plan::ReplayPlan;
use crate::rules_replay::{RuleCounts, RulesReplay};
use crate::words::{self, counted, percent, thousands};

/// The name of the row for all rules together.
pub(super) const TOGETHER: &str = "all rules";

/// The head of the table.
pub(super) const HEAD: [&str; 9] = [
    "rule",
    "requests",
    "admitted",
    "denied",
    "denied %",
    "by others",
    "keys denied",
    "keys %",
    "not in log",
];

/// The names of the rules; a rule in shadow is marked.
pub(super) fn names(rules_replay: &RulesReplay) -> Vec<String> {
    let name = |rule: &tollgate_rules::Rule| match rule.is_shadow() {
        true => format!("{} (shadow)", readable(rule.name())),
        false => readable(rule.name()),
    };
    rules_replay.rules().map(name).collect()
}

/// One row per rule, and one for all rules together.
pub(super) fn rows(rules_replay: &RulesReplay, outcome: &ReplayOutcome) -> Vec<Vec<String>> {
    let (tally, all) = (rules_replay.tally(), &outcome.tally);
    let row = |name: &str, counts: &RuleCounts, keys: u64| {
        vec![
            name.to_owned(),
            thousands(counts.requests),
            thousands(counts.admitted),
            thousands(counts.denied),
            percent(counts.denied, counts.requests),
            thousands(counts.denied_by_others),
            thousands(counts.keys_denied),
            percent(counts.keys_denied, keys),
            percent(counts.not_in_log, all.requests()),
        ]
    };
    let names = names(rules_replay);
    let rules = tally.rules().zip(&names).enumerate();
    let mut rows: Vec<_> =
        rules.map(|(index, (counts, name))| row(name, counts, tally.keys(index))).collect();
    let mut all_rules = row(TOGETHER, tally.all_rules(), all.keys());
    all_rules[5].clear();
    all_rules[8].clear();
    rows.push(all_rules);
    rows
}

/// The table, the keys denied most, and denials over time.
pub(super) fn section(
    plan: &ReplayPlan,
    rules_replay: &RulesReplay,
    outcome: &ReplayOutcome,
    width: usize,
) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(self::rows(rules_replay, outcome));
    let mut text = table::in_two(&rows, 5, width);
    let names = names(rules_replay);
    if outcome.tally.requests() == 0 {
        return text;
    }
    for (index, name) in names.iter().enumerate() {
        let most = rules_replay.tally().denied_most(index, plan.top);
        if most.is_empty() {
            continue;
        }
        text.push_str(&format!("\nDenied most by {name}\n"));
        let mut rows = vec![["denied", "requests", "key"].map(str::to_owned).to_vec()];
        rows.extend(most.iter().map(|counts| {
            let key = words::shortened(&readable(counts.key), width - 20);
            vec![thousands(counts.denied), thousands(counts.requests), key]
        }));
        text.push_str(&table::aligned(&rows, &[Side::Right, Side::Right, Side::Left]));
    }
    let most = rules_replay.tally().rules().map(|counts| counts.denied).max().unwrap_or(0);
    let gutter = chart::gutter(most);
    let mut columns = rules_replay.tally().over_time().columns(width - gutter - 1);
    columns.counts.truncate(names.len());
    let zone = words::zone(outcome.time.offset_secs());
    text.push('\n');
    text + &chart::draw(&names, &columns, &zone, gutter, width - gutter - 1)
}

/// The parts of a rule that a replay leaves out, by their keys in the file, and why.
pub(super) fn left_out(rule: &tollgate_rules::Rule) -> Vec<(&'static str, &'static str)> {
    let parts = [
        (
            rule.concurrency().is_some(),
            ("concurrency", "a log does not say which requests were in flight at one time"),
        ),
        (rule.bytes().is_some(), ("bytes", "it delays and denies nothing")),
        (
            rule.is_settled_by_response(),
            (
                "cost",
                "a log does not say what the response settled: each request costs its estimate",
            ),
        ),
    ];
    parts.into_iter().filter_map(|(is_there, part)| is_there.then_some(part)).collect()
}

/// Notes that limit what the figures mean.
pub(super) fn notes(rules_replay: &RulesReplay, outcome: &ReplayOutcome) -> Vec<String> {
    let requests = outcome.tally.requests();
    let mut notes = Vec::new();
    for (index, (rule, counts)) in
        rules_replay.rules().zip(rules_replay.tally().rules()).enumerate()
    {
        let name = readable(rule.name());
        if counts.not_in_log > 0 {
            let missing: Vec<&str> = counts.missing.keys().map(String::as_str).collect();
            let were = if counts.not_in_log == 1 { "was" } else { "were" };
            notes.push(format!(
                "not in this log: rule {name} needs {}: {} ({}) {were} decided without it",
                missing.join(", "),
                counted(counts.not_in_log, "request", "requests"),
                percent(counts.not_in_log, requests),
            ));
        }
        if counts.banned > 0 {
            let banned = thousands(counts.banned);
            notes.push(format!("rule {name}: {banned} of the denied by a ban"));
        }
        if counts.without_key > 0 {
            let without = thousands(counts.without_key);
            notes.push(format!("rule {name}: {without} of the denied had no key"));
        }
        if counts.unclear_path > 0 {
            let unclear = thousands(counts.unclear_path);
            notes.push(format!("rule {name}: {unclear} of the denied had an unclear path"));
        }
        for (key, why) in left_out(rule) {
            notes.push(format!("rule {name}: \"{key}\" is not replayed, since {why}"));
        }
        let keys = rules_replay.tally().keys(index);
        if keys > rule.capacity() && rule.capacity() > 1 {
            let (keys, room) = (thousands(keys), thousands(rule.capacity()));
            notes.push(format!(
                "rule {name}: {keys} keys, room for {room} at one time: a key without room was treated as \
                 the file says, as in the proxy"
            ));
        }
    }
    let not_http = rules_replay.tally().lines_not_http();
    if not_http > 0 {
        notes.push(format!(
            "no rule decided {} ({}) without a method or a target of HTTP, which the proxy answers before its rules",
            counted(not_http, "request", "requests"),
            percent(not_http, requests),
        ));
    }
    if rules_replay.named_clients() > 0 {
        notes.push(format!(
            "{} logged by name, not address: each name counts as one address",
            counted(
                rules_replay.named_clients(),
                "request has its client",
                "requests have their clients"
            ),
        ));
    }
    if rules_replay.rules().any(tollgate_rules::Rule::is_shadow) {
        notes.push(
            "a rule in shadow denies nothing: its denials are what it would have denied".into(),
        );
    }
    notes
}
