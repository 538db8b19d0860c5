//! The server as a bank, from which leases come.

use super::RedisLimiter;
use crate::{Grant, LeaseSource, Unavailable, Want};

/// A [`RedisLimiter`] built with [`leases`](crate::CentralBuilder::leases). One built without fails each
/// call, with an error that says so.
impl LeaseSource for RedisLimiter {
    async fn take(&self, key: &[u8], want: Want) -> Result<Grant, Unavailable> {
        let taken = Self::take(self, key, want.least, want.most).await?;
        let crate::Taken { cells, lifetime, parts, retry_after } = taken;
        Ok(Grant { cells, lifetime, parts, retry_after })
    }
}
