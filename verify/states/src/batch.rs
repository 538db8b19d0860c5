//! The pending counts that ship.

#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/batch/counter_store.rs"]
pub(crate) mod counter_store;
#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/batch/pending_counts.rs"]
pub(crate) mod pending_counts;
