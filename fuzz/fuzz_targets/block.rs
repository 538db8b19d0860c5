//! Decisions in a shared block that is filled with arbitrary words.

#![no_main]

#[path = "../../tests/bodies/block.rs"]
#[allow(dead_code, reason = "the property test uses more of it")]
mod body;

use std::path::PathBuf;
use std::sync::OnceLock;

/// A file of this process.
fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| format!("/dev/shm/tollgate-fuzz-{}", std::process::id()).into())
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::block(path(), data);
    let _ = std::fs::remove_file(path());
});
