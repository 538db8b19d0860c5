//! A keyed limiter with refunds, snapshots and restores, against one model a key.

#![no_main]

#[path = "../../tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::accounts(data));
