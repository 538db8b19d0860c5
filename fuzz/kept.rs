//! What is kept in `corpus/` for a target: for the tests that replay it, each of which includes this file.

use std::path::{Path, PathBuf};

/// What each file holds whose name begins with `seed-`; others are what fuzzing left there.
pub(crate) fn kept(target: &str) -> Vec<Vec<u8>> {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = folders
        .map(|folder| folder.join("fuzz/corpus").join(target))
        .find(|folder| folder.is_dir())
        .expect("the corpus is kept with the sources");
    let files = folder.read_dir().expect("a readable folder");
    let paths = files.map(|entry| entry.expect("a readable folder").path());
    let is_seed = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-"))
    };
    paths.filter(is_seed).map(|path| std::fs::read(path).expect("a readable seed")).collect()
}
