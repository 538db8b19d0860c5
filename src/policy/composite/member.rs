//! The limits of a composite: a limiter, and how its key is found in a request.

use core::borrow::Borrow;
use core::hash::Hash;
use core::marker::PhantomData;

use crate::algo::{Algorithm, StateMachine};
use crate::charge::refund::{IsRevocable, Taken};
use crate::decision::{Decision, Denied, Permit};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// The key of one limit, and the time by which it is asked: all that a decision needs of a request.
#[derive(Clone, Copy, Default)]
pub(super) struct Target {
    /// Of a limiter without keys: any.
    probe: Probe,
    now: Tick,
}

/// One limit of a [`Composite`](super::Composite), whatever its key, algorithm and clock.
pub(super) trait Member<R: ?Sized>: Send + Sync {
    /// Whether charges can be refunded.
    fn is_revocable(&self) -> bool;

    /// Finds the key in the request, and reads the limit's own clock if no time is given. Runs the
    /// caller's code, which may panic.
    fn target(&self, request: &R, now: Option<Tick>) -> Target;

    /// Returns the denial if `n` cells would be denied, and charges nothing. A denial is counted, and
    /// remembered, as that of a check is. `is_last`: the limit is going to be asked by `check`.
    fn foresee(&self, target: Target, n: u64, is_last: bool) -> Result<(), Denied>;

    /// Asks for `n` cells in the usual way.
    fn check(&self, target: Target, n: u64, given: Option<Tick>) -> Decision;

    /// Asks for `n` cells so that they can be refunded. The charges must be revocable.
    fn take(&self, target: Target, n: u64) -> Result<(Taken, Permit), Denied>;

    /// Refunds all of a charge that time has not restored by the time given, or by the present.
    fn refund(&self, taken: &Taken, given: Option<Tick>);

    /// Counts what was taken and not refunded, where the limiter counts.
    fn count_admitted(&self);

    fn peek(&self, target: Target, n: u64) -> Decision;
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

    #[inline]
    fn target(&self, request: &R, now: Option<Tick>) -> Target {
        let limiter = self.limiter.borrow();
        let probe = self.key.with(request, |key| limiter.begin(key));
        Target { probe, now: time(now, limiter.clock()) }
    }

    fn foresee(&self, target: Target, n: u64, is_last: bool) -> Result<(), Denied> {
        self.limiter.borrow().foresee(target.probe, n, target.now, is_last)
    }

    fn check(&self, Target { probe, now }: Target, n: u64, given: Option<Tick>) -> Decision {
        let limiter = self.limiter.borrow();
        match limiter.shares() {
            // The end of a lease is judged by a time that is not behind.
            Some(_) => limiter.decide_leasing(probe, n, || time(given, limiter.clock())),
            None => limiter.decide_begun(probe, n, now),
        }
    }

    fn take(&self, target: Target, n: u64) -> Result<(Taken, Permit), Denied> {
        let limiter = self.limiter.borrow();
        let taken = limiter.take(target.probe, n, target.now);
        if taken.is_err() {
            limiter.count(false);
        }
        taken
    }

    fn refund(&self, taken: &Taken, given: Option<Tick>) {
        let limiter = self.limiter.borrow();
        limiter.refund(taken, taken.cells(), || time(given, limiter.clock()));
    }

    fn count_admitted(&self) {
        self.limiter.borrow().count(true);
    }

    fn peek(&self, target: Target, n: u64) -> Decision {
        let limiter = self.limiter.borrow();
        limiter.peek_by(limiter.params(), target.probe, n, target.now)
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

    fn target(&self, _: &R, now: Option<Tick>) -> Target {
        Target { now: time(now, self.limiter.borrow().clock()), ..Target::default() }
    }

    fn foresee(&self, target: Target, n: u64, _: bool) -> Result<(), Denied> {
        self.limiter.borrow().foresee(n, target.now)
    }

    fn check(&self, target: Target, n: u64, _: Option<Tick>) -> Decision {
        self.limiter.borrow().decide_at(n, target.now)
    }

    fn take(&self, target: Target, n: u64) -> Result<(Taken, Permit), Denied> {
        self.limiter.borrow().take(n, target.now)
    }

    fn refund(&self, taken: &Taken, given: Option<Tick>) {
        let limiter = self.limiter.borrow();
        limiter.refund(taken, taken.cells(), || time(given, limiter.clock()));
    }

    fn count_admitted(&self) {}

    fn peek(&self, target: Target, n: u64) -> Decision {
        self.limiter.borrow().ask().cells(n).at(target.now).peek()
    }
}
