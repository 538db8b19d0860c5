//! The limiters of the rows: ours, with a full answer or with yes or no, and those under locks.

use tollgate::algorithm::Algorithm;
use tollgate::{Clock, Direct, Limiter, Tick};
use tollgate_benches::locked::{Keyed, Locked, One};
use tollgate_benches::pace::Stretched;

/// A limiter.
pub(crate) trait Gate: Sync {
    fn clock(&self) -> &Stretched;
    fn check(&self, key: u64) -> bool;
    fn check_at(&self, key: u64, n: u64, now: u64) -> bool;
}

/// One of our limiters, asked only for yes or no, as the limiters under locks are.
pub(crate) struct Brief<G>(pub(crate) G);

impl<A: Algorithm + Sync> Gate for Brief<Limiter<u64, A, Stretched>>
where
    Limiter<u64, A, Stretched>: Sync,
{
    fn clock(&self) -> &Stretched {
        self.0.clock()
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        self.0.allow(&key)
    }

    #[inline]
    fn check_at(&self, key: u64, n: u64, now: u64) -> bool {
        self.0.ask(&key).cells(n).at(Tick::from_nanos(now)).allow()
    }
}

impl<A: Algorithm + Sync> Gate for Brief<Direct<A, Stretched>>
where
    Direct<A, Stretched>: Sync,
{
    fn clock(&self) -> &Stretched {
        self.0.clock()
    }

    #[inline]
    fn check(&self, _: u64) -> bool {
        self.0.allow()
    }

    #[inline]
    fn check_at(&self, _: u64, n: u64, now: u64) -> bool {
        self.0.ask().cells(n).at(Tick::from_nanos(now)).allow()
    }
}

impl<A: Algorithm + Sync> Gate for Limiter<u64, A, Stretched>
where
    Self: Sync,
{
    fn clock(&self) -> &Stretched {
        self.clock()
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        self.check(&key).is_ok()
    }

    #[inline]
    fn check_at(&self, key: u64, n: u64, now: u64) -> bool {
        self.ask(&key).cells(n).at(Tick::from_nanos(now)).check().is_ok()
    }
}

impl<A: Algorithm + Sync> Gate for Direct<A, Stretched>
where
    Self: Sync,
{
    fn clock(&self) -> &Stretched {
        self.clock()
    }

    #[inline]
    fn check(&self, _: u64) -> bool {
        self.check().is_ok()
    }

    #[inline]
    fn check_at(&self, _: u64, n: u64, now: u64) -> bool {
        self.ask().cells(n).at(Tick::from_nanos(now)).check().is_ok()
    }
}

/// A limiter under one lock or several. It reads the same clock as ours.
pub(crate) struct BehindLock<G> {
    pub(crate) gate: G,
    pub(crate) clock: Stretched,
}

impl<L: Locked> Gate for BehindLock<One<L>> {
    fn clock(&self) -> &Stretched {
        &self.clock
    }

    #[inline]
    fn check(&self, _: u64) -> bool {
        self.gate.check(self.clock.now().as_nanos())
    }

    #[inline]
    fn check_at(&self, _: u64, n: u64, now: u64) -> bool {
        (0..n).all(|_| self.gate.check(now))
    }
}

impl<L: Locked> Gate for BehindLock<Keyed<L>> {
    fn clock(&self) -> &Stretched {
        &self.clock
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        self.gate.check(key, self.clock.now().as_nanos())
    }

    #[inline]
    fn check_at(&self, key: u64, n: u64, now: u64) -> bool {
        (0..n).all(|_| self.gate.check(key, now))
    }
}
