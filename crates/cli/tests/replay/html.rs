//! `--html`: the page with charts.

use roxmltree::{Document, Node, ParsingOptions};

use crate::support::{
    AZURE_CODE, ELASTIC, HACKERS, NASA, data, json, replay, replay_with, scratch,
};

/// Replays, and passes the page to `look`.
fn page(name: &str, words: &[&str], input: &[u8], look: impl FnOnce(&str, &Document<'_>)) {
    let file = scratch(name, b"");
    let ran = replay_with(&[words, &["--html", &file]].concat(), input);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{words:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).expect("it is XML");
    check_page(&document);
    look(&text, &document);
}

fn tagged<'d>(
    document: &'d Document<'_>,
    name: &'static str,
) -> impl Iterator<Item = Node<'d, 'd>> {
    document.descendants().filter(move |node| node.tag_name().name() == name)
}

fn number(node: &Node<'_, '_>, name: &str) -> f64 {
    let text = node.attribute(name).unwrap_or_else(|| panic!("{name} of {node:?}"));
    let number: f64 = text.parse().unwrap();
    assert!(number.is_finite(), "{node:?}");
    number
}

/// Checks that the page has no script and no external resource, and draws nothing outside a picture.
fn check_page(document: &Document<'_>) {
    let known = [
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "pre", "strong",
        "div", "table", "tr", "th", "td", "svg", "rect", "line", "polyline", "circle", "text",
    ];
    for node in document.descendants().filter(Node::is_element) {
        assert!(known.contains(&node.tag_name().name()), "{node:?}");
        for attribute in node.attributes() {
            let name = attribute.name();
            assert!(
                !name.starts_with("on") && !name.ends_with("href") && name != "src",
                "{node:?}"
            );
        }
    }
    assert!(!document.input_text().contains("url("));
    for picture in tagged(document, "svg") {
        let (width, height) = (number(&picture, "width"), number(&picture, "height"));
        let inside = |x: f64, y: f64, node: &Node<'_, '_>| {
            assert!(
                (-0.5..=width + 0.5).contains(&x),
                "{x} of {width}: {node:?} {:?}",
                node.text()
            );
            assert!(
                (-0.5..=height + 0.5).contains(&y),
                "{y} of {height}: {node:?} {:?}",
                node.text()
            );
        };
        for node in picture.descendants().filter(Node::is_element) {
            match node.tag_name().name() {
                "rect" => {
                    let (x, y) = (number(&node, "x"), number(&node, "y"));
                    inside(x, y, &node);
                    inside(x + number(&node, "width"), y + number(&node, "height"), &node);
                }
                "line" => {
                    inside(number(&node, "x1"), number(&node, "y1"), &node);
                    inside(number(&node, "x2"), number(&node, "y2"), &node);
                }
                "circle" => inside(number(&node, "cx"), number(&node, "cy"), &node),
                "polyline" => {
                    for point in node.attribute("points").unwrap().split_whitespace() {
                        let (x, y) = point.split_once(',').unwrap();
                        inside(x.parse().unwrap(), y.parse().unwrap(), &node);
                    }
                }
                "text" if node.has_attribute("x") => {
                    let (x, y) = (number(&node, "x"), number(&node, "y"));
                    // Assumes narrow letters: a text that exceeds the picture by this measure certainly does.
                    let wide = node.text().unwrap_or_default().chars().count() as f64 * 6.0;
                    let left = match node.attribute("text-anchor").unwrap() {
                        "start" => x,
                        "middle" => x - wide / 2.0,
                        _ => x - wide,
                    };
                    inside(left, y, &node);
                    inside(left + wide, y, &node);
                }
                _ => {}
            }
        }
    }
}

fn headings(document: &Document<'_>) -> Vec<String> {
    tagged(document, "h2").filter_map(|node| node.text().map(str::to_owned)).collect()
}

#[test]
fn every_log_has_a_page_with_charts() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/example.toml");
    for (log, key, cost) in [
        (NASA, "ip", "1"),
        (HACKERS, "path", "1"),
        (ELASTIC, "ip+path", "bytes"),
        (AZURE_CODE, "none", "field:GeneratedTokens"),
    ] {
        let file = data(log);
        let words = ["--key", key, "--cost", cost, file.as_str()];
        let rule = [&["--rule", "20/min burst 3", "--compare", "--suggest"], &words[..]].concat();
        page(&format!("{log}-rule.html"), &rule, b"", |_, document| {
            assert_eq!(
                headings(document)[..2],
                ["Suggested rate and burst", "Burst against well-behaved keys denied"]
            );
            assert_eq!(headings(document).last().unwrap(), "Rate against burst");
            let least = if log == NASA { 4 } else { 2 };
            assert!(tagged(document, "svg").count() >= least, "{log}");
        });
        let rules = [&["--rules", rules], &words[..]].concat();
        page(&format!("{log}-rules.html"), &rules, b"", |text, _| assert!(text.contains("posts")));
    }
}

#[test]
fn the_page_shows_the_counts_of_the_limiters() {
    let file = data(NASA);
    let words = ["--rule", "1/s burst 1", "--rule", "1/s burst 20", "--top", "3", &file];
    page("figures.html", &words, b"", |text, document| {
        assert!(text.contains("<td>5,581</td><td>18.02 %</td>"), "the table");
        assert!(text.contains("164 of 364 denied") && text.contains("edams.ksc.nasa.gov"));
        assert!(text.contains("Nothing was denied by 1/s burst 20, gcra"));
        let tooltips: Vec<&str> =
            tagged(document, "title").filter_map(|node| node.text()).collect();
        let denied = |tooltip: &&&str| tooltip.ends_with(" denied") && tooltip.contains(": ");
        let over_time: u64 = tooltips
            .iter()
            .filter(denied)
            .map(|tooltip| {
                tooltip.rsplit(' ').nth(1).unwrap().replace(',', "").parse::<u64>().unwrap()
            })
            .sum();
        assert_eq!(over_time, 5_581);
        for cell in ["30/h burst 20", "5/min burst 1", "1/s burst 10"] {
            let limiter = json(&["--rule", cell, &file]);
            for (name, what, whole) in
                [("denied", "requests", "30,969"), ("keys_denied", "keys", "2,365")]
            {
                let count = limiter[name].as_u64().unwrap();
                let found = tooltips.iter().find(|tooltip| {
                    tooltip.starts_with(&format!("{cell}: "))
                        && tooltip.contains(&format!(" {what} ("))
                });
                let found = found.unwrap_or_else(|| panic!("no cell {cell}"));
                let start = format!("{count} of {whole}");
                assert!(found.replace(',', "").contains(&start.replace(',', "")), "{found}");
            }
        }
    });
}

/// Text from a client or a rules file must not become markup.
#[test]
fn markup_in_a_log_or_a_rule_is_escaped() {
    let key = "</text></svg><script>alert('1')</script>&amp;\"<img/src=x>\u{202e}";
    let mut log = String::new();
    for second in 0..9 {
        log += &format!(
            "{key} - - [01/Aug/1995:06:00:{second:02} +0000] \"GET /<b>&lt; HTTP/1.0\" 200 1\n"
        );
    }
    let hostile = |text: &str, document: &Document<'_>| {
        assert!(!text.contains("<script") && !text.contains("<img") && !text.contains("<b>"));
        assert!(!text.contains('\u{202e}'));
        let shown = |node: Node<'_, '_>| node.text().is_some_and(|text| text.contains("<script>"));
        assert!(tagged(document, "text").any(shown), "the key is there to be read");
    };
    page("hostile.html", &["--rule", "1/min", "--suggest"], log.as_bytes(), hostile);
    let rules = "[[rule]]\nname = \"</style><script>&\"\nlimits = \"1/min\"\n";
    let file = scratch("hostile.toml", rules.as_bytes());
    page("hostile-rules.html", &["--rules", &file], log.as_bytes(), hostile);
    let by_path = ["--rule", "1/min", "--key", "ip+path"];
    page("hostile-path.html", &by_path, log.as_bytes(), hostile);
}

#[test]
fn logs_of_no_request_one_request_and_centuries_have_a_page() {
    page("none.html", &["--rule", "1/s", "--suggest"], b"", |text, document| {
        assert!(text.contains("the input contains no request"));
        assert_eq!(tagged(document, "svg").count(), 0);
    });
    let one = b"time,ip,n\n1995-08-01T06:00:00Z,a,18446744073709551615\n";
    let words = ["--rule", "1/s", "--suggest", "--cost", "field:n"];
    page("one.html", &words, one, |text, _| {
        assert!(text.contains("none possible"), "{text}");
    });
    let centuries = b"time,ip\n1970-01-01T00:00:00Z,a\n1970-01-01T00:00:00Z,a\n2500-01-01T00:00:00Z,a\n2500-01-01T00:00:00Z,a\n";
    page("centuries.html", &["--rule", "1/d", "--suggest"], centuries, |_, document| {
        assert!(tagged(document, "svg").count() >= 4);
    });
}

#[test]
fn the_page_does_not_overwrite_an_input() {
    let log = scratch("precious.log", b"h - - [01/Aug/1995:06:00:00 +0000] \"GET /\" 200 1\n");
    let rules = scratch("precious.toml", b"rule = [{ name = \"a\", limits = \"1/s\" }]");
    for (words, precious) in [
        (["--rule", "1/s", "--html", &log, &log], &log),
        (["--rules", &rules, "--html", &rules, &log], &rules),
    ] {
        let before = std::fs::read(precious).unwrap();
        let ran = replay(&words);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("would overwrite"), "{}", ran.err);
        assert_eq!(std::fs::read(precious).unwrap(), before);
    }
    let ran = replay(&["--rule", "1/s", "--html", "/no/such/place.html", &log]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("cannot write /no/such/place.html"), "{}", ran.err);
}

#[test]
fn the_page_does_not_overwrite_the_decisions() {
    let log = scratch("twice.log", b"h - - [01/Aug/1995:06:00:00 +0000] \"GET /\" 200 1\n");
    let out = scratch("twice.out", b"");
    let folder = std::path::Path::new(&out).parent().unwrap().to_str().unwrap();
    let (new, again) = (format!("{folder}/twice.new"), format!("{folder}/./twice.new"));
    let _ = std::fs::remove_file(&new);
    for (decisions, html) in [(&out, &out), (&new, &again)] {
        let ran = replay(&["--rule", "1/s", "--decisions", decisions, "--html", html, &log]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("would overwrite the file of --decisions"), "{}", ran.err);
    }
    assert!(!std::fs::exists(&new).unwrap());
    let ran = replay(&["--rule", "1/s", "--decisions", &out, "--html", &new, &log]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
