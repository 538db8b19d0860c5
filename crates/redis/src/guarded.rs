//! What is decided while the server gives no decision.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use tollgate::{AnyAlgorithm, BuildError, Decision, Limiter, Quota, Stated};

use crate::answer::{Answer, Origin};
use crate::central::Central;
use crate::counting::Counting;
use crate::remote::Remote;
use crate::stats::count;

/// When to come back is not known while the server is away.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What is decided while the server gives no decision.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_redis::{Central, Guarded, OnDown, Store};
///
/// let store = Store::builder("redis://127.0.0.1:6379").build()?;
/// let gate = Central::builder(&store, "api", Quota::per_second(100)).build()?;
/// // Four processes share the quota; each knows 10,000 keys.
/// let on_down = OnDown::local(&gate, 4, 10_000)?;
/// let gate = Guarded::new(gate, on_down);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum OnDown {
    /// Decides by a limiter of this process, best [its share](Self::local) of the quota. What the
    /// server admits is charged to it as well, so that it does not begin with a fresh burst.
    Local(Box<Limiter<[u8], AnyAlgorithm>>),
    /// Refuses all, for a second.
    Refuse,
    /// Admits all.
    Admit,
}

impl OnDown {
    /// This process's share of a limiter's quota, counted in the same way, with room for
    /// `capacity` keys.
    ///
    /// A bucket's share is its rate and its burst by `nodes`, but no burst below 1. A window's share
    /// is its limit by `nodes`, rounded down; where that is none, it is 1 in a window that is longer
    /// in proportion.
    ///
    /// # Errors
    ///
    /// The share is no quota of a limiter in this process, or there is no memory for so many keys.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{Central, OnDown, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = Central::builder(&store, "api", Quota::per_second(100)).build()?;
    /// assert!(OnDown::local(&gate, 3, 1_000).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn local(central: &Central, nodes: u32, capacity: u64) -> Result<Self, BuildError> {
        let (quota, counting) = share(&central.quota(), central.counting(), nodes.max(1));
        let limiter =
            Limiter::builder(quota).algorithm(counting.algorithm()).capacity(capacity).build()?;
        Ok(Self::Local(Box::new(limiter)))
    }

    fn decide(&self, limit: u64, key: &[u8], n: u64) -> Decision {
        match self {
            Self::Local(limiter) => limiter.check_n(key, n),
            Self::Refuse => {
                let stated = Stated { limit, remaining: 0, reset_after: RETRY_AFTER };
                Err(stated.denied(Some(RETRY_AFTER)))
            }
            Self::Admit => {
                let remaining = limit.saturating_sub(n);
                Ok(Stated { limit, remaining, reset_after: Duration::ZERO }.permit())
            }
        }
    }

    /// Charges what the server has admitted.
    fn note(&self, key: &[u8], n: u64) {
        if let Self::Local(limiter) = self {
            // Where this process has spent its share, there is nothing left to charge.
            let _ = limiter.check_n(key, n);
        }
    }
}

/// One node's share of a quota.
fn share(quota: &Quota, counting: &Counting, nodes: u32) -> (Quota, Counting) {
    match counting {
        Counting::Gcra => {
            let burst = (quota.burst_cells() / u64::from(nodes)).max(1);
            let period = quota.period().saturating_mul(nodes);
            (Quota::new(quota.limit(), period).burst(burst), Counting::Gcra)
        }
        Counting::SlidingLog { more, count_refusals } => {
            let more = more.iter().map(|rate| window_share(rate, nodes)).collect();
            let count_refusals = *count_refusals;
            (window_share(quota, nodes), Counting::SlidingLog { more, count_refusals })
        }
        _ => (window_share(quota, nodes), counting.clone()),
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

/// A limiter on the server, and what is decided while it gives no decision. Cheap to clone.
///
/// **Guarantee.** There is an answer by the store's [deadline](crate::Store::deadline). With
/// [`OnDown::Local`] shares on at most as many processes as were named, an outage of length `d` adds
/// at most `burst + rate * d` cells (of windows: the limit for each that it touches) to what the
/// server grants, which is again within the quota.
///
/// **Not guaranteed.** What the fallback grants is not charged to the server when it is back. A
/// request whose call timed out may have been charged by the server as well as by the fallback: that
/// is to the limit's side.
///
/// ```no_run
/// use tollgate_redis::{Central, Guarded, OnDown};
///
/// # async fn example(gate: Central) {
/// let gate = Guarded::new(gate, OnDown::Refuse);
/// let answer = gate.check("192.0.2.7").await;
/// println!("{:?} by {:?}", answer.decision.is_ok(), answer.origin);
/// # }
/// ```
#[derive(Debug)]
pub struct Guarded<R = Central>(Arc<Inner<R>>);

#[derive(Debug)]
struct Inner<R> {
    remote: R,
    on_down: OnDown,
    server: AtomicU64,
    ahead: AtomicU64,
    admitted: AtomicU64,
    refused: AtomicU64,
}

impl<R> Clone for Guarded<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Who made the decisions of a [`Guarded`] limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardedStats {
    /// Decisions of the server, asked for that request.
    pub server: u64,
    /// Decisions by what the server has said or given before.
    pub ahead: u64,
    /// Requests that the fallback admitted.
    pub fallback_admitted: u64,
    /// Requests that the fallback refused.
    pub fallback_refused: u64,
}

impl<R: Remote> Guarded<R> {
    /// Decides by `remote`, or else by `on_down`.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{Central, Guarded, OnDown, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = Central::builder(&store, "api", Quota::per_second(100)).build()?;
    /// assert_eq!(Guarded::new(gate, OnDown::Admit).stats().server, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(remote: R, on_down: OnDown) -> Self {
        let [server, ahead, admitted, refused] = [(); 4].map(|()| AtomicU64::new(0));
        Self(Arc::new(Inner { remote, on_down, server, ahead, admitted, refused }))
    }

    /// What it guards.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{Central, Guarded, OnDown, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = Central::builder(&store, "api", Quota::per_second(100)).build()?;
    /// let gate = Guarded::new(gate, OnDown::Admit);
    /// assert_eq!(gate.remote().quota(), Quota::per_second(100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remote(&self) -> &R {
        &self.0.remote
    }

    /// Decides about one cell.
    ///
    /// ```no_run
    /// # use tollgate_redis::{Guarded, Origin};
    /// # async fn example(gate: Guarded) {
    /// let answer = gate.check("somebody").await;
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
    /// # use tollgate_redis::Guarded;
    /// # async fn example(gate: Guarded) {
    /// if let Err(denied) = gate.check_n("somebody", 20).await.decision {
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

    /// The answer about `n` cells, if it can be told at once: by a lease, or by what the server has
    /// said before.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{Central, Guarded, OnDown, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = Central::builder(&store, "api", Quota::per_second(100)).build()?;
    /// let gate = Guarded::new(gate, OnDown::Admit);
    /// assert!(gate.try_check_n("somebody", 1).is_none(), "the server must be asked each time");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_check_n(&self, key: impl AsRef<[u8]>, n: u64) -> Option<Answer> {
        let key = key.as_ref();
        Some(self.noted(self.0.remote.ask_now(key, n)?, key, n))
    }

    /// Whether it refuses whatever the server gives no decision about.
    #[cfg(feature = "http")]
    pub(crate) fn refuses_when_down(&self) -> bool {
        matches!(self.0.on_down, OnDown::Refuse)
    }

    fn noted(&self, answer: Answer, key: &[u8], n: u64) -> Answer {
        count(if answer.origin == Origin::Server { &self.0.server } else { &self.0.ahead });
        if answer.decision.is_ok() {
            self.0.on_down.note(key, n);
        }
        answer
    }

    fn fall_back(&self, key: &[u8], n: u64) -> Answer {
        let Inner { remote, on_down, admitted, refused, .. } = &*self.0;
        let decision = on_down.decide(remote.most_at_once(), key, n);
        count(if decision.is_ok() { admitted } else { refused });
        Answer { decision, origin: Origin::Fallback }
    }

    /// Who made the decisions so far.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{Central, Guarded, OnDown, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = Central::builder(&store, "api", Quota::per_second(100)).build()?;
    /// assert_eq!(Guarded::new(gate, OnDown::Refuse).stats().fallback_refused, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> GuardedStats {
        GuardedStats {
            server: self.0.server.load(Relaxed),
            ahead: self.0.ahead.load(Relaxed),
            fallback_admitted: self.0.admitted.load(Relaxed),
            fallback_refused: self.0.refused.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(quota: &str, counting: &Counting, nodes: u32) -> Quota {
        share(&quota.parse().expect("a quota"), counting, nodes).0
    }

    #[test]
    fn shares_add_up_to_no_more_than_the_quota() {
        let second = Duration::from_secs(1);
        let bucket = shared("100/s burst 20", &Counting::Gcra, 3);
        assert_eq!(bucket, Quota::new(100, 3 * second).burst(6));
        assert_eq!(shared("1/s", &Counting::Gcra, 4), Quota::new(1, 4 * second).burst(1));
        let window = Counting::fixed_window();
        assert_eq!(shared("100/s", &window, 3), Quota::new(33, second));
        assert_eq!(shared("2/s", &window, 5), Quota::new(1, 3 * second));
        let log = Counting::sliding_log().min_gap(second);
        let (_, Counting::SlidingLog { more, .. }) = share(&Quota::per_minute(60), &log, 4) else {
            panic!("a log");
        };
        assert_eq!(more, [Quota::new(1, 4 * second)]);
    }
}
