//! Limiters whose cells can be charged and refunded: what a reservation and a debt need.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Algorithm, Refund};
use crate::charge::locate::Locate;
use crate::charge::refund::RefundableCharge;
use crate::decision::{Decision, Denied};
use crate::limiter::Limiter;
use crate::limiter::ask::Ask;
use crate::limiter::direct::Direct;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// A [`Limiter`] or a [`Direct`] whose algorithm can refund a charge: [`Gcra`](crate::Gcra),
/// [`FixedWindow`](crate::FixedWindow) or [`DynamicGcra`](crate::dynamic::DynamicGcra).
///
/// It is sealed: a method may be added.
///
/// ```
/// use tollgate::reservation::{Chargeable, Reservation};
/// use tollgate::{Direct, Quota};
/// fn settle_all<G: Chargeable>(all: Vec<Reservation<'_, G>>, cost: u64) {
///     all.into_iter().for_each(|reserved| reserved.settle(cost));
/// }
/// let gate = Direct::new(Quota::per_hour(9))?;
/// settle_all(vec![gate.ask().cells(4).reserve()?], 1);
/// assert_eq!(gate.peek()?.remaining(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Chargeable: sealed::Charge {}

impl<G: sealed::Charge> Chargeable for G {}

pub(super) mod sealed {
    use super::{Ask, Decision, Denied, Duration, Locate, Refund, RefundableCharge, Tick};

    pub trait Charge: Locate<Params: Refund> {
        /// The algorithm given, or the limiter's own.
        fn or_own<'a>(&'a self, plan: Option<&'a Self::Params>) -> &'a Self::Params;
        /// Decides by the key's state alone: cells that a thread holds of a hot key stay where they are.
        fn check(ask: Ask<'_, '_, Self>) -> Decision;
        fn peek(ask: Ask<'_, '_, Self>) -> Decision;
        /// Charges the cells of a reservation; a key without a slot is treated by the limiter's policy.
        fn take(
            &self,
            algo: &Self::Params,
            spot: Self::Spot,
            n: u64,
            now: Tick,
        ) -> Result<RefundableCharge, Denied>;
        /// Charges cells that are spent already, and returns how long until no more is owed than the
        /// burst. `None`: the key finds no slot, and nothing is charged.
        fn charge_spent(
            &self,
            algo: &Self::Params,
            spot: Self::Spot,
            n: u64,
            now: Tick,
        ) -> Option<Duration>;
        /// Gives the key `n` cells more.
        fn add(&self, algo: &Self::Params, spot: Self::Spot, n: u64, now: Tick);
        /// Refunds `n` cells of a charge. If no time is given, the clock is read after the state is loaded
        /// that the refund replaces.
        fn refund(&self, algo: &Self::Params, taken: &RefundableCharge, n: u64, at: Option<Tick>);
    }
}

impl<K, A, C> sealed::Charge for Limiter<K, A, C>
where
    K: Hash + ?Sized,
    A: Algorithm<Params: Refund>,
    C: Clock,
{
    #[inline]
    fn or_own<'a>(&'a self, plan: Option<&'a A::Params>) -> &'a A::Params {
        self.or_own(plan)
    }

    fn check(ask: Ask<'_, '_, Self>) -> Decision {
        let Ask { gate, key, cells, at, plan, .. } = ask;
        gate.decide_probed(gate.or_own(plan), gate.probe(key), cells, gate.or_now(at))
    }

    fn peek(ask: Ask<'_, '_, Self>) -> Decision {
        ask.peek()
    }

    fn take(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Result<RefundableCharge, Denied> {
        let taken = self.take_by(algo, probe, n, now);
        self.count(taken.is_ok());
        taken.map(|(taken, _)| taken)
    }

    fn charge_spent(&self, algo: &A::Params, probe: Probe, n: u64, now: Tick) -> Option<Duration> {
        let algo = self.still(algo, now);
        let taken = self.charge_anyway(&algo, probe, n, now);
        let is_charged = n == 0 || !matches!(taken, RefundableCharge::Nothing);
        is_charged.then(|| self.turn_of(&algo, &taken, now))
    }

    fn add(&self, algo: &A::Params, probe: Probe, n: u64, now: Tick) {
        self.table().add(probe, &*self.still(algo, now), now, n);
    }

    fn refund(&self, algo: &A::Params, taken: &RefundableCharge, n: u64, at: Option<Tick>) {
        self.refund_by(algo, taken, n, || self.or_now(at));
    }
}

impl<A: Algorithm<Params: Refund>, C: Clock> sealed::Charge for Direct<A, C> {
    #[inline]
    fn or_own<'a>(&'a self, plan: Option<&'a A::Params>) -> &'a A::Params {
        self.or_own(plan)
    }

    fn check(ask: Ask<'_, '_, Self>) -> Decision {
        ask.check()
    }

    fn peek(ask: Ask<'_, '_, Self>) -> Decision {
        ask.peek()
    }

    fn take(&self, _: &A::Params, (): (), n: u64, now: Tick) -> Result<RefundableCharge, Denied> {
        self.take(n, now).map(|(taken, _)| taken)
    }

    fn charge_spent(&self, _: &A::Params, (): (), n: u64, now: Tick) -> Option<Duration> {
        Some(self.charge_anyway(&self.still(now), n, now))
    }

    fn add(&self, _: &A::Params, (): (), n: u64, now: Tick) {
        self.cell().add(&*self.still(now), now, n);
    }

    fn refund(&self, _: &A::Params, taken: &RefundableCharge, n: u64, at: Option<Tick>) {
        self.refund(taken, n, || self.or_now(at));
    }
}
