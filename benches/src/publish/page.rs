//! The page of one processor: the targets, the rows in which tollgate loses, and a line for each comparison.
//! `report --tables` prints all other tables.

use std::fmt::Write as _;

use super::compare::{By, Pair, limiter_of, worst};
use super::full::{figure, targets};
use super::losses::{Loss, Side, losses, sides};
use super::{bars, goals, lines, ratios};
use crate::markdown::table;
use crate::saved::{CallsRow, Item, SHOWN, Saved, Section, TimedRow};

/// A section with more than `MANY_COMPARISONS` lists only those that tollgate loses, at most `MANY_LOST`.
const MANY_COMPARISONS: usize = 10;
const MANY_LOST: usize = 12;
/// A table of text with more rows than this is printed by `--tables` only.
const MANY_ROWS: usize = 14;
/// A section of our own rows is a plot. With more rows than `MANY_BARS` it is a table; with more columns than
/// `MANY_COLUMNS`, only the columns of one clock are shown.
const MANY_BARS: usize = 40;
const MANY_COLUMNS: usize = 9;
/// The number of worst losses that are listed for each bench.
const WORST: usize = 2;

/// The plots of a processor's page: the name and the content of each file.
pub(super) fn plots(all: &[Saved]) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    for saved in all {
        for (index, section) in saved.sections.iter().enumerate() {
            let parts = Parts::of(section);
            if let Some(plot) = parts.timed_plot() {
                plots.push((timed_name(saved, index), plot));
            }
            if !parts.calls.is_empty() {
                plots.push((calls_name(saved, index), lines::draw(&parts.calls)));
            }
        }
    }
    plots
}

fn timed_name(saved: &Saved, index: usize) -> String {
    match saved.sections.len() {
        1 => format!("{}.svg", saved.bench),
        _ => format!("{}-{}.svg", saved.bench, index + 1),
    }
}

fn calls_name(saved: &Saved, index: usize) -> String {
    timed_name(saved, index).replace(".svg", "-calls.svg")
}

/// The tables of a section, by their kind.
struct Parts<'a> {
    timed: Vec<(&'a str, &'a [TimedRow])>,
    calls: Vec<(&'a str, &'a [CallsRow])>,
}

/// A comparison: its title, and the worst pairs with the own clock and with the time given.
type Compared<'a> = (&'a str, [Option<Pair<'a>>; 2]);

impl<'a> Parts<'a> {
    fn of(section: &'a Section) -> Self {
        let (mut timed, mut calls) = (Vec::new(), Vec::new());
        for item in &section.items {
            match item {
                Item::Timed { title, rows } => timed.push((title.as_str(), rows.as_slice())),
                Item::Calls { title, rows } => calls.push((title.as_str(), rows.as_slice())),
                _ => {}
            }
        }
        Self { timed, calls }
    }

    /// The tables with rows of others.
    fn compared(&self) -> Vec<Compared<'a>> {
        let beside = self.timed.iter().filter(|(_, rows)| sides(rows).contains(&Side::Theirs));
        beside
            .map(|(title, rows)| (*title, [By::OwnClock, By::TimeGiven].map(|by| worst(rows, by))))
            .collect()
    }

    fn timed_plot(&self) -> Option<String> {
        let compared = self.compared();
        if !compared.is_empty() {
            let times = |pair: &Option<Pair<'_>>| pair.as_ref().map(Pair::times);
            let lines: Vec<ratios::Line<'_>> = compared
                .iter()
                .map(|(title, [own, given])| (*title, [times(own), times(given)]))
                .collect();
            return Some(ratios::draw(&lines));
        }
        let bars = self.timed.iter().flat_map(|(_, rows)| *rows).count();
        (1..=MANY_BARS).contains(&bars).then(|| bars::draw(&self.timed))
    }
}

/// The page of the processor whose results are in the folder of this name.
pub(super) fn page(folder: &str, all: &[Saved]) -> String {
    let machine = all.first().map_or("", |saved| saved.machine.as_str());
    let mut text = format!(
        "# Results: {machine}\n\n\
         Made from the JSON files beside this page; no figure is typed. [Method](../../README.md). \
         [Causes of\nwhat is lost](../causes.md).\n\n\
         ```sh\n\
         cargo run --release -p tollgate-benches --bin report -- benches/results\n\
         cargo run --release -p tollgate-benches --bin report -- benches/results --tables {folder}/keyed\n\
         ```\n\n\
         The first command writes this page and its plots, the second prints every table of a bench. \
         A ratio\nis taken in each round, and the median counts.\n\n"
    );
    text.push_str(&goals::section(all));
    runs(&mut text, all);
    lost(&mut text, all);
    for saved in all {
        for (index, section) in saved.sections.iter().enumerate() {
            part(&mut text, saved, index, section);
        }
    }
    format!("{}\n", text.trim_end())
}

fn runs(text: &mut String, all: &[Saved]) {
    let header = ["bench", "begun (UTC)", "rounds", "load", "stolen", "preempted", "targets met"];
    let cells = |saved: &Saved| {
        let name = match &saved.only {
            Some(only) => format!("{} (only {only:?})", saved.bench),
            None => saved.bench.clone(),
        };
        let met = targets(saved).filter(|target| target.is_met()).count();
        vec![
            name,
            saved.date.clone(),
            saved.rounds.to_string(),
            format!("{:.2}", saved.noise.load_average),
            format!("{:.1} %", saved.noise.stolen_percent),
            saved.noise.preemptions.to_string(),
            format!("{met} of {}", targets(saved).count()),
        ]
    };
    text.push_str("## Runs\n\n");
    text.push_str(&table("", &header, &all.iter().map(cells).collect::<Vec<_>>()));
    text.push_str(
        "*load*: the load average when the bench began. *stolen*: the processor time that other \
         guests of the\nhost took. *preempted*: how often the bench's first thread had to wait.\n\n",
    );
}

fn lost(text: &mut String, all: &[Saved]) {
    text.push_str("## Where tollgate loses\n\n");
    let mut rows = Vec::new();
    let mut count = 0;
    for saved in all {
        let mut lost = losses(saved);
        count += lost.len();
        lost.sort_by(|a, b| times(b).total_cmp(&times(a)));
        rows.extend(lost.iter().take(WORST).map(|loss| lost_row(&saved.bench, loss)));
    }
    if rows.is_empty() {
        text.push_str("No other row is ahead of ours.\n\n");
        return;
    }
    let _ = writeln!(
        text,
        "Another row is ahead of ours in {count} comparisons; these are the worst {WORST} of each \
         bench.\n"
    );
    let header = ["bench", "comparison", "ours", "other", "ours", "other", "unit", "times"];
    text.push_str(&table("", &header, &rows));
}

fn times(loss: &Loss) -> f64 {
    loss.our_figure / loss.their_figure
}

fn lost_row(bench: &str, loss: &Loss) -> Vec<String> {
    vec![
        bench.to_owned(),
        loss.title.clone(),
        loss.ours.clone(),
        loss.theirs.clone(),
        figure(loss.our_figure),
        figure(loss.their_figure),
        loss.unit.clone(),
        format!("{:.2}", times(loss)),
    ]
}

/// A section: its plots, and a line for each comparison.
fn part(text: &mut String, saved: &Saved, index: usize, section: &Section) {
    let title = &section.title;
    let parts = Parts::of(section);
    let has_plot = parts.timed_plot().is_some();
    let _ = writeln!(text, "## {title}");
    if has_plot {
        let _ = writeln!(text, "![{title}]({})\n", timed_name(saved, index));
    }
    let compared = parts.compared();
    if !compared.is_empty() {
        beside(text, &compared);
    } else if !has_plot {
        our_rows(text, &parts);
    }
    if !parts.calls.is_empty() {
        let _ = writeln!(text, "![{title}: calls]({})\n", calls_name(saved, index));
        calls(text, &parts);
    }
    for item in &section.items {
        match item {
            Item::Text { title, header, rows }
                if rows.len() <= MANY_ROWS && parts.calls.is_empty() =>
            {
                text.push_str(&table(title, header, rows));
            }
            _ => {}
        }
    }
}

/// Writes the comparisons with others: all of them, or of many, those that are lost.
fn beside(text: &mut String, compared: &[Compared<'_>]) {
    let least = |(_, pairs): &Compared<'_>| {
        pairs.iter().flatten().map(Pair::times).fold(f64::INFINITY, f64::min)
    };
    let mut shown: Vec<&Compared<'_>> = compared.iter().collect();
    if compared.len() > MANY_COMPARISONS {
        shown.retain(|comparison| least(comparison) < 1.0);
        shown.sort_by(|a, b| least(a).total_cmp(&least(b)));
        shown.truncate(MANY_LOST);
    }
    if shown.len() < compared.len() {
        let [own, given] = [0, 1].map(|by| {
            let pairs = compared.iter().filter_map(|(_, pairs)| pairs[by].as_ref());
            let mut all: Vec<f64> = pairs.map(Pair::times).collect();
            all.sort_by(f64::total_cmp);
            let ahead = all.iter().filter(|times| **times >= 1.0).count();
            let median = all.get(all.len() / 2).copied().unwrap_or(f64::NAN);
            format!("{ahead} of {} (median ratio {median:.2})", all.len())
        });
        let _ = writeln!(
            text,
            "tollgate is not behind in {own} by the own clock, and in {given} with the time given. \
             The worst of the others:\n"
        );
    }
    if shown.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = shown
        .into_iter()
        .map(|(title, pairs)| {
            let mut cells = vec![(*title).to_owned()];
            cells.extend(pairs.iter().flat_map(cells_of));
            cells
        })
        .collect();
    let header = ["ns a decision", "own clock", "fastest other", "ratio", "time given"];
    let header = [&header[..], &["fastest other", "ratio"]].concat();
    text.push_str(&table("", &header, &rows));
}

/// Our figure, the other's, and the ratio, in bold if the other is ahead.
fn cells_of(pair: &Option<Pair<'_>>) -> [String; 3] {
    let Some(pair) = pair else { return Default::default() };
    let cell = |row: &TimedRow| {
        let threads = match row.threads {
            _ if !row.name.contains("thread(s)") => String::new(),
            1 => ", 1 thread".to_owned(),
            threads => format!(", {threads} threads"),
        };
        format!("{:.1} {}{threads}", row.median_nanos, limiter_of(&row.name))
    };
    let times = pair.times();
    let ratio = if times < 1.0 { format!("**{times:.2}**") } else { format!("{times:.2}") };
    [cell(pair.ours), cell(pair.theirs), ratio]
}

/// Writes the tables of our own rows: a line for each table, and a column for each row. Tables whose rows
/// have the same names are merged.
fn our_rows(text: &mut String, parts: &Parts<'_>) {
    let mut tables: Vec<(Vec<&str>, Vec<Vec<String>>)> = Vec::new();
    for (title, rows) in &parts.timed {
        let by_own_clock = |row: &&TimedRow| row.name.contains("own clock");
        let is_narrow = rows.len() <= MANY_COLUMNS || !rows.iter().any(|row| by_own_clock(&row));
        let columns: Vec<&TimedRow> =
            rows.iter().filter(|row| is_narrow || by_own_clock(row)).collect();
        let names: Vec<&str> = columns
            .iter()
            .map(|row| if is_narrow { row.name.as_str() } else { without_clock(&row.name) })
            .collect();
        let mut line = vec![(*title).to_owned()];
        line.extend(columns.iter().map(|row| format!("{:.1}", row.median_nanos)));
        match tables.last_mut() {
            Some((last, lines)) if *last == names => lines.push(line),
            _ => tables.push((names, vec![line])),
        }
    }
    for (names, lines) in tables {
        let mut header = vec!["ns a decision"];
        header.extend(names);
        text.push_str(&table("", &header, &lines));
    }
}

/// A row's name without its clock.
fn without_clock(name: &str) -> &str {
    name.split_once(", own clock").map_or(name, |(limiter, _)| limiter)
}

fn calls(text: &mut String, parts: &Parts<'_>) {
    let mut header = vec!["ns a call".to_owned()];
    header.extend(SHOWN.map(|percent| format!("p{percent}")));
    header.extend(["slowest", "over 100 µs"].map(str::to_owned));
    let mut rows = Vec::new();
    for (title, calls) in &parts.calls {
        for row in calls.iter().filter(|row| !row.name.starts_with("control")) {
            let mut cells = vec![format!("{title}: {}", row.name)];
            cells.extend(SHOWN.map(|percent| row.nanos(percent).unwrap_or(0).to_string()));
            cells.extend([row.max_nanos, row.slow].map(|number| number.to_string()));
            rows.push(cells);
        }
    }
    text.push_str(&table("", &header, &rows));
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::saved::{Admitted, Noise};
    use crate::target::{Bound, Target};

    pub(crate) fn sample(their_nanos: f64, bound: f64) -> Saved {
        let row = |name: &str, nanos: f64| TimedRow {
            name: name.to_owned(),
            threads: 1,
            median_nanos: nanos,
            quartiles_nanos: [nanos, nanos],
            millions_per_second: 1_000.0 / nanos,
            admitted: Some(Admitted { count: 5, of: 5 }),
        };
        let rows = vec![row("tollgate, own clock", 10.0), row("governor, own clock", their_nanos)];
        let figure = their_nanos / 10.0;
        let bound = Bound::AtLeast(bound);
        let items = vec![
            Item::Timed { title: "Admissions".to_owned(), rows },
            Item::Target(Target::new("faster", figure, None, bound, "theirs over ours")),
        ];
        Saved {
            bench: "keyed".to_owned(),
            machine: "a machine".to_owned(),
            date: "2026-01-02 03:04".to_owned(),
            rounds: 3,
            only: None,
            noise: Noise::default(),
            sections: vec![Section { title: "keyed: beside governor".to_owned(), items }],
        }
    }

    #[test]
    fn a_slower_row_is_listed_as_lost_and_its_ratio_is_bold() {
        let page = page("a", &[sample(9.0, 1.4)]);
        assert!(page.contains("# Results: a machine\n"), "{page}");
        assert!(
            page.contains("| keyed | 2026-01-02 03:04 | 3 | 0.00 | 0.0 % | 0 | 0 of 1 |"),
            "{page}"
        );
        let lost = "| keyed | Admissions | tollgate, own clock | governor, own clock | 10.0 | 9.0 | \
            ns | 1.11 |";
        assert_eq!(page.matches(lost).count(), 1, "{page}");
        let line = "| Admissions | 10.0 tollgate | 9.0 governor | **0.90** |  |  |  |";
        assert_eq!(page.matches(line).count(), 1, "{page}");
    }

    #[test]
    fn a_page_without_losses_says_so() {
        let page = page("a", &[sample(20.0, 1.4)]);
        assert!(page.contains("| 1 of 1 |"), "{page}");
        assert!(page.contains("No other row is ahead of ours."), "{page}");
    }

    #[test]
    fn of_many_comparisons_those_that_are_lost_are_listed() {
        let mut many = sample(20.0, 1.4);
        let lost = sample(9.0, 1.4).sections[0].items[0].clone();
        let items = &mut many.sections[0].items;
        items.extend(vec![items[0].clone(); MANY_COMPARISONS]);
        items.push(lost);
        let page = page("a", &[many]);
        assert!(page.contains("11 of 12 (median ratio 2.00) by the own clock"), "{page}");
        assert_eq!(page.matches("| Admissions | 10.0 tollgate |").count(), 1, "{page}");
    }

    #[test]
    fn every_plot_that_the_page_shows_is_drawn() {
        let mut two = sample(20.0, 1.4);
        two.bench = "two".to_owned();
        two.sections.push(two.sections[0].clone());
        let all = [sample(20.0, 1.4), two];
        let names: Vec<String> = plots(&all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["keyed.svg", "two-1.svg", "two-2.svg"]);
        let page = page("a", &all);
        assert!(names.iter().all(|name| page.contains(&format!("]({name})"))), "{page}");
    }
}
