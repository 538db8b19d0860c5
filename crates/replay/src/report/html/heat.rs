//! Rate against burst: the share of requests that each pair denies, and the share of keys.

use super::svg::{Anchor, Svg, text_width};
use crate::suggest::{Denials, Grid};
use crate::words::{percent, share, thousands};

const CELL: (f64, f64) = (43.0, 30.0);
const HEAD: f64 = 30.0;
const FOOT: f64 = 46.0;
const LEGEND: f64 = 40.0;
const GAP: f64 = 24.0;
/// The distance between the title of an axis and its labels.
const TITLE: f64 = 22.0;

/// The upper bound of each colour, and its name in the legend.
const CLASSES: [(f64, &str); 7] = [
    (0.0, "0"),
    (0.001, "to 0.1 %"),
    (0.01, "to 1 %"),
    (0.05, "to 5 %"),
    (0.2, "to 20 %"),
    (0.5, "to 50 %"),
    (1.0, "above"),
];
/// The first class with white text.
const DARK_FROM: usize = 4;

/// Both panels.
pub(super) fn chart(grid: &Grid) -> String {
    let rates: Vec<String> = grid.rates.iter().map(ToString::to_string).collect();
    let left = rates.iter().map(|rate| text_width(rate)).fold(0.0, f64::max) + 10.0 + TITLE;
    let (across, down) = (grid.bursts.len() as f64 * CELL.0, grid.rates.len() as f64 * CELL.1);
    let width = 2.0 * (left + across) + GAP;
    let mut svg = Svg::new(width, HEAD + down + FOOT + LEGEND);
    panel(&mut svg, grid, (left, "share of requests denied, in %"), |cell| {
        (cell.requests, grid.requests, "requests")
    });
    let second = left + across + GAP + left;
    panel(&mut svg, grid, (second, "share of keys ever denied, in %"), |cell| {
        (cell.keys, grid.keys, "keys")
    });
    legend(&mut svg, left, HEAD + down + FOOT);
    svg.finish("Share of requests and of keys denied, by rate and burst")
}

fn panel(
    svg: &mut Svg,
    grid: &Grid,
    (left, title): (f64, &str),
    of: impl Fn(&Denials) -> (u64, u64, &'static str),
) {
    let rates: Vec<String> = grid.rates.iter().map(ToString::to_string).collect();
    let (across, down) = (grid.bursts.len() as f64 * CELL.0, rates.len() as f64 * CELL.1);
    svg.text((left, 18.0), Anchor::Start, "name", title);
    for (row, (rate, cells)) in rates.iter().zip(&grid.denied).enumerate() {
        let y = HEAD + row as f64 * CELL.1;
        svg.text((left - 6.0, y + CELL.1 / 2.0 + 4.0), Anchor::End, "tick", rate);
        for (column, (burst, cell)) in grid.bursts.iter().zip(cells).enumerate() {
            let x = left + column as f64 * CELL.0;
            let size = (CELL.0 - 1.0, CELL.1 - 1.0);
            let middle = (x + size.0 / 2.0, y + CELL.1 / 2.0 + 4.0);
            let Some(cell) = cell else {
                svg.text(middle, Anchor::Middle, "tick", "–");
                continue;
            };
            let (part, whole, what) = of(cell);
            let class = class(share(part, whole));
            let burst = thousands(*burst);
            let tooltip = format!(
                "{rate} burst {burst}: {} of {} {what} ({})",
                thousands(part),
                thousands(whole),
                percent(part, whole)
            );
            svg.rect((x, y), size, &format!("h{class}"), &tooltip);
            let ink = if class < DARK_FROM { "on-light" } else { "on-dark" };
            svg.text(middle, Anchor::Middle, ink, &short(share(part, whole)));
        }
    }
    for (column, burst) in grid.bursts.iter().enumerate() {
        let x = left + (column as f64 + 0.5) * CELL.0;
        svg.text((x, HEAD + down + 16.0), Anchor::Middle, "tick", &compact(*burst));
    }
    let below = (left + across / 2.0, HEAD + down + 36.0);
    svg.text(below, Anchor::Middle, "axis", "burst, in cells");
    let widest = rates.iter().map(|rate| text_width(rate)).fold(0.0, f64::max);
    svg.upright((left - widest - TITLE + 8.0, HEAD + down / 2.0), "rate");
}

fn legend(svg: &mut Svg, left: f64, top: f64) {
    let mut x = left;
    for (index, (_, name)) in CLASSES.iter().enumerate() {
        svg.rect((x, top + 8.0), (16.0, 16.0), &format!("h{index}"), "");
        svg.text((x + 22.0, top + 20.0), Anchor::Start, "", name);
        x += 22.0 + text_width(name) + 18.0;
    }
}

fn class(share: f64) -> usize {
    CLASSES.iter().position(|(up_to, _)| share <= *up_to).unwrap_or(CLASSES.len() - 1)
}

/// A share in percent, in at most four characters. Only an exact 0 reads as 0.
fn short(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent == 0.0 => "0".to_owned(),
        _ if percent < 0.01 => "<.01".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2}"),
        _ if percent < 9.95 => format!("{percent:.1}"),
        _ if percent < 100.0 => format!("{:.0}", percent.min(99.4)),
        _ => "100".to_owned(),
    }
}

/// `1000000` as `1M`; a number that is not round stays as it is.
fn compact(number: u64) -> String {
    let units = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let fits = |(unit, _): &&(u64, &str)| number >= *unit && number.is_multiple_of(*unit);
    units
        .iter()
        .find(fits)
        .map_or_else(|| number.to_string(), |(unit, name)| format!("{}{name}", number / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_reads_as_zero_in_a_cell() {
        for (share, text) in [
            (0.0, "0"),
            (0.000_001, "<.01"),
            (0.003_4, "0.34"),
            (0.016, "1.6"),
            (0.18, "18"),
            (0.999_9, "99"),
            (1.0, "100"),
        ] {
            assert_eq!(short(share), text);
        }
        assert_eq!(
            [class(0.0), class(0.000_1), class(0.01), class(0.011), class(1.0)],
            [0, 1, 2, 3, 6]
        );
        assert_eq!(["200", "1k", "50M", "1500"], [200, 1_000, 50_000_000, 1_500].map(compact));
    }
}
