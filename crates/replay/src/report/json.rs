//! The report for programs: one JSON object.

use anyhow::Result;
use serde::Serialize;
use tollgate::Quota;

use super::json_parts::{self, Key, Rule, Suggested};
use crate::log::charge::readable;
use crate::outcome::ReplayOutcome;
use crate::plan::ReplayPlan;
use crate::tally::Worst;
use crate::words;

/// The largest number of columns over time.
const COLUMNS_MAX: usize = 100;

#[derive(Serialize)]
struct Report<'r> {
    requests: u64,
    keys: u64,
    key: &'r str,
    cost: u64,
    first_time: Option<String>,
    last_time: Option<String>,
    span_nanos: u64,
    /// The counts of a single limiter; absent if there are several.
    #[serde(flatten)]
    only: Option<Counts>,
    limiters: Vec<Limiter<'r>>,
    /// Algorithms that `--compare all` left out.
    left_out: Vec<LeftOut<'r>>,
    malformed: Malformed<'r>,
    back_in_time: BackInTime,
    incomplete: Vec<Incomplete<'r>>,
    /// Null unless the reference models ran.
    differences: Option<u64>,
    /// Absent without `--rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<Vec<Rule>>,
    /// All rules together, counted by `--key`. Absent without `--rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    all_rules: Option<Rule>,
    /// Lines that no rule decided, because they record no request of HTTP. Absent without `--rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_http: Option<u64>,
    /// Absent without `--suggest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<Suggested>,
}

#[derive(Clone, Serialize)]
struct Counts {
    admitted: u64,
    /// Admitted requests that were delayed.
    delayed: u64,
    longest_delay_nanos: u64,
    denied: u64,
    denied_share: f64,
    keys_denied: u64,
    keys_denied_share: f64,
    /// Denied requests that cost more than the limiter ever holds.
    never_fit: u64,
    cost_denied: u64,
    /// Null if nothing was admitted.
    worst_window: Option<WorstWindow>,
}

/// The most cells that one key was admitted within one period of the rule. The period may begin at any instant. A
/// delayed request counts from the end of its delay.
#[derive(Clone, Serialize)]
struct WorstWindow {
    cells: u64,
    /// The cells divided by the limit of the rule.
    of_limit: f64,
    period_nanos: u64,
    /// When the last of them was let through.
    end_time: String,
    key: String,
}

#[derive(Serialize)]
struct Limiter<'r> {
    rule: String,
    algorithm: &'r str,
    requests: u64,
    keys: u64,
    #[serde(flatten)]
    counts: Counts,
    /// Keys that the table has room for.
    capacity: u64,
    /// How often the table had no room for a key.
    table_full: u64,
    /// Null unless the reference model ran.
    differences: Option<u64>,
    denied_most: Vec<Key>,
    /// Null where there was no request.
    denied_over_time: Option<OverTime>,
}

/// An algorithm that cannot keep a rule.
#[derive(Serialize)]
struct LeftOut<'r> {
    rule: String,
    algorithm: &'r str,
    why: &'r str,
}

#[derive(Serialize)]
struct OverTime {
    /// The start of the first column on the log's clock.
    first_local_time: String,
    column_nanos: u64,
    denied: Vec<u64>,
}

#[derive(Serialize)]
struct Malformed<'r> {
    lines: u64,
    first: Vec<MalformedLine<'r>>,
}

#[derive(Serialize)]
struct MalformedLine<'r> {
    file: &'r str,
    line: u64,
    why: &'r str,
}

#[derive(Serialize)]
struct BackInTime {
    lines: u64,
    max_nanos: u64,
}

#[derive(Serialize)]
struct Incomplete<'r> {
    file: &'r str,
    why: &'r str,
}

/// The report for programs: one JSON object, and a line end.
///
/// # Errors
///
/// The serialisation fails, which no plan causes.
pub fn json_report(plan: &ReplayPlan, outcome: &ReplayOutcome) -> Result<String> {
    let ReplayOutcome { tally, time, skipped, .. } = outcome;
    let limiters = limiters(plan, outcome);
    let seen = tally.requests() > 0;
    let back = time.back();
    let report = Report {
        requests: tally.requests(),
        keys: tally.keys(),
        key: plan.charge.key.as_given(),
        cost: tally.cost(),
        first_time: seen.then(|| words::rfc3339(time.first_unix_nanos())),
        last_time: seen.then(|| words::rfc3339(time.latest_unix_nanos())),
        span_nanos: time.latest_unix_nanos() - time.first_unix_nanos(),
        only: match limiters.as_slice() {
            [only] => Some(only.counts.clone()),
            _ => None,
        },
        limiters,
        left_out: plan
            .left_out
            .iter()
            .map(|left_out| LeftOut {
                rule: left_out.rule.to_string(),
                algorithm: left_out.algorithm.name,
                why: &left_out.why,
            })
            .collect(),
        malformed: Malformed {
            lines: skipped.count,
            first: skipped
                .first
                .iter()
                .map(|line| MalformedLine { file: &line.file, line: line.line, why: &line.why })
                .collect(),
        },
        back_in_time: BackInTime { lines: back.lines, max_nanos: back.max_nanos },
        incomplete: outcome
            .incomplete
            .iter()
            .map(|broken| Incomplete { file: &broken.file, why: &broken.why })
            .collect(),
        differences: outcome.differences(),
        rules: outcome
            .rules_replay
            .as_ref()
            .map(|rules_replay| json_parts::rules(plan, rules_replay)),
        all_rules: outcome
            .rules_replay
            .as_ref()
            .map(|rules_replay| json_parts::all_rules(rules_replay, tally.keys())),
        not_http: outcome
            .rules_replay
            .as_ref()
            .map(|rules_replay| rules_replay.tally().lines_not_http()),
        suggestion: json_parts::suggestion(plan, outcome),
    };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

fn limiters<'r>(plan: &'r ReplayPlan, outcome: &ReplayOutcome) -> Vec<Limiter<'r>> {
    let tally = &outcome.tally;
    let columns = tally.over_time().columns(COLUMNS_MAX);
    let (requests, keys) = (tally.requests(), tally.keys());
    plan.limiters
        .iter()
        .zip(&outcome.contenders)
        .zip(tally.limiters())
        .zip(columns.counts)
        .enumerate()
        .map(|(index, ((((rule, algorithm), contender), counts), denied))| Limiter {
            rule: rule.to_string(),
            algorithm: algorithm.name,
            requests,
            keys,
            counts: Counts {
                admitted: counts.admitted,
                delayed: counts.delayed,
                longest_delay_nanos: words::nanos(counts.longest_delay),
                denied: counts.denied,
                denied_share: words::share(counts.denied, requests),
                keys_denied: counts.keys_denied,
                keys_denied_share: words::share(counts.keys_denied, keys),
                never_fit: counts.never_fit,
                cost_denied: counts.cost_denied,
                worst_window: tally.worst(index).map(|worst| worst_window(rule, worst)),
            },
            capacity: contender.capacity(),
            table_full: contender.times_full(),
            differences: contender.differences().map(|found| found.count),
            denied_most: tally.denied_most(index, plan.top).into_iter().map(Key::from).collect(),
            denied_over_time: (requests > 0).then(|| OverTime {
                first_local_time: words::clock(columns.first_local_nanos).to_string(),
                column_nanos: columns.width_nanos,
                denied,
            }),
        })
        .collect()
}

fn worst_window(rule: &Quota, worst: Worst<'_>) -> WorstWindow {
    WorstWindow {
        cells: worst.cells,
        of_limit: words::share(worst.cells, rule.limit()),
        period_nanos: words::nanos(rule.period()),
        end_time: words::rfc3339(worst.end_unix_nanos),
        key: readable(worst.key),
    }
}
