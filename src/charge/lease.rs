//! Leases: cells taken ahead by one worker, and spent without touching shared memory.
//!
//! # Why it stays exact
//!
//! **Windows, sub-windows, counters.** Cells are counted in the window or sub-window in which they are
//! taken, and spent before it ends. A cell counts the same at every instant of its window.
//!
//! **Token buckets.** A lease takes `k` cells by one charge, and spends them within `L`, the time in which
//! the rate restores `k` cells. Cells spent in a span `w` were therefore charged in a span of at most
//! `w + L`, by any worker. All charges of the limiter, by leases or not, are held to a burst of
//! `b - k`, and `rate * L` is at most `k`. So at most `(b - k) + rate * (w + L) <= b + rate * w`
//! cells are spent in `w`, over any number of leases.
//!
//! # Guarded by
//!
//! `loom-tests/tests/leases.rs`, run by `ci/check.sh loom`, with models of a lease that never expires and of a
//! refund to the next owner of a slot.

use core::fmt;
use core::hash::Hash;
use core::ops::Deref;
use std::sync::Arc;

use crate::algo::Algorithm;
use crate::charge::ask_lease::AskLease;
use crate::charge::lender::{Lender, Lent, sealed::Lend};
use crate::charge::locate::Locate;
use crate::charge::refund::RefundableCharge;
use crate::decision::Denied;
use crate::limiter::Limiter;
use crate::limiter::ask::sealed::Askable;
use crate::limiter::direct::Direct;
use crate::sync::{Fault, planted};
use crate::time::{Clock, Tick};

/// Cells of one key that one worker (a thread, a connection, an event loop) has taken ahead. Most of the
/// worker's requests for the key then touch no shared memory.
///
/// It is for a key so hot that several threads contend for its word. The algorithm says how many cells a
/// lease takes at a time: [`Gcra::leases`](crate::Gcra::leases),
/// [`FixedWindow::leases`](crate::FixedWindow::leases), [`SubWindows::leases`](crate::SubWindows::leases)
/// or [`SlidingCounter::leases`](crate::SlidingCounter::leases). With other limiters a lease takes nothing
/// ahead, and each request is an ordinary one.
///
/// Leases need [wide slots](crate::limiter::SlotLayout), which a limiter with leases has
/// unless it is built with [`SlotLayout::Compact`](crate::limiter::SlotLayout::Compact); that fails.
///
/// A lease needs `&mut`: give every worker one of its own. [`OwnedLocalLease`] holds its limiter in an
/// `Arc`.
///
/// **Guarantee.** All leases and all other requests of a key together are granted no more than they would
/// be without leases. Cells of a token bucket are spent within the time in which they would have come back
/// anyway, and all requests are held to a burst that is lower by what a lease takes. Cells of a window or a
/// sub-window are counted when they are taken, and spent before it ends. Dropping a lease of a token
/// bucket or a fixed window refunds what it has not spent, as far as time has not restored it, and never
/// more.
///
/// **Not guaranteed.**
///
/// - Others cannot have the cells that a lease holds, up to `k` for each lease, until the lease spends them, is
///   dropped, or asks again after it has ended. A lease that has long been idle withholds nothing, since time
///   has restored its cells. Of sub-windows and counters nothing is refunded: what a lease has not spent when it
///   is dropped or [refunded](LocalLease::refund_at), or by the end of the sub-window, is lost.
/// - A key of sub-windows or a counter has a slot only after its first request, with which a lease takes
///   nothing ahead.
/// - A request that a lease denies might have been admitted with the cells that others hold.
/// - If the clocks of two threads differ by `s`, a lease that moves from one to the other may spend
///   or refund `rate * s` cells too many, once for each such move.
/// - A [reset](Limiter::reset) does not reach the cells that a lease holds: it may still spend them. They are not
///   refunded.
/// - A fork copies the lease and its cells. If a limiter in shared memory lent them, both processes may spend them:
///   take leases after the fork.
/// - A slot that was forgotten to make room for another key
///   ([`EvictNearestIdle`](crate::OnFull::EvictNearestIdle)) forgets what leases hold, like all else.
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
pub struct LocalLease<'g, G: Lender>(Lease<&'g G>);

/// A [`LocalLease`] that holds its limiter in an `Arc`.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{Gcra, Limiter, Quota};
///
/// let quota = Quota::per_second(1_000);
/// let gate: Limiter<str> = Limiter::builder(quota).algorithm(Gcra::new().leases(16)).build()?;
/// let gate = Arc::new(gate);
/// let workers: Vec<_> = (0..2)
///     .map(|_| gate.lease_owned("popular"))
///     .map(|mut lease| std::thread::spawn(move || lease.check().is_ok()))
///     .collect();
/// for worker in workers {
///     assert!(worker.join().expect("no panic"));
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct OwnedLocalLease<G: Lender>(Lease<Arc<G>>);

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// A lease for `key`, with nothing in it yet. See [`LocalLease`].
    ///
    /// ```
    /// # use tollgate::{Gcra, Limiter, Quota};
    /// let quota = Quota::per_hour(10);
    /// let gate: Limiter<str> = Limiter::builder(quota).algorithm(Gcra::new().leases(4)).build()?;
    /// let mut lease = gate.lease("a");
    /// assert!(lease.check().is_ok());
    /// assert_eq!(lease.held(), 3);
    /// drop(lease); // refunds them
    /// assert_eq!(gate.peek("a").unwrap().remaining(), 4);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn lease(&self, key: &K) -> LocalLease<'_, Self> {
        LocalLease(Lease::new(self, key))
    }

    /// A lease for `key` that holds the limiter in an `Arc`. See [`OwnedLocalLease`].
    pub fn lease_owned(self: &Arc<Self>, key: &K) -> OwnedLocalLease<Self> {
        OwnedLocalLease(Lease::new(Arc::clone(self), key))
    }
}

impl<A: Algorithm, C: Clock> Direct<A, C> {
    /// A lease, with nothing in it yet. See [`LocalLease`].
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota};
    /// let gate = Direct::builder(Quota::per_hour(10)).algorithm(Gcra::new().leases(4)).build()?;
    /// let (mut lease, mut other) = (gate.lease(), gate.lease());
    /// assert!(lease.check().is_ok() && other.check().is_ok());
    /// assert_eq!((lease.held(), other.held()), (3, 1)); // 6 of 10 may be charged at a time
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn lease(&self) -> LocalLease<'_, Self> {
        LocalLease(Lease::new(self, &()))
    }

    /// A lease that holds the limiter in an `Arc`. See [`OwnedLocalLease`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tollgate::{Direct, Gcra, Quota};
    /// let gate = Direct::builder(Quota::per_second(90)).algorithm(Gcra::new().leases(9)).build()?;
    /// assert!(Arc::new(gate).lease_owned().check().is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn lease_owned(self: &Arc<Self>) -> OwnedLocalLease<Self> {
        OwnedLocalLease(Lease::new(Arc::clone(self), &()))
    }
}

impl<'g, G: Lender> LocalLease<'g, G> {
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
        self.ask().check()
    }

    /// Begins a request to the lease: one cell, now, unless the [`AskLease`] says otherwise.
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_hour(10)).algorithm(Gcra::new().leases(4)).build()?;
    /// let mut lease = gate.lease();
    /// assert!(lease.ask().cells(3).at(Tick::ZERO).check().is_ok());
    /// assert!(lease.ask().cells(3).at(Tick::ZERO).check().is_ok());
    /// assert!(lease.ask().at(Tick::ZERO).check().is_err()); // 10 less 4 may be charged at a time
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn ask(&mut self) -> AskLease<'_, &'g G> {
        AskLease::new(&mut self.0)
    }

    /// Cells taken and not spent. They may be too old to be spent.
    pub fn held(&self) -> u64 {
        self.0.cells
    }

    /// Refunds what is held, as far as time has not restored it by `now`. Dropping the lease does so
    /// too, by the limiter's clock.
    ///
    /// ```
    /// # use tollgate::{Direct, Gcra, Quota, Tick};
    /// let gate = Direct::builder(Quota::per_hour(10)).algorithm(Gcra::new().leases(4)).build()?;
    /// let mut lease = gate.lease();
    /// assert!(lease.ask().at(Tick::ZERO).check().is_ok());
    /// lease.refund_at(Tick::ZERO);
    /// assert_eq!(gate.ask().cells(0).at(Tick::ZERO).peek().unwrap().remaining(), 5);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn refund_at(&mut self, now: Tick) {
        self.0.refund(Some(now));
    }
}

impl<G: Lender> OwnedLocalLease<G> {
    /// Asks for one cell, now.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    #[inline]
    pub fn check(&mut self) -> Result<(), Denied> {
        self.ask().check()
    }

    /// Begins a request to the lease: see [`LocalLease::ask`].
    #[inline(always)]
    pub fn ask(&mut self) -> AskLease<'_, Arc<G>> {
        AskLease::new(&mut self.0)
    }

    /// Cells taken and not spent. They may be too old to be spent.
    pub fn held(&self) -> u64 {
        self.0.cells
    }

    /// Refunds what is held: see [`LocalLease::refund_at`].
    pub fn refund_at(&mut self, now: Tick) {
        self.0.refund(Some(now));
    }
}

/// A lease that holds its limiter by reference or in an `Arc`.
pub(super) struct Lease<H>
where
    H: Deref<Target: Lender>,
{
    gate: H,
    spot: <<H as Deref>::Target as Locate>::Spot,
    /// Cells taken and not spent.
    cells: u64,
    /// From here on they may not be spent.
    expires: Tick,
    /// The charge that took them, if it can be refunded.
    taken: Option<RefundableCharge>,
    /// Cells to take at a time.
    take: u64,
}

impl<H: Deref<Target: Lender>> Lease<H> {
    fn new(gate: H, key: &<H::Target as Askable>::Key) -> Self {
        let (spot, take) = (gate.spot(key), gate.lease_cells());
        Self { gate, spot, cells: 0, expires: Tick::ZERO, taken: None, take }
    }

    /// Asks for `n` cells, by the limiter's clock if no time is given.
    #[inline(always)]
    pub(super) fn check(&mut self, n: u64, at: Option<Tick>) -> Result<(), Denied> {
        let now = self.gate.or_now(at);
        if self.spend(n, now) { Ok(()) } else { self.take_more(n, now, at) }
    }

    /// Spends `n` of the cells held, if there are as many.
    #[inline(always)]
    fn spend(&mut self, n: u64, now: Tick) -> bool {
        let held = n <= self.cells && (now < self.expires || planted(Fault::LeaseNeverExpires));
        if held {
            self.cells -= n;
        }
        held
    }

    /// Refunds the cells held, by the limiter's clock if no time is given: see
    /// [`refund`](crate::charge::refund).
    fn refund(&mut self, at: Option<Tick>) {
        let cells = core::mem::take(&mut self.cells);
        if let Some(taken) = self.taken.take() {
            self.gate.refund_lent(&taken, cells, at);
        }
    }

    /// Asks for `n` cells where those held are too few, or too old. Cells that can be refunded are refunded first, and
    /// the request is charged in full. Otherwise the request spends those held, and is charged only what is missing.
    #[cold]
    #[inline(never)]
    fn take_more(&mut self, n: u64, now: Tick, at: Option<Tick>) -> Result<(), Denied> {
        if self.taken.is_some() || now >= self.expires {
            self.refund(at);
        }
        let missing = n - self.cells;
        let mut take = match self.cells {
            0 if n == 0 => 0,
            0 => self.take,
            _ => self.take.max(missing),
        };
        // A whole lease, or all the cells that are left if they are fewer. A request for just the missing cells would
        // leave a lease that holds nothing with nothing, so it is then an ordinary request.
        while take > missing || (take == missing && self.cells > 0) {
            match self.gate.lend(self.spot, take, now) {
                Ok(lent) => {
                    self.hold(lent, take - missing, now);
                    return Ok(());
                }
                Err(denied) => {
                    let left = denied.map_or(0, |denied| denied.remaining());
                    take = left.min(take - 1);
                }
            }
        }
        self.gate.check_spot(self.spot, n, now).map(|_| ())
    }

    fn hold(&mut self, lent: Lent, cells: u64, now: Tick) {
        self.taken = lent.taken;
        self.cells = cells;
        self.expires = now.saturating_add(lent.life);
    }
}

impl<H: Deref<Target: Lender>> Drop for Lease<H> {
    fn drop(&mut self) {
        self.refund(None);
    }
}

impl<G: Lender> fmt::Debug for LocalLease<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLease").field("held", &self.0.cells).finish_non_exhaustive()
    }
}

impl<G: Lender> fmt::Debug for OwnedLocalLease<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedLocalLease").field("held", &self.0.cells).finish_non_exhaustive()
    }
}
