//! The usual limiter by one call.

use core::fmt;

use tollgate::{BuildError, Quota};

use crate::redis_limiter::{RedisLimiter, RedisLimiterError};
use crate::store::{Store, StoreError};
use crate::with_fallback::{Fallback, WithFallback};

/// The keys that the fallback of [`WithFallback::open`] has room for.
const FALLBACK_CAPACITY: u64 = 10_000;

impl WithFallback {
    /// The usual limiter: a token bucket for each key on the server at `url`, shared by `processes` processes, each
    /// of which uses its part of the quota while the server gives no decision.
    ///
    /// It is short for a [`Store`], a [`RedisLimiter`] and a [`Fallback::local`] for 10,000 keys, all with their
    /// defaults. All limiters with this `name` on the server share their keys. It connects when it is first
    /// asked, within a tokio runtime. For several limits on one server, build one `Store`, which shares its connections.
    ///
    /// # Errors
    ///
    /// The URL, the name or the quota is out of range; the error says what to do. A server that cannot be reached
    /// is no error: the fallback then decides.
    ///
    /// ```
    /// use tollgate_redis::{Quota, WithFallback};
    ///
    /// let quota = Quota::per_second(100).burst(20);
    /// let gate = WithFallback::open("redis://127.0.0.1:6379", "api", quota, 4)?;
    /// assert_eq!(gate.remote().quota(), quota);
    /// # Ok::<(), tollgate_redis::OpenError>(())
    /// ```
    pub fn open(url: &str, name: &str, quota: Quota, processes: u32) -> Result<Self, OpenError> {
        let store = Store::builder(url).build()?;
        let remote = RedisLimiter::builder(&store, name, quota).build()?;
        let fallback = Fallback::local(&remote, processes, FALLBACK_CAPACITY)?;
        Ok(Self::new(remote, fallback))
    }
}

/// Why [`WithFallback::open`] cannot build the limiter.
///
/// ```
/// use tollgate_redis::{OpenError, Quota, WithFallback};
/// let error = WithFallback::open("redis://127.0.0.1:6379", "api", Quota::per_second(0), 4);
/// assert!(matches!(error.unwrap_err(), OpenError::Limiter(_)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL is not that of a server.
    Store(StoreError),
    /// The name is out of range, or the quota cannot be counted on the server.
    Limiter(RedisLimiterError),
    /// A process's part of the quota cannot be counted in the process.
    Fallback(BuildError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Limiter(error) => error.fmt(f),
            Self::Fallback(error) => write!(f, "the part of one process: {error}"),
        }
    }
}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Limiter(error) => error.source(),
            Self::Fallback(error) => Some(error),
        }
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<RedisLimiterError> for OpenError {
    fn from(error: RedisLimiterError) -> Self {
        Self::Limiter(error)
    }
}

impl From<BuildError> for OpenError {
    fn from(error: BuildError) -> Self {
        Self::Fallback(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Origin;

    #[test]
    fn each_mistake_has_its_error() {
        let open = |url, name, quota, processes| {
            WithFallback::open(url, name, quota, processes).map(drop).expect_err("a mistake")
        };
        let (url, quota) = ("redis://127.0.0.1:6379", Quota::per_second(5));
        assert!(matches!(open("nowhere", "api", quota, 1), OpenError::Store(_)));
        assert!(matches!(open(url, "", quota, 1), OpenError::Limiter(_)));
        let error = open(url, "api", Quota::per_second(0), 1);
        assert!(matches!(error, OpenError::Limiter(_)));
        assert!(error.to_string().contains("the limit is 0"), "{error}");
        // A thousandth of it is less than one a year.
        let error = open(url, "api", Quota::new(1, core::time::Duration::from_secs(86_400)), 1_000);
        assert!(matches!(error, OpenError::Fallback(_)));
        assert!(error.to_string().starts_with("the part of one process: "), "{error}");
    }

    #[tokio::test]
    async fn without_a_server_a_process_has_its_part_of_the_quota() {
        // A port that was free a moment ago.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("bound"));
        drop(listener);
        let quota = Quota::per_day(20);
        let gate = WithFallback::open(&url, "api", quota, 4).expect("in range");
        let mut admitted = 0;
        for _ in 0..30 {
            let answer = gate.check("alice").await;
            assert_eq!(answer.origin, Origin::Fallback);
            admitted += u32::from(answer.decision.is_ok());
        }
        assert_eq!(admitted, 5, "a quarter of 20");
    }
}
