//! The builder of a limiter on the server.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tollgate::{Quota, QuotaError};

use super::script_codec::Codec;
use super::{Inner, RedisLimiter};
use crate::algorithm::Algorithm;
use crate::server_key::{self as key, is_name};
use crate::store::Store;

/// Configures a [`RedisLimiter`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisLimiterBuilder {
    store: Store,
    name: String,
    quota: Quota,
    algorithm: Algorithm,
    lease: Option<Duration>,
}

impl RedisLimiterBuilder {
    pub(super) fn new(store: Store, name: String, quota: Quota) -> Self {
        Self { store, name, quota, algorithm: Algorithm::default(), lease: None }
    }

    /// Counts by this algorithm. The default is a token bucket.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, Algorithm, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "orders", Quota::per_day(20))
    ///     .algorithm(Algorithm::aligned_window());
    /// assert!(gate.build().is_ok());
    /// # Ok::<(), tollgate_redis::StoreError>(())
    /// ```
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Allows cells to be [taken](RedisLimiter::take) ahead and kept for this long, from 1
    /// microsecond to a day. A bucket may lower the lifetime so that half of its burst remains, a
    /// counter to half of its period. Cells that arrive after their lifetime are lost, so it should be
    /// at least as long as the store's [deadline](crate::StoreBuilder::deadline).
    ///
    /// All requests are then held to slightly less, so that the quota is kept whatever happens to
    /// the leases. A bucket's burst is lowered by what comes back in the lifetime, and the windows
    /// of a sliding counter are longer by it. Fixed windows are unchanged, because a lease ends
    /// with its window. All processes need the same lifetime: if two lifetimes of a bucket differ
    /// by `d`, the rate times `d` may be spent in addition. [`RedisLimiter`] has the bound for
    /// processes whose quotas differ too. A counter counts each lifetime separately.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, RedisLimiterError, Algorithm, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(1_000))
    ///     .leases(Duration::from_millis(50));
    /// assert!(gate.clone().build().is_ok());
    /// let log = gate.algorithm(Algorithm::sliding_log());
    /// assert_eq!(log.build().unwrap_err(), RedisLimiterError::LeaseOfLog);
    /// # Ok::<(), tollgate_redis::StoreError>(())
    /// ```
    pub fn leases(mut self, lifetime: Duration) -> Self {
        self.lease = Some(lifetime);
        self
    }

    /// Builds the limiter.
    ///
    /// # Errors
    ///
    /// The name is out of range, or the quota cannot be counted by this algorithm.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, RedisLimiterError, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let built = RedisLimiter::builder(&store, "{}", Quota::per_second(9)).build();
    /// assert_eq!(built.unwrap_err(), RedisLimiterError::Name);
    /// # Ok::<(), tollgate_redis::StoreError>(())
    /// ```
    pub fn build(self) -> Result<RedisLimiter, RedisLimiterError> {
        if !is_name(&self.name) {
            return Err(RedisLimiterError::Name);
        }
        let codec = Codec::new(&self.algorithm, &self.quota, self.lease)?;
        let key_head = key::head(self.store.prefix(), &self.name, &codec.shape());
        let Self { store, quota, algorithm, .. } = self;
        let inner = Inner { script: codec.script(), store, codec, quota, algorithm, key_head };
        Ok(RedisLimiter { inner: Arc::new(inner), now_micros: None })
    }
}

/// Why a [`RedisLimiter`] cannot be built; its text says what to do instead.
///
/// ```
/// use tollgate::QuotaError;
/// use tollgate_redis::RedisLimiterError;
/// let error = RedisLimiterError::Quota(QuotaError::ZeroPeriod);
/// assert_eq!(error.to_string(), "the period is 0: give it a length, for example 1 s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisLimiterError {
    /// The name cannot be part of a key.
    Name,
    /// No limiter can keep this quota.
    Quota(QuotaError),
    /// A window is not a whole number of microseconds.
    NotWholeMicros,
    /// The windows are too long for this many sub-windows.
    WindowsTooLong,
    /// The lifetime of leases is zero, or more than a day.
    LeaseLifetime,
    /// The burst is too small for leases, or the rate is too uneven.
    NoRoomForLeases,
    /// A sliding log has no leases.
    LeaseOfLog,
    /// A sliding log has more than [`Algorithm::MAX_LOG_LIMIT`] cells.
    LogTooLarge,
}

impl fmt::Display for RedisLimiterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a name has 1 to 64 bytes and no braces: use one like \"login\"",
            Self::Quota(error) => return error.fmt(f),
            Self::NotWholeMicros => {
                "on a server a window is a whole number of microseconds: round the period, or use \
                 the token bucket"
            }
            Self::WindowsTooLong => {
                "the period times the older windows is above 71 years: shorten it, or use fewer"
            }
            Self::LeaseLifetime => "leases are kept from 1 microsecond to a day: 50 ms is usual",
            Self::NoRoomForLeases => {
                "this burst leaves no room for leases: raise it to more than what comes back in \
                 their lifetime, choose a limit that divides the period more evenly, or ask the \
                 server each time"
            }
            Self::LeaseOfLog => {
                "an exact log has no leases: ask the server each time, or use the sliding counter"
            }
            Self::LogTooLarge => {
                "a sliding log on a server has 10,000 cells at most: lower the limit, or use the \
                 sliding counter"
            }
        })
    }
}

impl core::error::Error for RedisLimiterError {}
