//! Builders of the concurrency limiters.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use crate::algo::in_flight::{Holds, InFlight};
use crate::concurrency::counting::Counting;
use crate::concurrency::direct::DirectConcurrency;
use crate::concurrency::error::ConcurrencyError;
use crate::concurrency::{ConcurrencyLimiter, WhenFull};
use crate::limiter::builder::{BuildError, CAPACITY_DEFAULT, ClockSource, SKEW_DEFAULT};
use crate::limiter::hash_seeds::Seeds;
use crate::limiter::slot_layout::check_skew;
use crate::table::{OneBucket, RingLayout, Source, Table, TakeOver, Tally};
use crate::time::Clock;
use crate::time::quanta_clock::QuantaClock;

/// The policy of a [`ConcurrencyLimiter`] for a key that finds no slot, because keys in use take all 16
/// slots that it could have.
///
/// A key in use never loses its slot. Every case is counted in [`Stats`](crate::stats::Stats).
///
/// ```
/// use tollgate::concurrency::{ConcurrencyLimiter, WhenNoSlot};
///
/// let gate: ConcurrencyLimiter<u64> =
///     ConcurrencyLimiter::builder(10).when_no_slot(WhenNoSlot::SharedOverflow(1_000)).build()?;
/// # Ok::<(), tollgate::concurrency::ConcurrencyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenNoSlot {
    /// The request is denied.
    #[default]
    Deny,
    /// The request may enter, and is not counted.
    Admit,
    /// All requests of keys that find no slot share one count with this limit.
    SharedOverflow(u64),
}

/// Builds a [`ConcurrencyLimiter`]. Made by [`ConcurrencyLimiter::builder`].
///
/// ```
/// use std::time::Duration;
/// use tollgate::concurrency::ConcurrencyLimiter;
///
/// let gate: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(20)
///     .capacity(1_000_000)
///     .max_hold(Duration::from_secs(600))
///     .build()?;
/// # Ok::<(), tollgate::concurrency::ConcurrencyError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct ConcurrencyBuilder<K: ?Sized, C = QuantaClock> {
    limit: u64,
    pub(super) max_hold: Option<Duration>,
    clock: ClockSource<C>,
    capacity: u64,
    when_no_slot: WhenNoSlot,
    skew: Duration,
    pub(super) seeds: Option<Seeds>,
    pub(super) count_decisions: bool,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> ConcurrencyBuilder<K> {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            max_hold: None,
            clock: ClockSource::Made(QuantaClock::new),
            capacity: CAPACITY_DEFAULT,
            when_no_slot: WhenNoSlot::default(),
            skew: SKEW_DEFAULT,
            seeds: None,
            count_decisions: false,
            key: PhantomData,
        }
    }
}

impl<K: ?Sized, C> ConcurrencyBuilder<K, C> {
    /// Takes a request for lost after `hold`, 1 s to a century; without it, a request counts until its
    /// guard is dropped.
    ///
    /// Its cells count for at least `hold`, and for less than twice as long. Choose a time that no request
    /// takes: one that takes longer is in flight and not counted. Entering then reads the clock, and the
    /// limit is 65,535 at most.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::concurrency::ConcurrencyLimiter;
    /// use tollgate::ManualClock;
    ///
    /// let clock = ManualClock::new();
    /// let gate: ConcurrencyLimiter<str, _> = ConcurrencyLimiter::builder(1)
    ///     .max_hold(Duration::from_secs(60))
    ///     .clock(clock.clone())
    ///     .build()?;
    /// std::mem::forget(gate.enter("a")?); // lost
    /// assert!(gate.enter("a").is_err());
    /// clock.advance(Duration::from_secs(120));
    /// assert!(gate.enter("a").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_hold(self, hold: Duration) -> Self {
        Self { max_hold: Some(hold), ..self }
    }

    /// Chooses the clock. The default is [`QuantaClock`].
    pub fn clock<D: Clock>(self, clock: D) -> ConcurrencyBuilder<K, D> {
        self.with_clock(ClockSource::Given(clock))
    }

    /// The same choices with another clock.
    fn with_clock<D>(&self, clock: ClockSource<D>) -> ConcurrencyBuilder<K, D> {
        ConcurrencyBuilder {
            clock,
            limit: self.limit,
            max_hold: self.max_hold,
            capacity: self.capacity,
            when_no_slot: self.when_no_slot,
            skew: self.skew,
            seeds: self.seeds,
            count_decisions: self.count_decisions,
            key: PhantomData,
        }
    }

    /// The number of keys with requests in flight for which the table is sized. The default is 100,000. More
    /// find a slot, until all 16 slots that a key could have are taken. It takes about 29 bytes a key.
    pub fn capacity(self, keys: u64) -> Self {
        Self { capacity: keys, ..self }
    }

    /// Chooses what happens when a key finds no slot. The default is [`WhenNoSlot::Deny`].
    pub fn when_no_slot(self, when_no_slot: WhenNoSlot) -> Self {
        Self { when_no_slot, ..self }
    }

    /// How far the clocks of two threads may differ, where there is a longest hold. The default is 1 ms. The
    /// largest is about half an hour, or 127 times the longest hold if that is less. Where the longest hold is 17 minutes or
    /// longer, half a year is possible.
    pub fn max_clock_skew(self, skew: Duration) -> Self {
        Self { skew, ..self }
    }

    /// Counts how many requests may enter and how many are denied, for [`Stats`](crate::stats::Stats). Off by
    /// default. It takes 8 KB.
    pub fn count_decisions(self) -> Self {
        Self { count_decisions: true, ..self }
    }

    /// Fixes the seed of the hash, so that runs can be repeated exactly: for tests only.
    pub fn hash_seed(self, seed: u64) -> Self {
        Self { seeds: Some(Seeds::of(seed)), ..self }
    }
}

impl<K: ?Sized, C: Clock> ConcurrencyBuilder<K, C> {
    /// Checks everything and takes the memory.
    ///
    /// # Errors
    ///
    /// A choice is out of range, or the system has no memory; the error says what to do.
    ///
    /// ```
    /// use tollgate::concurrency::ConcurrencyLimiter;
    /// assert!(ConcurrencyLimiter::<str>::builder(0).build().is_err());
    /// ```
    pub fn build(self) -> Result<ConcurrencyLimiter<K, C>, ConcurrencyError> {
        let choices = self.with_clock(ClockSource::Given(()));
        let (clock, seeds) = (self.clock.into_clock(), self.seeds.unwrap_or_else(Seeds::random));
        choices.build_in(clock, seeds, |_, _, _| Ok(Source::default()))
    }
}

impl<K: ?Sized, C> ConcurrencyBuilder<K, C> {
    /// Builds a limiter in the memory that `find` returns for a machine, a number of buckets, and the limit of a
    /// shared overflow.
    pub(super) fn build_in<D: Clock, E: From<ConcurrencyError>>(
        &self,
        clock: D,
        seeds: Seeds,
        find: impl FnOnce(&InFlight<'_>, u32, Option<u64>) -> Result<Source, E>,
    ) -> Result<ConcurrencyLimiter<K, D>, E> {
        let (holds, buckets, overflow) = self.checked()?;
        let machine = InFlight { holds: &holds, limit: self.limit };
        let source = find(&machine, buckets, overflow)?;
        let no_memory = |_| ConcurrencyError::from(BuildError::OutOfMemory);
        // A key in use never loses its slot.
        let take_over = TakeOver { skew: self.skew, may_evict: false };
        let table = Table::wide(buckets, RingLayout::of(&machine), take_over, &source);
        let table = table.map_err(no_memory)?;
        let when_full = match (self.when_no_slot, overflow) {
            (_, Some(limit)) => {
                let bucket = OneBucket::new(&machine, &source).map_err(no_memory)?;
                WhenFull::Share(Box::new((limit, bucket)))
            }
            (WhenNoSlot::Admit, None) => WhenFull::Admit,
            (WhenNoSlot::Deny | WhenNoSlot::SharedOverflow(_), None) => WhenFull::Deny,
        };
        let tally = self.count_decisions.then(|| Tally::within(&source)).transpose();
        let tally = tally.map_err(no_memory)?;
        let counting = Counting::new(holds, self.limit, clock, &source).map_err(no_memory)?;
        Ok(ConcurrencyLimiter::from_parts(table, counting, seeds.hasher(), when_full, tally))
    }

    /// The longest hold, the buckets of the table, and the limit that keys without a slot share, all of them in
    /// range.
    fn checked(&self) -> Result<(Holds, u32, Option<u64>), ConcurrencyError> {
        if self.capacity == 0 {
            return Err(BuildError::ZeroCapacity.into());
        }
        let holds = holds(self.max_hold)?;
        check_limit(self.limit, &holds)?;
        let machine = InFlight { holds: &holds, limit: self.limit };
        check_skew(&machine, self.skew)?;
        let overflow = match self.when_no_slot {
            WhenNoSlot::Deny | WhenNoSlot::Admit => None,
            WhenNoSlot::SharedOverflow(limit) => {
                let max = holds.limit_max();
                if !(1..=max).contains(&limit) {
                    return Err(ConcurrencyError::OverflowLimit { max });
                }
                Some(limit)
            }
        };
        let buckets = Table::buckets_for(self.capacity).ok_or(BuildError::CapacityTooLarge)?;
        Ok((holds, buckets, overflow))
    }
}

/// Builds a [`DirectConcurrency`]. Made by [`DirectConcurrency::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct DirectConcurrencyBuilder<C = QuantaClock> {
    limit: u64,
    pub(super) max_hold: Option<Duration>,
    clock: ClockSource<C>,
}

impl DirectConcurrencyBuilder {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, max_hold: None, clock: ClockSource::Made(QuantaClock::new) }
    }
}

impl<C> DirectConcurrencyBuilder<C> {
    /// Takes a request for lost after `hold`: see [`ConcurrencyBuilder::max_hold`].
    pub fn max_hold(self, hold: Duration) -> Self {
        Self { max_hold: Some(hold), ..self }
    }

    /// Chooses the clock. The default is [`QuantaClock`].
    pub fn clock<D: Clock>(self, clock: D) -> DirectConcurrencyBuilder<D> {
        let Self { limit, max_hold, .. } = self;
        DirectConcurrencyBuilder { limit, max_hold, clock: ClockSource::Given(clock) }
    }

    /// The same choices without a clock.
    fn choices(&self) -> DirectConcurrencyBuilder<()> {
        let &Self { limit, max_hold, .. } = self;
        DirectConcurrencyBuilder { limit, max_hold, clock: ClockSource::Given(()) }
    }
}

impl<C: Clock> DirectConcurrencyBuilder<C> {
    /// Checks the choices.
    ///
    /// # Errors
    ///
    /// A choice is out of range; the error says what to do.
    pub fn build(self) -> Result<DirectConcurrency<C>, ConcurrencyError> {
        self.choices().build_in(self.clock.into_clock(), |_| Ok(Source::default()))
    }
}

impl<C> DirectConcurrencyBuilder<C> {
    /// Builds a limiter in the memory that `find` has for a machine.
    pub(super) fn build_in<D: Clock, E: From<ConcurrencyError>>(
        &self,
        clock: D,
        find: impl FnOnce(&InFlight<'_>) -> Result<Source, E>,
    ) -> Result<DirectConcurrency<D>, E> {
        let holds = holds(self.max_hold)?;
        check_limit(self.limit, &holds)?;
        let machine = InFlight { holds: &holds, limit: self.limit };
        let source = find(&machine)?;
        let no_memory = |_| ConcurrencyError::from(BuildError::OutOfMemory);
        let bucket = OneBucket::new(&machine, &source).map_err(no_memory)?;
        let counting = Counting::new(holds, self.limit, clock, &source).map_err(no_memory)?;
        Ok(DirectConcurrency::from_parts(bucket, counting))
    }
}

fn holds(max_hold: Option<Duration>) -> Result<Holds, ConcurrencyError> {
    match max_hold {
        None => Ok(Holds::unbounded()),
        Some(hold) if (Holds::HOLD_MIN..=Holds::HOLD_MAX).contains(&hold) => {
            Ok(Holds::at_most(hold))
        }
        Some(_) => Err(ConcurrencyError::MaxHold),
    }
}

pub(super) fn check_limit(limit: u64, holds: &Holds) -> Result<(), ConcurrencyError> {
    let max = holds.limit_max();
    match limit {
        1.. if limit <= max => Ok(()),
        _ => Err(ConcurrencyError::Limit { max }),
    }
}

impl<K: ?Sized, C> fmt::Debug for ConcurrencyBuilder<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrencyBuilder")
            .field("limit", &self.limit)
            .field("max_hold", &self.max_hold)
            .field("capacity", &self.capacity)
            .field("when_no_slot", &self.when_no_slot)
            .finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for DirectConcurrencyBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectConcurrencyBuilder")
            .field("limit", &self.limit)
            .field("max_hold", &self.max_hold)
            .finish_non_exhaustive()
    }
}
