//! The lease cell and the pending counts of `tollgate-redis`, on loom's atomics.
//!
//! They are the files that ship, included. The crate itself would bring tokio and a Redis client,
//! which no model needs.

use crate::bounded_map::Entry;

#[allow(dead_code, missing_docs, unused_imports, reason = "a file of another crate")]
#[path = "../../crates/redis/src/lease/lease_cell/mod.rs"]
mod lease_cell;

#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
#[path = "../../crates/redis/src/batch/counter_store.rs"]
mod counter_store;
#[allow(dead_code, missing_docs, reason = "a file of another crate")]
#[path = "../../crates/redis/src/batch/pending_counts.rs"]
mod pending_counts;

pub use crate::sync::{PlantedFault, plant};
pub use counter_store::WindowCount;
pub use lease_cell::{CallEnd, CallState, LeaseCell, Until};
pub use pending_counts::{AskOutcome, PendingCounts};

/// The pending counts of a key that is seen for the first time.
#[must_use]
pub fn pending_counts() -> PendingCounts {
    Entry::new(b"key")
}
