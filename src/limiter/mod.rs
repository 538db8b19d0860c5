//! The keyed limiter: key, hash, slot, step, compare-and-swap, decision.

mod allow;
mod batch;
pub(crate) mod builder;
pub(crate) mod direct;
pub(crate) mod hash_seeds;
pub(crate) mod hot_keys;
pub(crate) mod slot_layout;
pub(crate) mod stats;
mod within;

pub use builder::DirectBuilder;
pub use slot_layout::SlotLayout;

use core::hash::Hash;
use core::marker::PhantomData;
use core::time::Duration;

use ahash::RandomState;

use crate::algo::gcra::Gcra;
use crate::algo::{Algorithm, NoRing, StateMachine, Visitor, WithinDelay};
use crate::cell::DirectCell;
use crate::decision::{Decision, OutOfLine, Permit};
use crate::limiter::builder::Builder;
use crate::limiter::hash_seeds::Seeds;
use crate::limiter::stats::Stats;
use crate::quota::Quota;
use crate::table::{Counters, Event, Lookup, Probe, Shares, Table, Tally};
use crate::time::clocks::QuantaClock;
use crate::time::{Clock, Tick};

/// Buckets that [`Limiter::len`] looks at.
const LEN_SAMPLE_BUCKETS: u32 = 4_096;

/// A limiter that gives every key a bucket of its own, in fixed memory.
///
/// It shares by reference (or in an `Arc`). `K` is the key as it is asked for: `Limiter<str>`
/// for names, `Limiter<IpAddr>` for addresses, `Limiter<(u32, [u8; 16])>` for combinations.
///
/// **Guarantee.** A key that keeps its place is granted what its algorithm grants, exactly, over
/// all threads, under any interleaving, and with clocks that differ between threads by up to
/// [`max_clock_skew`](Builder::max_clock_skew). A decision takes no lock, allocates nothing and
/// waits for nobody; memory never grows; a denial writes nothing. Lock-free, not wait-free.
///
/// **Not guaranteed.**
///
/// - A key loses its place only when it is idle (which costs it nothing), or, when all 16 slots
///   it could have are taken by live keys, by the policy chosen with
///   [`on_full`](Builder::on_full). The default forgets the key with the least debt.
/// - Keys are told apart by bits of a randomly seeded hash: 26 in [compact slots](crate::limiter::SlotLayout),
///   54 in others, of which the buckets' choice uses up a few. Two keys that coincide share a
///   bucket, so they may be denied too early, never too late. In a table of a million keys that
///   happens to a new key with a chance of 1.3 in 10 million, or about 10^-13.
/// - Waiting requests are not served in any order: `Limiter` answers, it does not queue.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate::{Limiter, OnFull, Quota};
///
/// let gate = Limiter::builder(Quota::per_second(100).burst(20))
///     .capacity(1_000_000)
///     .on_full(OnFull::EvictNearestIdle)
///     .build()?;
///
/// let client: IpAddr = "192.0.2.7".parse()?;
/// match gate.check(&client) {
///     Ok(permit) => println!("go ahead, {} left", permit.remaining()),
///     Err(denied) => println!("429, Retry-After {:?}", denied.retry_after()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter<K: ?Sized, A: Algorithm = Gcra, C = QuantaClock> {
    pub(crate) table: Table,
    pub(crate) params: A::Params,
    hasher: RandomState,
    pub(crate) clock: C,
    pub(crate) when_full: WhenFull<A::Params>,
    tally: Option<Tally>,
    pub(crate) shares: Option<Shares>,
    pub(crate) seeds: Seeds,
    key: PhantomData<fn(&K)>,
}

/// What to do when a key finds no place.
#[derive(Debug)]
pub(crate) enum WhenFull<P> {
    Evict,
    Deny,
    Admit,
    Share(Box<(P, DirectCell)>),
}

impl<P: StateMachine> WhenFull<P> {
    pub(crate) fn share(params: P) -> Self {
        let cell = DirectCell::new(&params);
        Self::Share(Box::new((params, cell)))
    }
}

impl<K: ?Sized> Limiter<K> {
    /// Begins a limiter; [`Builder`] says what can be chosen.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_minute(10)).build()?;
    /// assert!(gate.check("somebody").is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn builder(quota: Quota) -> Builder<K> {
        Builder::new(quota)
    }
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Asks for one cell for `key`, now.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(1)).build()?;
    /// assert!(gate.check("a").is_ok());
    /// assert!(gate.check("a").is_err());
    /// assert!(gate.check("b").is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn check(&self, key: &K) -> Decision {
        self.check_n(key, 1)
    }

    /// Asks for `n` cells for `key` at once, now: all of them or none.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// assert_eq!(gate.check_n("a", 7).unwrap().remaining(), 3);
    /// assert_eq!(gate.check_n("a", 7).unwrap_err().remaining(), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn check_n(&self, key: &K, n: u64) -> Decision {
        if self.shares.is_some() {
            // A share's end is judged by a time that is not behind.
            return self.decide_sharing(self.probe(key), n, || self.clock.now());
        }
        if let Some(coarse) = self.clock.coarse() {
            return self.check_by_coarse(key, n, coarse);
        }
        let (probe, lookup, now) = self.look_up_now(key);
        self.decide(probe, lookup, n, now)
    }

    /// Asks for `n` cells for `key` at the instant `now`, which the caller reads from its own
    /// clock.
    ///
    /// Use one origin for all calls. A `now` older than one already used never grants more, as
    /// long as it is not older by more than [`max_clock_skew`](Builder::max_clock_skew).
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1)).build()?;
    /// assert!(gate.check_at("a", 1, Tick::from_nanos(0)).is_ok());
    /// assert!(gate.check_at("a", 1, Tick::from_nanos(999_999_999)).is_err());
    /// assert!(gate.check_at("a", 1, Tick::from_nanos(1_000_000_000)).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn check_at(&self, key: &K, n: u64, now: Tick) -> Decision {
        let probe = self.probe(key);
        if self.shares.is_some() {
            return self.decide_sharing(probe, n, || now);
        }
        self.decide_begun(probe, n, now)
    }

    /// Looks a key up, and reads the clock.
    ///
    /// A clock read waits, on some processors, for the loads before it, and hides what comes after
    /// it the less the longer that takes. So a line that is likely to be far away is asked for, and
    /// the clock read, before it is looked at; one that is near is looked at first.
    #[inline(always)]
    pub(crate) fn look_up_now(&self, key: &K) -> (Probe, Lookup<'_>, Tick) {
        let probe = self.probe(key);
        if self.table.is_far() {
            self.table.prefetch(probe);
            let now = self.clock.now();
            return (probe, self.table.find_at_once(probe), now);
        }
        let lookup = self.table.find_at_once(probe);
        (probe, lookup, self.clock.now())
    }

    /// Admits by a coarse time, if that will do; else all is decided by the precise one.
    #[inline(always)]
    fn check_by_coarse(&self, key: &K, n: u64, coarse: Tick) -> Decision {
        let probe = self.probe(key);
        let lookup = self.table.find_at_once(probe);
        if let Some(permit) = self.params.dispatch(Admit { lookup, now: coarse, n }) {
            self.count(true);
            return Ok(permit);
        }
        self.decide(probe, lookup, n, self.clock.now())
    }

    /// Counts a decision, where they are counted.
    #[inline(always)]
    pub(crate) fn count(&self, admitted: bool) {
        if let Some(tally) = &self.tally {
            tally.count(admitted);
        }
    }

    /// The straight line.
    #[inline(always)]
    pub(crate) fn decide(&self, probe: Probe, lookup: Lookup<'_>, n: u64, now: Tick) -> Decision {
        self.decide_by(&self.params, probe, lookup, n, now)
    }

    /// The straight line by an algorithm that goes on as the limiter's own does.
    #[inline(always)]
    pub(crate) fn decide_by(
        &self,
        algo: &A::Params,
        probe: Probe,
        lookup: Lookup<'_>,
        n: u64,
        now: Tick,
    ) -> Decision {
        let evict = matches!(self.when_full, WhenFull::Evict);
        algo.dispatch(Ask { limiter: self, probe, lookup, now, n, evict })
    }

    /// The straight line, where a request may have to wait for so long at most.
    pub(crate) fn decide_within(
        &self,
        probe: Probe,
        n: u64,
        now: Tick,
        max_delay: Duration,
    ) -> Decision {
        let (lookup, evict) =
            (self.table.find_at_once(probe), matches!(self.when_full, WhenFull::Evict));
        let ask = Ask { limiter: self, probe, lookup, now, n, evict };
        self.params.dispatch(AskWithin { ask, max_delay })
    }

    /// The straight line to yes or no.
    #[inline(always)]
    pub(crate) fn allow_seated(&self, probe: Probe, lookup: Lookup<'_>, n: u64, now: Tick) -> bool {
        let evict = matches!(self.when_full, WhenFull::Evict);
        self.params.dispatch(Allow(Ask { limiter: self, probe, lookup, now, n, evict }))
    }

    #[inline(always)]
    pub(crate) fn look_up(&self, key: &K) -> (Probe, Lookup<'_>) {
        let probe = self.probe(key);
        (probe, self.table.find_at_once(probe))
    }

    /// Whether it pays to begin lookups ahead: a key's slot is likely to be in no cache near by, and
    /// nothing is looked at before it.
    #[inline(always)]
    pub(crate) fn begins_ahead(&self) -> bool {
        self.table.is_far() && self.shares.is_none()
    }

    /// Begins to look a key up, for [`decide_begun`](Self::decide_begun).
    #[inline(always)]
    pub(crate) fn begin(&self, key: &K) -> Probe {
        let probe = self.probe(key);
        self.table.prefetch(probe);
        probe
    }

    #[inline(always)]
    pub(crate) fn decide_begun(&self, probe: Probe, n: u64, now: Tick) -> Decision {
        self.decide(probe, self.table.find_at_once(probe), n, now)
    }

    /// What [`check_at`](Self::check_at) would answer, without charging anything or giving the
    /// key a place. Whether it would find one is not told.
    ///
    /// # Errors
    ///
    /// The denial that `check_at` would give.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(3)).build()?;
    /// assert_eq!(gate.peek_at("a", 0, Tick::ZERO).unwrap().remaining(), 3);
    /// assert!(gate.peek_at("a", 4, Tick::ZERO).is_err());
    /// assert_eq!(gate.stats().claimed, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek_at(&self, key: &K, n: u64, now: Tick) -> Decision {
        self.peek_by(&self.params, self.probe(key), n, now)
    }

    /// The same by an algorithm that goes on as the limiter's own does.
    pub(crate) fn peek_by(&self, algo: &A::Params, probe: Probe, n: u64, now: Tick) -> Decision {
        let seen = self.table.peek(probe, algo, now, n);
        algo.answer(seen.unwrap_or_else(|| unseen(algo, n, now)), now, n)
    }

    /// Forgets what was charged to `key`: it is as if the key had never been seen.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1)).build()?;
    /// assert!(gate.check_at("a", 1, Tick::ZERO).is_ok());
    /// gate.reset("a");
    /// assert!(gate.check_at("a", 1, Tick::ZERO).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reset(&self, key: &K) {
        self.table.forget(self.probe(key));
    }

    /// About how many keys are live at the clock's present: exact up to some 18,000 slots in a
    /// table nobody is changing, beyond that scaled up from an even sample of that many.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_day(1)).capacity(100).build()?;
    /// assert!(gate.is_empty());
    /// assert!(gate.check("a").is_ok() && gate.check("b").is_ok());
    /// assert_eq!(gate.len(), 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn len(&self) -> usize {
        self.len_at(self.clock.now())
    }

    /// As [`len`](Self::len), at the instant `now`.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1)).build()?;
    /// assert!(gate.check_at("a", 1, Tick::ZERO).is_ok());
    /// assert_eq!(gate.len_at(Tick::from_nanos(2_000_000_000)), 0); // idle means absent
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn len_at(&self, now: Tick) -> usize {
        self.table.estimate_live(&self.params, now, LEN_SAMPLE_BUCKETS)
    }

    /// Whether [`len`](Self::len) is zero.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_day(1)).build()?;
    /// assert!(gate.is_empty());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts of what happened.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_day(1)).build()?;
    /// assert_eq!(gate.stats().denied_full, 0);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn stats(&self) -> Stats {
        let counters: &Counters = self.table.counters();
        let decisions = |admitted| self.tally.as_ref().map(|tally| tally.total(admitted));
        Stats {
            admitted: decisions(true),
            denied: decisions(false),
            claimed: counters.total(Event::Claimed),
            evicted: counters.total(Event::Evicted),
            denied_full: counters.total(Event::DeniedFull),
            admitted_full: counters.total(Event::AdmittedFull),
            overflowed: counters.total(Event::Overflowed),
            shared: counters.total(Event::Shared),
        }
    }

    /// The slots' memory in bytes: reserved when built, never more.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_day(1)).capacity(1_000_000).build()?;
    /// assert!(gate.memory_bytes() <= 32 * 1_000_000);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// The clock that [`check`](Self::check) reads.
    ///
    /// ```
    /// # use tollgate::{Clock, Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_day(1)).build()?;
    /// let now = gate.clock().now();
    /// assert!(gate.check_at("a", 1, now).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The algorithm with the quota worked in.
    ///
    /// ```
    /// # use tollgate::limiter::SlotLayout;
    /// # use tollgate::{Limiter, Quota};
    /// use tollgate::internals::StateMachine;
    /// let gate: Limiter<str> =
    ///     Limiter::builder(Quota::per_day(1)).slots(SlotLayout::Wide).build()?;
    /// assert_eq!(gate.params().grid().skew_tolerance(), None); // any
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn params(&self) -> &A::Params {
        &self.params
    }

    #[inline(always)]
    pub(crate) fn probe(&self, key: &K) -> Probe {
        self.table.probe(self.hasher.hash_one(key))
    }

    /// As [`decide_full`](Self::decide_full), where keys without a place share no limiter.
    pub(crate) fn decide_unseated(&self, nearest: u64, n: u64, now: Tick) -> Decision {
        let OutOfLine(decision) = self.decide_full(nearest, n, now);
        decision
    }

    /// All candidates hold live keys of others, and none may be evicted.
    #[cold]
    #[inline(never)]
    fn decide_full(&self, nearest: u64, n: u64, now: Tick) -> OutOfLine<Decision> {
        let counters = self.table.counters();
        OutOfLine(match &self.when_full {
            WhenFull::Evict | WhenFull::Deny => {
                counters.count(Event::DeniedFull);
                Err(self.params.no_place(nearest, now, self.table.skew()))
            }
            WhenFull::Admit => {
                counters.count(Event::AdmittedFull);
                self.admit_untracked(n, now)
            }
            WhenFull::Share(shared) => {
                counters.count(Event::Overflowed);
                shared.1.check(&shared.0, now, n)
            }
        })
    }

    /// As if the key were fresh: what it could spend is what it is told.
    fn admit_untracked(&self, n: u64, now: Tick) -> Decision {
        match self.params.answer(unseen(&self.params, n, now), now, n) {
            Err(denied) if !denied.is_final() => Ok(Permit::despite(denied)),
            decision => decision,
        }
    }
}

/// What `n` cells of a key that was never seen are judged by.
pub(crate) fn unseen<M: StateMachine>(algo: &M, n: u64, now: Tick) -> M::View {
    algo.read(algo.fresh(now), NoRing, now, n)
}

/// A request for cells, to be decided by an algorithm.
struct Ask<'a, K: ?Sized, A: Algorithm, C> {
    limiter: &'a Limiter<K, A, C>,
    probe: Probe,
    lookup: Lookup<'a>,
    now: Tick,
    n: u64,
    evict: bool,
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Visitor for Ask<'_, K, A, C> {
    type Out = Decision;

    #[inline(always)]
    fn by<M: StateMachine>(self, algo: &M) -> Decision {
        let Self { limiter, probe, lookup, now, n, evict } = self;
        let decision = match lookup.decide(probe, algo, now, n, evict) {
            Ok(decision) => decision,
            Err(nearest) => {
                let OutOfLine(decision) = limiter.decide_full(nearest, n, now);
                decision
            }
        };
        limiter.count(decision.is_ok());
        decision
    }
}

/// A request for cells that may have to wait for so long at most.
struct AskWithin<'a, K: ?Sized, A: Algorithm, C> {
    ask: Ask<'a, K, A, C>,
    max_delay: Duration,
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Visitor for AskWithin<'_, K, A, C> {
    type Out = Decision;

    fn by<M: StateMachine>(self, algo: &M) -> Decision {
        self.ask.by(&WithinDelay::new(algo.clone(), self.max_delay))
    }
}

/// A request for cells, to be answered by yes or no.
struct Allow<'a, K: ?Sized, A: Algorithm, C>(Ask<'a, K, A, C>);

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Visitor for Allow<'_, K, A, C> {
    type Out = bool;

    #[inline(always)]
    fn by<M: StateMachine>(self, algo: &M) -> bool {
        let Ask { limiter, probe, lookup, now, n, evict } = self.0;
        let allowed = match lookup.allow(probe, algo, now, n, evict) {
            Ok(allowed) => allowed,
            Err(nearest) => {
                let OutOfLine(decision) = limiter.decide_full(nearest, n, now);
                decision.is_ok()
            }
        };
        limiter.count(allowed);
        allowed
    }
}

/// A request for cells of a key that was looked for, to be admitted at once or not at all.
struct Admit<'a> {
    lookup: Lookup<'a>,
    now: Tick,
    n: u64,
}

impl Visitor for Admit<'_> {
    type Out = Option<Permit>;

    #[inline(always)]
    fn by<M: StateMachine>(self, algo: &M) -> Option<Permit> {
        self.lookup.admit(algo, self.now, self.n)
    }
}

impl<K: ?Sized, A: Algorithm, C> Limiter<K, A, C> {
    pub(crate) fn from_parts(
        table: Table,
        params: A::Params,
        seeds: Seeds,
        clock: C,
        when_full: WhenFull<A::Params>,
        tally: Option<Tally>,
        shares: Option<Shares>,
    ) -> Self {
        let hasher = seeds.hasher();
        Self { table, params, hasher, clock, when_full, tally, shares, seeds, key: PhantomData }
    }
}

impl<K: ?Sized, A: Algorithm, C: core::fmt::Debug> core::fmt::Debug for Limiter<K, A, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Limiter")
            .field("table", &self.table)
            .field("params", &self.params)
            .field("clock", &self.clock)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}
