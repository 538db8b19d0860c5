//! The HTML report: one page with tables and SVG charts, without scripts or external resources.
//!
//! The SVG is written by hand. A plotting crate would bring fonts and a few dozen crates for four
//! charts, and could not follow the reader's light or dark theme.

mod curve;
mod escape;
mod heat;
mod over_time;
mod scale;
mod style;
mod svg;
mod tables;
mod top_keys;

use crate::outcome::ReplayOutcome;
use crate::plan::ReplayPlan;
use crate::tally::KeyCounts;
use crate::tally::timeline::Columns;

use super::{suggest, text};
use crate::words;
use escape::escaped;

/// The largest number of columns over time.
const COLUMNS_MAX: usize = 160;
/// The largest number of series with charts.
const SERIES_MAX: usize = 24;

/// A limiter, or a rule of a file.
#[derive(Debug)]
struct Series<'o> {
    name: String,
    /// The keys denied most.
    top: Vec<KeyCounts<'o>>,
}

/// The report as one self-contained HTML page with charts.
///
/// The charts need the options `html` (and `suggest`) of the plan.
pub fn html_report(plan: &ReplayPlan, outcome: &ReplayOutcome) -> String {
    let mut body = String::from("<h1>tollgate replay</h1>\n");
    for line in text::summary(plan, outcome).lines() {
        body.push_str(&format!("<p>{}</p>\n", escaped(line)));
    }
    let files: Vec<&str> = plan.inputs.iter().map(crate::log::lines::Input::name).collect();
    body.push_str(&format!("<p class=\"soft\">{}</p>\n", escaped(&files.join(", "))));
    body.push_str(&tables::limiters(plan, outcome));
    if let Some(rules_replay) = &outcome.rules_replay {
        body.push_str(&tables::rules(rules_replay, outcome));
    }
    let notes = text::notes(plan, outcome);
    if !notes.is_empty() {
        body.push_str(&format!("<pre>{}</pre>\n", escaped(&notes)));
    }
    if outcome.tally.requests() > 0 {
        suggestion(&mut body, plan, outcome);
        denials(&mut body, plan, outcome);
        grid(&mut body, outcome);
    }
    framed(&body)
}

/// Wraps the content in a page, which is well-formed XML.
fn framed(body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; \
         style-src &#39;unsafe-inline&#39;\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>tollgate replay</title>\n<style>{}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        style::STYLE
    )
}

fn suggestion(body: &mut String, plan: &ReplayPlan, outcome: &ReplayOutcome) {
    let Some(analysis) = &outcome.analysis else { return };
    let Some(suggestion) = &analysis.suggestion else { return };
    body.push_str("<h2>Suggested rate and burst</h2>\n");
    if let Some(verdict) = suggest::verdict(plan, suggestion) {
        body.push_str(&format!("<p><strong>{}</strong></p>\n", escaped(&verdict)));
    }
    body.push_str(&format!(
        "<p class=\"soft\">{}</p>\n",
        escaped(&suggest::well_behaved(analysis))
    ));
    body.push_str(&tables::rates(analysis, suggestion));
    if let Some(rule) = suggest::rule(plan, analysis, suggestion) {
        body.push_str(&format!("<pre>{}</pre>\n", escaped(&rule)));
    }
    body.push_str("<h2>Burst against well-behaved keys denied</h2>\n");
    let about =
        "One line per rate. A dot marks its smallest sufficient burst, a ring the suggestion.";
    body.push_str(&format!("<p class=\"soft\">{about}</p>\n"));
    body.push_str(&curve::chart(analysis, suggestion));
}

/// Denials over time and by key.
fn denials(body: &mut String, plan: &ReplayPlan, outcome: &ReplayOutcome) {
    let (mut series, columns) = series(plan, outcome);
    if series.is_empty() {
        return;
    }
    let more = series.len().saturating_sub(SERIES_MAX);
    series.truncate(SERIES_MAX);
    body.push_str("<h2>Denied over time</h2>\n");
    let zone = words::zone(outcome.time.offset_secs());
    match over_time::chart(&series, &columns, &zone) {
        Some(chart) => {
            body.push_str("<p class=\"soft\">Each band has its own scale.</p>\n");
            body.push_str(&chart);
        }
        None => body.push_str("<p>Nothing was denied.</p>\n"),
    }
    let (with_denials, without_denials): (Vec<_>, Vec<_>) =
        series.iter().partition(|one| !one.top.is_empty());
    if !with_denials.is_empty() && !without_denials.is_empty() {
        let names: Vec<&str> = without_denials.iter().map(|one| one.name.as_str()).collect();
        let names = escaped(&names.join("; "));
        body.push_str(&format!("<p class=\"soft\">Nothing was denied by {names}</p>\n"));
    }
    if more > 0 {
        body.push_str(&format!("<p class=\"soft\">and {more} more, without a chart</p>\n"));
    }
    if !with_denials.is_empty() {
        body.push_str("<h2>Keys denied most</h2>\n");
    }
    for one in with_denials {
        body.push_str(&format!("<h3>{}</h3>\n", escaped(&one.name)));
        body.extend(top_keys::chart(one));
    }
}

/// The series, and their denials over time in the same order.
fn series<'o>(plan: &ReplayPlan, outcome: &'o ReplayOutcome) -> (Vec<Series<'o>>, Columns) {
    if let Some(rules_replay) = &outcome.rules_replay {
        let names = super::rules::names(rules_replay).into_iter().enumerate();
        let top = |index| rules_replay.tally().denied_most(index, plan.top);
        let series = names.map(|(index, name)| Series { name, top: top(index) }).collect();
        return (series, rules_replay.tally().over_time().columns(COLUMNS_MAX));
    }
    let tally = &outcome.tally;
    let limiters = plan.limiters.iter().enumerate();
    let series = limiters.map(|(index, (rule, algorithm))| Series {
        name: format!("{rule}, {}", algorithm.name),
        top: tally.denied_most(index, plan.top),
    });
    (series.collect(), tally.over_time().columns(COLUMNS_MAX))
}

fn grid(body: &mut String, outcome: &ReplayOutcome) {
    let Some(grid) = outcome.analysis.as_ref().and_then(|analysis| analysis.grid.as_ref()) else {
        return;
    };
    body.push_str("<h2>Rate against burst</h2>\n");
    let cells = grid.rates.len() * grid.bursts.len();
    let about = format!(
        "Each of the {cells} cells is a run of the token bucket over the log, by the given key."
    );
    body.push_str(&format!("<p class=\"soft\">{about}</p>\n"));
    body.push_str(&heat::chart(grid));
}
