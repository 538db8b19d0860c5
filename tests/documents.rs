//! The documents keep their sizes, their links lead somewhere, and the numbers, names and commands that
//! they repeat are those of the code.

mod pages;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pages::{code_spans, documents, prose, read, root};
use tollgate::{AnyAlgorithm, Direct, Limiter, Quota, SlidingLog, WarmUp};

/// The anchor that a heading has on a page.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    let prose = prose(text);
    prose
        .lines()
        .any(|line| line.starts_with('#') && anchor(line.trim_start_matches('#')) == wanted)
}

/// The numbers of `rust-version` and `version` in the root's manifest.
fn manifest(field: &str) -> String {
    let text = read("Cargo.toml");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field} = \"")));
    line.unwrap_or_else(|| panic!("no {field}")).trim_end_matches('"').to_owned()
}

#[test]
fn documents_keep_their_sizes() {
    for (file, bytes) in [("README.md", 6_300), ("ARCHITECTURE.md", 10_000)] {
        let size = read(file).len();
        assert!(size <= bytes, "{file} has {size} bytes, and may have {bytes}");
    }
    assert!(read("CHANGELOG.md").lines().count() <= 40, "CHANGELOG.md may have 40 lines");
    let readme = read("README.md");
    let example = blocks(&readme, "rust").next().expect("an example").lines().count();
    assert!(example <= 12, "the README's example has {example} lines, and may have 12");
    let words = read("docs/glossary.md").lines().filter(|line| line.starts_with("- **")).count();
    assert!((1..=30).contains(&words), "the glossary has {words} words, and may have 30");
    for page in documents().iter().filter(|file| file.starts_with("benches/results/")) {
        assert!(read(page).lines().count() <= 300, "{page} may have 300 lines");
    }
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut count = 0;
    for file in documents() {
        let text = read(&file);
        let folder = Path::new(&file).parent().expect("a file's folder");
        for rest in prose(&text).split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { PathBuf::from(&file) } else { folder.join(path) };
            let there = root().join(&path);
            assert!(there.exists(), "{file}: {target} is not there");
            if !heading.is_empty() && there.is_file() {
                let text = std::fs::read_to_string(there).expect("a page");
                assert!(has_anchor(&text, heading), "{file}: {target} has no such heading");
            }
            count += 1;
        }
    }
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn every_command_that_is_named_exists() {
    let entry = read("ci/check.sh");
    let checks: BTreeSet<&str> = entry
        .lines()
        .filter(|line| line.starts_with("    ") && line.ends_with(')') && line.contains(" | "))
        .flat_map(|line| line.trim().trim_end_matches(')').split(" | "))
        .collect();
    assert!(checks.contains("loom") && checks.contains("soak"), "{checks:?}");
    for file in documents() {
        let text = read(&file);
        for rest in text.split("ci/").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c));
            let script = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            if !script.ends_with(".sh") {
                continue;
            }
            assert!(root().join("ci").join(script).exists(), "{file}: ci/{script} is not there");
            let name = rest[script.len()..].strip_prefix(' ').filter(|_| script == "check.sh");
            let name = name.and_then(|rest| rest.split([' ', '`', '\n', ',', '#']).next());
            if let Some(name) =
                name.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
            {
                assert!(checks.contains(name), "{file}: ci/check.sh has no check named {name}");
            }
        }
    }
}

#[test]
fn every_path_that_the_map_names_exists() {
    let places =
        ["src/", "crates/", "tests/", "docs/", "verify/", "benches/", "integrations/", "fuzz/"];
    let mut pages =
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).to_vec();
    pages.extend(documents().into_iter().filter(|file| file.starts_with("docs/design/")));
    for file in pages {
        let text = read(&file);
        for code in code_spans(&prose(&text)) {
            let is_pattern = code.contains(['*', ' ']) || code.contains("NAME");
            let is_path = places.iter().any(|place| code.starts_with(place)) && !is_pattern;
            assert!(!is_path || root().join(code).exists(), "{file}: {code} is not there");
        }
    }
}

/// The code of the blocks in this language, the first of them first.
fn blocks<'a>(text: &'a str, language: &'a str) -> impl Iterator<Item = &'a str> {
    let blocks = text.split("```").skip(1).step_by(2);
    blocks.filter_map(move |block| block.strip_prefix(language)).filter_map(|block| {
        let (attributes, code) = block.split_once('\n')?;
        (attributes.is_empty() || attributes.starts_with(',')).then_some(code)
    })
}

/// The words of code, and the marks between them.
fn tokens(code: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), code);
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        if !token.trim().is_empty() {
            tokens.push(token);
        }
        rest = after;
    }
    tokens
}

/// The first segments of paths that are no crate to install.
const NO_CRATES: [&str; 9] =
    ["alloc", "core", "crate", "self", "std", "str", "super", "u64", "usize"];

/// The crates that an example names: where its paths begin, unless it has imported what begins them.
fn crates_of(example: &str) -> BTreeSet<String> {
    let lines = example.lines().map(|line| line.split("//").next().unwrap_or_default());
    let lines = lines.map(|line| line.trim_start().trim_start_matches("# ")).collect::<Vec<_>>();
    let text = lines.join("\n");
    let imports = text.split("use ").skip(1).filter_map(|import| import.split(';').next());
    let imported: BTreeSet<_> =
        imports.flat_map(|import| tokens(import).into_iter().skip(1)).collect();
    let (mut before, mut roots) = ("", BTreeSet::new());
    for pair in tokens(&text).windows(3) {
        let is_path = pair[1] == "::" && pair[2] != "<" && before != "::";
        let is_lower = pair[0].starts_with(|c: char| c.is_ascii_lowercase());
        let is_known = imported.contains(pair[0]) || NO_CRATES.contains(&pair[0]);
        if is_path && is_lower && !is_known {
            roots.insert(pair[0].to_owned());
        }
        before = pair[0];
    }
    roots
}

#[test]
fn the_crates_of_an_example_are_where_its_paths_begin() {
    let example = "use std::io;\nuse tower::{Layer, util::{self}};\n# use http::Request; // no::crate\n\
                   #[tokio::main]\nasync fn main() { io::stdin(); util::x(bytes::Bytes::new()); }\n\
                   # fn b() { a.method::<u64>(u64::MAX); }";
    let crates: Vec<_> = crates_of(example).into_iter().collect();
    assert_eq!(crates, ["bytes", "http", "tokio", "tower"]);
}

/// A reader copies the lines that install crates, and then the example after them.
#[test]
fn a_quick_start_uses_only_crates_that_its_readme_installs() {
    let mut count = 0;
    for file in documents().iter().filter(|file| file.ends_with("README.md")) {
        let text = read(file);
        let mut installed = BTreeSet::new();
        for block in text.split("```").skip(1).step_by(2) {
            let (language, code) = block.split_once('\n').unwrap_or_default();
            let installs = match language {
                "toml" => code.starts_with("[dependencies]"),
                "sh" => code.starts_with("cargo add "),
                _ => false,
            };
            if installs {
                installed.extend(code.split([' ', '\n']).map(str::to_owned));
            }
            if installed.is_empty() || language.split(',').next() != Some("rust") {
                continue;
            }
            for name in crates_of(code) {
                let package = name.replace('_', "-");
                let is_there = installed.contains(&package) || installed.contains(&name);
                assert!(is_there, "{file}: the example needs {package}\n{code}");
                count += 1;
            }
        }
    }
    assert!(count >= 25, "only {count} names of crates were found");
}

/// Imports, comments and what only the test needs are not counted. A hidden line that makes a value is: who
/// copies the example must write it.
#[test]
fn an_adapter_takes_at_most_eight_lines_of_its_user() {
    let mut count = 0;
    for (file, after) in [
        ("crates/http/README.md", ""),
        ("crates/client/README.md", ""),
        ("crates/paced/README.md", "`futures`"),
        ("crates/redis/README.md", "## HTTP"),
        ("integrations/actix/README.md", ""),
        ("integrations/pingora/README.md", ""),
        ("integrations/reqwest/README.md", ""),
    ] {
        let text = read(file);
        let start = text.find(after).unwrap_or_else(|| panic!("{file} has no {after}"));
        for code in blocks(&text[start..], "rust") {
            let own = |line: &&str| {
                let is_left_out = ["#", "use ", "//"].iter().any(|its| line.starts_with(its));
                line.starts_with("# let ") || !line.is_empty() && !is_left_out
            };
            let lines = code.lines().map(str::trim_start).filter(own).count();
            assert!((1..=8).contains(&lines), "{file}: {lines} lines in\n{code}");
            let hidden = code.lines().filter(|line| line.starts_with("# ")).count();
            assert!(hidden <= 8, "{file}: {hidden} hidden lines in\n{code}");
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} examples were found");
}

#[test]
fn versions_are_those_of_the_manifest() {
    let (version, rust) = (manifest("version"), manifest("rust-version"));
    let short = version.rsplit_once('.').expect("three numbers").0;
    let mut stated = BTreeSet::new();
    for file in documents().into_iter().filter(|file| file.ends_with("README.md")) {
        let text = read(&file);
        for line in blocks(&text, "toml").flat_map(str::lines) {
            // `tollgate-NAME = "0.1"`, or `= { version = "0.1", features = [..] }`.
            let Some((package, version)) = line.split_once(" = ") else { continue };
            let version = version.trim_start_matches("{ version = ");
            if package.starts_with("tollgate") && version.starts_with('"') {
                let its = version.split('"').nth(1);
                assert_eq!(its, Some(short), "{file}: the version of {package}");
                stated.insert(package.to_owned());
            }
        }
    }
    assert!(stated.len() >= 5 && stated.contains("tollgate"), "only {stated:?} were found");
    assert!(read("CHANGELOG.md").contains(&format!("## {version} ")), "{version}");
    for file in ["README.md", "CONTRIBUTING.md"] {
        assert!(read(file).contains(&format!("Rust {rust} or later")), "{file}: Rust {rust}");
    }
}

/// Bytes a key of a limiter of this capacity, rounded up.
fn bytes_a_key(capacity: u64) -> u64 {
    let builder = Limiter::<u64>::builder(Quota::per_second(5)).capacity(capacity);
    let bytes = builder.build().expect("a limiter").memory_bytes();
    u64::try_from(bytes).expect("64 bits").div_ceil(capacity)
}

#[test]
fn sizes_and_defaults_are_those_of_the_code() {
    let pages = ["getting-started.md", "algorithms.md", "capacity.md"];
    let guide = pages.map(|page| read(&format!("docs/guide/{page}")));
    let guide = guide.concat().replace('\n', " ");
    let changelog = read("CHANGELOG.md").replace("\n  ", " ");

    // The last capacity with wide slots, and the first with compact ones.
    let (wide, compact) = (bytes_a_key(29_999), bytes_a_key(30_000));
    assert_eq!((wide, compact), (30, 15), "bytes a key");
    assert!(guide.contains("about 29 bytes a key, or 15 in compact slots"));
    assert!(guide.contains("takes from 30,000 keys on"));
    assert!(changelog.contains("Wide slots take 29 bytes a key, compact slots 15"));

    let by_default = Limiter::<u64>::builder(Quota::per_second(5)).build().expect("a limiter");
    let stated = Limiter::<u64>::builder(Quota::per_second(5)).capacity(100_000).build();
    assert_eq!(by_default.memory_bytes(), stated.expect("a limiter").memory_bytes());
    assert!(guide.contains("for which the table is sized; the default is 100,000."));

    let log = |limit| Direct::builder(Quota::per_hour(limit)).algorithm(SlidingLog::new()).build();
    assert!(log(65_536).is_ok() && log(65_537).is_err());
    assert!(guide.contains("at most 65,536"));

    let rate = |limit| Direct::new(Quota::per_second(limit));
    assert!(rate(1_000_000_000).is_ok() && rate(1_000_000_001).is_err());
    assert!(guide.contains("from 1 a year to 10^9 a second"));

    let percent = read("ci/instructions.sh");
    assert!(percent.contains("most_percent=3\n"));
    assert!(read("docs/design/measuring.md").contains("(`ci/instructions.sh`, 3 %)"));
}

/// The names of the types of all algorithms.
fn algorithm_types() -> BTreeSet<String> {
    let named = AnyAlgorithm::NAMES.iter().map(|name| name.parse().expect("a name"));
    let warm_up = AnyAlgorithm::from(WarmUp::new(Duration::from_secs(1)));
    let described = named.chain([warm_up]).map(|algorithm: AnyAlgorithm| format!("{algorithm:?}"));
    described.map(|text| text.split('(').next().expect("a variant").to_owned()).collect()
}

#[test]
fn the_front_page_of_the_documentation_has_rows_of_the_readme_and_links_that_lead_somewhere() {
    let (library, readme) = (read("src/lib.rs"), read("README.md"));
    let numbers = library.split("//! # Numbers\n").nth(1).expect("a section");
    let numbers = numbers.split("//! # ").next().expect("its text");
    let rows = numbers.lines().filter_map(|line| line.strip_prefix("//! |"));
    let rows: Vec<_> = rows.map(|row| format!("|{row}\n")).collect();
    assert!(rows.len() >= 5, "{rows:?}");
    for row in rows {
        assert!(
            readme.contains(&row),
            "src/lib.rs: copy the row of the README, which does not have\n{row}"
        );
    }
    let mut count = 0;
    for line in
        library.lines().filter(|line| line.starts_with("#![cfg_attr(doc, doc = concat!(\"["))
    {
        let path = line.split("/blob/HEAD/").nth(1).and_then(|rest| rest.split('"').next());
        let path = path.unwrap_or_else(|| panic!("src/lib.rs: {line}"));
        assert!(root().join(path).is_file(), "src/lib.rs: {path} is not there");
        count += 1;
    }
    assert!(count >= 3, "only {count} links were found");
}

#[test]
fn the_pages_about_algorithms_list_every_one() {
    let (readme, guide) = (read("README.md"), read("docs/guide/algorithms.md"));
    let guarantees = read("docs/guarantees.md");
    let types = algorithm_types();
    assert!(types.len() > 6 && types.contains("Gcra"), "{types:?}");
    assert!(readme.contains("| `AnyAlgorithm` |"));
    for name in types {
        assert!(readme.contains(&format!("| `{name}` |")), "README.md has no row for {name}");
        let is_named = |page: &str| {
            code_spans(page).any(|code| code.split("::").next() == Some(name.as_str()))
        };
        assert!(is_named(&guide), "docs/guide/algorithms.md does not name {name}");
        assert!(is_named(&guarantees), "docs/guarantees.md does not name {name}");
    }
}

#[test]
fn one_page_lists_the_names_of_all_algorithms_and_the_others_lead_there() {
    let guide = read("docs/guide/algorithms.md");
    let head = |line: &&str| !line.starts_with("| you want | take | name |");
    let rows = guide.lines().skip_while(head).skip(2).take_while(|line| line.starts_with('|'));
    let name = |row: &str| {
        Some(row.split(" | ").nth(2)?.strip_prefix("`\"")?.strip_suffix("\"`")?.to_owned())
    };
    let names: BTreeSet<String> = rows.filter_map(name).collect();
    let all = AnyAlgorithm::NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names, all, "docs/guide/algorithms.md");
    for (file, page) in [
        ("docs/rules.md", "(guide/algorithms.md)"),
        ("integrations/python/README.md", "(../../docs/guide/algorithms.md)"),
    ] {
        let text = read(file);
        let row = text.lines().find(|line| line.starts_with("| `algorithm` | ")).expect("a row");
        assert!(row.contains(page), "{file}");
    }
}
