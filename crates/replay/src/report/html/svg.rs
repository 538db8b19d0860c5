//! A small writer of SVG. All text goes through [`escaped`]; colours are classes of the page.

use std::fmt::Write;

use super::escape::escaped;

/// The assumed width of most characters: slightly more than at 12 pixels.
const CHAR_WIDTH: f64 = 6.8;

/// A picture, in pixels from the top left.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// The position of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A point of a picture.
pub(super) type Point = (f64, f64);

/// The approximate width of a text.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().map(char_width).sum()
}

/// Cuts a text to a width, and marks a cut with an ellipsis.
pub(super) fn cut(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut room = width - char_width('…');
    let fits = |letter: &char| {
        room -= char_width(*letter);
        room >= 0.0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

fn char_width(letter: char) -> f64 {
    match letter {
        'W' | 'M' | 'm' | 'w' | '@' | '%' | '…' => 12.0,
        'A'..='Z' => 9.0,
        '\u{1100}'.. => 13.0,
        _ => CHAR_WIDTH,
    }
}

/// The approximate width of a text in bold.
pub(super) fn bold_width(text: &str) -> f64 {
    text_width(text) * 1.12
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A rectangle with a tooltip.
    pub(super) fn rect(
        &mut self,
        (x, y): Point,
        (width, height): Point,
        class: &str,
        tooltip: &str,
    ) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        let tag = format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             class=\"{class}\""
        );
        self.element(&tag, "rect", tooltip);
    }

    /// A line.
    pub(super) fn line(&mut self, (x1, y1): Point, (x2, y2): Point, class: &str) {
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>\n"
        ));
    }

    /// A line through points.
    pub(super) fn path(&mut self, points: &[Point], class: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        self.add(format_args!("<polyline points=\"{points}\" class=\"{class}\"/>\n"));
    }

    /// A dot with a tooltip.
    pub(super) fn dot(&mut self, (x, y): Point, radius: f64, class: &str, tooltip: &str) {
        let tag =
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" class=\"{class}\"");
        self.element(&tag, "circle", tooltip);
    }

    /// A text.
    pub(super) fn text(&mut self, (x, y): Point, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>\n"
        ));
    }

    /// A text that reads upwards, with its middle at the point.
    pub(super) fn upright(&mut self, (x, y): Point, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\" \
             class=\"axis\">{text}</text>\n"
        ));
    }

    /// The picture, with a label for screen readers.
    pub(super) fn finish(self, name: &str) -> String {
        let Self { width, height, body } = self;
        let name = escaped(name);
        format!(
            "<div class=\"picture\"><svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
             aria-label=\"{name}\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\">\n{body}</svg></div>\n"
        )
    }

    fn element(&mut self, tag: &str, name: &str, tooltip: &str) {
        if tooltip.is_empty() {
            self.add(format_args!("{tag}/>\n"));
        } else {
            self.add(format_args!("{tag}><title>{}</title></{name}>\n", escaped(tooltip)));
        }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        self.body.write_fmt(element).expect("a String takes every text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_to_their_room() {
        assert_eq!(cut("short", 100.0), "short");
        for text in ["iiiiiiiiiiiiiiiiiiiiiiiii", "WWWWWWWWWWWWWWWWW", "漢字漢字漢字漢字漢字"]
        {
            let cut = cut(text, 100.0);
            assert!(cut.ends_with('…') && text_width(&cut) <= 100.0, "{cut}");
            assert!(text_width(&cut) > 80.0, "{cut}");
        }
    }

    #[test]
    fn texts_from_logs_and_rules_are_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text((1.0, 2.0), Anchor::End, "tick", "<a>");
        svg.upright((1.0, 2.0), "<b>");
        svg.rect((0.0, 0.0), (-1.0, 2.0), "h0", "<c>");
        svg.dot((0.0, 0.0), 1.0, "d0", "<d>");
        let text = svg.finish("\"<e>");
        for letter in ["a", "b", "c", "d", "e"] {
            assert!(text.contains(&format!("&lt;{letter}&gt;")), "{text}");
        }
        assert!(text.contains("width=\"0.0\"") && text.contains("aria-label=\"&quot;"));
    }
}
