//! Decisions of one bit, for whoever asks no more.
//!
//! A [`Decision`](crate::Decision) tells how much is left, how long to wait and when all is as new.
//! Where the state is one word, that costs nothing until it is asked for. Where it has a ring, what
//! there is to tell must be read with the decision, and is most of its cost.

use core::hash::Hash;

use crate::algo::Algorithm;
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Asks for one cell for `key`, now, and is told yes or no: as [`check`](Self::check), which it
    /// charges and admits like, for less where the algorithm keeps a ring.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, SlidingLog};
    /// let log = SlidingLog::new();
    /// let gate: Limiter<str, _> =
    ///     Limiter::builder(Quota::per_hour(1)).algorithm(log).capacity(1_000).build()?;
    /// assert!(gate.allow("a"));
    /// assert!(!gate.allow("a"));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn allow(&self, key: &K) -> bool {
        self.allow_n(key, 1)
    }

    /// Asks for `n` cells for `key` at once, now, all of them or none: see [`allow`](Self::allow).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, SubWindows};
    /// let gate: Limiter<str, _> =
    ///     Limiter::builder(Quota::per_hour(10)).algorithm(SubWindows::new()).build()?;
    /// assert!(gate.allow_n("a", 7));
    /// assert!(!gate.allow_n("a", 7));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn allow_n(&self, key: &K, n: u64) -> bool {
        if self.clock().coarse().is_some() {
            return self.check_n(key, n).is_ok();
        }
        let (probe, lookup, now) = self.look_up_now(key);
        self.allow_seated(probe, lookup, n, now)
    }

    /// Asks for `n` cells for `key` at the instant `now`, as [`check_at`](Self::check_at) does: see
    /// [`allow`](Self::allow).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(1)).build()?;
    /// assert!(gate.allow_at("a", 1, Tick::from_nanos(0)));
    /// assert!(!gate.allow_at("a", 1, Tick::from_nanos(999_999_999)));
    /// assert!(gate.allow_at("a", 1, Tick::from_nanos(1_000_000_000)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn allow_at(&self, key: &K, n: u64, now: Tick) -> bool {
        let (probe, lookup) = self.look_up(key);
        self.allow_seated(probe, lookup, n, now)
    }
}

impl<A: Algorithm, C: Clock> Direct<A, C> {
    /// Asks for one cell, now, and is told yes or no: as [`check`](Self::check), which it charges
    /// and admits like, for less where the algorithm keeps a ring.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(1))?;
    /// assert!(gate.allow() && !gate.allow());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn allow(&self) -> bool {
        self.allow_n(1)
    }

    /// Asks for `n` cells at once, now, all of them or none: see [`allow`](Self::allow).
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// assert!(gate.allow_n(7) && !gate.allow_n(7));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn allow_n(&self, n: u64) -> bool {
        match self.clock().coarse() {
            Some(_) => self.check_n(n).is_ok(),
            None => self.allow_at(n, self.clock().now()),
        }
    }

    /// Asks for `n` cells at the instant `now`, as [`check_at`](Self::check_at) does: see
    /// [`allow`](Self::allow).
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(1))?;
    /// assert!(gate.allow_at(1, Tick::from_nanos(5)));
    /// assert!(!gate.allow_at(1, Tick::ZERO));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline(always)]
    pub fn allow_at(&self, n: u64, now: Tick) -> bool {
        self.decide_briefly(n, now)
    }
}
