//! The decision: the composite pre-checks all limits, then charges them. If a limit denies after all, the
//! charges of the limits before it are refunded.
//!
//! # Guarded by
//!
//! `loom-tests/tests/composite.rs`, run by `ci/check.sh loom`, with models of a later limit that is not peeked at, and
//! of a refund that is left out or made twice.

use super::enter::CompositeEntry;
use super::member::{Member, Target};
use super::{Composite, CompositeDenied, CompositePermit, MEMBERS_MAX, NamedLimit};
use crate::algo::PlanParams;
use crate::charge::refund::RefundableCharge;
use crate::decision::{Denied, Permit};
use crate::sync::{Fault, planted};
use crate::time::Tick;

impl<'a, R: ?Sized> Composite<'a, R> {
    pub(super) fn decide(
        &self,
        request: &R,
        n: u64,
        given: Option<Tick>,
    ) -> Result<CompositeEntry, CompositeDenied> {
        // Call the caller's functions before anything is charged: a panic then leaves no charge.
        if self.has_plans {
            let plans = self.plans(request);
            return self.decide_by(self.targets(request, &plans, given), n, given);
        }
        self.decide_by(self.targets(request, &[], given), n, given)
    }

    fn decide_by(
        &self,
        targets: [Target<'_>; MEMBERS_MAX],
        n: u64,
        given: Option<Tick>,
    ) -> Result<CompositeEntry, CompositeDenied> {
        if !planted(Fault::LaterNotPeeked) {
            for (index, (NamedLimit { member, .. }, &target)) in
                self.enforced().zip(&targets).enumerate()
            {
                if let Err(denied) = member.precheck(target, n, index == self.refundable.len()) {
                    return Err(self.deny(&targets, n, index, denied));
                }
            }
        }
        let mut charges = [RefundableCharge::Nothing; MEMBERS_MAX];
        let mut tightest: Option<Tightest> = None;
        for (index, (NamedLimit { name, member }, &target)) in
            self.refundable.iter().zip(&targets).enumerate()
        {
            match member.take(target, n) {
                Ok((taken, permit)) => {
                    charges[index] = taken;
                    tightest = Some(Tightest::of(tightest, name, permit, &**member));
                }
                Err(denied) => {
                    self.refund(&targets, &charges[..index], given);
                    return Err(self.deny(&targets, n, index, denied));
                }
            }
        }
        let index = self.refundable.len();
        let permit = match self.last.member.take_last(targets[index], n, given) {
            Ok((taken, permit)) => {
                charges[index] = taken;
                permit
            }
            Err(denied) => {
                self.refund(&targets, &charges[..index], given);
                return Err(self.deny(&targets, n, index, denied));
            }
        };
        self.refundable.iter().for_each(|named| named.member.count_admitted());
        let delay = permit.delay();
        let Tightest { name: tightest, permit, .. } =
            Tightest::of(tightest, self.last.name, permit, &*self.last.member);
        let would_deny = self.try_shadows(&targets, n, given, &mut charges[index + 1..]);
        let permit = CompositePermit { tightest, permit, delay, would_deny };
        Ok(CompositeEntry { permit, charges })
    }

    /// Refunds the cells of an entry that are in flight.
    pub(super) fn leave_all(&self, entry: &CompositeEntry) {
        for (named, taken) in self.all().zip(&entry.charges) {
            if named.member.counts_in_flight() {
                named.member.refund(None, taken, None);
            }
        }
    }

    /// The enforced limits, in order.
    pub(super) fn enforced(&self) -> impl Iterator<Item = &NamedLimit<'a, R>> {
        self.refundable.iter().chain([&self.last])
    }

    /// All limits, in the order of the targets.
    pub(super) fn all(&self) -> impl Iterator<Item = &NamedLimit<'a, R>> {
        self.enforced().chain(self.shadows.iter().map(|(named, _)| named))
    }

    /// The plan for each limit.
    fn plans(&self, request: &R) -> [Option<PlanParams>; MEMBERS_MAX] {
        let mut plans = [const { None }; MEMBERS_MAX];
        for (plan, named) in plans.iter_mut().zip(self.all()) {
            *plan = named.member.plan(request);
        }
        plans
    }

    /// The key, the time and the plan for each limit: the enforced ones, then the shadows.
    fn targets<'p>(
        &self,
        request: &R,
        plans: &'p [Option<PlanParams>],
        given: Option<Tick>,
    ) -> [Target<'p>; MEMBERS_MAX] {
        let mut targets = [Target::default(); MEMBERS_MAX];
        for (target, named) in targets.iter_mut().zip(self.all()) {
            *target = named.member.target(request, given);
        }
        for (target, plan) in targets.iter_mut().zip(plans) {
            target.plan = plan.as_ref();
        }
        targets
    }

    /// Refunds the charges of the first limits. A later limit had room at the pre-check, and
    /// another request was faster.
    #[cold]
    #[inline(never)]
    fn refund(&self, targets: &[Target<'_>], charges: &[RefundableCharge], given: Option<Tick>) {
        let times = match () {
            () if planted(Fault::RefundLeftOut) => 0,
            () if planted(Fault::RefundedTwice) => 2,
            () => 1,
        };
        for ((NamedLimit { member, .. }, target), taken) in
            self.refundable.iter().zip(targets).zip(charges)
        {
            (0..times).for_each(|_| member.refund(target.plan, taken, given));
        }
    }

    /// The denial by the limit at `index`, with the wait and the remainder over all enforced
    /// limits.
    #[cold]
    #[inline(never)]
    fn deny(
        &self,
        targets: &[Target<'_>; MEMBERS_MAX],
        n: u64,
        index: usize,
        denied: Denied,
    ) -> CompositeDenied {
        let NamedLimit { name: limit_name, member } =
            self.enforced().nth(index).unwrap_or(&self.last);
        let by_requests_in_flight = member.counts_in_flight();
        let (mut retry_after, mut remaining) = (denied.retry_after(), denied.remaining());
        for (other, (NamedLimit { member, .. }, &target)) in
            self.enforced().zip(targets).enumerate()
        {
            if other == index {
                continue;
            }
            // The request has not reached it, and its wait is part of the answer.
            if other > index {
                member.begin_to_fill(target, n);
            }
            if let Err(denied) = member.peek(target, n) {
                let wait = denied.retry_after();
                retry_after = retry_after.and_then(|longest| Some(wait?.max(longest)));
            }
            let left = match member.peek(target, 0) {
                Ok(permit) => permit.remaining(),
                Err(denied) => denied.remaining(),
            };
            // Room for one more request in flight is room for any number of cells.
            let is_room = member.counts_in_flight() && left > 0;
            remaining = if is_room { remaining } else { remaining.min(left) };
        }
        CompositeDenied { limit_name, denied, retry_after, remaining, by_requests_in_flight }
    }

    /// Asks the shadow limits, counts their decisions, and returns the name of the first that would
    /// have denied.
    fn try_shadows(
        &self,
        targets: &[Target<'_>; MEMBERS_MAX],
        n: u64,
        given: Option<Tick>,
        charges: &mut [RefundableCharge],
    ) -> Option<&'static str> {
        let mut would_deny = None;
        let targets = &targets[self.refundable.len() + 1..];
        for (((named, tally), &target), charge) in self.shadows.iter().zip(targets).zip(charges) {
            let taken = named.member.take_last(target, n, given);
            let admitted = taken.is_ok();
            if let Ok((taken, _)) = taken {
                *charge = taken;
            }
            tally.count(admitted);
            if !admitted {
                would_deny = would_deny.or(Some(named.name));
            }
        }
        would_deny
    }
}

/// The limit with the fewest cells left so far, of those asked.
#[derive(Clone, Copy)]
struct Tightest {
    name: &'static str,
    permit: Permit,
    /// Whether it counts requests in flight, and the cells left: computed once, since it takes a division.
    rank: (bool, u64),
}

impl Tightest {
    /// Cells in flight are not compared with cells of quotas, and come after those.
    fn of<R: ?Sized>(
        others: Option<Self>,
        name: &'static str,
        permit: Permit,
        member: &dyn Member<R>,
    ) -> Self {
        let rank = (member.counts_in_flight(), permit.remaining());
        match others {
            Some(tightest) if tightest.rank <= rank => tightest,
            _ => Self { name, permit, rank },
        }
    }
}
