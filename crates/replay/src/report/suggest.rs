//! What is suggested, for people.

use super::table;
use crate::plan::Plan;
use crate::suggest::{Basis, Candidate, Analysis, Suggestion, cells_in_a_minute};
use crate::words::{self, counted, percent, thousands};

/// The head of the table of rates.
pub(super) const HEAD: [&str; 9] =
    ["rate", "burst", "good keys", "%", "all keys", "%", "requests", "%", "for none"];

/// A row for each rate.
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
        None => row.extend(["none will do", "", "", "", "", "", ""].map(str::to_owned)),
    }
    row.push(match candidate.rate.burst(candidate.burst_for_none).validate() {
        Ok(()) => thousands(candidate.burst_for_none),
        Err(_) => "no burst".to_owned(),
    });
    row
}

/// Who is taken for well-behaved.
pub(super) fn well_behaved(analysis: &Analysis) -> String {
    let well_behaved = &analysis.well_behaved;
    let left_out = analysis.keys.saturating_sub(well_behaved.count);
    let keys = format!(
        "{} of {} taken for well-behaved",
        thousands(well_behaved.count),
        counted(analysis.keys, "key is", "keys are")
    );
    match &well_behaved.basis {
        Basis::Listed { not_in_log: 0 } => format!("{keys}, by the list"),
        Basis::Listed { not_in_log } => {
            format!("{keys}, by the list; {} more of it had no request", thousands(*not_in_log))
        }
        Basis::Inferred { .. } if left_out == 0 => format!("{keys}: none stands out"),
        Basis::Inferred { minute_cells_max, volume_cells_max } => format!(
            "{keys}; {} left out, with more than {} in a busiest minute or more than {} in all (the \
             99th percentiles)",
            thousands(left_out),
            thousands(*minute_cells_max),
            thousands(*volume_cells_max),
        ),
    }
}

/// What is suggested, and why; `None` where nothing is.
pub(super) fn verdict(plan: &Plan, suggestion: &Suggestion) -> Option<String> {
    let (quota, _) = suggestion.best()?;
    let cells = plan.unit();
    Some(format!(
        "suggested: {quota}, the one of these that lets a key have the least in any minute: at \
         most {} {cells}",
        thousands(cells_in_a_minute(&quota)),
    ))
}

/// The suggestion as a rule, for a file or for `--rule`.
pub(super) fn rule(plan: &Plan, suggestion: &Suggestion) -> Option<String> {
    let (quota, _) = suggestion.best()?;
    let parts: Vec<&str> = plan.charge.key.as_given().split('+').collect();
    let known = |part: &&str| matches!(*part, "ip" | "path" | "method" | "none");
    let written: Vec<String> = parts.iter().map(|part| format!("\"{part}\"")).collect();
    let key = match written.as_slice() {
        _ if !parts.iter().all(known) => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    };
    let key = key.map_or_else(
        || "# key = … : what stands for it in requests".to_owned(),
        |key| format!("key = {key}"),
    );
    Some(format!("[[rule]]\nname = \"suggested\"\n{key}\nlimits = \"{quota}\"\n"))
}

/// The table of rates, and the suggestion.
pub(super) fn section(plan: &Plan, analysis: &Analysis, suggestion: &Suggestion, width: usize) -> String {
    let mut text = words::wrapped(&well_behaved(analysis), width);
    let may = counted(suggestion.may_deny, "of them", "of them");
    let most = format!(
        "the smallest burst that ever denies at most {} ({may}), what it denies, and the burst that denies none of them:",
        suggestion.at_most
    );
    text.push_str(&words::wrapped(&most, width));
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(self::rows(analysis, suggestion));
    text.push('\n');
    text.push_str(&table::in_two(&rows, 6, width));
    text.push('\n');
    match (verdict(plan, suggestion), rule(plan, suggestion)) {
        (Some(verdict), Some(rule)) => {
            text.push_str(&words::wrapped(&verdict, width));
            text.push_str(&format!("\n{rule}"));
        }
        _ => text.push_str(&words::wrapped(
            "nothing is suggested: at none of these rates is there a burst that a limiter can have; \
             try a faster --rate",
            width,
        )),
    }
    text
}

/// How much of the log was looked at, where that is not all.
pub(super) fn notes(analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    let kept = analysis.kept;
    if kept.halvings > 0 {
        notes.push(format!(
            "the log is long: suggestion and heat map look at {} of 1 in {} keys",
            counted(analysis.requests, "request", "requests"),
            thousands(1 << kept.halvings.min(63)),
        ));
    }
    if kept.cut > 0 {
        notes.push(format!(
            "the log is long: suggestion and heat map do not look at the last {}",
            counted(kept.cut, "request", "requests"),
        ));
    }
    notes
}
