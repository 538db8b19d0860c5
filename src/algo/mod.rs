//! The algorithms, as pure functions of (word, parameters, now, cost).
//!
//! Nothing here names an atomic, reads a clock, allocates or uses a float. A step is total: every
//! word, every instant and every cost has an answer. A value that saturates does so on the limit's
//! side. A step has no side effect, since a thread runs it again after a lost compare-and-swap.
//!
//! # Word layouts
//!
//! A state is the low [`PAYLOAD_BITS`] bits of a word. The table uses the bits above.
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
//! shows that it has ended, and it means the same as no state at all.

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
#[cfg(feature = "std")]
pub mod oracle;
mod rebase;
pub mod sliding_counter;
pub mod sliding_log;
mod still;
pub mod sub_windows;
pub mod warm_up;
#[cfg(feature = "std")]
mod within_delay;

pub use grid::Grid;
pub use rebase::{CONFIG_WORDS, ClockChange, Moment, Rebase, Restart};
pub use still::Still;
#[cfg(feature = "std")]
pub(crate) use within_delay::WithinDelay;

use core::time::Duration;

use crate::decision::{Decision, Denied, Permit};
use crate::quota::{Quota, QuotaError};
use crate::time::{Clock, Tick};

/// Bits of a word that hold an algorithm's state.
pub const PAYLOAD_BITS: u32 = 53;

/// Bits of a word that hold an algorithm's state where the same word also holds the key.
pub const COMPACT_BITS: u32 = 37;

pub(crate) mod sealed {
    pub trait Sealed {}
}

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
pub trait Algorithm: sealed::Sealed {
    /// The algorithm with the quota worked in.
    type Params: StateMachine;

    /// Computes the parameters for a quota. `unix_origin_nanos` is the Unix time of the clock's
    /// [`Tick::ZERO`]; only windows aligned to the wall clock use it.
    ///
    /// # Errors
    ///
    /// The quota or an option is out of range; the error says what to change.
    fn params(&self, quota: &Quota, unix_origin_nanos: u64) -> Result<Self::Params, QuotaError>;

    /// The parameters for a state of [`COMPACT_BITS`]; `None` if the algorithm or the quota needs
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

/// The words beside the state word, as a step reads them.
///
/// A word that was written for the slot's previous key reads as 0, which means that nothing is
/// stored.
///
/// The trait is open: a caller that drives a [`StateMachine`] by hand may keep the words anywhere.
/// New methods will have a default.
///
/// ```
/// use tollgate::internals::{NoRing, Ring};
///
/// let cells: &[u64] = &[7, 0];
/// assert_eq!((cells.cell(0), NoRing.cell(0)), (7, 0));
/// ```
pub trait Ring: Copy {
    /// The content at `place`, which is below [`StateMachine::ring_cells`].
    fn cell(self, place: usize) -> u64;

    /// The exclusive or of the content at `place` and `content`, of 54 bits. If the stored word was
    /// written for an earlier key, and so counts for nothing, higher bits may be set.
    #[inline(always)]
    fn xor(self, place: usize, content: u64) -> u64 {
        self.cell(place) ^ content
    }

    /// The last note that was written, if the ring has one: some earlier note, or 0.
    fn note(self) -> u64 {
        0
    }
}

/// The ring of an algorithm without a ring, and of a key that was never seen.
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

/// An algorithm with the parameters of a quota: how a state changes.
///
/// The state is one word, and for some algorithms a [`Ring`] of cells beside it. The word
/// determines which cells count, and none of those changes while the word is unchanged. A decision
/// made from a word and its cells is therefore still right if the word has not changed by the
/// compare-and-swap. The content that a step publishes to a cell is a function of the word that it
/// leaves (and of the cells that count), so all threads that race to advance that word write the
/// same content.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{NoRing, StateMachine, Step};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(10).burst(1), 0)?;
/// let view = params.read(params.fresh(Tick::ZERO), NoRing, Tick::ZERO, 1);
/// let Step::Admit { next } = params.step(view, Tick::ZERO, 1) else { panic!() };
/// assert_eq!(params.permit(view, Tick::ZERO, 1).remaining(), 0);
/// let view = params.read(next, NoRing, Tick::ZERO, 1);
/// assert_eq!(params.step(view, Tick::ZERO, 1), Step::Deny);
/// assert_eq!(params.denied(view, Tick::ZERO, 1).retry_after().unwrap().as_millis(), 100);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait StateMachine: sealed::Sealed + Clone + Send + Sync + core::fmt::Debug {
    /// The naive exact model of this algorithm.
    #[cfg(feature = "std")]
    type Oracle: oracle::Oracle;

    /// The data from which a decision is made and reported: the word itself if no more is needed.
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

    /// Whether the ring's last word is a note: a hint that a reader verifies before it relies on
    /// it.
    fn has_note(&self) -> bool {
        false
    }

    /// The number of leading cells that must read as 0 when a key takes the slot, even if the ring
    /// has passed through all generations since they were written.
    fn cells_to_clear(&self) -> usize {
        0
    }

    /// Calls the visitor with the concrete algorithm. For [any of several](any) algorithms, this is
    /// the only branch on which one it is.
    #[inline(always)]
    fn dispatch<V: Visitor>(&self, visitor: V) -> V::Out {
        visitor.visit(self)
    }

    /// Whether this machine is always the same, so that [`still_at`](Self::still_at) returns `None`.
    #[inline(always)]
    fn is_still(&self) -> bool {
        true
    }

    /// The instant at which this machine, as it was built, decides as it is to decide at `now`. `None`: there
    /// is none, and [`still_at`](Self::still_at) has the machine that does.
    #[inline(always)]
    fn as_built_at(&self, now: Tick, clock: &impl Clock) -> Option<Tick> {
        let _ = clock;
        Some(now)
    }

    /// This machine for a decision at about that instant.
    #[inline(always)]
    fn still(&self, now: impl FnOnce() -> Tick, clock: &impl Clock) -> Still<'_, Self> {
        match self.still_at(now, clock) {
            None => Still::AsBuilt(self),
            Some(still) => Still::At(still),
        }
    }

    /// This machine as it is at an instant, for a decision at about that instant, if it is not always the
    /// same: one whose windows follow the wall clock of `clock`.
    #[inline(always)]
    fn still_at(&self, now: impl FnOnce() -> Tick, clock: &impl Clock) -> Option<Self> {
        let _ = (now, clock);
        None
    }

    /// Changes by how many seconds the windows are ahead of UTC; whether that can be changed.
    fn set_utc_offset_secs(&self, offset_secs: i32) -> bool {
        let _ = offset_secs;
        false
    }

    /// Cells that a worker may take ahead at a time; 0: the algorithm leases none.
    fn lease_cells(&self) -> u64 {
        0
    }

    /// For how long from `now` cells may be spent that were charged then, and left the state `word`.
    fn lease_life(&self, word: u64, now: Tick) -> Duration {
        let _ = (word, now);
        Duration::ZERO
    }

    /// The permit of a request that spends cells charged ahead, of which `left` are left. `word` is the
    /// state which that charge left, so later charges do not count. The cells may be spent at `now`.
    #[inline(always)]
    fn permit_ahead(&self, word: u64, now: Tick, left: u64) -> Permit {
        let _ = left;
        self.permit(self.read(word, NoRing, now, 0), now, 0)
    }

    /// Calls the visitor with the concrete algorithm if it supports refunds; else returns `None`.
    #[inline(always)]
    fn dispatch_refund<V: RefundVisitor>(&self, visitor: V) -> Option<V::Out> {
        let _ = visitor;
        None
    }

    /// The state of a key that was never seen, stamped with `now`.
    fn fresh(&self, now: Tick) -> u64;

    /// Whether a fresh key starts in debt. Then even its denial must be stored.
    fn starts_in_debt(&self) -> bool {
        false
    }

    /// Whether a denial can change a state. Then a read alone cannot decide one.
    fn remembers_denials(&self) -> bool {
        self.starts_in_debt()
    }

    /// Reads what a decision about `n` cells is made from. It never panics, and ignores the bits of
    /// the word above the payload.
    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> Self::View;

    /// As [`read`](Self::read), for a caller that needs the decision only, without remaining cells
    /// or waits. The step, and what is published, are the same.
    #[inline(always)]
    fn read_brief<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> Self::View {
        self.read(word, ring, now, n)
    }

    /// Reads the view of a decision about `n` cells from the word alone, if no content of the ring could
    /// change the decision. `None`: the caller must [read](Self::read) the word and its ring. With `brief`,
    /// the caller needs the decision only, as for [`read_brief`](Self::read_brief).
    ///
    /// The step is the same as by `read`, and it publishes nothing.
    #[inline(always)]
    fn read_word(&self, word: u64, now: Tick, n: u64, brief: bool) -> Option<Self::View> {
        let _ = (word, now, n, brief);
        None
    }

    /// Decides about `n` cells. Never panics.
    fn step(&self, view: Self::View, now: Tick, n: u64) -> Step;

    /// Passes to `write` each cell that must be in the ring before the word advances. `write` returns
    /// whether the word is unchanged; after a false, this returns false.
    fn publish<R: Ring>(
        &self,
        view: Self::View,
        ring: R,
        write: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        let _ = (view, ring, write);
        true
    }

    /// The note to write after the word has advanced.
    fn note(&self, view: Self::View, n: u64) -> u64 {
        let _ = (view, n);
        0
    }

    /// The permit for an admission of `n` cells.
    ///
    /// It is separate from the step, so that a caller who does not ask for it does not pay for it.
    fn permit(&self, view: Self::View, now: Tick, n: u64) -> Permit;

    /// The denial of `n` cells.
    fn denied(&self, view: Self::View, now: Tick, n: u64) -> Denied;

    /// The answer to a request of `n` cells, with nothing charged.
    fn answer(&self, view: Self::View, now: Tick, n: u64) -> Decision {
        match self.step(view, now, n) {
            Step::Admit { .. } => Ok(self.permit(view, now, n)),
            Step::Deny | Step::DenyCounted { .. } => Err(self.denied(view, now, n)),
        }
    }

    /// `now` in units of the algorithm's grid, for [`liveness`](Self::liveness).
    fn instant(&self, now: Tick) -> u64;

    /// Whether the state is idle or live at `instant`, and its debt. The word alone is enough.
    fn liveness(&self, word: u64, instant: u64) -> Liveness;

    /// Whether [`owed`](Self::owed) reads the ring.
    const OWED_BY_RING: bool = false;

    /// The debt that is lost if a state that is [live](Liveness::Live) at `instant` is evicted. A
    /// full table evicts the key for which this is smallest. By default it is the debt of
    /// [`liveness`](Self::liveness).
    ///
    /// Every ring has an answer, also one that has changed since `word` was read.
    fn owed<R: Ring>(&self, word: u64, ring: R, instant: u64) -> u64 {
        let _ = ring;
        match self.liveness(word, instant) {
            Liveness::Idle { .. } => 0,
            Liveness::Live { debt } => debt,
        }
    }

    /// The denial of a key that finds no slot until `word`, the state with the least debt, has been
    /// idle for `skew`.
    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied;

    /// The time grid that the state is kept on.
    fn grid(&self) -> &Grid;

    /// How far a clock may be behind the one that wrote a state and still read it as live; `None`
    /// if there is no bound.
    fn skew_tolerance(&self) -> Option<Duration> {
        self.grid().skew_tolerance()
    }

    /// How long after it was written a state can be told from a later one; `None` if there is no
    /// bound. A key that returns to its slot later than that may be denied for what it did then,
    /// for no longer than the largest debt and the skew tolerance together. For a token bucket on
    /// such a grid, that is up to sixteen times what its burst takes to come back.
    fn horizon(&self) -> Option<Duration> {
        self.grid().horizon()
    }

    /// A naive exact model with the same parameters, in the state of a key never seen.
    #[cfg(feature = "std")]
    fn oracle(&self) -> Self::Oracle;
}

/// A machine whose charges can be refunded.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{NoRing, Receipt, Refund, StateMachine, Step};
/// use tollgate::{Gcra, Quota, Tick};
///
/// let params = Gcra::new().params(&Quota::per_second(10), 0)?;
/// let Step::Admit { next } = params.step(params.fresh(Tick::ZERO), Tick::ZERO, 10) else { panic!() };
/// let receipt = Receipt { cells: 10, at: Tick::ZERO, next };
/// // Half a second later time has restored five of them; so five are left to refund.
/// let now = Tick::from_nanos(500_000_000);
/// let word = params.refund(next, &receipt, now, 10);
/// assert_eq!(params.answer(params.read(word, NoRing, now, 0), now, 0)?.remaining(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Refund: StateMachine {
    /// The state after a refund of `n` cells of a charge, as far as time has not restored them by
    /// `now`: of `cells` charged, time restores one after the other from then on.
    ///
    /// The state must belong to the same key since the charge. A bucket, or a window of the wall
    /// clock, is never better than if those `n` cells had not been charged, whatever was charged or
    /// refunded in between. An anchored window stays where it was opened. (Cells that were
    /// [added](Self::add), or forgiven at the largest debt, in between are not considered.)
    ///
    /// A receipt is good for one refund. Several partial refunds would return too much: each
    /// subtracts what time has restored of the charge as if it were the first.
    fn refund(&self, word: u64, receipt: &Receipt, now: Tick, n: u64) -> u64;

    /// The state after `n` cells are added that no charge has taken: no better than an idle one.
    fn add(&self, word: u64, now: Tick, n: u64) -> u64;

    /// The same algorithm on the same states, which admits as long as a state can hold the charge:
    /// for cells that have been spent already, whatever the limit.
    #[must_use]
    fn overdrawn(&self) -> Self;

    /// How long from `now` until the debt is within the limit again; zero if it is.
    fn turn(&self, word: u64, now: Tick) -> Duration;
}

/// A machine whose cells can be charged before they have come back.
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
    /// The same algorithm on the same states, which admits what would be admitted at `now`, or
    /// within `wait` after it if nothing else were charged until then. `now` is the instant to step
    /// at.
    #[must_use]
    fn within(&self, now: Tick, wait: Duration) -> Self;
}

/// A machine whose states also serve other quotas.
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
pub trait PerKey: Refund {
    /// The same algorithm on the same states, with another quota.
    ///
    /// # Errors
    ///
    /// The quota is out of range, or these states cannot express it; the error says what to change.
    fn with_quota(&self, quota: &Quota) -> Result<Self, QuotaError>;

    /// These parameters, their type hidden.
    #[doc(hidden)]
    fn to_plan_params(&self) -> PlanParams;

    /// The reverse. `None`: they are of another algorithm.
    #[doc(hidden)]
    fn of_plan_params(params: &PlanParams) -> Option<&Self>;
}

/// The parameters of an algorithm that is [`PerKey`].
#[derive(Clone, Debug)]
#[allow(missing_docs, clippy::exhaustive_enums, reason = "it passes through a composite, unseen")]
pub enum PlanParams {
    Gcra(gcra::GcraParams),
    FixedWindow(fixed_window::FixedWindowParams),
}

/// The record of a charge that a refund needs.
///
/// ```
/// use tollgate::Tick;
/// use tollgate::internals::Receipt;
/// let receipt = Receipt { cells: 3, at: Tick::ZERO, next: 7 };
/// assert_eq!(receipt.cells, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "tests of an algorithm make them")]
pub struct Receipt {
    /// The number of cells charged.
    pub cells: u64,
    /// The instant of the charge.
    pub at: Tick,
    /// The state that the charge left.
    pub next: u64,
}

/// The operation that [`StateMachine::dispatch`] applies to the concrete algorithm. The trait is
/// open: callers write their own.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{StateMachine, Visitor};
/// use tollgate::{AnyAlgorithm, Quota};
///
/// struct Cells;
/// impl Visitor for Cells {
///     type Out = usize;
///     fn visit<M: StateMachine>(self, algo: &M) -> usize {
///         algo.ring_cells()
///     }
/// }
/// let log: AnyAlgorithm = "sliding-log".parse()?;
/// assert_eq!(log.params(&Quota::per_minute(10), 0)?.dispatch(Cells), 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Visitor {
    /// The result.
    type Out;

    /// Applies the operation.
    fn visit<M: StateMachine>(self, algo: &M) -> Self::Out;
}

/// The operation that [`StateMachine::dispatch_refund`] applies to an algorithm that supports
/// refunds.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{Refund, StateMachine, RefundVisitor};
/// use tollgate::{AnyAlgorithm, Quota};
///
/// struct IsRefundable;
/// impl RefundVisitor for IsRefundable {
///     type Out = ();
///     fn visit<M: Refund>(self, _algo: &M) {}
/// }
/// for (name, is_refundable) in [("gcra", true), ("sliding-log", false)] {
///     let params = name.parse::<AnyAlgorithm>()?.params(&Quota::per_minute(10), 0)?;
///     assert_eq!(params.dispatch_refund(IsRefundable).is_some(), is_refundable);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RefundVisitor {
    /// The result.
    type Out;

    /// Applies the operation.
    fn visit<M: Refund>(self, algo: &M) -> Self::Out;
}

/// Whether a state matters at an instant.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::{Liveness, StateMachine};
/// use tollgate::{FixedWindow, Quota, Tick};
///
/// let params = FixedWindow::anchored().params(&Quota::per_minute(20), 0)?;
/// let word = params.fresh(Tick::ZERO);
/// let now = params.instant(Tick::ZERO);
/// assert!(matches!(params.liveness(word, now), Liveness::Idle { .. }));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a driver of a machine handles every variant")]
pub enum Liveness {
    /// The same as no state: another key may take the slot.
    Idle {
        /// Units since it became idle.
        units: u64,
    },
    /// Debt would be lost if the state were dropped.
    Live {
        /// The debt, in units that compare between states of one limiter.
        debt: u64,
    },
}

/// The decision of a step.
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
#[allow(clippy::exhaustive_enums, reason = "a driver of a machine handles every variant")]
pub enum Step {
    /// Admit; `next` becomes the state.
    Admit {
        /// The state after the charge.
        next: u64,
    },
    /// Deny; the state does not change.
    Deny,
    /// Deny, and count the attempt.
    DenyCounted {
        /// The state that counts the attempt.
        next: u64,
    },
}
