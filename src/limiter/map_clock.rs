//! Another type for a limiter's clock.

use core::marker::PhantomData;

use super::Limiter;
use crate::algo::Algorithm;
use crate::time::Clock;

impl<K: ?Sized, A: Algorithm, C> Limiter<K, A, C> {
    /// The same limiter with another clock, which `map` makes from the present one. So limiters with
    /// different clocks can have one type.
    ///
    /// **Not guaranteed.** The new clock must have the ticks and the origin of the old one. With others the
    /// limiter takes the debts of its keys for older or younger than they are.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::clock::QuantaClock;
    /// use tollgate::{Gcra, Limiter, Quota};
    ///
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(1)).build()?;
    /// assert!(gate.check("a").is_ok());
    /// let gate: Limiter<str, Gcra, Arc<QuantaClock>> = gate.map_clock(Arc::new);
    /// assert!(gate.check("a").is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn map_clock<D: Clock>(self, map: impl FnOnce(C) -> D) -> Limiter<K, A, D> {
        Limiter {
            clock: map(self.clock),
            begins_at_preferred: self.begins_at_preferred,
            is_plain: self.is_plain,
            table: self.table,
            params: self.params,
            hasher: self.hasher,
            when_full: self.when_full,
            tally: self.tally,
            leases: self.leases,
            seeds: self.seeds,
            key: PhantomData,
        }
    }
}
