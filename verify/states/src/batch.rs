//! The tab that ships.

#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/batch/ledger.rs"]
pub(crate) mod ledger;
#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/batch/tab.rs"]
pub(crate) mod tab;
