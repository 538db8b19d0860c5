//! Guards: a request is in flight while its guard exists.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use crate::algo::Receipt;
use crate::cell::ChargeReceipt;
use crate::charge::refund::RefundableCharge;
use crate::concurrency::error::ConcurrencyDenied;
use crate::concurrency::guard::sealed::Enter as _;
use crate::limiter::ask::{Ask, sealed::Askable};
use crate::table::Probe;
use crate::time::Tick;

/// A limit of requests in flight: a [`ConcurrencyLimiter`](super::ConcurrencyLimiter), a
/// [`DirectConcurrency`](super::DirectConcurrency), or a [`Composite`](crate::composite::Composite) that
/// contains some.
///
/// It is sealed: a method may be added.
pub trait Concurrent: sealed::Enter {}

impl<G: sealed::Enter> Concurrent for G {}

pub(crate) mod sealed {
    use super::{Askable, ConcurrencyDenied, Entry, Tick};

    pub trait Enter: Askable<Time = Option<Tick>> + Sized {
        /// The cells that leave when the guard is dropped.
        type Entry: Send + Sync + Unpin;
        type Denied;

        fn enter_cells(
            &self,
            key: &Self::Key,
            cells: u64,
            at: Option<Tick>,
        ) -> Result<Self::Entry, Self::Denied>;
        /// Refunds the cells of an entry.
        fn leave(&self, entry: &Self::Entry);
    }

    /// One count for each key.
    pub trait Count: Enter<Entry = Entry, Denied = ConcurrencyDenied> {
        fn would_enter(
            &self,
            key: &Self::Key,
            cells: u64,
            at: Option<Tick>,
        ) -> Result<(), ConcurrencyDenied>;
        /// Cells of the key in flight right after an entry.
        fn in_flight_after(&self, entry: &Entry) -> u64;
        fn cells_in_flight(&self, key: &Self::Key, at: Option<Tick>) -> u64;
    }
}

/// Cells that are in flight: four words, so that a guard stays in registers.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(super) cells: u64,
    /// The state that the entry has left.
    next: u64,
    generation: u64,
    /// The slot, if it is one.
    place: usize,
}

impl Entry {
    /// The place of cells that are in no slot of a table.
    const SHARED: usize = usize::MAX;

    /// Cells that no count holds.
    pub(super) fn uncounted(cells: u64) -> Self {
        Self { cells, next: 0, generation: ChargeReceipt::NO_LIFE, place: Self::SHARED }
    }

    /// Cells of a key's slot.
    #[inline(always)]
    pub(super) fn in_slot(paid: ChargeReceipt) -> Self {
        let ChargeReceipt { charge: Receipt { cells, next, .. }, generation, place } = paid;
        Self { cells, next, generation, place }
    }

    /// Cells of a count without keys, or of the one that keys without a slot share.
    #[inline(always)]
    pub(super) fn in_bucket(paid: ChargeReceipt) -> Self {
        Self { place: Self::SHARED, ..Self::in_slot(paid) }
    }

    #[inline(always)]
    pub(super) fn is_in_slot(&self) -> bool {
        self.place != Self::SHARED
    }

    #[inline(always)]
    pub(super) fn is_counted(&self) -> bool {
        self.generation != ChargeReceipt::NO_LIFE
    }

    #[inline(always)]
    pub(super) fn receipt(&self) -> ChargeReceipt {
        let &Self { cells, next, generation, place } = self;
        ChargeReceipt { charge: Receipt { cells, at: Tick::ZERO, next }, generation, place }
    }

    /// The charge, as a composite stores it.
    pub(super) fn charge(&self, probe: Probe) -> RefundableCharge {
        match (self.is_counted(), self.is_in_slot()) {
            (false, _) => RefundableCharge::Nothing,
            (true, true) => RefundableCharge::Slot(probe, self.receipt()),
            (true, false) => RefundableCharge::Bucket(self.receipt()),
        }
    }

    pub(super) fn of_charge(charge: &RefundableCharge) -> Self {
        match *charge {
            RefundableCharge::Slot(_, paid) => Self::in_slot(paid),
            RefundableCharge::Bucket(paid) => Self::in_bucket(paid),
            RefundableCharge::Nothing => Self::uncounted(0),
        }
    }
}

/// A request in flight. Dropping it refunds its cells.
///
/// Made by [`Ask::enter`] and its short forms. [`OwnedGuard`] holds its limiter in an `Arc`.
///
/// **Guarantee.** Its cells count until it is dropped, and no longer; with a
/// [longest hold](super::ConcurrencyBuilder::max_hold), for that long at least. Dropping it takes no
/// lock, reads no clock, allocates nothing, and never lowers the count of another key or of a later life
/// of the key.
///
/// **Not guaranteed.** That it is dropped: [`core::mem::forget`], a reference cycle, or a task that never
/// ends keeps its cells for ever unless there is a longest hold.
///
/// ```
/// use tollgate::concurrency::ConcurrencyLimiter;
///
/// let gate: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(2).build()?;
/// let first = gate.enter("a")?;
/// let second = gate.enter("a")?;
/// assert!(gate.enter("a").is_err());
/// drop(first);
/// assert!(gate.enter("a").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a guard that is dropped refunds its cells at once"]
pub struct Guard<'g, G: Concurrent>(GuardBy<&'g G>);

/// A [`Guard`] that holds its limiter in an `Arc`, so that it may move with a request from task to task.
///
/// Made by [`Ask::enter_owned`].
///
/// ```
/// use std::sync::Arc;
/// use tollgate::concurrency::{ConcurrencyLimiter, OwnedGuard};
///
/// struct Request { guard: OwnedGuard<ConcurrencyLimiter<str>> }
///
/// let gate: Arc<ConcurrencyLimiter<str>> = Arc::new(ConcurrencyLimiter::builder(1).build()?);
/// let request = Request { guard: gate.ask("a").enter_owned(&gate)? };
/// assert_eq!(gate.in_flight("a"), 1);
/// std::thread::spawn(move || drop(request)).join().expect("no panic");
/// assert_eq!(gate.in_flight("a"), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a guard that is dropped refunds its cells at once"]
pub struct OwnedGuard<G: Concurrent>(GuardBy<Arc<G>>);

impl<'g, G: Concurrent> Ask<'g, '_, G> {
    /// Counts the cells as in flight until the guard is dropped, if the limit admits all of them.
    ///
    /// # Errors
    ///
    /// The denial, with the cells that are in flight. Nothing is counted.
    ///
    /// ```
    /// # use tollgate::concurrency::DirectConcurrency;
    /// let gate = DirectConcurrency::new(10)?;
    /// let guard = gate.ask().cells(7).enter()?;
    /// assert!(gate.ask().cells(4).enter().is_err());
    /// assert!(gate.ask().cells(3).enter().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn enter(self) -> Result<Guard<'g, G>, G::Denied> {
        let entry = self.gate.enter_cells(self.key, self.cells, self.at)?;
        Ok(Guard(GuardBy { gate: self.gate, entry }))
    }

    /// The same with a guard that holds the limiter in an `Arc`: see [`OwnedGuard`].
    ///
    /// # Errors
    ///
    /// The denial, with the cells that are in flight. Nothing is counted.
    ///
    /// # Panics
    ///
    /// If `gate` is another limiter than the one that is asked.
    #[inline]
    pub fn enter_owned(self, gate: &Arc<G>) -> Result<OwnedGuard<G>, G::Denied> {
        assert!(core::ptr::eq(self.gate, &**gate), "the limiter that is asked");
        let entry = self.gate.enter_cells(self.key, self.cells, self.at)?;
        Ok(OwnedGuard(GuardBy { gate: Arc::clone(gate), entry }))
    }
}

impl<G: sealed::Count> Ask<'_, '_, G> {
    /// Answers as [`enter`](Self::enter) would, and counts nothing.
    ///
    /// # Errors
    ///
    /// The denial that `enter` would give.
    ///
    /// ```
    /// # use tollgate::concurrency::DirectConcurrency;
    /// let gate = DirectConcurrency::new(10)?;
    /// let guard = gate.ask().cells(7).enter()?;
    /// assert!(gate.ask().cells(3).peek().is_ok());
    /// assert_eq!(gate.ask().cells(4).peek().unwrap_err().in_flight(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(self) -> Result<(), ConcurrencyDenied> {
        self.gate.would_enter(self.key, self.cells, self.at)
    }

    /// The cells of the key that are in flight.
    ///
    /// ```
    /// # use tollgate::concurrency::DirectConcurrency;
    /// let gate = DirectConcurrency::new(10)?;
    /// let guard = gate.ask().cells(7).enter()?;
    /// assert_eq!(gate.ask().in_flight(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_flight(self) -> u64 {
        self.gate.cells_in_flight(self.key, self.at)
    }
}

impl<G: sealed::Count> Guard<'_, G> {
    /// The cells that it holds.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.entry().cells
    }

    /// The cells of the key that were in flight right after it entered, its own included.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.0.gate.in_flight_after(self.entry())
    }
}

impl<G: sealed::Count> OwnedGuard<G> {
    /// The cells that it holds.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.entry().cells
    }

    /// The cells of the key that were in flight right after it entered, its own included.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.0.gate.in_flight_after(self.entry())
    }
}

/// A guard that holds its limiter by reference or in an `Arc`.
struct GuardBy<H>
where
    H: Deref<Target: Concurrent>,
{
    gate: H,
    entry: <H::Target as sealed::Enter>::Entry,
}

impl<H: Deref<Target: Concurrent>> Drop for GuardBy<H> {
    #[inline(always)]
    fn drop(&mut self) {
        self.gate.leave(&self.entry);
    }
}

impl<G: Concurrent> Guard<'_, G> {
    pub(crate) fn entry(&self) -> &G::Entry {
        &self.0.entry
    }
}

impl<G: Concurrent> OwnedGuard<G> {
    pub(crate) fn entry(&self) -> &G::Entry {
        &self.0.entry
    }
}

impl<G: Concurrent> fmt::Debug for Guard<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl<G: Concurrent> fmt::Debug for OwnedGuard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedGuard").finish_non_exhaustive()
    }
}
