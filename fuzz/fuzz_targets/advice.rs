//! The header fields of a response that a client obeys, as any bytes.

#![no_main]

#[path = "../../crates/client/tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::advice(data));
