//! The keyed limiter, the limiter without keys, their builders, plans, and the request value.

pub(crate) mod ask;
mod batch;
mod build_error;
pub(crate) mod builder;
mod decide;
pub(crate) mod direct;
mod direct_builder;
mod extras;
mod full;
pub(crate) mod hash_seeds;
mod hot_keys;
mod map_clock;
mod peek;
pub(crate) mod plan;
// Users have it as `tollgate::shared`.
#[cfg(feature = "shared-memory")]
#[doc(hidden)]
pub mod shared;
pub(crate) mod slot_layout;
pub(crate) mod stats;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;
mod utc_offset;

pub use ask::Askable;
pub use batch::AskEach;
pub use direct_builder::DirectBuilder;
pub(crate) use peek::unseen;
pub use slot_layout::SlotLayout;

use core::hash::Hash;
use core::marker::PhantomData;

use ahash::RandomState;

use crate::algo::gcra::Gcra;
use crate::algo::{Algorithm, StateMachine};
use crate::decision::Decision;
use crate::limiter::ask::Ask;
use crate::limiter::builder::{Builder, OnFull};
use crate::limiter::hash_seeds::Seeds;
use crate::limiter::stats::Stats;
use crate::quota::Quota;
use crate::table::{HotKeyLeases, OneBucket, OutOfMemory, Source, Table, Tally};
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

/// Buckets that [`Limiter::len`] looks at.
const LEN_SAMPLE_BUCKETS: u32 = 4_096;

/// A limiter that gives every key a bucket of its own, in fixed memory.
///
/// It is shared by reference (or in an `Arc`). `K` is the key as the caller has it: `Limiter<str>`
/// for names, `Limiter<IpAddr>` for addresses, `Limiter<(u32, [u8; 16])>` for combinations.
///
/// Keys of text belong in a `Limiter<str>`, which takes a `&str` and a `&String` alike; a key is only hashed, never
/// stored. A `Limiter<String>` takes a `&String` only (see [Keys of text](#keys-of-text)).
///
/// [`check`](Self::check), [`check_n`](Self::check_n), [`allow`](Self::allow) and
/// [`peek`](Self::peek) are short forms. [`ask`](Self::ask) sets everything else: cells, time,
/// [plan](crate::plan::Plan), the longest delay to accept.
///
/// **Guarantee.** A key that keeps its slot is granted exactly what its algorithm grants, over
/// all threads, under any interleaving, and with clocks that differ between threads by up to
/// [`max_clock_skew`](Builder::max_clock_skew). A decision takes no lock, allocates nothing and
/// waits for no other thread. Memory never grows. A denial changes no state, with [two exceptions](crate#guarantees).
/// Lock-free, not wait-free.
///
/// **Not guaranteed.**
///
/// - An idle key may lose its slot, which costs it nothing. A live key loses its slot only when live
///   keys take all 16 slots that another key could have; the policy chosen with
///   [`on_full`](Builder::on_full) then decides. The default forgets the key with the least debt.
/// - Keys are told apart by bits of a randomly seeded hash: 26 in [compact slots](SlotLayout),
///   54 in others, of which the choice of buckets uses up a few. Two keys that coincide share a
///   bucket, so they may be denied too early, never too late. In a table of a million keys that
///   happens to a new key with a chance of 1.3 in 10 million in compact slots, of about 10^-13 in
///   others.
/// - Requests are not queued: [`WaitQueue`](crate::wait::WaitQueue) serves them in order.
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
///
/// # Keys of text
///
/// ```
/// # use tollgate::{Limiter, Quota};
/// let gate: Limiter<str> = Limiter::builder(Quota::per_second(100)).build()?;
/// let name = String::from("alice");
/// assert!(gate.check("alice").is_ok() && gate.check(&name).is_ok());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// A `Limiter<String>` would have to allocate a `String` to be asked with a `&str`, so this does not compile. The
/// compiler's error quotes the line of `check`, which says to write `Limiter<str>` instead:
///
/// ```compile_fail,E0308
/// # use tollgate::{Limiter, Quota};
/// let gate: Limiter<String> = Limiter::builder(Quota::per_second(100)).build()?;
/// gate.check("alice").is_ok(); // expected `&String`, found `&str`
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// A `HashMap` accepts any borrowed form of its key. If a limiter did, the compiler could no longer infer the type of
/// its key, which would have to be named everywhere. As it is, `gate.check(&client)` makes
/// `Limiter::builder(quota).build()?` a `Limiter<IpAddr>`, and a `Limiter<str>` takes a `&String`, because that
/// dereferences to a `&str`.
pub struct Limiter<K: ?Sized, A: Algorithm = Gcra, C = QuantaClock> {
    /// A decision begins with the slot that the key prefers: the table has slack, and the limiter is plain.
    begins_at_preferred: bool,
    /// The limiter neither counts decisions nor leases hot keys, and its windows follow no wall clock. Others
    /// decide off the straight line, in `extras.rs`.
    is_plain: bool,
    table: Table,
    params: A::Params,
    hasher: RandomState,
    clock: C,
    when_full: WhenFull<A::Params>,
    tally: Option<Tally>,
    /// The cells that threads have taken ahead, if the limiter leases hot keys.
    leases: Option<HotKeyLeases>,
    seeds: Seeds,
    key: PhantomData<fn(&K)>,
}

/// The parts of a limiter that its builder chooses.
struct Parts<P, C> {
    table: Table,
    params: P,
    seeds: Seeds,
    clock: C,
    when_full: WhenFull<P>,
    tally: Option<Tally>,
    leases: Option<HotKeyLeases>,
}

/// The policy for a key that finds no slot: [`OnFull`] with the overflow limiter built.
#[derive(Debug)]
pub(crate) enum WhenFull<P> {
    Evict,
    Deny,
    Admit,
    Share(Box<(P, OneBucket)>),
}

impl<P: StateMachine> WhenFull<P> {
    /// With the overflow limiter in memory of `source`, if there is one.
    fn new(on_full: OnFull, overflow: Option<P>, source: &Source) -> Result<Self, OutOfMemory> {
        Ok(match (on_full, overflow) {
            (_, Some(params)) => {
                let bucket = OneBucket::new(&params, source)?;
                Self::Share(Box::new((params, bucket)))
            }
            (OnFull::Admit, None) => Self::Admit,
            (OnFull::Deny, None) => Self::Deny,
            (OnFull::EvictNearestIdle | OnFull::SharedOverflow(_), None) => Self::Evict,
        })
    }
}

impl<K: ?Sized> Limiter<K> {
    /// Begins a limiter; [`Builder`] lists the choices.
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

// The compiler's error about an argument quotes the line of the method. So this line says what to do if a
// `Limiter<String>` is asked with a `&str`.
impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Begins a request for `key`: one cell, now, unless the [`Ask`] says otherwise.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// assert!(gate.ask("a").cells(3).at(Tick::ZERO).check().is_ok());
    /// assert_eq!(gate.ask("a").cells(9).at(Tick::ZERO).charge_available(), 7);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn ask<'g, 'k>(&'g self, key: &'k K /* text: Limiter<str> */) -> Ask<'g, 'k, Self> {
        Ask::new(self, key)
    }

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
    pub fn check(&self, key: &K /* text: Limiter<str> */) -> Decision {
        self.ask(key).check()
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
    pub fn check_n(&self, key: &K /* text: Limiter<str> */, n: u64) -> Decision {
        self.ask(key).cells(n).check()
    }

    /// Asks for one cell for `key`, now, and answers yes or no. It charges and admits as
    /// [`check`](Self::check) does, and takes less time where the algorithm keeps a ring.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, SlidingLog};
    /// let log = SlidingLog::new();
    /// let gate: Limiter<str, _> =
    ///     Limiter::builder(Quota::per_hour(1)).algorithm(log).capacity(1_000).build()?;
    /// assert!(gate.allow("a"));
    /// assert!(!gate.allow("a"));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn allow(&self, key: &K /* text: Limiter<str> */) -> bool {
        self.ask(key).allow()
    }

    /// Answers as [`check`](Self::check) would, and charges nothing.
    ///
    /// # Errors
    ///
    /// The denial that `check` would give.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(3)).build()?;
    /// assert_eq!(gate.peek("a").unwrap().remaining(), 2);
    /// assert_eq!(gate.peek("a").unwrap().remaining(), 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn peek(&self, key: &K /* text: Limiter<str> */) -> Decision {
        self.ask(key).peek()
    }

    /// Forgets what was charged to `key`: it is as if the key had never been seen.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1)).build()?;
    /// assert!(gate.ask("a").at(Tick::ZERO).check().is_ok());
    /// gate.reset("a");
    /// assert!(gate.ask("a").at(Tick::ZERO).check().is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reset(&self, key: &K /* text: Limiter<str> */) {
        self.table.forget(self.probe(key));
    }

    /// About how many keys are live at the clock's present. It is exact up to 32,768 slots (a
    /// capacity of some 18,000) while no thread changes the table; beyond that it is scaled up from an even sample of
    /// 16,384 to 32,768 slots.
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
    /// assert!(gate.ask("a").at(Tick::ZERO).check().is_ok());
    /// assert_eq!(gate.len_at(Tick::from_nanos(2_000_000_000)), 0); // idle means absent
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn len_at(&self, now: Tick) -> usize {
        self.table.estimate_live(&*self.still(&self.params, now), now, LEN_SAMPLE_BUCKETS)
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
        Stats::of(self.table.counters(), self.tally.as_ref())
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
}

impl<K: ?Sized, A: Algorithm, C> Limiter<K, A, C> {
    /// The clock that [`check`](Self::check) reads.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The algorithm with the quota worked in.
    #[doc(hidden)]
    pub fn params(&self) -> &A::Params {
        &self.params
    }

    fn from_parts(parts: Parts<A::Params, C>) -> Self {
        let Parts { table, params, seeds, clock, when_full, tally, leases } = parts;
        let is_plain = tally.is_none() && leases.is_none() && params.is_still();
        let hasher = seeds.hasher();
        Self {
            begins_at_preferred: is_plain && table.has_slack(),
            is_plain,
            table,
            params,
            hasher,
            clock,
            when_full,
            tally,
            leases,
            seeds,
            key: PhantomData,
        }
    }

    /// The slots.
    #[inline(always)]
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The treatment of a key that finds no slot.
    #[inline(always)]
    pub(crate) fn when_full(&self) -> &WhenFull<A::Params> {
        &self.when_full
    }

    /// Cells that threads have taken ahead, if the limiter leases hot keys.
    #[inline(always)]
    pub(crate) fn leases(&self) -> Option<&HotKeyLeases> {
        self.leases.as_ref()
    }

    /// The seeds of its hash.
    pub(crate) fn seeds(&self) -> Seeds {
        self.seeds
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
