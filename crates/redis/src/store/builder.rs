//! The builder of a store.

#![allow(clippy::disallowed_types, reason = "a lock and a clock beside a round trip")]

use core::fmt;
use core::time::Duration;
use std::hash::RandomState;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo};

use super::{Inner, Store};
use crate::breaker::{Breaker, BreakerSettings};
use crate::health::{Health, OnChange};
use crate::pool::{Pool, Target, Timeouts, keepalive};
use crate::server_key::is_name;
use crate::stats::Counters;

const CONNECTIONS_MAX: usize = 64;
const LONGEST: Duration = Duration::from_secs(60);
/// The shortest idle time after which a connection is checked.
const IDLE_MIN: Duration = Duration::from_millis(10);
/// The first pause of an open circuit. Later pauses double.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Configures a [`Store`]. The store's table lists defaults and ranges.
#[derive(Clone)]
#[must_use]
pub struct StoreBuilder {
    urls: Vec<String>,
    cluster: bool,
    prefix: String,
    deadline: Duration,
    connect_timeout: Duration,
    connections: usize,
    check_idle_after: Duration,
    open_after: u32,
    probe_every: Duration,
    on_change: OnChange,
}

impl fmt::Debug for StoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A URL may hold a password.
        f.debug_struct("StoreBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl StoreBuilder {
    pub(super) fn new(urls: Vec<String>, cluster: bool) -> Self {
        Self {
            urls,
            cluster,
            prefix: "tollgate".into(),
            deadline: Duration::from_millis(10),
            connect_timeout: Duration::from_millis(50),
            connections: 1,
            check_idle_after: Duration::from_secs(1),
            open_after: 5,
            probe_every: Duration::from_secs(1),
            on_change: OnChange::default(),
        }
    }

    /// The beginning of all keys, so that several programs can share a server.
    ///
    /// ```
    /// # use tollgate_redis::Store;
    /// assert!(Store::builder("redis://127.0.0.1:6379").prefix("shop").build().is_ok());
    /// assert!(Store::builder("redis://127.0.0.1:6379").prefix("{shop}").build().is_err());
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The deadline of a call, connecting included.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::Store;
    /// let store = Store::builder("redis://127.0.0.1:6379").deadline(Duration::from_millis(3));
    /// assert!(store.clone().build().is_ok());
    /// assert!(store.deadline(Duration::ZERO).build().is_err());
    /// ```
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long connecting may take. A caller waits until its own deadline at most; the connection
    /// attempt continues for the next caller.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::Store;
    /// let store = Store::builder("redis://db.example:6379").connect_timeout(Duration::from_secs(1));
    /// assert!(store.build().is_ok());
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The number of connections, used in turn. One connection carries many calls at a time. More
    /// of them help if one core cannot encode and decode all calls. In a cluster, this is the
    /// number for each node.
    ///
    /// ```
    /// # use tollgate_redis::Store;
    /// assert!(Store::builder("redis://127.0.0.1:6379").connections(2).build().is_ok());
    /// ```
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count;
        self
    }

    /// The idle time after which a connection is checked before it is used. The check is a `PING`,
    /// which adds a round trip to that call. Without an answer in half of the deadline, the
    /// connection is replaced.
    ///
    /// NATs and load balancers that forget connections without notice do so after a minute or more.
    /// A closed connection is noticed without this check. The setting does not apply to clusters.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::Store;
    /// let store = Store::builder("redis://db.example:6379");
    /// assert!(store.check_idle_after(Duration::from_secs(30)).build().is_ok());
    /// ```
    pub fn check_idle_after(mut self, idle: Duration) -> Self {
        self.check_idle_after = idle;
        self
    }

    /// The number of calls in a row that opens the circuit: calls without an answer, or with an error that
    /// concerns every call, such as a missing password or a server that loads its data.
    ///
    /// ```
    /// # use tollgate_redis::Store;
    /// assert!(Store::builder("redis://127.0.0.1:6379").open_after(1).build().is_ok());
    /// ```
    pub fn open_after(mut self, failures: u32) -> Self {
        self.open_after = failures;
        self
    }

    /// How often a server that does not answer is probed: first after 50 to 100 ms, then after
    /// pauses that double up to this. Up to half of each pause is subtracted at random.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::Store;
    /// let store = Store::builder("redis://127.0.0.1:6379").probe_every(Duration::from_secs(5));
    /// assert!(store.build().is_ok());
    /// ```
    pub fn probe_every(mut self, pause: Duration) -> Self {
        self.probe_every = pause;
        self
    }

    /// Calls `callback` each time the server goes down or comes back, and when a probe finds that it is down for
    /// another reason: once for each change, on the thread that noticed it. `callback` must neither block nor panic.
    ///
    /// ```
    /// # use tollgate_redis::Store;
    /// let store = Store::builder("redis://127.0.0.1:6379")
    ///     .on_change(|health| println!("the store is {health}"));
    /// assert!(store.build().is_ok());
    /// ```
    pub fn on_change(mut self, callback: impl Fn(&Health) + Send + Sync + 'static) -> Self {
        self.on_change = OnChange(Some(Arc::new(callback)));
        self
    }

    /// Builds the store. It does not connect yet.
    ///
    /// # Errors
    ///
    /// The URL is invalid, or a setting is out of its range.
    ///
    /// ```
    /// # use tollgate_redis::{Store, StoreError};
    /// let built = Store::builder("redis://127.0.0.1:6379").connections(0).build();
    /// assert!(matches!(built, Err(StoreError::Connections)));
    /// ```
    pub fn build(self) -> Result<Store, StoreError> {
        let in_range = |span, min| (min..=LONGEST).contains(&span);
        if !is_name(&self.prefix) {
            return Err(StoreError::Prefix);
        }
        if !in_range(self.deadline, Duration::from_millis(1))
            || !in_range(self.connect_timeout, Duration::from_millis(1))
        {
            return Err(StoreError::Timeout);
        }
        if !in_range(self.probe_every, PAUSE_MIN) {
            return Err(StoreError::ProbeEvery);
        }
        if !in_range(self.check_idle_after, IDLE_MIN) {
            return Err(StoreError::CheckIdleAfter);
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(StoreError::Connections);
        }
        if self.open_after == 0 {
            return Err(StoreError::OpenAfter);
        }
        let target = self.target()?;
        let timeouts = Timeouts {
            connect: self.connect_timeout,
            // Callers give up at their deadline. This frees the slot of an answer that never comes.
            response: self.deadline.max(self.connect_timeout),
            idle: self.check_idle_after,
            check: self.deadline / 2,
        };
        let Timeouts { connect, response, .. } = timeouts;
        // The client of a cluster connects to the nodes that it is given, asks for the slots, and connects to theirs.
        let once = match target {
            Target::Single(_) => connect + response,
            #[cfg(feature = "cluster")]
            Target::Cluster(_) => connect * 2 + response * 4,
        };
        // A probe asks on one connection, and then on all others at once.
        let probe_timeout = if self.connections > 1 { once * 2 } else { once };
        let breaker_settings = BreakerSettings {
            failures: self.open_after,
            pause_min: PAUSE_MIN,
            pause_max: self.probe_every,
            // Longer than the probe's own timeout, by what its task may be late.
            probe_max: probe_timeout * 2,
        };
        Ok(Store(Arc::new(Inner {
            pool: Pool::new(target, timeouts, self.connections),
            prefix: self.prefix,
            deadline: self.deadline,
            probe_timeout,
            breaker: Mutex::new(Breaker::new(breaker_settings)),
            health: Mutex::new(Health::Up),
            on_change: self.on_change,
            counters: Counters::default(),
            renewed_at: Mutex::new(None),
            started: Instant::now(),
            chance: RandomState::new(),
        })))
    }

    fn target(&self) -> Result<Target, StoreError> {
        let [url] = &*self.urls else {
            return self.cluster_target();
        };
        if self.cluster {
            return self.cluster_target();
        }
        let info = url.as_str().into_connection_info().map_err(|error| url_error(&error))?;
        let client =
            Client::open(info.set_tcp_settings(tcp())).map_err(|error| url_error(&error))?;
        Ok(Target::Single(client))
    }

    #[cfg(feature = "cluster")]
    fn cluster_target(&self) -> Result<Target, StoreError> {
        let urls = self.urls.iter().map(String::as_str);
        let client = redis::cluster::ClusterClient::builder(urls)
            .tcp_settings(tcp())
            // Enough to follow a slot that moves, well within a deadline.
            .retries(3)
            .min_retry_wait(1)
            .max_retry_wait(4)
            .build();
        Ok(Target::Cluster(Box::new(client.map_err(|error| url_error(&error))?)))
    }

    #[cfg(not(feature = "cluster"))]
    fn cluster_target(&self) -> Result<Target, StoreError> {
        Err(StoreError::Url)
    }
}

fn url_error(error: &redis::RedisError) -> StoreError {
    if error.to_string().contains("with TLS") { StoreError::Tls } else { StoreError::Url }
}

fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive())
}

/// Why a [`Store`] cannot be built; its text says what to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL is invalid.
    Url,
    /// The URL asks for TLS, which the client library was built without.
    Tls,
    /// The prefix cannot begin a key.
    Prefix,
    /// The deadline or the connect timeout is out of range.
    Timeout,
    /// Too few connections, or too many.
    Connections,
    /// The idle time before a check is out of range.
    CheckIdleAfter,
    /// The circuit would open without a failure.
    OpenAfter,
    /// Probes are too frequent, or too rare.
    ProbeEvery,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => {
                "this is no URL of a server: write it like redis://127.0.0.1:6379 or \
                 redis+unix:///run/redis.sock (a cluster needs at least one)"
            }
            Self::Tls => {
                "the client library was built without TLS: let the program depend on the crate redis \
                 with the feature tokio-rustls-comp, or write redis:// for a server without TLS"
            }
            Self::Prefix => "a prefix has 1 to 64 bytes and no braces: use one like \"shop\"",
            Self::Timeout => {
                "deadline and connect timeout are from 1 ms to 60 s: 10 ms and 50 ms suit a server \
                 in the same network"
            }
            Self::Connections => "the connections are from 1 to 64: start with 1",
            Self::CheckIdleAfter => "idle connections are checked after 10 ms to 60 s: use 1 s",
            Self::OpenAfter => "the circuit needs at least 1 failure to open: use 5",
            Self::ProbeEvery => "probes are from 100 ms to 60 s apart: use 1 s",
        })
    }
}

impl core::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_tls_is_told_from_no_url() {
        let built = |url: &str| Store::builder(url).build().expect_err("it cannot be used");
        assert_eq!(built("rediss://127.0.0.1:6379"), StoreError::Tls);
        assert_eq!(built("valkeys://127.0.0.1"), StoreError::Tls);
        for url in ["127.0.0.1:6379", "http://127.0.0.1", "redis://127.0.0.1/first"] {
            assert_eq!(built(url), StoreError::Url);
        }
        #[cfg(feature = "cluster")]
        assert_eq!(
            Store::cluster(["rediss://127.0.0.1:7000"]).build().expect_err("it has none"),
            StoreError::Tls
        );
    }
}
