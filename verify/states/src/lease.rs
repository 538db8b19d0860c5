//! The lease cell that ships.

#[allow(dead_code, unreachable_pub, unused_imports, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/lease/lease_cell/mod.rs"]
pub(crate) mod lease_cell;
