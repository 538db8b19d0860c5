//! A snapshot with some bytes changed, restored.

#![no_main]

#[path = "../../tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::snapshot::snapshot(data));
