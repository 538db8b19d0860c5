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
//! | [`gcra`] | theoretical arrival time (53, or 37 in a [compact](COMPACT_BITS) state) | that time has come |
//! | [`paced`] | theoretical arrival time (53), in fractions of a cell | that time has come |
//! | [`leaky_queue`] | theoretical arrival time (53, or 37) | that time has come |
//! | [`warm_up`] | when it is cold again (53 - w), warmth (w, from period and rate) | that time has come |
//! | [`fixed_window`] | end of the window (53 - c), cells counted (c, from the limit) | the window has ended |
//! | [`sub_windows`], [`sliding_counter`] | latest sub-window (53 - c), cells that count (c, from the limit) | that one no longer counts |
//! | [`sliding_log`] | time of the latest event (51 - p), lap (2), places it fills (p, from the largest limit) | it has left every window |
//!
//! The last two have a [`Ring`] of words beside it, of which the table keeps the upper 10 bits:
//!
//! | ring | words | bits 53..0 |
//! |---|---|---|
//! | [`sub_windows`] | one for each sub-window | as the word: a sub-window, cells charged in it |
//! | [`sliding_log`] | one for each event, and two | its round (2), time of an older event (52) |
//!
//! Instants are in units of the algorithm's [`Grid`], so that an idle state needs no sweeping:
//! it says for itself that it is over, and means the same as no state at all.

pub mod any;
pub mod dynamic_gcra;
pub mod fixed_window;
pub mod gcra;
pub mod grid;
pub mod leaky_queue;
#[cfg(feature = "std")]
pub mod oracle;
mod rebase;
pub mod sliding_counter;
pub mod sliding_log;
pub mod sub_windows;
pub mod warm_up;
#[cfg(feature = "std")]
mod within_delay;

pub use grid::Grid;
pub use rebase::{FIGURES, Moment, Rebase, Rebased, Restart};
#[cfg(feature = "std")]
pub(crate) use within_delay::WithinDelay;

use core::time::Duration;

use crate::decision::{Decision, Denied, Permit};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;

/// Bits of a word that hold an algorithm's state.
pub const PAYLOAD_BITS: u32 = 53;

/// Bits of a word that hold an algorithm's state where the key stands in the same word.
pub const COMPACT_BITS: u32 = 37;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A choice of algorithm: what [`Builder::algorithm`](crate::Builder::algorithm) takes.
///
/// It is sealed: the algorithms of this crate are all there are, so that methods can be added.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::{FixedWindow, Quota};
///
/// let params = FixedWindow::anchored().params(&Quota::per_minute(20), 0)?;
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Algorithm: sealed::Sealed {
    /// The algorithm with the quota worked in.
    type Params: StateMachine;

    /// Works the quota in. `unix_origin_nanos` is the Unix time of the clock's
    /// [`Tick::ZERO`]; only windows aligned to the wall clock use it.
    ///
    /// # Errors
    ///
    /// What is out of range, with advice.
    fn params(&self, quota: &Quota, unix_origin_nanos: u64) -> Result<Self::Params, QuotaError>;

    /// The same for a state of [`COMPACT_BITS`]; `None` where the algorithm or the quota needs
    /// more.
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
    /// What is out of range for any state, with advice.
    fn compact_params(
        &self,
        quota: &Quota,
        unix_origin_nanos: u64,
    ) -> Result<Option<Self::Params>, QuotaError> {
        let _ = unix_origin_nanos;
        quota.validate().map(|()| None)
    }
}

/// The words beside the state word, as a step reads them.
///
/// A word that the key's earlier life left behind reads as 0, which means: nothing here.
///
/// It is open: whoever drives a [`StateMachine`] by hand may keep its words anywhere. Methods that are
/// added have a default.
///
/// ```
/// use tollgate::internals::{NoRing, Ring};
///
/// let cells: &[u64] = &[7, 0];
/// assert_eq!((cells.cell(0), NoRing.cell(0)), (7, 0));
/// ```
pub trait Ring: Copy {
    /// What stands at `place`, below [`StateMachine::ring_cells`].
    fn cell(self, place: usize) -> u64;

    /// In which bits that differs from `content`, of 54 bits. Where what stands there is of an earlier
    /// life, and so counts for nothing, higher bits may differ.
    #[inline(always)]
    fn apart(self, place: usize, content: u64) -> u64 {
        self.cell(place) ^ content
    }

    /// What was last noted in the ring's note, if it has one: some earlier note, or 0.
    fn note(self) -> u64 {
        0
    }
}

/// The ring of an algorithm that has none, and of a key never seen.
///
/// ```
/// use tollgate::internals::{NoRing, Ring};
/// assert_eq!(NoRing.cell(3), 0);
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "it is a value to be named")]
pub struct NoRing;

impl Ring for NoRing {
    #[inline(always)]
    fn cell(self, _: usize) -> u64 {
        0
    }
}

impl Ring for &[u64] {
    fn cell(self, place: usize) -> u64 {
        self[place]
    }
}

/// An algorithm with its quota worked in: how a state goes on.
///
/// The state is one word, and for some a [`Ring`] of cells beside it. The word says which cells
/// count, and while it stands none of those changes: so what was judged by the word and its
/// cells is right if the word has not changed in between. What a step needs to keep in a cell
/// follows from the word it leaves (and the cells that count), so that every thread that moves
/// the word on from there first writes the same.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{NoRing, StateMachine, Step};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(10).burst(1), 0)?;
/// let seen = params.read(params.fresh(Tick::ZERO), NoRing, Tick::ZERO, 1);
/// let Step::Admit { next } = params.step(seen, Tick::ZERO, 1) else { panic!() };
/// assert_eq!(params.permit(seen, Tick::ZERO, 1).remaining(), 0);
/// let seen = params.read(next, NoRing, Tick::ZERO, 1);
/// assert_eq!(params.step(seen, Tick::ZERO, 1), Step::Deny);
/// assert_eq!(params.denied(seen, Tick::ZERO, 1).retry_after().unwrap().as_millis(), 100);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait StateMachine: sealed::Sealed + Clone + Send + Sync + core::fmt::Debug {
    /// The naive exact model of this algorithm.
    #[cfg(feature = "std")]
    type Oracle: oracle::Oracle;

    /// What a decision is judged by, and explained from: the word itself where it is all.
    type View: Copy + core::fmt::Debug;

    /// Whether a state can have a ring.
    const RINGED: bool = false;

    /// Whether there are states of [`COMPACT_BITS`].
    const MAY_BE_COMPACT: bool = false;

    /// Whether an admission can have a [delay](Permit::delay).
    const MAY_DELAY: bool = false;

    /// Words of the ring, its note included.
    fn ring_cells(&self) -> usize {
        0
    }

    /// Whether the ring's last word is a note: read as a guess, and proved before use.
    fn has_note(&self) -> bool {
        false
    }

    /// Cells, from the first on, that must read as 0 when a key's life begins even if the ring
    /// has been through all generations since they were written.
    fn cells_to_clear(&self) -> usize {
        0
    }

    /// Does something by the algorithm that this is: once for all that follows, where this is
    /// [any of several](any).
    #[inline(always)]
    fn dispatch<V: Visitor>(&self, visit: V) -> V::Out {
        visit.by(self)
    }

    /// The token bucket, if this is one: the algorithm whose cells can be taken ahead.
    #[inline(always)]
    fn as_gcra(&self) -> Option<&gcra::GcraParams> {
        None
    }

    /// Does something by the algorithm that this is, if its charges can be taken back; else `None`.
    #[inline(always)]
    fn meet_revocable<V: VisitRevocable>(&self, visit: V) -> Option<V::Out> {
        let _ = visit;
        None
    }

    /// The state of a key that was never seen, stamped with the time.
    fn fresh(&self, now: Tick) -> u64;

    /// Whether a fresh key starts in debt, so that even its denial has to be remembered.
    fn starts_in_debt(&self) -> bool {
        false
    }

    /// Whether a denial can change a state, so that a look does not do for one.
    fn remembers_denials(&self) -> bool {
        self.starts_in_debt()
    }

    /// Reads what a decision about `n` cells is judged by. Never panics; bits of the word above
    /// the payload are ignored.
    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> Self::View;

    /// The same, of which only what decides is wanted and not what there is to tell: the step, and
    /// what is published, are those of [`read`](Self::read).
    #[inline(always)]
    fn read_brief<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> Self::View {
        self.read(word, ring, now, n)
    }

    /// Decides about `n` cells. Never panics.
    fn step(&self, seen: Self::View, now: Tick, n: u64) -> Step;

    /// Names the cells that must be in the ring before the word moves on from what was seen:
    /// `put` says whether the word still stands, and false ends it.
    fn publish<R: Ring>(
        &self,
        seen: Self::View,
        ring: R,
        put: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        let _ = (seen, ring, put);
        true
    }

    /// What to note once the word has moved on.
    fn note(&self, seen: Self::View, n: u64) -> u64 {
        let _ = (seen, n);
        0
    }

    /// What to tell of an admission by what was seen.
    ///
    /// Apart from the step, so that who does not ask does not pay.
    fn permit(&self, seen: Self::View, now: Tick, n: u64) -> Permit;

    /// What to tell of a denial by what was seen.
    fn denied(&self, seen: Self::View, now: Tick, n: u64) -> Denied;

    /// The answer to `n` cells of a key in the state that was seen, with nothing charged.
    fn answer(&self, seen: Self::View, now: Tick, n: u64) -> Decision {
        match self.step(seen, now, n) {
            Step::Admit { .. } => Ok(self.permit(seen, now, n)),
            Step::Deny | Step::DenyCounted { .. } => Err(self.denied(seen, now, n)),
        }
    }

    /// `now` in units of the algorithm's grid, for [`standing`](Self::standing).
    fn instant(&self, now: Tick) -> u64;

    /// Whether the state means anything at `instant`, and how much. The word alone tells.
    fn standing(&self, word: u64, instant: u64) -> Standing;

    /// Whether [`owed`](Self::owed) reads the ring.
    const OWED_BY_RING: bool = false;

    /// What is forgotten with a state that is [live](Standing::Live) at `instant`: a table that must
    /// forget a key chooses the one for which this is least. By default the debt of
    /// [`standing`](Self::standing).
    ///
    /// Any ring gives an answer, also one that has moved on from `word`.
    fn owed<R: Ring>(&self, word: u64, ring: R, instant: u64) -> u64 {
        let _ = ring;
        match self.standing(word, instant) {
            Standing::Idle { .. } => 0,
            Standing::Live { debt } => debt,
        }
    }

    /// The denial of a key that finds no place until `word`, the state with the least debt, has
    /// been idle for `skew`.
    fn no_place(&self, word: u64, now: Tick, skew: Duration) -> Denied;

    /// The time grid that the state is kept on.
    fn grid(&self) -> &Grid;

    /// How far a clock may be behind the one that wrote a state and still see it as live;
    /// `None` where there is no bound.
    fn skew_tolerance(&self) -> Option<Duration> {
        self.grid().skew_tolerance()
    }

    /// For how long after it was written a state is told from a later one; `None` where there is
    /// no bound. A key that comes back later than that, in the place it had, may be denied for
    /// what it did then, for no longer than the largest debt and the skew tolerance together: for a
    /// token bucket on such a grid that is up to sixteen times what its burst takes to come back.
    fn horizon(&self) -> Option<Duration> {
        self.grid().horizon()
    }

    /// A naive exact model with the same parameters, in the state of a key never seen.
    #[cfg(feature = "std")]
    fn oracle(&self) -> Self::Oracle;
}

/// A machine whose charges can be taken back.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{NoRing, Receipt, Refund, StateMachine, Step};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(10), 0)?;
/// let Step::Admit { next } = params.step(params.fresh(Tick::ZERO), Tick::ZERO, 10) else { panic!() };
/// let receipt = Receipt { cells: 10, at: Tick::ZERO, next };
/// // Half a second later time has restored five of them; so that is what is left to give back.
/// let now = Tick::from_nanos(500_000_000);
/// let word = params.refund(next, &receipt, now, 10);
/// assert_eq!(params.answer(params.read(word, NoRing, now, 0), now, 0)?.remaining(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Refund: StateMachine {
    /// The state after `n` of the cells of a charge are given back, as far as time has not restored
    /// them by `now`: of `cells` charged, time restores one after the other from then on.
    ///
    /// The state must be of the same life as the one that was charged. A bucket, or a window of the
    /// wall clock, never is better than if those `n` had not been charged, whatever was charged or
    /// given back in between; an anchored window stays where it was opened. (What was
    /// [added](Self::add), or forgiven at the largest debt, in between is not looked at.)
    ///
    /// A receipt is good for one give-back. In portions it would give back too much: what time has
    /// restored of the charge is taken off each time as if it were the first.
    fn refund(&self, word: u64, receipt: &Receipt, now: Tick, n: u64) -> u64;

    /// The state after `n` cells are given that nobody has paid for: no better than one that is idle.
    fn add(&self, word: u64, now: Tick, n: u64) -> u64;

    /// The same algorithm on the same states, that admits as long as a state can hold what is
    /// charged: for what has been spent already, whatever the limit.
    #[must_use]
    fn overdrawn(&self) -> Self;

    /// How long from `now` until no more is charged than may be at a time; zero if that time has come.
    fn turn(&self, word: u64, now: Tick) -> Duration;
}

/// A machine whose cells can be charged before their time has come.
///
/// ```
/// use std::time::Duration;
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{Ahead, Refund, StateMachine, Step};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(10).burst(1), 0)?;
/// let ahead = params.within(Tick::ZERO, Duration::from_millis(100));
/// let Step::Admit { next } = ahead.step(params.fresh(Tick::ZERO), Tick::ZERO, 2) else { panic!() };
/// assert_eq!(params.turn(next, Tick::ZERO), Duration::from_millis(100));
/// assert_eq!(ahead.step(next, Tick::ZERO, 1), Step::Deny); // its turn comes in 200 ms
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Ahead: Refund {
    /// The same algorithm on the same states, that admits what would be admitted at `now`, or within
    /// `wait` from then if nothing else were charged until then. `now` is the instant to step at.
    #[must_use]
    fn within(&self, now: Tick, wait: Duration) -> Self;
}

/// A machine whose states serve other quotas as well.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{PerKey, StateMachine};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(100), 0)?;
/// let slow = params.with_quota(&Quota::per_minute(6))?;
/// assert!(slow.answer(params.fresh(Tick::ZERO), Tick::ZERO, 7).is_err());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait PerKey: StateMachine {
    /// The same algorithm on the same states, by another quota.
    ///
    /// # Errors
    ///
    /// The quota is out of range, or cannot be told by these states, with advice.
    fn with_quota(&self, quota: &Quota) -> Result<Self, QuotaError>;
}

/// What is remembered of a charge, to take it back by.
///
/// ```
/// use tollgate::Tick;
/// use tollgate::internals::Receipt;
/// let receipt = Receipt { cells: 3, at: Tick::ZERO, next: 7 };
/// assert_eq!(receipt.cells, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "whoever tests an algorithm makes them")]
pub struct Receipt {
    /// How many cells were charged.
    pub cells: u64,
    /// By which time.
    pub at: Tick,
    /// The state that the charge left.
    pub next: u64,
}

/// What [`StateMachine::dispatch`] does by an algorithm, whichever it is. It is open: callers write their own.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{StateMachine, Visitor};
/// use tollgate::{AnyAlgorithm, Quota};
///
/// struct Cells;
/// impl Visitor for Cells {
///     type Out = usize;
///     fn by<M: StateMachine>(self, algo: &M) -> usize {
///         algo.ring_cells()
///     }
/// }
/// let log: AnyAlgorithm = "sliding-log".parse()?;
/// assert_eq!(log.params(&Quota::per_minute(10), 0)?.dispatch(Cells), 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Visitor {
    /// What it returns.
    type Out;

    /// Does it.
    fn by<M: StateMachine>(self, algo: &M) -> Self::Out;
}

/// What [`StateMachine::meet_revocable`] does by an algorithm whose charges can be taken back.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{Refund, StateMachine, VisitRevocable};
/// use tollgate::{AnyAlgorithm, Quota};
///
/// struct IsRevocable;
/// impl VisitRevocable for IsRevocable {
///     type Out = ();
///     fn by<M: Refund>(self, _algo: &M) {}
/// }
/// for (name, is_revocable) in [("gcra", true), ("sliding-log", false)] {
///     let params = name.parse::<AnyAlgorithm>()?.params(&Quota::per_minute(10), 0)?;
///     assert_eq!(params.meet_revocable(IsRevocable).is_some(), is_revocable);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait VisitRevocable {
    /// What it returns.
    type Out;

    /// Does it.
    fn by<M: Refund>(self, algo: &M) -> Self::Out;
}

/// What a state means at an instant.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{Standing, StateMachine};
/// use tollgate::{FixedWindow, Quota, Tick};
///
/// let params = FixedWindow::anchored().params(&Quota::per_minute(20), 0)?;
/// let word = params.fresh(Tick::ZERO);
/// let now = params.instant(Tick::ZERO);
/// assert!(matches!(params.standing(word, now), Standing::Idle { .. }));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "whoever drives a machine must know all of them")]
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
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{StateMachine, Step};
/// use tollgate::{FixedWindow, Quota, Tick};
///
/// let params = FixedWindow::anchored().params(&Quota::per_minute(20), 0)?;
/// assert_eq!(params.step(params.fresh(Tick::ZERO), Tick::ZERO, 21), Step::Deny);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "whoever drives a machine must know all of them")]
pub enum Step {
    /// Go ahead, and let `next` be the state.
    Admit {
        /// The state after the charge.
        next: u64,
    },
    /// Deny, and leave the state.
    Deny,
    /// Deny, and let the attempt count all the same.
    DenyCounted {
        /// The state with the attempt in it.
        next: u64,
    },
}
