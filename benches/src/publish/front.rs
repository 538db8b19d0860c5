//! The measured part of the README: a few rows beside the fastest other row, including lost ones, for each
//! processor.

use super::compare::{By, limiter_of, worst};
use crate::markdown::table;
use crate::peer::GOVERNOR;
use crate::processor::short;
use crate::saved::{Item, Saved, TimedRow};

/// The marks around the part.
const BEGIN: &str = "<!-- measured -->\n";
const END: &str = "<!-- /measured -->\n";

/// The source of a row of the table.
struct Line {
    label: &'static str,
    bench: &'static str,
    title: &'static str,
}

const CRATES: &str = "versus_crates";

const LINES: [Line; 6] = [
    Line {
        label: "one bucket, 1 thread",
        bench: CRATES,
        title: "direct-admit-1: one bucket, 1 thread(s)",
    },
    Line {
        label: "1,000 keys, zipf, 1 thread",
        bench: CRATES,
        title: "1k-zipf-admit, 1000 keys, zipf 0.99, 1 thread(s)",
    },
    Line {
        label: "100,000 keys, uniform, 2 threads",
        bench: CRATES,
        title: "100k-uniform-admit, 100000 keys, uniform, 2 thread(s)",
    },
    Line {
        label: "denials, 100,000 keys, zipf, 2 threads",
        bench: CRATES,
        title: "100k-zipf-deny, 100000 keys, zipf 0.99, 2 thread(s)",
    },
    Line {
        label: "sliding log, one bucket, `allow`, 1 thread",
        bench: "versus_mutex",
        title: "log, one bucket, admitted, 1 thread(s)",
    },
    Line {
        label: "sliding log, one bucket, `allow`, 2 threads",
        bench: "versus_mutex",
        title: "log, one bucket, admitted, 2 thread(s)",
    },
];

/// Makes the part of the README from every bench of each processor.
///
/// # Errors
///
/// A figure is not among the results.
pub(super) fn part(processors: &[&[Saved]]) -> Result<String, String> {
    let mut header = vec![String::new()];
    let mut rows: Vec<Vec<String>> = LINES.iter().map(|line| vec![line.label.to_owned()]).collect();
    for all in processors {
        header.push(short_name(&find(all, CRATES)?.machine));
        for (row, line) in rows.iter_mut().zip(&LINES) {
            row.push(cell(all, line)?);
        }
    }
    let sentence = format!(
        "Median nanoseconds per decision, by each limiter's own clock, on 2 cores: first tollgate, then the fastest \
         of {GOVERNOR}, other crates, maps and locks. The lower figure is bold. [By \
         processor](benches/results/README.md), [method](benches/README.md)."
    );
    let first = processors.first().ok_or("there are no results")?;
    let table = table("", &header, &rows);
    Ok(format!("{}\n\n{table}{}\n", wrapped(&sentence), wrapped(&flooded(find(first, "flood")?)?)))
}

/// The processor's name in a few words, without its maker.
fn short_name(machine: &str) -> String {
    let name = short(machine.split(',').next().unwrap_or_default());
    name.trim_start_matches("AMD ").trim_start_matches("Intel ").to_owned()
}

fn find<'a>(all: &'a [Saved], bench: &str) -> Result<&'a Saved, String> {
    let saved = all.iter().find(|saved| saved.bench == bench);
    saved.ok_or_else(|| format!("there are no results of {bench}; run it with --save"))
}

/// Our time and that of the fastest other limiter.
fn cell(all: &[Saved], line: &Line) -> Result<String, String> {
    let missing = |what: &str| format!("{}: no {what:?} in {:?}", line.bench, line.title);
    let rows = find(all, line.bench)?.items().find_map(|item| match item {
        Item::Timed { title, rows } if title == line.title => Some(rows),
        _ => None,
    });
    let rows: &[TimedRow] = rows.ok_or_else(|| missing("table"))?;
    let pair = worst(rows, By::OwnClock).ok_or_else(|| missing("pair"))?;
    let (ours, theirs) = (pair.ours.median_nanos, pair.theirs.median_nanos);
    let least = ours.min(theirs);
    let time = |nanos: f64| match nanos <= least {
        true => format!("**{nanos:.1}**"),
        false => format!("{nanos:.1}"),
    };
    let other = described(limiter_of(&pair.theirs.name));
    Ok(format!("{}; {}, {other}", time(ours), time(theirs)))
}

/// Describes another limiter's row to a reader who has not seen the method.
fn described(limiter: &str) -> &str {
    match limiter {
        "bucket" => "an atomic word",
        "bucket in dashmap" => "a word in dashmap",
        "bucket in scc" => "a word in scc",
        "bucket in papaya" => "a word in papaya",
        "governor, ahash" => "governor",
        "64 parking_lot maps" => "64 locked maps",
        "parking_lot Mutex" | "std Mutex" => "a mutex",
        limiter => limiter,
    }
}

/// Reports the memory after the flood, and how many requests of steady keys came after an eviction of their key in
/// debt, in this flood and in that of more live keys than slots.
fn flooded(flood: &Saved) -> Result<String, String> {
    let last = flood.items().find_map(|item| match item {
        Item::Text { rows, .. } => rows.last(),
        _ => None,
    });
    let Some([keys, megabytes, ..]) = last.map(Vec::as_slice) else {
        return Err("flood: no samples".to_owned());
    };
    let (mut floods, mut asked, mut forgotten) = (0, 0, 0);
    for item in flood.items() {
        if let Item::Target(target) = item
            && target.what == "flood: steady keys denied"
        {
            let counts = steady_counts(&target.note);
            let (its, lost) = counts.ok_or_else(|| format!("flood: no counts: {}", target.note))?;
            (floods, asked, forgotten) = (floods + 1, asked + its, forgotten + lost);
        }
    }
    if floods != 2 {
        return Err(format!("flood: {floods} floods with steady keys"));
    }
    let [keys, asked, forgotten] =
        [keys, &asked.to_string(), &forgotten.to_string()].map(|number| thousands(number));
    let machine = short_name(&flood.machine);
    Ok(format!(
        "After a flood of {keys} new keys, a table for a million takes {megabytes} MB ({machine}). In two floods, \
         steady keys made {asked} requests; for {forgotten} of them, the key had been evicted while in debt."
    ))
}

/// The counts of a note such as "of 73057 requests of 1000 keys; 0 came to a bucket forgotten while in debt".
fn steady_counts(note: &str) -> Option<(u64, u64)> {
    let (asked, forgotten) = note.strip_prefix("of ")?.split_once("; ")?;
    let first = |text: &str| text.split(' ').next()?.parse().ok();
    Some((first(asked)?, first(forgotten)?))
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

/// Wraps a text into lines of at most 100 characters, unless a word is longer.
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

/// Replaces the part between the marks of a page.
///
/// # Errors
///
/// The page does not have exactly one pair of marks.
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
    use crate::saved::Section;
    use crate::saved::tests::sample;
    use crate::target::{Bound, Target};

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
    fn forgotten_debts_of_all_floods_are_counted() {
        let steady = |note: &str| {
            Item::Target(Target::new(
                "flood: steady keys denied",
                0.0,
                None,
                Bound::AtMost(0.0),
                note,
            ))
        };
        let samples = Item::Text {
            title: String::new(),
            header: vec!["unique keys".to_owned(), "RSS MB".to_owned()],
            rows: [["5000000", "18.0"], ["20000000", "18.1"]]
                .map(|row| row.map(str::to_owned).to_vec())
                .to_vec(),
        };
        let first =
            steady("of 73057 requests of 1000 keys; 2 came to a bucket forgotten while in debt");
        let second =
            steady("of 3815 requests of 1000 keys; 1 came to a bucket forgotten while in debt");
        let flood = |items: Vec<Item>| Saved {
            machine: "AMD EPYC, family 25, model 17".to_owned(),
            sections: vec![Section { title: "flood".to_owned(), items }],
            ..sample()
        };
        let text = flooded(&flood(vec![samples.clone(), first.clone(), second])).expect("counts");
        assert!(text.contains("20,000,000 new keys") && text.contains("takes 18.1 MB ("), "{text}");
        assert!(text.contains("made 76,872 requests; for 3 of them"), "{text}");
        assert!(flooded(&flood(vec![samples.clone(), first])).is_err(), "one flood");
        assert!(flooded(&flood(vec![samples, steady("none")])).is_err(), "no counts");
    }

    #[test]
    fn a_missing_figure_is_an_error_and_no_empty_cell() {
        assert!(part(&[&[]]).is_err_and(|error| error.contains("versus_crates")));
        assert!(part(&[]).is_err());
    }
}
