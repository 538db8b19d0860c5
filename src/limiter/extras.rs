//! Decisions that need more than the usual path. The limiter counts decisions, leases hot keys or has a coarse
//! clock; or the request bounds its delay; or the key's lookup has begun, in a batch or a composite.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Algorithm, StateMachine, Visitor, WithinDelay};
use crate::cell::{Answer, InFull, Request};
use crate::decision::{Decision, OutOfLine, Permit};
use crate::limiter::Limiter;
use crate::table::{Lookup, Probe};
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Answers where the limiter is not plain, or where the clock cannot be read at once.
    #[inline(always)]
    pub(super) fn answer_with_extras<R: Answer>(
        &self,
        plan: Option<&A::Params>,
        probe: Probe,
        n: u64,
        at: Option<Tick>,
    ) -> R::Out {
        if plan.is_none() && self.leases.is_some() {
            // The precise time decides whether a lease has ended: a coarse one may be behind.
            let OutOfLine(decision) = self.answer_leasing(probe, n, || self.or_now(at));
            return R::of_decision(decision);
        }
        let OutOfLine(answer) = self.answer_without_lease::<R>(plan, probe, n, at);
        answer
    }

    /// Answers by no lease, and counts the decision if the limiter counts them.
    #[inline(never)]
    pub(super) fn answer_without_lease<R: Answer>(
        &self,
        plan: Option<&A::Params>,
        probe: Probe,
        n: u64,
        at: Option<Tick>,
    ) -> OutOfLine<R::Out> {
        if let (None, None, Some(coarse)) = (plan, at, self.clock.coarse()) {
            return OutOfLine(R::of_decision(self.by_coarse_time(probe, n, coarse)));
        }
        let found = (probe, self.table.find_at_once(probe));
        OutOfLine(self.answer_found::<R>(self.or_own(plan), found, n, self.or_now(at)))
    }

    /// Admits by a coarse time if that suffices; otherwise the precise time decides.
    #[inline(always)]
    pub(super) fn by_coarse_time(&self, probe: Probe, n: u64, coarse: Tick) -> Decision {
        let lookup = self.table.find_at_once(probe);
        // Where windows follow the wall clock, the precise time decides.
        if self.params.is_still()
            && let Some(permit) = self.params.dispatch(Admit { lookup, now: coarse, n })
        {
            self.count(true);
            return Ok(permit);
        }
        self.answer_found::<InFull>(&self.params, (probe, lookup), n, self.clock.now())
    }

    /// Counts a decision, if the limiter counts them.
    #[inline(always)]
    pub(crate) fn count(&self, admitted: bool) {
        if let Some(tally) = &self.tally {
            tally.count(admitted);
        }
    }

    /// Answers about a key that was looked up, by an algorithm that works on the same states as the
    /// limiter's own, and counts the decision.
    #[inline(always)]
    fn answer_found<R: Answer>(
        &self,
        algo: &A::Params,
        found: (Probe, Lookup<'_>),
        n: u64,
        now: Tick,
    ) -> R::Out {
        let answer = match algo.as_built_at(now, &self.clock) {
            Some(as_built) => algo.dispatch(self.found::<R>(found, n, now).decided_at(as_built)),
            None => {
                let OutOfLine(decision) = self.answer_at_instant(algo, found.0, n, now);
                R::of_decision(decision)
            }
        };
        self.count(R::is_admitted(&answer));
        answer
    }

    /// Answers by the algorithm of an instant, and counts nothing.
    #[cold]
    #[inline(never)]
    fn answer_at_instant(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> OutOfLine<Decision> {
        let found = (probe, self.table.find_at_once(probe));
        OutOfLine(self.still(algo, now).dispatch(self.found::<InFull>(found, n, now)))
    }

    /// Decides about a key whose lookup may have [begun](Self::begin), by an algorithm that works on the same
    /// states as the limiter's own.
    #[inline(always)]
    pub(crate) fn decide_probed(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Decision {
        self.answer_found::<InFull>(algo, (probe, self.table.find_at_once(probe)), n, now)
    }

    /// Decides where a request accepts no longer delay than `max_delay`.
    pub(crate) fn decide_within(
        &self,
        algo: &A::Params,
        probe: Probe,
        request: Request,
        max_delay: Duration,
    ) -> Decision {
        let Request { now, cells: n } = request;
        let algo = self.still(algo, now);
        let found = self.found::<InFull>((probe, self.table.find_at_once(probe)), n, now);
        let decide = found.within(max_delay);
        let decision = WithinDelay::new(&*algo, max_delay).dispatch(decide);
        self.count(decision.is_ok());
        decision
    }

    /// Whether it pays to begin lookups ahead: a key's slot is likely to be in no near cache, and
    /// no lease is looked at before it.
    #[inline(always)]
    pub(super) fn begins_ahead(&self) -> bool {
        self.table.is_far() && self.leases.is_none()
    }

    /// Begins to look a key up, for [`decide_probed`](Self::decide_probed).
    #[inline(always)]
    pub(crate) fn begin(&self, key: &K) -> Probe {
        let probe = self.probe(key);
        self.table.prefetch(probe);
        probe
    }
}

/// A request of a key that was looked up, to be admitted at once or not at all.
struct Admit<'a> {
    lookup: Lookup<'a>,
    now: Tick,
    n: u64,
}

impl Visitor for Admit<'_> {
    type Out = Option<Permit>;

    #[inline(always)]
    fn visit<M: StateMachine>(self, algo: &M) -> Option<Permit> {
        self.lookup.admit(algo, self.now, self.n)
    }
}
