//! The state of a key in a batched limiter.

use tollgate::Tick;

use super::pending_counts::PendingCounts;
use crate::bounded_map::Entry;
use crate::sync::RelaxedCounter;

/// The pending counts of a key, and whether its last charge failed.
#[derive(Debug)]
pub(super) struct KeyCounts {
    pub(super) pending: PendingCounts,
    failing: RelaxedCounter,
}

impl KeyCounts {
    /// Whether the key's last charge failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.read() > 0
    }

    /// Only the task that sends counts calls this.
    pub(super) fn set_failing(&self, is_failing: bool) {
        self.failing.set(is_failing.into());
    }
}

impl Entry for KeyCounts {
    fn new(key: &[u8]) -> Self {
        Self { pending: Entry::new(key), failing: RelaxedCounter::new() }
    }

    fn key(&self) -> &[u8] {
        self.pending.key()
    }

    fn retire(&self, now: Tick) -> bool {
        self.pending.retire(now)
    }

    fn unspent(&self) -> u64 {
        self.pending.unspent()
    }
}
