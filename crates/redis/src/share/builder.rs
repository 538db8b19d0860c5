//! What can be chosen for a [`Share`].

use core::fmt;
use core::time::Duration;

use tokio::runtime::Handle;
use tollgate::clock::QuantaClock;
use tollgate::dynamic::DynamicGcra;
use tollgate::{BuildError, Clock, Limiter, Quota};

use super::node::{Chosen, Share};
use super::part::part;
use super::roll::Membership;

/// What a node does that has no part: it is new, or its beats fail.
///
/// ```
/// use tollgate_redis::Alone;
/// assert_eq!(Alone::default(), Alone::Deny);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alone {
    /// It denies. The quota is never exceeded.
    #[default]
    Deny,
    /// It takes the quota divided by so many nodes. Every node that does adds as much to what all
    /// of them admit: with no more nodes than these, at most twice the quota.
    Of(u64),
}

/// Builds a [`Share`].
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
/// use tollgate::Quota;
/// use tollgate_redis::{Alone, Share, ShareError};
///
/// let builder = Share::builder(Known, Quota::per_second(100)).interval(Duration::from_secs(1));
/// assert_eq!(builder.build().unwrap_err(), ShareError::NoRuntime);
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let quota = Quota::per_second(100);
/// assert!(Share::builder(Known, quota).alone(Alone::Of(10)).build().is_ok());
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is limited before it is built"]
pub struct ShareBuilder<R, C = QuantaClock> {
    roll: R,
    clock: C,
    quota: Quota,
    chosen: Chosen,
    capacity: u64,
}

impl<R: Membership> ShareBuilder<R> {
    pub(crate) fn new(roll: R, quota: Quota) -> Self {
        let chosen = Chosen { interval: Duration::from_secs(1), alone: Alone::Deny };
        Self { roll, clock: QuantaClock::new(), quota, chosen, capacity: 100_000 }
    }
}

impl<R: Membership, C: Clock + Clone + Send + Sync + 'static> ShareBuilder<R, C> {
    /// The clock that is limited by, and that beats are told by; the processor's own unless chosen.
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
    /// use std::sync::Arc;
    /// use tollgate::ManualClock;
    /// let clock = Arc::new(ManualClock::new());
    /// let share = Share::builder(Known, quota).clock(clock).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock<D: Clock + Clone + Send + Sync + 'static>(self, clock: D) -> ShareBuilder<R, D> {
        let Self { roll, clock: _, quota, chosen, capacity } = self;
        ShareBuilder { roll, clock, quota, chosen, capacity }
    }

    /// The time between two beats; 1 s unless chosen. All nodes must choose the same.
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
    /// let builder = Share::builder(Known, quota).interval(Duration::ZERO);
    /// assert_eq!(builder.build().unwrap_err(), ShareError::Interval);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interval(self, span: Duration) -> Self {
        Self { chosen: Chosen { interval: span, ..self.chosen }, ..self }
    }

    /// What this node does while it has no part; it denies unless chosen otherwise.
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
    /// let share = Share::builder(Known, quota).alone(Alone::Of(10)).build()?;
    /// assert_eq!(share.check(b"a").decision?.remaining(), 9); // before the first beat
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn alone(self, alone: Alone) -> Self {
        Self { chosen: Chosen { alone, ..self.chosen }, ..self }
    }

    /// Keys that there is room for; 100,000 unless chosen.
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
    /// let share = Share::builder(Known, quota).capacity(1_000).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capacity(self, keys: u64) -> Self {
        Self { capacity: keys, ..self }
    }

    /// The limiter, and its task that beats. That ends within an interval after the last clone of
    /// the limiter is dropped, and takes the node off the roll.
    ///
    /// # Errors
    ///
    /// What is out of range, or that this is not called on tokio.
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
    /// assert!(Share::builder(Known, Quota::per_hour(0)).build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Share<R, C>, ShareError> {
        let Self { roll, clock, quota, chosen, capacity } = self;
        let interval = Duration::from_millis(10)..=Duration::from_secs(3_600);
        if !interval.contains(&chosen.interval) {
            return Err(ShareError::Interval);
        }
        if chosen.alone == Alone::Of(0) {
            return Err(ShareError::Alone);
        }
        let runtime = Handle::try_current().map_err(|_| ShareError::NoRuntime)?;
        let limiter = |quota: Quota| -> Result<Limiter<[u8], DynamicGcra, C>, ShareError> {
            let builder = Limiter::builder(quota).algorithm(DynamicGcra::new()).capacity(capacity);
            builder.clock(clock.clone()).build().map_err(ShareError::Limiter)
        };
        let alone = match chosen.alone {
            Alone::Deny => None,
            Alone::Of(nodes) => Some(limiter(part(quota, nodes))?),
        };
        Ok(Share::start(roll, limiter(quota)?, alone, quota, chosen, &runtime))
    }
}

/// Why there is no [`Share`].
///
/// ```
/// use tollgate_redis::ShareError;
/// assert_eq!(ShareError::NoRuntime.to_string(), "a node beats by a task: build it on tokio");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareError {
    /// An interval that is too short or too long.
    Interval,
    /// A quota divided by no nodes.
    Alone,
    /// It is not built on tokio.
    NoRuntime,
    /// The quota, or the capacity.
    Limiter(BuildError),
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interval => f.write_str("the time between two beats is 10 ms to 1 hour"),
            Self::Alone => f.write_str("a node alone takes a part of 1 or more nodes"),
            Self::NoRuntime => f.write_str("a node beats by a task: build it on tokio"),
            Self::Limiter(error) => write!(f, "the node's own limiter: {error}"),
        }
    }
}

impl core::error::Error for ShareError {}
