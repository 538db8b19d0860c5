//! The limits of a composite: a limiter, and how its key is found in a request.

use core::borrow::Borrow;
use core::hash::Hash;
use core::marker::PhantomData;

use crate::algo::{Algorithm, Machine};
use crate::decision::{Decision, Denied, Permit};
use crate::direct::Direct;
use crate::limiter::Limiter;
use crate::revoke::{IsRevocable, Taken};
use crate::time::{Clock, Tick};

/// One limit of a [`Composite`](super::Composite), whatever its key, algorithm and clock. Each call
/// is at the instant `now`, or at the present of the limit's own clock.
pub(super) trait Member<R: ?Sized>: Send + Sync {
    /// Whether charges can be given back.
    fn is_revocable(&self) -> bool;

    /// Asks for `n` cells in the usual way.
    fn check(&self, request: &R, n: u64, now: Option<Tick>) -> Decision;

    /// Asks for `n` cells in such a way that they can be given back. The charges must be revocable.
    fn take(&self, request: &R, n: u64, now: Option<Tick>) -> Result<(Taken, Permit), Denied>;

    /// Gives back all of a charge that time has not restored.
    fn give_back(&self, taken: &Taken, now: Option<Tick>);

    /// Counts what was taken and not given back, where the limiter counts.
    fn count_admitted(&self);

    fn peek(&self, request: &R, n: u64, now: Option<Tick>) -> Decision;
}

/// How a key is found in a request.
pub(super) trait Find<R: ?Sized, K: ?Sized>: Send + Sync {
    fn with<T>(&self, request: &R, use_it: impl FnOnce(&K) -> T) -> T;
}

/// The key is in the request.
pub(super) struct Borrowed<F>(pub(super) F);

impl<R: ?Sized, K: ?Sized, F> Find<R, K> for Borrowed<F>
where
    F: for<'r> Fn(&'r R) -> &'r K + Send + Sync,
{
    #[inline]
    fn with<T>(&self, request: &R, use_it: impl FnOnce(&K) -> T) -> T {
        use_it((self.0)(request))
    }
}

/// The key is made from the request.
pub(super) struct Made<F>(pub(super) F);

impl<R: ?Sized, K, F: Fn(&R) -> K + Send + Sync> Find<R, K> for Made<F> {
    #[inline]
    fn with<T>(&self, request: &R, use_it: impl FnOnce(&K) -> T) -> T {
        use_it(&(self.0)(request))
    }
}

/// The instant that is given, or else the present.
fn time(given: Option<Tick>, clock: &impl Clock) -> Tick {
    given.unwrap_or_else(|| clock.now())
}

/// The key, the algorithm and the clock of a limiter.
type Of<K, A, C> = PhantomData<fn(&K) -> (A, C)>;

/// A limiter with keys.
pub(super) struct Keyed<G, F, K: ?Sized, A, C> {
    limiter: G,
    key: F,
    of: Of<K, A, C>,
}

impl<G, F, K: ?Sized, A, C> Keyed<G, F, K, A, C> {
    pub(super) fn new(limiter: G, key: F) -> Self {
        Self { limiter, key, of: PhantomData }
    }
}

impl<R, G, F, K, A, C> Member<R> for Keyed<G, F, K, A, C>
where
    R: ?Sized,
    G: Borrow<Limiter<K, A, C>> + Send + Sync,
    F: Find<R, K>,
    K: Hash + ?Sized,
    A: Algorithm,
    C: Clock,
{
    fn is_revocable(&self) -> bool {
        self.limiter.borrow().params().meet_revocable(IsRevocable).is_some()
    }

    fn check(&self, request: &R, n: u64, now: Option<Tick>) -> Decision {
        let limiter = self.limiter.borrow();
        self.key.with(request, |key| match now {
            Some(now) => limiter.check_at(key, n, now),
            None => limiter.check_n(key, n),
        })
    }

    fn take(&self, request: &R, n: u64, now: Option<Tick>) -> Result<(Taken, Permit), Denied> {
        let limiter = self.limiter.borrow();
        self.key.with(request, |key| {
            let probe = limiter.begin(key);
            let taken = limiter.take(probe, n, time(now, limiter.clock()));
            if taken.is_err() {
                limiter.count(false);
            }
            taken
        })
    }

    fn give_back(&self, taken: &Taken, now: Option<Tick>) {
        let limiter = self.limiter.borrow();
        limiter.give_back(taken, taken.cells(), || time(now, limiter.clock()));
    }

    fn count_admitted(&self) {
        self.limiter.borrow().count(true);
    }

    fn peek(&self, request: &R, n: u64, now: Option<Tick>) -> Decision {
        let limiter = self.limiter.borrow();
        self.key.with(request, |key| limiter.peek_at(key, n, time(now, limiter.clock())))
    }
}

/// A limiter without keys.
pub(super) struct Bucket<G, A, C> {
    limiter: G,
    of: PhantomData<fn() -> (A, C)>,
}

impl<G, A, C> Bucket<G, A, C> {
    pub(super) fn new(limiter: G) -> Self {
        Self { limiter, of: PhantomData }
    }
}

impl<R, G, A, C> Member<R> for Bucket<G, A, C>
where
    R: ?Sized,
    G: Borrow<Direct<A, C>> + Send + Sync,
    A: Algorithm,
    C: Clock,
{
    fn is_revocable(&self) -> bool {
        self.limiter.borrow().params().meet_revocable(IsRevocable).is_some()
    }

    fn check(&self, _: &R, n: u64, now: Option<Tick>) -> Decision {
        let limiter = self.limiter.borrow();
        match now {
            Some(now) => limiter.check_at(n, now),
            None => limiter.check_n(n),
        }
    }

    fn take(&self, _: &R, n: u64, now: Option<Tick>) -> Result<(Taken, Permit), Denied> {
        let limiter = self.limiter.borrow();
        limiter.take(n, time(now, limiter.clock()))
    }

    fn give_back(&self, taken: &Taken, now: Option<Tick>) {
        let limiter = self.limiter.borrow();
        limiter.give_back(taken, taken.cells(), || time(now, limiter.clock()));
    }

    fn count_admitted(&self) {}

    fn peek(&self, _: &R, n: u64, now: Option<Tick>) -> Decision {
        let limiter = self.limiter.borrow();
        limiter.peek_at(n, time(now, limiter.clock()))
    }
}
