//! Decisions of a composite.

use core::fmt;
use core::time::Duration;

use crate::decision::{Denied, Permit};

/// A request that all enforced limits of a [`Composite`](super::Composite) have admitted. Each of
/// them was charged.
///
/// ```
/// use tollgate::composite::Composite;
/// use tollgate::{Direct, Quota, Tick};
///
/// let both = Composite::<()>::builder()
///     .shared("per second", Direct::new(Quota::per_second(5))?)
///     .shared("per hour", Direct::new(Quota::per_hour(9))?)
///     .build()?;
/// let granted = both.ask(&()).cells(3).at(Tick::ZERO).check()?;
/// assert_eq!(granted.tightest(), "per second");
/// assert_eq!(granted.remaining(), 2);
/// assert_eq!(granted.permit().limit(), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says that the cells were charged"]
pub struct CompositePermit {
    pub(super) tightest: &'static str,
    pub(super) permit: Permit,
    pub(super) delay: Duration,
    pub(super) would_deny: Option<&'static str>,
}

impl CompositePermit {
    /// The name of the enforced limit with the fewest cells left; if several have as few, the
    /// first.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(9))?;
    /// let one = Composite::<()>::builder().shared("all", gate).build()?;
    /// assert_eq!(one.check(&())?.tightest(), "all");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tightest(&self) -> &'static str {
        self.tightest
    }

    /// The permit of the [tightest](Self::tightest) limit.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// The whole cells that could be spent right after this decision: the minimum over the enforced
    /// limits.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(9))?;
    /// let one = Composite::<()>::builder().shared("all", gate).build()?;
    /// assert_eq!(one.check(&())?.remaining(), 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.permit.remaining()
    }

    /// How long to wait before going ahead: zero, unless the last enforced limit [sets a
    /// pace](Permit::delay).
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, LeakyQueue, Quota, Tick};
    /// let queue = Direct::builder(Quota::per_second(5)).algorithm(LeakyQueue::new()).build()?;
    /// let paced = Composite::<()>::builder().shared("pace", queue).build()?;
    /// assert!(paced.ask(&()).at(Tick::ZERO).check()?.delay().is_zero());
    /// assert_eq!(paced.ask(&()).at(Tick::ZERO).check()?.delay().as_millis(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// The name of the first shadow limit that would have denied.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Composite::<()>::builder()
    ///     .shared("all", Direct::new(Quota::per_hour(9))?)
    ///     .shared("candidate", Direct::new(Quota::per_hour(1))?)
    ///     .shadow()
    ///     .build()?;
    /// assert_eq!(gate.check(&())?.would_deny(), None);
    /// assert_eq!(gate.check(&())?.would_deny(), Some("candidate"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn would_deny(&self) -> Option<&'static str> {
        self.would_deny
    }
}

/// A request that an enforced limit of a [`Composite`](super::Composite) has denied. No limit stays
/// charged for it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::composite::Composite;
/// use tollgate::{Direct, Quota, Tick};
///
/// let both = Composite::<()>::builder()
///     .shared("per second", Direct::new(Quota::per_second(5))?)
///     .shared("per minute", Direct::new(Quota::per_minute(6))?)
///     .build()?;
/// assert!(both.ask(&()).cells(5).at(Tick::ZERO).check().is_ok());
/// let denied = both.ask(&()).cells(3).at(Tick::ZERO).check().unwrap_err();
/// assert_eq!(denied.limit_name(), "per second"); // it denied first, though its own wait is 600 ms
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(20)));
/// assert_eq!(denied.remaining(), 0);
/// assert_eq!(denied.to_string(), "denied by the limit \"per second\", retry after 20s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a denial says when to come back"]
pub struct CompositeDenied {
    pub(super) limit_name: &'static str,
    pub(super) denied: Denied,
    pub(super) retry_after: Option<Duration>,
    pub(super) remaining: u64,
    pub(super) by_requests_in_flight: bool,
}

impl CompositeDenied {
    /// The name of the limit that denied; if several would have, the first.
    #[must_use]
    pub fn limit_name(&self) -> &'static str {
        self.limit_name
    }

    /// The denial of the [limit that denied](Self::limit_name).
    pub fn denied(&self) -> &Denied {
        &self.denied
    }

    /// The shortest time after which all enforced limits would admit the same request, if nothing
    /// else happened to its keys; rounded up to a nanosecond. `None` if the request asks for more
    /// cells than one of the limits can ever admit.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(9))?;
    /// let one = Composite::<()>::builder().shared("all", gate).build()?;
    /// assert_eq!(one.check_n(&(), 10).unwrap_err().retry_after(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether the limit that denied is one of requests in flight. When one of those ends is not known;
    /// [`retry_after`](Self::retry_after) has the wait of the other limits, or a nanosecond.
    #[must_use]
    pub fn by_requests_in_flight(&self) -> bool {
        self.by_requests_in_flight
    }

    /// The whole cells that could be spent now: the minimum over the enforced limits.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(9))?;
    /// let one = Composite::<()>::builder().shared("all", gate).build()?;
    /// assert_eq!(one.check_n(&(), 10).unwrap_err().remaining(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }
}

impl fmt::Display for CompositeDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "denied by the limit {:?}, ", self.limit_name)?;
        match self.retry_after {
            _ if self.by_requests_in_flight => f.write_str("too many requests are in flight"),
            Some(wait) => write!(f, "retry after {wait:?}"),
            None => f.write_str("asked for more cells than can ever fit"),
        }
    }
}

impl core::error::Error for CompositeDenied {}
