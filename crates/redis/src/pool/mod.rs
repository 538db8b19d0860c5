//! Connections to a server or to a cluster.
//!
//! A connection to a single server may end at any time, with or without notice:
//!
//! | event | reaction | charged |
//! |---|---|---|
//! | the connection was closed before a request is written | a new connection is made, and the request is sent on it | once |
//! | the connection was silent for long, or the last request had no answer | a `PING` first; without an answer in half of the deadline, a new connection is made | once |
//! | the connection ends after a request was written | an error, because the request may have been executed | at most once |
//! | a request has no answer by the deadline | an error, and the next request sends a `PING` first | at most once |
//!
//! A request is therefore written to one connection at most. A script that charges does not charge
//! twice, and no lease is taken that no process can spend. `connection.rs` has one connection,
//! `socket.rs` counts what was written to it.
//!
//! Connections to a cluster belong to the client library. It repeats a call up to three times by
//! itself, also if a connection broke after the request was written. If that was not enough to make
//! a new connection, the pool sends the call once more.

#![allow(clippy::disallowed_types, reason = "held for a clone, before a round trip")]

mod connection;
mod socket;

pub(crate) use socket::keepalive;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Client, Cmd, ErrorKind, RedisError, RedisResult, Value};
#[cfg(feature = "cluster")]
use redis::{
    cluster::{ClusterClient, ClusterConfig},
    cluster_async::ClusterConnection,
};
use tokio::sync::watch;

use crate::stats::{Counters, count};
use connection::{Connection, Failure, closed};

/// Calls that may wait to be written on one connection.
const QUEUE: usize = 1_024;

/// The server or cluster to connect to.
pub(crate) enum Target {
    Single(Client),
    #[cfg(feature = "cluster")]
    Cluster(Box<ClusterClient>),
}

/// Timeouts of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
    /// A connection that was silent for this long is checked before it is used.
    pub(crate) idle: Duration,
    /// How long a check may take.
    pub(crate) check: Duration,
}

/// A few connections, made on first use and used in turn.
pub(crate) struct Pool {
    timeouts: Timeouts,
    slots: Slots,
    next: AtomicUsize,
}

enum Slots {
    Single(Client, Box<[ConnectionSlot]>),
    #[cfg(feature = "cluster")]
    Cluster(Box<ClusterClient>, Box<[Mutex<Option<ClusterConnection>>]>),
}

/// Room for one connection.
#[derive(Default)]
struct ConnectionSlot(Mutex<Option<PendingConnection>>);

/// A connection that is made or being made. `None` until the outcome is known.
type PendingConnection = watch::Receiver<Option<RedisResult<Arc<Connection>>>>;

impl Pool {
    pub(crate) fn new(target: Target, timeouts: Timeouts, connections: usize) -> Self {
        let indexes = 0..connections.max(1);
        let slots = match target {
            Target::Single(client) => {
                Slots::Single(client, indexes.map(|_| ConnectionSlot::default()).collect())
            }
            #[cfg(feature = "cluster")]
            Target::Cluster(client) => {
                Slots::Cluster(client, indexes.map(|_| Mutex::default()).collect())
            }
        };
        Self { timeouts, slots, next: AtomicUsize::new(0) }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        !matches!(self.slots, Slots::Single(..))
    }

    /// Sends on the next connection. The caller enforces the deadline.
    pub(crate) async fn ask(&self, cmd: &Cmd, counters: &Counters) -> RedisResult<Value> {
        let index = self.next.fetch_add(1, Relaxed) % self.len();
        self.ask_on(index, cmd, counters).await
    }

    /// Discards all connections, so the next calls make new ones. A connection that died without
    /// notice would otherwise be used until the operating system notices, which takes minutes.
    pub(crate) fn discard_all(&self) {
        match &self.slots {
            Slots::Single(_, slots) => slots.iter().for_each(|slot| *slot.lock() = None),
            #[cfg(feature = "cluster")]
            Slots::Cluster(_, slots) => slots.iter().for_each(|slot| *lock(slot) = None),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.slots {
            Slots::Single(_, slots) => slots.len(),
            #[cfg(feature = "cluster")]
            Slots::Cluster(_, slots) => slots.len(),
        }
    }

    /// Sends the command on one connection of those below [`len`](Self::len).
    pub(crate) async fn ask_on(
        &self,
        index: usize,
        cmd: &Cmd,
        counters: &Counters,
    ) -> RedisResult<Value> {
        match &self.slots {
            Slots::Single(client, slots) => {
                slots[index].ask(client, self.timeouts, cmd, counters).await
            }
            #[cfg(feature = "cluster")]
            Slots::Cluster(client, slots) => {
                let mut connection = self.cluster_connection(client, &slots[index]);
                match cmd.query_async(&mut connection).await {
                    // The library's retries were over before it had a new connection. This waits for it.
                    Err(error) if error.kind() == ErrorKind::ClusterConnectionNotFound => {
                        count(&counters.sent_again);
                        cmd.query_async(&mut connection).await
                    }
                    answer => answer,
                }
            }
        }
    }

    #[cfg(feature = "cluster")]
    fn cluster_connection(
        &self,
        client: &ClusterClient,
        slot: &Mutex<Option<ClusterConnection>>,
    ) -> ClusterConnection {
        let make = || {
            let config = ClusterConfig::new()
                .set_connection_timeout(self.timeouts.connect)
                .set_response_timeout(self.timeouts.response);
            client.get_pending_async_connection_with_config(config)
        };
        lock(slot).get_or_insert_with(make).clone()
    }
}

impl ConnectionSlot {
    /// Sends, and sends once more on a new connection if no byte was written to the first.
    async fn ask(
        &self,
        client: &Client,
        timeouts: Timeouts,
        cmd: &Cmd,
        counters: &Counters,
    ) -> RedisResult<Value> {
        let connection = self.connection(client, timeouts).await?;
        let Failure { error, is_unsent, is_final } = match connection.ask(cmd).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        if is_final {
            self.discard(&connection, counters);
        }
        if !is_unsent {
            return Err(error);
        }
        count(&counters.sent_again);
        let connection = self.connection(client, timeouts).await?;
        connection.ask(cmd).await.map_err(|failure| {
            if failure.is_final {
                self.discard(&connection, counters);
            }
            failure.error
        })
    }

    /// The connection, or a new one.
    async fn connection(
        &self,
        client: &Client,
        timeouts: Timeouts,
    ) -> RedisResult<Arc<Connection>> {
        let mut pending = self.pending(client, timeouts);
        match pending.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(made)) => made.clone().map_err(refused),
            // The runtime that was making it is gone.
            _ => Err(closed()),
        }
    }

    /// Makes a new connection in a task of its own: it continues when the caller gives up at its
    /// deadline.
    fn pending(&self, client: &Client, timeouts: Timeouts) -> PendingConnection {
        let mut slot = self.lock();
        if let Some(pending) = slot.as_ref().filter(|pending| is_usable(pending)) {
            return pending.clone();
        }
        let (sender, pending) = watch::channel(None);
        let client = client.clone();
        tokio::spawn(async move {
            let made = Connection::make(&client, timeouts).await.map(Arc::new);
            let _ = sender.send(Some(made));
        });
        *slot = Some(pending.clone());
        pending
    }

    /// Does nothing if another caller has already replaced the connection.
    fn discard(&self, connection: &Arc<Connection>, counters: &Counters) {
        let mut slot = self.lock();
        let is_this = |pending: &PendingConnection| matches!(&*pending.borrow(), Some(Ok(current)) if Arc::ptr_eq(current, connection));
        if slot.as_ref().is_some_and(is_this) {
            *slot = None;
            count(&counters.connections_renewed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<PendingConnection>> {
        lock(&self.0)
    }
}

/// The error of a connection that the server refused, for example because of the password, or because it speaks
/// another protocol. It concerns every call.
fn refused(error: RedisError) -> RedisError {
    match error.kind() {
        ErrorKind::Io | ErrorKind::AuthenticationFailed => error,
        _ => {
            let why = "the server refused the connection";
            (ErrorKind::InvalidClientConfig, why, error.to_string()).into()
        }
    }
}

/// Whether there is a connection, or may be one soon.
fn is_usable(pending: &PendingConnection) -> bool {
    match &*pending.borrow() {
        Some(made) => made.is_ok(),
        None => pending.has_changed().is_ok(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl core::fmt::Debug for Pool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The target may hold a password.
        f.debug_struct("Pool")
            .field("timeouts", &self.timeouts)
            .field("connections", &self.len())
            .finish_non_exhaustive()
    }
}
