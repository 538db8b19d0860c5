//! A membership list that records what the heartbeats of a node report, and so what nodes add that
//! come or go.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tollgate::Clock;
use tollgate_redis::{Heartbeat, Membership, RedisMembership, Unavailable};

use super::strategy::{BURST, INTERVAL_MILLIS, Shifted};

/// The node reads its clock up to this long before or after this file does.
const MOMENT: Duration = Duration::from_millis(10);

/// Cells that a node has in addition, because it came or another node went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// When the node received the answer. It does not apply the change before that.
    pub(crate) received: Instant,
    /// When the node had applied it for certain: an interval before its next heartbeat began.
    pub(crate) done: Option<Instant>,
    pub(crate) cells: u64,
}

impl Change {
    /// Whether the change may have been applied between the two moments.
    pub(crate) fn may_be_within(&self, first: Instant, last: Instant) -> bool {
        self.received <= last && self.done.is_none_or(|done| first <= done)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ObservedMembership {
    membership: RedisMembership,
    clock: Arc<Shifted>,
    observed: Arc<Observed>,
}

#[derive(Debug, Default)]
struct Observed {
    until_nanos: AtomicU64,
    live: AtomicU64,
    changes: Mutex<Vec<Change>>,
}

impl ObservedMembership {
    pub(crate) fn new(membership: RedisMembership, clock: &Arc<Shifted>) -> Self {
        Self { membership, clock: Arc::clone(clock), observed: Arc::default() }
    }

    /// Each time this node got a part after it had none, or a larger part because another node
    /// went.
    pub(crate) fn changes(&self) -> Vec<Change> {
        self.observed.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of nodes that the quota was last divided by.
    pub(crate) fn live(&self) -> u64 {
        self.observed.live.load(SeqCst).max(1)
    }
}

impl Membership for ObservedMembership {
    async fn heartbeat(&self, id: &str, lifetime: Duration) -> Result<Heartbeat, Unavailable> {
        let Self { membership, clock, observed } = self;
        let changes = || observed.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = changes().last_mut() {
            let paused = Duration::from_millis(INTERVAL_MILLIS);
            last.done.get_or_insert_with(|| (Instant::now() - paused).max(last.received));
        }
        let sent = clock.now();
        let heartbeat = membership.heartbeat(id, lifetime).await?;
        let valid_for = lifetime * 2 / 3;
        if heartbeat.member_for >= valid_for {
            let live = heartbeat.live.max(1);
            let before = observed.live.swap(live, SeqCst).max(1);
            let until =
                observed.until_nanos.swap(sent.saturating_add(valid_for).as_nanos(), SeqCst);
            let had_none = clock.now().saturating_add(MOMENT).as_nanos() >= until;
            let kept = if had_none { 0 } else { BURST / before };
            let cells = (BURST / live).saturating_sub(kept);
            changes().push(Change { received: Instant::now(), done: None, cells });
        }
        Ok(heartbeat)
    }

    async fn leave(&self, id: &str) -> Result<(), Unavailable> {
        self.membership.leave(id).await
    }
}
