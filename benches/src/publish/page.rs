//! The page of one processor: what was aimed at, twelve questions, five plots, and where tollgate loses.
//! `report --tables` prints everything else.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::causes::{anchor, cause};
use super::compare::{By, Pair, worst};
use super::full::{figure, targets};
use super::losses::{Loss, Side, losses, sides};
use super::{goals, lines, questions, ratios};
use crate::markdown::table;
use crate::saved::{CallsRow, Item, Saved, Section, TimedRow};

/// The tables that the page shows in full, by the beginnings of their titles: what is granted, and processes.
const WHOLE: [&str; 3] = ["forgets: ", "over-grants: ", "processes: "];
/// The number of comparisons that are listed for each bench, by their worst loss; of times, and of the rest.
const WORST: usize = 4;

/// A plot of the page: a section of a bench.
struct Plot {
    file: &'static str,
    bench: &'static str,
    /// A part of the section's title.
    section: &'static str,
    draws: Draws,
    caption: &'static str,
}

/// The rows of a plot.
enum Draws {
    /// Each comparison with others, as the ratio of times.
    Ratios,
    /// How long single calls took.
    Calls,
}

const PLOTS: [Plot; 5] = [
    Plot {
        file: "versus_crates.svg",
        bench: "versus_crates",
        section: "versus crates",
        draws: Draws::Ratios,
        caption: "Beside the fastest other crate, map or bare word",
    },
    Plot {
        file: "versus_mutex.svg",
        bench: "versus_mutex",
        section: "the same algorithms under locks",
        draws: Draws::Ratios,
        caption: "Each algorithm beside the same one under the best of several locks",
    },
    Plot {
        file: "contention.svg",
        bench: "contention",
        section: "contention",
        draws: Draws::Ratios,
        caption: "Several threads, one table; of 1 to 8 threads the worst",
    },
    Plot {
        file: "latency.svg",
        bench: "latency",
        section: "latency",
        draws: Draws::Calls,
        caption: "Single calls while one thread or two only ask",
    },
    Plot {
        file: "flood.svg",
        bench: "flood",
        section: "flood",
        draws: Draws::Calls,
        caption: "Single calls while unique keys pour through a table of a million",
    },
];

impl Plot {
    /// The drawing, if the bench was run.
    fn draw(&self, all: &[Saved]) -> Option<String> {
        let saved = all.iter().filter(|saved| saved.bench == self.bench);
        let mut sections = saved.flat_map(|saved| &saved.sections);
        let section = sections.find(|section| section.title.contains(self.section))?;
        match self.draws {
            Draws::Ratios => {
                let compared = compared(section);
                (!compared.is_empty()).then(|| ratios::draw(&compared))
            }
            Draws::Calls => {
                let calls = calls(section);
                (!calls.is_empty()).then(|| lines::draw(&calls))
            }
        }
    }
}

/// The tables of a section with rows of others: the worst ratio by the own clock and with the time given.
fn compared(section: &Section) -> Vec<ratios::Line<'_>> {
    let timed = section.items.iter().filter_map(|item| match item {
        Item::Timed { title, rows } if sides(rows).contains(&Side::Theirs) => Some((title, rows)),
        _ => None,
    });
    let times = |rows: &[TimedRow], by| worst(rows, by).as_ref().map(Pair::times);
    timed
        .map(|(title, rows)| {
            (title.as_str(), [By::OwnClock, By::TimeGiven].map(|by| times(rows, by)))
        })
        .collect()
}

fn calls(section: &Section) -> Vec<(&str, &[CallsRow])> {
    let calls = section.items.iter().filter_map(|item| match item {
        Item::Calls { title, rows } => Some((title.as_str(), rows.as_slice())),
        _ => None,
    });
    calls.collect()
}

/// The plots of a processor's page: the name and the content of each file.
pub(super) fn plots(all: &[Saved]) -> Vec<(String, String)> {
    PLOTS.iter().filter_map(|plot| Some((plot.file.to_owned(), plot.draw(all)?))).collect()
}

/// The page of the processor whose results are in the folder of this name.
pub(super) fn page(folder: &str, all: &[Saved]) -> String {
    let machine = all.first().map_or("", |saved| saved.machine.as_str());
    let mut text = format!(
        "# Results: {machine}\n\n\
         Made from the JSON files beside this page; no figure is typed. [Method](../../README.md). \
         A ratio is\ntaken in each round, and the median counts.\n\n\
         ```sh\n\
         cargo run --release -p tollgate-benches --bin report -- benches/results\n\
         cargo run --release -p tollgate-benches --bin report -- benches/results --tables {folder}/keyed\n\
         ```\n\n\
         The first command makes this page and its plots, the second prints every table of a bench.\n\n"
    );
    text.push_str(&goals::section(all));
    text.push_str(&questions::section(all));
    whole(&mut text, all);
    text.push_str("## Plots\n\n");
    for Plot { file, caption, .. } in PLOTS.iter().filter(|plot| plot.draw(all).is_some()) {
        let _ = writeln!(text, "{caption}:\n\n![{caption}]({file})\n");
    }
    lost(&mut text, all);
    runs(&mut text, all);
    format!("{}\n", text.trim_end())
}

/// Over-grants of limiters, to threads that race and to keys that were forgotten; and limiters of several
/// processes.
fn whole(text: &mut String, all: &[Saved]) {
    let mut items = all.iter().flat_map(Saved::items).peekable();
    while let Some(item) = items.next() {
        let Item::Text { title, header, rows } = item else { continue };
        if !WHOLE.iter().any(|name| title.starts_with(name)) {
            continue;
        }
        let _ = writeln!(text, "## {}\n", capitalised(title));
        text.push_str(&table("", header, rows));
        if let Some(Item::Note { text: note }) = items.peek() {
            let _ = writeln!(text, "{note}\n");
        }
    }
}

/// With a capital at the beginning.
fn capitalised(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn runs(text: &mut String, all: &[Saved]) {
    let header =
        ["bench", "begun (UTC)", "commit", "rounds", "load", "stolen", "preempted", "targets met"];
    let cells = |saved: &Saved| {
        let name = match &saved.only {
            Some(only) => format!("{} (only {only:?})", saved.bench),
            None => saved.bench.clone(),
        };
        let met = targets(saved).filter(|target| target.is_met()).count();
        vec![
            name,
            saved.date.clone(),
            saved.commit.clone(),
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
        let mut titles = HashSet::new();
        lost.retain(|loss| titles.insert(loss.title.clone()));
        let (times, others): (Vec<_>, Vec<_>) =
            lost.iter().partition(|loss| loss.unit.starts_with("ns"));
        let worst = times.into_iter().take(WORST).chain(others.into_iter().take(WORST));
        rows.extend(worst.map(|loss| lost_row(&saved.bench, loss)));
    }
    if rows.is_empty() {
        text.push_str("No other row is ahead of ours.\n\n");
        return;
    }
    let _ = writeln!(
        text,
        "Another row is ahead of one of ours {count} times. These are the {WORST} comparisons of each bench \
         in which\nit is furthest ahead.\n"
    );
    let header = ["bench", "comparison", "ours", "other", "ours", "other", "unit", "times", "why"];
    text.push_str(&table("", &header, &rows));
}

fn times(loss: &Loss) -> f64 {
    loss.our_figure / loss.their_figure
}

fn lost_row(bench: &str, loss: &Loss) -> Vec<String> {
    let why = cause(bench, loss).map_or_else(
        || "not known".to_owned(),
        |heading| format!("[{heading}](../causes.md#{})", anchor(heading)),
    );
    vec![
        bench.to_owned(),
        loss.title.clone(),
        loss.ours.clone(),
        loss.theirs.clone(),
        figure(loss.our_figure),
        figure(loss.their_figure),
        loss.unit.clone(),
        format!("{:.2}", times(loss)),
        why,
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::publish::compare::tests::row;
    use crate::saved::Noise;
    use crate::target::{Bound, Target};

    pub(crate) fn sample(their_nanos: f64, bound: f64) -> Saved {
        let rows =
            vec![row("tollgate, own clock", 1, 10.0), row("governor, own clock", 1, their_nanos)];
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
            commit: "abc".to_owned(),
            seconds: 1,
            rounds: 3,
            only: None,
            noise: Noise::default(),
            sections: vec![Section { title: "keyed: beside governor".to_owned(), items }],
        }
    }

    #[test]
    fn a_slower_row_is_listed_as_lost() {
        let page = page("a", &[sample(9.0, 1.4)]);
        assert!(page.contains("# Results: a machine\n"), "{page}");
        let run = "| keyed | 2026-01-02 03:04 | abc | 3 | 0.00 | 0.0 % | 0 | 0 of 1 |";
        assert!(page.contains(run), "{page}");
        let lost = "| keyed | Admissions | tollgate, own clock | governor, own clock | 10.0 | 9.0 | \
            ns | 1.11 | not known |";
        assert_eq!(page.matches(lost).count(), 1, "{page}");
    }

    #[test]
    fn a_page_without_losses_says_so() {
        let page = page("a", &[sample(20.0, 1.4)]);
        assert!(page.contains("| 1 of 1 |"), "{page}");
        assert!(page.contains("No other row is ahead of ours."), "{page}");
    }

    #[test]
    fn the_page_tells_what_was_granted_with_the_note_below_it() {
        let mut saved = sample(20.0, 1.4);
        let rows = vec![vec!["a".to_owned(), "7".to_owned()]];
        let header = ["limiter", "cells"].map(str::to_owned).to_vec();
        let items = &mut saved.sections[0].items;
        items.push(Item::Text { title: "forgets: keys".to_owned(), header, rows });
        items.push(Item::Note { text: "The columns.".to_owned() });
        let page = page("a", &[saved]);
        let text =
            "## Forgets: keys\n\n| limiter | cells |\n|---|---:|\n| a | 7 |\n\nThe columns.\n";
        assert!(page.contains(text), "{page}");
    }

    #[test]
    fn the_page_shows_every_plot_that_is_drawn() {
        let contention = Saved { bench: "contention".to_owned(), ..sample(20.0, 1.4) };
        let section =
            Section { title: "contention: threads".to_owned(), ..contention.sections[0].clone() };
        let all = [sample(20.0, 1.4), Saved { sections: vec![section], ..contention }];
        let names: Vec<String> = plots(&all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["contention.svg"]);
        let page = page("a", &all);
        assert_eq!(page.matches(".svg)").count(), 1, "{page}");
        assert!(page.contains("](contention.svg)"), "{page}");
    }
}
