//! The protocols of `tollgate-redis` as state machines, whose every reachable state is looked at.
//!
//! | file | what |
//! |---|---|
//! | `leases.rs` | processes with leases of a token bucket, or that ask each time; a server, a replica |
//! | `batches.rs` | processes that count a window and say so later |
//! | `shares.rs` | nodes that grant from their part of a quota, by a list of those that are alive |
//! | `meter.rs` | what was granted in the worst span, and what faults have added to its bound |
//! | `report.rs` | checks a model, and says how many states there are |
//!
//! What decides is the code that ships, included from `crates/redis/`: a purse spends
//! (`src/lease/purse.rs`), a tab admits (`src/batch/tab.rs`), a node has a part and may use it for so long
//! (`src/limiter/hot_keys/`), and the bucket and the list of nodes are those that a test compares with a real server
//! (`tests/bodies/`). Sizes and pauses are not: a process asks
//! whenever it likes, for as much as it likes.
//!
//! All times are relative to now, so states recur, and there is no end of time up to which they are
//! explored. Only the number of faults is bounded, of those that may add something. What adds
//! nothing (loss, delay, a partition, which is both, and the death of a process) happens as often
//! as it may.

#![forbid(unsafe_code)]

mod batch;
pub mod batches;
mod lease;
pub mod leases;
pub mod meter;
pub mod report;
mod share;
pub mod shares;

// As the crate whose files are included names its own.
mod bounded_map;
mod sync;
#[allow(dead_code, missing_docs, unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/src/unavailable.rs"]
mod unavailable;
use unavailable::Unavailable;
