//! The results of a bench in Markdown.

use std::fmt::Write as _;

use crate::saved::{Admitted, CallsRow, Item, SHOWN, TimedRow};

impl Item {
    /// The item in Markdown: a table with its title, or an item of a list.
    #[must_use]
    pub fn markdown(&self) -> String {
        match self {
            Self::Timed { title, rows } => timed(title, rows),
            Self::Calls { title, rows } => calls(title, rows),
            Self::Text { title, header, rows } => table(title, header, rows),
            Self::Note { text } => format!("{text}\n\n"),
            Self::Target(target) => target.markdown(),
            Self::Ratio { what, figure, quartiles: [low, high], note } => {
                format!("- {what}: {figure:.2}; {note}, quartiles {low:.2} to {high:.2}\n")
            }
            Self::Beside { what, unit, ours, peer, theirs } => {
                format!("- {what}: {ours:.1} {unit}; {peer} {theirs:.1}\n")
            }
        }
    }
}

fn timed(title: &str, rows: &[TimedRow]) -> String {
    let header = ["row", "threads", "median ns", "quartiles", "M/s", "admitted"];
    let cells = |row: &TimedRow| {
        let [low, high] = row.quartiles_nanos;
        vec![
            row.name.clone(),
            row.threads.to_string(),
            format!("{:.1}", row.median_nanos),
            format!("{low:.1} to {high:.1}"),
            format!("{:.1}", row.millions_per_second),
            row.admitted.map_or_else(String::new, share),
        ]
    };
    table(title, &header, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// In words if nearly all or nearly none were admitted, since rows are meant to be that.
fn share(Admitted { count, of }: Admitted) -> String {
    match (count, of - count) {
        (0, _) => "none".to_owned(),
        (_, 0) => "all".to_owned(),
        (few, _) if few <= of / 100 => format!("{few}"),
        (_, few) => format!("all but {few}"),
    }
}

fn calls(title: &str, rows: &[CallsRow]) -> String {
    let mut header = vec!["calls".to_owned(), "of".to_owned()];
    header.extend(SHOWN.map(|percent| format!("p{percent} ns")));
    header.extend(["max", "over 100 µs", "preempted"].map(str::to_owned));
    let cells = |row: &CallsRow| {
        let mut cells = vec![row.name.clone(), row.calls.to_string()];
        cells.extend(SHOWN.map(|percent| row.nanos(percent).unwrap_or(0).to_string()));
        cells.extend([row.max_nanos, row.slow, row.preempted].map(|number| number.to_string()));
        cells
    };
    table(title, &header, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// A table with its title, if it has one. Columns of numbers are aligned to the right.
#[must_use]
pub fn table<S: AsRef<str>>(title: &str, header: &[S], rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    if !title.is_empty() {
        let _ = writeln!(text, "### {title}\n");
    }
    let names: Vec<&str> = header.iter().map(AsRef::as_ref).collect();
    let is_number = |column: usize| {
        let mut cells = rows.iter().map(|row| &row[column]).filter(|cell| !cell.is_empty());
        column > 0 && cells.all(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
    };
    let rule = |column| if is_number(column) { "---:" } else { "---" };
    let rules: Vec<&str> = (0..names.len()).map(rule).collect();
    let _ = writeln!(text, "| {} |\n|{}|", names.join(" | "), rules.join("|"));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::tests::sample;

    #[test]
    fn tables_are_markdown() {
        let texts: Vec<String> = sample().items().map(Item::markdown).collect();
        let expected = "### Admissions\n\n\
            | row | threads | median ns | quartiles | M/s | admitted |\n\
            |---|---:|---:|---:|---:|---|\n\
            | tollgate, own clock | 2 | 22.3 | 20.0 to 25.1 | 89.5 | all |\n\n";
        assert_eq!(texts[0], expected);
        assert!(texts[1].contains("| control | 9 | 40 | 40 | 40 | 40 | 50 | 1 | 2 |"));
        assert!(texts[2].starts_with("| key | bytes |\n|---|---:|\n"));
        assert!(texts[4].contains("any: 1.18; x over y, quartiles 1.10 to 1.20"));
    }

    #[test]
    fn nearly_all_and_nearly_none_are_printed_exactly() {
        let words = [0, 3, 997, 1_000].map(|count| share(Admitted { count, of: 1_000 }));
        assert_eq!(words, ["none", "3", "all but 3", "all"]);
    }
}
