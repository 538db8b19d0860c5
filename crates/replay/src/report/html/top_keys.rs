//! The keys denied most: one bar per key, of denied and admitted requests.

use super::Series;
use super::scale::{Linear, ticks};
use super::svg::{Anchor, Svg, cut, text_width};
use crate::log::charge::readable;
use crate::words::thousands;

const WIDTH: f64 = 920.0;
const BAR: f64 = 22.0;
const HEAD: f64 = 30.0;
const FOOT: f64 = 42.0;
/// The width to which a key is cut.
const KEY_WIDTH: f64 = 290.0;

/// The chart of one series; `None` if it denied no request.
pub(super) fn chart(series: &Series<'_>) -> Option<String> {
    let max = series.top.iter().map(|key| key.requests).max()?;
    let name = |key: &str| cut(&readable(key), KEY_WIDTH);
    let widest = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
    let left = widest(&mut series.top.iter().map(|key| text_width(&name(key.key)))) + 16.0;
    let left = left.max(80.0);
    let tooltip = |denied: u64, requests: u64| {
        format!("{} of {} denied", thousands(denied), thousands(requests))
    };
    let labels = series.top.iter().map(|key| text_width(&tooltip(key.denied, key.requests)));
    let right = widest(&mut labels.into_iter()) + 14.0;
    let scale = Linear::new(max, WIDTH - left - right);
    let bottom = HEAD + BAR * series.top.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + FOOT);
    legend(&mut svg, left);
    for tick in ticks(max) {
        let x = left + scale.at(tick);
        svg.line((x, HEAD - 4.0), (x, bottom + 4.0), "grid");
        svg.text((x, bottom + 17.0), Anchor::Middle, "tick", &thousands(tick));
    }
    for (index, key) in series.top.iter().enumerate() {
        let top = HEAD + BAR * index as f64 + 3.0;
        let (denied, all) = (scale.at(key.denied), scale.at(key.requests));
        let tooltip = tooltip(key.denied, key.requests);
        let tall = BAR - 6.0;
        svg.rect((left + denied, top), (all - denied, tall), "admitted", &tooltip);
        svg.rect((left, top), (denied.max(1.0), tall), "denied", &tooltip);
        svg.text((left - 8.0, top + 12.0), Anchor::End, "", &name(key.key));
        svg.text((left + all + 6.0, top + 12.0), Anchor::Start, "tick", &tooltip);
    }
    svg.line((left, HEAD - 4.0), (left, bottom + 4.0), "axis");
    svg.text(
        (left + (WIDTH - left - right) / 2.0, bottom + 36.0),
        Anchor::Middle,
        "axis",
        "requests of the key",
    );
    Some(svg.finish(&format!("Keys denied most by {}", series.name)))
}

fn legend(svg: &mut Svg, left: f64) {
    svg.rect((left, 6.0), (12.0, 12.0), "denied", "");
    svg.text((left + 17.0, 16.0), Anchor::Start, "", "denied");
    svg.rect((left + 84.0, 6.0), (12.0, 12.0), "admitted", "");
    svg.text((left + 101.0, 16.0), Anchor::Start, "", "not denied");
}
