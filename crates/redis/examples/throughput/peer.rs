//! Another limiter on the same server: redis-cell, a module that makes a decision by one command.

use redis::aio::MultiplexedConnection;
use tollgate::Quota;

/// redis-cell over one connection, on which the commands of all tasks are in flight together.
pub(crate) struct RedisCell {
    connection: MultiplexedConnection,
    quota: Quota,
}

impl RedisCell {
    /// `None` if the server has not loaded the module.
    pub(crate) async fn of(url: &str, quota: Quota) -> redis::RedisResult<Option<Self>> {
        let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        let known: Vec<Option<redis::Value>> = redis::cmd("COMMAND")
            .arg("INFO")
            .arg("CL.THROTTLE")
            .query_async(&mut connection)
            .await?;
        let is_loaded = known.iter().any(Option::is_some);
        Ok(is_loaded.then_some(Self { connection, quota }))
    }

    /// Whether a request is admitted. The real burst is one cell more than the argument of
    /// `CL.THROTTLE`.
    pub(crate) async fn check(&self, key: &[u8]) -> redis::RedisResult<bool> {
        let (limited, ..): (i64, i64, i64, i64, i64) = redis::cmd("CL.THROTTLE")
            .arg(key)
            .arg(self.quota.burst_cells() - 1)
            .arg(self.quota.limit())
            .arg(self.quota.period().as_secs())
            .query_async(&mut self.connection.clone())
            .await?;
        Ok(limited == 0)
    }
}
