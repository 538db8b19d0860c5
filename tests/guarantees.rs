//! Every test and every file of Rust that a page names exists, and every footnote has its text.

mod pages;

use std::collections::BTreeSet;
use std::path::Path;

use pages::{code_spans, documents, prose, read, root};

/// Whether the text of a file has tests.
fn has_tests(text: &str) -> bool {
    text.contains("#[test]") || text.contains("::test]") || text.contains("proptest!")
}

/// The lines of attributes before the test of this name, if the text has it. A program that lists its tests itself
/// has none.
fn attributes_of_test<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let (before, _) = text.split_once(&format!("fn {name}("))?;
    let above = &before[..before.rfind('\n')?];
    // Attributes may take several lines; before them is a comment, an empty line, or an end.
    let is_attribute = |line: &&str| !matches!(line.trim(), "" | "}") && !line.contains("//");
    let attributes: Vec<_> = above.lines().rev().take_while(is_attribute).collect();
    let is_test = !has_tests(text) || attributes.iter().any(|line| line.contains("test"));
    is_test.then_some(attributes)
}

/// A span such as `tests/threads/main.rs::no_cell_is_lost`, as a file and its test.
fn file_and_test(code: &str) -> Option<(&str, Option<&str>)> {
    let (file, test) =
        code.split_once("::").map_or((code, None), |(file, test)| (file, Some(test)));
    // Recipes name files that are yet to be written, such as `src/algo/NAME.rs`.
    let is_one = !file.contains(|c: char| c.is_ascii_uppercase() || matches!(c, '*' | ' '));
    (file.ends_with(".rs") && is_one).then_some((file, test))
}

/// Reads the file that a page names: by its path from the root or from the page's folder, or by its
/// name alone if it is a model of loom.
fn named_file(page: &str, file: &str) -> String {
    let folder = Path::new(page).parent().expect("a page's folder");
    let places = [Path::new(""), folder, Path::new("loom-tests/tests")];
    let found = places.iter().map(|place| root().join(place).join(file)).find(|path| path.exists());
    let path = found.unwrap_or_else(|| panic!("{page}: {file} is not there"));
    std::fs::read_to_string(path).expect("a file")
}

#[test]
fn every_test_and_file_that_a_page_names_exists() {
    let mut tests = 0;
    for page in documents() {
        let prose = prose(&read(&page));
        for (file, test) in code_spans(&prose).filter_map(file_and_test) {
            let text = named_file(&page, file);
            let Some(name) = test else { continue };
            let attributes = attributes_of_test(&text, name)
                .unwrap_or_else(|| panic!("{page}: {file} has no test {name}"));
            let is_ignored = attributes.iter().any(|line| line.contains("#[ignore"));
            let mut rows = prose.lines().filter(|row| row.contains(name));
            assert!(
                !is_ignored || rows.all(|row| row.contains("`ci/check.sh ")),
                "{page}: name the command that runs {name}, which is ignored otherwise"
            );
            tests += 1;
        }
    }
    assert!(tests > 120, "the pages name too few tests: {tests}");
}

#[test]
fn every_file_that_shows_a_promise_has_tests() {
    let mut files = 0;
    let is_evidence = |line: &&str| line.starts_with('|') || line.starts_with("[^");
    for page in ["docs/guarantees.md", "docs/distributed-evidence.md"] {
        for row in read(page).lines().filter(is_evidence) {
            for (file, _) in code_spans(row).filter_map(file_and_test).filter(|it| it.1.is_none()) {
                assert!(has_tests(&named_file(page, file)), "{page}: {file} has no test");
                files += 1;
            }
        }
    }
    assert!(files > 20, "the pages name too few files of tests: {files}");
}

#[test]
fn every_footnote_is_defined_once_and_used() {
    let mut notes = 0;
    for page in documents() {
        let text = prose(&read(&page));
        let (mut defined, mut used) = (Vec::new(), BTreeSet::new());
        for line in text.lines() {
            for (at, _) in line.match_indices("[^") {
                let (name, rest) = line[at + 2..].split_once(']').expect("a closed footnote");
                match at == 0 && rest.starts_with(':') {
                    true => defined.push(name),
                    false => drop(used.insert(name)),
                }
            }
        }
        defined.sort_unstable();
        assert_eq!(defined, Vec::from_iter(used), "{page}: footnotes defined, and used");
        notes += defined.len();
    }
    assert!(notes > 100, "only {notes} footnotes were found");
}

/// Ordinary tests do not guard an atomic protocol, so its file says what does.
#[test]
fn every_protocol_file_names_its_model_and_the_command_that_runs_it() {
    let page = read("docs/model-checking.md");
    let rows =
        page.lines().skip_while(|line| !line.starts_with("| protocol | stated in |")).skip(2);
    let mut named = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let models: Vec<&str> = code_spans(cells[3]).collect();
        for file in code_spans(cells[2]) {
            let text = read(file);
            let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
            assert!(
                models.iter().any(|model| head.contains(model)),
                "{file} names none of {models:?}"
            );
            assert!(head.contains("ci/check.sh loom"), "{file} does not name `ci/check.sh loom`");
            named += 1;
        }
    }
    assert!(named > 25, "{named}");
}
