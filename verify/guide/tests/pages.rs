//! Every page of the guide is compiled, short, and named by the index.

use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 300;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_page_is_compiled_short_and_in_the_index() {
    let compiled = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let index = read(&docs().join("guide.md"));
    let mut pages = 0;
    for entry in fs::read_dir(docs().join("guide")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
        assert!(
            compiled.contains(&format!(", \"{name}\");")),
            "verify/guide/src/lib.rs leaves out {name}"
        );
        assert!(index.contains(&format!("](guide/{name})")), "docs/guide.md leaves out {name}");
        let lines = read(&path).lines().count();
        assert!(lines <= LINES_MAX, "{name} has {lines} lines, and may have {LINES_MAX}");
        pages += 1;
    }
    assert!(pages >= 10, "only {pages} pages were found");
}
