//! The measured part of the front page: one table, of what its rows are called in the results.

use crate::markdown::table;
use crate::peer::GOVERNOR;
use crate::saved::{Item, Saved, TimedRow};

/// Around the part.
const BEGIN: &str = "<!-- measured -->\n";
const END: &str = "<!-- /measured -->\n";

/// Where a row of the table comes from.
struct Line {
    label: &'static str,
    bench: &'static str,
    title: &'static str,
    /// The rows' names, for each column; empty for none.
    names: [&'static str; 4],
}

const FLOOR: &str = "hash, a word of the key's own, CAS";
const NAMES: [&str; 4] =
    [FLOOR, "tollgate, time given", "tollgate, own clock", "governor, own clock"];

const LINES: [Line; 5] = [
    Line {
        label: "one bucket",
        bench: "decision",
        title: "Decisions",
        names: ["CAS loop", "admit, time given", "admit, own clock", ""],
    },
    Line {
        label: "1,000 keys, zipf 0.99, 1 thread",
        bench: "keyed",
        title: "Admissions, 1000 keys, zipf 0.99, 1 thread(s)",
        names: NAMES,
    },
    Line {
        label: "100,000 keys, uniform, 2 threads",
        bench: "keyed",
        title: "Admissions, 100000 keys, uniform, 2 thread(s)",
        names: NAMES,
    },
    Line {
        label: "denying, 100,000 keys, zipf 0.99, 2 threads",
        bench: "keyed",
        title: "Denials, 100000 keys, zipf 0.99, 2 thread(s)",
        names: ["", NAMES[1], NAMES[2], NAMES[3]],
    },
    Line {
        label: "1,000,000 keys, uniform, 1 thread",
        bench: "keyed",
        title: "Admissions, 1000000 keys, uniform, 1 thread(s)",
        names: NAMES,
    },
];

/// The part of the front page that the results make.
///
/// # Errors
///
/// Where a figure is not among the results, or they come from several machines.
pub(super) fn part(all: &[Saved]) -> Result<String, String> {
    let [decision, keyed, flood] = ["decision", "keyed", "flood"].map(|bench| find(all, bench));
    let (decision, keyed, flood) = (decision?, keyed?, flood?);
    let machine = &decision.machine;
    if [keyed, flood].into_iter().any(|saved| saved.machine != *machine) {
        return Err("decision, keyed and flood were not run on one machine".to_owned());
    }
    let sentence = format!(
        "Nanoseconds a decision, median of {} rounds, beside {GOVERNOR} and beside the least it \
         could cost (a hash and one compare-and-swap); {machine}, Linux, {}. Method: \
         [benches/README.md](benches/README.md). Spread, more rows, plots and where we lose: \
         [benches/results](benches/results/README.md).",
        keyed.rounds, keyed.date
    );
    let rows: Result<Vec<Vec<String>>, String> =
        LINES.iter().map(|line| cells(all, line)).collect();
    let header =
        ["", "floor", "tollgate, time given", "tollgate, own clock", "governor, own clock"];
    let table = table("", &header, &rows?);
    Ok(format!("{}\n\n{table}{}\n", wrapped(&sentence), wrapped(&flooded(flood)?)))
}

fn find<'a>(all: &'a [Saved], bench: &str) -> Result<&'a Saved, String> {
    let saved = all.iter().find(|saved| saved.bench == bench);
    saved.ok_or_else(|| format!("there are no results of {bench}; run it with --save"))
}

fn cells(all: &[Saved], line: &Line) -> Result<Vec<String>, String> {
    let missing = |what: &str| format!("{}: no {what:?} in {:?}", line.bench, line.title);
    let rows = find(all, line.bench)?.items().find_map(|item| match item {
        Item::Timed { title, rows } if title == line.title => Some(rows),
        _ => None,
    });
    let rows: &[TimedRow] = rows.ok_or_else(|| missing("table"))?;
    let mut cells = vec![line.label.to_owned()];
    for name in line.names {
        let row = rows.iter().find(|row| row.name == name);
        cells.push(match (row, name) {
            (Some(row), _) => format!("{:.1}", row.median_nanos),
            (None, "") => String::new(),
            (None, _) => return Err(missing(name)),
        });
    }
    Ok(cells)
}

/// What the flood did to memory, and to those who behaved.
fn flooded(flood: &Saved) -> Result<String, String> {
    let last = flood.items().find_map(|item| match item {
        Item::Text { rows, .. } => rows.last(),
        _ => None,
    });
    let steady = flood.items().find_map(|item| match item {
        Item::Target(target) if target.what == "flood: steady keys denied" => Some(target),
        _ => None,
    });
    let (Some([keys, megabytes, ..]), Some(steady)) = (last.map(Vec::as_slice), steady) else {
        return Err("flood: no samples, or no steady keys".to_owned());
    };
    let asked = steady.note.split_whitespace().nth(1).unwrap_or_default();
    let [keys, asked, denied] = [keys, asked, &format!("{:.0}", steady.figure)].map(thousands);
    Ok(format!(
        "A flood of {keys} new keys through a table of a million leaves memory at {megabytes} MB; \
         of {asked} requests of well-behaved keys, {denied} were denied meanwhile."
    ))
}

/// A whole number with commas.
fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In lines of at most 100 characters, where words are not longer.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("one line at least");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// The page with another part between its marks.
///
/// # Errors
///
/// Where there is not one pair of marks.
pub(super) fn replaced(page: &str, part: &str) -> Result<String, String> {
    let halves = |text: &str, mark: &str| -> Option<(String, String)> {
        let (before, after) = text.split_once(mark)?;
        (!after.contains(mark)).then(|| (before.to_owned(), after.to_owned()))
    };
    let around = halves(page, BEGIN).and_then(|(before, rest)| Some((before, halves(&rest, END)?)));
    let Some((before, (_, after))) = around else {
        return Err(format!(
            "the front page needs one pair of {} and {}",
            BEGIN.trim(),
            END.trim()
        ));
    };
    Ok(format!("{before}{BEGIN}\n{part}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_between_the_marks_is_replaced_and_nothing_else() {
        let page = "a\n<!-- measured -->\nold\n<!-- /measured -->\nb\n";
        let once = replaced(page, "new\n").expect("marks");
        assert_eq!(once, "a\n<!-- measured -->\n\nnew\n\n<!-- /measured -->\nb\n");
        assert_eq!(replaced(&once, "new\n"), Ok(once));
    }

    #[test]
    fn without_one_pair_of_marks_nothing_is_replaced() {
        let marks = [
            "",
            "<!-- measured -->\n",
            "<!-- /measured -->\n<!-- measured -->\n",
            "<!-- measured -->\n<!-- measured -->\n<!-- /measured -->\n",
            "<!-- measured -->\n<!-- /measured -->\n<!-- /measured -->\n",
        ];
        for page in marks {
            assert!(replaced(page, "new\n").is_err(), "{page:?}");
        }
    }

    #[test]
    fn numbers_and_lines_are_easy_to_read() {
        assert_eq!(
            ["7", "100", "1000", "50000000"].map(thousands),
            ["7", "100", "1,000", "50,000,000"]
        );
        let text = wrapped(&"word ".repeat(50));
        assert!(text.lines().all(|line| line.len() <= 100) && text.lines().count() == 3, "{text}");
        assert_eq!(text.split_whitespace().count(), 50);
    }

    #[test]
    fn a_missing_figure_is_an_error_and_no_empty_cell() {
        assert!(part(&[]).is_err_and(|error| error.contains("decision")));
    }
}
