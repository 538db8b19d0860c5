//! The builder of a [`Share`].

use core::fmt;
use core::time::Duration;

use tokio::runtime::Handle;
use tollgate::clock::QuantaClock;
use tollgate::dynamic::DynamicGcra;
use tollgate::{BuildError, Clock, Limiter, Quota};

use super::membership::Membership;
use super::node::{Settings, Share};
use super::part::part;

/// The decisions of a node without a part: a new node, or one whose heartbeats fail.
///
/// ```
/// use tollgate_redis::WithoutPart;
/// assert_eq!(WithoutPart::default(), WithoutPart::Deny);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithoutPart {
    /// Denies. The quota is never exceeded.
    #[default]
    Deny,
    /// Uses the quota divided by this many nodes. Every node that does so adds as much to what all
    /// nodes admit: at most twice the quota, if there are no more nodes than this, and the burst has a
    /// cell for each of them.
    DivideBy(u64),
}

/// Configures a [`Share`].
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
/// use tollgate::Quota;
/// use tollgate_redis::{WithoutPart, Share, ShareError};
///
/// let builder = Share::builder(FourNodes, Quota::per_second(100)).interval(Duration::from_secs(1));
/// assert_eq!(builder.build().unwrap_err(), ShareError::NoRuntime);
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let quota = Quota::per_second(100);
/// assert!(Share::builder(FourNodes, quota).without_part(WithoutPart::DivideBy(10)).build().is_ok());
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is limited before it is built"]
pub struct ShareBuilder<R, C = QuantaClock> {
    membership: R,
    clock: C,
    settings: Settings,
    capacity: u64,
}

impl<R: Membership> ShareBuilder<R> {
    pub(super) fn new(membership: R, quota: Quota) -> Self {
        let settings =
            Settings { quota, interval: Duration::from_secs(1), without_part: WithoutPart::Deny };
        Self { membership, clock: QuantaClock::new(), settings, capacity: 100_000 }
    }
}

impl<R: Membership, C: Clock + Clone + Send + Sync + 'static> ShareBuilder<R, C> {
    /// The clock of the limiter and of the heartbeats. The default is the processor's own.
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
    /// use std::sync::Arc;
    /// use tollgate::ManualClock;
    /// let clock = Arc::new(ManualClock::new());
    /// let share = Share::builder(FourNodes, quota).clock(clock).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock<D: Clock + Clone + Send + Sync + 'static>(self, clock: D) -> ShareBuilder<R, D> {
        let Self { membership, clock: _, settings, capacity } = self;
        ShareBuilder { membership, clock, settings, capacity }
    }

    /// The time between two heartbeats. The default is 1 s. All nodes must use the same.
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
    /// let builder = Share::builder(FourNodes, quota).interval(Duration::ZERO);
    /// assert_eq!(builder.build().unwrap_err(), ShareError::Interval);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interval(self, span: Duration) -> Self {
        Self { settings: Settings { interval: span, ..self.settings }, ..self }
    }

    /// Sets how this node decides while it has no part. The default is to deny.
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
    /// let share = Share::builder(FourNodes, quota).without_part(WithoutPart::DivideBy(10)).build()?;
    /// assert_eq!(share.check(b"a").decision?.remaining(), 9); // before the first heartbeat
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without_part(self, without_part: WithoutPart) -> Self {
        Self { settings: Settings { without_part, ..self.settings }, ..self }
    }

    /// The number of keys that there is room for. The default is 100,000. While more keys owe cells, the one that owes
    /// least is forgotten and starts afresh, so the bound does not hold for it.
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
    /// let share = Share::builder(FourNodes, quota).capacity(1_000).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capacity(self, keys: u64) -> Self {
        Self { capacity: keys, ..self }
    }

    /// Builds the limiter and starts its heartbeat task. The task ends within an interval after the
    /// last clone of the limiter is dropped, and removes the node from the membership list.
    ///
    /// # Errors
    ///
    /// A setting is out of range, or the caller is not on a tokio runtime.
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
    /// assert!(Share::builder(FourNodes, Quota::per_hour(0)).build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Share<R, C>, ShareError> {
        let Self { membership, clock, settings, capacity } = self;
        let interval = Duration::from_millis(10)..=Duration::from_secs(3_600);
        if !interval.contains(&settings.interval) {
            return Err(ShareError::Interval);
        }
        if settings.without_part == WithoutPart::DivideBy(0) {
            return Err(ShareError::WithoutPart);
        }
        let runtime = Handle::try_current().map_err(|_| ShareError::NoRuntime)?;
        let limiter = |quota: Quota| -> Result<Limiter<[u8], DynamicGcra, C>, ShareError> {
            let builder = Limiter::builder(quota).algorithm(DynamicGcra::new()).capacity(capacity);
            builder.clock(clock.clone()).build().map_err(ShareError::Limiter)
        };
        let without_part = match settings.without_part {
            WithoutPart::Deny => None,
            WithoutPart::DivideBy(nodes) => Some(limiter(part(settings.quota, nodes))?),
        };
        Ok(Share::start(membership, limiter(settings.quota)?, without_part, settings, &runtime))
    }
}

/// Why a [`Share`] cannot be built.
///
/// ```
/// use tollgate_redis::ShareError;
/// assert_eq!(ShareError::NoRuntime.to_string(), "a task sends the heartbeats: build it on tokio");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareError {
    /// The interval is too short or too long.
    Interval,
    /// The quota would be divided by zero nodes.
    WithoutPart,
    /// The caller is not on a tokio runtime.
    NoRuntime,
    /// The quota or the capacity is invalid.
    Limiter(BuildError),
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interval => f.write_str("the time between two heartbeats is 10 ms to 1 hour"),
            Self::WithoutPart => {
                f.write_str("a node without a part divides the quota by 1 or more nodes")
            }
            Self::NoRuntime => f.write_str("a task sends the heartbeats: build it on tokio"),
            Self::Limiter(error) => write!(f, "the node's own limiter: {error}"),
        }
    }
}

impl core::error::Error for ShareError {}
