//! The straight line: key, hash, slot, step, compare-and-swap, decision.
//!
//! ```text
//! Ask::check -> Limiter::answer_now   hashes the key, looks its slot up, reads the clock
//!   -> dispatch -> Decide::visit      the algorithm becomes a type, by one branch in AnyAlgorithm
//!   -> Lookup::answer                 the branch by kind of slot
//!   -> SlotTable::answer              the slot that was found, or the cold path
//!   -> StateCell::try_answer          step, compare-and-swap, and the answer
//! ```
//!
//! A [`Decision`](crate::Decision) says how much is left, how long to wait and when everything is
//! restored. Where the state is one word, these are computed only when the caller reads them. Where
//! the state has a ring, they must be read with the decision and are most of its cost; so yes or no
//! ([`allow`](Limiter::allow)) has functions of its own.
//!
//! An optimised build inlines all of it into the caller. Tests and models have thousands of callers, and
//! would be compiled for minutes; so builds with assertions, and models, keep some of it out of line.

use core::hash::Hash;
use core::marker::PhantomData;
use core::time::Duration;

use crate::algo::{Algorithm, StateMachine, Still, Visitor};
use crate::cell::{Answer, Request};
use crate::decision::OutOfLine;
use crate::limiter::Limiter;
use crate::table::{Full, KeyRequest, Lookup, Probe};
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Answers by the limiter's clock, and by the plan's algorithm if there is a plan. Leases and coarse
    /// times serve the limiter's own algorithm only.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(super) fn answer_now<R: Answer>(
        &self,
        plan: Option<&A::Params>,
        key: &K,
        n: u64,
    ) -> R::Out {
        let probe = self.probe(key);
        if let (None, Some(coarse)) = (plan, self.clock.coarse())
            && self.is_plain
        {
            return R::of_decision(self.by_coarse_time(probe, n, coarse));
        }
        let Some((lookup, now)) = self.look_up_now(probe) else {
            return self.answer_with_extras::<R>(plan, probe, n, None);
        };
        self.or_own(plan).dispatch(self.found::<R>((probe, lookup), n, now))
    }

    /// Answers by a time that the caller gives.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(super) fn answer_at<R: Answer>(
        &self,
        plan: Option<&A::Params>,
        key: &K,
        n: u64,
        now: Tick,
    ) -> R::Out {
        let probe = self.probe(key);
        let Some(lookup) = self.look_up(probe) else {
            return self.answer_with_extras::<R>(plan, probe, n, Some(now));
        };
        self.or_own(plan).dispatch(self.found::<R>((probe, lookup), n, now))
    }

    /// Looks at the slot that the key prefers, if that comes first.
    #[inline(always)]
    fn preferred_lookup(&self, probe: Probe) -> Option<Lookup<'_>> {
        match self.begins_at_preferred {
            true => self.table.find_preferred(probe),
            false => None,
        }
    }

    /// Looks a key up. `None`: the limiter is not plain.
    #[inline(always)]
    fn look_up(&self, probe: Probe) -> Option<Lookup<'_>> {
        if let Some(lookup) = self.preferred_lookup(probe) {
            return Some(lookup);
        }
        match self.is_plain {
            true => Some(self.table.find_in_line(probe)),
            false => None,
        }
    }

    /// As [`look_up`](Self::look_up), and reads the clock. `None` also if that takes a call.
    ///
    /// On some processors a clock read waits for the loads before it, and the longer it waits, the
    /// less it hides of what comes after it. So a slot that is likely to be far away is prefetched
    /// before the clock read and looked at after it; one that is near is looked at first.
    #[inline(always)]
    fn look_up_now(&self, probe: Probe) -> Option<(Lookup<'_>, Tick)> {
        if let Some(lookup) = self.preferred_lookup(probe) {
            return Some((lookup, self.clock.now_at_once()?));
        }
        if !self.is_plain {
            return None;
        }
        if self.table.is_far() {
            self.table.prefetch(probe);
            let now = self.clock.now_at_once()?;
            return Some((self.table.find_in_line(probe), now));
        }
        let lookup = self.table.find_in_line(probe);
        Some((lookup, self.clock.now_at_once()?))
    }

    /// A request of a key that was looked up.
    #[inline(always)]
    pub(super) fn found<'a, R: Answer>(
        &'a self,
        found: (Probe, Lookup<'a>),
        n: u64,
        now: Tick,
    ) -> Decide<'a, K, A, C, R> {
        let (probe, lookup) = found;
        let answer = PhantomData;
        Decide { limiter: self, probe, lookup, now, as_built: now, n, max_delay: None, answer }
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
}

impl<K: ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// The algorithm for a decision at an instant.
    #[inline(always)]
    pub(crate) fn still<'a, M: StateMachine>(&self, algo: &'a M, now: Tick) -> Still<'a, M> {
        algo.still(|| now, &self.clock)
    }
}

/// A request for cells whose key was looked up. [`dispatch`](StateMachine::dispatch) calls its
/// [`visit`](Visitor::visit) with the concrete algorithm.
pub(super) struct Decide<'a, K: ?Sized, A: Algorithm, C, R> {
    limiter: &'a Limiter<K, A, C>,
    probe: Probe,
    lookup: Lookup<'a>,
    now: Tick,
    /// The instant that the machine decides at. It differs from `now` only where windows follow the wall
    /// clock: see [`StateMachine::as_built_at`].
    as_built: Tick,
    n: u64,
    /// The longest delay that the request accepts, for a key that finds no slot. The machine has it too.
    max_delay: Option<Duration>,
    answer: PhantomData<R>,
}

impl<K: ?Sized, A: Algorithm, C, R> Decide<'_, K, A, C, R> {
    /// The same request, decided at `instant` by the machine as it was built.
    #[inline(always)]
    pub(super) fn decided_at(self, instant: Tick) -> Self {
        Self { as_built: instant, ..self }
    }

    #[inline(always)]
    pub(super) fn within(self, max_delay: Duration) -> Self {
        Self { max_delay: Some(max_delay), ..self }
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock, R: Answer> Visitor for Decide<'_, K, A, C, R> {
    type Out = R::Out;

    #[inline(always)]
    fn visit<M: StateMachine>(self, algo: &M) -> R::Out {
        let Self { limiter, probe, lookup, now, as_built, n, max_delay, .. } = self;
        let request = Request { now: as_built, cells: n };
        let asked = KeyRequest { probe, machine: algo, request };
        match lookup.answer::<M, R>(asked) {
            Ok(answer) => answer,
            Err(Full { nearest_idle }) => {
                let OutOfLine(decision) = limiter.at_full_table(nearest_idle, n, now, max_delay);
                R::of_decision(decision)
            }
        }
    }
}
