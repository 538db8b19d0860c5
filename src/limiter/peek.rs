//! Answers with nothing charged.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Algorithm, NoRing, StateMachine, WithinDelay};
use crate::cell::Request;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::table::Probe;
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// The answer to `n` cells with nothing charged, by a machine that works on the same states as the
    /// limiter's own.
    pub(crate) fn peek_by<M: StateMachine>(
        &self,
        algo: &M,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Decision {
        let algo = self.still(algo, now);
        let seen = self.table.peek(probe, &*algo, now, n);
        algo.answer(seen.unwrap_or_else(|| unseen(&*algo, n, now)), now, n)
    }

    /// The same, where a request accepts no longer delay than `max_delay`.
    pub(crate) fn peek_within(
        &self,
        algo: &A::Params,
        probe: Probe,
        request: Request,
        max_delay: Duration,
    ) -> Decision {
        let Request { now, cells: n } = request;
        let algo = self.still(algo, now);
        self.peek_by(&WithinDelay::new(&*algo, max_delay), probe, n, now)
    }
}

/// The view by which `n` cells of a key that was never seen are judged.
pub(crate) fn unseen<M: StateMachine>(algo: &M, n: u64, now: Tick) -> M::View {
    algo.read(algo.fresh(now), NoRing, now, n)
}
