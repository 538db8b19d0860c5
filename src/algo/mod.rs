//! The algorithms, as pure functions of (word, ring, parameters, now, cost).
//!
//! Nothing here names an atomic, reads a clock, allocates or uses a float. A step is total: every
//! word, every instant and every cost has an answer. Where a value saturates, the step grants
//! too little, never too much. A step has no side effect, since a thread runs it again after a lost compare-and-swap.
//!
//! # Word layouts
//!
//! A state is the low [`PAYLOAD_BITS`] bits of a word. The table uses the bits above, and
//! hands a machine the state alone.
//!
//! | algorithm | bits 52..0 | idle when |
//! |---|---|---|
//! | [`gcra`] | theoretical arrival time (53, or 37 in a [compact](COMPACT_BITS) state) | that time has come |
//! | [`dynamic_gcra`] | theoretical arrival time (53), in fractions of a cell | that time has come |
//! | [`leaky_queue`] | theoretical arrival time (53, or 37) | that time has come |
//! | [`warm_up`] | when it is cold again (53 - w), warmth (w, from period and rate) | that time has come |
//! | [`fixed_window`] | end of the window (53 - c), cells counted (c, from the limit) | the window has ended |
//! | [`sub_windows`], [`sliding_counter`] | latest sub-window (53 - c), cells that count (c, from the limit) | that one no longer counts |
//! | [`sliding_log`] | time of the latest event (51 - p), lap (2), places it fills (p, from the largest limit) | it has left every window |
//! | [`in_flight`] | stamp (31), cells in flight (22); or period (21), cells of it (16) and of the one before (16) | no cell is in flight |
//!
//! [`sub_windows`], [`sliding_counter`] and [`sliding_log`] have a [`Ring`] of words beside the state word. The table uses the upper 10 bits of
//! each.
//!
//! | ring | words | bits 53..0 |
//! |---|---|---|
//! | [`sub_windows`] | one for each sub-window | as the word: a sub-window, cells charged in it |
//! | [`sliding_log`] | one for each event, and two | its round (2), time of an older event (52) |
//!
//! Instants are in units of the algorithm's [`Grid`]. An idle state needs no sweeping: its word
//! shows that it is over, and a key with an idle state is decided like a key without state.

#[cfg(feature = "std")]
pub mod adaptive;
pub mod any;
pub mod dynamic_gcra;
pub mod fixed_window;
pub mod gcra;
pub mod grid;
#[cfg(feature = "std")]
pub mod in_flight;
pub mod leaky_queue;
pub(crate) mod numbered;
#[cfg(feature = "std")]
pub mod oracle;
mod rebase;
mod refund;
mod ring;
pub mod sliding_counter;
pub mod sliding_log;
mod state_machine;
mod still;
pub mod sub_windows;
pub mod warm_up;
#[cfg(feature = "std")]
mod within_delay;

pub use grid::Grid;
pub(crate) use numbered::Numbered;
pub use rebase::{CONFIG_WORDS, ClockChange, Moment, Rebase, Restart};
pub use refund::{Ahead, PerKey, PlanParams, Receipt, Refund, RefundVisitor};
pub use ring::{NoRing, Ring};
pub use state_machine::{Liveness, StateMachine, Step, Visitor};
pub use still::Still;
#[cfg(feature = "std")]
pub(crate) use within_delay::WithinDelay;

use crate::quota::{Quota, QuotaError};

/// Bits of a word that hold an algorithm's state.
pub const PAYLOAD_BITS: u32 = 53;

/// Bits of a word that hold an algorithm's state where the same word also holds the key.
pub const COMPACT_BITS: u32 = 37;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// An algorithm whose waiters ask again, so that a queue of waiters takes its limiters. (A token bucket is booked
/// instead.)
#[cfg(feature = "std")]
pub trait AsksAgain: Algorithm {}

/// A choice of algorithm: what [`Builder::algorithm`](crate::Builder::algorithm) takes.
///
/// The trait is sealed, so that methods can be added: no other crate implements it.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::{FixedWindow, Quota};
///
/// let params = FixedWindow::anchored().params(&Quota::per_minute(20), 0)?;
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Algorithm: sealed::Sealed + Clone {
    /// The algorithm with the quota worked in.
    type Params: StateMachine;

    /// Computes the parameters for a quota. `unix_origin_nanos` is the Unix time of the clock's
    /// [`Tick::ZERO`](crate::Tick::ZERO); only windows aligned to the wall clock use it.
    ///
    /// # Errors
    ///
    /// The quota or an option is out of range; the error says what to change.
    fn params(&self, quota: &Quota, unix_origin_nanos: u64) -> Result<Self::Params, QuotaError>;

    /// The parameters for the state of a compact slot; `None` if the algorithm or the quota needs
    /// more bits.
    ///
    /// ```
    /// use tollgate::algorithm::Algorithm;
    /// use tollgate::{Gcra, Quota, SlidingLog};
    ///
    /// let quota = Quota::per_second(100).burst(20);
    /// assert!(Gcra::new().compact_params(&quota, 0)?.is_some());
    /// assert!(SlidingLog::new().compact_params(&quota, 0)?.is_none());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The quota or an option is out of range for every kind of state; the error says what to
    /// change.
    fn compact_params(
        &self,
        quota: &Quota,
        unix_origin_nanos: u64,
    ) -> Result<Option<Self::Params>, QuotaError> {
        let _ = unix_origin_nanos;
        quota.validate().map(|()| None)
    }
}
