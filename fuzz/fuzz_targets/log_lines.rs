//! Any bytes as an access log that `tollgate replay` reads.

#![no_main]
#![allow(
    dead_code,
    unused_imports,
    reason = "these modules are private to tollgate-replay, and this is the part that reads logs"
)]

#[path = "../../crates/replay/src/log/mod.rs"]
mod log;
#[path = "../../crates/replay/src/log_lines/mod.rs"]
mod log_lines;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    log_lines::log_lines(data);
});
