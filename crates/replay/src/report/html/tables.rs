//! The tables of the page: those of the text report.

use super::escape::escaped;
use crate::outcome::ReplayOutcome;
use crate::plan::ReplayPlan;
use crate::report::{rules, suggest, text};
use crate::rules_replay::RulesReplay;
use crate::suggest::{Analysis, Suggestion};

/// The denials of each limiter.
pub(super) fn limiters(plan: &ReplayPlan, outcome: &ReplayOutcome) -> String {
    if plan.limiters.is_empty() {
        return String::new();
    }
    let rows = text::limiter_rows(plan, outcome);
    let (head, rows) = rows.split_first().expect("a table has a head");
    table(head, rows, 2, None)
}

/// The denials of each rule.
pub(super) fn rules(rules_replay: &RulesReplay, outcome: &ReplayOutcome) -> String {
    let head = rules::HEAD.map(str::to_owned);
    table(&head, &rules::rows(rules_replay, outcome), 1, None)
}

/// The burst for each rate.
pub(super) fn rates(analysis: &Analysis, suggestion: &Suggestion) -> String {
    let head = suggest::HEAD.map(str::to_owned);
    table(&head, &suggest::rows(analysis, suggestion), 1, suggestion.best)
}

/// A table whose first `texts` columns are texts; the others are numbers.
fn table(head: &[String], rows: &[Vec<String>], texts: usize, best: Option<usize>) -> String {
    let cells = |tag: &str, row: &[String]| -> String {
        let cell = |(column, cell): (usize, &String)| {
            let class = if column < texts { " class=\"text\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(cell))
        };
        row.iter().enumerate().map(cell).collect()
    };
    let mut text = format!("<div class=\"wide\"><table>\n<tr>{}</tr>\n", cells("th", head));
    for (index, row) in rows.iter().enumerate() {
        let class = if best == Some(index) { " class=\"best\"" } else { "" };
        text.push_str(&format!("<tr{class}>{}</tr>\n", cells("td", row)));
    }
    text + "</table></div>\n"
}
