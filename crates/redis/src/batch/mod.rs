//! Decisions by a local copy of the counts, which are sent together.
//!
//! **The bound.** Say that at most `n` cells of a key are unsaid in a process: admitted, and not
//! yet in an answer of the ledger. Take the moment at which the ledger's count of a window reaches
//! the limit. What it had counted before is below the limit. What a process says at or after that
//! moment it says in one batch, the answer to which stops it: at most `n` cells, those admitted
//! meanwhile included. So `processes` of them admit at most `limit - 1 + processes * n`. One
//! process alone never exceeds the limit, since it counts what it has not said.
//!
//! What is admitted at the end of a window and said in the next counts in that one; it is among
//! the `n`. A process keeps to a window until it has surely ended.
//!
//! A request for a key without a place is counted first and then decided, and no tab knows of it. If
//! such a one takes the count to the limit, nobody's batch did: `limit + processes * n`.

mod batched;
mod builder;
mod counter_store;
mod pending_counts;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;

pub use batched::{BatchStats, Batched};
pub use builder::{BatchError, BatchedBuilder};
pub use counter_store::{Charge, CounterStore, WindowCount};

#[cfg(tollgate_loom)]
#[doc(hidden)]
pub use pending_counts::{AskOutcome, PendingCounts};
