//! Any text as a path.

#![no_main]

#[path = "../../crates/rules/tests/rules/path_body.rs"]
mod path_body;

libfuzzer_sys::fuzz_target!(|path: &str| path_body::hold(path));
