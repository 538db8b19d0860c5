//! Charges beside the straight line: those that may be taken back, those ahead of their time, and
//! those of what has been spent already.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Ahead, Algorithm, Refund, StateMachine};
use crate::cell::Paid;
use crate::charge::refund::Taken;
use crate::decision::{Decision, Denied};
use crate::limiter::direct::Direct;
use crate::limiter::{Limiter, WhenFull, unseen};
use crate::table::{Event, Probe};
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm<Params: Refund>, C: Clock> Limiter<K, A, C> {
    /// Charges `n` cells of a lane: by an algorithm that stays the same. `Err(None)`: the key finds no
    /// place.
    pub(crate) fn charge(&self, probe: Probe, n: u64, now: Tick) -> Result<Paid, Option<Denied>> {
        self.charge_by(&self.params, probe, n, now)
    }

    /// Charges `n` cells by an algorithm that goes on as the limiter's does. `Err(None)`: the key finds
    /// no place.
    fn charge_by(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Result<Paid, Option<Denied>> {
        let evict = matches!(self.when_full, WhenFull::Evict);
        match self.table.charge(probe, algo, now, n, evict) {
            Ok(paid) => paid.map_err(Some),
            Err(_) => Err(None),
        }
    }

    /// Charges `n` cells that have been spent already, as far as a state can hold them. Returns what
    /// was charged.
    pub(crate) fn charge_anyway(&self, probe: Probe, n: u64, now: Tick) -> Taken {
        let overdrawn = self.params.overdrawn();
        anyway(n, |n| match self.charge_by(&overdrawn, probe, n, now) {
            Err(None) => self.charge_shared(n, now),
            charged => charged.map(|paid| Taken::Slot(probe, paid)),
        })
    }

    /// Charges `n` cells that have been spent already to what keys without a place share; `Err(None)`:
    /// nothing.
    #[cold]
    fn charge_shared(&self, n: u64, now: Tick) -> Result<Taken, Option<Denied>> {
        let WhenFull::Share(shared) = &self.when_full else { return Err(None) };
        self.table.counters().count(Event::Overflowed);
        Ok(Taken::Bucket(shared.1.charge(&shared.0.overdrawn(), now, n)?))
    }

    /// How long until a charge could have been made in the usual way.
    fn turn_of(&self, taken: &Taken, now: Tick) -> Duration {
        match (taken, &self.when_full) {
            (Taken::Slot(_, paid), _) => turn_of(&self.params, paid, now),
            (Taken::Bucket(paid), WhenFull::Share(shared)) => turn_of(&shared.0, paid, now),
            _ => Duration::ZERO,
        }
    }
}

impl<K: Hash + ?Sized, A: Algorithm<Params: Ahead>, C: Clock> Limiter<K, A, C> {
    /// Charges `n` cells if they would be admitted within `wait`, in such a way that they may be
    /// given back (until their turn, whole), and tells how long that is. `Err(None)`: the key finds no
    /// place.
    pub(crate) fn charge_within(
        &self,
        probe: Probe,
        n: u64,
        now: Tick,
        wait: Duration,
    ) -> Result<(Paid, Duration), Option<Denied>> {
        let ahead = self.params.within(now, wait);
        match self.charge_by(&ahead, probe, n, now) {
            Ok(paid) => Ok(with_turn(&self.params, paid, now)),
            Err(None) => Err(None),
            // The denial tells of the limit as it is, and not of the one that was waited for.
            Err(Some(_)) => {
                let seen = self.table.peek(probe, &self.params, now, n);
                let seen = seen.unwrap_or_else(|| unseen(&self.params, n, now));
                Err(Some(self.params.denied(seen, now, n)))
            }
        }
    }
}

/// A charge that counts as made when its turn comes, and how long that is.
fn with_turn(algo: &impl Refund, mut paid: Paid, now: Tick) -> (Paid, Duration) {
    let wait = algo.turn(paid.receipt.next, now);
    paid.receipt.at = now.saturating_add(wait);
    (paid, wait)
}

/// Charges all of `n` cells, or as many as there is room for: at last none, which says what state
/// that is.
fn anyway(mut n: u64, charge: impl Fn(u64) -> Result<Taken, Option<Denied>>) -> Taken {
    if n == 0 {
        return Taken::Nothing;
    }
    loop {
        match charge(n) {
            Ok(taken) => return taken,
            Err(Some(denied)) if n > 0 => n = denied.remaining().min(n - 1),
            Err(_) => return Taken::Nothing,
        }
    }
}

impl<K: Hash + ?Sized, A: Algorithm<Params: Refund>, C: Clock> Limiter<K, A, C> {
    /// Charges `n` cells of `key`, now, that have been spent already: see
    /// [`charge_at`](Self::charge_at).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// gate.charge_n("a", 15); // 5 more than there were
    /// assert!(gate.check("a").is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn charge_n(&self, key: &K, n: u64) -> Duration {
        self.charge_at(key, n, self.clock().now())
    }

    /// Charges `n` cells of `key` at the instant `now` that have been spent already, whatever the
    /// limit: for a cost that is known only afterwards. Later requests wait until the debt is paid.
    /// Returns how long that takes: until no more is owed than the burst (or the window ends). That
    /// is zero if the cells were there, or `n` is 0.
    ///
    /// A debt is bounded by what a state can hold. With [`Gcra`](crate::Gcra) that is at least 16
    /// bursts, the burst itself included (for ordinary quotas in [wide slots](crate::limiter::SlotLayout) it is a
    /// century); only where a burst is larger than 2^46 units of its time
    /// [`Grid`](crate::algo::Grid) (2^27 in compact slots with a unit below a microsecond) it is
    /// less, down to the burst itself. With a fixed window, what is charged beyond the limit ends
    /// with the window, and the most that is counted is the next power of two above the limit and
    /// one, less one. What is beyond the bound is forgiven; the time that is returned is then that of
    /// the largest debt.
    ///
    /// **Not guaranteed.** A key that [finds no place](crate::OnFull) is not charged. (With
    /// [`OnFull::SharedOverflow`](crate::OnFull::SharedOverflow) what such keys share is.)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// assert_eq!(gate.charge_at("a", 15, Tick::ZERO), Duration::from_millis(500));
    /// let denied = gate.check_at("a", 1, Tick::ZERO).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(600)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn charge_at(&self, key: &K, n: u64, now: Tick) -> Duration {
        let taken = self.charge_anyway(self.probe(key), n, now);
        self.turn_of(&taken, now)
    }

    /// Takes all the cells that `key` has left, now, but at most `most`, and returns how many.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// assert!(gate.check_n("a", 3).is_ok());
    /// assert_eq!(gate.drain("a", 5), 5);
    /// assert_eq!(gate.drain("a", u64::MAX), 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn drain(&self, key: &K, most: u64) -> u64 {
        self.drain_at(key, most, self.clock().now())
    }

    /// As [`drain`](Self::drain), at the instant `now`.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// assert_eq!(gate.drain_at("a", u64::MAX, Tick::ZERO), 10);
    /// assert_eq!(gate.drain_at("a", u64::MAX, Tick::from_nanos(500_000_000)), 5);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn drain_at(&self, key: &K, most: u64, now: Tick) -> u64 {
        drain(most, |n| self.peek_at(key, n, now), |n| self.check_at(key, n, now))
    }

    /// Gives `key` up to `n` cells more, now, but no more than the burst: see
    /// [`add_at`](Self::add_at).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// assert_eq!(gate.drain("a", 10), 10);
    /// gate.add("a", 3);
    /// assert_eq!(gate.drain("a", 10), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn add(&self, key: &K, n: u64) {
        self.add_at(key, n, self.clock().now());
    }

    /// Gives `key` up to `n` cells more at the instant `now`, but no more than the burst: as a gift,
    /// beyond what the quota grants. What was [charged](Self::charge_at) beyond the burst is paid
    /// first. A key that has no state has all its cells already.
    ///
    /// **Not guaranteed.**
    ///
    /// - A key that [starts empty](crate::Gcra::start_empty) and was never asked about has no state
    ///   to add to, nor has one that finds no place: what they are given is lost.
    /// - Where a fixed window counts as much as it can, it is not known how much was forgiven:
    ///   nothing can be added until it ends.
    /// - What was reserved before, and is given back after, counts as if it had still been owed:
    ///   both together may come to as much as the two gifts, though never beyond the burst.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// gate.charge_at("a", 15, Tick::ZERO);
    /// gate.add_at("a", 6, Tick::ZERO);
    /// assert_eq!(gate.peek_at("a", 0, Tick::ZERO).unwrap().remaining(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn add_at(&self, key: &K, n: u64, now: Tick) {
        self.table.add(self.probe(key), &self.params, now, n);
    }
}

/// How long until a charge could have been made in the usual way.
fn turn_of(algo: &impl Refund, paid: &Paid, now: Tick) -> Duration {
    let nowhere = paid.generation == Paid::NO_LIFE;
    if nowhere { Duration::ZERO } else { algo.turn(paid.receipt.next, now) }
}

/// Takes what is left, at most `most`.
fn drain(most: u64, peek: impl Fn(u64) -> Decision, check: impl Fn(u64) -> Decision) -> u64 {
    let left = peek(0).map_or_else(|denied| denied.remaining(), |permit| permit.remaining());
    let mut n = most.min(left);
    while n > 0 {
        match check(n) {
            Ok(_) => break,
            // Others were faster.
            Err(denied) => n = denied.remaining().min(n - 1),
        }
    }
    n
}

impl<A: Algorithm<Params: Refund>, C> Direct<A, C> {
    /// Charges `n` cells of a lane: by an algorithm that stays the same.
    pub(crate) fn charge(&self, n: u64, now: Tick) -> Result<Paid, Denied> {
        self.cell.charge(&self.params, now, n)
    }

    /// Charges `n` cells that have been spent already, as far as a state can hold them. Returns what
    /// was charged.
    pub(crate) fn charge_anyway(&self, n: u64, now: Tick) -> Taken {
        let overdrawn = self.params.overdrawn();
        anyway(n, |n| Ok(Taken::Bucket(self.cell.charge(&overdrawn, now, n)?)))
    }
}

impl<A: Algorithm<Params: Ahead>, C> Direct<A, C> {
    /// Charges `n` cells if they would be admitted within `wait`, in such a way that they may be
    /// given back until then, and tells how long that is.
    pub(crate) fn charge_within(
        &self,
        n: u64,
        now: Tick,
        wait: Duration,
    ) -> Result<(Paid, Duration), Denied> {
        let algo = &self.params;
        match self.cell.charge(&algo.within(now, wait), now, n) {
            Ok(paid) => Ok(with_turn(algo, paid, now)),
            Err(denied) => Err(self.cell.peek(algo, now, n).err().unwrap_or(denied)),
        }
    }
}

impl<A: Algorithm<Params: Refund>, C: Clock> Direct<A, C> {
    /// Charges `n` cells, now, that have been spent already: see [`charge_at`](Self::charge_at).
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// gate.charge_n(15); // 5 more than there were
    /// assert!(gate.check().is_err());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn charge_n(&self, n: u64) -> Duration {
        self.charge_at(n, self.clock().now())
    }

    /// Charges `n` cells at the instant `now` that have been spent already, whatever the limit: see
    /// [`Limiter::charge_at`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// assert_eq!(gate.charge_at(15, Tick::ZERO), Duration::from_millis(500));
    /// assert_eq!(gate.charge_at(0, Tick::ZERO), Duration::ZERO);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn charge_at(&self, n: u64, now: Tick) -> Duration {
        match self.charge_anyway(n, now) {
            Taken::Bucket(paid) => turn_of(&self.params, &paid, now),
            Taken::Slot(..) | Taken::Nothing => Duration::ZERO,
        }
    }

    /// Takes all the cells that are left, now, but at most `most`, and returns how many.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// assert_eq!(gate.drain(7), 7);
    /// assert_eq!(gate.drain(7), 3);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn drain(&self, most: u64) -> u64 {
        self.drain_at(most, self.clock().now())
    }

    /// As [`drain`](Self::drain), at the instant `now`.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// assert_eq!(gate.drain_at(u64::MAX, Tick::ZERO), 10);
    /// assert_eq!(gate.drain_at(u64::MAX, Tick::ZERO), 0);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn drain_at(&self, most: u64, now: Tick) -> u64 {
        drain(most, |n| self.peek_at(n, now), |n| self.check_at(n, now))
    }

    /// Gives up to `n` cells more, now, but no more than the burst: see [`Limiter::add_at`].
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// assert_eq!(gate.drain(10), 10);
    /// gate.add(3);
    /// assert_eq!(gate.drain(10), 3);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn add(&self, n: u64) {
        self.add_at(n, self.clock().now());
    }

    /// Gives up to `n` cells more at the instant `now`, but no more than the burst: see
    /// [`Limiter::add_at`].
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// gate.charge_at(15, Tick::ZERO);
    /// gate.add_at(6, Tick::ZERO);
    /// assert_eq!(gate.peek_at(0, Tick::ZERO).unwrap().remaining(), 1);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn add_at(&self, n: u64, now: Tick) {
        self.cell.add(&self.params, now, n);
    }
}
