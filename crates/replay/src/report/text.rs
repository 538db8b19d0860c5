//! The report for people.

use std::fmt::Write;

use super::table::{self, Side};
use super::{chart, rules, suggest, worst_window};
use crate::log::charge::{Cost, readable};
use crate::outcome::ReplayOutcome;
use crate::plan::ReplayPlan;
use crate::words::{self, counted, percent, thousands};

/// A narrower terminal gets this width.
const WIDTH_MIN: usize = 40;
/// A wider terminal gets this width.
const WIDTH_MAX: usize = 160;

/// The report for people, on a terminal of this width.
pub fn text_report(plan: &ReplayPlan, outcome: &ReplayOutcome, width: usize) -> String {
    let width = width.clamp(WIDTH_MIN, WIDTH_MAX);
    let names = names(plan);
    let mut text = summary(plan, outcome);
    if !plan.limiters.is_empty() {
        text.push('\n');
        text.push_str(&limiters(plan, outcome, width));
    }
    if let Some(rules_replay) = &outcome.rules_replay {
        text.push('\n');
        text.push_str(&rules::section(plan, rules_replay, outcome, width));
    }
    if outcome.tally.requests() > 0 && !plan.limiters.is_empty() {
        text.push_str(&worst_window::section(plan, outcome, width));
        denied_most(&mut text, plan, outcome, &names, width);
        over_time(&mut text, outcome, &names, width);
    }
    if let Some(analysis) = &outcome.analysis
        && let Some(suggestion) = &analysis.suggestion
    {
        text.push('\n');
        text.push_str(&suggest::section(plan, analysis, suggestion, width));
    }
    let notes = wrapped_notes(plan, outcome, width);
    if !notes.is_empty() {
        text.push('\n');
        text.push_str(&notes);
    }
    text
}

/// The names of the limiters.
fn names(plan: &ReplayPlan) -> Vec<String> {
    let name = |(rule, algorithm): &(tollgate::Quota, crate::algorithm::Algorithm)| {
        format!("{rule}, {}", algorithm.name)
    };
    plan.limiters.iter().map(name).collect()
}

/// The number of requests and keys, and the time of the log.
pub(super) fn summary(plan: &ReplayPlan, outcome: &ReplayOutcome) -> String {
    let mut text = String::new();
    let ReplayOutcome { tally, time, .. } = outcome;
    let keys = counted(tally.keys(), "key", "keys");
    let key = plan.charge.key.as_given();
    add_line(
        &mut text,
        format_args!("{} by {keys} ({key})", counted(tally.requests(), "request", "requests")),
    );
    if tally.requests() == 0 {
        add_line(&mut text, format_args!("the input contains no request"));
        return text;
    }
    let (first, latest) = (time.first_unix_nanos(), time.latest_unix_nanos());
    let local = |unix_nanos: u64| {
        words::local(unix_nanos, time.offset_secs()).strftime("%Y-%m-%d %H:%M:%S")
    };
    let zone = words::zone(time.offset_secs());
    let span = words::span(latest - first);
    add_line(&mut text, format_args!("{} to {} ({zone}), {span}", local(first), local(latest)));
    if plan.charge.cost != Cost::ONE {
        add_line(&mut text, format_args!("their total cost is {} cells", thousands(tally.cost())));
    }
    text
}

/// The table of limiters.
fn limiters(plan: &ReplayPlan, outcome: &ReplayOutcome, width: usize) -> String {
    let rows = limiter_rows(plan, outcome);
    let mut sides = vec![Side::Right; rows[0].len()];
    sides[..2].fill(Side::Left);
    table::by_limiter(&rows, &sides, width)
}

/// The rows of that table, the head first.
pub(super) fn limiter_rows(plan: &ReplayPlan, outcome: &ReplayOutcome) -> Vec<Vec<String>> {
    let tally = &outcome.tally;
    let head = ["rule", "algorithm", "admitted", "denied", "denied %", "keys denied", "keys %"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let costly = plan.charge.cost != Cost::ONE;
    if costly {
        rows[0].push("cost %".to_owned());
    }
    for ((rule, algorithm), counts) in plan.limiters.iter().zip(tally.limiters()) {
        let mut row = vec![
            rule.to_string(),
            algorithm.name.to_owned(),
            thousands(counts.admitted),
            thousands(counts.denied),
            percent(counts.denied, tally.requests()),
            thousands(counts.keys_denied),
            percent(counts.keys_denied, tally.keys()),
        ];
        if costly {
            row.push(percent(counts.cost_denied, tally.cost()));
        }
        rows.push(row);
    }
    rows
}

/// For each limiter, the keys that it denied most.
fn denied_most(
    text: &mut String,
    plan: &ReplayPlan,
    outcome: &ReplayOutcome,
    names: &[String],
    width: usize,
) {
    for (index, name) in names.iter().enumerate() {
        let most = outcome.tally.denied_most(index, plan.top);
        if most.is_empty() {
            continue;
        }
        add_line(text, format_args!("\nDenied most by {name}"));
        let mut rows = vec![["denied", "requests", "key"].map(str::to_owned).to_vec()];
        rows.extend(most.iter().map(|counts| {
            let key = words::shortened(&readable(counts.key), width - 20);
            vec![thousands(counts.denied), thousands(counts.requests), key]
        }));
        text.push_str(&table::aligned(&rows, &[Side::Right, Side::Right, Side::Left]));
    }
}

fn over_time(text: &mut String, outcome: &ReplayOutcome, names: &[String], width: usize) {
    let tally = &outcome.tally;
    let most = tally.limiters().iter().map(|counts| counts.denied).max().unwrap_or(0);
    let gutter = chart::gutter(most);
    let columns_width = width - gutter - 1;
    let columns = tally.over_time().columns(columns_width);
    let zone = words::zone(outcome.time.offset_secs());
    text.push('\n');
    text.push_str(&chart::draw(names, &columns, &zone, gutter, columns_width));
}

/// Notes that limit what the figures mean, one per line.
pub(super) fn notes(plan: &ReplayPlan, outcome: &ReplayOutcome) -> String {
    wrapped_notes(plan, outcome, usize::MAX)
}

/// The notes, wrapped to this width.
fn wrapped_notes(plan: &ReplayPlan, outcome: &ReplayOutcome, width: usize) -> String {
    let names = &names(plan);
    let mut notes = String::new();
    back_in_time(&mut notes, outcome);
    unkept_options(&mut notes, plan, width);
    of_limiters(&mut notes, outcome, names, width);
    let of_rules =
        outcome.rules_replay.iter().flat_map(|rules_replay| rules::notes(rules_replay, outcome));
    let of_analysis = outcome.analysis.iter().flat_map(suggest::notes);
    for note in of_rules.chain(of_analysis) {
        notes.push_str(&words::wrapped(&note, width));
    }
    verified(&mut notes, outcome, names);
    unread(&mut notes, outcome);
    notes
}

/// The lines that are older than a line before them.
fn back_in_time(notes: &mut String, outcome: &ReplayOutcome) {
    let back = outcome.time.back();
    if back.lines > 0 {
        let lines = counted(back.lines, "line went", "lines went");
        let max = words::span(back.max_nanos);
        add_line(
            notes,
            format_args!("{lines} back in time, by at most {max}: decided at the latest time seen"),
        );
    }
}

/// The algorithms that cannot keep a rule, and those that ignore its burst.
fn unkept_options(notes: &mut String, plan: &ReplayPlan, width: usize) {
    for left_out in &plan.left_out {
        let (rule, name, why) = (left_out.rule, left_out.algorithm.name, &left_out.why);
        notes.push_str(&words::wrapped(&format!("left out: {rule}, {name}: {why}"), width));
    }
    let mut without_burst: Vec<&str> = plan
        .limiters
        .iter()
        .filter(|(rule, by)| !by.uses_burst && rule.burst_cells() != rule.limit())
        .map(|(_, by)| by.name)
        .collect();
    without_burst.sort_unstable();
    without_burst.dedup();
    if !without_burst.is_empty() {
        let names = without_burst.join(", ");
        notes.push_str(&words::wrapped(&format!("{names}: the burst is ignored"), width));
    }
}

/// The requests that each limiter delayed or could never admit, and how often its table was full.
fn of_limiters(notes: &mut String, outcome: &ReplayOutcome, names: &[String], width: usize) {
    for (name, counts) in names.iter().zip(outcome.tally.limiters()) {
        if counts.delayed > 0 {
            let requests = counted(counts.delayed, "request was", "requests were");
            let longest = words::span(words::nanos(counts.longest_delay));
            let delayed = format!("{name}: {requests} delayed, by at most {longest}");
            notes.push_str(&words::wrapped(&delayed, width));
        }
        if counts.never_fit > 0 {
            let requests = counted(counts.never_fit, "request costs", "requests cost");
            add_line(notes, format_args!("{name}: {requests} more than it ever holds"));
        }
    }
    for (name, contender) in names.iter().zip(&outcome.contenders) {
        if contender.times_full() > 0 {
            let times = counted(contender.times_full(), "time", "times");
            let keys = counted(contender.capacity(), "key", "keys");
            let advice = "raise --capacity";
            add_line(notes, format_args!("{name}: full {times} with room for {keys}: {advice}"));
        }
    }
}

/// The lines and files that could not be read.
fn unread(notes: &mut String, outcome: &ReplayOutcome) {
    let skipped = &outcome.skipped;
    if skipped.count > 0 {
        let lines = counted(skipped.count, "malformed line was", "malformed lines were");
        add_line(notes, format_args!("{lines} skipped"));
        for line in &skipped.first {
            let why = readable(&line.why);
            add_line(notes, format_args!("  {}, line {}: {why}", line.file, line.line));
        }
        let more = skipped.count - skipped.first.len() as u64;
        if more > 0 {
            add_line(notes, format_args!("  and {} more", thousands(more)));
        }
    }
    for broken in &outcome.incomplete {
        let why = &broken.why;
        add_line(
            notes,
            format_args!("INCOMPLETE: {} could not be read to its end: {why}", broken.file),
        );
    }
}

/// The outcome of `--verify`.
fn verified(notes: &mut String, outcome: &ReplayOutcome, names: &[String]) {
    let Some(total) = outcome.differences() else { return };
    let decisions = outcome.tally.requests() * names.len() as u64;
    let differences = counted(total, "difference", "differences");
    let decisions = counted(decisions, "decision", "decisions");
    add_line(
        notes,
        format_args!("verified: {differences} from the reference model in {decisions}"),
    );
    for (name, contender) in names.iter().zip(&outcome.contenders) {
        for difference in contender.differences().into_iter().flat_map(|found| &found.first) {
            add_line(notes, format_args!("  {name}: {difference}"));
        }
    }
}

/// Adds a line.
fn add_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to a String cannot fail");
}
