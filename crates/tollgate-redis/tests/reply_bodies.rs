//! The fuzz target's body on random bytes, and on the corpus that is kept with the sources.

mod bodies;

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use bodies::replies::{plant, replies};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(100_000)
    })]

    #[test]
    fn replies_of_random_bytes(data in prop::collection::vec(any::<u8>(), 0..120)) {
        replies(&data);
    }
}

fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/replies");
    let files = std::fs::read_dir(&folder).expect("the corpus is kept with the sources");
    let is_seed = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-"))
    };
    files.map(|entry| entry.expect("a readable folder").path()).filter(is_seed).collect()
}

#[test]
fn the_kept_corpus_passes() {
    let kept = kept();
    for path in &kept {
        replies(&std::fs::read(path).expect("a readable seed"));
    }
    assert!(kept.len() >= 8, "{}", kept.len());
}

/// A body that finds no mistake would pass whatever it is given.
#[test]
fn a_planted_mistake_is_found() {
    let found = kept().into_iter().filter(|path| {
        let data = std::fs::read(path).expect("a readable seed");
        plant(true);
        let passes = catch_unwind(|| replies(&data)).is_ok();
        plant(false);
        !passes
    });
    assert!(found.count() >= 3);
}
