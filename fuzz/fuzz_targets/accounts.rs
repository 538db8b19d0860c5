//! A keyed limiter whose charges are taken back, saved and restored, against a model a key.

#![no_main]

#[path = "../../tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::accounts(data));
