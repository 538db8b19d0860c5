//! A limiter of this node's part of a quota.

use core::fmt;
use core::time::Duration;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tollgate::clock::QuantaClock;
use tollgate::decision::DecisionParts;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::{Clock, Decision, Limiter, Quota, Tick};

use super::builder::{Alone, ShareBuilder};
use super::membership::{COUNTED, Standing, holds};
use super::part::part;
use super::roll::Membership;
use crate::sync::{AtomicU64, Ordering, RelaxedCounter};
use crate::{Answer, Origin};

/// What is chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub(crate) interval: Duration,
    pub(crate) alone: Alone,
}

/// A limiter of this node's part of a quota: the whole, divided by the nodes that are alive. No
/// decision asks the server; a task of its own says every [`interval`](ShareBuilder::interval) that
/// this node is alive, and hears how many are.
///
/// For loads that are spread evenly. A node that is asked for more than its part denies it, though
/// another may have room.
///
/// **Guarantee.** The rates of the nodes that use a part never sum to more than the quota's; nor do
/// their bursts, as long as the burst has a cell for each. So while the same nodes are alive, no
/// span sees more than `burst + rate * span`. Each node that comes or goes within a span may add a
/// part of the burst, `burst / n` cells of a key for `n` nodes: what a newcomer has at first, or
/// what the part of one that went had spent before.
///
/// What a dead node had is lost for at most four intervals and a call: it is counted for three, and
/// the others hear of it at their next beat. A node that comes has no part for two intervals and
/// two calls, so that all others have counted it before. The same goes for all nodes after the
/// server has lost its data: they go on for up to two intervals, and then have none for as long.
///
/// A node whose beats fail goes on with its part until two intervals after the last one that did
/// not, and then does what is [chosen](ShareBuilder::alone): before others count it for dead.
///
/// **Not guaranteed.** Nodes may use more than the whole for a while, at most twice as much for two
/// intervals, where a replica takes over that lacks more than an interval of a node's beats, or the
/// server's clock is set ahead; for as long as two servers answer beats; and a node whose own clock is
/// set back may use its part for so much longer.
///
/// ```
/// # use std::time::Duration;
/// # use tollgate_redis::{Heartbeat, Membership, Unavailable};
/// # struct Known;
/// # impl Membership for Known {
/// #     async fn beat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
/// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use tollgate::Quota;
/// use tollgate_redis::Share;
///
/// let interval = Duration::from_millis(10);
/// let share = Share::builder(Known, Quota::per_hour(100)).interval(interval).build()?;
/// assert!(share.check(b"a").decision.is_err()); // others do not know of this node yet
/// tokio::time::sleep(5 * interval).await;
/// let permit = share.check(b"a").decision?;
/// assert_eq!(permit.limit(), 25);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Share<R, C = QuantaClock> {
    shared: Arc<Shared<C>>,
    roll: Arc<R>,
}

struct Shared<C> {
    limiter: Limiter<[u8], DynamicGcra, C>,
    alone: Option<Limiter<[u8], DynamicGcra, C>>,
    quota: Quota,
    chosen: Chosen,
    /// Written by the task alone: the part is used before that.
    until_nanos: AtomicU64,
    /// When there may be one.
    expected_nanos: RelaxedCounter,
    live: RelaxedCounter,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    beats: RelaxedCounter,
    failed: RelaxedCounter,
    alone: RelaxedCounter,
}

/// What a [`Share`] has counted.
///
/// ```
/// assert_eq!(tollgate_redis::ShareStats::default().live, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShareStats {
    /// Nodes that the quota is divided by; `None` while this one has no part.
    pub live: Option<u64>,
    /// Beats that were answered.
    pub beats: u64,
    /// Beats that were not.
    pub failed: u64,
    /// Requests while this node had no part.
    pub alone: u64,
}

impl<R, C> Clone for Share<R, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), roll: Arc::clone(&self.roll) }
    }
}

impl<R, C> fmt::Debug for Share<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { quota, chosen, .. } = &*self.shared;
        f.debug_struct("Share").field("quota", quota).field("chosen", chosen).finish()
    }
}

impl<R: Membership> Share<R> {
    /// A builder for a node of those that share the quota.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{Alone, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct Known;
    /// # impl Membership for Known {
    /// #     async fn beat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(Known, quota).build()?;
    /// assert_eq!(share.stats().beats, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(roll: R, quota: Quota) -> ShareBuilder<R> {
        ShareBuilder::new(roll, quota)
    }
}

impl<R: Membership, C: Clock + Clone + Send + Sync + 'static> Share<R, C> {
    pub(crate) fn start(
        roll: R,
        limiter: Limiter<[u8], DynamicGcra, C>,
        alone: Option<Limiter<[u8], DynamicGcra, C>>,
        quota: Quota,
        chosen: Chosen,
        runtime: &Handle,
    ) -> Self {
        let shared = Arc::new(Shared {
            limiter,
            alone,
            quota,
            chosen,
            until_nanos: AtomicU64::new(0),
            expected_nanos: RelaxedCounter::default(),
            live: RelaxedCounter::default(),
            counts: Counts::default(),
        });
        let share = Self { shared, roll: Arc::new(roll) };
        let (node, roll) = (Arc::downgrade(&share.shared), Arc::clone(&share.roll));
        runtime.spawn(beat(node, roll));
        share
    }

    /// Asks for one cell of `key`'s quota.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{Alone, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct Known;
    /// # impl Membership for Known {
    /// #     async fn beat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(Known, quota).build()?;
    /// tokio::task::yield_now().await; // it beats
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
    /// # use tollgate_redis::{Alone, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct Known;
    /// # impl Membership for Known {
    /// #     async fn beat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(Known, quota).build()?;
    /// tokio::task::yield_now().await; // it beats
    /// assert!(share.check_n(b"a", 25).decision.is_ok());
    /// assert!(share.check_n(b"b", 26).decision.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_n(&self, key: &[u8], n: u64) -> Answer {
        self.check_at(key, n, self.shared.limiter.clock().now())
    }

    /// The same, at the instant `now` of this node's clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{Alone, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct Known;
    /// # impl Membership for Known {
    /// #     async fn beat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(Known, quota).build()?;
    /// tokio::task::yield_now().await; // it beats
    /// assert!(share.check_at(b"a", 1, Tick::ZERO).decision.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_at(&self, key: &[u8], n: u64, now: Tick) -> Answer {
        let Shared { limiter, alone, counts, .. } = &*self.shared;
        if self.shared.has_part(now) {
            return Answer {
                decision: limiter.ask(key).cells(n).at(now).check(),
                origin: Origin::Local,
            };
        }
        counts.alone.add(1);
        let decision = match alone {
            Some(limiter) => limiter.ask(key).cells(n).at(now).check(),
            None => self.shared.deny(now),
        };
        Answer { decision, origin: Origin::Fallback }
    }

    /// What was counted so far.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, Tick};
    /// # use tollgate_redis::{Alone, Heartbeat, Membership, Share, ShareError, Unavailable};
    /// # struct Known;
    /// # impl Membership for Known {
    /// #     async fn beat(&self, _: &str, _: Duration) -> Result<Heartbeat, Unavailable> {
    /// #         Ok(Heartbeat { live: 4, member_for: Duration::from_secs(60) })
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let quota = Quota::per_hour(100);
    /// let share = Share::builder(Known, quota).build()?;
    /// tokio::task::yield_now().await; // it beats
    /// assert_eq!(share.stats().live, Some(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> ShareStats {
        let Shared { counts, live, limiter, .. } = &*self.shared;
        let has_part = self.shared.has_part(limiter.clock().now());
        ShareStats {
            live: has_part.then(|| live.read()),
            beats: counts.beats.read(),
            failed: counts.failed.read(),
            alone: counts.alone.read(),
        }
    }
}

impl<C: Clock> Shared<C> {
    #[inline]
    fn has_part(&self, now: Tick) -> bool {
        // Acquire: pairs with the Release in stand(); the quota of the part is then in force.
        holds(Tick::from_nanos(self.until_nanos.load(Ordering::Acquire)), now)
    }

    /// No part: come back when there may be one.
    fn deny(&self, now: Tick) -> Decision {
        let expected = Tick::from_nanos(self.expected_nanos.read());
        let wait = expected.since(now).max(self.chosen.interval);
        let parts =
            DecisionParts { limit: self.quota.burst_cells(), remaining: 0, reset_after: wait };
        Err(parts.denied(Some(wait)))
    }

    /// The new standing: the quota first, then how long it holds.
    fn stand(&self, standing: Standing, now: Tick) {
        let (live, until) = match standing {
            Standing::Part { live, until } => (live, until),
            Standing::New(wait) => {
                return self.expected_nanos.put(now.saturating_add(wait).as_nanos());
            }
        };
        if live != self.live.read() {
            // Cells are kept as they are: none is given for a change.
            if self.limiter.set_quota(part(self.quota, live), Inherit::AsIs).is_err() {
                // A part too small to be kept. The old one lapses.
                return;
            }
            self.live.put(live);
        }
        self.until_nanos.store(until.as_nanos(), Ordering::Release);
    }
}

/// The task: beats until the limiter is gone.
async fn beat<R: Membership, C: Clock>(node: Weak<Shared<C>>, roll: Arc<R>) {
    let id = id();
    while let Some(interval) = node.upgrade().map(|shared| shared.chosen.interval) {
        let Some(sent) = node.upgrade().map(|shared| shared.limiter.clock().now()) else { break };
        let reply = roll.beat(&id, interval * COUNTED).await;
        let Some(shared) = node.upgrade() else { break };
        let pause = match reply {
            Ok(beat) => {
                shared.counts.beats.add(1);
                let standing = Standing::of(beat, sent, interval);
                shared.stand(standing, shared.limiter.clock().now());
                standing.pause(interval)
            }
            Err(_) => {
                shared.counts.failed.add(1);
                interval / 4
            }
        };
        drop(shared);
        tokio::time::sleep(pause).await;
    }
    // Whether it could be taken off: if not, it is counted a little longer.
    let _ = roll.leave(&id).await;
}

/// A name that no other node has: 128 bits that look random.
fn id() -> String {
    let half = || RandomState::new().hash_one("tollgate");
    format!("{:016x}{:016x}", half(), half())
}
