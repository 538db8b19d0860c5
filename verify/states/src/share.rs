//! A node's part, and how long it may be used, as they ship.

#[allow(dead_code, missing_docs, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/share/membership.rs"]
pub(crate) mod membership;
#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/share/part.rs"]
pub(crate) mod part;
#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/share/part_status.rs"]
pub(crate) mod part_status;
