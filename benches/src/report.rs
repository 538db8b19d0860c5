//! Prints the results of a bench in Markdown; with `--save` they are kept as well (see
//! [`crate::record`]).

use crate::calls::Calls;
use crate::process::machine;
use crate::record;
use crate::rounds::Figures;
use crate::saved::{CallsRow, Item, TimedRow, rounded};
use crate::target::Target;

pub use crate::target::Bound;

/// Prints a bench's heading, with the machine.
pub fn heading(title: &str) {
    println!("\n## {title}\n\n{}\n", machine());
    record::begin(title);
}

/// Prints a comparison: median, quartiles, and decisions per second of all threads together.
pub fn table(title: &str, figures: &[Figures]) {
    if figures.is_empty() {
        return;
    }
    emit(Item::Timed {
        title: title.to_owned(),
        rows: figures.iter().map(TimedRow::from).collect(),
    });
}

/// Prints how long single calls took: percentiles, the slowest, and how many were slow.
pub fn calls(title: &str, calls: &[&Calls]) {
    let rows = calls.iter().map(|calls| CallsRow::from(*calls)).collect();
    emit(Item::Calls { title: title.to_owned(), rows });
}

/// Prints any other table. Each row has as many cells as the header; the title may be empty.
pub fn text(title: &str, header: &[&str], rows: Vec<Vec<String>>) {
    let header = header.iter().map(|&name| name.to_owned()).collect();
    emit(Item::Text { title: title.to_owned(), header, rows });
}

/// The lower quartile, the median and the upper quartile.
#[must_use]
pub fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    [last / 4, last / 2, last - last / 4].map(|index| sorted[index])
}

/// The row with the lowest median among those that `is_one` names.
pub fn fastest(figures: &[Figures], is_one: impl Fn(&str) -> bool) -> Option<&str> {
    let median = |row: &Figures| quartiles(&row.nanos)[1];
    let named = figures.iter().filter(|row| is_one(&row.name));
    named.min_by(|a, b| median(a).total_cmp(&median(b))).map(|row| row.name.as_str())
}

/// Prints the ratio of two rows with a bound. The ratio is computed for each round, and the median
/// is compared with the bound. Prints nothing if a row was not run.
pub fn target(what: &str, figures: &[Figures], [over, under]: [&str; 2], bound: Bound) {
    let Some([low, median, high]) = ratio(figures, [over, under]) else { return };
    let note = format!("{over:?} over {under:?}");
    emit(Item::Target(Target::new(what, median, Some([low, high]), bound, &note)));
}

/// Prints the ratio of two rows without a bound.
pub fn compared(what: &str, figures: &[Figures], [over, under]: [&str; 2]) {
    let Some([low, median, high]) = ratio(figures, [over, under]) else { return };
    emit(Item::Ratio {
        what: what.to_owned(),
        figure: rounded(median),
        quartiles: [rounded(low), rounded(high)],
        note: format!("{over:?} over {under:?}"),
    });
}

/// Prints the ratio of the medians of two rows that did not take turns, with a bound if there is
/// one. The quartiles are as far apart as those of the rows allow.
pub fn of_medians(what: &str, figures: &[Figures], [over, under]: [&str; 2], bound: Option<Bound>) {
    let find = |name: &str| figures.iter().find(|row| row.name == name);
    let (Some(above), Some(below)) = (find(over), find(under)) else { return };
    let (above, below) = (quartiles(&above.nanos), quartiles(&below.nanos));
    let [low, figure, high] = [0, 1, 2].map(|index| above[index] / below[2 - index]);
    let note = format!("{over:?} over {under:?}, of medians");
    emit(match bound {
        Some(bound) => Item::Target(Target::new(what, figure, Some([low, high]), bound, &note)),
        None => Item::Ratio {
            what: what.to_owned(),
            figure: rounded(figure),
            quartiles: [rounded(low), rounded(high)],
            note,
        },
    });
}

/// The quartiles of the ratios of two rows, computed for each round.
fn ratio(figures: &[Figures], [over, under]: [&str; 2]) -> Option<[f64; 3]> {
    let find = |name: &str| figures.iter().find(|row| row.name == name);
    let pairs = find(over)?.nanos.iter().zip(&find(under)?.nanos);
    Some(quartiles(&pairs.map(|(over, under)| over / under).collect::<Vec<f64>>()))
}

/// Prints a figure with a bound.
pub fn verdict(what: &str, figure: f64, bound: Bound, note: &str) {
    emit(Item::Target(Target::new(what, figure, None, bound, note)));
}

/// Prints a figure of ours beside that of a peer; less is better.
pub fn beside(what: &str, unit: &str, ours: f64, (peer, theirs): (&str, f64)) {
    emit(Item::Beside {
        what: what.to_owned(),
        unit: unit.to_owned(),
        ours: rounded(ours),
        peer: peer.to_owned(),
        theirs: rounded(theirs),
    });
}

/// Prints a sentence about the table above it.
pub fn note(text: &str) {
    emit(Item::Note { text: text.to_owned() });
}

fn emit(item: Item) {
    print!("{}", item.markdown());
    record::add(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_few_values_are_exact() {
        assert_eq!(quartiles(&[5.0, 1.0, 4.0, 2.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(&[7.0]), [7.0, 7.0, 7.0]);
    }

    #[test]
    fn a_ratio_is_computed_round_by_round() {
        let row = |name: &str, nanos: [f64; 3]| Figures {
            name: name.to_owned(),
            threads: 1,
            nanos: nanos.to_vec(),
            admitted: None,
        };
        let figures = [row("a", [10.0, 90.0, 30.0]), row("b", [5.0, 30.0, 30.0])];
        assert_eq!(ratio(&figures, ["a", "b"]), Some([1.0, 2.0, 3.0]));
        assert_eq!(ratio(&figures, ["a", "c"]), None);
    }
}
