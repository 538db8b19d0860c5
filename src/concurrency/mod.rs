//! Limits of requests in flight, of each key or in all.
//!
//! A rate limit says how often a request may begin; a concurrency limit, how many may be under way. It is
//! the other half of what protects an upstream: nginx has it as `limit_conn`, Traefik as `inFlightReq`.
//!
//! [`ConcurrencyLimiter`] counts by key, [`DirectConcurrency`] counts all. Either gives a request that may
//! enter a [`Guard`]; the request is in flight until that is dropped. A controller moves an [`adaptive`] limit.
//!
//! # Guarded by
//!
//! `loom-tests/tests/concurrency.rs` and, for holders that die, `stopped/in_flight.rs`, run by
//! `ci/check.sh loom`, and the histories of `ci/check.sh shuttle`. A count is one state word of a slot, so
//! the protocols are those of `cell` and `table`.

pub mod adaptive;
mod builder;
mod counting;
mod direct;
mod enter;
mod error;
mod guard;
mod member;
#[cfg(feature = "shared-memory")]
mod shared;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;

pub use builder::{ConcurrencyBuilder, DirectConcurrencyBuilder, WhenNoSlot};
pub use direct::DirectConcurrency;
pub use error::{ConcurrencyDenied, ConcurrencyError};
pub use guard::{Concurrent, Guard, OwnedGuard};

use core::fmt;
use core::hash::Hash;
use core::marker::PhantomData;

use ahash::RandomState;
use counting::Counting;
use guard::Entry;
pub(crate) use guard::sealed;

use crate::limiter::ask::{Ask, sealed::Askable};
use crate::limiter::stats::Stats;
use crate::table::{OneBucket, Table, Tally};
use crate::time::quanta_clock::QuantaClock;
use crate::time::{Clock, Tick};

/// Buckets that [`ConcurrencyLimiter::len`] looks at.
const LEN_SAMPLE_BUCKETS: u32 = 4_096;

/// A limit of the requests of each key that are in flight, in fixed memory.
///
/// Choose it where many requests at one time do harm, however seldom they begin: exports, large
/// downloads, slow queries. [`DirectConcurrency`] counts all requests together, and an [`adaptive`] limit
/// finds its own value.
///
/// [`enter`](Self::enter) gives a request that may enter a [`Guard`]. The request is in flight until the
/// guard is dropped. The limiter is shared by reference (or in an `Arc`). `K` is the key as the caller has
/// it, as in [`Limiter`](crate::Limiter).
///
/// ```
/// use tollgate::concurrency::ConcurrencyLimiter;
///
/// let gate: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(10).build()?;
/// match gate.enter("192.0.2.7") {
///     Ok(guard) => {
///         // Serve the request; the guard counts it until it is dropped.
///         drop(guard);
///     }
///     Err(denied) => println!("503: {denied}"),
/// }
/// # Ok::<(), tollgate::concurrency::ConcurrencyError>(())
/// ```
///
/// **Guarantee.**
///
/// - A request enters only if the cells of its key in flight, its own included, are at most the limit that
///   it has read, under any interleaving of threads.
/// - A key with requests in flight never loses its slot, and a count never falls below what is in flight.
/// - Entering is one compare-and-swap of one word, and so is leaving; neither takes a lock, allocates or
///   waits. A lost race is retried: lock-free, not wait-free. A denial changes no state. Memory never grows.
///
/// **Not guaranteed.**
///
/// - Order: a denied request is not queued, and its denial names no time to return.
/// - Guards that are never dropped stay counted. Where that may happen, choose a
///   [longest hold](ConcurrencyBuilder::max_hold). A request that takes longer than that is in flight and
///   not counted.
/// - The limiter compares 54 bits of a randomly seeded hash, not the keys. Two keys with the same bits share
///   a count, so they may be denied too early, never too late.
/// - A key finds no slot if keys in use take all 16 that it could have. The
///   [policy](ConcurrencyBuilder::when_no_slot) then decides.
/// - A thread may enter on another key's count if it has read the clock, or a word, and is then stopped
///   while its slot changes hands a multiple of 1,024 times within one time unit: 1,024 ns, or a step of a
///   coarser clock; with [`max_hold`](ConcurrencyBuilder::max_hold), that span.
/// - The guard of a key that was reset may refund a cell of another key if the slot has changed hands as
///   often within a tick of the clock from the entry on. With a longest hold, that may be at any time since
///   the entry.
/// - With a longest hold below 2.4 hours, times repeat after 2^21 holds: after 24 days, if the hold is a
///   second. A guard that is dropped then may refund a cell of another request of its key. A lost request
///   may count again then, if its key was not asked for since.
pub struct ConcurrencyLimiter<K: ?Sized, C = QuantaClock> {
    table: Table,
    counting: Counting<C>,
    hasher: RandomState,
    when_full: WhenFull,
    tally: Option<Tally>,
    key: PhantomData<fn(&K)>,
}

/// The policy for a key that finds no slot, with the shared count built.
enum WhenFull {
    Deny,
    Admit,
    Share(Box<(u64, OneBucket)>),
}

impl<K: ?Sized> ConcurrencyLimiter<K> {
    /// Begins a limiter of `limit` cells in flight for each key; [`ConcurrencyBuilder`] lists the choices.
    ///
    /// ```
    /// use tollgate::concurrency::ConcurrencyLimiter;
    /// let gate: ConcurrencyLimiter<u32> = ConcurrencyLimiter::builder(4).capacity(1_000).build()?;
    /// # Ok::<(), tollgate::concurrency::ConcurrencyError>(())
    /// ```
    pub fn builder(limit: u64) -> ConcurrencyBuilder<K> {
        ConcurrencyBuilder::new(limit)
    }
}

impl<K: Hash + ?Sized, C: Clock> ConcurrencyLimiter<K, C> {
    /// Begins a request for `key`: one cell, now, unless the [`Ask`] says otherwise. Its verbs are
    /// [`enter`](Ask::enter), [`enter_owned`](Ask::enter_owned), [`peek`](Ask::peek) and
    /// [`in_flight`](Ask::in_flight).
    ///
    /// ```
    /// # use tollgate::concurrency::ConcurrencyLimiter;
    /// let gate: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(10).build()?;
    /// let guard = gate.ask("a").cells(3).enter()?;
    /// assert_eq!(guard.in_flight(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn ask<'g, 'k>(&'g self, key: &'k K) -> Ask<'g, 'k, Self> {
        Ask::new(self, key)
    }

    /// Counts one request of `key` as in flight until the guard is dropped, if the limit admits it.
    ///
    /// # Errors
    ///
    /// The denial, with the requests that are in flight. Nothing is counted.
    ///
    /// ```
    /// # use tollgate::concurrency::ConcurrencyLimiter;
    /// let gate: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(1).build()?;
    /// let guard = gate.enter("a")?;
    /// assert!(gate.enter("a").is_err() && gate.enter("b").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn enter<'g>(&'g self, key: &K) -> Result<Guard<'g, Self>, ConcurrencyDenied> {
        self.ask(key).enter()
    }

    /// The same with `cells` at once, all of them or none.
    ///
    /// # Errors
    ///
    /// The denial, with the cells that are in flight. Nothing is counted.
    #[inline]
    pub fn enter_n<'g>(
        &'g self,
        key: &K,
        cells: u64,
    ) -> Result<Guard<'g, Self>, ConcurrencyDenied> {
        self.ask(key).cells(cells).enter()
    }

    /// The cells of `key` that are in flight.
    #[must_use]
    pub fn in_flight(&self, key: &K) -> u64 {
        self.ask(key).in_flight()
    }

    /// The cells of a key that may be in flight.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.counting.limit()
    }

    /// Changes the limit, of all keys. A request that begins to enter after this has returned obeys it; one
    /// that is entering meanwhile may obey either. A lower limit ends no request: a key that is above it
    /// is denied until enough of its requests have ended.
    ///
    /// # Errors
    ///
    /// The limit is 0, or above what a state can count to. The old one stays.
    ///
    /// ```
    /// # use tollgate::concurrency::ConcurrencyLimiter;
    /// let gate: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(1).build()?;
    /// let first = gate.enter("a")?;
    /// assert!(gate.enter("a").is_err());
    /// gate.set_limit(2)?;
    /// assert!(gate.enter("a").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(&self, limit: u64) -> Result<(), ConcurrencyError> {
        self.counting.set_limit(limit)
    }

    /// Forgets the requests of `key` that are in flight. Their guards refund nothing.
    ///
    /// ```
    /// # use tollgate::concurrency::ConcurrencyLimiter;
    /// let gate: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(1).build()?;
    /// let lost = gate.enter("a")?;
    /// gate.reset("a");
    /// let next = gate.enter("a")?;
    /// drop(lost);
    /// assert_eq!(gate.in_flight("a"), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, key: &K) {
        self.table.forget(self.probe(key));
    }

    /// About how many keys have requests in flight. It is exact up to 32,768 slots (a capacity of
    /// some 18,000) while no thread changes the table; beyond that it is scaled up from an even sample of 16,384 to
    /// 32,768 slots.
    ///
    /// ```
    /// # use tollgate::concurrency::ConcurrencyLimiter;
    /// let gate: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(1).capacity(100).build()?;
    /// let (a, b) = (gate.enter("a")?, gate.enter("b")?);
    /// assert_eq!(gate.len(), 2);
    /// drop(a);
    /// assert_eq!(gate.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        let now = self.counting.if_needed(None);
        self.table.estimate_live(&self.counting.machine(), now, LEN_SAMPLE_BUCKETS)
    }

    /// Whether [`len`](Self::len) is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts of what happened. Nothing is evicted or leased.
    ///
    /// ```
    /// # use tollgate::concurrency::ConcurrencyLimiter;
    /// let gate: ConcurrencyLimiter<str> =
    ///     ConcurrencyLimiter::builder(1).count_decisions().build()?;
    /// let guard = gate.enter("a")?;
    /// assert!(gate.enter("a").is_err());
    /// assert_eq!((gate.stats().admitted, gate.stats().denied), (Some(1), Some(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(self.table.counters(), self.tally.as_ref())
    }

    /// The slots' memory in bytes: reserved when built, never more.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

impl<K: ?Sized, C> ConcurrencyLimiter<K, C> {
    fn from_parts(
        table: Table,
        counting: Counting<C>,
        hasher: RandomState,
        when_full: WhenFull,
        tally: Option<Tally>,
    ) -> Self {
        Self { table, counting, hasher, when_full, tally, key: PhantomData }
    }

    /// The same limiter with another clock, as [`Limiter::map_clock`](crate::Limiter::map_clock).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::clock::QuantaClock;
    /// use tollgate::concurrency::ConcurrencyLimiter;
    ///
    /// let gate = ConcurrencyLimiter::<str>::builder(1).build()?;
    /// let gate: ConcurrencyLimiter<str, Arc<QuantaClock>> = gate.map_clock(Arc::new);
    /// let guard = gate.enter("a");
    /// assert!(guard.is_ok() && gate.enter("a").is_err());
    /// # Ok::<(), tollgate::concurrency::ConcurrencyError>(())
    /// ```
    pub fn map_clock<D: Clock>(self, map: impl FnOnce(C) -> D) -> ConcurrencyLimiter<K, D> {
        let Self { table, counting, hasher, when_full, tally, key } = self;
        ConcurrencyLimiter {
            table,
            counting: counting.map_clock(map),
            hasher,
            when_full,
            tally,
            key,
        }
    }
}

impl<K: ?Sized, C> Askable for ConcurrencyLimiter<K, C> {
    type Key = K;
    type Params = ();
    type Time = Option<Tick>;
}

impl<K: Hash + ?Sized, C: Clock> sealed::Enter for ConcurrencyLimiter<K, C> {
    type Entry = Entry;
    type Denied = ConcurrencyDenied;

    #[inline(always)]
    fn enter_cells(
        &self,
        key: &K,
        cells: u64,
        at: Option<Tick>,
    ) -> Result<Entry, ConcurrencyDenied> {
        self.enter_probe(self.probe(key), cells, at)
    }

    #[inline(always)]
    fn leave(&self, entry: &Entry) {
        let paid = entry.receipt();
        let next = |state| self.counting.without(state, &paid);
        if !entry.is_counted() {
            return;
        }
        match &self.when_full {
            // A guard of five words would not stay in registers, so it has no probe.
            _ if entry.is_in_slot() => self.table.revise_charged(None, &paid, next),
            WhenFull::Share(shared) => shared.1.cell().revise_charged(&paid, next),
            WhenFull::Deny | WhenFull::Admit => false,
        };
    }
}

impl<K: Hash + ?Sized, C: Clock> sealed::Count for ConcurrencyLimiter<K, C> {
    fn would_enter(&self, key: &K, cells: u64, at: Option<Tick>) -> Result<(), ConcurrencyDenied> {
        self.would_enter(self.probe(key), self.counting.if_needed(at), cells)
    }

    fn in_flight_after(&self, entry: &Entry) -> u64 {
        self.counting.in_flight_after(entry)
    }

    fn cells_in_flight(&self, key: &K, at: Option<Tick>) -> u64 {
        let (machine, now) = (self.counting.machine(), self.counting.if_needed(at));
        self.table.peek(self.probe(key), &machine, now, 0).map_or(0, |counted| counted.all())
    }
}

impl<K: ?Sized, C> fmt::Debug for ConcurrencyLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrencyLimiter")
            .field("limit", &self.counting.limit())
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}
