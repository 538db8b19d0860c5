//! Limits of requests in flight, as members of a composite.
//!
//! A request counts as one in flight, whatever its cost.

use core::borrow::Borrow;
use core::hash::Hash;
use core::marker::PhantomData;

use super::member::{KeyFn, Member, Taken, Target};
use crate::algo::PlanParams;
use crate::charge::refund::RefundableCharge;
use crate::concurrency::{ConcurrencyLimiter, DirectConcurrency};
use crate::decision::{Decision, Denied};
use crate::time::{Clock, Tick};

/// A count for each key.
pub(super) struct KeyedInFlight<G, F, K: ?Sized, C> {
    limiter: G,
    key: F,
    of: PhantomData<fn(&K) -> C>,
}

impl<G, F, K: ?Sized, C> KeyedInFlight<G, F, K, C> {
    pub(super) fn new(limiter: G, key: F) -> Self {
        Self { limiter, key, of: PhantomData }
    }
}

impl<R, G, F, K, C> Member<R> for KeyedInFlight<G, F, K, C>
where
    R: ?Sized,
    G: Borrow<ConcurrencyLimiter<K, C>> + Send + Sync,
    F: KeyFn<R, K>,
    K: Hash + ?Sized,
    C: Clock,
{
    fn is_refundable(&self) -> bool {
        true
    }

    fn counts_in_flight(&self) -> bool {
        true
    }

    fn target(&self, request: &R, now: Option<Tick>) -> Target<'static> {
        let limiter = self.limiter.borrow();
        let probe = self.key.with(request, |key| limiter.probe(key));
        Target { probe, now: limiter.or_now(now), plan: None }
    }

    fn precheck(&self, target: Target<'_>, _: u64, _: bool) -> Result<(), Denied> {
        self.limiter.borrow().precheck(target.probe, target.now)
    }

    fn take(&self, target: Target<'_>, _: u64) -> Taken {
        self.limiter.borrow().take_one(target.probe, target.now)
    }

    fn refund(&self, _: Option<&PlanParams>, taken: &RefundableCharge, _: Option<Tick>) {
        self.limiter.borrow().refund(taken);
    }

    fn count_admitted(&self) {}

    fn peek(&self, target: Target<'_>, n: u64) -> Decision {
        self.limiter.borrow().peek_probe(target.probe, target.now, n.min(1))
    }
}

/// One count that all requests share.
pub(super) struct SharedInFlight<G, C> {
    limiter: G,
    of: PhantomData<fn() -> C>,
}

impl<G, C> SharedInFlight<G, C> {
    pub(super) fn new(limiter: G) -> Self {
        Self { limiter, of: PhantomData }
    }
}

impl<R, G, C> Member<R> for SharedInFlight<G, C>
where
    R: ?Sized,
    G: Borrow<DirectConcurrency<C>> + Send + Sync,
    C: Clock,
{
    fn is_refundable(&self) -> bool {
        true
    }

    fn counts_in_flight(&self) -> bool {
        true
    }

    fn target(&self, _: &R, now: Option<Tick>) -> Target<'static> {
        Target { now: self.limiter.borrow().now(now), ..Target::default() }
    }

    fn precheck(&self, target: Target<'_>, _: u64, _: bool) -> Result<(), Denied> {
        self.limiter.borrow().peek_at(target.now, 1).map(drop)
    }

    fn take(&self, target: Target<'_>, _: u64) -> Taken {
        self.limiter.borrow().take_one(target.now)
    }

    fn refund(&self, _: Option<&PlanParams>, taken: &RefundableCharge, _: Option<Tick>) {
        self.limiter.borrow().refund(taken);
    }

    fn count_admitted(&self) {}

    fn peek(&self, target: Target<'_>, n: u64) -> Decision {
        self.limiter.borrow().peek_at(target.now, n.min(1))
    }
}
