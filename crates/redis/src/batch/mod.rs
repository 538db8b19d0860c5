//! Decisions by a local copy of counts, which are sent in batches.
//!
//! **The bound.** Say that a process has at most `n` pending cells of a key: admitted, and not yet
//! in an answer of the counter store. Take the moment at which the store's count of a window
//! reaches the limit. The cells counted before are below the limit. A process sends one batch at or
//! after that moment; the answer to it stops the process. That batch and the cells
//! admitted meanwhile are at most `n` cells. So `processes` of them admit at most
//! `limit - 1 + processes * n`. One process alone never exceeds the limit, because it counts its
//! own pending cells.
//!
//! Cells that are admitted at the end of a window and sent in the next one count in the next one.
//! They are among the `n`. A process keeps to a window until the window has ended by its own clock.
//! It counts from the arrival of the answer, which is later than the answer. So it keeps to the window
//! for long enough, unless its clock gains more than that on the store's, or the store's clock is set
//! back within the window. It then admits `n` cells more, until the next answer says how long the
//! window really stays open.
//!
//! A request for a key without room is counted first and then decided, and no pending counts
//! include it. If such a request takes the count to the limit, no process's batch did, and the
//! bound is `limit + processes * n`.

mod batched;
mod builder;
mod counter_store;
mod flusher;
mod key_counts;
mod pending_counts;
#[cfg(test)]
mod tests;

pub use batched::{BatchStats, Batched};
pub use builder::{BatchError, BatchedBuilder};
pub use counter_store::{Charge, CounterStore, WindowCount};
