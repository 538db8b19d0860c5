//! Any bytes as an access log that `tollgate replay` reads.

#![no_main]
#![allow(
    dead_code,
    unused_imports,
    reason = "a command has no library: these are the modules that read logs"
)]

#[path = "../../crates/cli/src/charge.rs"]
mod charge;
#[path = "../../crates/cli/src/format/mod.rs"]
mod format;
#[path = "../../crates/cli/src/head.rs"]
mod head;
#[path = "../../crates/cli/src/log_lines/mod.rs"]
mod log_lines;
#[path = "../../crates/cli/src/record.rs"]
mod record;
#[path = "../../crates/cli/src/source.rs"]
mod source;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    log_lines::log_lines(data);
});
