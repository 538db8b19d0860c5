//! Cells taken ahead from a source and spent in this process.
//!
//! | file | content |
//! |---|---|
//! | `lease_source.rs` | the interface to the server |
//! | `lease_cell/` | one key's cells, in atomics |
//! | `pace.rs` | how fast one key spends, and so how many cells its calls ask for, and when |
//! | `sizing.rs` | sizes and pauses: arithmetic |
//! | `key_state/` | one key: cells, pace, last reply; time is an argument |
//! | `leased.rs`, `builder.rs` | the limiter |
//! | `calls.rs` | which request calls, which waits |
//! | `stats.rs` | counters |
//!
//! Key states are kept in a [`BoundedMap`](crate::bounded_map::BoundedMap).
//!
//! **The bound.** Cells that are charged at the source at a moment `c` are spent between `c` and
//! the end of their lifetime `L`. The lifetime is counted from when the call was sent, so from before
//! `c`. Cells that are spent in a span of `w` were therefore charged within a span of `w + L`. From a
//! bucket lowered to `burst - rate * L`, that is at most `burst + rate * w`, over any number of
//! processes. No fault of a process adds to it: cells that are lost with a process, or arrive too
//! late, are not spent.

mod builder;
mod calls;
mod key_state;
mod lease_cell;
mod lease_source;
mod leased;
mod pace;
#[cfg(test)]
pub(crate) mod simulation;
mod sizing;
mod stats;
#[cfg(test)]
mod tests;

pub use builder::{LeaseError, LeasedBuilder};
pub use lease_source::{Grant, LeaseRequest, LeaseSource};
pub use leased::Leased;
pub use stats::LeaseStats;
