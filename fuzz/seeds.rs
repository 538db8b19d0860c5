//! The committed seeds of a fuzz target's corpus, for the tests that replay them. Each of these tests
//! includes this file.

use std::path::{Path, PathBuf};

/// The content of each file of the corpus whose name begins with `seed-`. Fuzzing leaves other files there.
pub(crate) fn seeds_of(target: &str) -> Vec<Vec<u8>> {
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
