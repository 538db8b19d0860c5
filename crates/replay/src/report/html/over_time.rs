//! Denials over time: one band of bars per series, on one time axis.

use super::Series;
use super::scale::{Linear, ticks};
use super::svg::{Anchor, Svg, cut, text_width};
use crate::report::chart::{label_format, long_label};
use crate::tally::timeline::{Columns, ROUND_NANOS};
use crate::words::{self, thousands};

const WIDTH: f64 = 920.0;
const RIGHT: f64 = 16.0;
const BAND: f64 = 96.0;
/// The room for the name above the bars of a band.
const HEAD: f64 = 36.0;
/// The room for the axis below the last band.
const FOOT: f64 = 44.0;
/// The smallest distance between labels of the time axis.
const LABEL_GAP: f64 = 18.0;

/// The chart of the series that denied requests; `None` if there are none.
pub(super) fn chart(series: &[Series<'_>], columns: &Columns, zone: &str) -> Option<String> {
    let counts = |index: usize| columns.counts.get(index).map_or(&[][..], Vec::as_slice);
    let shown: Vec<(&Series<'_>, &[u64])> = series
        .iter()
        .enumerate()
        .map(|(index, one)| (one, counts(index)))
        .filter(|(_, counts)| counts.iter().any(|count| *count > 0))
        .collect();
    let max = shown.iter().flat_map(|(_, counts)| counts.iter()).max()?;
    let left = text_width(&thousands(*max)) + 40.0;
    let height = (BAND + HEAD) * shown.len() as f64 + FOOT;
    let mut svg = Svg::new(WIDTH, height);
    for (index, (one, counts)) in shown.iter().enumerate() {
        let top = (BAND + HEAD) * index as f64 + HEAD;
        band(&mut svg, one, counts, columns, (left, top));
    }
    let bottom = height - FOOT;
    axis(&mut svg, columns, left, bottom);
    let middle = (left + (WIDTH - left - RIGHT) / 2.0, height - 6.0);
    let bar = words::span(columns.width_nanos);
    let about = format!("time on the log's clock ({zone}); {bar} a bar");
    svg.text(middle, Anchor::Middle, "axis", &about);
    svg.upright((12.0, (bottom + HEAD) / 2.0), "denied");
    Some(svg.finish("Requests denied over time"))
}

fn band(
    svg: &mut Svg,
    series: &Series<'_>,
    counts: &[u64],
    columns: &Columns,
    (left, top): (f64, f64),
) {
    let max = counts.iter().copied().max().unwrap_or(0);
    let scale = Linear::new(max, BAND - 6.0);
    let bottom = top + BAND;
    let denied = thousands(counts.iter().sum());
    svg.text((left, top - 8.0), Anchor::Start, "name", &cut(&series.name, 600.0));
    svg.text((WIDTH - RIGHT, top - 8.0), Anchor::End, "tick", &format!("{denied} denied"));
    for tick in ticks(max) {
        let y = bottom - scale.at(tick);
        svg.line((left, y), (WIDTH - RIGHT, y), if tick == 0 { "axis" } else { "grid" });
        svg.text((left - 6.0, y + 4.0), Anchor::End, "tick", &thousands(tick));
    }
    let step = (WIDTH - left - RIGHT) / counts.len().max(1) as f64;
    for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let start = columns.first_local_nanos + index as u64 * columns.width_nanos;
        let tooltip = format!("{}: {} denied", long_label(start, columns), thousands(*count));
        let tall = scale.at(*count).max(1.0);
        let x = left + step * index as f64;
        svg.rect((x, bottom - tall), ((step - 1.0).max(step * 0.8), tall), "denied", &tooltip);
    }
}

/// The time axis, with labels at round times that do not overlap.
fn axis(svg: &mut Svg, columns: &Columns, left: f64, bottom: f64) {
    let count = columns.counts.first().map_or(1, Vec::len).max(1);
    let step = (WIDTH - left - RIGHT) / count as f64;
    let start = |index: usize| columns.first_local_nanos + index as u64 * columns.width_nanos;
    let label =
        |index: usize| words::clock(start(index)).strftime(label_format(columns)).to_string();
    let room = text_width(&label(0)) + LABEL_GAP;
    let every = ROUND_NANOS
        .into_iter()
        .filter(|every| every % columns.width_nanos == 0)
        .find(|every| (every / columns.width_nanos) as f64 * step >= room)
        .unwrap_or(u64::MAX);
    let mut ticks: Vec<usize> = (0..count).filter(|index| start(*index) % every == 0).collect();
    if ticks.first().is_none_or(|first| *first as f64 * step >= room) {
        ticks.insert(0, 0);
    }
    for index in ticks {
        let x = left + step * index as f64;
        svg.line((x, bottom), (x, bottom + 5.0), "axis");
        let half = text_width(&label(index)) / 2.0;
        let middle = x.min(WIDTH - half);
        svg.text((middle, bottom + 19.0), Anchor::Middle, "tick", &label(index));
    }
}
