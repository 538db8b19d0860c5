//! The limiters that a queue can serve, held by value, by reference or in an [`Arc`].

use core::cell::Cell;
use core::hash::Hash;
use core::time::Duration;
use std::sync::Arc;

use crate::algo::gcra::{Gcra, GcraParams};
use crate::algo::{Receipt, Refund, StateMachine};
use crate::cell::{ChargeReceipt, InFull, Request};
use crate::charge::refund::clock_of;
use crate::decision::{Decision, Denied};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// A limiter that a [`WaitQueue`](crate::wait::WaitQueue) can serve. The trait is sealed: it is
/// implemented for [`Limiter`] and [`Direct`] with any algorithm, for references to them, and for them in
/// an [`Arc`]. The key of a `Direct` is `()`.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::{WaitQueue, Waitable};
/// use tollgate::{Direct, Quota};
/// fn is_empty<S: Waitable>(queue: &WaitQueue<S>) -> bool {
///     queue.waiting() == 0
/// }
/// let limiter = Direct::new(Quota::per_second(9))?;
/// assert!(is_empty(&WaitQueue::new(&limiter)));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Waitable: sealed::Sealed {}

impl<S: sealed::Sealed> Waitable for S {}

/// Turns are rounded up to whole nanoseconds: in the delay, and in the turns before and after it.
const TURNS_ROUNDED: Duration = Duration::from_nanos(2);

/// Finds the state that a key's cells are charged to.
#[derive(Clone, Copy, Debug)]
pub struct KeyProbe(Probe);

impl KeyProbe {
    /// Identifies the key's queue. Two keys with the same hash share a bucket, and so a queue.
    pub(super) fn hash(self) -> u64 {
        self.0.hash()
    }

    pub(super) fn of(probe: Probe) -> Self {
        Self(probe)
    }

    pub(super) fn probe(self) -> Probe {
        self.0
    }
}

/// The key of a request, and the quota of its plan.
#[derive(Clone, Copy, Debug)]
pub struct Target<'p> {
    pub(super) probe: KeyProbe,
    /// `None`: the limiter's own quota.
    pub(super) plan: Option<&'p GcraParams>,
}

/// A charge ahead of its turn.
#[derive(Clone, Copy, Debug)]
pub struct PaidAhead {
    /// It counts as charged at its turn, or from `booked_at`: see [`GcraParams::charged_at`].
    pub(super) receipt: ChargeReceipt,
    pub(super) booked_at: Tick,
}

impl PaidAhead {
    /// When it counts as charged, if its key has this state.
    fn charged_at(&self, algo: &GcraParams, word: u64, now: Tick) -> Tick {
        algo.charged_at(word, &self.receipt.charge, self.booked_at, now)
    }
}

pub(super) mod sealed {
    use super::{
        ChargeReceipt, Decision, Denied, Duration, GcraParams, KeyProbe, PaidAhead, Target, Tick,
    };

    /// Access to the limiter itself, through references and `Arc`s.
    pub trait Sealed {
        /// The key of the limiter.
        type Key: ?Sized;
        type Ops: LimiterOps<Key = Self::Key>;

        fn ops(&self) -> &Self::Ops;
    }

    /// The operations that a wait queue needs of a limiter.
    pub trait LimiterOps {
        type Key: ?Sized;

        fn probe(&self, key: &Self::Key) -> KeyProbe;
        fn now(&self) -> Tick;
        /// The most cells that a key may ever have at once, if `n` are more.
        fn never_fits(&self, target: Target<'_>, n: u64, now: Tick) -> Option<u64>;
        /// How long before its turn a request can be charged.
        fn ahead_max(&self, target: Target<'_>) -> Duration;
        /// Charges cells whose turn comes within `wait`, and returns how long until then.
        /// `Err(None)`: the key finds no slot.
        fn book(
            &self,
            target: Target<'_>,
            n: u64,
            now: Tick,
            wait: Duration,
        ) -> Result<(ChargeReceipt, Duration), Option<Denied>>;
        /// Whether each denial is counted, so that a waiter that asks before its turn moves its turn back.
        fn counts_denials(&self) -> bool;
        /// Refunds a booking, less what time has restored since its turn, or since it was booked if others were
        /// refunded meanwhile. Returns by how many units the key owes less. It reads the clock after it has loaded the
        /// state: see [`refund`](crate::charge::refund).
        fn refund_booking(&self, target: Target<'_>, paid: &PaidAhead) -> u64;
        /// Notes that `units` of a booking before this one were refunded.
        fn lessen(&self, target: Target<'_>, paid: &mut PaidAhead, units: u64);
        /// Moves the last booking of a key up, after one before it was refunded. It keeps its turn if the key does not
        /// owe what this booking left: others were refunded, or the key has lost the state that was charged.
        fn move_up(&self, target: Target<'_>, paid: &mut PaidAhead, now: Tick);
        /// Decides without waiting.
        fn ask(&self, target: Target<'_>, n: u64, now: Tick) -> Decision;
        /// How long, or less, until the turn of the last of these requests, which come one after the
        /// other. Each has the quota of its plan, and its cells; the last one's is `target`.
        fn turn_behind<'p>(
            &self,
            target: Target<'p>,
            requests: impl Iterator<Item = (Option<&'p GcraParams>, u64)>,
            now: Tick,
        ) -> Duration;
        /// How long until the turn of a first waiter whose `n` cells were denied; `None` if it can never be
        /// admitted.
        fn turn_after(
            &self,
            denied: &Denied,
            target: Target<'_>,
            n: u64,
            now: Tick,
        ) -> Option<Duration>;

        /// Makes a booking count as charged at `now`, which is after its turn, as far as that makes
        /// the state worse. Returns by how much the turns behind it may move back for it: zero if
        /// the state is no worse.
        ///
        /// A later refund of the booking counts from then on, moved by as much as this makes the state worse: see
        /// `refund` of the token bucket.
        fn defer(&self, target: Target<'_>, paid: &mut PaidAhead, now: Tick) -> Duration;
    }
}

/// A limiter with a token bucket, which can be charged ahead of time, and whose keys may have plans.
pub trait Bookable {
    type Key: ?Sized;

    fn probe(&self, key: &Self::Key) -> KeyProbe;
    fn now(&self) -> Tick;
    /// The limiter's own quota.
    fn algo(&self) -> &GcraParams;
    /// The key's state by this quota; a fresh one if the key has none.
    fn state(&self, algo: &GcraParams, probe: KeyProbe, now: Tick) -> u64;
    fn book(
        &self,
        algo: &GcraParams,
        probe: KeyProbe,
        request: Request,
        wait: Duration,
    ) -> Result<(ChargeReceipt, Duration), Option<Denied>>;
    /// Replaces the state that was charged, if it still belongs to the same life of the slot; `false` if not.
    fn revise(&self, probe: KeyProbe, paid: &ChargeReceipt, next: &dyn Fn(u64) -> u64) -> bool;
    fn ask(&self, algo: &GcraParams, probe: KeyProbe, request: Request) -> Decision;

    /// The quota of a request: that of its plan, or the limiter's own.
    fn quota_of<'a>(&'a self, plan: Option<&'a GcraParams>) -> &'a GcraParams {
        plan.unwrap_or(self.algo())
    }
}

impl<B: Bookable> sealed::LimiterOps for B {
    type Key = B::Key;

    fn probe(&self, key: &B::Key) -> KeyProbe {
        Bookable::probe(self, key)
    }

    fn now(&self) -> Tick {
        Bookable::now(self)
    }

    fn never_fits(&self, target: Target<'_>, n: u64, _: Tick) -> Option<u64> {
        let burst = self.quota_of(target.plan).burst();
        (n > burst).then_some(burst)
    }

    fn ahead_max(&self, target: Target<'_>) -> Duration {
        self.quota_of(target.plan).ahead_max()
    }

    fn book(
        &self,
        target: Target<'_>,
        n: u64,
        now: Tick,
        wait: Duration,
    ) -> Result<(ChargeReceipt, Duration), Option<Denied>> {
        let request = Request { now, cells: n };
        Bookable::book(self, self.quota_of(target.plan), target.probe, request, wait)
    }

    fn counts_denials(&self) -> bool {
        false
    }

    fn refund_booking(&self, target: Target<'_>, paid: &PaidAhead) -> u64 {
        let (algo, receipt) = (self.quota_of(target.plan), &paid.receipt);
        let now = clock_of(receipt, || Bookable::now(self));
        let units = Cell::new(0);
        let is_there = self.revise(target.probe, receipt, &|word| {
            let now = now();
            let charge = Receipt { at: paid.charged_at(algo, word, now), ..receipt.charge };
            let next = algo.refund(word, &charge, now, charge.cells);
            units.set(algo.lowered(word, next, now));
            next
        });
        if is_there { units.get() } else { 0 }
    }

    fn lessen(&self, target: Target<'_>, paid: &mut PaidAhead, units: u64) {
        let charge = &mut paid.receipt.charge;
        *charge = self.quota_of(target.plan).lessened(*charge, units);
    }

    fn move_up(&self, target: Target<'_>, paid: &mut PaidAhead, now: Tick) {
        let (algo, charge) = (self.quota_of(target.plan), paid.receipt.charge);
        let turn = Cell::new(charge.at);
        self.revise(target.probe, &paid.receipt, &|word| {
            if algo.still_owes(word, &charge, now) {
                turn.set(algo.turn_of_last(word, now).min(charge.at));
            }
            word
        });
        paid.receipt.charge.at = turn.get();
    }

    fn ask(&self, target: Target<'_>, n: u64, now: Tick) -> Decision {
        let request = Request { now, cells: n };
        Bookable::ask(self, self.quota_of(target.plan), target.probe, request)
    }

    fn turn_behind<'p>(
        &self,
        target: Target<'p>,
        requests: impl Iterator<Item = (Option<&'p GcraParams>, u64)>,
        now: Tick,
    ) -> Duration {
        let algo = self.quota_of(target.plan);
        let requests = requests.map(|(plan, cells)| (plan.unwrap_or(self.algo()), cells));
        algo.turn_behind(self.state(algo, target.probe, now), now, requests)
    }

    fn turn_after(&self, _: &Denied, target: Target<'_>, n: u64, now: Tick) -> Option<Duration> {
        Some(self.turn_behind(target, core::iter::once((target.plan, n)), now))
    }

    fn defer(&self, target: Target<'_>, paid: &mut PaidAhead, now: Tick) -> Duration {
        let (algo, turn) = (self.quota_of(target.plan), paid.receipt.charge.at);
        let late = now.since(turn).saturating_add(TURNS_ROUNDED);
        let seen = Cell::new((Duration::ZERO, turn));
        let is_there = self.revise(target.probe, &paid.receipt, &|word| {
            let (next, worse) = algo.deferred(word, paid.receipt.cells(), now);
            seen.set((worse, paid.charged_at(algo, word, now)));
            next
        });
        if !is_there {
            // The key has lost the state that was charged: its present one is charged.
            let request = Request { now, cells: paid.receipt.cells() };
            let overdrawn = algo.overdrawn();
            if let Ok((receipt, _)) =
                Bookable::book(self, &overdrawn, target.probe, request, Duration::ZERO)
            {
                *paid = PaidAhead { receipt, booked_at: now };
            }
            return late;
        }
        let (worse, charged_at) = seen.get();
        paid.receipt.charge.at = charged_at.saturating_add(worse).min(now);
        if worse.is_zero() { Duration::ZERO } else { late }
    }
}

impl<K: Hash + ?Sized, C: Clock> Bookable for Limiter<K, Gcra, C> {
    type Key = K;

    fn probe(&self, key: &K) -> KeyProbe {
        KeyProbe(self.probe(key))
    }

    fn now(&self) -> Tick {
        self.clock().now()
    }

    fn algo(&self) -> &GcraParams {
        self.params()
    }

    fn state(&self, algo: &GcraParams, probe: KeyProbe, now: Tick) -> u64 {
        self.table().peek(probe.0, algo, now, 0).unwrap_or_else(|| algo.fresh(now))
    }

    fn book(
        &self,
        algo: &GcraParams,
        probe: KeyProbe,
        request: Request,
        wait: Duration,
    ) -> Result<(ChargeReceipt, Duration), Option<Denied>> {
        self.charge_within(algo, probe.0, request, wait)
    }

    fn revise(&self, probe: KeyProbe, paid: &ChargeReceipt, next: &dyn Fn(u64) -> u64) -> bool {
        self.table().revise_charged(Some(probe.0), paid, next)
    }

    fn ask(&self, algo: &GcraParams, probe: KeyProbe, request: Request) -> Decision {
        self.decide_probed(algo, probe.0, request.cells, request.now)
    }
}

impl<C: Clock> Bookable for Direct<Gcra, C> {
    type Key = ();

    fn probe(&self, (): &()) -> KeyProbe {
        KeyProbe(Probe::default())
    }

    fn now(&self) -> Tick {
        self.clock().now()
    }

    fn algo(&self) -> &GcraParams {
        self.params()
    }

    fn state(&self, algo: &GcraParams, _: KeyProbe, now: Tick) -> u64 {
        self.cell().read(algo, now, 0)
    }

    fn book(
        &self,
        algo: &GcraParams,
        _: KeyProbe,
        request: Request,
        wait: Duration,
    ) -> Result<(ChargeReceipt, Duration), Option<Denied>> {
        self.charge_within(algo, request.cells, request.now, wait).map_err(Some)
    }

    fn revise(&self, _: KeyProbe, paid: &ChargeReceipt, next: &dyn Fn(u64) -> u64) -> bool {
        self.cell().revise_charged(paid, next)
    }

    fn ask(&self, algo: &GcraParams, _: KeyProbe, request: Request) -> Decision {
        self.cell().answer::<_, InFull>(algo, request.now, request.cells)
    }
}

impl<K: Hash + ?Sized, C: Clock> sealed::Sealed for Limiter<K, Gcra, C> {
    type Key = K;
    type Ops = Self;

    fn ops(&self) -> &Self {
        self
    }
}

impl<C: Clock> sealed::Sealed for Direct<Gcra, C> {
    type Key = ();
    type Ops = Self;

    fn ops(&self) -> &Self {
        self
    }
}

impl<S: sealed::Sealed> sealed::Sealed for &S {
    type Key = S::Key;
    type Ops = S::Ops;

    fn ops(&self) -> &S::Ops {
        (**self).ops()
    }
}

impl<S: sealed::Sealed> sealed::Sealed for Arc<S> {
    type Key = S::Key;
    type Ops = S::Ops;

    fn ops(&self) -> &S::Ops {
        (**self).ops()
    }
}

#[cfg(test)]
mod tests;
