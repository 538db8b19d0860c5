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

const fn worst(
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
const USUAL: &str = "own clock, beside governor and the lock";

const FLOOR: &str = "one bucket, admitted, over its floor";
const FEW: &str = "1,000 keys, zipf 0.99, admitted, 1 thread";
const FEW_FLOOR: &str = "1,000 keys, zipf 0.99, admitted, over the floor";
const HOT: &str = "one hot key, admitted, 2 threads";
const HOT_LEASES: &str = "one hot key, admitted, 2 threads, leases";
const HOT_ALGORITHMS: &str = "one hot key of each algorithm, admitted, 2 threads, leases of 64";
const TEN: &str = "10,000,000 keys, uniform, admitted, batch of 16 beside one by one";
const SKETCH: &str = "the same beside pingora's sketch";
const FLOOD: &str = "flood of unique keys";
const LOCKS: &str = "beside the best mutex, every row but those of the next line";
const HOT_LOCKS: &str = "beside the best mutex, one hot key or bucket, denied, 2 threads";
const RINGS: &str = "rings beside std's mutex, every row but those of the next two lines";
const RING_LOGS: &str = "rings beside std's mutex, log, admitted";
const HOT_RINGS: &str = "rings beside std's mutex, one hot key or bucket, denied, 2 threads";

/// Ours compared with others, as the line says.
const LINES: [Line; 39] = [
    line(
        "one bucket, admitted, 1 thread",
        USUAL,
        CRATES,
        "direct-admit-1, beside governor and the lock",
    ),
    line(
        "one bucket, denied, 1 thread",
        USUAL,
        CRATES,
        "direct-deny-1, beside governor and the lock",
    ),
    line(
        "one bucket, admitted, 2 threads",
        USUAL,
        CRATES,
        "direct-admit-2, beside governor and the lock",
    ),
    line(
        "one bucket, denied, 2 threads",
        USUAL,
        CRATES,
        "direct-deny-2, beside governor and the lock",
    ),
    line(FLOOR, OWN, "decision", "direct admit, own clock"),
    line(FLOOR, "time given", "decision", "direct admit, time given"),
    line(FEW, USUAL, CRATES, "1k-zipf-admit, beside governor and the lock"),
    line(
        "1,000 keys, zipf 0.99, denied, 1 thread",
        USUAL,
        CRATES,
        "1k-zipf-deny, beside governor and the lock",
    ),
    line(FEW_FLOOR, OWN, "keyed", "keyed, 1,000 keys, zipf, 1 thread, over the floor, own clock"),
    line(
        FEW_FLOOR,
        "time given",
        "keyed",
        "keyed, 1,000 keys, zipf, 1 thread, over the floor, time given",
    ),
    line(
        "100,000 keys, uniform, admitted, 2 threads",
        USUAL,
        CRATES,
        "100k-uniform-admit, beside governor and the lock",
    ),
    line(
        "100,000 keys, zipf 0.99, denied, 2 threads",
        USUAL,
        CRATES,
        "100k-zipf-deny, beside governor and the lock",
    ),
    line(
        "1,000,000 keys, uniform, admitted, 2 threads",
        USUAL,
        CRATES,
        "1m-uniform-admit, beside governor and the lock",
    ),
    line(
        "1,000,000 keys, one isolated check",
        USUAL,
        CRATES,
        "isolated-1m, beside governor and the lock",
    ),
    line("1,000,000 keys, one cold check", USUAL, CRATES, "cold-1m, beside governor and the lock"),
    line(HOT, USUAL, CRATES, "hot-key-admit, beside governor and the lock"),
    line(
        "one hot key, denied, 2 threads",
        USUAL,
        CRATES,
        "hot-key-deny, beside governor and the lock",
    ),
    worst(
        "one hot key, admitted, 2 to 8 threads",
        "own clock, beside the lock",
        "contention",
        1.5,
        "",
    ),
    worst(
        "one hot key, denied, 2 to 8 threads",
        "own clock, beside the lock",
        "contention",
        3.0,
        "",
    ),
    line(HOT_LEASES, OWN, CRATES, "hot-key-admit, leases, own clock"),
    line(HOT_LEASES, "coarse clock", CRATES, "hot-key-admit, leases, coarse clock"),
    line(
        HOT_LEASES,
        GIVEN,
        CRATES,
        "hot-key-admit, leases, time given (the peer reads its own clock)",
    ),
    worst(HOT_ALGORITHMS, "both clocks, beside the lock", "levers", 8.0, "hot keys leased"),
    line(TEN, OWN, CRATES, "10m-uniform-admit, batch of 16"),
    line(TEN, "own clock, huge pages", CRATES, "10m-uniform-admit, batch of 16, huge pages"),
    line(SKETCH, OWN, CRATES, "10m-uniform-admit, batch of 16, beside the sketch"),
    line(
        SKETCH,
        "own clock, huge pages",
        CRATES,
        "10m-uniform-admit, batch of 16, huge pages, beside the sketch",
    ),
    line(
        "a new key",
        "own clock, millions a second",
        "flood",
        "flood: new keys a second, millions",
    ),
    line(
        FLOOD,
        "slow calls beside the scheduler's",
        "flood",
        "flood: slow calls beside the scheduler's",
    ),
    line(
        FLOOD,
        "slow calls beside those of memory",
        "flood",
        "flood: slow calls beside those of memory",
    ),
    line(FLOOD, "steady keys denied", "flood", "flood: steady keys denied"),
    line(FLOOD, "memory at the end over that after 5 M", "flood", "flood: resident memory"),
    line(FLOOD, "throughput beside scc, swept", CRATES, "flood: throughput beside scc"),
    line("granted of a burst of 100", "8 threads", CRATES, "over-grants, 8 threads"),
    worst(LOCKS, "both clocks", "versus_mutex", 1.0, "versus_mutex"),
    worst(HOT_LOCKS, "both clocks", "versus_mutex", 3.0, "versus_mutex"),
    worst(RINGS, OWN, "rings", 1.0, "under a lock"),
    worst(RING_LOGS, OWN, "rings", 0.9, "under a lock"),
    worst(HOT_RINGS, OWN, "rings", 3.0, "under a lock"),
];

/// The section, with a row for each target. The row of a target that was not run says so.
pub(super) fn section(all: &[Saved]) -> String {
    let rows: Vec<Vec<String>> = LINES.iter().map(|line| cells(all, line)).collect();
    let header = ["what", "how", "wanted", "measured", "quartiles", "", "rows"];
    let table = table("", &header, &rows);
    format!(
        "## Targets\n\nA ratio of times, the other's over ours, unless the row says otherwise. Where a row \
         covers many\ntargets, the worst is shown. A target that was not run is younger than these results, or \
         one of `ci/bench.sh full`.\n\n{table}"
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
        count if count == met => format!("all {count} met"),
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
            sections.flat_map(targets).filter(|target| target.what == name).collect()
        }
        Figure::Worst { least, section: text } => sections
            .filter(|section| section.title.contains(text))
            .flat_map(targets)
            .filter(|target| target.bound == Bound::AtLeast(least))
            .filter(|target| line.how != OWN || target.note.contains(OWN))
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
        let target = at_least("isolated-1m, beside governor and the lock", 2.5, 2.0);
        let text = section(&[saved(CRATES, "one", vec![target.clone()])]);
        let row = "the lock | ≥ 2 | 2.50 |  | met | a over b |";
        assert_eq!((text.matches(row).count(), text.matches("| met |").count()), (1, 1), "{text}");
        let text = section(&[saved("another", "one", vec![target])]);
        assert_eq!(text.matches("| met |").count(), 0, "{text}");
    }

    #[test]
    fn of_several_targets_of_one_name_the_worst_is_shown() {
        let at_most = |figure| {
            let what = "flood: slow calls beside those of memory";
            Target::new(what, figure, None, Bound::AtMost(1.3), "one over the other")
        };
        let shown =
            |figures: [f64; 2]| section(&[saved("flood", "flood", figures.map(at_most).to_vec())]);
        let text = shown([0.8, 3.9]);
        assert!(text.contains("| 3.90 |  | 1 of 2 met; the worst missed by 200 % |"), "{text}");
        let text = shown([0.8, 1.1]);
        assert!(text.contains("| 1.10 |  | all 2 met |"), "{text}");
    }

    #[test]
    fn of_many_rows_the_worst_is_shown() {
        let own = |what: &str, figure: f64, least: f64| Target {
            note: "a, own clock".to_owned(),
            ..at_least(what, figure, least)
        };
        let given = at_least("w", 0.1, 1.0);
        let targets = vec![own("x", 1.5, 1.0), own("y", 0.8, 1.0), own("z", 4.0, 3.0), given];
        let text = section(&[saved("rings", "rings: beside limiters under a lock", targets)]);
        let worst = "| 0.80 |  | 1 of 2 met; the worst missed by 20 % | y: a, own clock |";
        assert!(text.contains(worst), "{text}");
        assert!(text.contains("| 4.00 |  | met | z: a, own clock |"), "{text}");
    }
}
