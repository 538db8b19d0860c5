//! A keyed limiter whose quota changes, against limiters of one key each.

#![no_main]

#[path = "../../tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::changes(data));
