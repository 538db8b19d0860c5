//! A limiter of this node's part of a quota.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tollgate::clock::QuantaClock;
use tollgate::decision::DecisionParts;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::{Clock, Decision, Limiter, Quota, Tick};

use super::builder::{ShareBuilder, WithoutPart};
use super::membership::Membership;
use super::node_id;
use super::part::part;
use super::part_status::{MEMBER_INTERVALS, PartStatus, is_valid};
use crate::answer::{Answer, Origin};
use crate::sync::{AtomicU64, Ordering, RelaxedCounter};

/// The chosen settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(super) quota: Quota,
    pub(super) interval: Duration,
    pub(super) without_part: WithoutPart,
}

/// A limiter of this node's part of a quota: the whole, divided by the live nodes. No decision
/// calls the server. A background task reports every [`interval`](ShareBuilder::interval) that this
/// node is alive, and learns how many nodes are.
///
/// It suits loads that are spread evenly. A node denies what exceeds its part, even if another node
/// has room.
///
/// **Guarantee.** The rates of the nodes that use a part never sum to more than the quota's rate.
/// Nor do their bursts sum to more than its burst, as long as the burst has a cell for each node.
/// So while the same nodes are alive, and as long as the [capacity](ShareBuilder::capacity) suffices for
/// the keys, no span sees more than `burst + rate * span`. Each node that
/// comes or goes within a span may add a part of the burst, `burst / n` cells of a key for `n`
/// nodes: the burst that a newcomer starts with, or the burst that a node spent before it went.
///
/// The part of a dead node is unused for at most four intervals and a call: the node is counted for
/// three intervals, and the others learn of it by their next heartbeat. A new node has no part for
/// two intervals and two calls, so all others have counted it before. The same happens to all nodes
/// after the server has lost its data: they use their parts for up to two intervals, and then have
/// none for as long.
///
/// A node whose heartbeats fail uses its part until two intervals after its last successful
/// heartbeat, and then does what was [chosen](ShareBuilder::without_part). That is before others
/// count it as dead.
///
/// **Not guaranteed.** Nodes may use more than the whole for a while:
///
/// - at most twice the whole, for two intervals, if a replica takes over that lacks more than an interval of a
///   node's heartbeats;
/// - the same if the server's clock is set ahead;
/// - as long as two servers answer heartbeats.
///
/// A node whose own clock is set back may use its part for that much longer.
///
/// ```
/// # use std::time::Duration;
/// # use tollgate_redis::{Heartbeat, Membership, Unavailable};
/// # struct FourNodes;
/// # impl Membership for FourNodes {
/// #     async fn heartbeat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
/// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use tollgate::Quota;
/// use tollgate_redis::Share;
///
/// let interval = Duration::from_millis(10);
/// let share = Share::builder(FourNodes, Quota::per_hour(100)).interval(interval).build()?;
/// assert!(share.check(b"a").decision.is_err()); // other nodes have not counted this one yet
/// tokio::time::sleep(5 * interval).await;
/// let permit = share.check(b"a").decision?;
/// assert_eq!(permit.limit(), 25);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Share<R, C = QuantaClock> {
    shared: Arc<Shared<C>>,
    membership: Arc<R>,
}

struct Shared<C> {
    limiter: Limiter<[u8], DynamicGcra, C>,
    without_part: Option<Limiter<[u8], DynamicGcra, C>>,
    settings: Settings,
    /// The part may be used before this instant. Written by the heartbeat task alone.
    until_nanos: AtomicU64,
    /// When the next part may be usable.
    expected_nanos: RelaxedCounter,
    live: RelaxedCounter,
    stats: StatCounters,
}

#[derive(Debug, Default)]
struct StatCounters {
    heartbeats: RelaxedCounter,
    failed: RelaxedCounter,
    without_part: RelaxedCounter,
}

/// Counters of a [`Share`].
///
/// ```
/// assert_eq!(tollgate_redis::ShareStats::default().live, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShareStats {
    /// Nodes that the quota is divided by. `None` while this node has no part.
    pub live: Option<u64>,
    /// Heartbeats that were answered.
    pub heartbeats: u64,
    /// Heartbeats that failed.
    pub failed: u64,
    /// Requests decided while this node had no part.
    pub without_part: u64,
}

impl<R, C> Clone for Share<R, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), membership: Arc::clone(&self.membership) }
    }
}

impl<R, C> fmt::Debug for Share<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { settings, .. } = &*self.shared;
        f.debug_struct("Share").field("settings", settings).finish()
    }
}

impl<R: Membership> Share<R> {
    /// A builder for one of the nodes that share the quota.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{WithoutPart, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct FourNodes;
    /// # impl Membership for FourNodes {
    /// #     async fn heartbeat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(FourNodes, quota).build()?;
    /// assert_eq!(share.stats().heartbeats, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(membership: R, quota: Quota) -> ShareBuilder<R> {
        ShareBuilder::new(membership, quota)
    }
}

impl<R: Membership, C: Clock + Clone + Send + Sync + 'static> Share<R, C> {
    pub(super) fn start(
        membership: R,
        limiter: Limiter<[u8], DynamicGcra, C>,
        without_part: Option<Limiter<[u8], DynamicGcra, C>>,
        settings: Settings,
        runtime: &Handle,
    ) -> Self {
        let shared = Arc::new(Shared {
            limiter,
            without_part,
            settings,
            until_nanos: AtomicU64::new(0),
            expected_nanos: RelaxedCounter::default(),
            live: RelaxedCounter::default(),
            stats: StatCounters::default(),
        });
        let share = Self { shared, membership: Arc::new(membership) };
        let (node, membership) = (Arc::downgrade(&share.shared), Arc::clone(&share.membership));
        runtime.spawn(send_heartbeats(node, membership));
        share
    }

    /// Asks for one cell of `key`'s quota.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{WithoutPart, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct FourNodes;
    /// # impl Membership for FourNodes {
    /// #     async fn heartbeat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(FourNodes, quota).build()?;
    /// tokio::task::yield_now().await; // it sends a heartbeat
    /// assert!(share.check(b"a").decision.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, key: &[u8]) -> Answer {
        self.check_n(key, 1)
    }

    /// Asks for `n` cells of `key`'s quota, all of them or none. A request for more than this
    /// node's part of the burst is never admitted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{WithoutPart, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct FourNodes;
    /// # impl Membership for FourNodes {
    /// #     async fn heartbeat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(FourNodes, quota).build()?;
    /// tokio::task::yield_now().await; // it sends a heartbeat
    /// assert!(share.check_n(b"a", 25).decision.is_ok());
    /// assert!(share.check_n(b"b", 26).decision.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_n(&self, key: &[u8], n: u64) -> Answer {
        self.check_at(key, n, self.shared.limiter.clock().now())
    }

    /// As [`check_n`](Self::check_n), at the instant `now` of this node's clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{WithoutPart, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct FourNodes;
    /// # impl Membership for FourNodes {
    /// #     async fn heartbeat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(FourNodes, quota).build()?;
    /// tokio::task::yield_now().await; // it sends a heartbeat
    /// assert!(share.check_at(b"a", 1, Tick::ZERO).decision.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_at(&self, key: &[u8], n: u64, now: Tick) -> Answer {
        let Shared { limiter, without_part, stats, .. } = &*self.shared;
        if self.shared.has_part(now) {
            return Answer {
                decision: limiter.ask(key).cells(n).at(now).check(),
                origin: Origin::Local,
            };
        }
        stats.without_part.add(1);
        let decision = match without_part {
            Some(limiter) => limiter.ask(key).cells(n).at(now).check(),
            None => self.shared.deny(now),
        };
        Answer { decision, origin: Origin::Fallback }
    }

    /// Counters so far.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{WithoutPart, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct FourNodes;
    /// # impl Membership for FourNodes {
    /// #     async fn heartbeat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(FourNodes, quota).build()?;
    /// tokio::task::yield_now().await; // it sends a heartbeat
    /// assert_eq!(share.stats().live, Some(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> ShareStats {
        let Shared { stats, live, limiter, .. } = &*self.shared;
        let has_part = self.shared.has_part(limiter.clock().now());
        ShareStats {
            live: has_part.then(|| live.read()),
            heartbeats: stats.heartbeats.read(),
            failed: stats.failed.read(),
            without_part: stats.without_part.read(),
        }
    }
}

impl<C: Clock> Shared<C> {
    #[inline]
    fn has_part(&self, now: Tick) -> bool {
        // Acquire: pairs with the Release in apply(); the part's quota is then in force.
        is_valid(Tick::from_nanos(self.until_nanos.load(Ordering::Acquire)), now)
    }

    /// A denial without a part, until there may be one.
    fn deny(&self, now: Tick) -> Decision {
        let expected = Tick::from_nanos(self.expected_nanos.read());
        let wait = expected.since(now).max(self.settings.interval);
        let parts = DecisionParts {
            limit: self.settings.quota.burst_cells(),
            remaining: 0,
            reset_after: wait,
        };
        Err(parts.denied(Some(wait)))
    }

    /// Applies the status of a heartbeat: sets the quota first, then how long it is valid.
    fn apply(&self, status: PartStatus, now: Tick) {
        let (live, until) = match status {
            PartStatus::Held { live, until } => (live, until),
            PartStatus::Waiting(wait) => {
                return self.expected_nanos.set(now.saturating_add(wait).as_nanos());
            }
        };
        if live != self.live.read() {
            // Cells stay as they are: a change of the quota gives none.
            if self.limiter.set_quota(part(self.settings.quota, live), Inherit::AsIs).is_err() {
                // The part is too small for a limiter. The old one expires.
                return;
            }
            self.live.set(live);
        }
        self.until_nanos.store(until.as_nanos(), Ordering::Release);
    }
}

/// The heartbeat task: it runs until the limiter is dropped.
async fn send_heartbeats<R: Membership, C: Clock>(node: Weak<Shared<C>>, membership: Arc<R>) {
    let id = node_id::new();
    while let Some(interval) = node.upgrade().map(|shared| shared.settings.interval) {
        let Some(sent) = node.upgrade().map(|shared| shared.limiter.clock().now()) else { break };
        let reply = membership.heartbeat(&id, interval * MEMBER_INTERVALS).await;
        let Some(shared) = node.upgrade() else { break };
        let pause = match reply {
            Ok(heartbeat) => {
                shared.stats.heartbeats.add(1);
                let status = PartStatus::of(heartbeat, sent, interval);
                shared.apply(status, shared.limiter.clock().now());
                status.pause(interval)
            }
            Err(_) => {
                shared.stats.failed.add(1);
                interval / 4
            }
        };
        drop(shared);
        tokio::time::sleep(pause).await;
    }
    // If this fails, the node is counted for a little longer.
    let _ = membership.leave(&id).await;
}
