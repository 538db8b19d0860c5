//! The documents of the repository, for the tests that compare them with the code.

use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A path as pages and configurations write it, on Windows too.
pub(crate) fn slashed(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").replace('\\', "/")
}

/// Every Markdown file of the repository, by its path from the root.
pub(crate) fn documents() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root().join(&folder)).expect("a folder");
        for entry in entries.map(|entry| entry.expect("an entry")) {
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            let path = folder.join(&name);
            let is_ours = !name.starts_with('.') && name != "target" && name != "corpus";
            if entry.path().is_dir() && is_ours {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(slashed(&path));
            }
        }
    }
    found.sort();
    found
}

/// The text without its code blocks.
pub(crate) fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// The code spans of a text, which has no code blocks.
pub(crate) fn code_spans(prose: &str) -> impl Iterator<Item = &str> {
    prose.split('`').skip(1).step_by(2)
}
