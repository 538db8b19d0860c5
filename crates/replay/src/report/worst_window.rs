//! The worst window of each limiter, and the bound of each algorithm.

use std::time::Duration;

use super::table::{self, Side};
use crate::log::charge::readable;
use crate::outcome::ReplayOutcome;
use crate::plan::ReplayPlan;
use crate::words;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Periods that have names.
const NAMED_NANOS: [(u64, &str); 5] = [
    (SECOND, "second"),
    (60 * SECOND, "minute"),
    (3_600 * SECOND, "hour"),
    (DAY, "day"),
    (7 * DAY, "week"),
];

/// A table of the worst windows, and a table of the bounds.
pub(super) fn section(plan: &ReplayPlan, outcome: &ReplayOutcome, width: usize) -> String {
    let what = plan.unit();
    let (column, within) = match same_period(plan) {
        Some(period) => (format!("worst {period}"), format!("any {period}")),
        None => ("worst window".to_owned(), "any period of its rule".to_owned()),
    };
    let head = ["rule", "algorithm", &column, "of limit", "ended", "key"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(limiters(plan, outcome));
    let sides = [Side::Left, Side::Left, Side::Right, Side::Right, Side::Left, Side::Left];
    let worst = table::by_limiter(&rows, &sides, width);
    let bounds = table::aligned(&bounds(plan), &[Side::Left; 2]);
    format!("\nThe most {what} that one key was admitted within {within}\n{worst}\n{bounds}")
}

/// The name of the period that all rules share; `None` if they differ.
fn same_period(plan: &ReplayPlan) -> Option<String> {
    let mut periods = plan.limiters.iter().map(|(rule, _)| rule.period());
    let first = periods.next()?;
    periods.all(|period| period == first).then(|| name(first))
}

fn name(period: Duration) -> String {
    let period_nanos = words::nanos(period);
    NAMED_NANOS
        .iter()
        .find(|(nanos, _)| *nanos == period_nanos)
        .map_or_else(|| words::span(period_nanos), |(_, name)| (*name).to_owned())
}

/// One row per limiter.
fn limiters(plan: &ReplayPlan, outcome: &ReplayOutcome) -> Vec<Vec<String>> {
    let ReplayOutcome { tally, time, .. } = outcome;
    let worst: Vec<_> = (0..plan.limiters.len()).map(|index| tally.worst(index)).collect();
    let ends = || worst.iter().flatten().map(|worst| worst.end_unix_nanos);
    let local = |unix_nanos| words::local(unix_nanos, time.offset_secs());
    let first_day = local(time.first_unix_nanos()).date();
    let is_one_day =
        ends().chain([time.latest_unix_nanos()]).all(|end| local(end).date() == first_day);
    let format = match (is_one_day, ends().all(|end| end.is_multiple_of(SECOND))) {
        (true, true) => "%H:%M:%S",
        (true, false) => "%H:%M:%S%.3f",
        (false, true) => "%Y-%m-%d %H:%M:%S",
        (false, false) => "%Y-%m-%d %H:%M:%S%.3f",
    };
    plan.limiters
        .iter()
        .zip(&worst)
        .map(|((rule, algorithm), worst)| {
            let cells = worst.as_ref().map_or(0, |worst| worst.cells);
            let ended = worst.as_ref().map(|worst| local(worst.end_unix_nanos).strftime(format));
            vec![
                rule.to_string(),
                algorithm.name.to_owned(),
                words::thousands(cells),
                words::times(cells, rule.limit()),
                ended.map(|ended| ended.to_string()).unwrap_or_default(),
                worst.as_ref().map(|worst| readable(worst.key)).unwrap_or_default(),
            ]
        })
        .collect()
}

/// The bound of each algorithm, once.
fn bounds(plan: &ReplayPlan) -> Vec<Vec<String>> {
    let mut rows = vec![["algorithm", "at most"].map(str::to_owned).to_vec()];
    for (_, algorithm) in &plan.limiters {
        let row = [algorithm.name, algorithm.worst_window].map(str::to_owned).to_vec();
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_periods_have_names() {
        for (secs, text) in [(1, "second"), (60, "minute"), (900, "15 min"), (604_800, "week")] {
            assert_eq!(name(Duration::from_secs(secs)), text);
        }
    }
}
