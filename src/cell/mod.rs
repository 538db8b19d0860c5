//! Words that several threads change.
//!
//! [`StateCell`] is the retry loop of a decision, written once for both kinds of state word: the
//! [`Head`] of a wide slot, and the [`CompactWord`] that holds its key too. A [`SlotRing`] is the
//! words beside a head; an [`AdaptiveCell`] collects samples and holds a controller's state.

mod adaptive_cell;
mod backoff;
mod compact_word;
mod direct;
mod head;
mod receipt;
mod ring;
mod ruling;
mod state_cell;
mod state_word;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
pub(crate) mod tests;

#[cfg(not(tollgate_loom))]
pub(crate) use adaptive_cell::{AdaptiveCell, AdaptivePlan};
#[cfg(tollgate_loom)]
pub use adaptive_cell::{AdaptiveCell, AdaptivePlan};
pub(crate) use compact_word::{CompactCell, CompactWord, Fingerprint};
pub(crate) use direct::DirectCell;
pub(crate) use head::{GENERATION_BITS, Head, HeadCell};
pub(crate) use receipt::ChargeReceipt;
pub(crate) use ring::{Loaded, SlotRing};
pub(crate) use ruling::{Answer, InFull, Request, Ruling, YesOrNo};
pub(crate) use state_cell::{LostRace, MaxAhead, StateCell};
pub(crate) use state_word::{Seen, StateWord};
