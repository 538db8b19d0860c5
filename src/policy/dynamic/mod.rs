//! Quotas that change while they are in use.

mod in_force;
#[cfg(feature = "shared-memory")]
mod shared;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;

use core::time::Duration;
use std::hash::Hash;
use std::sync::Arc;

use in_force::{Change, QuotaInForce};

use crate::algo::dynamic_gcra::{GcraEpoch, Inherit};
use crate::algo::oracle::Level;
use crate::algo::sealed::Sealed;
use crate::algo::{
    Ahead, Algorithm, AsksAgain, Grid, Liveness, NoRing, Receipt, Refund, RefundVisitor, Ring,
    StateMachine, Step, Visitor,
};
use crate::decision::{Decision, Denied, Permit};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::quota::{Quota, QuotaError};
use crate::time::{Clock, Tick};

/// A token bucket, as [`Gcra`](crate::Gcra), whose quota can be replaced while it is in use, by
/// [`Limiter::set_quota`] or [`Direct::set_quota`].
///
/// A decision reads the quota in force, which costs about a hundred instructions more than one by
/// [`Gcra`](crate::Gcra), some nanoseconds. It takes no lock for that, and waits for no other thread. The
/// time of a change does not depend on the number of keys: states count cells, so that no state is
/// touched.
///
/// There is one exception. Now and then a [reset](Inherit::Reset), or an additive change to a smaller
/// burst, first goes through the slots and renews the states of idle keys, because a long series of such
/// changes would make idle keys owe cells again. For a quota that takes months to fill up, one change in some
/// dozens does this; for a quota that takes hours, one in thousands.
///
/// **Guarantee.** Every decision is made by one quota, never by the rate of one and the burst of
/// another. A decision that begins after a change has returned is made by the new quota. Between two
/// changes a key is granted at most what it [inherits](Inherit) and `rate * (span + u)` cells, where
/// `u` is the time of a unit. A unit is a share of a cell: a thousandth or less if the limiter was built
/// with a rate of up to 31,250 a second. Above that rate, it is what the rate restores in less than 64 nanoseconds.
/// With a first burst above 2^37 cells it may be a 128th. Each [proportional](Inherit::Proportional) change may make
/// it coarser, to a hundredth of a cell, or to a cell where the shares are exact. All charges are kept.
///
/// **Not guaranteed.**
///
/// - A decision that is under way when the quota changes may be made by the old quota. If the burst
///   shrinks several times meanwhile, the decision may be a denial whose wait is too long, by a cell's
///   time for each cell that the burst shrank by.
/// - A key that had all its cells may have all of them afterwards, whatever the inheritance: an idle
///   state is the same as none.
/// - A [reservation](crate::reservation::Reservation) from before the change refunds nothing. A request
///   may be charged by the old quota at the instant of the change, while the change is under way, or by a clock
///   that is ahead. If the change has forgiven a part of it beside other debts, the refund may give the key that
///   part again.
/// - The rate can become 32 times as fast as the first, or up to 2,500 times if the first is slower than 31,250 a
///   second. If the first burst comes back in less than 64 microseconds, a unit is shorter already, and the rate cannot
///   become as much faster: a million a second with a burst of ten can become ten times as fast. The largest burst in
///   units of the first rate is 2^47. A quota beyond is an error, and leaves the quota as it was.
/// - A [proportional](Inherit::Proportional) change multiplies the units of a cell by the old burst, divides them by
///   the new one, and rounds down. So a burst that grows, or very many changes, may leave a cell too few units: such
///   a change is then the error [`InheritTooFar`](QuotaError::InheritTooFar), and other inheritances go on. Only
///   a limiter that is built anew has the fine unit again.
/// - Clocks may differ by 18 minutes. A key that comes back after 78 days may be denied for a while for
///   what it did then, however slow the first rate is, because the rate may become a fast one. How often
///   the quota changed in between does not matter.
/// - A request by a clock that is behind the last change is judged as at the change; the times in its
///   answer count from its own instant. A reset by a clock that is behind earlier charges forgives
///   no more than the largest debt from its own instant on.
/// - Slots are wide. There are no leases, of hot keys or others.
/// - Waiters of a [`WaitQueue`](crate::wait::WaitQueue) learn of a faster quota when it
///   [wakes them](crate::wait::WaitQueue::wake_all).
/// - If the process is forked while another thread changes the quota, the child can never change it: each change
///   there is the error [`ChangeUnderWay`](QuotaError::ChangeUnderWay). In shared memory it can.
///
/// ```
/// use tollgate::dynamic::{DynamicGcra, Inherit};
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<str, DynamicGcra> =
///     Limiter::builder(Quota::per_hour(10)).algorithm(DynamicGcra::new()).build()?;
/// assert_eq!(gate.check_n("a", 8)?.remaining(), 2);
/// gate.set_quota(Quota::per_hour(100), Inherit::Additive)?;
/// assert_eq!(gate.check_n("a", 1)?.remaining(), 91);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DynamicGcra {
    start_empty: bool,
}

impl DynamicGcra {
    /// A bucket that is full when a key is first seen.
    ///
    /// ```
    /// # use tollgate::dynamic::DynamicGcra;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::builder(Quota::per_hour(4)).algorithm(DynamicGcra::new()).build()?;
    /// assert_eq!(gate.check().unwrap().remaining(), 3);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { start_empty: false }
    }

    /// A bucket that is empty when a key is first seen, and fills at the rate.
    ///
    /// ```
    /// # use tollgate::dynamic::DynamicGcra;
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_second(4)).algorithm(DynamicGcra::start_empty()).build()?;
    /// assert!(gate.ask().at(Tick::ZERO).check().is_err());
    /// assert!(gate.ask().at(Tick::from_nanos(250_000_000)).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn start_empty() -> Self {
        Self { start_empty: true }
    }
}

impl Sealed for DynamicGcra {}

impl AsksAgain for DynamicGcra {}

impl Algorithm for DynamicGcra {
    type Params = DynamicGcraParams;

    fn params(&self, quota: &Quota, _: u64) -> Result<DynamicGcraParams, QuotaError> {
        let first = GcraEpoch::new(quota, self.start_empty)?;
        let quota = Arc::new(QuotaInForce::new(first, quota));
        Ok(DynamicGcraParams { kind: Kind::InForce(quota), first })
    }
}

/// [`DynamicGcra`] with the quota in force.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::dynamic::DynamicGcra;
/// use tollgate::{Quota, Tick};
///
/// let params = DynamicGcra::new().params(&Quota::per_second(2), 0)?;
/// assert!(params.answer(params.fresh(Tick::ZERO), Tick::ZERO, 2).is_ok());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DynamicGcraParams {
    kind: Kind,
    /// As built.
    first: GcraEpoch,
}

#[derive(Clone, Debug)]
enum Kind {
    /// The quota in force, which changes.
    InForce(Arc<QuotaInForce>),
    /// The quota of one moment.
    Still(GcraEpoch),
}

impl DynamicGcraParams {
    /// The quota in force.
    #[inline(always)]
    fn now(&self) -> GcraEpoch {
        match &self.kind {
            Kind::InForce(quota) => quota.read(),
            Kind::Still(params) => *params,
        }
    }

    /// The quota in force, and the view of a state by it.
    fn seen(&self, word: u64, now: Tick, n: u64) -> (GcraEpoch, u64) {
        let algo = self.now();
        (algo, algo.read(word, NoRing, now, n))
    }

    fn still_of(&self, params: GcraEpoch) -> Self {
        Self { kind: Kind::Still(params), first: self.first }
    }

    /// Replaces the quota: see [`QuotaInForce::change`].
    fn change(&self, change: Change<'_>, renew: impl FnOnce(&GcraEpoch)) -> Result<(), QuotaError> {
        match &self.kind {
            Kind::InForce(quota) => quota.change(change, renew),
            Kind::Still(_) => Err(QuotaError::ChangeUnderWay),
        }
    }

    /// The quota that holds now.
    fn quota(&self) -> Quota {
        let Kind::InForce(quota) = &self.kind else {
            unreachable!("a limiter has the quota in force")
        };
        quota.quota()
    }
}

impl<K: Hash + ?Sized, C: Clock> Limiter<K, DynamicGcra, C> {
    /// Replaces the quota, now, for all keys: see [`DynamicGcra`].
    ///
    /// # Errors
    ///
    /// The quota is out of range, too far from the one that the limiter was built with, or being
    /// changed by another thread; the error says what to do. The old quota then stays in force.
    ///
    /// ```
    /// # use tollgate::dynamic::{DynamicGcra, Inherit};
    /// # use tollgate::{Limiter, Quota, QuotaError};
    /// let gate: Limiter<str, DynamicGcra> =
    ///     Limiter::builder(Quota::per_hour(10)).algorithm(DynamicGcra::new()).build()?;
    /// let denied = gate.set_quota(Quota::per_second(0), Inherit::Reset);
    /// assert_eq!(denied, Err(QuotaError::ZeroLimit));
    /// assert_eq!(gate.quota(), Quota::per_hour(10).burst(10));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn set_quota(&self, quota: Quota, inherit: Inherit) -> Result<(), QuotaError> {
        self.set_quota_at(quota, inherit, self.clock().now())
    }

    /// As [`set_quota`](Self::set_quota), from the instant `now` on.
    ///
    /// # Errors
    ///
    /// Those of that method.
    ///
    /// ```
    /// # use tollgate::dynamic::{DynamicGcra, Inherit};
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str, DynamicGcra> =
    ///     Limiter::builder(Quota::per_second(10)).algorithm(DynamicGcra::new()).build()?;
    /// assert!(gate.ask("a").cells(10).at(Tick::ZERO).check().is_ok());
    /// let half = Tick::from_nanos(500_000_000);
    /// gate.set_quota_at(Quota::per_second(2).burst(10), Inherit::AsIs, half)?;
    /// // Five cells of the first half second, and one of the next.
    /// let one = Tick::from_nanos(1_000_000_000);
    /// assert_eq!(gate.ask("a").cells(0).at(one).peek().unwrap().remaining(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota_at(
        &self,
        quota: Quota,
        inherit: Inherit,
        now: Tick,
    ) -> Result<(), QuotaError> {
        self.params().change(Change { quota: &quota, inherit, now }, |before| {
            // A state that is idle for the clock furthest behind is idle for all.
            let instant = before.instant(now.saturating_sub(self.table().skew()));
            self.table().revise_all(|state| before.renewed(state, instant));
        })
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        self.params().quota()
    }
}

impl<C: Clock> Direct<DynamicGcra, C> {
    /// Replaces the quota, now: see [`DynamicGcra`].
    ///
    /// # Errors
    ///
    /// As for [`Limiter::set_quota`].
    ///
    /// ```
    /// # use tollgate::dynamic::{DynamicGcra, Inherit};
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::builder(Quota::per_hour(10)).algorithm(DynamicGcra::new()).build()?;
    /// assert_eq!(gate.ask().cells(10).charge_available(), 10);
    /// gate.set_quota(Quota::per_hour(20), Inherit::Reset)?;
    /// assert_eq!(gate.ask().cells(99).charge_available(), 20);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn set_quota(&self, quota: Quota, inherit: Inherit) -> Result<(), QuotaError> {
        self.set_quota_at(quota, inherit, self.clock().now())
    }

    /// As [`set_quota`](Self::set_quota), from the instant `now` on.
    ///
    /// # Errors
    ///
    /// Those of that method.
    ///
    /// ```
    /// # use tollgate::dynamic::{DynamicGcra, Inherit};
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_second(10)).algorithm(DynamicGcra::new()).build()?;
    /// gate.set_quota_at(Quota::per_second(5), Inherit::AsIs, Tick::ZERO)?;
    /// assert!(gate.ask().cells(6).at(Tick::ZERO).check().is_err());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn set_quota_at(
        &self,
        quota: Quota,
        inherit: Inherit,
        now: Tick,
    ) -> Result<(), QuotaError> {
        self.params().change(Change { quota: &quota, inherit, now }, |before| {
            let instant = before.instant(now);
            self.cell().revise_now(|state| before.renewed(state, instant));
        })
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        self.params().quota()
    }
}

impl Sealed for DynamicGcraParams {}

/// Each of these uses the quota in force when it is called. A state is judged by one quota only within
/// one of them, or within [`dispatch`](StateMachine::dispatch).
impl StateMachine for DynamicGcraParams {
    type Oracle = Level;
    type View = u64;

    #[inline(always)]
    fn dispatch<V: Visitor>(&self, visitor: V) -> V::Out {
        visitor.visit(&self.now())
    }

    #[inline(always)]
    fn dispatch_refund<V: RefundVisitor>(&self, visitor: V) -> Option<V::Out> {
        Some(visitor.visit(&self.now()))
    }

    fn fresh(&self, now: Tick) -> u64 {
        self.now().fresh(now)
    }

    fn starts_in_debt(&self) -> bool {
        self.first.starts_in_debt()
    }

    /// The word as it is: what it means depends on the quota.
    fn read<R: Ring>(&self, word: u64, _: R, _: Tick, _: u64) -> u64 {
        word
    }

    fn step(&self, word: u64, now: Tick, n: u64) -> Step {
        let (algo, seen) = self.seen(word, now, n);
        algo.step(seen, now, n)
    }

    fn permit(&self, word: u64, now: Tick, n: u64) -> Permit {
        let (algo, seen) = self.seen(word, now, n);
        algo.permit(seen, now, n)
    }

    fn denied(&self, word: u64, now: Tick, n: u64) -> Denied {
        let (algo, seen) = self.seen(word, now, n);
        algo.denied(seen, now, n)
    }

    fn answer(&self, word: u64, now: Tick, n: u64) -> Decision {
        let (algo, seen) = self.seen(word, now, n);
        algo.answer(seen, now, n)
    }

    fn instant(&self, now: Tick) -> u64 {
        self.now().instant(now)
    }

    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        self.now().liveness(word, instant)
    }

    fn idle_in(&self, word: u64, instant: u64) -> u64 {
        self.now().idle_in(word, instant)
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        self.now().no_slot(word, now, skew)
    }

    /// As built.
    fn grid(&self) -> &Grid {
        self.first.grid()
    }

    /// The least of any later quota: a faster one has a smaller tolerance.
    fn skew_tolerance(&self) -> Option<Duration> {
        GcraEpoch::min_grid().skew_tolerance()
    }

    /// The least of any later quota.
    fn horizon(&self) -> Option<Duration> {
        GcraEpoch::min_horizon()
    }

    fn oracle(&self) -> Level {
        self.now().oracle()
    }
}

impl Refund for DynamicGcraParams {
    fn refund(&self, word: u64, receipt: &Receipt, now: Tick, n: u64) -> u64 {
        self.now().refund(word, receipt, now, n)
    }

    fn add(&self, word: u64, now: Tick, n: u64) -> u64 {
        self.now().add(word, now, n)
    }

    fn overdrawn(&self) -> Self {
        self.still_of(self.now().overdrawn())
    }

    fn turn(&self, word: u64, now: Tick) -> Duration {
        self.now().turn(word, now)
    }
}

impl Ahead for DynamicGcraParams {
    fn within(&self, now: Tick, wait: Duration) -> Self {
        self.still_of(self.now().within(now, wait))
    }
}
