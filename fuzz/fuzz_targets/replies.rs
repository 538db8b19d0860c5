//! The replies of a Redis server: any bytes, and any numbers.

#![no_main]

#[path = "../../crates/redis/tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::replies::replies(data));
