//! Limiters with one bucket.

use std::time::Duration;

use governor::DefaultDirectRateLimiter;
use tollgate::{Direct as Gate, Tick};

use super::ours;
use crate::bucket::{Bucket, Pace, Watch};
use crate::peer::Direct;
use crate::plan::Plan;

/// tollgate.
#[derive(Debug)]
pub struct TollgateDirect(Gate);

impl TollgateDirect {
    /// With the time given.
    #[inline]
    #[must_use]
    pub fn check_at(&self, now_nanos: u64) -> bool {
        self.0.ask().at(Tick::from_nanos(now_nanos)).check().is_ok()
    }
}

impl Direct for TollgateDirect {
    const NAME: &'static str = "tollgate";

    fn new(plan: Plan) -> Self {
        Self(Gate::new(ours::quota(plan)).expect("in range"))
    }

    #[inline]
    fn check(&self) -> bool {
        self.0.check().is_ok()
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(self.0.check_n(n.into()).is_ok())
    }
}

/// The plan as a governor quota.
pub(super) fn governor_quota(plan: Plan) -> governor::Quota {
    let every = governor::Quota::with_period(plan.interval()).expect("not zero");
    every.allow_burst(plan.burst.try_into().expect("not zero"))
}

/// governor as `RateLimiter::direct` creates it.
#[derive(Debug)]
pub struct GovernorDirect(DefaultDirectRateLimiter);

impl Direct for GovernorDirect {
    const NAME: &'static str = "governor";

    fn new(plan: Plan) -> Self {
        Self(governor::RateLimiter::direct(governor_quota(plan)))
    }

    #[inline]
    fn check(&self) -> bool {
        self.0.check().is_ok()
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(matches!(self.0.check_n(n.try_into().expect("not zero")), Ok(Ok(()))))
    }
}

/// ratelimit, with the standard library's clock.
pub struct Ratelimit(ratelimit::Ratelimiter);

impl std::fmt::Debug for Ratelimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ratelimit").finish_non_exhaustive()
    }
}

impl Direct for Ratelimit {
    const NAME: &'static str = "ratelimit";

    fn new(plan: Plan) -> Self {
        let burst = plan.burst.into();
        let builder = ratelimit::Ratelimiter::builder(plan.rate.into()).period(plan.period);
        Self(builder.max_tokens(burst).initial_available(burst).build().expect("in range"))
    }

    #[inline]
    fn check(&self) -> bool {
        self.0.try_wait().is_ok()
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(self.0.try_wait_n(n.into()).is_ok())
    }
}

/// leaky-bucket by `try_acquire`, which needs no runtime. It refills at whole milliseconds, and
/// reads no clock while its balance lasts.
pub struct LeakyBucket(leaky_bucket::RateLimiter);

impl std::fmt::Debug for LeakyBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeakyBucket").finish_non_exhaustive()
    }
}

impl Direct for LeakyBucket {
    const NAME: &'static str = "leaky-bucket";

    fn new(plan: Plan) -> Self {
        let burst = usize::try_from(plan.burst).expect("64 bits");
        let interval = plan.interval().max(Duration::from_millis(1));
        let refill = interval.as_nanos() / plan.interval().as_nanos();
        let refill = usize::try_from(refill).expect("a few");
        let mut builder = leaky_bucket::RateLimiter::builder();
        Self(builder.max(burst).initial(burst).interval(interval).refill(refill).build())
    }

    #[inline]
    fn check(&self) -> bool {
        self.0.try_acquire(1)
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(self.0.try_acquire(usize::try_from(n).expect("64 bits")))
    }
}

/// aerorate.
pub struct AerorateDirect(aerorate::RateLimiter);

impl std::fmt::Debug for AerorateDirect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AerorateDirect").finish_non_exhaustive()
    }
}

impl Direct for AerorateDirect {
    const NAME: &'static str = "aerorate";

    fn new(plan: Plan) -> Self {
        let quota = aerorate::Quota::with_period(plan.rate, plan.period).allow_burst(plan.burst);
        Self(aerorate::RateLimiter::new(quota))
    }

    #[inline]
    fn check(&self) -> bool {
        self.0.check().is_allowed()
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(self.0.check_n(n).is_allowed())
    }
}

/// The bucket that a user would write, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct BucketDirect {
    bucket: Padded,
    pace: Pace,
    watch: Watch,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Bucket);

impl BucketDirect {
    /// With the time given.
    #[inline]
    #[must_use]
    pub fn check_at(&self, now_nanos: u64) -> bool {
        self.bucket.0.charge(&self.pace, now_nanos, 1)
    }
}

impl Direct for BucketDirect {
    const NAME: &'static str = "bucket";

    fn new(plan: Plan) -> Self {
        Self { bucket: Padded::default(), pace: Pace::new(plan), watch: Watch::start() }
    }

    #[inline]
    fn check(&self) -> bool {
        self.check_at(self.watch.nanos())
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(self.bucket.0.charge(&self.pace, self.watch.nanos(), n.into()))
    }
}
