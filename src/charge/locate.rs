//! The lookup of a key's state, and the time of a request.

use core::fmt::Debug;
use core::hash::Hash;

use crate::algo::Algorithm;
use crate::limiter::Limiter;
use crate::limiter::ask::sealed::Askable;
use crate::limiter::direct::Direct;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// A gate whose states reservations, debts and leases find again.
pub trait Locate: Askable<Time = Option<Tick>> + Sized {
    /// Where a key's state is found.
    type Spot: Copy + Debug + Send + Sync;

    fn spot(&self, key: &Self::Key) -> Self::Spot;

    /// The time given, or that of the limiter's clock.
    fn or_now(&self, at: Option<Tick>) -> Tick;
}

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Locate for Limiter<K, A, C> {
    type Spot = Probe;

    #[inline]
    fn spot(&self, key: &K) -> Probe {
        self.probe(key)
    }

    #[inline]
    fn or_now(&self, at: Option<Tick>) -> Tick {
        self.or_now(at)
    }
}

impl<A: Algorithm, C: Clock> Locate for Direct<A, C> {
    type Spot = ();

    #[inline]
    fn spot(&self, (): &()) {}

    #[inline]
    fn or_now(&self, at: Option<Tick>) -> Tick {
        self.or_now(at)
    }
}
