//! The connections to a server, or to a cluster of them.

#![allow(clippy::disallowed_types, reason = "held for a clone, before a round trip")]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use redis::{
    Client, Cmd, RedisResult, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
#[cfg(feature = "cluster")]
use redis::{
    cluster::{ClusterClient, ClusterConfig},
    cluster_async::ClusterConnection,
};

/// Calls that may wait for their turn to be written, on one connection.
const QUEUE: usize = 1_024;

/// Who is spoken to.
pub(crate) enum Target {
    Single(Client),
    #[cfg(feature = "cluster")]
    Cluster(Box<ClusterClient>),
}

/// How long connections may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

/// A few connections, made when they are first used and used in turn.
pub(crate) struct Link {
    target: Target,
    limits: Limits,
    wires: Box<[Mutex<Option<Wire>>]>,
    next: AtomicUsize,
}

#[derive(Clone)]
enum Wire {
    Single(ConnectionManager),
    #[cfg(feature = "cluster")]
    Cluster(ClusterConnection),
}

impl Link {
    pub(crate) fn new(target: Target, limits: Limits, connections: usize) -> Self {
        let wires = (0..connections.max(1)).map(|_| Mutex::new(None)).collect();
        Self { target, limits, wires, next: AtomicUsize::new(0) }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        !matches!(self.target, Target::Single(_))
    }

    /// Asks on the next connection. The caller sees to the deadline.
    pub(crate) async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        let index = self.next.fetch_add(1, Relaxed) % self.wires.len();
        self.ask_on(index, cmd).await
    }

    /// Asks on every connection, one after the other, until one fails.
    pub(crate) async fn ask_on_each(&self, cmd: &Cmd) -> RedisResult<()> {
        for index in 0..self.wires.len() {
            self.ask_on(index, cmd).await?;
        }
        Ok(())
    }

    /// Gives all connections up, so that the next calls make new ones: one that died without a
    /// word would otherwise be waited for until the system notices, which takes minutes.
    pub(crate) fn renew(&self) {
        for wire in &self.wires {
            *wire.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    async fn ask_on(&self, index: usize, cmd: &Cmd) -> RedisResult<Value> {
        match self.wire(index)? {
            Wire::Single(mut manager) => cmd.query_async(&mut manager).await,
            #[cfg(feature = "cluster")]
            Wire::Cluster(mut connection) => cmd.query_async(&mut connection).await,
        }
    }

    fn wire(&self, index: usize) -> RedisResult<Wire> {
        let mut wire = self.wires[index].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wire) = &*wire {
            return Ok(wire.clone());
        }
        let made = self.make()?;
        *wire = Some(made.clone());
        Ok(made)
    }

    fn make(&self) -> RedisResult<Wire> {
        match &self.target {
            Target::Single(client) => {
                // The circuit breaker decides when to try again, so the manager tries once.
                let config = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(self.limits.connect))
                    .set_response_timeout(Some(self.limits.response))
                    .set_number_of_retries(0)
                    .set_min_delay(Duration::from_millis(1))
                    .set_max_delay(self.limits.connect)
                    .set_pipeline_buffer_size(QUEUE);
                let manager = ConnectionManager::new_lazy_with_config(client.clone(), config)?;
                // It connects while somebody waits for it: a caller gives up at its deadline, this
                // goes on.
                let mut waiting = manager.clone();
                tokio::spawn(async move {
                    let _: RedisResult<Value> = redis::cmd("PING").query_async(&mut waiting).await;
                });
                Ok(Wire::Single(manager))
            }
            #[cfg(feature = "cluster")]
            Target::Cluster(client) => {
                let config = ClusterConfig::new()
                    .set_connection_timeout(self.limits.connect)
                    .set_response_timeout(self.limits.response);
                Ok(Wire::Cluster(client.get_pending_async_connection_with_config(config)))
            }
        }
    }
}

impl core::fmt::Debug for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The target may hold a password.
        f.debug_struct("Link")
            .field("limits", &self.limits)
            .field("connections", &self.wires.len())
            .finish_non_exhaustive()
    }
}
