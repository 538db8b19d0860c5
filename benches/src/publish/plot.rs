//! Drawings as SVG. Colours have a middle lightness and no background is painted, so drawings are legible on
//! light and dark pages.

use std::fmt::Write as _;

use super::losses::Side;

/// The colour of letters and thin lines.
pub(super) const INK: &str = "#76808c";
const OURS: &str = "#2f81e0";
/// The colours of peers and locks, used in turn.
const THEIRS: [&str; 4] = ["#d0762a", "#b565c9", "#3d9a50", "#c9566a"];
const FLOOR: &str = "#8b949e";

/// The point of a text that lies at its coordinates.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that is being made. Lengths are in pixels, from the top left.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    body: String,
}

impl Svg {
    pub(super) fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    pub(super) fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, fill: &str, text: &str) {
        self.write_text([x, y], anchor, fill, "", text);
    }

    /// A text in bold.
    pub(super) fn title(&mut self, [x, y]: [f64; 2], text: &str) {
        self.write_text([x, y], Anchor::Start, INK, " font-weight=\"bold\"", text);
    }

    fn write_text(&mut self, [x, y]: [f64; 2], anchor: Anchor, fill: &str, more: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{fill}\"{more}>\
             {text}</text>"
        );
    }

    /// A dot, filled or with an outline only.
    pub(super) fn dot(&mut self, [x, y]: [f64; 2], colour: &str, is_filled: bool) {
        let fill = if is_filled { colour } else { "none" };
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{colour}\"/>"
        );
    }

    /// A line through points; `opacity` from 0 to 1.
    pub(super) fn line(&mut self, points: &[[f64; 2]], stroke: &str, width: f64, opacity: f64) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-opacity=\"{opacity}\"/>",
            points.join(" ")
        );
    }

    /// The drawing as the text of a file.
    pub(super) fn finish(self, height: f64) -> String {
        let Self { width, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             {body}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The colour of a row. Peers with different values of `turn` have different colours until these repeat.
pub(super) fn colour(side: Side, turn: usize) -> &'static str {
    match side {
        Side::Floor => FLOOR,
        Side::Ours => OURS,
        Side::Theirs => THEIRS[turn % THEIRS.len()],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Whether all elements are nested and closed, all attributes are quoted, and texts contain no markup.
    pub(crate) fn is_well_formed(svg: &str) -> bool {
        let mut open = Vec::new();
        let mut pieces = svg.split('<');
        if pieces.next() != Some("") {
            return false;
        }
        for piece in pieces {
            let Some((tag, text)) = piece.split_once('>') else { return false };
            let entities = ["&amp;", "&lt;", "&gt;"];
            let plain = entities.iter().fold(text.to_owned(), |text, name| text.replace(name, ""));
            if plain.contains(['&', '>']) || tag.matches('"').count() % 2 != 0 {
                return false;
            }
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop() != Some(name) {
                    return false;
                }
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap_or_default());
            }
        }
        open.is_empty() && svg.starts_with("<svg ") && svg.ends_with("</svg>\n")
    }

    #[test]
    fn what_is_not_well_formed_is_found() {
        assert!(is_well_formed("<svg a=\"1\"><g>a &lt; b</g><r/></svg>\n"));
        let wrong = ["<svg ><g></svg>\n", "<svg >a & b</svg>\n", "<svg a=\"></svg>\n", "<svg >\n"];
        assert!(wrong.into_iter().all(|text| !is_well_formed(text)));
    }

    #[test]
    fn names_do_not_break_the_markup() {
        let mut svg = Svg::new(100.0);
        svg.text([1.0, 2.0], Anchor::End, INK, "Mutex<HashMap<K, V>> & more");
        let text = svg.finish(50.0);
        assert!(is_well_formed(&text), "{text}");
        assert!(text.contains("Mutex&lt;HashMap&lt;K, V&gt;&gt; &amp; more"), "{text}");
    }

    /// Relative luminance, as the Web Content Accessibility Guidelines define it.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let byte = u8::from_str_radix(&colour[at..at + 2], 16).expect("two digits");
            let share = f64::from(byte) / 255.0;
            if share <= 0.03928 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn every_colour_is_seen_on_light_and_on_dark() {
        let contrast = |one: f64, other: f64| (one.max(other) + 0.05) / (one.min(other) + 0.05);
        for colour in [INK, OURS, FLOOR].into_iter().chain(THEIRS) {
            for page in ["#ffffff", "#0d1117"] {
                let contrast = contrast(luminance(colour), luminance(page));
                assert!(contrast >= 3.0, "{colour} on {page}: {contrast:.2}");
            }
        }
    }
}
