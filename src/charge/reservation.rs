//! Reservations: cells charged by an estimate, and settled when the cost is known.

use core::hash::Hash;
use core::ops::Deref;

use crate::algo::{Algorithm, Refund};
use crate::charge::refund::Taken;
use crate::charge::source::{BucketSource, KeySource, Source};
use crate::decision::Denied;
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::time::{Clock, Tick};

/// Cells that were charged by an estimate, until the cost is known.
///
/// Made by [`Limiter::reserve`] and [`Direct::reserve`]. [`settle`](Self::settle) charges what it
/// cost beyond the estimate, or gives back what it did not cost; dropped, it gives back all.
///
/// **Guarantee.** With [`Gcra`](crate::Gcra): of `k` cells charged, time restores one after the
/// other from then on, at the rate, whatever else the key owes; what is given back is exactly what
/// is left of them, or all that is not spent, if that is less. The bucket then never is better than
/// if the cells that are given back had not been charged at all, whatever was charged or given back
/// in the meantime. With a [`FixedWindow`](crate::FixedWindow) all that is not spent is given back
/// while the window is open that it was charged in, and nothing afterwards. A key that was reset, or
/// has lost its place, is given nothing, even if it is back.
///
/// **Not guaranteed.**
///
/// - A key that was in debt already when the cells were charged pays that first, but the time counts
///   for both: up to as much less is given back as it owed then. So where a key is never out of debt,
///   a reservation held for longer than `estimate / rate` gives nothing back; a
///   [`FixedWindow`](crate::FixedWindow) gives it back while the window is open. (The state does not
///   tell what others were given back since.)
/// - An anchored window stays where a reservation has opened it, though all be given back, as long
///   as anything else is counted in it. One that counts as much as it can, by charges beyond the
///   limit, is given nothing back: see [`charge_at`](Limiter::charge_at).
/// - What is [added](Limiter::add_at), or [forgiven](Limiter::charge_at) of too large a debt, while
///   cells are reserved does not lessen what is given back.
/// - Other algorithms have no reservations: their states tell not enough of the past (the places of
///   a queue, and of a log, have been told to others).
/// - In [compact slots](crate::limiter::SlotLayout) one life of a key is not told from the next: if the key was
///   [reset](Limiter::reset), or forgotten to make room for another and is back, it is given what
///   its earlier life was charged. [`SlotLayout::Wide`](crate::limiter::SlotLayout::Wide) has it exact.
/// - Whoever settles by a time that is behind that of others by `s` (by the clock of another thread,
///   or read before a pause) may give back `rate * s` cells too many, but no more than were charged.
/// - Cells beyond the estimate are charged whatever the limit: see
///   [`charge_at`](Limiter::charge_at) for how far a debt goes.
/// - A key that [finds no place](crate::OnFull) is treated by the limiter's policy. If that admits
///   all, nothing is charged, and nothing given back; if such keys share a limiter, that is charged,
///   and given back to.
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// // 100,000 tokens a minute for each tenant of a language model.
/// let gate: Limiter<str> = Limiter::builder(Quota::per_minute(100_000)).build()?;
/// let reserved = gate.reserve("tenant", 4_000)?; // what the answer may cost at most
/// let tokens = 1_234; // what it did cost
/// reserved.settle(tokens);
/// assert_eq!(gate.peek_at("tenant", 0, tollgate::Clock::now(gate.clock()))?.remaining() / 1_000, 98);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a reservation that is dropped gives its cells back"]
#[derive(Debug)]
pub struct Reservation<S: Source> {
    source: S,
    /// `None`: settled.
    taken: Option<Taken>,
    cells: u64,
}

impl<K: Hash + ?Sized, A: Algorithm<Params: Refund>, C: Clock> Limiter<K, A, C> {
    /// Charges `estimate` cells of `key`, now, to be settled later: see [`Reservation`].
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// let reserved = gate.reserve("a", 10)?;
    /// assert!(gate.check("a").is_err());
    /// drop(reserved);
    /// assert!(gate.check("a").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, key: &K, estimate: u64) -> Result<Reservation<KeySource<&Self>>, Denied> {
        self.reserve_at(key, estimate, self.clock().now())
    }

    /// As [`reserve`](Self::reserve), at the instant `now`.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// let reserved = gate.reserve_at("a", 10, Tick::ZERO)?;
    /// // Time has restored five of the ten; the other five come back with this.
    /// let later = Tick::from_nanos(500_000_000);
    /// reserved.cancel_at(later);
    /// assert_eq!(gate.peek_at("a", 0, later)?.remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_at(
        &self,
        key: &K,
        estimate: u64,
        now: Tick,
    ) -> Result<Reservation<KeySource<&Self>>, Denied> {
        Reservation::new(KeySource::new(self, key), estimate, now)
    }
}

impl<A: Algorithm<Params: Refund>, C: Clock> Direct<A, C> {
    /// Charges `estimate` cells, now, to be settled later: see [`Reservation`].
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// gate.reserve(10)?.settle(3);
    /// assert_eq!(gate.drain(10), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, estimate: u64) -> Result<Reservation<BucketSource<&Self>>, Denied> {
        self.reserve_at(estimate, self.clock().now())
    }

    /// As [`reserve`](Self::reserve), at the instant `now`.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// let reserved = gate.reserve_at(10, Tick::ZERO)?;
    /// reserved.settle_at(15, Tick::ZERO); // 5 more than there were
    /// assert_eq!(gate.check_at(1, Tick::ZERO).unwrap_err().retry_after().unwrap().as_millis(), 600);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_at(
        &self,
        estimate: u64,
        now: Tick,
    ) -> Result<Reservation<BucketSource<&Self>>, Denied> {
        Reservation::new(BucketSource::new(self), estimate, now)
    }
}

impl<G, K, A, C> Reservation<KeySource<G>>
where
    G: Deref<Target = Limiter<K, A, C>>,
    K: Hash + ?Sized,
    A: Algorithm<Params: Refund>,
    C: Clock,
{
    /// A reservation that holds its limiter as `gate` does, for example in an `Arc`, so that it may
    /// go with a request from task to task.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::reservation::Reservation;
    /// use tollgate::{Limiter, Quota};
    ///
    /// let gate: Arc<Limiter<str>> = Arc::new(Limiter::builder(Quota::per_hour(10)).build()?);
    /// let reserved = Reservation::of_key(Arc::clone(&gate), "a", 10)?;
    /// std::thread::spawn(move || reserved.settle(4)).join().expect("no panic");
    /// assert_eq!(gate.drain("a", 10), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_key(gate: G, key: &K, estimate: u64) -> Result<Self, Denied> {
        let now = gate.clock().now();
        Self::new(KeySource::new(gate, key), estimate, now)
    }
}

impl<G, A, C> Reservation<BucketSource<G>>
where
    G: Deref<Target = Direct<A, C>>,
    A: Algorithm<Params: Refund>,
    C: Clock,
{
    /// A reservation that holds its limiter as `gate` does, for example in an `Arc`.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::reservation::Reservation;
    /// use tollgate::{Direct, Quota};
    /// let gate = Arc::new(Direct::new(Quota::per_hour(10))?);
    /// Reservation::of_bucket(Arc::clone(&gate), 10)?.settle(4);
    /// assert_eq!(gate.drain(10), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_bucket(gate: G, estimate: u64) -> Result<Self, Denied> {
        let now = gate.clock().now();
        Self::new(BucketSource::new(gate), estimate, now)
    }
}

impl<S: Source> Reservation<S> {
    fn new(source: S, cells: u64, now: Tick) -> Result<Self, Denied> {
        let taken = source.take(cells, now)?;
        Ok(Self { source, taken: Some(taken), cells })
    }

    /// Cells that were asked for.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// assert_eq!(gate.reserve(7)?.cells(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// Makes it `actual` cells that were charged: charges what is missing, whatever the limit, or
    /// gives back what is too much, as far as time has not restored it.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// gate.reserve(7)?.settle(7);
    /// assert_eq!(gate.drain(10), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(mut self, actual: u64) {
        self.settle_by(actual, None);
    }

    /// As [`settle`](Self::settle), at the instant `now`.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// gate.reserve_at(7, Tick::ZERO)?.settle_at(2, Tick::from_nanos(300_000_000));
    /// let now = Tick::from_nanos(300_000_000);
    /// // 3 of the 7 are restored by then; 4 of the 5 that were not spent are given back.
    /// assert_eq!(gate.peek_at(0, now)?.remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle_at(mut self, actual: u64, now: Tick) {
        self.settle_by(actual, Some(now));
    }

    /// Gives all back, as far as time has not restored it by `now`. Dropping does so too, by the
    /// limiter's clock.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// gate.reserve_at(7, Tick::ZERO)?.cancel_at(Tick::ZERO);
    /// assert_eq!(gate.peek_at(0, Tick::ZERO)?.remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_at(mut self, now: Tick) {
        self.settle_by(0, Some(now));
    }

    /// By the clock, if no time is given.
    fn settle_by(&mut self, actual: u64, at: Option<Tick>) {
        let Some(taken) = self.taken.take() else { return };
        if actual > self.cells {
            let now = at.unwrap_or_else(|| self.source.now());
            self.source.charge_anyway(actual - self.cells, now);
        } else {
            self.source.refund(&taken, self.cells - actual, at);
        }
    }
}

impl<S: Source> Drop for Reservation<S> {
    fn drop(&mut self) {
        self.settle_by(0, None);
    }
}
