//! Every table of the saved results, printed on request: the page shows a selection.

use std::fmt::Write as _;

use super::losses::{Loss, losses};
use crate::markdown::table;
use crate::saved::{Item, Saved};
use crate::target::Target;

/// All tables, ratios, targets and losses of the benches whose name contains `only`.
pub(super) fn tables(all: &[Saved], only: &str) -> String {
    let mut text = String::new();
    for saved in all.iter().filter(|saved| saved.bench.contains(only)) {
        for section in &saved.sections {
            let _ = writeln!(text, "## {}\n", section.title);
            for item in &section.items {
                text.push_str(&item.markdown());
                if !matches!(item, Item::Timed { .. } | Item::Calls { .. } | Item::Text { .. }) {
                    text.push('\n');
                }
            }
        }
        lost(&mut text, saved);
    }
    text
}

/// All targets of a bench.
pub(super) fn targets(saved: &Saved) -> impl Iterator<Item = &Target> {
    saved.items().filter_map(|item| match item {
        Item::Target(target) => Some(target),
        _ => None,
    })
}

fn lost(text: &mut String, saved: &Saved) {
    let rows: Vec<Vec<String>> = losses(saved).iter().map(lost_row).collect();
    if rows.is_empty() {
        return;
    }
    let title = format!("{}: rows where another is ahead", saved.bench);
    let header = ["table", "ours", "theirs", "threads", "ours", "theirs", "unit", "times"];
    text.push_str(&table(&title, &header, &rows));
}

fn lost_row(loss: &Loss) -> Vec<String> {
    vec![
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

/// Writes a figure, with a decimal if it is small.
pub(super) fn figure(figure: f64) -> String {
    if figure < 1_000.0 { format!("{figure:.1}") } else { format!("{figure:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::page::tests::sample;

    #[test]
    fn every_row_target_and_loss_of_the_chosen_bench_is_printed() {
        let text = tables(&[sample(9.0, 1.4)], "keyed");
        assert!(text.contains("| tollgate, own clock | 1 | 10.0 |"), "{text}");
        assert!(text.contains("missed by 36 %"), "{text}");
        let row = "| Admissions | tollgate, own clock | governor, own clock | 1 | 10.0 | 9.0 | ns \
            | 1.11 |";
        assert!(text.contains(row), "{text}");
        assert_eq!(tables(&[sample(9.0, 1.4)], "flood"), "");
    }
}
