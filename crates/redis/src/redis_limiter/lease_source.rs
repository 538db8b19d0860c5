//! A limiter on the server as a source of leases.

use core::time::Duration;

use super::RedisLimiter;
use crate::lease::{Grant, LeaseRequest, LeaseSource};
use crate::unavailable::Unavailable;

/// A [`RedisLimiter`] built with [`leases`](crate::RedisLimiterBuilder::leases). Without leases
/// each call fails with an error that says so.
impl LeaseSource for RedisLimiter {
    async fn take(&self, key: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
        Self::take(self, key, want.min, want.max).await
    }

    /// The deadline of the store.
    fn deadline(&self) -> Duration {
        self.store().deadline()
    }
}
