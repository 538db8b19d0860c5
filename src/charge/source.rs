//! One key of a limiter, or a bucket without keys: what cells are taken from and given back to.

use core::hash::Hash;
use core::ops::Deref;

use crate::algo::{Algorithm, Refund};
use crate::charge::refund::Taken;
use crate::decision::{Decision, Denied};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// Where a [`LocalLease`](crate::lease::LocalLease) or a [`Reservation`](crate::reservation::Reservation) takes its cells from.
/// Sealed: there are [`KeySource`] and [`BucketSource`].
///
/// ```
/// use tollgate::internals::gcra::GcraParams;
/// use tollgate::internals::Source;
/// use tollgate::lease::LocalLease;
/// use tollgate::{Direct, Gcra, Quota};
/// fn spend<S: Source<Params = GcraParams>>(lease: &mut LocalLease<S>) -> bool {
///     lease.check().is_ok()
/// }
/// let gate = Direct::builder(Quota::per_second(9)).algorithm(Gcra::new().leases(3)).build()?;
/// assert!(spend(&mut gate.lease()));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Source: sealed::Source {}

pub(crate) mod sealed {
    use super::{Decision, Denied, Refund, Taken, Tick};

    /// What a [`LocalLease`](crate::lease::LocalLease) and a [`Reservation`](crate::reservation::Reservation) need.
    pub trait Source {
        /// The algorithm with its quota worked in.
        type Params: Refund;

        fn params(&self) -> Self::Params;
        fn now(&self) -> Tick;
        fn check(&self, n: u64, now: Tick) -> Decision;
        /// Of a lane. `Err(None)`: the key finds no place.
        fn charge(&self, n: u64, now: Tick) -> Result<Taken, Option<Denied>>;
        /// Of a reservation; without a place, by the limiter's policy.
        fn take(&self, n: u64, now: Tick) -> Result<Taken, Denied>;
        fn charge_anyway(&self, n: u64, now: Tick);
        /// By the clock, if no time is given: then it is read after the state that is replaced.
        fn refund(&self, taken: &Taken, n: u64, at: Option<Tick>);
    }
}

/// One key of a [`Limiter`], for a [`LocalLease`](crate::lease::LocalLease) or a [`Reservation`](crate::reservation::Reservation).
///
/// ```
/// use tollgate::internals::KeySource;
/// use tollgate::lease::LocalLease;
/// use tollgate::{Limiter, Quota};
/// let gate: Limiter<str> = Limiter::builder(Quota::per_second(9)).build()?;
/// let lease: LocalLease<KeySource<&Limiter<str>>> = gate.lease("a");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeySource<G> {
    gate: G,
    probe: Probe,
}

impl<G, K, A, C> KeySource<G>
where
    G: Deref<Target = Limiter<K, A, C>>,
    K: Hash + ?Sized,
    A: Algorithm,
    C: Clock,
{
    pub(crate) fn new(gate: G, key: &K) -> Self {
        let probe = gate.probe(key);
        Self { gate, probe }
    }
}

/// The bucket of a [`Direct`], for a [`LocalLease`](crate::lease::LocalLease) or a
/// [`Reservation`](crate::reservation::Reservation).
///
/// ```
/// use tollgate::internals::BucketSource;
/// use tollgate::lease::LocalLease;
/// use tollgate::{Direct, Quota};
/// let gate = Direct::new(Quota::per_second(9))?;
/// let lease: LocalLease<BucketSource<&Direct>> = gate.lease();
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BucketSource<G> {
    gate: G,
}

impl<G> BucketSource<G> {
    pub(crate) fn new(gate: G) -> Self {
        Self { gate }
    }
}

impl<G, K, A, C> Source for KeySource<G>
where
    G: Deref<Target = Limiter<K, A, C>>,
    K: Hash + ?Sized,
    A: Algorithm<Params: Refund>,
    C: Clock,
{
}

impl<G, K, A, C> sealed::Source for KeySource<G>
where
    G: Deref<Target = Limiter<K, A, C>>,
    K: Hash + ?Sized,
    A: Algorithm<Params: Refund>,
    C: Clock,
{
    type Params = A::Params;

    fn params(&self) -> A::Params {
        self.gate.params().clone()
    }

    #[inline]
    fn now(&self) -> Tick {
        self.gate.clock().now()
    }

    fn check(&self, n: u64, now: Tick) -> Decision {
        self.gate.decide_begun(self.probe, n, now)
    }

    fn charge(&self, n: u64, now: Tick) -> Result<Taken, Option<Denied>> {
        self.gate.charge(self.probe, n, now).map(|paid| Taken::Slot(self.probe, paid))
    }

    fn take(&self, n: u64, now: Tick) -> Result<Taken, Denied> {
        self.gate.take(self.probe, n, now).map(|(taken, _)| taken)
    }

    fn charge_anyway(&self, n: u64, now: Tick) {
        self.gate.charge_anyway(self.probe, n, now);
    }

    fn refund(&self, taken: &Taken, n: u64, at: Option<Tick>) {
        self.gate.refund(taken, n, || at.unwrap_or_else(|| self.now()));
    }
}

impl<G, A, C> Source for BucketSource<G>
where
    G: Deref<Target = Direct<A, C>>,
    A: Algorithm<Params: Refund>,
    C: Clock,
{
}

impl<G, A, C> sealed::Source for BucketSource<G>
where
    G: Deref<Target = Direct<A, C>>,
    A: Algorithm<Params: Refund>,
    C: Clock,
{
    type Params = A::Params;

    fn params(&self) -> A::Params {
        self.gate.params().clone()
    }

    #[inline]
    fn now(&self) -> Tick {
        self.gate.clock().now()
    }

    fn check(&self, n: u64, now: Tick) -> Decision {
        self.gate.check_at(n, now)
    }

    fn charge(&self, n: u64, now: Tick) -> Result<Taken, Option<Denied>> {
        self.gate.charge(n, now).map(Taken::Bucket).map_err(Some)
    }

    fn take(&self, n: u64, now: Tick) -> Result<Taken, Denied> {
        self.gate.take(n, now).map(|(taken, _)| taken)
    }

    fn charge_anyway(&self, n: u64, now: Tick) {
        self.gate.charge_anyway(n, now);
    }

    fn refund(&self, taken: &Taken, n: u64, at: Option<Tick>) {
        self.gate.refund(taken, n, || at.unwrap_or_else(|| self.now()));
    }
}
