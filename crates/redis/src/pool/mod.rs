//! The connections to a server, or to a cluster of them.
//!
//! A connection to a single server may end at any time, with a word or without. What is done about it:
//!
//! | what happens | what is done | charged |
//! |---|---|---|
//! | it was closed before a request is written | a new one is made, and the request sent on it | once |
//! | nothing was heard on it for long, or the last request had no answer | a `PING` first; without an answer in a quarter of the deadline, a new one is made | once |
//! | it ends when a request was written | an error: the request may have been executed | at most once |
//! | a request has no answer by the deadline | an error, and the next request sends a `PING` first | at most once |
//!
//! So a request is written to one connection at most, whatever it does: a script that charges does not
//! charge twice, and no lease is bought that nobody spends. `connection.rs` has one connection, `socket.rs`
//! knows what was written to it.
//!
//! The connections to a cluster are the client's own. It asks again by itself, up to three times, also
//! where a connection breaks after a request was written. Where that did not suffice to make a new
//! connection, it is asked once more.

#![allow(clippy::disallowed_types, reason = "held for a clone, before a round trip")]

mod socket;
mod connection;

pub(crate) use socket::keepalive;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Client, Cmd, RedisResult, Value};
#[cfg(feature = "cluster")]
use redis::{
    ErrorKind,
    cluster::{ClusterClient, ClusterConfig},
    cluster_async::ClusterConnection,
};
use tokio::sync::watch;

use crate::stats::{Counters, count};
use connection::{Failure, Connection, closed};

/// Calls that may wait for their turn to be written, on one connection.
const QUEUE: usize = 1_024;

/// Who is spoken to.
pub(crate) enum Target {
    Single(Client),
    #[cfg(feature = "cluster")]
    Cluster(Box<ClusterClient>),
}

/// How long connections may take, and be without a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
    /// A connection on which nothing was heard for so long is checked before it is used.
    pub(crate) idle: Duration,
    /// How long a check may take.
    pub(crate) check: Duration,
}

/// A few connections, made when they are first used and used in turn.
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

/// A place for a connection.
#[derive(Default)]
struct ConnectionSlot(Mutex<Option<PendingConnection>>);

/// A connection that is made, or on its way: `None` until it is known how that went.
type PendingConnection = watch::Receiver<Option<RedisResult<Arc<Connection>>>>;

impl Pool {
    pub(crate) fn new(target: Target, timeouts: Timeouts, connections: usize) -> Self {
        let places = 0..connections.max(1);
        let slots = match target {
            Target::Single(client) => {
                Slots::Single(client, places.map(|_| ConnectionSlot::default()).collect())
            }
            #[cfg(feature = "cluster")]
            Target::Cluster(client) => {
                Slots::Cluster(client, places.map(|_| Mutex::default()).collect())
            }
        };
        Self { timeouts, slots, next: AtomicUsize::new(0) }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        !matches!(self.slots, Slots::Single(..))
    }

    /// Asks on the next connection. The caller sees to the deadline.
    pub(crate) async fn ask(&self, cmd: &Cmd, counters: &Counters) -> RedisResult<Value> {
        let index = self.next.fetch_add(1, Relaxed) % self.len();
        self.ask_on(index, cmd, counters).await
    }

    /// Asks on every connection, one after the other, until one fails.
    pub(crate) async fn ask_on_each(&self, cmd: &Cmd, counters: &Counters) -> RedisResult<()> {
        for index in 0..self.len() {
            self.ask_on(index, cmd, counters).await?;
        }
        Ok(())
    }

    /// Gives all connections up, so that the next calls make new ones: one that died without a
    /// word would otherwise be waited for until the system notices, which takes minutes.
    pub(crate) fn discard_all(&self) {
        match &self.slots {
            Slots::Single(_, slots) => slots.iter().for_each(|slot| *slot.lock() = None),
            #[cfg(feature = "cluster")]
            Slots::Cluster(_, slots) => slots.iter().for_each(|slot| *lock(slot) = None),
        }
    }

    fn len(&self) -> usize {
        match &self.slots {
            Slots::Single(_, slots) => slots.len(),
            #[cfg(feature = "cluster")]
            Slots::Cluster(_, slots) => slots.len(),
        }
    }

    async fn ask_on(&self, index: usize, cmd: &Cmd, counters: &Counters) -> RedisResult<Value> {
        match &self.slots {
            Slots::Single(client, slots) => {
                slots[index].ask(client, self.timeouts, cmd, counters).await
            }
            #[cfg(feature = "cluster")]
            Slots::Cluster(client, slots) => {
                let mut connection = self.cluster_connection(client, &slots[index]);
                match cmd.query_async(&mut connection).await {
                    // Its tries were over before it had made a new connection. The next waits for that.
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
    /// Asks; and once more on a new connection, if the request was surely not written to the first.
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
    async fn connection(&self, client: &Client, timeouts: Timeouts) -> RedisResult<Arc<Connection>> {
        let mut pending = self.pending(client, timeouts);
        match pending.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(made)) => made.clone(),
            // Its runtime is gone.
            _ => Err(closed()),
        }
    }

    /// A new one is made by a task of its own: a caller gives up at its deadline, that goes on.
    fn pending(&self, client: &Client, timeouts: Timeouts) -> PendingConnection {
        let mut slot = self.lock();
        if let Some(pending) = slot.as_ref().filter(|pending| is_usable(pending)) {
            return pending.clone();
        }
        let (tell, pending) = watch::channel(None);
        let client = client.clone();
        tokio::spawn(async move {
            let made = Connection::make(&client, timeouts).await.map(Arc::new);
            let _ = tell.send(Some(made));
        });
        *slot = Some(pending.clone());
        pending
    }

    /// Another caller may have given it up, and a new one may be there already.
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
        f.debug_struct("Link")
            .field("limits", &self.timeouts)
            .field("connections", &self.len())
            .finish_non_exhaustive()
    }
}
