//! atomic_token_bucket: cells and the time of the last refill in separate atomics.
//!
//! It may grant more than the quota. A full bucket keeps the time since its last whole cell, and so has
//! up to one cell more than the burst. A thread that is delayed after it has claimed the passed time
//! adds its cells late, perhaps to a bucket that others have refilled and spent meanwhile; with keys, the
//! lock of a shard excludes that.

use ::atomic_token_bucket::{KeyedRateLimiter, TokenBucket};

use crate::peer::{Direct, Keyed};
use crate::plan::Plan;

/// The number of shards in the crate's own benchmarks.
const SHARDS: usize = 8;

fn full_bucket(plan: Plan) -> TokenBucket {
    let per_second = f64::from(plan.rate) / plan.period.as_secs_f64();
    TokenBucket::new(plan.burst.into(), plan.burst.into(), per_second)
}

/// A bucket for each key in dashmap 5 with `std`'s hasher, where every call locks a shard for writing.
/// The target capacity is the expected keys. After a quarter as many insertions, the calling thread
/// goes through all shards. It reduces each that holds half more keys than its share to that share, and
/// forgets the keys that were asked longest ago.
pub struct AtomicTokenBuckets(KeyedRateLimiter<u64>);

impl std::fmt::Debug for AtomicTokenBuckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtomicTokenBuckets").finish_non_exhaustive()
    }
}

impl Keyed for AtomicTokenBuckets {
    const NAME: &'static str = "atomic_token_bucket";
    // See the head of this file.
    const EXACT: bool = false;
    const BOUNDED_BY: Option<&'static str> = Some("expected keys as target capacity, LRU");
    type Key = u64;

    fn new(plan: Plan, keys: usize) -> Self {
        Self(KeyedRateLimiter::new(keys, full_bucket(plan), SHARDS))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.0.consume_tokens(*key, 1).is_ok()
    }

    fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
        Some(self.0.consume_tokens(*key, n.into()).is_ok())
    }
}

/// One bucket.
pub struct AtomicTokenBucket(TokenBucket);

impl std::fmt::Debug for AtomicTokenBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtomicTokenBucket").finish_non_exhaustive()
    }
}

impl Direct for AtomicTokenBucket {
    const NAME: &'static str = "atomic_token_bucket";
    // See the head of this file.
    const EXACT: bool = false;

    fn new(plan: Plan) -> Self {
        Self(full_bucket(plan))
    }

    #[inline]
    fn check(&self) -> bool {
        self.0.consume_tokens(1).is_ok()
    }

    fn check_n(&self, n: u32) -> Option<bool> {
        Some(self.0.consume_tokens(n.into()).is_ok())
    }
}
