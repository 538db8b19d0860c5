//! A limiter with a fallback, which decides while the server gives no decision.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use tollgate::decision::DecisionParts;
use tollgate::{AnyAlgorithm, BuildError, Decision, Limiter, Quota};

use crate::algorithm::Algorithm;
use crate::answer::{Answer, Origin};
use crate::redis_limiter::RedisLimiter;
use crate::remote::Remote;
use crate::stats::count;

/// The retry time of a denial by [`Fallback::Deny`]. Only the server knows the real one.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Decides while the server gives no decision.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store};
///
/// let store = Store::builder("redis://127.0.0.1:6379").build()?;
/// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(100)).build()?;
/// // Four processes share the quota; each knows 10,000 keys.
/// let fallback = Fallback::local(&gate, 4, 10_000)?;
/// let gate = WithFallback::new(gate, fallback);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Fallback {
    /// A limiter in this process, best built by [`local`](Self::local). Cells that the server admits are
    /// charged to it as well, so it does not begin with a fresh burst.
    Local(Box<Limiter<[u8], AnyAlgorithm>>),
    /// Denies everything, with a retry time of one second.
    Deny,
    /// Admits everything.
    Admit,
}

impl Fallback {
    /// This process's share of a limiter's quota, counted by the same algorithm, with room for
    /// `capacity` keys.
    ///
    /// A bucket's share is its rate and its burst divided by `nodes`, with a burst of at least 1. A
    /// window's share is its limit divided by `nodes`, rounded down. If that is zero, the share is
    /// 1 in a window that is longer in proportion.
    ///
    /// A share admits at least one cell. So the bursts of all shares sum to `max(burst, nodes)`, and
    /// their cells in a window to at most `max(limit, nodes)`. The rates never sum to more than the
    /// quota's.
    ///
    /// **Not guaranteed.** While more keys owe cells than `capacity` has room for, the key that owes least is
    /// forgotten and starts afresh. Choose a capacity above the number of keys that are active within the time in
    /// which the burst comes back, or give [`Fallback::Local`] a limiter with
    /// [`OnFull::Deny`](tollgate::OnFull::Deny).
    ///
    /// # Errors
    ///
    /// The share is no valid quota of a limiter in this process, or there is no memory for that
    /// many keys.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, Fallback, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(100)).build()?;
    /// assert!(Fallback::local(&gate, 3, 1_000).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn local(
        redis_limiter: &RedisLimiter,
        nodes: u32,
        capacity: u64,
    ) -> Result<Self, BuildError> {
        let (quota, algorithm) =
            share(&redis_limiter.quota(), redis_limiter.algorithm(), nodes.max(1));
        let limiter =
            Limiter::builder(quota).algorithm(algorithm.algorithm()).capacity(capacity).build()?;
        Ok(Self::Local(Box::new(limiter)))
    }

    fn decide(&self, limit: u64, key: &[u8], n: u64) -> Decision {
        match self {
            Self::Local(limiter) => limiter.check_n(key, n),
            Self::Deny => {
                let parts = DecisionParts { limit, remaining: 0, reset_after: RETRY_AFTER };
                Err(parts.denied(Some(RETRY_AFTER)))
            }
            Self::Admit => {
                let remaining = limit.saturating_sub(n);
                Ok(DecisionParts { limit, remaining, reset_after: Duration::ZERO }.permit())
            }
        }
    }

    /// Charges the local limiter for cells that the server has admitted.
    fn note(&self, key: &[u8], n: u64) {
        let Self::Local(limiter) = self else { return };
        // A share of fewer cells is spent to its end.
        if let Err(denied) = limiter.check_n(key, n)
            && denied.remaining() > 0
        {
            let _ = limiter.check_n(key, denied.remaining());
        }
    }
}

/// One node's share of a quota.
fn share(quota: &Quota, algorithm: &Algorithm, nodes: u32) -> (Quota, Algorithm) {
    match algorithm {
        Algorithm::Gcra => {
            let burst = (quota.burst_cells() / u64::from(nodes)).max(1);
            let period = quota.period().saturating_mul(nodes);
            (Quota::new(quota.limit(), period).burst(burst), Algorithm::Gcra)
        }
        Algorithm::SlidingLog { more, count_denials } => {
            let more = more.iter().map(|rate| window_share(rate, nodes)).collect();
            let count_denials = *count_denials;
            (window_share(quota, nodes), Algorithm::SlidingLog { more, count_denials })
        }
        Algorithm::FixedWindow { .. } | Algorithm::SlidingCounter { .. } => {
            (window_share(quota, nodes), algorithm.clone())
        }
    }
}

fn window_share(quota: &Quota, nodes: u32) -> Quota {
    match quota.limit() / u64::from(nodes) {
        0 => {
            let longer = u64::from(nodes).div_ceil(quota.limit().max(1));
            let longer = u32::try_from(longer).unwrap_or(nodes);
            Quota::new(1, quota.period().saturating_mul(longer))
        }
        limit => Quota::new(limit, quota.period()),
    }
}

/// A limiter on the server, with a fallback. Cheap to clone.
///
/// **Guarantee.** There is an answer by the store's [deadline](crate::Store::deadline). With
/// [`Fallback::Local`] on at most as many processes as were named, an outage of length `d` adds at
/// most `max(burst, processes) + rate * d` cells to what the server grants. (For windows, it adds
/// `max(limit, processes)` for each window of a share that it touches. A share's window is longer
/// than the quota's if the limit is below the number of processes.) The server itself stays within
/// the quota.
///
/// **Not guaranteed.** The bound of an outage ends where the [fallback's capacity](Fallback::local) does
/// not suffice. Cells that the fallback grants are not charged to the server when it is back. A
/// request whose call timed out may be charged by the server as well as by the fallback, which
/// denies too much rather than too little.
///
/// ```no_run
/// use tollgate_redis::{RedisLimiter, WithFallback, Fallback};
///
/// # async fn example(gate: RedisLimiter) {
/// let gate = WithFallback::new(gate, Fallback::Deny);
/// let answer = gate.check("192.0.2.7").await;
/// println!("{:?} by {:?}", answer.decision.is_ok(), answer.origin);
/// # }
/// ```
#[derive(Debug)]
pub struct WithFallback<R = RedisLimiter>(Arc<Inner<R>>);

#[derive(Debug)]
struct Inner<R> {
    remote: R,
    fallback: Fallback,
    server: AtomicU64,
    ahead: AtomicU64,
    admitted: AtomicU64,
    denied: AtomicU64,
}

impl<R> Clone for WithFallback<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// How many decisions each part of a [`WithFallback`] limiter made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FallbackStats {
    /// Decisions made by a call to the server for that request.
    pub server: u64,
    /// Decisions made without a call, from leases or from what the server answered earlier.
    pub ahead: u64,
    /// Requests that the fallback admitted.
    pub fallback_admitted: u64,
    /// Requests that the fallback denied.
    pub fallback_denied: u64,
}

impl<R: Remote> WithFallback<R> {
    /// Decides by `remote`, and by `fallback` when `remote` gives no decision.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(100)).build()?;
    /// assert_eq!(WithFallback::new(gate, Fallback::Admit).stats().server, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(remote: R, fallback: Fallback) -> Self {
        let [server, ahead, admitted, denied] = [(); 4].map(|()| AtomicU64::new(0));
        Self(Arc::new(Inner { remote, fallback, server, ahead, admitted, denied }))
    }

    /// The wrapped limiter.
    #[must_use]
    pub fn remote(&self) -> &R {
        &self.0.remote
    }

    /// Decides about one cell.
    ///
    /// ```no_run
    /// # use tollgate_redis::{WithFallback, Origin};
    /// # async fn example(gate: WithFallback) {
    /// let answer = gate.check("alice").await;
    /// if answer.origin == Origin::Fallback {
    ///     println!("the server is away");
    /// }
    /// # }
    /// ```
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Answer {
        self.check_n(key, 1).await
    }

    /// Decides about `n` cells, all or none.
    ///
    /// ```no_run
    /// # use tollgate_redis::WithFallback;
    /// # async fn example(gate: WithFallback) {
    /// if let Err(denied) = gate.check_n("alice", 20).await.decision {
    ///     println!("retry after {:?}", denied.retry_after());
    /// }
    /// # }
    /// ```
    pub async fn check_n(&self, key: impl AsRef<[u8]>, n: u64) -> Answer {
        let key = key.as_ref();
        match self.0.remote.ask(key, n).await {
            Ok(answer) => self.noted(answer, key, n),
            Err(_) => self.fall_back(key, n),
        }
    }

    /// The answer about `n` cells, if it is known without a call: from a lease, or from what the
    /// server answered earlier.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(100)).build()?;
    /// let gate = WithFallback::new(gate, Fallback::Admit);
    /// assert!(gate.try_check_n("alice", 1).is_none(), "the server must be asked each time");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_check_n(&self, key: impl AsRef<[u8]>, n: u64) -> Option<Answer> {
        let key = key.as_ref();
        Some(self.noted(self.0.remote.ask_now(key, n)?, key, n))
    }

    /// Whether the fallback denies.
    #[cfg(feature = "http")]
    pub(crate) fn denies_when_down(&self) -> bool {
        matches!(self.0.fallback, Fallback::Deny)
    }

    fn noted(&self, answer: Answer, key: &[u8], n: u64) -> Answer {
        count(if answer.origin == Origin::Server { &self.0.server } else { &self.0.ahead });
        if answer.decision.is_ok() {
            self.0.fallback.note(key, n);
        }
        answer
    }

    fn fall_back(&self, key: &[u8], n: u64) -> Answer {
        let Inner { remote, fallback, admitted, denied, .. } = &*self.0;
        let decision = fallback.decide(remote.max_at_once(), key, n);
        count(if decision.is_ok() { admitted } else { denied });
        Answer { decision, origin: Origin::Fallback }
    }

    /// How many decisions each part has made so far.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, WithFallback, Fallback, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(100)).build()?;
    /// assert_eq!(WithFallback::new(gate, Fallback::Deny).stats().fallback_denied, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> FallbackStats {
        FallbackStats {
            server: self.0.server.load(Relaxed),
            ahead: self.0.ahead.load(Relaxed),
            fallback_admitted: self.0.admitted.load(Relaxed),
            fallback_denied: self.0.denied.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unavailable::Unavailable;

    /// A server that admits everything, until it is away.
    #[derive(Debug, Default)]
    struct Generous(AtomicU64);

    impl Remote for Generous {
        async fn ask(&self, _: &[u8], n: u64) -> Result<Answer, Unavailable> {
            if self.0.load(Relaxed) > 0 {
                return Err(Unavailable::TimedOut);
            }
            let parts = DecisionParts { limit: n, remaining: 0, reset_after: Duration::ZERO };
            Ok(Answer { decision: Ok(parts.permit()), origin: Origin::Server })
        }

        fn max_at_once(&self) -> u64 {
            u64::MAX
        }
    }

    /// A local share does not begin with a fresh burst, whatever the size of the requests before.
    #[tokio::test]
    async fn what_the_server_admits_is_charged_to_a_share_as_far_as_it_goes() {
        for requests in [&[5][..], &[6], &[3, 4], &[1, 100, 1]] {
            let share = Limiter::builder(Quota::per_day(5)).algorithm(Algorithm::Gcra.algorithm());
            let local = Fallback::Local(Box::new(share.capacity(100).build().expect("a limiter")));
            let gate = WithFallback::new(Generous::default(), local);
            for n in requests {
                assert_eq!(gate.check_n("k", *n).await.origin, Origin::Server);
            }
            gate.remote().0.store(1, Relaxed);
            let answer = gate.check("k").await;
            assert!(answer.decision.is_err() && answer.origin == Origin::Fallback, "{requests:?}");
        }
    }

    fn shared(quota: &str, algorithm: &Algorithm, nodes: u32) -> Quota {
        share(&quota.parse().expect("a quota"), algorithm, nodes).0
    }

    /// Two an hour, over eight processes.
    #[test]
    fn shares_of_a_small_burst_add_up_to_a_cell_for_each_process() {
        let hour = Duration::from_secs(3_600);
        let bucket = shared("2/h", &Algorithm::Gcra, 8);
        assert_eq!(bucket, Quota::new(2, 8 * hour).burst(1), "a burst of 8 in all, and the rate");
        for algorithm in [Algorithm::fixed_window(), Algorithm::sliding_log()] {
            assert_eq!(shared("2/h", &algorithm, 8), Quota::new(1, 4 * hour), "8 in 4 hours");
        }
    }

    #[test]
    fn shares_add_up_to_no_more_than_the_quota() {
        let second = Duration::from_secs(1);
        let bucket = shared("100/s burst 20", &Algorithm::Gcra, 3);
        assert_eq!(bucket, Quota::new(100, 3 * second).burst(6));
        assert_eq!(shared("1/s", &Algorithm::Gcra, 4), Quota::new(1, 4 * second).burst(1));
        let window = Algorithm::fixed_window();
        assert_eq!(shared("100/s", &window, 3), Quota::new(33, second));
        assert_eq!(shared("2/s", &window, 5), Quota::new(1, 3 * second));
        let log = Algorithm::sliding_log().min_gap(second);
        let (_, Algorithm::SlidingLog { more, .. }) = share(&Quota::per_minute(60), &log, 4) else {
            panic!("a log");
        };
        assert_eq!(more, [Quota::new(1, 4 * second)]);
    }
}
