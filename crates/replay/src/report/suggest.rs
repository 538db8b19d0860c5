//! What is suggested, for people.

use super::table;
use crate::plan::Plan;
use crate::suggest::{How, Rung, Study, Suggestion, cells_in_a_minute};
use crate::words::{self, counted, percent, thousands};

/// The head of the table of rates.
pub(super) const HEAD: [&str; 9] =
    ["rate", "burst", "good keys", "%", "all keys", "%", "requests", "%", "for none"];

/// A row for each rate.
pub(super) fn rows(study: &Study, suggestion: &Suggestion) -> Vec<Vec<String>> {
    suggestion.rungs.iter().map(|rung| row(study, rung)).collect()
}

fn row(study: &Study, rung: &Rung) -> Vec<String> {
    let mut row = vec![rung.rate.to_string()];
    match &rung.found {
        Some((quota, denied)) => {
            row.push(thousands(quota.burst_cells()));
            for (part, whole) in [
                (denied.good, study.good.count),
                (denied.keys, study.keys),
                (denied.requests, study.requests),
            ] {
                row.extend([thousands(part), percent(part, whole)]);
            }
        }
        None => row.extend(["none will do", "", "", "", "", "", ""].map(str::to_owned)),
    }
    row.push(match rung.rate.burst(rung.burst_for_none).validate() {
        Ok(()) => thousands(rung.burst_for_none),
        Err(_) => "no burst".to_owned(),
    });
    row
}

/// Who is taken for well-behaved.
pub(super) fn good(study: &Study) -> String {
    let good = &study.good;
    let left_out = study.keys.saturating_sub(good.count);
    let keys = format!(
        "{} of {} taken for well-behaved",
        thousands(good.count),
        counted(study.keys, "key is", "keys are")
    );
    match &good.how {
        How::Listed { not_in_log: 0 } => format!("{keys}, by the list"),
        How::Listed { not_in_log } => {
            format!("{keys}, by the list; {} more of it had no request", thousands(*not_in_log))
        }
        How::Inferred { .. } if left_out == 0 => format!("{keys}: none stands out"),
        How::Inferred { minute_cells_max, volume_cells_max } => format!(
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
pub(super) fn section(plan: &Plan, study: &Study, suggestion: &Suggestion, width: usize) -> String {
    let mut text = words::wrapped(&good(study), width);
    let may = counted(suggestion.may_deny, "of them", "of them");
    let most = format!(
        "the smallest burst that ever denies at most {} ({may}), what it denies, and the burst that denies none of them:",
        suggestion.at_most
    );
    text.push_str(&words::wrapped(&most, width));
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(self::rows(study, suggestion));
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
pub(super) fn notes(study: &Study) -> Vec<String> {
    let mut notes = Vec::new();
    let kept = study.kept;
    if kept.halvings > 0 {
        notes.push(format!(
            "the log is long: suggestion and heat map look at {} of 1 in {} keys",
            counted(study.requests, "request", "requests"),
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
