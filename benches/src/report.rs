//! Tables in Markdown, and how the figures stand to the targets.

use crate::process::machine;
use crate::rounds::{Admitted, Figures};

/// Prints a bench's heading, with the machine.
pub fn heading(title: &str) {
    println!("\n## {title}\n\n{}\n", machine());
}

/// Prints a comparison: median, quartiles, and decisions per second of all threads together.
pub fn table(title: &str, figures: &[Figures]) {
    if figures.is_empty() {
        return;
    }
    println!("### {title}\n");
    println!("| row | threads | median ns | quartiles | M/s | admitted |");
    println!("|---|---:|---:|---:|---:|---:|");
    for row in figures {
        let [low, median, high] = quartiles(&row.nanos);
        let threads = u32::try_from(row.threads).map_or(0.0, f64::from);
        let admitted = row.admitted.map_or_else(String::new, share);
        println!(
            "| {} | {} | {median:.1} | {low:.1} to {high:.1} | {:.1} | {admitted} |",
            row.name,
            row.threads,
            1_000.0 * threads / median,
        );
    }
    println!();
}

/// In words where it is nearly all or nearly none, since those are what a row is meant to be.
fn share(Admitted { count, of }: Admitted) -> String {
    match (count, of - count) {
        (0, _) => "none".to_owned(),
        (_, 0) => "all".to_owned(),
        (few, _) if few <= of / 100 => format!("{few}"),
        (_, few) => format!("all but {few}"),
    }
}

/// The lower quartile, the median and the upper quartile.
#[must_use]
pub fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    [last / 4, last / 2, last - last / 4].map(|index| sorted[index])
}

/// What a ratio should be.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// Prints how the ratio of two rows stands to a bound. The ratio is taken in each round; what
/// counts is the median. Silent where a row was not run.
pub fn target(what: &str, figures: &[Figures], [over, under]: [&str; 2], bound: Bound) {
    let Some([low, median, high]) = ratio(figures, [over, under]) else { return };
    let note = format!("{over:?} over {under:?}, quartiles {low:.2} to {high:.2}");
    verdict(what, median, bound, &note);
}

/// Prints the ratio of two rows that has no target.
pub fn compared(what: &str, figures: &[Figures], [over, under]: [&str; 2]) {
    let Some([low, median, high]) = ratio(figures, [over, under]) else { return };
    println!("- {what}: {median:.2}; {over:?} over {under:?}, quartiles {low:.2} to {high:.2}");
}

/// The quartiles of the ratios of two rows, round by round.
fn ratio(figures: &[Figures], [over, under]: [&str; 2]) -> Option<[f64; 3]> {
    let find = |name: &str| figures.iter().find(|row| row.name == name);
    let pairs = find(over)?.nanos.iter().zip(&find(under)?.nanos);
    Some(quartiles(&pairs.map(|(over, under)| over / under).collect::<Vec<f64>>()))
}

/// Prints how a figure stands to a bound.
pub fn verdict(what: &str, figure: f64, bound: Bound, note: &str) {
    let (word, limit, met, by) = match bound {
        Bound::AtMost(limit) => ("at most", limit, figure <= limit, figure / limit - 1.0),
        Bound::AtLeast(limit) => ("at least", limit, figure >= limit, 1.0 - figure / limit),
    };
    let outcome = match met {
        true => "**met**".to_owned(),
        false => format!("**missed by {:.0} %**", (by * 100.0).ceil()),
    };
    println!("- {what}: {figure:.2} ({word} {limit}): {outcome}; {note}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_a_few() {
        assert_eq!(quartiles(&[5.0, 1.0, 4.0, 2.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(&[7.0]), [7.0, 7.0, 7.0]);
    }

    #[test]
    fn all_and_none_are_exact() {
        let words = [0, 3, 997, 1_000].map(|count| share(Admitted { count, of: 1_000 }));
        assert_eq!(words, ["none", "3", "all but 3", "all"]);
    }
}
