//! Tables of text: numbers are aligned to the right, and no line is wider than the terminal.

use crate::words;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The shortest text in the last column before the table gets its narrow layout.
const TEXT_WIDE_MIN: usize = 16;
/// The shortest text in the last column in the narrow layout.
const TEXT_MIN: usize = 8;

/// A table whose first row is its head, and whose first two columns are a limiter's rule and
/// algorithm. If it is too wide, texts in the last column are cut; if it is still too wide, each rule
/// gets its own line.
pub(super) fn by_limiter(rows: &[Vec<String>], sides: &[Side], width: usize) -> String {
    let wide = fitted(rows, sides, width, TEXT_WIDE_MIN);
    if widest(&wide) <= width {
        return wide;
    }
    let by_rule: Vec<Vec<String>> =
        rows.iter().map(|row| [&[format!("  {}", row[1])], &row[2..]].concat()).collect();
    let narrow = fitted(&by_rule, &sides[1..], width, TEXT_MIN);
    let mut text = String::new();
    let mut rule = &rows[0][0];
    for (line, row) in narrow.lines().zip(rows) {
        if *rule != row[0] {
            rule = &row[0];
            text.push_str(&format!("{rule}\n"));
        }
        text.push_str(&format!("{line}\n"));
    }
    text
}

/// A table of names and numbers, whose first row is its head. If it is too wide, it is split in two:
/// the columns from `second` on follow below, with the names repeated.
pub(super) fn in_two(rows: &[Vec<String>], second: usize, width: usize) -> String {
    let numbers = |rows: &[Vec<String>]| {
        let mut sides = vec![Side::Right; rows[0].len()];
        sides[0] = Side::Left;
        aligned(rows, &sides)
    };
    let whole = numbers(rows);
    if widest(&whole) <= width {
        return whole;
    }
    let first: Vec<_> = rows.iter().map(|row| row[..second].to_vec()).collect();
    let rest: Vec<_> = rows.iter().map(|row| [&row[..1], &row[second..]].concat()).collect();
    format!("{}\n{}", numbers(&first), numbers(&rest))
}

/// Lays rows out, and cuts the texts of the last column as far as the width requires.
fn fitted(rows: &[Vec<String>], sides: &[Side], width: usize, text_min: usize) -> String {
    let whole = aligned(rows, sides);
    let excess = widest(&whole).saturating_sub(width);
    if excess == 0 || sides.last() != Some(&Side::Left) {
        return whole;
    }
    let mut rows = rows.to_vec();
    let texts = || rows.iter().filter_map(|row| row.last());
    let longest = texts().map(|text| text.chars().count()).max().unwrap_or(0);
    let room = longest.saturating_sub(excess).max(text_min);
    for text in rows.iter_mut().filter_map(|row| row.last_mut()) {
        *text = words::shortened(text, room);
    }
    aligned(&rows, sides)
}

/// Lays rows out in columns with these alignments.
pub(super) fn aligned(rows: &[Vec<String>], sides: &[Side]) -> String {
    let widths: Vec<usize> = (0..sides.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .zip(sides)
            .map(|((cell, width), side)| match side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Side::{Left, Right};
    use super::*;

    fn rows(rows: &[[&str; 4]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect()
    }

    #[test]
    fn a_table_that_is_too_wide_is_split_in_two() {
        let rows = rows(&[["rule", "requests", "denied", "keys"], ["a", "1,000", "7", "2"]]);
        assert_eq!(in_two(&rows, 2, 28).lines().count(), 2);
        let two = "rule  requests\na        1,000\n\nrule  denied  keys\na          7     2\n";
        assert_eq!(in_two(&rows, 2, 27), two);
    }

    #[test]
    fn a_table_fits_the_terminal() {
        let rows = rows(&[
            ["rule", "algorithm", "count", "key"],
            ["1/s", "gcra", "7", "a-key-of-19-letters"],
            ["2/s", "gcra", "1,000", "b"],
        ]);
        let sides = [Left, Left, Right, Left];
        let whole = "\
rule  algorithm  count  key
1/s   gcra           7  a-key-of-19-letters
2/s   gcra       1,000  b
";
        assert_eq!(by_limiter(&rows, &sides, 43), whole);
        let cut = whole.replace("letters", "let…");
        assert_eq!(by_limiter(&rows, &sides, 40), cut);
        let narrow = ["  algorithm  count  key", "1/s", "  gcra           7  a-key-of-19-le…"];
        assert!(by_limiter(&rows, &sides, 35).starts_with(&narrow.join("\n")));
        assert!(by_limiter(&rows, &sides, 5).contains("  a-key-o…\n"));
    }
}
