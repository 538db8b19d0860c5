//! Denials over time in block characters: one band per limiter, on one time axis and one scale.

use crate::tally::timeline::{Columns, ROUND_NANOS};
use crate::words;

/// Cells that are filled by 0 to 8 eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 86_400 * SECOND;

/// The widest column in characters, for a log with few columns.
const COLUMN_CHARS_MAX: usize = 4;

/// The width of the numbers on the left, with the space after them.
pub(super) fn gutter(max: u64) -> usize {
    words::thousands(max).len() + 1
}

/// Draws the chart. `names` are those of the limiters, `zone` is that of the log, and `width` is the
/// room for the bars.
pub(super) fn draw(
    names: &[String],
    columns: &Columns,
    zone: &str,
    gutter: usize,
    width: usize,
) -> String {
    let max = columns.counts.iter().flatten().copied().max().unwrap_or(0);
    let mut text = format!(
        "Denied over time, {} a column, on the log's clock ({zone})\n",
        words::span(columns.width_nanos)
    );
    if max == 0 {
        text.push_str("nothing was denied\n");
        return text;
    }
    let chars = (width / columns.counts[0].len()).clamp(1, COLUMN_CHARS_MAX);
    let rows = match names.len() {
        1 => 8,
        2..=3 => 4,
        _ => 2,
    };
    for (name, counts) in names.iter().zip(&columns.counts) {
        text.push('\n');
        text.push_str(&title(name, counts, columns));
        if counts.iter().any(|count| *count > 0) {
            band(&mut text, counts, Scale { max, rows, gutter, chars });
        }
    }
    axis(&mut text, columns, gutter, chars);
    text
}

/// The name of a band, and its tallest column.
fn title(name: &str, counts: &[u64], columns: &Columns) -> String {
    let Some((index, max)) =
        counts.iter().enumerate().rev().max_by_key(|(_, count)| **count).filter(|(_, m)| **m > 0)
    else {
        return format!("{name}: nothing denied\n");
    };
    let start = columns.first_local_nanos + index as u64 * columns.width_nanos;
    format!("{name}: at most {}, at {}\n", words::thousands(*max), long_label(start, columns))
}

/// The scale of the bars, which all bands share.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// The count of a bar of full height.
    max: u64,
    /// The full height in rows.
    rows: u64,
    /// The width of the numbers on the left.
    gutter: usize,
    /// The width of a column.
    chars: usize,
}

/// The bars of one limiter, without empty rows at the top. The number beside the topmost row is the
/// count of a bar of that height.
fn band(text: &mut String, counts: &[u64], scale: Scale) {
    let Scale { max, rows, gutter, chars } = scale;
    let eighths = |count: u64| (u128::from(count) * u128::from(rows * 8)).div_ceil(max.into());
    let tallest = counts.iter().map(|count| eighths(*count)).max().unwrap_or(0);
    for row in (0..rows).rev().filter(|row| u128::from(row * 8) < tallest) {
        let is_topmost = u128::from((row + 1) * 8) >= tallest;
        let label =
            if is_topmost { words::thousands(max * (row + 1) / rows) } else { String::new() };
        let mut line = format!("{label:>width$} │", width = gutter - 1);
        for count in counts {
            let filled = eighths(*count).saturating_sub(u128::from(row * 8)).min(8);
            let filled = usize::try_from(filled).unwrap_or(8);
            line.extend(std::iter::repeat_n(EIGHTHS[filled], chars));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The time axis, with labels at round times that do not overlap.
fn axis(text: &mut String, columns: &Columns, gutter: usize, chars: usize) {
    let count = columns.counts[0].len();
    let start = |index: usize| columns.first_local_nanos + index as u64 * columns.width_nanos;
    let format = label_format(columns);
    let label = |index: usize| words::clock(start(index)).strftime(format).to_string();
    let room = label(0).chars().count() + 2;
    let step = ROUND_NANOS
        .into_iter()
        .filter(|step| step % columns.width_nanos == 0)
        .find(|step| step / columns.width_nanos * chars as u64 >= room as u64)
        .unwrap_or(u64::MAX);
    let mut ticks: Vec<usize> = (0..count).filter(|index| start(*index) % step == 0).collect();
    if ticks.first().is_none_or(|first| first * chars + 1 >= room) {
        ticks.insert(0, 0);
    }
    let mut line = String::new();
    let mut labels = String::new();
    for index in 0..count {
        let is_tick = ticks.contains(&index);
        line.push(if is_tick { '┴' } else { '─' });
        line.extend(std::iter::repeat_n('─', chars - 1));
        if is_tick {
            labels.extend(std::iter::repeat_n(' ', index * chars - labels.chars().count()));
            labels.push_str(&label(index));
        }
    }
    text.push_str(&format!("{:>width$} └{line}\n", 0, width = gutter - 1));
    text.push_str(&format!("{:gutter$} {labels}\n", ""));
}

/// The format that distinguishes the columns of this chart.
pub(super) fn label_format(columns: &Columns) -> &'static str {
    let span = columns.width_nanos.saturating_mul(columns.counts[0].len() as u64);
    match columns.width_nanos {
        0..SECOND => "%H:%M:%S%.3f",
        SECOND..MINUTE => "%H:%M:%S",
        MINUTE..DAY if span <= DAY => "%H:%M",
        MINUTE..DAY => "%d %b %H:%M",
        _ => "%Y-%m-%d",
    }
}

/// The start of a column in that format.
pub(super) fn long_label(local_nanos: u64, columns: &Columns) -> String {
    words::clock(local_nanos).strftime(label_format(columns)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * MINUTE;
    const AUGUST: u64 = 807_256_800 * SECOND;

    fn columns(width_nanos: u64, counts: Vec<Vec<u64>>) -> Columns {
        Columns { first_local_nanos: AUGUST, width_nanos, counts }
    }

    #[test]
    fn one_limiter_has_a_tall_band() {
        let counts = (0..16).map(|hour| hour * 10).collect();
        let text = draw(&["a".to_owned()], &columns(HOUR, vec![counts]), "UTC", 4, 16);
        let expected = "\
Denied over time, 1 h a column, on the log's clock (UTC)

a: at most 150, at 21:00
150 │              ▄█
    │            ▄███
    │          ▃▇████
    │        ▃▇██████
    │      ▂▆████████
    │    ▂▆██████████
    │  ▁▅████████████
    │ ▅██████████████
  0 └┴─────┴─────────
     06:00 12:00
";
        assert_eq!(text, expected);
    }

    #[test]
    fn limiters_share_scale_and_axis_and_a_count_of_one_is_visible() {
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let counts = vec![vec![8_000, 0, 0], vec![0, 1, 0], vec![0, 0, 0]];
        let text = draw(&names, &columns(DAY, counts), "UTC", 6, 60);
        assert_eq!(text.matches("8,000 │").count(), 1, "{text}");
        assert_eq!(text.matches("2,000 │").count(), 1, "{text}");
        assert_eq!(text.matches('▁').count(), COLUMN_CHARS_MAX, "{text}");
        assert_eq!(text.matches('└').count(), 1, "{text}");
        assert!(text.contains("c: nothing denied"), "{text}");
        assert!(text.contains("b: at most 1, at 1995-08-02"), "{text}");
    }

    #[test]
    fn a_chart_without_denials_and_one_of_one_column_are_drawn() {
        let names = ["a".to_owned()];
        let text = draw(&names, &columns(HOUR, vec![vec![0, 0]]), "UTC", 2, 60);
        assert!(text.ends_with("nothing was denied\n"), "{text}");
        let text = draw(&names, &columns(1_000_000, vec![vec![3]]), "UTC", 2, 60);
        assert!(text.contains("06:00:00.000"), "{text}");
    }

    #[test]
    fn no_line_exceeds_the_width() {
        for count in 1..200 {
            for width in ROUND_NANOS.into_iter().filter(|width| *width <= 364 * DAY) {
                let chart = columns(width, vec![vec![1; count]]);
                let text = draw(&["a".to_owned()], &chart, "UTC", 2, count.max(60));
                for line in text.lines().skip(3).filter(|line| line.contains(['█', '─'])) {
                    assert!(line.chars().count() <= 3 + count.max(60), "{line}");
                }
            }
        }
    }
}
