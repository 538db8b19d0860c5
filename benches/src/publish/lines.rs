//! Draws the durations of single calls as lines over the share of calls: a panel for each table. Both axes
//! are logarithmic. The horizontal axis is the share of calls that took longer.

use super::losses::sides_of_calls;
use super::plot::{Anchor, INK, Svg, colour};
use crate::saved::CallsRow;

const WIDTH: f64 = 860.0;
/// The place of the axes in a panel.
const LEFT: f64 = 60.0;
const LENGTH: f64 = 450.0;
const HEIGHT: f64 = 210.0;
const TITLE: f64 = 30.0;
/// The room for the scale below a panel.
const SCALE: f64 = 40.0;
/// The distance between the names of two lines.
const NAME: f64 = 15.0;

/// Labels of the horizontal axis: one call in ten to the power of the index took longer. Shares whose
/// percentile is hard to read are written as powers of ten.
const SHARES: [&str; 11] =
    ["all", "p90", "p99", "p99.9", "p99.99", "10⁻⁵", "10⁻⁶", "10⁻⁷", "10⁻⁸", "10⁻⁹", "10⁻¹⁰"];
/// Labels of the vertical axis: ten to the power of the index.
const NANOS: [&str; 11] = [
    "1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s",
];

/// Draws tables, each with its title. All panels have the same axes.
pub(super) fn draw(tables: &[(&str, &[CallsRow])]) -> String {
    let axes = Axes::of(tables.iter().flat_map(|(_, rows)| *rows));
    let mut svg = Svg::new(WIDTH);
    let mut top = 0.0;
    for (title, rows) in tables {
        svg.title([8.0, top + 17.0], &format!("{title}: a call took at most"));
        axes.draw(&mut svg, top + TITLE);
        curves(&mut svg, top + TITLE, &axes, rows);
        top += TITLE + HEIGHT + SCALE;
    }
    svg.finish(top)
}

/// The ends of the axes, in powers of ten.
struct Axes {
    /// The end of the axis of shares, which begins at all calls.
    shares_end: usize,
    nanos_begin: usize,
    nanos_end: usize,
}

impl Axes {
    fn of<'a>(rows: impl Iterator<Item = &'a CallsRow>) -> Self {
        let mut axes = Self { shares_end: 1, nanos_begin: NANOS.len() - 2, nanos_end: 1 };
        for row in rows {
            for [share, nanos] in points(row) {
                axes.shares_end = axes.shares_end.max(above(share)).min(SHARES.len() - 1);
                axes.nanos_begin = axes.nanos_begin.min(above(nanos).saturating_sub(1));
                axes.nanos_end = axes.nanos_end.max(above(nanos)).min(NANOS.len() - 1);
            }
        }
        axes
    }

    fn x(&self, share: f64) -> f64 {
        LEFT + share / float(self.shares_end) * LENGTH
    }

    /// The distance from the top of the panel.
    fn y(&self, nanos: f64) -> f64 {
        let [begin, end] = [self.nanos_begin, self.nanos_end].map(float);
        HEIGHT * (end - nanos) / (end - begin)
    }

    fn draw(&self, svg: &mut Svg, top: f64) {
        for (power, label) in SHARES.iter().enumerate().take(self.shares_end + 1) {
            let x = self.x(float(power));
            svg.line(&[[x, top], [x, top + HEIGHT + 4.0]], INK, 1.0, 0.3);
            svg.text([x, top + HEIGHT + 17.0], Anchor::Middle, INK, label);
        }
        let labels = NANOS.iter().enumerate().take(self.nanos_end + 1).skip(self.nanos_begin);
        for (power, label) in labels {
            let y = top + self.y(float(power));
            svg.line(&[[LEFT - 4.0, y], [LEFT + LENGTH, y]], INK, 1.0, 0.3);
            svg.text([LEFT - 8.0, y + 4.0], Anchor::End, INK, label);
        }
    }
}

/// The smallest whole number that is not below `power`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 20")]
fn above(power: f64) -> usize {
    power.ceil().clamp(0.0, 20.0) as usize
}

#[allow(clippy::cast_precision_loss, reason = "powers of ten, nanoseconds, and counts of calls")]
fn float(number: usize) -> f64 {
    number as f64
}

/// The points of a line, as powers of ten: the number of calls of which one took longer, and nanoseconds.
/// The last point is the slowest call.
fn points(row: &CallsRow) -> Vec<[f64; 2]> {
    let log = |nanos: u64| float(usize::try_from(nanos.max(1)).expect("64 bits")).log10();
    let point = |percent: f64, nanos| [-(1.0 - percent / 100.0).log10(), log(nanos)];
    let percentiles = row.percentiles.iter().map(|at| point(at.percent, at.nanos));
    percentiles.chain([[log(row.calls), log(row.max_nanos)]]).collect()
}

fn curves(svg: &mut Svg, top: f64, axes: &Axes, rows: &[CallsRow]) {
    let mut names = Vec::new();
    let called = rows.iter().zip(sides_of_calls(rows)).filter(|(row, _)| row.calls > 0);
    for (index, (row, side)) in called.enumerate() {
        let points: Vec<[f64; 2]> = points(row)
            .into_iter()
            .map(|[share, nanos]| [axes.x(share), top + axes.y(nanos)])
            .collect();
        let colour = colour(side, index);
        svg.line(&points, colour, 2.0, 1.0);
        let end = points.last().expect("the slowest call");
        names.push((end[1], colour, &row.name));
    }
    // In the order of the lines' ends, none on top of another.
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = top;
    let mut room = NAME * float(names.len());
    for (end, colour, name) in names {
        let y = end.max(free).min(top + HEIGHT + NAME - room);
        svg.text([LEFT + LENGTH + 12.0, y + 4.0], Anchor::Start, colour, name);
        free = y + NAME;
        room -= NAME;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::plot::tests::is_well_formed;
    use crate::saved::Percentile;

    fn row(name: &str, nanos: u64) -> CallsRow {
        let point = |percent| Percentile { percent, nanos };
        CallsRow {
            name: name.to_owned(),
            calls: 1_000_000,
            percentiles: [50.0, 99.0].map(point).to_vec(),
            max_nanos: nanos * 100,
            slow: 0,
            preempted: 0,
        }
    }

    #[test]
    fn the_axes_reach_to_the_slowest_call() {
        let rows = [row("a", 50), row("b", 2_000)];
        let axes = Axes::of(rows.iter());
        assert_eq!((axes.shares_end, axes.nanos_begin, axes.nanos_end), (6, 1, 6));
        assert!((axes.x(6.0) - LEFT - LENGTH).abs() < 1e-9 && axes.y(6.0).abs() < 1e-9);
    }

    #[test]
    fn names_are_apart_and_in_the_order_of_their_lines() {
        let rows = [row("low", 50), row("low too", 51), row("high", 900)];
        let svg = draw(&[("calls", &rows)]);
        assert!(is_well_formed(&svg), "{svg}");
        let y_of = |name: &str| -> f64 {
            let line = svg.lines().find(|line| line.contains(&format!(">{name}<"))).expect("it");
            line.split("y=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
                .unwrap()
                .parse()
                .unwrap()
        };
        assert!(y_of("high") < y_of("low too") && y_of("low too") + NAME <= y_of("low") + 1e-6);
    }

    #[test]
    fn calls_that_took_no_time_are_drawn() {
        assert!(is_well_formed(&draw(&[("calls", &[row("a", 0)])])));
    }
}
