//! The server as a bank, from which leases come.

use super::Central;
use crate::{Bank, Grant, Unavailable, Want};

/// A [`Central`] built with [`leases`](crate::CentralBuilder::leases). One built without fails each
/// call, with an error that says so.
impl Bank for Central {
    async fn take(&self, key: &[u8], want: Want) -> Result<Grant, Unavailable> {
        let taken = Self::take(self, key, want.least, want.most).await?;
        let crate::Taken { cells, lifetime, stated, retry_after } = taken;
        Ok(Grant { cells, lifetime, stated, retry_after })
    }
}
