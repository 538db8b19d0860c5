//! The interface that all limiters of this crate share, behind
//! [`WithFallback`](crate::WithFallback).

use core::future::Future;

use tollgate::Clock;

use crate::answer::{Answer, Origin};
use crate::batch::{Batched, CounterStore};
use crate::lease::Leased;
use crate::redis_limiter::RedisLimiter;
use crate::unavailable::Unavailable;

/// A limiter that may have to call the server. [`WithFallback`](crate::WithFallback) wraps one.
///
/// ```
/// use tollgate_redis::{Answer, Remote, Unavailable};
///
/// /// A server that is always away.
/// struct Away;
/// impl Remote for Away {
///     async fn ask(&self, _key: &[u8], _n: u64) -> Result<Answer, Unavailable> {
///         Err(Unavailable::Disconnected)
///     }
///     fn max_at_once(&self) -> u64 {
///         1
///     }
/// }
/// ```
pub trait Remote: Send + Sync + 'static {
    /// Decides about `n` cells of a key. The call ends within the store's deadline.
    fn ask(&self, key: &[u8], n: u64) -> impl Future<Output = Result<Answer, Unavailable>> + Send;

    /// The answer, if it is known without a call to the server.
    fn ask_now(&self, key: &[u8], n: u64) -> Option<Answer> {
        let _ = (key, n);
        None
    }

    /// The largest number of cells that one request can be granted.
    fn max_at_once(&self) -> u64;
}

impl Remote for RedisLimiter {
    async fn ask(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        let decision = self.check_n(key, n).await?;
        Ok(Answer { decision, origin: Origin::Server })
    }

    fn max_at_once(&self) -> u64 {
        Self::max_at_once(self)
    }
}

impl<C: Clock + Send + Sync + 'static> Remote for Leased<RedisLimiter, C> {
    async fn ask(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        self.check_n(key, n).await
    }

    fn ask_now(&self, key: &[u8], n: u64) -> Option<Answer> {
        self.try_check(key, n)
    }

    fn max_at_once(&self) -> u64 {
        self.source().max_at_once()
    }
}

impl<L: CounterStore, C: Clock + Send + Sync + 'static> Remote for Batched<L, C> {
    async fn ask(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        self.check_n(key, n).await
    }

    fn ask_now(&self, key: &[u8], n: u64) -> Option<Answer> {
        self.try_check(key, n)
    }

    fn max_at_once(&self) -> u64 {
        self.limit()
    }
}
