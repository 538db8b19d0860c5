//! The `RateLimit` header fields, with any names and numbers.

#![no_main]

#[path = "../../crates/http/tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::fields::fields(data));
