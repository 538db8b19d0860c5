//! Decisions for callers that wait for their turn, but not for longer than a bound.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Algorithm, StateMachine, WithinDelay};
use crate::decision::Decision;
use crate::limiter::{Limiter, unseen};
use crate::time::{Clock, Tick};

impl<K: Hash + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Asks for `n` cells for `key`, now, and is admitted only if the [delay](crate::Permit::delay)
    /// is at most `max_delay`: see [`check_within_at`](Self::check_within_at).
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back. Nothing is charged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LeakyQueue, Limiter, Quota};
    ///
    /// let quota = Quota::per_hour(10).burst(5);
    /// let gate: Limiter<str, LeakyQueue> =
    ///     Limiter::builder(quota).algorithm(LeakyQueue::new()).build()?;
    /// assert!(gate.check_within("a", 1, Duration::ZERO).is_ok());
    /// // The next turn is in six minutes.
    /// let denied = gate.check_within("a", 1, Duration::from_secs(60)).unwrap_err();
    /// assert_eq!(denied.remaining(), 4);
    /// assert!(gate.check("a").unwrap().delay() > Duration::from_secs(300));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_within(&self, key: &K, n: u64, max_delay: Duration) -> Decision {
        if !A::Params::MAY_DELAY {
            return self.check_n(key, n);
        }
        self.decide_within(self.probe(key), n, self.clock().now(), max_delay)
    }

    /// Asks for `n` cells for `key` at the instant `now`, and is admitted only if the
    /// [delay](crate::Permit::delay) is at most `max_delay`. With a `max_delay` of zero, only a
    /// request that need not wait is admitted.
    ///
    /// For algorithms that never delay, this is [`check_at`](Self::check_at). Requests with and
    /// without a bound may be mixed.
    ///
    /// A denial whose [`remaining`](crate::Denied::remaining) is `n` or more means that the request
    /// fits, but that its turn comes too late. Its [`retry_after`](crate::Denied::retry_after) is the
    /// time until the same call would be admitted.
    ///
    /// **Not guaranteed.** Keys that [share an overflow limiter](crate::OnFull::SharedOverflow) are
    /// decided without the bound: look at the delay.
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back. Nothing is charged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LeakyQueue, Limiter, Quota, Tick};
    ///
    /// let quota = Quota::per_second(10).burst(5);
    /// let gate: Limiter<str, LeakyQueue> =
    ///     Limiter::builder(quota).algorithm(LeakyQueue::new()).build()?;
    /// let ask = |max_delay_ms| {
    ///     gate.check_within_at("a", 1, Duration::from_millis(max_delay_ms), Tick::ZERO)
    /// };
    /// assert_eq!(ask(100).unwrap().delay(), Duration::ZERO);
    /// assert_eq!(ask(100).unwrap().delay(), Duration::from_millis(100));
    /// // The third turn is in 200 ms.
    /// assert_eq!(ask(150).unwrap_err().retry_after(), Some(Duration::from_millis(50)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_within_at(&self, key: &K, n: u64, max_delay: Duration, now: Tick) -> Decision {
        if !A::Params::MAY_DELAY {
            return self.check_at(key, n, now);
        }
        self.decide_within(self.probe(key), n, now, max_delay)
    }

    /// What [`check_within_at`](Self::check_within_at) would answer, without charging anything or
    /// giving the key a place: see [`peek_at`](Self::peek_at).
    ///
    /// # Errors
    ///
    /// The denial that `check_within_at` would give.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LeakyQueue, Limiter, Quota, Tick};
    ///
    /// let quota = Quota::per_second(10).burst(5);
    /// let gate: Limiter<str, LeakyQueue> =
    ///     Limiter::builder(quota).algorithm(LeakyQueue::new()).build()?;
    /// assert!(gate.check_at("a", 1, Tick::ZERO).is_ok());
    /// assert!(gate.peek_within_at("a", 1, Duration::ZERO, Tick::ZERO).is_err());
    /// assert!(gate.peek_within_at("a", 1, Duration::from_millis(100), Tick::ZERO).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek_within_at(&self, key: &K, n: u64, max_delay: Duration, now: Tick) -> Decision {
        if !A::Params::MAY_DELAY {
            return self.peek_at(key, n, now);
        }
        let bound = WithinDelay::new(self.params().clone(), max_delay);
        let seen = self.table.peek(self.probe(key), &bound, now, n);
        bound.answer(seen.unwrap_or_else(|| unseen(&bound, n, now)), now, n)
    }
}
