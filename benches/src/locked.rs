//! What a decision stands beside: the same limiters under a lock, as a textbook has them.
//!
//! They answer yes or no and nothing else (but for [`Telling`]), and use no time of their own:
//! who calls gives it. Those of [`textbook`] read `std`'s clock.

mod lock;
mod maps;
mod states;
pub mod textbook;

use std::fmt::Debug;

pub use lock::{Kind, Lock, ParkingLot, Std};
pub use maps::{Gate, Keyed, One, ReadThenLock, ReadThenSwap};
pub use states::{Arrival, Log, OurStep, SubWindowCounts, WindowCount};

/// What is kept for a key.
pub trait Locked: Send + Sized + Debug {
    /// The limit, worked in: one for all keys.
    type Rule: Send + Sync + Debug;

    /// At most `limit` cells in `period_nanos`; where there is a burst, it is the limit.
    fn rule(limit: usize, period_nanos: u64) -> Self::Rule;

    /// A key never seen.
    fn new(rule: &Self::Rule) -> Self;

    /// Asks for one cell.
    fn check(&mut self, rule: &Self::Rule, now_nanos: u64) -> bool;
}

/// Which can say more than yes or no.
pub trait Telling: Locked {
    /// What the answer is worked out from, when the lock is free again.
    type View: Copy;

    /// Asks for one cell.
    fn charge(&mut self, rule: &Self::Rule, now_nanos: u64) -> (bool, Self::View);

    /// The whole answer.
    fn tell(rule: &Self::Rule, answer: (bool, Self::View), now_nanos: u64) -> Told;
}

/// The answer to one cell, in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether it was granted.
    pub admitted: bool,
    /// Cells that would be granted now, at once.
    pub remaining: u64,
    /// Nanoseconds until one cell would be granted; none if this one was.
    pub retry_after_nanos: u64,
}
