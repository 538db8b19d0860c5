//! The algorithms, as pure functions of (word, parameters, now, cost).
//!
//! Nothing here names an atomic, reads a clock, allocates or uses a float. A step is total: any
//! word, any instant and any cost give an answer, and what saturates does so on the limit's
//! side. It may run again (after a lost compare-and-swap), so it has no side effect.
//!
//! # Word layouts
//!
//! A state is the low [`PAYLOAD_BITS`] bits of a word; the table keeps the rest for itself.
//!
//! | algorithm | bits 52..0 | idle when |
//! |---|---|---|
//! | [`gcra`] | theoretical arrival time (53) | that time has come |
//! | [`fixed_window`] | end of the window (53 - c), cells counted (c, from the limit) | the window has ended |
//!
//! Instants are in units of the algorithm's [`Grid`], so that an idle state needs no sweeping:
//! it says for itself that it is over, and means the same as no state at all.

pub mod fixed_window;
pub mod gcra;
pub mod grid;
pub mod oracle;

pub use grid::Grid;

use core::time::Duration;

use crate::decision::{Decision, Denied, Permit};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;

/// Bits of a word that hold an algorithm's state.
pub const PAYLOAD_BITS: u32 = 53;

mod sealed {
    pub trait Sealed {}
}

/// A choice of algorithm: what [`Builder::algorithm`](crate::Builder::algorithm) takes.
///
/// It is sealed: the algorithms of this crate are all there are, so that methods can be added.
///
/// ```
/// use tollgate::algo::Algorithm;
/// use tollgate::{FixedWindow, Quota};
///
/// let params = FixedWindow::anchored().params(&Quota::per_minute(20), 0)?;
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Algorithm: sealed::Sealed {
    /// The algorithm with the quota worked in.
    type Params: OneWord;

    /// Works the quota in. `unix_origin_nanos` is the Unix time of the clock's
    /// [`Tick::ZERO`]; only windows aligned to the wall clock use it.
    ///
    /// # Errors
    ///
    /// What is out of range, with advice.
    fn params(&self, quota: &Quota, unix_origin_nanos: u64) -> Result<Self::Params, QuotaError>;
}

/// An algorithm whose whole state is one word.
///
/// ```
/// use tollgate::algo::{Algorithm, OneWord, Step};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(10).burst(1), 0)?;
/// let word = params.fresh(Tick::ZERO);
/// let Step::Admit { next } = params.step(word, Tick::ZERO, 1) else { panic!() };
/// assert_eq!(params.permit(word, Tick::ZERO, 1).remaining(), 0);
/// assert_eq!(params.step(next, Tick::ZERO, 1), Step::Refuse);
/// assert_eq!(params.denied(next, Tick::ZERO, 1).retry_after().unwrap().as_millis(), 100);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait OneWord: sealed::Sealed + Clone + Send + Sync + core::fmt::Debug {
    /// The naive exact model of this algorithm.
    type Oracle: oracle::Oracle;

    /// The state of a key that was never seen, stamped with the time.
    fn fresh(&self, now: Tick) -> u64;

    /// Whether a fresh key starts in debt, so that even its refusal has to be remembered.
    fn starts_in_debt(&self) -> bool {
        false
    }

    /// Decides about `n` cells. Never panics; bits above the payload are ignored and dropped.
    fn step(&self, word: u64, now: Tick, n: u64) -> Step;

    /// What to tell of an admission: `word` is the state that the step admitted from.
    ///
    /// Apart from the step, so that who does not ask does not pay.
    fn permit(&self, word: u64, now: Tick, n: u64) -> Permit;

    /// What to tell of a refusal: `word` is the state that the step refused from.
    fn denied(&self, word: u64, now: Tick, n: u64) -> Denied;

    /// The answer to `n` cells of a key in the state `word`, with nothing charged.
    fn answer(&self, word: u64, now: Tick, n: u64) -> Decision {
        match self.step(word, now, n) {
            Step::Admit { .. } => Ok(self.permit(word, now, n)),
            Step::Refuse => Err(self.denied(word, now, n)),
        }
    }

    /// `now` in units of the algorithm's grid, for [`standing`](Self::standing).
    fn instant(&self, now: Tick) -> u64;

    /// Whether the state means anything at `instant`, and how much.
    fn standing(&self, word: u64, instant: u64) -> Standing;

    /// The refusal of a key that finds no place until `word`, the state with the least debt, has
    /// been idle for `skew`.
    fn no_place(&self, word: u64, now: Tick, skew: Duration) -> Denied;

    /// The time grid that the state is kept on.
    fn grid(&self) -> &Grid;

    /// A naive exact model with the same parameters, in the state of a key never seen.
    fn oracle(&self) -> Self::Oracle;
}

/// What a state means at an instant.
///
/// ```
/// use tollgate::algo::{Algorithm, OneWord, Standing};
/// use tollgate::{FixedWindow, Quota, Tick};
///
/// let params = FixedWindow::anchored().params(&Quota::per_minute(20), 0)?;
/// let word = params.fresh(Tick::ZERO);
/// let now = params.instant(Tick::ZERO);
/// assert!(matches!(params.standing(word, now), Standing::Idle { .. }));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The same as no state: another key may have its place.
    Idle {
        /// Units for which it has been so.
        units: u64,
    },
    /// Something would be forgotten if the state were dropped.
    Live {
        /// How much, in units that compare between states of one limiter.
        debt: u64,
    },
}

/// What a step decided.
///
/// ```
/// use tollgate::algo::{Algorithm, OneWord, Step};
/// use tollgate::{FixedWindow, Quota, Tick};
///
/// let params = FixedWindow::anchored().params(&Quota::per_minute(20), 0)?;
/// assert_eq!(params.step(params.fresh(Tick::ZERO), Tick::ZERO, 21), Step::Refuse);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go ahead, and let `next` be the state.
    Admit {
        /// The state after the charge.
        next: u64,
    },
    /// Refuse, and leave the state.
    Refuse,
}
