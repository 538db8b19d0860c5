//! Words that several threads change: the retry loop of a decision.
//!
//! Orderings. Everything a decision depends on is in the one word that its compare-and-swap
//! names, so no other memory has to be seen with it and the algorithms would be right with
//! relaxed accesses. The table adds one thing: whoever has read a slot's owner must read a head
//! at least as new as the one its owner was written after. Hence Release on every successful
//! swap and Acquire on every load, which costs nothing on x86-64 and little elsewhere. The words
//! of a [`ring`] rely on the same two: see there.

mod compact_word;
mod direct;
mod receipt;
mod ring;
mod state_cell;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
pub(crate) mod tests;
mod versioned;

pub(crate) use compact_word::{Fingerprint, Word, WordCell};
pub(crate) use direct::DirectCell;
pub(crate) use receipt::Paid;
pub(crate) use ring::Cells;
pub(crate) use state_cell::{Charge, GENERATION_BITS, Head, HeadCell, Ruling};
#[cfg(not(tollgate_loom))]
pub(crate) use versioned::VersionedCell;
#[cfg(tollgate_loom)]
pub use versioned::{Busy, VersionedCell};
