//! Many keys decided in one call, so that their cache misses overlap.

use core::hash::Hash;

use crate::algo::Algorithm;
use crate::cell::InFull;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::limiter::plan::{Plan, Plannable};
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// How many lookups are begun before the first of their keys is decided. A core has 10 to 16 cache misses in
/// flight at a time. This few slots are not evicted from the cache again before they are read.
const AT_ONCE: usize = 16;

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Begins a request for the keys of many items, each for one cell, now, unless the [`AskEach`]
    /// says otherwise. `key` finds an item's key.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// struct Packet { source: u32, bytes: usize }
    ///
    /// let gate: Limiter<u32> = Limiter::builder(Quota::per_hour(2)).build()?;
    /// let packets = [1, 2, 1, 1].map(|source| Packet { source, bytes: 60 });
    /// let mut admitted = Vec::new();
    /// gate.ask_each(&packets, |packet| &packet.source)
    ///     .check(|_, decision| admitted.push(decision.is_ok()));
    /// assert_eq!(admitted, [true, true, true, false]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn ask_each<'a, T, F>(&'a self, items: &'a [T], key: F) -> AskEach<'a, K, A, C, T, F>
    where
        F: Fn(&T) -> &K,
    {
        AskEach { gate: self, items, key, plan: None, cells: 1, at: None }
    }
}

/// One request for each of many keys: made by [`Limiter::ask_each`], ended by
/// [`check`](Self::check).
///
/// It is faster than as many single requests where the table is larger than the caches, because
/// several slots are fetched at a time (see the benchmarks). It reads the clock once. It is meant for
/// packets and records that arrive in batches.
#[must_use = "a request does nothing until `check` ends it"]
pub struct AskEach<'a, K: ?Sized, A: Algorithm, C, T, F> {
    gate: &'a Limiter<K, A, C>,
    items: &'a [T],
    key: F,
    plan: Option<&'a PlanOf<'a, T, A>>,
    cells: u64,
    at: Option<Tick>,
}

/// A function that finds the plan of an item.
type PlanOf<'a, T, A> = dyn Fn(&T) -> &'a Plan<A> + Sync + 'a;

impl<K: Hash + ?Sized, A: Algorithm, C: Clock, T, F> AskEach<'_, K, A, C, T, F>
where
    F: Fn(&T) -> &K,
{
    /// Sets how many cells are asked for each item. Without it, one cell is asked for.
    #[inline(always)]
    pub fn cells(self, cells: u64) -> Self {
        Self { cells, ..self }
    }

    /// Asks at the instant `now`, which the caller reads from its own clock: see
    /// [`Ask::at`](crate::Ask::at).
    #[inline(always)]
    pub fn at(self, now: Tick) -> Self {
        Self { at: Some(now), ..self }
    }

    /// Decides about each item by itself, not about all or none, and passes each decision to `each`,
    /// with the index of its item, in order.
    ///
    /// The decisions are those of as many [`Ask::check`](crate::Ask::check) with one time; with the time of each, if
    /// the limiter [leases hot keys](crate::Builder::lease_hot_keys) and no time is given.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(9)).build()?;
    /// let mut left = [0; 3];
    /// gate.ask_each(&[1_u64, 2, 1], |key| key).cells(5).at(Tick::ZERO).check(|index, decision| {
    ///     left[index] = match decision {
    ///         Ok(permit) => permit.remaining(),
    ///         Err(denied) => denied.remaining(),
    ///     };
    /// });
    /// assert_eq!(left, [4, 4, 4]); // the third was denied
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check(self, mut each: impl FnMut(usize, Decision)) {
        let Self { gate, items, key, plan, cells, at } = self;
        let plan_of = |item| plan.map(|plan| plan(item).params_for(gate.params()));
        if at.is_none() && gate.leases().is_some() {
            // The expiry of a lease needs a time that is not behind: the clock is read for each item.
            for (index, item) in items.iter().enumerate() {
                each(index, gate.answer_now::<InFull>(plan_of(item), key(item), cells));
            }
            return;
        }
        let now = gate.or_now(at);
        if !gate.begins_ahead() {
            for (index, item) in items.iter().enumerate() {
                each(index, gate.answer_at::<InFull>(plan_of(item), key(item), cells, now));
            }
            return;
        }
        let mut first = 0;
        for group in items.chunks(AT_ONCE) {
            let mut begun = [Probe::default(); AT_ONCE];
            for (probe, item) in begun.iter_mut().zip(group) {
                *probe = gate.begin(key(item));
            }
            for (index, (probe, item)) in begun.into_iter().zip(group).enumerate() {
                let algo = gate.or_own(plan_of(item));
                each(first + index, gate.decide_probed(algo, probe, cells, now));
            }
            first += group.len();
        }
    }
}

impl<'a, K: Hash + ?Sized, A: Plannable, C: Clock, T, F> AskEach<'a, K, A, C, T, F>
where
    F: Fn(&T) -> &K,
{
    /// Asks for each item by the [`Plan`] that `plan` finds, and not by the limiter's own quota.
    ///
    /// [`check`](Self::check) panics if a plan is of a limiter whose states mean something else; the items
    /// before it are decided.
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota};
    /// let gate: Limiter<str> =
    ///     Limiter::builder(Quota::per_second(10)).algorithm(Gcra::new().for_plans()).build()?;
    /// let (gold, free) = (gate.plan(Quota::per_hour(3))?, gate.plan(Quota::per_hour(1))?);
    /// let requests = [("gold", true), ("free", false), ("gold", true), ("free", false)];
    /// let mut admitted = Vec::new();
    /// gate.ask_each(&requests, |(tenant, _)| *tenant)
    ///     .plan(&|&(_, is_gold)| if is_gold { &gold } else { &free })
    ///     .check(|_, decision| admitted.push(decision.is_ok()));
    /// assert_eq!(admitted, [true, true, true, false]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn plan(self, plan: &'a (dyn Fn(&T) -> &'a Plan<A> + Sync + 'a)) -> Self {
        Self { plan: Some(plan), ..self }
    }
}

impl<K: ?Sized, A: Algorithm, C, T, F> core::fmt::Debug for AskEach<'_, K, A, C, T, F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AskEach")
            .field("items", &self.items.len())
            .field("cells", &self.cells)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
