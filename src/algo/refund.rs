//! State machines that can do more than charge: refund, charge ahead of time, serve several quotas.

use core::time::Duration;

use super::{StateMachine, fixed_window, gcra};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;

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
    /// The state after a refund of `n` cells of a charge, or of as many as time has not restored by
    /// `now`. From the charge on, time restores its cells one after the other.
    ///
    /// The state must belong to the same key since the charge. A bucket, or a window of the wall
    /// clock, is never better than if those `n` cells had not been charged, whatever was charged or
    /// refunded in between. An anchored window stays where it was opened. (Cells that were
    /// [added](Self::add), or forgiven at the largest debt, in between are not considered.) For a receipt whose
    /// instant is the turn of a charge [ahead of time](Ahead), that holds if no others were refunded in between.
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

    /// These parameters, if they are of this algorithm.
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
