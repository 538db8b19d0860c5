//! The protocols of `tollgate-redis` as state machines. The checker visits every reachable state.
//!
//! | file | content |
//! |---|---|
//! | `leases.rs` | processes with leases of a token bucket, or without; a server, a replica |
//! | `batches.rs` | processes that count a window and send their counts later |
//! | `shares.rs` | nodes that grant from their part of a quota, by a list of live nodes |
//! | `meter.rs` | what was granted in the worst span, and what faults have added to its bound |
//! | `report.rs` | checks a model, and prints the number of states |
//!
//! The deciding code is the code that ships, included from `crates/redis/`: a lease cell spends
//! (`src/lease/lease_cell/`), pending counts admit (`src/batch/pending_counts.rs`), a node has a
//! part and may use it for a time (`src/share/part.rs`, `src/share/part_status.rs`). The bucket and
//! the membership list are those that a test compares with a real server (`tests/bodies/`). Sizes
//! and pauses are not modelled: a process calls at any time, for any number of cells.
//!
//! All times are relative to the present, so states recur, and there is no bound on the time that
//! is explored. Only the number of faults that may add something is bounded. What adds nothing
//! (loss, delay, a partition, which is both, and the death of a process) happens any number of
//! times.

#![forbid(unsafe_code)]

mod batch;
pub mod batches;
mod lease;
pub mod leases;
pub mod meter;
pub mod report;
mod share;
pub mod shares;

// The names are those of the crate whose files are included.
mod bounded_map;
mod sync;
#[allow(dead_code, missing_docs, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/unavailable.rs"]
mod unavailable;
