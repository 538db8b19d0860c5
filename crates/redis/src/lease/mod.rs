//! Cells taken ahead from the bank and spent in this process.
//!
//! | file | what |
//! |---|---|
//! | `source.rs` | whom cells are taken from: the seam to the server |
//! | `lease_cell.rs` | one key's cells, in atomics |
//! | `pace.rs` | one key's pace: how many cells by how many calls, and when |
//! | `sizing.rs` | how many to ask for, and how long to pause: arithmetic |
//! | `key_state.rs` | one key: purse, sizes, what was told; time is an argument |
//! | `leased.rs`, `builder.rs` | the limiter: who calls, and who waits |
//! | `stats.rs` | counts |
//!
//! Accounts are kept by key in [`BoundedMap`](crate::bounded_map::Places).
//!
//! **The bound.** Cells charged at the bank at a moment `c` are spent between `c` and the end of
//! their lifetime `L`, which is counted from when the call was sent, so from before `c`. Those
//! spent in a span of `w` were therefore charged within a span of `w + L`. Of a bucket lowered to
//! `burst - rate * L`, that is at most `burst + rate * w`, over any number of processes, whatever
//! happens to them: cells that are lost with a process, or come too late, are not spent.

mod key_state;
mod lease_source;
mod builder;
mod leased;
mod pace;
mod lease_cell;
#[cfg(all(test, not(tollgate_loom)))]
pub(crate) mod simulation;
mod sizing;
mod stats;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;

pub use lease_source::{Grant, LeaseSource, LeaseRequest};
pub use builder::{LeaseError, LeasedBuilder};
pub use leased::Leased;
pub use stats::LeaseStats;

#[cfg(tollgate_loom)]
#[doc(hidden)]
pub use lease_cell::{CallEnd, CallState, LeaseCell, Until};
