//! Draws nanoseconds a decision as bars, with the quartiles as whiskers: a panel for each table.

use super::losses::sides;
use super::plot::{Anchor, INK, Svg, colour, round_above};
use crate::saved::TimedRow;

/// The maximum length of a bar.
const LENGTH: f64 = 420.0;
/// The room for the figure behind a bar.
const FIGURE: f64 = 110.0;
/// The maximum width of a letter.
const LETTER: f64 = 6.8;
const ROW: f64 = 20.0;
const BAR: f64 = 12.0;
const TITLE: f64 = 26.0;
/// The room for the scale below a panel.
const SCALE: f64 = 34.0;

/// Draws tables, each with its title and its own scale.
pub(super) fn draw(tables: &[(&str, &[TimedRow])]) -> String {
    let names = tables.iter().flat_map(|(_, rows)| rows.iter().map(|row| row.name.as_str()));
    let left = names.map(width).fold(0.0, f64::max) + 16.0;
    let titles = tables.iter().map(|(title, _)| width(title)).fold(0.0, f64::max) * 1.1 + 120.0;
    let mut bars = Bars { svg: Svg::new((left + LENGTH + FIGURE).max(titles)), left };
    let mut top = 0.0;
    for (title, rows) in tables {
        top = bars.panel(top, title, rows);
    }
    bars.svg.finish(top)
}

/// The maximum width of a text.
fn width(text: &str) -> f64 {
    text.chars().fold(0.0, |width, _| width + LETTER)
}

struct Bars {
    svg: Svg,
    /// The left end of the bars.
    left: f64,
}

impl Bars {
    /// Draws one table, and returns where the next may begin.
    fn panel(&mut self, top: f64, title: &str, rows: &[TimedRow]) -> f64 {
        self.svg.title([8.0, top + 17.0], &format!("{title}: ns a decision"));
        let top = top + TITLE;
        let bottom = rows.iter().fold(top, |bottom, _| bottom + ROW);
        let longest = rows.iter().map(|row| row.quartiles_nanos[1]).fold(0.0, f64::max);
        let step = round_above(longest / 8.0);
        let end = (longest / step).ceil() * step;
        let left = self.left;
        let x = |nanos: f64| left + nanos / end * LENGTH;
        let mut tick = 0.0;
        while tick <= end {
            self.svg.line(&[[x(tick), top], [x(tick), bottom + 4.0]], INK, 1.0, 0.3);
            self.svg.text([x(tick), bottom + 17.0], Anchor::Middle, INK, &tick.to_string());
            tick += step;
        }
        let mut middle = top + ROW / 2.0;
        for (row, side) in rows.iter().zip(sides(rows)) {
            self.bar(middle, row, colour(side, 0), &x);
            let label = match rows.iter().all(|other| other.threads == row.threads) {
                true => format!("{:.1}", row.median_nanos),
                // Where they differ the title cannot say it.
                false => format!("{:.1} ({} threads)", row.median_nanos, row.threads),
            };
            let beyond = [x(row.quartiles_nanos[1]) + 6.0, middle + 4.0];
            self.svg.text(beyond, Anchor::Start, INK, &label);
            middle += ROW;
        }
        bottom + SCALE
    }

    fn bar(&mut self, middle: f64, row: &TimedRow, colour: &str, x: &dyn Fn(f64) -> f64) {
        let Self { svg, left } = self;
        svg.text([*left - 8.0, middle + 4.0], Anchor::End, INK, &row.name);
        svg.rect([*left, middle - BAR / 2.0], [x(row.median_nanos) - *left, BAR], colour);
        let [low, high] = row.quartiles_nanos;
        svg.line(&[[x(low), middle], [x(high), middle]], INK, 1.5, 1.0);
        for end in [low, high] {
            svg.line(&[[x(end), middle - 8.0], [x(end), middle + 8.0]], INK, 1.5, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::plot::tests::is_well_formed;

    fn row(name: &str, [low, median, high]: [f64; 3]) -> TimedRow {
        TimedRow {
            name: name.to_owned(),
            threads: 2,
            median_nanos: median,
            quartiles_nanos: [low, high],
            millions_per_second: 1.0,
            admitted: None,
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_median() {
        let rows = [row("a & b", [30.0, 40.0, 60.0]), row("c", [90.0, 100.0, 160.0])];
        let svg = draw(&[("first", &rows), ("second", &rows[..1])]);
        assert!(is_well_formed(&svg), "{svg}");
        // The first scale ends at 160 and the second at 60.
        let widths: Vec<&str> = svg
            .lines()
            .filter_map(|line| line.split("width=\"").nth(1).filter(|_| line.starts_with("<rect")))
            .collect();
        let widths: Vec<f64> =
            widths.iter().map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
        assert_eq!(widths, [105.0, 262.5, 280.0]);
        assert!(svg.contains(">100.0<"), "{svg}");
    }

    #[test]
    fn threads_are_named_where_they_differ() {
        let rows = [row("a", [1.0; 3]), TimedRow { threads: 4, ..row("b", [2.0; 3]) }];
        let svg = draw(&[("first", &rows)]);
        assert!(svg.contains(">1.0 (2 threads)<") && svg.contains(">2.0 (4 threads)<"), "{svg}");
    }
}
