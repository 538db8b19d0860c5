//! What the rules of a file made of a log, for people.

use super::chart;
use super::table::{self, Side};
use crate::log::charge::readable;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::rules_replay::{RuleCounts, Ruled};
use crate::words::{self, counted, percent, thousands};

/// What stands for all rules together.
pub(super) const TOGETHER: &str = "all rules";

/// The head of the table of rules.
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

/// What a rule is called: by its name, and that it is in shadow.
pub(super) fn names(ruled: &Ruled) -> Vec<String> {
    let name = |rule: &tollgate_rules::Rule| match rule.is_shadow() {
        true => format!("{} (shadow)", readable(rule.name())),
        false => readable(rule.name()),
    };
    ruled.rules().map(name).collect()
}

/// A row for each rule, and one for all of them together.
pub(super) fn rows(ruled: &Ruled, outcome: &Outcome) -> Vec<Vec<String>> {
    let (tally, all) = (ruled.tally(), &outcome.tally);
    let row = |name: &str, counts: &RuleCounts, keys: u64| {
        vec![
            name.to_owned(),
            thousands(counts.requests),
            thousands(counts.admitted),
            thousands(counts.denied),
            percent(counts.denied, counts.requests),
            thousands(counts.by_others),
            thousands(counts.keys_denied),
            percent(counts.keys_denied, keys),
            percent(counts.not_in_log, all.requests()),
        ]
    };
    let names = names(ruled);
    let rules = tally.rules().zip(&names).enumerate();
    let mut rows: Vec<_> =
        rules.map(|(index, (counts, name))| row(name, counts, tally.keys(index))).collect();
    let mut together = row(TOGETHER, tally.together(), all.keys());
    together[5].clear();
    together[8].clear();
    rows.push(together);
    rows
}

/// The table, who was hurt, and when.
pub(super) fn section(plan: &Plan, ruled: &Ruled, outcome: &Outcome, width: usize) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(self::rows(ruled, outcome));
    let mut text = table::in_two(&rows, 5, width);
    let names = names(ruled);
    if outcome.tally.requests() == 0 {
        return text;
    }
    for (index, name) in names.iter().enumerate() {
        let most = ruled.tally().denied_most(index, plan.top);
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
    let most = ruled.tally().rules().map(|counts| counts.denied).max().unwrap_or(0);
    let gutter = chart::gutter(most);
    let mut columns = ruled.tally().over_time().columns(width - gutter - 1);
    columns.counts.truncate(names.len());
    let zone = words::zone(outcome.time.offset_secs());
    text.push('\n');
    text + &chart::draw(&names, &columns, &zone, gutter, width - gutter - 1)
}

/// What a reader must know to trust the figures.
pub(super) fn notes(ruled: &Ruled, outcome: &Outcome) -> Vec<String> {
    let requests = outcome.tally.requests();
    let mut notes = Vec::new();
    for (index, (rule, counts)) in ruled.rules().zip(ruled.tally().rules()).enumerate() {
        let name = readable(rule.name());
        if counts.not_in_log > 0 {
            let missing: Vec<&str> = counts.missing.keys().map(String::as_str).collect();
            notes.push(format!(
                "not in this log: rule {name} asks for {}: {} ({}) decided without it",
                missing.join(", "),
                counted(counts.not_in_log, "request was", "requests were"),
                percent(counts.not_in_log, requests),
            ));
        }
        if counts.banned > 0 {
            let banned = thousands(counts.banned);
            notes.push(format!("rule {name}: {banned} of the denied by a ban"));
        }
        if counts.without_key > 0 {
            let without = thousands(counts.without_key);
            notes.push(format!("rule {name}: {without} of the denied for want of a key"));
        }
        let keys = ruled.tally().keys(index);
        if keys > rule.capacity() && rule.capacity() > 1 {
            let (keys, room) = (thousands(keys), thousands(rule.capacity()));
            notes.push(format!(
                "rule {name}: {keys} keys with room for {room} at one time: those that found no \
                 place were treated as the file says, here as in the proxy"
            ));
        }
    }
    if ruled.named_clients() > 0 {
        notes.push(format!(
            "{} told by name, not address: every name is taken for one address",
            counted(ruled.named_clients(), "request has its client", "requests have their clients"),
        ));
    }
    if ruled.rules().any(tollgate_rules::Rule::is_shadow) {
        notes.push(
            "a rule in shadow denies nothing: its denials are what it would have done".into(),
        );
    }
    notes
}
