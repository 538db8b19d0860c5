//! Draws the time of the fastest other row divided by ours, as dots on a logarithmic axis: a line for each
//! comparison. Dots are filled for the own clock, hollow for the time given.

use super::losses::Side;
use super::plot::{Anchor, INK, Svg, colour};

/// The left end and the length of the axis.
const LEFT: f64 = 380.0;
const LENGTH: f64 = 360.0;
const ROW: f64 = 15.0;
const TOP: f64 = 24.0;
const SCALE: f64 = 34.0;
/// The largest ratio on the axis; the smallest is its inverse.
const RATIO_MAX: f64 = 16.0;

/// One comparison: its title, and the ratios by the own clock and with the time given.
pub(super) type Line<'a> = (&'a str, [Option<f64>; 2]);

/// Draws the comparisons, one below the other.
pub(super) fn draw(lines: &[Line<'_>]) -> String {
    let mut svg = Svg::new(LEFT + LENGTH + 40.0);
    svg.title([8.0, 15.0], "times as long as tollgate: own clock filled, time given hollow");
    let bottom = lines.iter().fold(TOP, |bottom, _| bottom + ROW);
    for ratio in [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0] {
        let width = if ratio == 1.0 { 2.0 } else { 1.0 };
        svg.line(&[[x(ratio), TOP], [x(ratio), bottom + 4.0]], INK, width, 0.4);
        svg.text([x(ratio), bottom + 17.0], Anchor::Middle, INK, &ratio.to_string());
    }
    let mut middle = TOP + ROW / 2.0;
    for (title, ratios) in lines {
        svg.text([LEFT - 10.0, middle + 4.0], Anchor::End, INK, title);
        for (ratio, is_filled) in ratios.iter().zip([true, false]) {
            let Some(ratio) = ratio else { continue };
            let side = if *ratio < 1.0 { Side::Theirs } else { Side::Ours };
            svg.dot([x(*ratio), middle], colour(side, 0), is_filled);
        }
        middle += ROW;
    }
    svg.finish(bottom + SCALE)
}

fn x(ratio: f64) -> f64 {
    let share = ratio.clamp(1.0 / RATIO_MAX, RATIO_MAX).log2() / RATIO_MAX.log2();
    LEFT + (1.0 + share) / 2.0 * LENGTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::plot::tests::is_well_formed;

    #[test]
    fn a_dot_is_drawn_where_its_ratio_is() {
        let svg = draw(&[("a & b", [Some(1.0), Some(0.5)]), ("c", [None, Some(100.0)])]);
        assert!(is_well_formed(&svg), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        for x in ["cx=\"560.0\"", "cx=\"515.0\"", "cx=\"740.0\""] {
            assert_eq!(svg.matches(x).count(), 1, "{x}: {svg}");
        }
    }
}
