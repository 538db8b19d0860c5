//! The table of algorithms, and any of them chosen when the program runs.
//!
//! A limiter of [`AnyAlgorithm`] is one type whatever a rules file says. It decides as the
//! algorithm itself does, at the price of a branch on which one it is.
//!
//! A new algorithm is a row in the table below.

use core::str::FromStr;

#[cfg(feature = "std")]
use super::AsksAgain;
use super::fixed_window::{FixedWindow, FixedWindowParams};
use super::gcra::{Gcra, GcraParams};
use super::leaky_queue::{LeakyQueue, LeakyQueueParams};
#[cfg(feature = "shared-memory")]
use super::numbered::NumberedAlgorithm;
#[cfg(feature = "std")]
use super::oracle;
use super::sliding_counter::SlidingCounter;
use super::sliding_log::{SlidingLog, SlidingLogParams, SlidingLogView};
use super::sub_windows::{SubWindowParams, SubWindowView, SubWindows};
use super::warm_up::{WarmUp, WarmUpParams};
use super::{Algorithm, sealed::Sealed};
use crate::quota::{Quota, QuotaError};
#[cfg(feature = "std")]
use crate::time::Tick;

#[macro_use]
mod rows;

// A row: parameters, `AsksAgain` unless waiters are booked, the view that a decision is made from, the oracle, the
// number in snapshots and shared blocks, and the names, each with the algorithm of that name. Other versions of this
// crate know an algorithm by its number, so that never changes, and a new row takes the next free one. Two numbers
// have no row: see `src/limiter/shared/quota_text.rs`. A name without an algorithm does not parse: a warm-up has no
// period without options.
algorithms! { $
    /// Any of the algorithms.
    ///
    /// ```
    /// use tollgate::{AnyAlgorithm, Limiter, Quota, SubWindows};
    ///
    /// // From a file, by name; and from the program.
    /// let named: AnyAlgorithm = "sliding-log".parse()?;
    /// let given = AnyAlgorithm::from(SubWindows::new().count(12));
    /// for algorithm in [named, given] {
    ///     let gate: Limiter<str, AnyAlgorithm> =
    ///         Limiter::builder(Quota::per_minute(10)).algorithm(algorithm).capacity(100).build()?;
    ///     assert!(gate.check("somebody").is_ok());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    AnyAlgorithm,
    /// [`AnyAlgorithm`] with a quota worked in.
    ///
    /// ```
    /// use tollgate::algorithm::Algorithm;
    /// use tollgate::internals::StateMachine;
    /// use tollgate::{AnyAlgorithm, Quota};
    ///
    /// let log: AnyAlgorithm = "sliding-log".parse()?;
    /// assert_eq!(log.params(&Quota::per_minute(10), 0)?.ring_cells(), 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    AnyParams,
    AnyView,
    /// The oracle of [`AnyAlgorithm`].
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    AnyOracle {
        /// A token bucket.
        Gcra(GcraParams), Word, Level, 1, "gcra" = Gcra::new();
        /// Fixed windows.
        FixedWindow(FixedWindowParams): AsksAgain, Word, Window, 3,
            "fixed-window" = FixedWindow::anchored(), "fixed-window-aligned" = FixedWindow::aligned();
        /// A leaky bucket as a queue.
        LeakyQueue(LeakyQueueParams): AsksAgain, Word, Queue, 2, "leaky-queue" = LeakyQueue::new();
        /// An even rate that a key reaches only as it is used.
        WarmUp(WarmUpParams): AsksAgain, Word, Ramp, 4, "warm-up";
        /// A sliding window of sub-windows.
        SubWindows(SubWindowParams<false>): AsksAgain, SubWindows, SubWindowCounts, 5,
            "sub-windows" = SubWindows::new();
        /// The two-window weighted estimate.
        SlidingCounter(SubWindowParams<true>): AsksAgain, SubWindows, SubWindowCounts, 6,
            "sliding-counter" = SlidingCounter::new();
        /// The exact log.
        SlidingLog(SlidingLogParams): AsksAgain, SlidingLog, EventLog, 7, "sliding-log" = SlidingLog::new();
    }
}

// Below the table, since it uses what that defines.
mod machine;

/// The data of a decision.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AnyView {
    /// The word.
    Word(u64),
    /// The word, and what was in its ring.
    SubWindows(SubWindowView),
    /// The word, and what was in its ring.
    SlidingLog(SlidingLogView),
}

impl From<u64> for AnyView {
    #[inline]
    fn from(word: u64) -> Self {
        Self::Word(word)
    }
}

impl From<SubWindowView> for AnyView {
    #[inline]
    fn from(view: SubWindowView) -> Self {
        Self::SubWindows(view)
    }
}

impl From<SlidingLogView> for AnyView {
    #[inline]
    fn from(view: SlidingLogView) -> Self {
        Self::SlidingLog(view)
    }
}

#[cfg(feature = "std")]
impl AsksAgain for AnyAlgorithm {}

impl AnyAlgorithm {
    /// The names that parse, each for the algorithm as it is without options.
    ///
    /// ```
    /// use tollgate::AnyAlgorithm;
    /// assert!(AnyAlgorithm::NAMES.iter().all(|name| name.parse::<AnyAlgorithm>().is_ok()));
    /// ```
    pub const NAMES: &[&str] = &{
        let mut names = [""; NAMED.len()];
        let mut row = 0;
        while row < NAMED.len() {
            names[row] = NAMED[row].0;
            row += 1;
        }
        names
    };
}

impl FromStr for AnyAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let row = NAMED.iter().find(|(known, _)| *known == name);
        row.map(|(_, algorithm)| *algorithm).ok_or(UnknownAlgorithm)
    }
}

/// A name that is none of [`AnyAlgorithm::NAMES`].
///
/// ```
/// use tollgate::AnyAlgorithm;
/// let error = "tocken-bucket".parse::<AnyAlgorithm>().unwrap_err();
/// assert!(error.to_string().starts_with("no algorithm has this name: use one of gcra, "));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownAlgorithm;

impl core::fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no algorithm has this name: use one of ")?;
        for (index, name) in AnyAlgorithm::NAMES.iter().enumerate() {
            write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownAlgorithm {}

#[cfg(all(test, feature = "std"))]
pub(super) mod tests;
