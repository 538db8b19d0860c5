//! What is done to a limiter on purpose, or by a bad day: each a named test.
//!
//! Others stand where what they attack is tested: known wounds of peers in `tests/oracle/peers.rs`,
//! full tables in `tests/limiter/places.rs` and `tests/placement.rs`, forged headers in
//! `crates/http/tests/spoofing.rs`.

mod clocks;
mod eviction;
mod flood;
mod process;
