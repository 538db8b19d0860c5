//! An open connection of a client, and the slots that it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use super::per_client::{PerClientSlot, RequestSlot};
use crate::metrics::Metrics;

/// While a client waits for a slot, one more idle connection is asked to close after each of these.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// An open connection of a client. It counts as open until this is dropped; that includes an upgraded
/// connection.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    metrics: Arc<Metrics>,
    held: ConnectionSlots,
    /// Whether a request has arrived.
    is_used: AtomicBool,
    _alive: mpsc::Sender<()>,
}

/// The slots of a connection: one of all connections, and one of its client.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    pub(crate) slot: Slot,
    pub(crate) per_client: Arc<PerClientSlot>,
}

/// The bound on all connections of clients.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    /// Whether a client has connected and waits for a slot.
    is_wanted: AtomicBool,
    /// Asks one idle connection to close.
    wanted: Notify,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(count));
        Arc::new(Self { free, is_wanted: AtomicBool::new(false), wanted: Notify::new() })
    }

    /// Takes a slot, and waits until one is free.
    pub(crate) async fn take(self: &Arc<Self>) -> Slot {
        let free = Arc::clone(&self.free);
        let permit = match Arc::clone(&free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.is_wanted.store(true, Ordering::Relaxed);
                let permit = self.wait(free).await;
                self.is_wanted.store(false, Ordering::Relaxed);
                permit
            }
        };
        Slot { slots: Arc::clone(self), _permit: permit }
    }

    /// Waits for a slot, and asks idle connections to close meanwhile.
    async fn wait(&self, free: Arc<Semaphore>) -> OwnedSemaphorePermit {
        let permit = free.acquire_owned();
        tokio::pin!(permit);
        loop {
            self.wanted.notify_one();
            if let Ok(permit) = tokio::time::timeout(ASK_INTERVAL, &mut permit).await {
                return permit.expect("the semaphore is never closed");
            }
        }
    }
}

/// A slot. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    _permit: OwnedSemaphorePermit,
}

impl OpenConnection {
    pub(crate) fn begin(
        metrics: Arc<Metrics>,
        held: ConnectionSlots,
        alive: mpsc::Sender<()>,
    ) -> Arc<Self> {
        metrics.connection_opened();
        Arc::new(Self { metrics, held, is_used: AtomicBool::new(false), _alive: alive })
    }

    /// Completes when another client waits for a slot, and this connection is asked to make room. One connection
    /// at a time is asked, among those that wait here.
    pub(super) async fn asked_to_close(&self) {
        loop {
            self.held.slot.slots.wanted.notified().await;
            if self.is_wanted() {
                return;
            }
        }
    }

    /// Counts a request in flight: as a further one if the connection has another. `None` if the client has too many.
    pub(crate) fn acquire_request(&self, is_further: bool) -> Option<RequestSlot> {
        if !self.is_used.load(Ordering::Relaxed) && !self.is_used.swap(true, Ordering::Relaxed) {
            self.metrics.connection_used();
        }
        self.held.per_client.acquire_request(is_further)
    }

    /// Whether another client waits for a slot because all are taken.
    pub(crate) fn is_wanted(&self) -> bool {
        self.held.slot.slots.is_wanted.load(Ordering::Relaxed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.metrics.connection_closed(*self.is_used.get_mut());
    }
}
