//! Every page of the guide is compiled, short, and named by the index, and the rules that it shows are valid.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_rules::{Rules, RulesLimiter};

const LINES_MAX: usize = 300;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages by name.
fn pages() -> Vec<(String, String)> {
    let entries = fs::read_dir(docs().join("guide")).expect("a folder");
    let page = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
        (name, read(&path))
    };
    entries.map(|entry| page(entry.expect("an entry").path())).collect()
}

#[test]
fn every_page_is_compiled_short_and_in_the_index() {
    let compiled = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let index = read(&docs().join("guide.md"));
    let pages = pages();
    for (name, text) in &pages {
        assert!(
            compiled.contains(&format!(", \"{name}\");")),
            "verify/guide/src/lib.rs leaves out {name}"
        );
        assert!(index.contains(&format!("](guide/{name})")), "docs/guide.md leaves out {name}");
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{name} has {lines} lines, and may have {LINES_MAX}");
    }
    assert!(pages.len() >= 10, "only {} pages were found", pages.len());
}

/// A reader who has installed the packages has no examples to run.
#[test]
fn a_page_that_runs_an_example_says_where() {
    let mut runs = 0;
    for (name, text) in pages() {
        let text = text.replace('\n', " ");
        for before in text.split("cargo run -").collect::<Vec<_>>().split_last().expect("text").1 {
            let said = before.rfind("n a clone of the repository").map(|at| before.len() - at);
            assert!(said.is_some_and(|bytes| bytes < 80), "{name}: say where: ...{before}");
            runs += 1;
        }
    }
    assert!(runs >= 6, "only {runs} commands were found");
}

#[test]
fn every_rules_file_on_a_page_is_valid() {
    let mut files = 0;
    let reference = ("rules.md".to_owned(), read(&docs().join("rules.md")));
    for (name, text) in pages().into_iter().chain([reference]) {
        for block in text.split("```toml\n").skip(1) {
            let rules = block.split("```").next().expect("a block");
            let rules =
                Rules::parse(&name, rules).unwrap_or_else(|error| panic!("{name}: {error}"));
            RulesLimiter::new(rules).unwrap_or_else(|error| panic!("{name}: {error}"));
            files += 1;
        }
    }
    assert!(files >= 9, "only {files} files were found");
}

/// `limit_rate 1m` of nginx is 1,048,576 bytes a second, and `1MB/s` in a rules file a million.
#[test]
fn the_byte_rate_of_the_nginx_page_is_that_of_nginx() {
    let page = read(&docs().join("guide/coming-from-nginx.md"));
    let rate = page.split("bytes = \"").nth(1).expect("a byte rate").split('"').next();
    assert_eq!(rate, Some("1048576B/s"));
    let rules = "[[rule]]\nname = \"downloads\"\nbytes = \"1048576B/s\"\n";
    let rules = Rules::parse("nginx", rules).unwrap_or_else(|error| panic!("{error}"));
    RulesLimiter::new(rules).unwrap_or_else(|error| panic!("{error}"));
}
