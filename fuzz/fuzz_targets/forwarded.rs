//! Any bytes in the headers that proxies write.

#![no_main]

#[path = "../../crates/http/tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::forwarded::forwarded(data));
