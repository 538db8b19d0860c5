//! Limiters to compare decisions with: the same algorithms under a lock, as in textbooks.
//!
//! They answer yes or no only (except [`FullAnswer`]). The caller passes the time. Those of
//! [`textbook`] read `std`'s clock.

mod counter;
mod lock;
mod maps;
mod states;
pub mod textbook;

use std::fmt::Debug;

pub use counter::TwoWindows;
pub use lock::{Kind, Lock, ParkingLot, Std};
pub use maps::{Gate, Keyed, One, ReadThenLock, ReadThenSwap};
pub use states::{Arrival, Log, OurStep, SubWindowCounts, WindowCount};

/// The state of a key.
pub trait Locked: Send + Sized + Debug {
    /// The limit, prepared for decisions: one for all keys.
    type Rule: Send + Sync + Debug;

    /// Admits at most `limit` cells in `period_nanos`; if there is a burst, it is the limit.
    fn rule(limit: usize, period_nanos: u64) -> Self::Rule;

    /// The state of a new key.
    fn new(rule: &Self::Rule) -> Self;

    /// Asks for one cell.
    fn check(&mut self, rule: &Self::Rule, now_nanos: u64) -> bool;
}

/// A state that can give a full answer, not only yes or no.
pub trait FullAnswer: Locked {
    /// The data from which the answer is computed after the lock is released.
    type View: Copy;

    /// Asks for one cell.
    fn charge(&mut self, rule: &Self::Rule, now_nanos: u64) -> (bool, Self::View);

    /// Computes the full answer.
    fn answer(rule: &Self::Rule, answer: (bool, Self::View), now_nanos: u64) -> Answer;
}

/// The full answer to a request for one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the cell was granted.
    pub admitted: bool,
    /// Cells that would be granted now, at once.
    pub remaining: u64,
    /// Nanoseconds until one cell would be granted; zero if this one was.
    pub retry_after_nanos: u64,
}
