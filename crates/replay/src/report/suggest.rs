//! The text report of a suggestion.

use super::table;
use crate::plan::ReplayPlan;
use crate::suggest::{Analysis, Basis, Candidate, Suggestion, cells_in_a_minute};
use crate::words::{self, counted, percent, thousands};

/// The head of the table of rates.
pub(super) const HEAD: [&str; 9] =
    ["rate", "burst", "well-behaved", "%", "keys", "%", "requests", "%", "for none"];

/// One row per rate.
pub(super) fn rows(analysis: &Analysis, suggestion: &Suggestion) -> Vec<Vec<String>> {
    suggestion.candidates.iter().map(|candidate| row(analysis, candidate)).collect()
}

fn row(analysis: &Analysis, candidate: &Candidate) -> Vec<String> {
    let mut row = vec![candidate.rate.to_string()];
    match &candidate.found {
        Some((quota, denied)) => {
            row.push(thousands(quota.burst_cells()));
            for (part, whole) in [
                (denied.well_behaved, analysis.well_behaved.count),
                (denied.keys, analysis.keys),
                (denied.requests, analysis.requests),
            ] {
                row.extend([thousands(part), percent(part, whole)]);
            }
        }
        None => row.extend(["none possible", "", "", "", "", "", ""].map(str::to_owned)),
    }
    row.push(match candidate.rate.burst(candidate.burst_for_none).validate() {
        Ok(()) => thousands(candidate.burst_for_none),
        Err(_) => "no burst".to_owned(),
    });
    row
}

/// The number of keys that count as well-behaved, and how they were chosen.
pub(super) fn well_behaved(analysis: &Analysis) -> String {
    let well_behaved = &analysis.well_behaved;
    let left_out = analysis.keys.saturating_sub(well_behaved.count);
    let keys = format!(
        "{} of {} well-behaved",
        thousands(well_behaved.count),
        counted(analysis.keys, "key is", "keys are")
    );
    match &well_behaved.basis {
        Basis::Listed { not_in_log: 0 } => format!("{keys}, by the list"),
        Basis::Listed { not_in_log } => {
            format!(
                "{keys}, by the list; {} more keys of the list had no request",
                thousands(*not_in_log)
            )
        }
        Basis::Inferred { .. } if left_out == 0 => format!("{keys}: none stands out"),
        Basis::Inferred { minute_cells_max, volume_cells_max } => format!(
            "{keys}; {} left out, with more than {} in the busiest minute or more than {} in total (the \
             99th percentiles)",
            thousands(left_out),
            thousands(*minute_cells_max),
            thousands(*volume_cells_max),
        ),
    }
}

/// The suggestion and its reason; `None` if there is none.
pub(super) fn verdict(plan: &ReplayPlan, suggestion: &Suggestion) -> Option<String> {
    let (quota, _) = suggestion.best()?;
    let cells = plan.unit();
    Some(format!(
        "suggested: {quota}, which of these admits the least to a key in any minute: at most {} \
         {cells}",
        thousands(cells_in_a_minute(&quota)),
    ))
}

/// The suggestion as a rule of a rules file, which counts what the replay counted.
pub(super) fn rule(
    plan: &ReplayPlan,
    analysis: &Analysis,
    suggestion: &Suggestion,
) -> Option<String> {
    let (quota, _) = suggestion.best()?;
    let parts: Vec<&str> = plan.charge.key.as_given().split('+').collect();
    let known = |part: &&str| matches!(*part, "ip" | "path" | "method" | "none");
    let written: Vec<String> = parts.iter().map(|part| format!("\"{part}\"")).collect();
    let key = match written.as_slice() {
        _ if !parts.iter().all(known) => {
            "# key = … : the part of a request that has this value".to_owned()
        }
        [only] => format!("key = {only}"),
        several => format!("key = [{}]", several.join(", ")),
    };
    let prefix = match analysis.has_ipv6 && plan.charge.key.has_address() {
        true => "ipv6_prefix = 128 # as counted here: each IPv6 address by itself\n",
        false => "",
    };
    let cost = plan.charge.cost.of_rule().map_or_else(String::new, |cost| format!("{cost}\n"));
    Some(format!("[[rule]]\nname = \"suggested\"\n{key}\n{prefix}{cost}limits = \"{quota}\"\n"))
}

/// The table of rates, and the suggestion.
pub(super) fn section(
    plan: &ReplayPlan,
    analysis: &Analysis,
    suggestion: &Suggestion,
    width: usize,
) -> String {
    let mut text = words::wrapped(&well_behaved(analysis), width);
    let may = counted(suggestion.may_deny, "key", "keys");
    let most = format!(
        "the smallest burst that denies at most {} of them ({may}), what it denies, and the burst that denies none of them:",
        suggestion.at_most
    );
    text.push_str(&words::wrapped(&most, width));
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(self::rows(analysis, suggestion));
    text.push('\n');
    text.push_str(&table::in_two(&rows, 6, width));
    text.push('\n');
    match (verdict(plan, suggestion), rule(plan, analysis, suggestion)) {
        (Some(verdict), Some(rule)) => {
            text.push_str(&words::wrapped(&verdict, width));
            text.push_str(&format!("\n{rule}"));
        }
        _ => text.push_str(&words::wrapped(
            "no suggestion: at none of these rates does a limiter have a large enough burst; try a \
             faster --rate",
            width,
        )),
    }
    text
}

/// How much of the log was examined, if not all of it.
pub(super) fn notes(analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    let kept = analysis.kept;
    if kept.halvings > 0 {
        let requests = counted(analysis.requests, "request", "requests");
        let one_in = thousands(1 << kept.halvings.min(63));
        let of = match analysis.well_behaved.basis {
            Basis::Listed { .. } => format!("all keys of the list and of 1 in {one_in} others"),
            Basis::Inferred { .. } => format!("1 in {one_in} keys"),
        };
        notes.push(format!("the log is long: suggestion and heat map use {requests} of {of}"));
    }
    if kept.cut > 0 {
        notes.push(format!(
            "the log is long: suggestion and heat map ignore the last {}",
            counted(kept.cut, "request", "requests"),
        ));
    }
    notes
}
