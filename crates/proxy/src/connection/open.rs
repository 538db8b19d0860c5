//! A client's connection that is open, and the slots that it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::per_client::PerClientSlot;
use crate::metrics::Metrics;

/// A client's connection is open until this is dropped, an upgraded one too.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    metrics: Arc<Metrics>,
    held: ConnectionSlots,
    _alive: mpsc::Sender<()>,
}

/// The places that a connection holds in the bounds on connections.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    pub(crate) slot: Slot,
    pub(crate) _per_client: PerClientSlot,
}

/// Places of connections.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    /// A client has connected and waits for one.
    is_wanted: AtomicBool,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(count));
        Arc::new(Self { free, is_wanted: AtomicBool::new(false) })
    }

    /// The next that is free.
    pub(crate) async fn take(self: &Arc<Self>) -> Slot {
        let free = Arc::clone(&self.free);
        let permit = match Arc::clone(&free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.is_wanted.store(true, Ordering::Relaxed);
                let permit = free.acquire_owned().await.expect("it is never closed");
                self.is_wanted.store(false, Ordering::Relaxed);
                permit
            }
        };
        Slot { slots: Arc::clone(self), _permit: permit }
    }
}

/// One that is taken, until this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    _permit: OwnedSemaphorePermit,
}

impl OpenConnection {
    pub(crate) fn begin(metrics: Arc<Metrics>, held: ConnectionSlots, alive: mpsc::Sender<()>) -> Arc<Self> {
        metrics.connection_opened();
        Arc::new(Self { metrics, held, _alive: alive })
    }

    /// Whether another client waits for a connection to end, because there may be no more of them.
    pub(crate) fn is_wanted(&self) -> bool {
        self.held.slot.slots.is_wanted.load(Ordering::Relaxed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.metrics.connection_closed();
    }
}
