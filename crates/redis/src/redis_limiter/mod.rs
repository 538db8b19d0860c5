//! A limiter whose state is on the server.

mod builder;
mod lease_source;
mod script_codec;

pub use builder::{RedisLimiterBuilder, RedisLimiterError};

use core::time::Duration;
use std::sync::Arc;

use tollgate::{Decision, Quota};

use self::script_codec::{Codec, Decoded};
use crate::algorithm::Algorithm;
use crate::lease::Grant;
use crate::script::Script;
use crate::server_key as key;
use crate::store::Store;
use crate::unavailable::Unavailable;

/// The largest number of cells that one call takes, unless it needs more. Scripts multiply it exactly.
const TAKEN_MAX: u64 = 1 << 20;

/// One quota for each key, shared by all processes that use the same server. Each decision is one
/// round trip and one script, which the server runs atomically. Cheap to clone.
///
/// Limiters with the same [`Store`] prefix, name and algorithm share the state of their keys,
/// whichever process they are in.
///
/// # When the quota changes
///
/// A key keeps the cells that it has used. If the quota is raised, the rest of the new burst or
/// limit is available immediately. If it is lowered, a key in a bucket owes the new burst at most.
/// A window, a counter and a log continue to count, so a key that has used more than the new limit
/// is denied for two periods at most. Fixed windows and sliding counters start afresh with a new
/// period, and counters also with another number of sub-windows or another
/// [lifetime of leases](crate::RedisLimiterBuilder::leases). A bucket and a log carry over: a
/// bucket's debt is a number of cells, which drains at the new rate from the last charge on, and is
/// forgotten once the rate of the last charge would have drained it. A log takes the memory of its
/// largest limit until the key has been idle for a period.
///
/// Processes may have different quotas, as during a roll-out. In any span `w`, all of them together are
/// granted no more than the larger burst plus the larger rate times `w` from a bucket, and no more than
/// the larger limit from windows, counters or logs of one period. Windows, counters and logs of
/// different periods add up to the sum of both. With [leases](crate::Leased) from a bucket, they may
/// spend up to `max(rate) * max(lifetime) - min(rate * lifetime)` more, over all processes: nothing if
/// all have the same quota and lifetime.
///
/// **Guarantee.** Decisions are those of the algorithm of the same name in [`tollgate`], made one
/// after the other by the server's clock in whole microseconds. No rate is rounded, and no client's
/// clock matters. On a single server a request is charged at most once: a request that may have
/// been charged is never sent again. The client library of a cluster may repeat a call whose
/// connection broke.
///
/// **Not guaranteed.** If the server forgets a key (`FLUSHALL`, eviction, a restart without
/// persistence, a failover to a replica that lacks the last charges), the key begins anew with one
/// fresh burst or window, each time. If the server's clock is set back, keys in debt stay in debt
/// for that much longer, but no longer than until a bucket's burst has come back, two periods of a
/// window or a log, or three of a counter. If the clock is set ahead, keys are restored that much
/// earlier. A call that ended with [`Unavailable::TimedOut`] or [`Unavailable::Disconnected`] may
/// have been charged.
///
/// Keys are any bytes. A key of more than 200 bytes, or with a brace in it, is replaced by its
/// SHA-1. The chance that two of 10^12 keys collide is 10^-24.
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate_redis::{RedisLimiter, Store};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::builder("redis://127.0.0.1:6379").build()?;
/// let gate = RedisLimiter::builder(&store, "login", Quota::per_minute(10)).build()?;
/// match gate.check("192.0.2.7").await? {
///     Ok(permit) => println!("{} left", permit.remaining()),
///     Err(denied) => println!("retry after {:?}", denied.retry_after()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisLimiter {
    inner: Arc<Inner>,
    /// A time given by a test, in place of the server's clock.
    now_micros: Option<u64>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    codec: Codec,
    script: Script,
    quota: Quota,
    algorithm: Algorithm,
    /// The beginning of each key on the server: everything before the caller's key.
    key_head: Vec<u8>,
}

/// How many cells a script may grant.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    min: u64,
    max: u64,
}

impl Wanted {
    /// No cells: the request only asks for the key's state.
    const NONE: Self = Self { min: 0, max: 0 };
}

impl RedisLimiter {
    /// A limiter of this name. Names are 1 to 64 bytes without braces.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_redis::{RedisLimiter, Algorithm, Store};
    ///
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "search", Quota::per_hour(1_000))
    ///     .algorithm(Algorithm::sliding_counter())
    ///     .build()?;
    /// assert_eq!(gate.lease_lifetime(), Duration::ZERO);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(store: &Store, name: impl Into<String>, quota: Quota) -> RedisLimiterBuilder {
        RedisLimiterBuilder::new(store.clone(), name.into(), quota)
    }

    /// Decides about one cell.
    ///
    /// # Errors
    ///
    /// The server gave no decision in time.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter) -> Result<(), tollgate_redis::Unavailable> {
    /// if gate.check("alice").await?.is_err() {
    ///     println!("429");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Result<Decision, Unavailable> {
        self.check_n(key, 1).await
    }

    /// Decides about `n` cells, all or none. Zero cells are always admitted. More cells than the
    /// burst or the limit are never admitted, and neither are more than 1,000 at once of a sliding
    /// log ([`Algorithm::MAX_LOG_CELLS_PER_CALL`]). Such a denial has no retry time.
    ///
    /// # Errors
    ///
    /// The server gave no decision in time.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter, bytes: &[u8]) -> Result<(), tollgate_redis::Unavailable> {
    /// let decision = gate.check_n("alice", bytes.len() as u64).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_n(&self, key: impl AsRef<[u8]>, n: u64) -> Result<Decision, Unavailable> {
        self.decide(key.as_ref(), n, true).await
    }

    /// Answers as [`check_n`](Self::check_n) would, without a charge. A sliding log that counts
    /// denials does not count this one.
    ///
    /// # Errors
    ///
    /// The server gave no decision in time.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter) -> Result<(), tollgate_redis::Unavailable> {
    /// let left = gate.peek_n("alice", 0).await?.map(|permit| permit.remaining());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn peek_n(&self, key: impl AsRef<[u8]>, n: u64) -> Result<Decision, Unavailable> {
        self.decide(key.as_ref(), n, false).await
    }

    /// Forgets what a key was charged.
    ///
    /// # Errors
    ///
    /// The server did not confirm it in time.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter) -> Result<(), tollgate_redis::Unavailable> {
    /// gate.reset("alice").await
    /// # }
    /// ```
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), Unavailable> {
        self.inner.store.delete(&self.redis_key(key)).await
    }

    /// Takes at least `min` cells or none, and up to `max` (but no more than `min` or 1,048,576 a
    /// call, whichever is larger). The cells are charged now. They may be spent until their lifetime ends, which is
    /// counted from when the call was *sent*. With `max` = 0, nothing is charged: the call asks for the key's state.
    ///
    /// **Guarantee.** Over any number of processes, what is *spent* in any span keeps the quota,
    /// with [leases](RedisLimiterBuilder::leases) as long as the limiter was built for. A process
    /// that dies with cells only loses them. The clocks of processes must run evenly; they need not
    /// agree.
    ///
    /// # Errors
    ///
    /// The server gave no decision in time, or the limiter was built without leases.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter) -> Result<(), tollgate_redis::Unavailable> {
    /// let asked = std::time::Instant::now();
    /// let taken = gate.take("alice", 1, 100).await?;
    /// let spend_until = asked + taken.lifetime;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(
        &self,
        key: impl AsRef<[u8]>,
        min: u64,
        max: u64,
    ) -> Result<Grant, Unavailable> {
        if self.lease_lifetime().is_zero() {
            return Err(Unavailable::Failed(
                "this limiter was built without leases: call leases(..) on its builder".into(),
            ));
        }
        let (wanted, is_possible) = self.wanted(min, max);
        let reply = self.ask(key.as_ref(), wanted, is_possible).await?;
        self.grant_of(&reply, min, max)
    }

    /// How long cells that are taken ahead may be kept. Zero if the limiter was built without
    /// leases. A bucket may lower the chosen lifetime so that half of its burst remains.
    pub fn lease_lifetime(&self) -> Duration {
        self.inner.codec.lifetime()
    }

    /// The quota as given.
    pub fn quota(&self) -> Quota {
        self.inner.quota
    }

    /// How the server counts.
    pub fn algorithm(&self) -> &Algorithm {
        &self.inner.algorithm
    }

    /// The server that keeps the state.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The key under which the server keeps a key's state.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(9)).build()?;
    /// assert_eq!(gate.redis_key("bob"), b"{tollgate:api:bucket:bob}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redis_key(&self, key: impl AsRef<[u8]>) -> Vec<u8> {
        key::whole(&self.inner.key_head, key.as_ref())
    }

    /// The same limiter with a time of the caller's, in microseconds since 1970 and below 2^51.
    /// Tests use it to compare the limiter with a model.
    #[doc(hidden)]
    #[must_use]
    pub fn at_micros(&self, now: u64) -> Self {
        Self { now_micros: Some(now.min(1 << 51)), ..self.clone() }
    }

    /// The decision that [`check_n`](Self::check_n) makes from the numbers of a reply, for tests
    /// and fuzzing.
    ///
    /// # Errors
    ///
    /// The script cannot have returned these numbers.
    #[doc(hidden)]
    pub fn decision_of(&self, reply: &[i64], n: u64) -> Result<Decision, Unavailable> {
        if n > self.max_at_once() {
            return Ok(Err(self.read(reply, Wanted::NONE)?.parts.denied(None)));
        }
        let decoded = self.read(reply, Wanted { min: n, max: n })?;
        Ok(match decoded.cells {
            Some(_) => Ok(decoded.parts.permit()),
            None => Err(decoded.parts.denied(Some(decoded.retry_after))),
        })
    }

    /// The grant that [`take`](Self::take) makes from the numbers of a reply.
    ///
    /// # Errors
    ///
    /// The script cannot have returned these numbers.
    #[doc(hidden)]
    pub fn grant_of(&self, reply: &[i64], min: u64, max: u64) -> Result<Grant, Unavailable> {
        let (wanted, is_possible) = self.wanted(min, max);
        let decoded = self.read(reply, wanted)?;
        let cells = decoded.cells.unwrap_or(0);
        Ok(Grant {
            cells,
            lifetime: decoded.lifetime,
            parts: decoded.parts,
            retry_after: (is_possible && cells == 0).then_some(decoded.retry_after),
        })
    }

    pub(crate) fn max_at_once(&self) -> u64 {
        self.inner.codec.max_at_once()
    }

    /// The cells to ask for in place of `min` and `max`, and whether some can ever be granted.
    fn wanted(&self, min: u64, max: u64) -> (Wanted, bool) {
        // No cells are wanted, so none may be charged.
        if max == 0 {
            return (Wanted::NONE, false);
        }
        // A minimum of zero means one: then a denial says when to come back.
        let min = min.max(1);
        // A call for more than TAKEN_MAX takes exactly what it needs.
        let max = max.clamp(min, TAKEN_MAX.max(min));
        let is_possible = min <= self.max_at_once();
        (if is_possible { Wanted { min, max } } else { Wanted::NONE }, is_possible)
    }

    async fn decide(&self, key: &[u8], n: u64, charge: bool) -> Result<Decision, Unavailable> {
        let is_possible = n <= self.max_at_once();
        let wanted = if is_possible { Wanted { min: n, max: n } } else { Wanted::NONE };
        let reply = self.ask(key, wanted, charge && is_possible).await?;
        self.decision_of(&reply, n)
    }

    async fn ask(&self, key: &[u8], wanted: Wanted, charge: bool) -> Result<Vec<i64>, Unavailable> {
        let Inner { store, codec, script, .. } = &*self.inner;
        let now = self.now_micros.map_or_else(Vec::new, |now| now.to_string().into_bytes());
        let common = [wanted.min, wanted.max, u64::from(charge)];
        let own = codec.arguments(wanted.min);
        let numbers = common.iter().chain(&own).map(|number| number.to_string().into_bytes());
        let args: Vec<Vec<u8>> = core::iter::once(now).chain(numbers).collect();
        store.run(script, &[self.redis_key(key)], &args).await
    }

    fn read(&self, reply: &[i64], wanted: Wanted) -> Result<Decoded, Unavailable> {
        self.inner.codec.decode(reply, wanted.min, wanted.max).ok_or_else(|| {
            Unavailable::Failed(format!("the script returned what it cannot have: {reply:?}"))
        })
    }
}
