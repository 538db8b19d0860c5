//! Attacks and mishaps, each a test with a stated bound.
//!
//! Other attacks are tested beside what they attack: known faults of peers in
//! `tests/oracle/peers.rs`, full tables in `tests/limiter/small_table.rs` and `tests/placement.rs`,
//! forged headers in `crates/http/tests/layer/spoofing.rs`.

mod clocks;
mod eviction;
mod flood;
mod process;
