//! Any text as a rules file.

#![no_main]

#[path = "../../crates/rules/tests/rules/file_body.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|text: &str| body::hold(text));
