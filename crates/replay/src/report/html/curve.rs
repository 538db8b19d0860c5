//! The trade-off: the larger the burst, the fewer well-behaved keys are ever denied.

use super::scale::{Log, log_ticks};
use super::style::LOOKS;
use super::svg::{Anchor, Point, Svg, bold_width};
use crate::suggest::{Analysis, Candidate, Suggestion};
use crate::words::{percent, share, thousands};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = HEIGHT - 54.0;
/// The largest burst of any limiter.
const BURST_MAX: u64 = 1 << 40;
/// Shares with a grid line, in percent.
const SHARES: [u64; 7] = [0, 1, 5, 10, 25, 50, 100];

/// Maps bursts and shares to points.
#[derive(Clone, Copy, Debug)]
struct Layout {
    bursts: Log,
    right: f64,
    well_behaved: u64,
    max_share: f64,
}

impl Layout {
    /// The scale is a square root, so that the small shares that matter have room.
    fn y(self, share: f64) -> f64 {
        BOTTOM - (share / self.max_share).sqrt() * (BOTTOM - TOP)
    }

    fn at(self, burst: u64, denied: u64) -> Point {
        (LEFT + self.bursts.at(burst), self.y(share(denied, self.well_behaved)))
    }
}

/// One line per rate, with a dot at its suggested burst.
pub(super) fn chart(analysis: &Analysis, suggestion: &Suggestion) -> String {
    let candidates = &suggestion.candidates;
    let legend =
        candidates.iter().map(|candidate| bold_width(&label(candidate))).fold(120.0, f64::max)
            + 52.0;
    let right = WIDTH - legend;
    let points = || candidates.iter().flat_map(|candidate| &candidate.curve);
    let max = points().map(|point| point.burst).max().unwrap_or(1).min(BURST_MAX);
    let share_of = |denied| share(denied, analysis.well_behaved.count);
    let max_share = points().map(|point| share_of(point.denied)).fold(0.0, f64::max);
    let max_share = max_share.max(suggestion.at_most.as_f64() * 1.5).clamp(0.02, 1.0);
    let min = candidates.iter().map(|candidate| candidate.min_needed_burst).min().unwrap_or(1);
    let min = 10_u64.pow(min.clamp(1, max).ilog10());
    let bursts = Log::new(min, max, right - LEFT - 12.0);
    let layout = Layout { bursts, right, well_behaved: analysis.well_behaved.count, max_share };
    let mut svg = Svg::new(WIDTH, HEIGHT);
    axes(&mut svg, layout, (min, max));
    let bound = layout.y(suggestion.at_most.as_f64());
    svg.line((LEFT, bound), (right, bound), "bound");
    for (index, candidate) in candidates.iter().enumerate() {
        line(&mut svg, layout, candidate, index, suggestion.best == Some(index));
    }
    let at_most = format!("at most {}", suggestion.at_most);
    let row = TOP + 24.0 + 20.0 * candidates.len() as f64;
    svg.line((right + 14.0, row + 4.0), (right + 38.0, row + 4.0), "bound");
    svg.text((right + 44.0, row + 8.0), Anchor::Start, "", &at_most);
    svg.finish("Share of well-behaved keys ever denied, by burst")
}

fn axes(svg: &mut Svg, layout: Layout, (min, max): (u64, u64)) {
    for hundredths in SHARES {
        let share = hundredths as f64 / 100.0;
        if share > layout.max_share {
            break;
        }
        let y = layout.y(share);
        svg.line((LEFT, y), (layout.right, y), if hundredths == 0 { "axis" } else { "grid" });
        svg.text((LEFT - 6.0, y + 4.0), Anchor::End, "tick", &format!("{hundredths} %"));
    }
    for burst in log_ticks(min, max) {
        let x = LEFT + layout.bursts.at(burst);
        svg.line((x, BOTTOM), (x, BOTTOM + 5.0), "axis");
        svg.text((x, BOTTOM + 19.0), Anchor::Middle, "tick", &thousands(burst));
    }
    let middle = LEFT + (layout.right - LEFT) / 2.0;
    svg.text((middle, HEIGHT - 12.0), Anchor::Middle, "axis", "burst, in cells (logarithmic)");
    svg.upright((16.0, (TOP + BOTTOM) / 2.0), "well-behaved keys ever denied (square root)");
}

/// One rate: a step down at each burst that denies fewer keys.
fn line(svg: &mut Svg, layout: Layout, candidate: &Candidate, index: usize, is_best: bool) {
    let look = index % LOOKS;
    let mut points: Vec<Point> = Vec::new();
    for point in &candidate.curve {
        let at = layout.at(point.burst, point.denied);
        if let Some((_, above)) = points.last() {
            points.push((at.0, *above));
        }
        points.push(at);
    }
    if let Some((_, y)) = points.last().copied() {
        points.push((layout.right, y));
    }
    svg.path(&points, &format!("s{look}"));
    if let Some((quota, denied)) = &candidate.found {
        let at = layout.at(quota.burst_cells(), denied.well_behaved);
        let tooltip = format!(
            "{quota}: {} of well-behaved keys",
            percent(denied.well_behaved, layout.well_behaved)
        );
        svg.dot(at, 5.0, &format!("d{look}"), &tooltip);
        if is_best {
            svg.dot(at, 9.0, "ring", &tooltip);
        }
    }
    let y = TOP + 8.0 + 20.0 * index as f64;
    svg.path(&[(layout.right + 14.0, y), (layout.right + 38.0, y)], &format!("s{look}"));
    let class = if is_best { "name" } else { "" };
    svg.text((layout.right + 44.0, y + 4.0), Anchor::Start, class, &label(candidate));
}

fn label(candidate: &Candidate) -> String {
    match &candidate.found {
        Some((quota, _)) => format!("{}: burst {}", candidate.rate, thousands(quota.burst_cells())),
        None => format!("{}: none", candidate.rate),
    }
}
