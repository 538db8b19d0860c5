//! An algorithm as a pure state machine: how a word is read, decided on and changed.

use core::time::Duration;

#[cfg(feature = "std")]
use super::oracle;
use super::{Grid, NoRing, RefundVisitor, Ring, Still, sealed};
use crate::decision::{Decision, Denied, Permit};
use crate::time::{Clock, Tick};

/// An algorithm with the parameters of a quota: how a state changes.
///
/// The state is one word, and for some algorithms a [`Ring`] of cells beside it. The word
/// determines which cells count, and none of those changes while the word is unchanged. A decision
/// made from a word and its cells is therefore still right if the word has not changed by the
/// compare-and-swap. The content that a step publishes to a cell depends only on the word that
/// the step replaces and on the cells that count. So all threads that race to replace a word write
/// the same content.
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

    /// Whether there are states of [`COMPACT_BITS`](super::COMPACT_BITS).
    const MAY_BE_COMPACT: bool = false;

    /// Whether an admission can have a [delay](Permit::delay).
    const MAY_DELAY: bool = false;

    /// The same, of this machine: of [any of several](super::any), some delay and some do not.
    #[inline(always)]
    fn may_delay(&self) -> bool {
        Self::MAY_DELAY
    }

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

    /// Calls the visitor with the concrete algorithm. For [any of several](super::any) algorithms, this is
    /// the only branch on which one it is.
    #[inline(always)]
    fn dispatch<V: Visitor>(&self, visitor: V) -> V::Out {
        visitor.visit(self)
    }

    /// Whether the machine decides by the same parameters at every instant. Only windows that follow the
    /// wall clock do not. If `true`, [`still_at`](Self::still_at) returns `None`.
    #[inline(always)]
    fn is_still(&self) -> bool {
        true
    }

    /// Whether a state means the same to the other machine as to this one. One of them is of a plan.
    #[cfg(feature = "std")]
    #[inline(always)]
    fn reads_as(&self, other: &Self) -> bool {
        self.grid().counts_as(other.grid())
    }

    /// The instant to pass to this machine, as it was built, for a decision at `now`. It is `now` itself unless the
    /// wall clock was set since. `None`: a window is held, so no instant gives the right decision, and
    /// [`still_at`](Self::still_at) returns the machine that decides.
    #[inline(always)]
    fn as_built_at(&self, now: Tick, clock: &impl Clock) -> Option<Tick> {
        let _ = clock;
        Some(now)
    }

    /// The machine for a decision at about `now`. It is this machine, or, if windows follow the wall clock, a copy
    /// with the windows of `now`.
    #[inline(always)]
    fn still(&self, now: impl FnOnce() -> Tick, clock: &impl Clock) -> Still<'_, Self> {
        match self.still_at(now, clock) {
            None => Still::AsBuilt(self),
            Some(still) => Still::At(still),
        }
    }

    /// A copy that has the windows of the instant `now`, if the machine's windows follow the wall clock of
    /// `clock`; else `None`.
    #[inline(always)]
    fn still_at(&self, now: impl FnOnce() -> Tick, clock: &impl Clock) -> Option<Self> {
        let _ = (now, clock);
        None
    }

    /// The clock for a decision by the machine [still](Self::still) at `now`. While a window is held, the windows
    /// change at each edge of the wall clock, so the machine of an instant before an edge must not decide at one
    /// after it: the clock is read once, here. Otherwise the machine is the same at every instant, and the decision
    /// may read the clock as late as it likes.
    #[inline(always)]
    fn clock_of_windows(&self, now: impl Fn() -> Tick) -> impl Fn() -> Tick {
        let instant = (!self.is_still()).then(&now);
        move || instant.unwrap_or_else(&now)
    }

    /// Changes by how many seconds the windows are ahead of UTC. Returns whether that can be changed.
    fn set_utc_offset_secs(&self, offset_secs: i32) -> bool {
        let _ = offset_secs;
        false
    }

    /// Cells that a worker may take ahead at a time; 0: the algorithm leases none.
    fn lease_cells(&self) -> u64 {
        0
    }

    /// How long cells that are charged at `now` may be spent. `word` is the state that the charge left.
    fn lease_life(&self, word: u64, now: Tick) -> Duration {
        let _ = (word, now);
        Duration::ZERO
    }

    /// The permit of a request that spends cells charged ahead, of which `left` remain. `word` is the state
    /// which that charge left, so later charges do not count. The cells may be spent at `now`.
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

    /// Reads the data of a decision about `n` cells. It never panics, and ignores the bits of the word
    /// above the payload.
    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> Self::View;

    /// As [`read`](Self::read), for a caller that needs the decision only, without remaining cells
    /// or waits. The step, and what is published, are the same.
    #[inline(always)]
    fn read_brief<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> Self::View {
        self.read(word, ring, now, n)
    }

    /// Reads the view of a decision about `n` cells from the word and little of its ring, which is enough for
    /// most. It takes the `ring` only if it reads it. `None`: the caller must [read](Self::read) all that counts.
    /// With `brief`, the caller needs the decision only, as for [`read_brief`](Self::read_brief).
    ///
    /// The step, and what is published, are the same as by `read`. Without the ring nothing is published.
    #[inline(always)]
    fn read_at_once<R: Ring>(
        &self,
        word: u64,
        ring: impl FnOnce() -> R,
        now: Tick,
        n: u64,
        brief: bool,
    ) -> Option<Self::View> {
        let _ = (word, ring, now, n, brief);
        None
    }

    /// Decides about `n` cells. Never panics.
    fn step(&self, view: Self::View, now: Tick, n: u64) -> Step;

    /// As [`step`](Self::step), with branches on the state in place of data dependencies, where that is faster. It
    /// is for a caller that asks for one state again and again, so that the branches are predicted. Among the states
    /// of many keys they would not be.
    #[inline(always)]
    fn step_by_branch(&self, view: Self::View, now: Tick, n: u64) -> Step {
        self.step(view, now, n)
    }

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
    #[inline]
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

    /// Whether states become idle in the order of their debts, or at times of which nothing is known.
    const DEBT_IS_TIME: bool = true;

    /// Units from `instant` until the state is idle if nothing else is charged; 0 if it is.
    fn idle_in(&self, word: u64, instant: u64) -> u64 {
        match self.liveness(word, instant) {
            Liveness::Idle { .. } => 0,
            Liveness::Live { debt } => debt,
        }
    }

    /// The denial of a key without a slot. It can have one when `word`, the state that is idle first,
    /// has been idle for `skew`.
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

#[cfg(all(test, feature = "std"))]
mod tests;
