//! Lanes: cells taken ahead by one worker, and spent without touching shared memory.
//!
//! # Why it stays exact
//!
//! A lane takes `k` cells by one charge, and spends them within `L`, the time in which the rate
//! restores `k` cells. What is spent in a span `w` was therefore charged in a span of at most
//! `w + L`, whoever spent it. All charges of the limiter, by lanes or not, are held to a burst of
//! `b - k`, and `rate * L` is at most `k`. So at most `(b - k) + rate * (w + L) <= b + rate * w`
//! cells are spent in `w`, over any number of lanes.

use core::hash::Hash;
use core::ops::Deref;
use core::time::Duration;

use crate::algo::gcra::{Gcra, GcraParams};
use crate::charge::refund::Taken;
use crate::charge::source::{BucketSource, KeySource, Source};
use crate::decision::Denied;
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::sync::{Fault, planted};
use crate::time::{Clock, Tick};

/// What one worker (a thread, a connection, an event loop) has taken ahead of one key's cells, so
/// that most of its requests for that key touch no shared memory.
///
/// It is for a key so hot that several threads contend for its word. The limiter must be built
/// with [`Gcra::leases`], which says how many cells a lane takes at a time. With other limiters a
/// lane takes nothing ahead, and each request is an ordinary one.
///
/// Lanes need [wide slots](crate::limiter::SlotLayout), which a limiter with [`Gcra::leases`] has unless it is built
/// with [`SlotLayout::Compact`](crate::limiter::SlotLayout::Compact); that fails.
///
/// A lane needs `&mut`: give every worker one of its own. It holds the limiter by reference or,
/// made by [`LocalLease::of_key`] or [`LocalLease::of_bucket`], in an `Arc`.
///
/// **Guarantee.** All lanes and all other requests of a key together are granted at most
/// `burst + rate * (span + u)` cells in any span of time, as they would be without lanes: cells
/// taken ahead are spent within the time in which they would have come back anyway, and all
/// requests are held to a burst that is lower by what a lane takes. Dropping a lane gives back what
/// it has not spent, as far as time has not restored it, and never more.
///
/// **Not guaranteed.**
///
/// - Cells that a lane holds are not there for others until it spends them, is dropped, or asks
///   again after their time is over: up to `k` for each lane. A lane that has long been idle holds
///   nothing that matters, since time has restored it.
/// - A request that a lane denies might have been admitted with the cells that others hold.
/// - If the clocks of two threads differ by `s`, a lane that moves from one to the other may spend
///   or give back `rate * s` cells too many, once for each such move.
/// - A slot that was forgotten to make room for another key
///   ([`EvictNearestIdle`](crate::OnFull::EvictNearestIdle)) forgets what lanes hold, like all else.
///
/// ```
/// use tollgate::{Gcra, Limiter, Quota};
///
/// let gate: Limiter<str> = Limiter::builder(Quota::per_second(100_000))
///     .algorithm(Gcra::new().leases(64)) // every request is held to a burst of 99,936
///     .build()?;
/// let mut lease = gate.lease("popular");
/// for _request in 0..1_000 {
///     assert!(lease.check().is_ok()); // one compare-and-swap in 64 requests
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Debug)]
pub struct LocalLease<S: Source<Params = GcraParams>> {
    source: S,
    /// Cells taken and not spent.
    cells: u64,
    /// From here on they may not be spent.
    expires: Tick,
    /// The charge that took them.
    taken: Option<Taken>,
    /// Cells to take at a time.
    take: u64,
    /// How long they may be spent.
    life: Duration,
}

impl<K: Hash + ?Sized, C: Clock> Limiter<K, Gcra, C> {
    /// A lane for `key`, with nothing in it yet. See [`LocalLease`].
    ///
    /// ```
    /// # use tollgate::{Clock, Gcra, Limiter, Quota};
    /// let quota = Quota::per_hour(10);
    /// let gate: Limiter<str> = Limiter::builder(quota).algorithm(Gcra::new().leases(4)).build()?;
    /// let mut lease = gate.lease("a");
    /// assert!(lease.check().is_ok());
    /// assert_eq!(lease.held(), 3);
    /// drop(lease); // gives them back
    /// let now = gate.clock().now();
    /// assert_eq!(gate.peek_at("a", 0, now).unwrap().remaining(), 5);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn lease(&self, key: &K) -> LocalLease<KeySource<&Self>> {
        LocalLease::of_key(self, key)
    }
}

impl<C: Clock> Direct<Gcra, C> {
    /// A lane, with nothing in it yet. See [`LocalLease`].
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota};
    /// let gate = Direct::builder(Quota::per_hour(10)).algorithm(Gcra::new().leases(4)).build()?;
    /// let (mut lease, mut other) = (gate.lease(), gate.lease());
    /// assert!(lease.check().is_ok() && other.check().is_ok());
    /// assert_eq!((lease.held(), other.held()), (3, 1)); // 6 of 10 may be charged at a time
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn lease(&self) -> LocalLease<BucketSource<&Self>> {
        LocalLease::of_bucket(self)
    }
}

impl<G, K, C> LocalLease<KeySource<G>>
where
    G: Deref<Target = Limiter<K, Gcra, C>>,
    K: Hash + ?Sized,
    C: Clock,
{
    /// A lane for `key` that holds its limiter as `gate` does, for example in an `Arc`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::lease::LocalLease;
    /// use tollgate::{Gcra, Limiter, Quota};
    ///
    /// let quota = Quota::per_second(1_000);
    /// let gate: Limiter<str> = Limiter::builder(quota).algorithm(Gcra::new().leases(16)).build()?;
    /// let gate = Arc::new(gate);
    /// let workers: Vec<_> = (0..2)
    ///     .map(|_| LocalLease::of_key(Arc::clone(&gate), "popular"))
    ///     .map(|mut lease| std::thread::spawn(move || lease.check().is_ok()))
    ///     .collect();
    /// for worker in workers {
    ///     assert!(worker.join().expect("no panic"));
    /// }
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn of_key(gate: G, key: &K) -> Self {
        Self::new(KeySource::new(gate, key))
    }
}

impl<G, C> LocalLease<BucketSource<G>>
where
    G: Deref<Target = Direct<Gcra, C>>,
    C: Clock,
{
    /// A lane that holds its limiter as `gate` does, for example in an `Arc`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::lease::LocalLease;
    /// use tollgate::{Direct, Gcra, Quota};
    /// let gate = Direct::builder(Quota::per_second(90)).algorithm(Gcra::new().leases(9)).build()?;
    /// assert!(LocalLease::of_bucket(Arc::new(gate)).check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn of_bucket(gate: G) -> Self {
        Self::new(BucketSource::new(gate))
    }
}

impl<S: Source<Params = GcraParams>> LocalLease<S> {
    fn new(source: S) -> Self {
        let take = source.params().lease_cells();
        let life = source.params().restored_after(take);
        Self { source, cells: 0, expires: Tick::ZERO, taken: None, take, life }
    }

    /// Asks for one cell, now.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota};
    /// let gate = Direct::builder(Quota::per_hour(2)).algorithm(Gcra::new().leases(1)).build()?;
    /// let mut lease = gate.lease();
    /// assert!(lease.check().is_ok());
    /// assert_eq!(lease.check().unwrap_err().retry_after().unwrap().as_secs() / 60, 29);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn check(&mut self) -> Result<(), Denied> {
        let now = self.source.now();
        if self.spend(1, now) { Ok(()) } else { self.take_more(1, now, None) }
    }

    /// Asks for `n` cells at once, all of them or none, at the instant `now`, which the caller
    /// reads from its own clock.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_hour(10)).algorithm(Gcra::new().leases(4)).build()?;
    /// let mut lease = gate.lease();
    /// assert!(lease.check_at(3, Tick::ZERO).is_ok());
    /// assert!(lease.check_at(3, Tick::ZERO).is_ok());
    /// assert!(lease.check_at(1, Tick::ZERO).is_err()); // 10 less 4 may be charged at a time
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn check_at(&mut self, n: u64, now: Tick) -> Result<(), Denied> {
        if self.spend(n, now) { Ok(()) } else { self.take_more(n, now, Some(now)) }
    }

    /// Whether there were as many in hand.
    #[inline(always)]
    fn spend(&mut self, n: u64, now: Tick) -> bool {
        let held = n <= self.cells && (now < self.expires || planted(Fault::LeaseNeverExpires));
        if held {
            self.cells -= n;
        }
        held
    }

    /// Cells taken and not spent. They may be too old to be spent.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_second(9))?; // without leases
    /// let mut lease = gate.lease();
    /// assert!(lease.check().is_ok());
    /// assert_eq!(lease.held(), 0);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn held(&self) -> u64 {
        self.cells
    }

    /// Gives back what is held, as far as time has not restored it by `now`. Dropping the lane does
    /// so too, by the limiter's clock.
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_hour(10)).algorithm(Gcra::new().leases(4)).build()?;
    /// let mut lease = gate.lease();
    /// assert!(lease.check_at(1, Tick::ZERO).is_ok());
    /// lease.refund_at(Tick::ZERO);
    /// assert_eq!(gate.peek_at(0, Tick::ZERO).unwrap().remaining(), 5);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn refund_at(&mut self, now: Tick) {
        self.refund(Some(now));
    }

    /// By the clock, if no time is given: see [`revoke`](crate::charge::refund).
    fn refund(&mut self, at: Option<Tick>) {
        let cells = core::mem::take(&mut self.cells);
        if let Some(taken) = self.taken.take() {
            self.source.refund(&taken, cells, at);
        }
    }

    /// The cells in hand are too few, or too old.
    #[cold]
    #[inline(never)]
    fn take_more(&mut self, n: u64, now: Tick, at: Option<Tick>) -> Result<(), Denied> {
        self.refund(at);
        let mut take = if n == 0 { 0 } else { self.take };
        // As many as a lane takes, or else all that are left; with fewer than asked for there is
        // nothing to hold.
        while take > n {
            match self.source.charge(take, now) {
                Ok(taken) => {
                    self.hold(taken, take - n, now);
                    return Ok(());
                }
                Err(denied) => {
                    let left = denied.map_or(0, |denied| denied.remaining());
                    take = left.min(take - 1);
                }
            }
        }
        self.source.check(n, now).map(|_| ())
    }

    fn hold(&mut self, taken: Taken, cells: u64, now: Tick) {
        self.taken = Some(taken);
        self.cells = cells;
        self.expires = now.saturating_add(self.life);
    }
}

impl<S: Source<Params = GcraParams>> Drop for LocalLease<S> {
    fn drop(&mut self) {
        self.refund(None);
    }
}
