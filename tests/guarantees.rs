//! Every test that docs/guarantees.md names exists.

use std::path::Path;

/// The code spans of the page that name a file, with the test in it if one is named.
fn named(page: &str) -> Vec<(&str, Option<&str>)> {
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.contains('/') && code.contains(".rs"))
        .map(|code| code.split_once("::").map_or((code, None), |(file, test)| (file, Some(test))))
        .collect()
}

#[test]
fn every_test_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(root.join(file));
    let page = read("docs/guarantees.md").expect("the page");
    let named = named(&page);
    assert!(named.len() > 40, "the page names too few tests: {}", named.len());
    for (file, test) in named {
        let text = read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let found = match test {
            Some(test) => text.contains(&format!("fn {test}(")),
            None => {
                text.contains("#[test]") || text.contains("::test]") || text.contains("proptest!")
            }
        };
        assert!(found, "{file} has no test {}", test.unwrap_or("at all"));
    }
}
