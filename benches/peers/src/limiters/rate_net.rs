//! rate-net, with the capacity that its documentation advises.

use rate_net::{DirectLimiter, Eviction, RateLimiter};

use crate::peer::{Direct, Keyed};
use crate::plan::Plan;

/// Token buckets in shards of a hash table, each behind a `RwLock` that is locked for writing only to
/// insert a key. Its capacity is twice the expected keys: the advice is 1.5 to 2 times. At the capacity
/// it evicts a key, and keeps what the key owes in a smaller record until that is restored. If there is
/// no room for the record, the debt goes into a sketch that keys share, or the new key is denied.
#[derive(Debug)]
pub struct RateNet(RateLimiter);

impl Keyed for RateNet {
    const NAME: &'static str = "rate-net";
    const EXACT: bool = true;
    const BOUNDED_BY: Option<&'static str> = Some("capacity of twice the expected keys");
    type Key = u64;

    fn new(plan: Plan, keys: usize) -> Self {
        let builder = RateLimiter::builder().quota(plan.rate, plan.period).burst(plan.burst);
        let capacity = Eviction::capacity(keys.saturating_mul(2));
        Self(builder.eviction(capacity).try_build().expect("in range"))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.0.check(*key).is_allow()
    }

    fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
        Some(self.0.check_n(*key, n).is_allow())
    }
}

/// The same token bucket alone, without a lock.
#[derive(Debug)]
pub struct RateNetDirect(DirectLimiter);

impl Direct for RateNetDirect {
    const NAME: &'static str = "rate-net";

    fn new(plan: Plan) -> Self {
        let builder = RateLimiter::builder().quota(plan.rate, plan.period).burst(plan.burst);
        Self(builder.try_build_direct().expect("in range"))
    }

    #[inline]
    fn check(&self) -> bool {
        self.0.check().is_allow()
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(self.0.check_n(n).is_allow())
    }
}
