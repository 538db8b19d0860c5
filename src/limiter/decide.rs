//! The straight line: key, hash, slot, step, compare-and-swap, decision.
//!
//! A [`Decision`](crate::Decision) says how much is left, how long to wait and when everything is
//! restored. Where the state is one word, these are computed only when the caller reads them. Where
//! the state has a ring, they must be read with the decision and are most of its cost; so yes or no
//! ([`allow`](Limiter::allow)) has functions of its own.
//!
//! An optimised build inlines all of it into the caller. Tests and models have thousands of callers, and
//! would be compiled for minutes; so builds with assertions, and models, keep some of it out of line.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Algorithm, NoRing, StateMachine, Still, Visitor, WithinDelay};
use crate::cell::Request;
use crate::decision::{Decision, OutOfLine, Permit};
use crate::limiter::{Limiter, WhenFull};
use crate::table::{Event, Full, KeyRequest, Lookup, Probe};
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Decides by the limiter's clock, and by the plan's algorithm if there is a plan. Leases and coarse
    /// times serve the limiter's own algorithm only.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(super) fn decide_now(&self, plan: Option<&A::Params>, key: &K, n: u64) -> Decision {
        let probe = self.probe(key);
        if let (None, Some(coarse)) = (plan, self.clock.coarse())
            && self.is_plain
        {
            return self.decide_by_coarse(probe, n, coarse);
        }
        let Some((lookup, now)) = self.look_up_now(probe) else {
            return self.decide_with_extras(plan, probe, n, None);
        };
        self.or_own(plan).dispatch(self.found((probe, lookup), n, now))
    }

    /// Decides by a time that the caller gives.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(super) fn decide_at(
        &self,
        plan: Option<&A::Params>,
        key: &K,
        n: u64,
        now: Tick,
    ) -> Decision {
        let probe = self.probe(key);
        let Some(lookup) = self.look_up(probe) else {
            return self.decide_with_extras(plan, probe, n, Some(now));
        };
        self.or_own(plan).dispatch(self.found((probe, lookup), n, now))
    }

    /// Decides where the limiter is not plain.
    #[inline(always)]
    fn decide_with_extras(
        &self,
        plan: Option<&A::Params>,
        probe: Probe,
        n: u64,
        at: Option<Tick>,
    ) -> Decision {
        if plan.is_none() && self.shares.is_some() {
            // The end of a lease is judged by a time that is not behind.
            return self.decide_leasing(probe, n, || self.or_now(at));
        }
        self.decide_counting(plan, probe, n, at)
    }

    /// Decides by no lease, and counts the decision.
    #[inline(never)]
    fn decide_counting(
        &self,
        plan: Option<&A::Params>,
        probe: Probe,
        n: u64,
        at: Option<Tick>,
    ) -> Decision {
        if let (None, None, Some(coarse)) = (plan, at, self.clock.coarse()) {
            return self.decide_by_coarse(probe, n, coarse);
        }
        let found = (probe, self.table.find_at_once(probe));
        self.decide_by(self.or_own(plan), found, n, self.or_now(at))
    }

    /// Looks at the slot that the key prefers, if that comes first.
    #[inline(always)]
    fn look_at_preferred(&self, probe: Probe) -> Option<Lookup<'_>> {
        match self.begins_at_preferred {
            true => self.table.find_preferred(probe),
            false => None,
        }
    }

    /// Looks a key up. `None`: the limiter is not plain.
    #[inline(always)]
    fn look_up(&self, probe: Probe) -> Option<Lookup<'_>> {
        if let Some(lookup) = self.look_at_preferred(probe) {
            return Some(lookup);
        }
        match self.is_plain {
            true => Some(self.table.find_in_line(probe)),
            false => None,
        }
    }

    /// As [`look_up`](Self::look_up), and reads the clock.
    ///
    /// On some processors a clock read waits for the loads before it, and the longer it waits, the
    /// less it hides of what comes after it. So a slot that is likely to be far away is prefetched
    /// before the clock read and looked at after it; one that is near is looked at first.
    #[inline(always)]
    fn look_up_now(&self, probe: Probe) -> Option<(Lookup<'_>, Tick)> {
        if let Some(lookup) = self.look_at_preferred(probe) {
            return Some((lookup, self.clock.now()));
        }
        if !self.is_plain {
            return None;
        }
        if self.table.is_far() {
            self.table.prefetch(probe);
            let now = self.clock.now();
            return Some((self.table.find_in_line(probe), now));
        }
        let lookup = self.table.find_in_line(probe);
        Some((lookup, self.clock.now()))
    }

    /// Admits by a coarse time if that suffices; otherwise the precise time decides.
    #[inline(always)]
    fn decide_by_coarse(&self, probe: Probe, n: u64, coarse: Tick) -> Decision {
        let lookup = self.table.find_at_once(probe);
        // Where windows follow the wall clock, the precise time decides.
        if self.params.is_still()
            && let Some(permit) = self.params.dispatch(Admit { lookup, now: coarse, n })
        {
            self.count(true);
            return Ok(permit);
        }
        self.decide(probe, lookup, n, self.clock.now())
    }

    /// Counts a decision, if the limiter counts them.
    #[inline(always)]
    pub(crate) fn count(&self, admitted: bool) {
        if let Some(tally) = &self.tally {
            tally.count(admitted);
        }
    }

    #[inline(always)]
    pub(super) fn decide(&self, probe: Probe, lookup: Lookup<'_>, n: u64, now: Tick) -> Decision {
        self.decide_by(&self.params, (probe, lookup), n, now)
    }

    /// Decides by an algorithm that works on the same states as the limiter's own.
    #[inline(always)]
    pub(super) fn decide_by(
        &self,
        algo: &A::Params,
        found: (Probe, Lookup<'_>),
        n: u64,
        now: Tick,
    ) -> Decision {
        let decision = match algo.as_built_at(now, &self.clock) {
            Some(as_built) => algo.dispatch(Decide { as_built, ..self.found(found, n, now) }),
            None => {
                let OutOfLine(decision) = self.decide_still(algo, found.0, n, now);
                decision
            }
        };
        self.count(decision.is_ok());
        decision
    }

    /// Decides by the algorithm of an instant, and counts nothing.
    #[cold]
    #[inline(never)]
    fn decide_still(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> OutOfLine<Decision> {
        let found = (probe, self.table.find_at_once(probe));
        OutOfLine(self.still(algo, now).dispatch(self.found(found, n, now)))
    }

    /// A request of a key that was looked up.
    #[inline(always)]
    fn found<'a>(&'a self, found: (Probe, Lookup<'a>), n: u64, now: Tick) -> Decide<'a, K, A, C> {
        let (probe, lookup) = found;
        Decide { limiter: self, probe, lookup, now, as_built: now, n, max_delay: None }
    }

    /// Decides where a request accepts no longer delay than `max_delay`.
    pub(crate) fn decide_within(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
        max_delay: Duration,
    ) -> Decision {
        let algo = self.still(algo, now);
        let found = self.found((probe, self.table.find_at_once(probe)), n, now);
        let decide = Decide { max_delay: Some(max_delay), ..found };
        let decision = WithinDelay::new(&*algo, max_delay).dispatch(decide);
        self.count(decision.is_ok());
        decision
    }

    /// Answers yes or no by the limiter's clock.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(super) fn allow_now(&self, plan: Option<&A::Params>, key: &K, n: u64) -> bool {
        if self.clock.coarse().is_some() {
            return self.decide_now(plan, key, n).is_ok();
        }
        let probe = self.probe(key);
        let Some((lookup, now)) = self.look_up_now(probe) else {
            return self.allow_with_extras(plan, probe, n, None);
        };
        self.or_own(plan).dispatch(Allow(self.found((probe, lookup), n, now)))
    }

    /// Answers yes or no by a time that the caller gives.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(super) fn allow_at(&self, plan: Option<&A::Params>, key: &K, n: u64, now: Tick) -> bool {
        let probe = self.probe(key);
        let Some(lookup) = self.look_up(probe) else {
            return self.allow_with_extras(plan, probe, n, Some(now));
        };
        self.or_own(plan).dispatch(Allow(self.found((probe, lookup), n, now)))
    }

    /// Answers yes or no where the limiter is not plain.
    #[inline(never)]
    fn allow_with_extras(
        &self,
        plan: Option<&A::Params>,
        probe: Probe,
        n: u64,
        at: Option<Tick>,
    ) -> bool {
        if plan.is_none() && self.shares.is_some() {
            return self.decide_leasing(probe, n, || self.or_now(at)).is_ok();
        }
        let now = self.or_now(at);
        let algo = self.or_own(plan);
        let allowed = match algo.as_built_at(now, &self.clock) {
            Some(as_built) => {
                let found = (probe, self.table.find_at_once(probe));
                algo.dispatch(Allow(Decide { as_built, ..self.found(found, n, now) }))
            }
            None => {
                let OutOfLine(decision) = self.decide_still(algo, probe, n, now);
                decision.is_ok()
            }
        };
        self.count(allowed);
        allowed
    }

    /// Whether it pays to begin lookups ahead: a key's slot is likely to be in no near cache, and
    /// no lease is looked at before it.
    #[inline(always)]
    pub(super) fn begins_ahead(&self) -> bool {
        self.table.is_far() && self.shares.is_none()
    }

    /// Begins to look a key up, for [`decide_begun`](Self::decide_begun).
    #[inline(always)]
    pub(crate) fn begin(&self, key: &K) -> Probe {
        let probe = self.probe(key);
        self.table.prefetch(probe);
        probe
    }

    /// Decides about a key whose lookup was [begun](Self::begin).
    #[inline(always)]
    pub(crate) fn decide_begun(&self, probe: Probe, n: u64, now: Tick) -> Decision {
        self.decide_begun_by(&self.params, probe, n, now)
    }

    /// The same by an algorithm that works on the same states as the limiter's own.
    #[inline(always)]
    pub(crate) fn decide_begun_by(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Decision {
        self.decide_by(algo, (probe, self.table.find_at_once(probe)), n, now)
    }

    /// The answer to `n` cells with nothing charged, by a machine that works on the same states as the
    /// limiter's own.
    pub(crate) fn peek_by<M: StateMachine>(
        &self,
        algo: &M,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Decision {
        let algo = self.still(algo, now);
        let seen = self.table.peek(probe, &*algo, now, n);
        algo.answer(seen.unwrap_or_else(|| unseen(&*algo, n, now)), now, n)
    }

    /// The same, where a request accepts no longer delay than `max_delay`.
    pub(crate) fn peek_within(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
        max_delay: Duration,
    ) -> Decision {
        let algo = self.still(algo, now);
        self.peek_by(&WithinDelay::new(&*algo, max_delay), probe, n, now)
    }

    /// The time given, or that of the limiter's clock.
    #[inline(always)]
    pub(crate) fn or_now(&self, at: Option<Tick>) -> Tick {
        at.unwrap_or_else(|| self.clock.now())
    }

    /// The algorithm given, or the limiter's own.
    #[inline(always)]
    pub(crate) fn or_own<'a>(&'a self, plan: Option<&'a A::Params>) -> &'a A::Params {
        plan.unwrap_or(&self.params)
    }

    #[inline(always)]
    pub(crate) fn probe(&self, key: &K) -> Probe {
        Probe::new(self.hasher.hash_one(key))
    }

    /// As [`decide_full`](Self::decide_full), where keys without a slot share no limiter.
    pub(crate) fn decide_without_slot(&self, nearest_idle: u64, n: u64, now: Tick) -> Decision {
        let OutOfLine(decision) = self.decide_full(nearest_idle, n, now, None);
        decision
    }

    /// Decides where all candidate slots hold live keys of others, and none may be evicted.
    #[cold]
    #[inline(never)]
    fn decide_full(
        &self,
        nearest_idle: u64,
        n: u64,
        now: Tick,
        max_delay: Option<Duration>,
    ) -> OutOfLine<Decision> {
        let counters = self.table.counters();
        OutOfLine(match &self.when_full {
            WhenFull::Evict | WhenFull::Deny => {
                counters.count(Event::DeniedFull);
                let algo = self.still(&self.params, now);
                Err(algo.no_slot(nearest_idle, now, self.table.skew()))
            }
            WhenFull::Admit => {
                counters.count(Event::AdmittedFull);
                self.admit_untracked(n, now)
            }
            WhenFull::Share(shared) => {
                counters.count(Event::Overflowed);
                let (params, cell) = &**shared;
                let algo = self.still(params, now);
                match max_delay {
                    Some(bound) => cell.check(&WithinDelay::new(&*algo, bound), now, n),
                    None => cell.check(&*algo, now, n),
                }
            }
        })
    }

    /// Admits, and answers as if the key were fresh.
    fn admit_untracked(&self, n: u64, now: Tick) -> Decision {
        let algo = self.still(&self.params, now);
        match algo.answer(unseen(&*algo, n, now), now, n) {
            Err(denied) if !denied.is_final() => Ok(Permit::despite(denied)),
            decision => decision,
        }
    }
}

impl<K: ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// The algorithm for a decision at an instant.
    #[inline(always)]
    pub(crate) fn still<'a, M: StateMachine>(&self, algo: &'a M, now: Tick) -> Still<'a, M> {
        algo.still(|| now, &self.clock)
    }
}

/// The view by which `n` cells of a key that was never seen are judged.
pub(crate) fn unseen<M: StateMachine>(algo: &M, n: u64, now: Tick) -> M::View {
    algo.read(algo.fresh(now), NoRing, now, n)
}

/// A request for cells, to be decided by an algorithm.
struct Decide<'a, K: ?Sized, A: Algorithm, C> {
    limiter: &'a Limiter<K, A, C>,
    probe: Probe,
    lookup: Lookup<'a>,
    now: Tick,
    /// The same for the machine that decides.
    as_built: Tick,
    n: u64,
    /// The bound of `algo`, for a key that finds no slot.
    max_delay: Option<Duration>,
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Visitor for Decide<'_, K, A, C> {
    type Out = Decision;

    #[inline(always)]
    fn visit<M: StateMachine>(self, algo: &M) -> Decision {
        let Self { limiter, probe, lookup, now, as_built, n, max_delay } = self;
        let request = Request { now: as_built, cells: n };
        let asked = KeyRequest { probe, machine: algo, request };
        match lookup.decide(asked) {
            Ok(decision) => decision,
            Err(Full { nearest_idle }) => {
                let OutOfLine(decision) = limiter.decide_full(nearest_idle, n, now, max_delay);
                decision
            }
        }
    }
}

/// A request to be answered by yes or no.
struct Allow<'a, K: ?Sized, A: Algorithm, C>(Decide<'a, K, A, C>);

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Visitor for Allow<'_, K, A, C> {
    type Out = bool;

    #[inline(always)]
    fn visit<M: StateMachine>(self, algo: &M) -> bool {
        let Decide { limiter, probe, lookup, now, as_built, n, .. } = self.0;
        let request = Request { now: as_built, cells: n };
        let asked = KeyRequest { probe, machine: algo, request };
        match lookup.allow(asked) {
            Ok(allowed) => allowed,
            Err(Full { nearest_idle }) => {
                let OutOfLine(decision) = limiter.decide_full(nearest_idle, n, now, None);
                decision.is_ok()
            }
        }
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
