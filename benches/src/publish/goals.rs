//! The project's targets, in one table. Each target is found in the results by its name.

use crate::markdown::table;
use crate::saved::{Item, Saved, Section};
use crate::target::{Bound, Target};

/// The source of a row of the table.
struct Line {
    what: &'static str,
    how: &'static str,
    bench: &'static str,
    figure: Figure,
}

enum Figure {
    /// The target of this name.
    Of(&'static str),
    /// The worst of all targets with this lower bound, in sections whose title contains the text.
    Worst { least: f64, section: &'static str },
}

const fn line(
    what: &'static str,
    how: &'static str,
    bench: &'static str,
    target: &'static str,
) -> Line {
    Line { what, how, bench, figure: Figure::Of(target) }
}

const fn locks(
    what: &'static str,
    how: &'static str,
    bench: &'static str,
    least: f64,
    section: &'static str,
) -> Line {
    Line { what, how, bench, figure: Figure::Worst { least, section } }
}

const CRATES: &str = "versus_crates";
const OWN: &str = "own clock";
const GIVEN: &str = "time given; the peer reads its own clock";
const BOTH: &str = "time given to both";

const ONE_BUCKET: &str = "one bucket, admitted, 1 thread";
const FLOOR: &str = "one bucket, admitted, over its floor";
const FEW: &str = "1,000 keys, zipf 0.99, admitted, 1 thread";
const MANY: &str = "100,000 keys, uniform, admitted, 2 threads";
const DENIED: &str = "100,000 keys, zipf 0.99, denied, 2 threads";
const MILLION: &str = "1,000,000 keys, uniform, admitted, 2 threads";
const TEN: &str = "10,000,000 keys, uniform, admitted, batch of 16 beside one by one";
const SKETCH: &str = "the same beside pingora's sketch";
const FLOOD: &str = "flood of 50,000,000 keys";
const HOT: &str = "one hot key, admitted, 2 threads, leases";
const LOCKS: &str = "beside the best mutex, every row but those of the next line";
const HOT_LOCKS: &str = "beside the best mutex, one hot key or bucket, denied, 2 threads";
const RINGS: &str = "rings beside std's mutex, every row but those of the next line";
const HOT_RINGS: &str = "rings beside std's mutex, one hot key or bucket, denied, 2 threads";

/// Ours compared with the best exact peer, unless the line says otherwise.
const LINES: [Line; 26] = [
    line(ONE_BUCKET, OWN, CRATES, "direct-admit-1, own clock"),
    line(ONE_BUCKET, BOTH, CRATES, "direct-admit-1, time given to both"),
    line(FLOOR, OWN, "decision", "direct admit, own clock"),
    line(FLOOR, "time given", "decision", "direct admit, time given"),
    line(FEW, OWN, CRATES, "1k-zipf-admit, own clock"),
    line(FEW, GIVEN, CRATES, "1k-zipf-admit, time given (the peer reads its own clock)"),
    line(MANY, OWN, CRATES, "100k-uniform-admit, own clock"),
    line(MANY, GIVEN, CRATES, "100k-uniform-admit, time given (the peer reads its own clock)"),
    line(DENIED, OWN, CRATES, "100k-zipf-deny, own clock"),
    line(DENIED, GIVEN, CRATES, "100k-zipf-deny, time given (the peer reads its own clock)"),
    line(MILLION, OWN, CRATES, "1m-uniform-admit, own clock"),
    line(MILLION, GIVEN, CRATES, "1m-uniform-admit, time given (the peer reads its own clock)"),
    line(TEN, OWN, CRATES, "10m-uniform-admit, batch of 16"),
    line(TEN, "own clock, huge pages", CRATES, "10m-uniform-admit, batch of 16, huge pages"),
    line(SKETCH, OWN, CRATES, "10m-uniform-admit, batch of 16, beside the sketch"),
    line(
        SKETCH,
        "own clock, huge pages",
        CRATES,
        "10m-uniform-admit, batch of 16, huge pages, beside the sketch",
    ),
    line(FLOOD, "throughput beside scc swept", CRATES, "flood of 50 M: throughput"),
    line(FLOOD, "memory at the end over at a fifth", CRATES, "flood of 50 M: resident memory"),
    line("1,000,000 keys, one isolated cold check", OWN, CRATES, "isolated-1m, own clock"),
    line(HOT, OWN, CRATES, "hot-key-admit, leases, own clock"),
    line(HOT, "coarse clock", CRATES, "hot-key-admit, leases, coarse clock"),
    line(HOT, GIVEN, CRATES, "hot-key-admit, leases, time given (the peer reads its own clock)"),
    locks(LOCKS, "both clocks", "versus_mutex", 1.0, "versus_mutex"),
    locks(HOT_LOCKS, "both clocks", "versus_mutex", 3.0, "versus_mutex"),
    locks(RINGS, "both clocks", "rings", 1.0, "under a lock"),
    locks(HOT_RINGS, "both clocks", "rings", 3.0, "under a lock"),
];

/// The section, with a row for each target. The row of a target that was not run says so.
pub(super) fn section(all: &[Saved]) -> String {
    let rows: Vec<Vec<String>> = LINES.iter().map(|line| cells(all, line)).collect();
    let header = ["what", "how", "wanted", "measured", "quartiles", "", "rows"];
    let table = table("", &header, &rows);
    format!(
        "## Targets\n\nA ratio of times, ours below the fastest exact other's, unless the row says \
         otherwise. Where a row\ncovers many targets, the worst is shown.\n\n{table}"
    )
}

fn cells(all: &[Saved], line: &Line) -> Vec<String> {
    let (what, how) = (line.what.to_owned(), line.how.to_owned());
    let empty = String::new;
    let targets = found(all, line);
    let ratio = |target: &Target| match target.bound {
        Bound::AtMost(_) => -target.figure,
        Bound::AtLeast(_) => target.figure,
    };
    let worst = targets.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let Some(worst) = worst else {
        return vec![what, how, empty(), empty(), empty(), "not run".to_owned(), empty()];
    };
    let met = targets.iter().filter(|target| target.is_met()).count();
    let outcome = match targets.len() {
        1 => worst.outcome.clone(),
        count => format!("{met} of {count} met; the worst {}", worst.outcome),
    };
    let rows = match line.figure {
        Figure::Of(_) => worst.note.clone(),
        Figure::Worst { .. } => format!("{}: {}", worst.what, worst.note),
    };
    let quartiles =
        worst.quartiles.map_or_else(empty, |[low, high]| format!("{low:.2} to {high:.2}"));
    let measured = format!("{:.2}", worst.figure);
    vec![what, how, worst.bound.sign(), measured, quartiles, outcome, rows]
}

fn found<'a>(all: &'a [Saved], line: &Line) -> Vec<&'a Target> {
    let sections = all.iter().filter(|saved| saved.bench == line.bench);
    let targets = |section: &'a Section| {
        section.items.iter().filter_map(|item| match item {
            Item::Target(target) => Some(target),
            _ => None,
        })
    };
    let sections = sections.flat_map(|saved| &saved.sections);
    match line.figure {
        Figure::Of(name) => {
            sections.flat_map(targets).filter(|target| target.what == name).take(1).collect()
        }
        Figure::Worst { least, section: text } => sections
            .filter(|section| section.title.contains(text))
            .flat_map(targets)
            .filter(|target| target.bound == Bound::AtLeast(least))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::tests::sample;

    fn saved(bench: &str, title: &str, targets: Vec<Target>) -> Saved {
        let items = targets.into_iter().map(Item::Target).collect();
        let sections = vec![Section { title: title.to_owned(), items }];
        Saved { bench: bench.to_owned(), sections, ..sample() }
    }

    fn at_least(what: &str, figure: f64, least: f64) -> Target {
        Target::new(what, figure, None, Bound::AtLeast(least), "a over b")
    }

    #[test]
    fn a_target_that_was_not_run_says_so() {
        assert_eq!(section(&[]).matches("| not run |").count(), LINES.len());
    }

    #[test]
    fn a_target_is_found_by_its_bench_and_its_name() {
        let target = at_least("isolated-1m, own clock", 2.5, 2.0);
        let text = section(&[saved(CRATES, "one", vec![target.clone()])]);
        let row = "own clock | ≥ 2 | 2.50 |  | met | a over b |";
        assert_eq!((text.matches(row).count(), text.matches("| met |").count()), (1, 1), "{text}");
        let text = section(&[saved("another", "one", vec![target])]);
        assert_eq!(text.matches("| met |").count(), 0, "{text}");
    }

    #[test]
    fn of_many_rows_the_worst_is_shown() {
        let targets =
            vec![at_least("x", 1.5, 1.0), at_least("y", 0.8, 1.0), at_least("z", 4.0, 3.0)];
        let text = section(&[saved("rings", "rings: beside limiters under a lock", targets)]);
        assert!(text.contains("| 0.80 |  | 1 of 2 met; the worst missed by 20 % | y: a over b |"));
        assert!(text.contains("| 4.00 |  | met | z: a over b |"), "{text}");
    }
}
