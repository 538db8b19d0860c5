//! A server, and the deadline of calls to it.

#![allow(clippy::disallowed_types, reason = "a lock and a clock beside a round trip")]

mod builder;

pub use builder::{StoreBuilder, StoreError};

use core::time::Duration;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::task::JoinSet;

use builder::PAUSE_MIN;

use crate::breaker::{Action, Breaker};
use crate::health::{Health, OnChange};
use crate::pool::Pool;
use crate::reply;
use crate::script::{self, Script};
use crate::server_key;
use crate::stats::{Counters, StoreStats, count};
use crate::unavailable::Unavailable;

/// A Redis or Valkey server, or a cluster. Cheap to clone: clones share connections, circuit
/// breaker and counters. Scripts that ask for the time and then write need Redis 5 or later.
///
/// Building a store does not connect. The store belongs to the tokio runtime on which it is first
/// used.
///
/// | | default | range |
/// |---|---|---|
/// | [`deadline`](StoreBuilder::deadline) of a call, connecting included | 10 ms | 1 ms to 60 s |
/// | [`connect_timeout`](StoreBuilder::connect_timeout) | 50 ms | 1 ms to 60 s |
/// | [`connections`](StoreBuilder::connections) | 1 | 1 to 64 |
/// | [`check_idle_after`](StoreBuilder::check_idle_after) | 1 s | 10 ms to 60 s |
/// | [`open_after`](StoreBuilder::open_after) failures in a row | 5 | 1 to 2^32 - 1 |
/// | [`probe_every`](StoreBuilder::probe_every), once pauses have grown | 1 s | 100 ms to 60 s |
/// | [`prefix`](StoreBuilder::prefix) of all keys | `tollgate` | 1 to 64 bytes, no braces |
///
/// **Guarantee.** A call ends by its deadline, within the precision of tokio's timers (a
/// millisecond, plus scheduling), whatever server and network do. While the circuit is open, calls
/// end immediately, and the server sees one probe at a time from this process.
///
/// A call to a single server is written at most once. If the old connection was closed before a
/// byte of the call was written, the call is sent on a new connection. The closer may be the server
/// (`timeout`, `CLIENT KILL`, a restart) or anything between. Over TLS, writes cannot be counted: such a
/// call is an error, unless the connection was idle for
/// [`check_idle_after`](StoreBuilder::check_idle_after). A connection that was idle for long,
/// or that did not answer the last call in time, is checked by a `PING` before it is used, and
/// replaced if the answer does not come within half of the deadline. All of this counts
/// towards the deadline. TCP keepalive is on: after 15 seconds without a packet, then every 5
/// seconds.
///
/// **Not guaranteed.** The client library keeps the connections to a cluster. It replaces closed
/// ones, and repeats a call whose connection broke, seven times at most. That call may be charged
/// more than once, which denies too much rather than too little. Silent connections of a cluster
/// are noticed by TCP keepalive only.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::Store;
///
/// let store = Store::builder("redis://127.0.0.1:6379")
///     .prefix("shop")
///     .deadline(Duration::from_millis(5))
///     .build()?;
/// assert_eq!(store.deadline(), Duration::from_millis(5));
/// # Ok::<(), tollgate_redis::StoreError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    prefix: String,
    deadline: Duration,
    probe_timeout: Duration,
    breaker: Mutex<Breaker>,
    /// Written while the breaker is locked, so the two always agree.
    health: Mutex<Health>,
    on_change: OnChange,
    counters: Counters,
    /// When the connections were last renewed because a server was a replica.
    renewed_at: Mutex<Option<Duration>>,
    /// The moment from which the breaker counts time.
    started: Instant,
    chance: RandomState,
}

impl Store {
    /// A server by its URL: `redis://[user:password@]host[:port][/db]` or `redis+unix:///path`.
    ///
    /// ```
    /// use tollgate_redis::Store;
    ///
    /// let error = Store::builder("127.0.0.1").build().unwrap_err();
    /// assert!(error.to_string().contains("redis://127.0.0.1:6379"));
    /// ```
    pub fn builder(url: impl Into<String>) -> StoreBuilder {
        StoreBuilder::new(vec![url.into()], false)
    }

    /// A cluster by the URLs of some of its nodes.
    ///
    /// ```
    /// use tollgate_redis::Store;
    /// assert!(Store::cluster(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"]).build().is_ok());
    /// ```
    #[cfg(feature = "cluster")]
    #[cfg_attr(docsrs, doc(cfg(feature = "cluster")))]
    pub fn cluster<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> StoreBuilder {
        StoreBuilder::new(urls.into_iter().map(Into::into).collect(), true)
    }

    /// Counters of the calls so far.
    pub fn stats(&self) -> StoreStats {
        self.0.counters.read()
    }

    /// Whether calls are withheld from the server.
    ///
    /// ```
    /// # use tollgate_redis::Store;
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// assert!(!store.is_circuit_open());
    /// # Ok::<(), tollgate_redis::StoreError>(())
    /// ```
    pub fn is_circuit_open(&self) -> bool {
        self.breaker().is_open()
    }

    /// Whether the server is in use, and if not, why. It is down exactly while the circuit is open.
    ///
    /// ```
    /// # use tollgate_redis::{Health, Store};
    /// let store = Store::builder("redis://127.0.0.1:6379").build()?;
    /// assert_eq!(store.health(), Health::Up);
    /// # Ok::<(), tollgate_redis::StoreError>(())
    /// ```
    pub fn health(&self) -> Health {
        self.0.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a `PING`: a call like any other, which ends by the deadline, counts for the circuit
    /// breaker, and starts a probe if the circuit is open. Called about every second, it keeps
    /// [`health`](Self::health) current without other requests.
    ///
    /// In a cluster it asks one primary, always the same one, whether a key exists (`EXISTS`). If another
    /// primary hangs, the circuit stays closed, and only calls for that primary's keys notice. If the one
    /// that is asked hangs, and no call for other keys is answered between the pings, the circuit opens
    /// for all keys.
    ///
    /// # Errors
    ///
    /// There was no answer, for the given reason.
    ///
    /// ```
    /// # use tollgate_redis::{Store, Unavailable};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let store = Store::builder("redis://127.0.0.1:1").build()?; // no server listens there
    /// assert!(store.ping().await.is_err());
    /// # Ok::<(), tollgate_redis::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn ping(&self) -> Result<(), Unavailable> {
        let key = server_key::of_ping(self.prefix());
        let mut cmd = redis::cmd("PING");
        if self.is_cluster() {
            // The client library sends a `PING` to each primary, and one that hangs fails it.
            cmd = redis::cmd("EXISTS");
            cmd.arg(&key);
        }
        self.call(&key, self.0.pool.ask(&cmd, &self.0.counters)).await.map(|_| ())
    }

    /// The deadline of a call.
    pub fn deadline(&self) -> Duration {
        self.0.deadline
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// Whether all keys of a call must be in one slot.
    pub(crate) fn is_cluster(&self) -> bool {
        self.0.pool.is_cluster()
    }

    /// Runs a script and returns its numbers.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> Result<Vec<i64>, Unavailable> {
        let asking = async {
            let Inner { pool, counters, .. } = &*self.0;
            match pool.ask(&script.by_hash(keys, args), counters).await {
                Err(error) if script::is_missing(&error) => {
                    count(&counters.scripts_sent);
                    pool.ask(&script.in_full(keys, args), counters).await
                }
                answer => answer,
            }
        };
        let key = keys.first().map_or(&b""[..], Vec::as_slice);
        let value = self.call(key, asking).await?;
        reply::numbers_of(value).ok_or_else(|| {
            Unavailable::Failed("the script returned something other than numbers".into())
        })
    }

    /// Deletes a key.
    pub(crate) async fn delete(&self, key: &[u8]) -> Result<(), Unavailable> {
        let mut cmd = redis::cmd("DEL");
        cmd.arg(key);
        self.call(key, self.0.pool.ask(&cmd, &self.0.counters)).await.map(|_| ())
    }

    /// One call, within the deadline and if the breaker allows it.
    async fn call(
        &self,
        key: &[u8],
        asking: impl Future<Output = Result<Value, RedisError>>,
    ) -> Result<Value, Unavailable> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Unavailable::Failed("ask from within a tokio runtime".into()));
        }
        let counters = &self.0.counters;
        let action = self.breaker().next_action(self.now());
        if action != Action::Ask {
            count(&counters.skipped);
            if action == Action::Probe {
                tokio::spawn(self.clone().probe(key.to_vec()));
            }
            return Err(Unavailable::CircuitOpen);
        }
        count(&counters.calls);
        let (answer, down) = match tokio::time::timeout(self.0.deadline, asking).await {
            Ok(Ok(answer)) => (Ok(answer), None),
            Ok(Err(error)) => {
                let reason = self.explain(&error);
                let down = down_by(&error, &reason);
                (Err(reason), down)
            }
            Err(_) => (Err(Unavailable::TimedOut), Some(DOWN_IN_SILENCE)),
        };
        count(match &answer {
            Ok(_) => &counters.answered,
            Err(Unavailable::TimedOut) => &counters.timed_out,
            Err(Unavailable::Failed(_)) => &counters.failed,
            Err(_) => &counters.disconnected,
        });
        match down {
            Some(down) => self.call_failed(down),
            None => self.breaker().call_answered(),
        }
        answer
    }

    /// A call had no answer because the server is away.
    fn call_failed(&self, down: Health) {
        let mut breaker = self.breaker();
        if breaker.call_failed(self.now(), self.chance()) {
            count(&self.0.counters.circuit_opened);
            self.change(breaker, down);
        }
    }

    /// Sets the health that agrees with the breaker, and tells of it if it is another one.
    fn change(&self, breaker: MutexGuard<'_, Breaker>, health: Health) {
        let mut current = self.0.health.lock().unwrap_or_else(PoisonError::into_inner);
        if *current == health {
            return;
        }
        current.clone_from(&health);
        drop((current, breaker));
        self.0.on_change.call(&health);
    }

    /// Checks whether the server is back, on new connections, which all calls then use.
    async fn probe(self, key: Vec<u8>) {
        count(&self.0.counters.probes);
        self.renew();
        let mut cmd = redis::cmd("EXISTS");
        cmd.arg(key);
        let asking = self.ask_on_each(&cmd);
        let down = match tokio::time::timeout(self.0.probe_timeout, asking).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => down_by(&error, &self.explain(&error)),
            Err(_) => Some(DOWN_IN_SILENCE),
        };
        let mut breaker = self.breaker();
        breaker.probe_ended(down.is_none(), self.now(), self.chance());
        match (breaker.is_open(), down) {
            (false, _) => self.change(breaker, Health::Up),
            (true, Some(down)) => self.change(breaker, down),
            // Another probe has replaced this one, and decides.
            (true, None) => {}
        }
    }

    /// Sends the command on one connection, and if that is answered, on all others at once. A server that is away
    /// sees one of them.
    async fn ask_on_each(&self, cmd: &Cmd) -> RedisResult<()> {
        let Inner { pool, counters, .. } = &*self.0;
        pool.ask_on(0, cmd, counters).await?;
        let mut asking = JoinSet::new();
        for index in 1..pool.len() {
            let (store, cmd) = (self.clone(), cmd.clone());
            asking.spawn(async move {
                let Inner { pool, counters, .. } = &*store.0;
                pool.ask_on(index, &cmd, counters).await
            });
        }
        while let Some(answer) = asking.join_next().await {
            // The runtime is shutting down.
            let Ok(answer) = answer else { break };
            answer?;
        }
        Ok(())
    }

    fn explain(&self, error: &RedisError) -> Unavailable {
        if is_read_only(error) {
            // Another server has taken over. The address may already lead to it.
            self.renew_now_and_then();
        }
        if error.is_timeout() {
            Unavailable::TimedOut
        } else if is_disconnected(error) {
            Unavailable::Disconnected
        } else if lacks_password(error) {
            Unavailable::Failed(format!("NOAUTH the URL needs the server's password: {error}"))
        } else {
            Unavailable::Failed(error.to_string())
        }
    }

    /// Renews the connections at most once in [`PAUSE_MIN`]. As long as the address leads to a
    /// replica, every call has the same answer.
    fn renew_now_and_then(&self) {
        let now = self.now();
        let mut renewed_at = self.0.renewed_at.lock().unwrap_or_else(PoisonError::into_inner);
        if renewed_at.is_none_or(|at| now.saturating_sub(at) >= PAUSE_MIN) {
            *renewed_at = Some(now);
            drop(renewed_at);
            self.renew();
        }
    }

    fn renew(&self) {
        count(&self.0.counters.connections_renewed);
        self.0.pool.discard_all();
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.0.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn chance(&self) -> u64 {
        self.0.chance.hash_one(self.now())
    }
}

/// Why the server is down: there was no answer in time.
const DOWN_IN_SILENCE: Health =
    Health::Down { reason: Unavailable::TimedOut, detail: String::new() };

/// Why the server is down, if the error shows that it is.
fn down_by(error: &RedisError, reason: &Unavailable) -> Option<Health> {
    let detail = || match reason {
        Unavailable::TimedOut => String::new(),
        _ => error.to_string(),
    };
    is_away(error).then(|| Health::Down { reason: reason.clone(), detail: detail() })
}

fn is_disconnected(error: &RedisError) -> bool {
    error.is_connection_dropped()
        || matches!(error.kind(), ErrorKind::Io | ErrorKind::ClusterConnectionNotFound)
}

/// Whether the server is a replica. Before Redis 7, a script's error contains the one of its command: `ERR Error
/// running script (call to f_6b1bf): @user_script:9: @user_script: 9: -READONLY You can't write against`.
fn is_read_only(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.detail().is_some_and(|detail| detail.contains("-READONLY "))
}

/// Whether the server requires a password, and the URL has none. A call of a script is then answered with
/// `Protocol error: unauthenticated multibulk length`, because it has more than ten arguments.
fn lacks_password(error: &RedisError) -> bool {
    error.code() == Some("NOAUTH")
        || error.detail().is_some_and(|detail| detail.contains("unauthenticated"))
}

/// Whether no other request could succeed. A server that answers with an error is there, unless the
/// error concerns every request.
fn is_away(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown};
    error.is_timeout()
        || is_disconnected(error)
        || lacks_password(error)
        || matches!(
            error.kind(),
            ErrorKind::AuthenticationFailed
                // The server refused the connection.
                | ErrorKind::InvalidClientConfig
                // The peer does not speak the protocol.
                | ErrorKind::Parse
                | ErrorKind::Server(BusyLoading | ClusterDown | MasterDown)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("a reply");
        let Value::ServerError(error) = value else { panic!("{value:?}") };
        error.into()
    }

    #[test]
    fn a_replica_is_known_by_its_error_before_redis_7_too() {
        let old = "ERR Error running script (call to f_6b1bf): @user_script:9: @user_script: 9: \
                   -READONLY You can't write against a read only replica.";
        let new = "READONLY You can't write against a read only replica. script: 6b1bf, on \
                   @user_script:9.";
        assert!(is_read_only(&error(old)) && is_read_only(&error(new)));
        assert!(!is_read_only(&error("ERR READONLY is no command")));
        assert!(!is_read_only(&error("OOM command not allowed when used memory > 'maxmemory'.")));
    }

    #[test]
    fn a_missing_password_is_known_by_both_errors() {
        assert!(is_away(&error("NOAUTH Authentication required.")));
        assert!(is_away(&error("ERR Protocol error: unauthenticated multibulk length")));
        assert!(!is_away(&error("WRONGTYPE Operation against a key of another type")));
    }
}
