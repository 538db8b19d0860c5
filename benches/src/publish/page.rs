//! The page of all results.

use std::fmt::Write as _;

use super::losses::{Loss, losses};
use super::{bars, lines, wanted};
use crate::markdown::table;
use crate::saved::{CallsRow, Item, Saved, Section, TimedRow};
use crate::target::Target;

/// A plot of the rows of a section's tables, in a file of this name.
pub(super) fn plots(all: &[Saved]) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    for saved in all {
        for (index, section) in saved.sections.iter().enumerate() {
            let (timed, calls) = tables(section);
            if !timed.is_empty() {
                plots.push((timed_name(saved, index), bars::draw(&timed)));
            }
            if !calls.is_empty() {
                plots.push((calls_name(saved, index), lines::draw(&calls)));
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

type Titled<'a, R> = Vec<(&'a str, &'a [R])>;

fn tables(section: &Section) -> (Titled<'_, TimedRow>, Titled<'_, CallsRow>) {
    let (mut timed, mut calls) = (Vec::new(), Vec::new());
    for item in &section.items {
        match item {
            Item::Timed { title, rows } => timed.push((title.as_str(), rows.as_slice())),
            Item::Calls { title, rows } => calls.push((title.as_str(), rows.as_slice())),
            _ => {}
        }
    }
    (timed, calls)
}

/// The page, with what people wrote about the causes.
pub(super) fn page(all: &[Saved], causes: &str) -> String {
    let mut text = "# Results\n\n\
        Made by `cargo run --release -p tollgate-benches --bin report -- benches/results` from the \
        files\nbeside it, which `ci/bench.sh full` writes. [How it is measured](../README.md).\n\n\
        Less is better, but for M/s. \"over\" is a ratio of two rows, taken in each round; what \
        counts is the\nmedian. In the plots we are blue, floors are grey, and peers and locks have \
        other colours.\n\n"
        .to_owned();
    text.push_str(&wanted::section(all));
    runs(&mut text, all);
    targets(&mut text, all);
    lost(&mut text, all);
    if !causes.is_empty() {
        let _ = writeln!(text, "{}\n", causes.trim_end());
    }
    for saved in all {
        for (index, section) in saved.sections.iter().enumerate() {
            part(&mut text, saved, index, section);
        }
    }
    format!("{}\n", text.trim_end())
}

fn runs(text: &mut String, all: &[Saved]) {
    let header =
        ["bench", "begun (UTC)", "rounds", "load before", "stolen", "preempted", "machine"];
    let cells = |saved: &Saved| {
        let name = match &saved.only {
            Some(only) => format!("{} (only {only:?})", saved.bench),
            None => saved.bench.clone(),
        };
        vec![
            name,
            saved.date.clone(),
            saved.rounds.to_string(),
            format!("{:.2}", saved.noise.load_average),
            format!("{:.1} %", saved.noise.stolen_percent),
            saved.noise.preemptions.to_string(),
            saved.machine.clone(),
        ]
    };
    text.push_str("## Runs\n\n");
    text.push_str(&table("", &header, &all.iter().map(cells).collect::<Vec<_>>()));
    text.push_str(
        "\"load before\" is the load average when the bench began, \"stolen\" the share of the \
         processors that\nother guests of the host took meanwhile, \"preempted\" how often the \
         bench's first thread had to wait.\n\n",
    );
}

/// All targets, with the benches they are of.
fn all_targets(all: &[Saved]) -> impl Iterator<Item = (&Saved, &Target)> {
    all.iter().flat_map(|saved| {
        saved.items().filter_map(move |item| match item {
            Item::Target(target) => Some((saved, target)),
            _ => None,
        })
    })
}

fn targets(text: &mut String, all: &[Saved]) {
    let cells = |(saved, target): (&Saved, &Target)| {
        let quartiles = target.quartiles;
        vec![
            saved.bench.clone(),
            target.what.clone(),
            target.note.clone(),
            target.bound.sign(),
            format!("{:.2}", target.figure),
            quartiles.map_or_else(String::new, |[low, high]| format!("{low:.2} to {high:.2}")),
            target.outcome.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = all_targets(all).map(cells).collect();
    let met = all_targets(all).filter(|(_, target)| target.is_met()).count();
    let _ = writeln!(text, "## All targets\n\n{met} of {} are met.\n", rows.len());
    let header = ["bench", "target", "what", "wanted", "measured", "quartiles", ""];
    text.push_str(&table("", &header, &rows));
}

fn lost(text: &mut String, all: &[Saved]) {
    text.push_str("## Where we lose\n\n");
    let missed: Vec<_> = all_targets(all).filter(|(_, target)| !target.is_met()).collect();
    text.push_str(if missed.is_empty() { "No target is missed.\n" } else { "Targets missed:\n\n" });
    for (saved, target) in missed {
        let Target { what, note, figure, outcome, bound, .. } = target;
        let bound = bound.sign();
        let bench = &saved.bench;
        let _ = writeln!(text, "- {bench}: {what}: {figure:.2} ({bound}), {outcome}; {note}");
    }
    text.push('\n');
    let rows: Vec<Vec<String>> = all
        .iter()
        .flat_map(|saved| losses(saved).into_iter().map(|loss| lost_row(&saved.bench, &loss)))
        .collect();
    if rows.is_empty() {
        text.push_str("No peer and no lock is ahead of us in any row.\n\n");
        return;
    }
    text.push_str("Rows where a peer or a lock is ahead of us:\n\n");
    let header = ["bench", "table", "ours", "theirs", "threads", "ours", "theirs", "unit", "times"];
    text.push_str(&table("", &header, &rows));
}

fn lost_row(bench: &str, loss: &Loss) -> Vec<String> {
    vec![
        bench.to_owned(),
        loss.title.clone(),
        loss.ours.clone(),
        loss.theirs.clone(),
        loss.threads.map_or_else(String::new, |threads| threads.to_string()),
        figure(loss.our_figure),
        figure(loss.their_figure),
        loss.unit.clone(),
        format!("{:.2}", loss.our_figure / loss.their_figure),
    ]
}

/// With a decimal where that says something.
fn figure(figure: f64) -> String {
    if figure < 1_000.0 { format!("{figure:.1}") } else { format!("{figure:.0}") }
}

/// A section: its plots, its tables, and its ratios without a target.
fn part(text: &mut String, saved: &Saved, index: usize, section: &Section) {
    let title = &section.title;
    let _ = writeln!(text, "## {title}\n");
    let (timed, calls) = tables(section);
    if !timed.is_empty() {
        let _ = writeln!(text, "![{title}: bars]({})\n", timed_name(saved, index));
    }
    if !calls.is_empty() {
        let _ = writeln!(text, "![{title}: lines]({})\n", calls_name(saved, index));
    }
    let is_point = |item: &Item| matches!(item, Item::Ratio { .. } | Item::Beside { .. });
    let mut after_point = false;
    for item in section.items.iter().filter(|item| !matches!(item, Item::Target(_))) {
        if after_point && !is_point(item) {
            text.push('\n');
        }
        text.push_str(&item.markdown());
        after_point = is_point(item);
    }
    if after_point {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::{Admitted, Noise};
    use crate::target::Bound;

    fn sample(their_nanos: f64, bound: f64) -> Saved {
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
    fn a_target_missed_is_told_twice_and_a_slower_row_once() {
        let page = page(&[sample(9.0, 1.4)], "### Causes\n\nNone.\n");
        assert!(page.contains("0 of 1 are met."), "{page}");
        assert_eq!(page.matches("missed by 36 %").count(), 2, "{page}");
        let row = "| keyed | Admissions | tollgate, own clock | governor, own clock | 1 | 10.0 | 9.0 \
            | ns | 1.11 |";
        assert_eq!(page.matches(row).count(), 1, "{page}");
        assert!(page.contains("\n### Causes\n\nNone.\n\n## keyed: beside governor\n"), "{page}");
    }

    #[test]
    fn who_loses_nothing_says_so() {
        let page = page(&[sample(20.0, 1.4)], "");
        assert!(page.contains("1 of 1 are met."), "{page}");
        assert!(page.contains("No target is missed."), "{page}");
        assert!(page.contains("No peer and no lock is ahead of us"), "{page}");
    }

    #[test]
    fn every_plot_that_the_page_shows_is_drawn() {
        let mut two = sample(20.0, 1.4);
        two.bench = "two".to_owned();
        two.sections.push(two.sections[0].clone());
        let all = [sample(20.0, 1.4), two];
        let names: Vec<String> = plots(&all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["keyed.svg", "two-1.svg", "two-2.svg"]);
        let page = page(&all, "");
        assert!(names.iter().all(|name| page.contains(&format!("]({name})"))), "{page}");
    }
}
