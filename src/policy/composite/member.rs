//! The limits of a composite: a limiter, and the function that finds its key in a request.

use core::borrow::Borrow;
use core::hash::Hash;
use core::marker::PhantomData;

use crate::algo::{Algorithm, PerKey, PlanParams, StateMachine};
use crate::cell::Request;
use crate::charge::refund::{IsRefundable, RefundableCharge};
use crate::decision::{Decision, Denied, OutOfLine, Permit};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::limiter::plan::{Plan, Plannable};
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// All that a decision of one limit needs of a request: the key, the time of the decision, and the plan.
#[derive(Clone, Copy, Default)]
pub(super) struct Target<'p> {
    /// Unused by a limiter without keys.
    pub(super) probe: Probe,
    pub(super) now: Tick,
    /// `None`: the limit's own quota.
    pub(super) plan: Option<&'p PlanParams>,
}

/// A charge that can be refunded, and what is left.
pub(super) type Taken = Result<(RefundableCharge, Permit), Denied>;

/// A charge that is never refunded.
fn final_charge(decision: Decision) -> Taken {
    decision.map(|permit| (RefundableCharge::Nothing, permit))
}

/// One limit of a [`Composite`](super::Composite). It hides the types of key, algorithm and clock.
pub(super) trait Member<R: ?Sized>: Send + Sync {
    /// Whether charges can be refunded.
    fn is_refundable(&self) -> bool;

    /// Whether its charge is a request in flight, which a guard refunds.
    fn counts_in_flight(&self) -> bool {
        false
    }

    /// Whether the request may bring a plan.
    fn has_plans(&self) -> bool {
        false
    }

    /// Finds the plan of the request. This runs the caller's code, which may panic.
    fn plan(&self, request: &R) -> Option<PlanParams> {
        let _ = request;
        None
    }

    /// Finds the key in the request, and reads the limit's own clock if no time is given. This runs
    /// the caller's code, which may panic.
    fn target(&self, request: &R, now: Option<Tick>) -> Target<'static>;

    /// Returns the denial if `n` cells would be denied, and charges nothing. A denial is counted
    /// and remembered like that of a check. `is_last`: `check` will be called next, not `take`.
    fn precheck(&self, target: Target<'_>, n: u64, is_last: bool) -> Result<(), Denied>;

    /// Lets a bucket that starts empty begin to fill, as its own denial of `n` cells would. This is not counted.
    fn begin_to_fill(&self, target: Target<'_>, n: u64) {
        let _ = (target, n);
    }

    /// Charges `n` cells in a form that can be refunded. The limit must be refundable.
    fn take(&self, target: Target<'_>, n: u64) -> Taken;

    /// Decides as the limiter itself does, as the last of the limits: nothing is refunded later, except that a
    /// guard refunds a request in flight.
    fn take_last(&self, target: Target<'_>, n: u64, given: Option<Tick>) -> Taken {
        let _ = given;
        self.take(target, n)
    }

    /// Refunds what time has not restored of a charge by this plan, at the given time or now.
    fn refund(&self, plan: Option<&PlanParams>, taken: &RefundableCharge, given: Option<Tick>);

    /// Counts cells that were taken and not refunded, if the limiter counts.
    fn count_admitted(&self);

    /// The answer to `n` cells, also of a key that finds no slot, with nothing charged or counted.
    fn peek(&self, target: Target<'_>, n: u64) -> Decision;
}

/// The function that finds a key in a request.
pub(super) trait KeyFn<R: ?Sized, K: ?Sized>: Send + Sync {
    fn with<T>(&self, request: &R, use_it: impl FnOnce(&K) -> T) -> T;
}

/// Borrows the key from the request.
pub(super) struct BorrowedKey<F>(pub(super) F);

impl<R: ?Sized, K: ?Sized, F> KeyFn<R, K> for BorrowedKey<F>
where
    F: for<'r> Fn(&'r R) -> &'r K + Send + Sync,
{
    #[inline]
    fn with<T>(&self, request: &R, use_it: impl FnOnce(&K) -> T) -> T {
        use_it((self.0)(request))
    }
}

/// Computes the key from the request.
pub(super) struct ComputedKey<F>(pub(super) F);

impl<R: ?Sized, K, F: Fn(&R) -> K + Send + Sync> KeyFn<R, K> for ComputedKey<F> {
    #[inline]
    fn with<T>(&self, request: &R, use_it: impl FnOnce(&K) -> T) -> T {
        use_it(&(self.0)(request))
    }
}

/// The function that finds the plan of a request, for a limit by the algorithm `A`.
pub(super) trait PlanFn<R: ?Sized, A: Algorithm>: Send + Sync {
    const HAS_PLANS: bool;

    /// The plan of the request, for a limiter with the parameters `own`.
    fn plan(&self, request: &R, own: &A::Params) -> Option<PlanParams>;

    fn params(plan: Option<&PlanParams>) -> Option<&A::Params>;
}

/// Every request goes by the limit's own quota.
pub(super) struct OwnQuota;

impl<R: ?Sized, A: Algorithm> PlanFn<R, A> for OwnQuota {
    const HAS_PLANS: bool = false;

    fn plan(&self, _: &R, _: &A::Params) -> Option<PlanParams> {
        None
    }

    #[inline(always)]
    fn params(_: Option<&PlanParams>) -> Option<&A::Params> {
        None
    }
}

/// Each request brings a plan.
pub(super) struct PlanOf<P>(pub(super) P);

impl<R, A, P> PlanFn<R, A> for PlanOf<P>
where
    R: ?Sized,
    A: Plannable,
    P: Fn(&R) -> Plan<A> + Send + Sync,
{
    const HAS_PLANS: bool = true;

    fn plan(&self, request: &R, own: &A::Params) -> Option<PlanParams> {
        Some((self.0)(request).params_for(own).to_plan_params())
    }

    fn params(plan: Option<&PlanParams>) -> Option<&A::Params> {
        A::Params::of_plan_params(plan?)
    }
}

/// The key, the algorithm and the clock of a limiter.
type Of<K, A, C> = PhantomData<fn(&K) -> (A, C)>;

/// A limiter with keys.
pub(super) struct Keyed<G, F, P, K: ?Sized, A, C> {
    limiter: G,
    key: F,
    plan: P,
    of: Of<K, A, C>,
}

impl<G, F, P, K: ?Sized, A, C> Keyed<G, F, P, K, A, C> {
    pub(super) fn new(limiter: G, key: F, plan: P) -> Self {
        Self { limiter, key, plan, of: PhantomData }
    }
}

impl<R, G, F, P, K, A, C> Member<R> for Keyed<G, F, P, K, A, C>
where
    R: ?Sized,
    G: Borrow<Limiter<K, A, C>> + Send + Sync,
    F: KeyFn<R, K>,
    P: PlanFn<R, A>,
    K: Hash + ?Sized,
    A: Algorithm,
    C: Clock,
{
    fn is_refundable(&self) -> bool {
        self.limiter.borrow().params().dispatch_refund(IsRefundable).is_some()
    }

    fn has_plans(&self) -> bool {
        P::HAS_PLANS
    }

    fn plan(&self, request: &R) -> Option<PlanParams> {
        self.plan.plan(request, self.limiter.borrow().params())
    }

    #[inline]
    fn target(&self, request: &R, now: Option<Tick>) -> Target<'static> {
        let limiter = self.limiter.borrow();
        let probe = self.key.with(request, |key| limiter.begin(key));
        Target { probe, now: limiter.or_now(now), plan: None }
    }

    fn precheck(&self, target: Target<'_>, n: u64, is_last: bool) -> Result<(), Denied> {
        let Target { probe, now, plan } = target;
        let request = Request { now, cells: n };
        self.limiter.borrow().precheck(P::params(plan), probe, request, is_last)
    }

    fn begin_to_fill(&self, Target { probe, now, plan }: Target<'_>, n: u64) {
        self.limiter.borrow().begin_to_fill(P::params(plan), probe, Request { now, cells: n });
    }

    fn take(&self, Target { probe, now, plan }: Target<'_>, n: u64) -> Taken {
        let limiter = self.limiter.borrow();
        let taken = limiter.take_by(limiter.or_own(P::params(plan)), probe, n, now);
        if taken.is_err() {
            limiter.count(false);
        }
        taken
    }

    fn take_last(&self, target: Target<'_>, n: u64, given: Option<Tick>) -> Taken {
        let Target { probe, now, plan } = target;
        let limiter = self.limiter.borrow();
        let decision = match (P::params(plan), limiter.leases()) {
            (Some(plan), _) => limiter.decide_probed(plan, probe, n, now),
            // The expiry of a lease needs a time that is not behind: read the clock again.
            (None, Some(_)) => {
                let OutOfLine(decision) =
                    limiter.answer_leasing(probe, n, || limiter.or_now(given));
                decision
            }
            (None, None) => limiter.decide_probed(limiter.params(), probe, n, now),
        };
        final_charge(decision)
    }

    fn refund(&self, plan: Option<&PlanParams>, taken: &RefundableCharge, given: Option<Tick>) {
        let limiter = self.limiter.borrow();
        let algo = limiter.or_own(P::params(plan));
        limiter.refund_by(algo, taken, taken.cells(), || limiter.or_now(given));
    }

    fn count_admitted(&self) {
        self.limiter.borrow().count(true);
    }

    fn peek(&self, Target { probe, now, plan }: Target<'_>, n: u64) -> Decision {
        self.limiter.borrow().peek_as_charged(P::params(plan), probe, Request { now, cells: n })
    }
}

/// A limiter without keys.
pub(super) struct Unkeyed<G, A, C> {
    limiter: G,
    of: PhantomData<fn() -> (A, C)>,
}

impl<G, A, C> Unkeyed<G, A, C> {
    pub(super) fn new(limiter: G) -> Self {
        Self { limiter, of: PhantomData }
    }
}

impl<R, G, A, C> Member<R> for Unkeyed<G, A, C>
where
    R: ?Sized,
    G: Borrow<Direct<A, C>> + Send + Sync,
    A: Algorithm,
    C: Clock,
{
    fn is_refundable(&self) -> bool {
        self.limiter.borrow().params().dispatch_refund(IsRefundable).is_some()
    }

    fn target(&self, _: &R, now: Option<Tick>) -> Target<'static> {
        Target { now: self.limiter.borrow().or_now(now), ..Target::default() }
    }

    fn precheck(&self, target: Target<'_>, n: u64, _: bool) -> Result<(), Denied> {
        self.limiter.borrow().precheck(n, target.now)
    }

    fn begin_to_fill(&self, target: Target<'_>, n: u64) {
        self.limiter.borrow().begin_to_fill(n, target.now);
    }

    fn take(&self, target: Target<'_>, n: u64) -> Taken {
        self.limiter.borrow().take(n, target.now)
    }

    fn take_last(&self, target: Target<'_>, n: u64, _: Option<Tick>) -> Taken {
        final_charge(self.limiter.borrow().decide_at(n, target.now))
    }

    fn refund(&self, _: Option<&PlanParams>, taken: &RefundableCharge, given: Option<Tick>) {
        let limiter = self.limiter.borrow();
        limiter.refund(taken, taken.cells(), || limiter.or_now(given));
    }

    fn count_admitted(&self) {}

    fn peek(&self, target: Target<'_>, n: u64) -> Decision {
        self.limiter.borrow().ask().cells(n).at(target.now).peek()
    }
}
