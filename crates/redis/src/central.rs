//! A limiter whose state is on the server.

mod bank;
mod build;
pub(crate) mod key;

pub use build::{RedisLimiterBuilder, RedisLimiterError};

use core::time::Duration;
use std::sync::Arc;

use tollgate::decision::DecisionParts;
use tollgate::{Decision, Quota};

use crate::algorithm::Algorithm;
use crate::count::{Plan, Told};
use crate::script::Script;
use crate::store::Store;
use crate::unavailable::Unavailable;

/// The most cells that one call takes ahead.
const TAKEN_MAX: u64 = 1 << 20;

/// One quota for each key, over all processes that ask the same server: each decision is one round
/// trip, and one script that the server runs alone. Cheap to clone.
///
/// All limiters of a [`Store`]'s prefix that have the same name and algorithm share their keys'
/// states, in whichever process they are.
///
/// # When the quota changes
///
/// A key keeps the cells that it has used. If the quota is raised, the rest of the new burst or limit
/// is there at once. If it is lowered, a key in a bucket owes the new burst at most; a window, a
/// counter and a log count on, so a key that has used more than the new limit is denied for two periods
/// at most. Fixed windows and sliding counters start afresh with a new period, and counters with another
/// number of sub-windows. A bucket and a log carry over: a bucket's debt is a number of cells, which
/// drains by the new rate from the last charge on.
///
/// Processes may have different quotas, as in a roll-out. All of them together are then granted, in a
/// span `w`, no more than the larger burst and the larger rate times `w` of a bucket, and no more than
/// the larger limit of a window, a counter or a log of one period. Windows, counters and logs of
/// different periods add up to the sum of both.
///
/// **Guarantee.** Decisions are those of the algorithm of the same name in [`tollgate`], made one
/// after the other by the server's clock in whole microseconds; no rate is rounded. No clock of a
/// client matters. On a single server a request is charged at most once, and the connection is
/// never asked again for one that may have been charged; a cluster's client may send a call again that
/// was broken off.
///
/// **Not guaranteed.** Where the server forgets a key (`FLUSHALL`, eviction, a restart without
/// persistence, a failover to a replica that had not yet received the last charges), the key begins
/// anew: one fresh burst (or window) more, each time. Where the server's clock is set back, keys that
/// are in debt stay so for as much longer, but no longer than until a bucket's burst has come back, two
/// periods of a window or a log, or three of a counter. Where it is set ahead, they are restored as much
/// earlier. A call that ended with
/// [`Unavailable::TimedOut`] or [`Unavailable::Disconnected`] may have been charged.
///
/// Keys are any bytes. A key of more than 200 bytes, or with a brace in it, is replaced by its
/// SHA-1 (that two of 10^12 keys coincide has a chance of 10^-24).
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
    /// In place of the server's clock.
    now_micros: Option<u64>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    plan: Plan,
    script: Script,
    quota: Quota,
    algorithm: Algorithm,
    /// What stands before the caller's key, and the brace that ends it.
    key_head: Vec<u8>,
}

/// How many cells a script is to grant.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    least: u64,
    most: u64,
}

impl Wanted {
    /// It is asked how things stand.
    const NONE: Self = Self { least: 0, most: 0 };
}

/// Cells that were taken ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// How many; 0: fewer than were wanted at least, and none was charged.
    pub cells: u64,
    /// How long they may be spent, from when the server was *asked*, by this process's steady clock.
    pub lifetime: Duration,
    /// What the server states of the key, after the charge.
    pub parts: DecisionParts,
    /// Until as many as were wanted at least would be granted; `None`, if they were, or never will.
    pub retry_after: Option<Duration>,
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
    /// There is no decision: the server did not give one in time.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter) -> Result<(), tollgate_redis::Unavailable> {
    /// if gate.check("somebody").await?.is_err() {
    ///     println!("429");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Result<Decision, Unavailable> {
        self.check_n(key, 1).await
    }

    /// Decides about `n` cells, all or none. None are always admitted. More than the burst or the limit
    /// are never admitted, and neither are more than 1,000 at once of a sliding log
    /// ([`Algorithm::MAX_LOG_CELLS_PER_CALL`]): such a denial has no time to come back.
    ///
    /// # Errors
    ///
    /// There is no decision: the server did not give one in time.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter, bytes: &[u8]) -> Result<(), tollgate_redis::Unavailable> {
    /// let decision = gate.check_n("somebody", bytes.len() as u64).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_n(&self, key: impl AsRef<[u8]>, n: u64) -> Result<Decision, Unavailable> {
        self.decide(key.as_ref(), n, true).await
    }

    /// What [`check_n`](Self::check_n) would answer, charging nothing. (A denial that would count
    /// in a log does not.)
    ///
    /// # Errors
    ///
    /// There is no decision: the server did not give one in time.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter) -> Result<(), tollgate_redis::Unavailable> {
    /// let left = gate.peek_n("somebody", 0).await?.map(|permit| permit.remaining());
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
    /// The server did not say in time that it has.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter) -> Result<(), tollgate_redis::Unavailable> {
    /// gate.reset("somebody").await
    /// # }
    /// ```
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), Unavailable> {
        self.inner.store.delete(&self.redis_key(key)).await
    }

    /// Takes at least `least` cells or none, and as many as there are up to `most` (1,048,576 a
    /// call). They are charged now, and may be spent until their lifetime is over.
    ///
    /// **Guarantee.** Over any number of processes that do so, what is *spent* in any span keeps the
    /// quota, for [`leases`](CentralBuilder::leases) as long as the limiter was built for; a process
    /// that dies with cells only loses them. Clocks of processes need to run evenly, not agree.
    ///
    /// # Errors
    ///
    /// There is no decision, or the limiter was built without leases.
    ///
    /// ```no_run
    /// # use tollgate_redis::RedisLimiter;
    /// # async fn example(gate: RedisLimiter) -> Result<(), tollgate_redis::Unavailable> {
    /// let asked = std::time::Instant::now();
    /// let taken = gate.take("somebody", 1, 100).await?;
    /// let spend_until = asked + taken.lifetime;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(
        &self,
        key: impl AsRef<[u8]>,
        least: u64,
        most: u64,
    ) -> Result<Taken, Unavailable> {
        if self.lease_lifetime().is_zero() {
            return Err(Unavailable::Failed(
                "this limiter was built without leases: call leases(..) on its builder".into(),
            ));
        }
        let (wanted, is_possible) = self.wanted(least, most);
        let reply = self.ask(key.as_ref(), wanted, is_possible).await?;
        self.taken_by(&reply, least, most)
    }

    /// How long cells may be kept that are taken ahead; zero, if the limiter was built without
    /// leases. A bucket may have lowered it, so that half of the burst remains.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(100).burst(10))
    ///     .leases(Duration::from_millis(80))
    ///     .build()?;
    /// assert_eq!(gate.lease_lifetime(), Duration::from_millis(50));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lease_lifetime(&self) -> Duration {
        self.inner.plan.lifetime()
    }

    /// The quota as given.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(9)).build()?;
    /// assert_eq!(gate.quota(), Quota::per_second(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quota(&self) -> Quota {
        self.inner.quota
    }

    /// Which way the server counts.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, Algorithm, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(9)).build()?;
    /// assert_eq!(gate.algorithm(), &Algorithm::Gcra);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn algorithm(&self) -> &Algorithm {
        &self.inner.algorithm
    }

    /// The server that keeps the states.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate_redis::{RedisLimiter, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// let gate = RedisLimiter::builder(&store, "api", Quota::per_second(9)).build()?;
    /// assert!(!gate.store().is_circuit_open());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Where the server keeps a key's state, for whoever looks after it.
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

    /// The same limiter by a time of the caller's, in microseconds since 1970 and below 2^51, so
    /// that tests can compare it with a model.
    #[doc(hidden)]
    #[must_use]
    pub fn at_micros(&self, now: u64) -> Self {
        Self { now_micros: Some(now.min(1 << 51)), ..self.clone() }
    }

    /// What [`check_n`](Self::check_n) makes of numbers that a script returned, for tests and fuzzing.
    ///
    /// # Errors
    ///
    /// The script cannot have returned them.
    #[doc(hidden)]
    pub fn decided_by(&self, reply: &[i64], n: u64) -> Result<Decision, Unavailable> {
        if n > self.most_at_once() {
            return Ok(Err(self.read(reply, Wanted::NONE)?.parts.denied(None)));
        }
        let told = self.read(reply, Wanted { least: n, most: n })?;
        Ok(match told.cells {
            Some(_) => Ok(told.parts.permit()),
            None => Err(told.parts.denied(Some(told.retry_after))),
        })
    }

    /// What [`take`](Self::take) makes of them.
    ///
    /// # Errors
    ///
    /// The script cannot have returned them.
    #[doc(hidden)]
    pub fn taken_by(&self, reply: &[i64], least: u64, most: u64) -> Result<Taken, Unavailable> {
        let (wanted, is_possible) = self.wanted(least, most);
        let told = self.read(reply, wanted)?;
        let cells = told.cells.unwrap_or(0);
        Ok(Taken {
            cells,
            lifetime: told.lifetime,
            parts: told.parts,
            retry_after: (is_possible && cells == 0).then_some(told.retry_after),
        })
    }

    pub(crate) fn most_at_once(&self) -> u64 {
        self.inner.plan.most_at_once()
    }

    /// What is asked for in place of that, and whether so many can be granted.
    fn wanted(&self, least: u64, most: u64) -> (Wanted, bool) {
        // Wanting none at least is wanting one: an answer of none says when to come again.
        let least = least.max(1);
        let most = most.max(least).min(TAKEN_MAX);
        let is_possible = least <= self.most_at_once().min(TAKEN_MAX);
        (if is_possible { Wanted { least, most } } else { Wanted::NONE }, is_possible)
    }

    async fn decide(&self, key: &[u8], n: u64, charge: bool) -> Result<Decision, Unavailable> {
        let is_possible = n <= self.most_at_once();
        let wanted = if is_possible { Wanted { least: n, most: n } } else { Wanted::NONE };
        let reply = self.ask(key, wanted, charge && is_possible).await?;
        self.decided_by(&reply, n)
    }

    async fn ask(&self, key: &[u8], wanted: Wanted, charge: bool) -> Result<Vec<i64>, Unavailable> {
        let Inner { store, plan, script, .. } = &*self.inner;
        let now = self.now_micros.map_or_else(Vec::new, |now| now.to_string().into_bytes());
        let common = [wanted.least, wanted.most, u64::from(charge)];
        let own = plan.arguments(wanted.least);
        let numbers = common.iter().chain(&own).map(|number| number.to_string().into_bytes());
        let args: Vec<Vec<u8>> = core::iter::once(now).chain(numbers).collect();
        store.run(script, &[self.redis_key(key)], &args).await
    }

    fn read(&self, reply: &[i64], wanted: Wanted) -> Result<Told, Unavailable> {
        self.inner.plan.tell(reply, wanted.least, wanted.most).ok_or_else(|| {
            Unavailable::Failed(format!("the script returned what it cannot have: {reply:?}"))
        })
    }
}
