//! Counters of the calls to a server.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of the calls of one [`Store`](crate::Store), and of their outcomes, since it was built.
///
/// ```
/// use tollgate_redis::Store;
///
/// let store = Store::builder("redis://127.0.0.1:6379").build()?;
/// assert_eq!(store.stats().calls, 0);
/// # Ok::<(), tollgate_redis::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Calls that were made. Each one ends in one of the next four counters, unless its caller
    /// dropped it.
    pub calls: u64,
    /// Calls answered with a decision.
    pub answered: u64,
    /// Calls without an answer by the deadline.
    pub timed_out: u64,
    /// Calls without a connection, or whose connection broke.
    pub disconnected: u64,
    /// Calls answered with an error.
    pub failed: u64,
    /// Calls that were not made because the circuit was open.
    pub skipped: u64,
    /// Scripts sent in full because the server did not have them.
    pub scripts_sent: u64,
    /// How often the circuit opened.
    pub circuit_opened: u64,
    /// Probes of the server while the circuit was open. They count as no calls.
    pub probes: u64,
    /// Connections that were discarded and replaced.
    pub connections_renewed: u64,
    /// Calls sent again on a new connection, because the old one was closed before a byte of the
    /// call was written.
    pub sent_again: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) disconnected: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) scripts_sent: AtomicU64,
    pub(crate) circuit_opened: AtomicU64,
    pub(crate) probes: AtomicU64,
    pub(crate) connections_renewed: AtomicU64,
    pub(crate) sent_again: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> StoreStats {
        StoreStats {
            calls: self.calls.load(Relaxed),
            answered: self.answered.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            disconnected: self.disconnected.load(Relaxed),
            failed: self.failed.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            scripts_sent: self.scripts_sent.load(Relaxed),
            circuit_opened: self.circuit_opened.load(Relaxed),
            probes: self.probes.load(Relaxed),
            connections_renewed: self.connections_renewed.load(Relaxed),
            sent_again: self.sent_again.load(Relaxed),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
