//! The twelve figures that people ask for, of tollgate and of every other limiter.

use super::compare::{By, limiter_of};
use super::losses::is_ours;
use crate::markdown::table;
use crate::saved::{Item, Saved};

/// A question, and where its answers are.
struct Question {
    what: &'static str,
    answers: Answers,
}

enum Answers {
    /// Rows with their own clock, in the comparison of this name.
    Timed(&'static str),
    /// A column of the table whose title begins so, in the rows that have this cell in another column.
    Text { title: &'static str, column: &'static str, only: Only },
}

/// The rows of a table that count.
#[derive(Clone, Copy)]
enum Only {
    /// Those with this cell in this column.
    With(&'static str, &'static str),
    /// Those with another cell in this column.
    Without(&'static str, &'static str),
}

const fn timed(what: &'static str, case: &'static str) -> Question {
    Question { what, answers: Answers::Timed(case) }
}

const fn text(
    what: &'static str,
    title: &'static str,
    column: &'static str,
    only: Only,
) -> Question {
    Question { what, answers: Answers::Text { title, column, only } }
}

const BENCH: &str = "versus_crates";

const QUESTIONS: [Question; 12] = [
    timed("one bucket, admitted, 1 thread", "direct-admit-1"),
    timed("one bucket, denied, 1 thread", "direct-deny-1"),
    timed("1,000 keys, zipf 0.99, admitted, 1 thread", "1k-zipf-admit"),
    timed("1,000 keys, zipf 0.99, denied, 1 thread", "1k-zipf-deny"),
    timed("100,000 keys, uniform, admitted, 2 threads", "100k-uniform-admit"),
    timed("100,000 keys, zipf 0.99, denied, 2 threads", "100k-zipf-deny"),
    timed("1,000,000 keys, uniform, admitted, 2 threads", "1m-uniform-admit"),
    timed("one hot key, admitted, 2 threads", "hot-key-admit"),
    timed("one hot key, denied, 2 threads", "hot-key-deny"),
    timed("1,000,000 keys, one isolated check", "isolated-1m"),
    text(
        "a new key in a flood, the median call, timer included",
        "flood",
        "p50 ns",
        Only::Without("kept small by", "nothing"),
    ),
    text(
        "bytes for one of 1,000,000 live keys",
        "memory",
        "resident",
        Only::With("keys", "1000000"),
    ),
];

/// The section: the questions as a list, and a row of answers for each limiter.
pub(super) fn section(all: &[Saved]) -> String {
    let mut text = "## Twelve questions\n\n\
        Nanoseconds a decision by each limiter's own clock; 12 is in bytes. With 2 threads, wall time times \
        two.\nThe least of a column is bold. An empty cell: no such call, or not run. \
        [The rows](../../peers/README.md#rows).\n\n"
        .to_owned();
    for (index, Question { what, .. }) in QUESTIONS.iter().enumerate() {
        text.push_str(&format!("{}. {what}\n", index + 1));
    }
    text.push('\n');
    let answers: Vec<Vec<(&str, f64)>> =
        QUESTIONS.iter().map(|question| answers(all, &question.answers)).collect();
    let numbers: Vec<String> = (1..=QUESTIONS.len()).map(|number| number.to_string()).collect();
    let mut header = vec![""];
    header.extend(numbers.iter().map(String::as_str));
    text.push_str(&table("", &header, &rows(&answers)));
    text
}

/// A row for each limiter, in the order of their first answers.
fn rows(answers: &[Vec<(&str, f64)>]) -> Vec<Vec<String>> {
    let mut limiters: Vec<&str> = Vec::new();
    for (limiter, _) in answers.iter().flatten() {
        if !limiters.contains(limiter) {
            limiters.push(limiter);
        }
    }
    let cell = |limiter: &str, answers: &[(&str, f64)]| {
        let least = answers.iter().map(|answer| answer.1).fold(f64::INFINITY, f64::min);
        match answers.iter().find(|answer| answer.0 == limiter) {
            None => String::new(),
            Some((_, figure)) if *figure <= least => format!("**{figure:.1}**"),
            Some((_, figure)) => format!("{figure:.1}"),
        }
    };
    let row = |limiter: &str| {
        let cells = answers.iter().map(|answers| cell(limiter, answers));
        [limiter.to_owned()].into_iter().chain(cells).collect()
    };
    limiters.into_iter().map(row).collect()
}

/// The answer of each limiter.
fn answers<'a>(all: &'a [Saved], source: &Answers) -> Vec<(&'a str, f64)> {
    let items = all.iter().filter(|saved| saved.bench == BENCH).flat_map(Saved::items);
    items.flat_map(|item| of_item(item, source)).collect()
}

fn of_item<'a>(item: &'a Item, source: &Answers) -> Vec<(&'a str, f64)> {
    match (item, source) {
        (Item::Timed { title, rows }, Answers::Timed(case)) if begins(title, case) => {
            let decide =
                rows.iter().filter(|row| row.admitted.is_some() && By::OwnClock.is_of(row));
            let named = decide.map(|row| (limiter(limiter_of(&row.name)), row.median_nanos));
            named.filter(|(name, _)| !is_ours(name) || *name == "tollgate").collect()
        }
        (Item::Text { title, header, rows }, Answers::Text { title: begin, column, only })
            if begins(title, begin) =>
        {
            let counted = rows.iter().filter(|row| only.counts(header, row));
            let answer = |row: &'a Vec<String>| {
                Some((limiter(&row[0]), cell(header, row, column)?.parse().ok()?))
            };
            counted.filter_map(answer).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a title begins with a name and a mark.
fn begins(title: &str, name: &str) -> bool {
    title.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', ',']))
}

/// One bucket has no hasher, so that governor has one row for both.
fn limiter(name: &str) -> &str {
    if name == "governor" { "governor, ahash" } else { name }
}

fn cell<'a>(header: &[String], row: &'a [String], column: &str) -> Option<&'a str> {
    let place = header.iter().position(|name| name == column)?;
    row.get(place).map(String::as_str)
}

impl Only {
    fn counts(self, header: &[String], row: &[String]) -> bool {
        match self {
            Self::With(column, text) => cell(header, row, column) == Some(text),
            Self::Without(column, text) => cell(header, row, column) != Some(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::compare::tests::row;
    use crate::saved::tests::sample;
    use crate::saved::{Section, TimedRow};

    fn saved(items: Vec<Item>) -> Saved {
        let sections = vec![Section { title: "versus crates".to_owned(), items }];
        Saved { bench: BENCH.to_owned(), sections, ..sample() }
    }

    fn text_of(cells: &[&[&str]]) -> Vec<Vec<String>> {
        cells.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
    }

    #[test]
    fn each_limiter_has_a_row_and_the_least_of_a_column_is_bold() {
        let timed =
            |title: &str, rows: Vec<TimedRow>| Item::Timed { title: title.to_owned(), rows };
        let direct = vec![row("tollgate, own clock", 1, 9.0), row("governor, own clock", 1, 8.0)];
        let keyed = vec![
            row("tollgate, own clock", 1, 20.0),
            row("tollgate, time given", 1, 5.0),
            row("tollgate batch of 16, own clock", 1, 2.0),
            row("governor, ahash, own clock", 1, 30.0),
            TimedRow { admitted: None, ..row("a loop, own clock", 1, 1.0) },
        ];
        let memory = Item::Text {
            title: "memory: bytes for a live key".to_owned(),
            header: text_of(&[&["limiter", "keys", "resident"]]).remove(0),
            rows: text_of(&[&["tollgate", "100000", "7.0"], &["tollgate", "1000000", "14.5"]]),
        };
        let all = [saved(vec![
            timed("direct-admit-1: one bucket", direct),
            timed("1k-zipf-admit, 1000 keys", keyed),
            timed("1k-zipf-admit-more, 1000 keys", vec![row("other, own clock", 1, 1.0)]),
            memory,
        ])];
        let text = section(&all);
        let ours = "| tollgate | 9.0 |  | **20.0** |  |  |  |  |  |  |  |  | **14.5** |";
        let theirs = "| governor, ahash | **8.0** |  | 30.0 |  |  |  |  |  |  |  |  |  |";
        assert!(text.contains(ours) && text.contains(theirs), "{text}");
        assert_eq!(
            text.matches("| tollgate").count() + text.matches("| other").count(),
            1,
            "{text}"
        );
    }

    #[test]
    fn a_limiter_that_nothing_keeps_small_has_no_answer_in_the_flood() {
        let flood = Item::Text {
            title: "flood: 50 M keys".to_owned(),
            header: text_of(&[&["limiter", "kept small by", "p50 ns"]]).remove(0),
            rows: text_of(&[
                &["a", "nothing", "10"],
                &["a", "a sweep", "20"],
                &["b", "time", "15"],
            ]),
        };
        let all = [saved(vec![flood])];
        assert_eq!(answers(&all, &QUESTIONS[10].answers), [("a", 20.0), ("b", 15.0)]);
    }
}
