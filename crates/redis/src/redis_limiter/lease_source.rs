//! The server as a bank, from which leases come.

use super::RedisLimiter;
use crate::{Grant, LeaseSource, Unavailable, LeaseRequest};

/// A [`RedisLimiter`] built with [`leases`](crate::CentralBuilder::leases). One built without fails each
/// call, with an error that says so.
impl LeaseSource for RedisLimiter {
    async fn take(&self, key: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
        Self::take(self, key, want.min, want.max).await
    }
}
