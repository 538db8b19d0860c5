//! The task that sends the counts of a batched limiter.

use core::time::Duration;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, WeakUnboundedSender};
use tollgate::{Clock, Tick};

use super::batched::Shared;
use super::counter_store::{Charge, CounterStore, WindowCount};
use super::key_counts::KeyCounts;
use crate::Unavailable;
use crate::bounded_map::Entry;

/// The largest number of keys in a call.
const KEYS_MAX: usize = 500;
/// The longest pause after a call that failed: until a call succeeds, full keys get no answer.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(100);

/// The task that sends counts.
pub(super) struct Flusher<L, C> {
    pub(super) shared: Arc<Shared<L, C>>,
    /// Keys with unsent cells, each queued once.
    pub(super) receiver: UnboundedReceiver<Arc<KeyCounts>>,
    pub(super) requeue: WeakUnboundedSender<Arc<KeyCounts>>,
}

impl<L: CounterStore, C: Clock> Flusher<L, C> {
    pub(super) async fn run(mut self) {
        while let Some(first) = self.receiver.recv().await {
            if !self.receiver.is_closed() {
                let Shared { settings, full, failures, .. } = &*self.shared;
                // A full key cuts the interval short, unless the last call failed.
                match failures.read() > 0 {
                    true => tokio::time::sleep(settings.interval.min(RETRY_PAUSE_MAX)).await,
                    false => drop(tokio::time::timeout(settings.interval, full.notified()).await),
                }
            }
            let mut keys = vec![first];
            while keys.len() < KEYS_MAX
                && let Ok(counts) = self.receiver.try_recv()
            {
                keys.push(counts);
            }
            self.flush_each(keys).await;
        }
    }

    /// Sends the keys whose last charge failed in a second call, because one faulty key may fail a whole call. While
    /// calls fail for all keys, the fault is the store's, and all keys are sent together.
    async fn flush_each(&self, mut keys: Vec<Arc<KeyCounts>>) {
        keys.sort_by_key(|counts| counts.is_failing());
        let failing = match self.shared.failures.read() {
            0 => keys.split_off(keys.partition_point(|counts| !counts.is_failing())),
            _ => Vec::new(),
        };
        for some in [keys, failing] {
            if !some.is_empty() {
                self.flush(some).await;
            }
        }
    }

    async fn flush(&self, keys: Vec<Arc<KeyCounts>>) {
        let charge = |counts: &Arc<KeyCounts>| Charge {
            key: counts.key().into(),
            cells: counts.pending.take_unsent(),
        };
        let charges: Vec<_> = keys.iter().map(charge).collect();
        let replies = self.shared.add(&charges).await;
        let is_news = self.count_failure(&keys, &replies);
        let now = self.shared.clock.now();
        for (counts, reply) in keys.into_iter().zip(replies) {
            self.settle(counts, reply, now);
        }
        // No request waits for keys that go on failing.
        if is_news {
            self.shared.answered.notify_waiters();
        }
    }

    /// Counts the call as failed if no key was answered. Keys that failed before say nothing about
    /// the store: each may have a fault of its own. Returns `false` if all keys go on failing.
    fn count_failure(
        &self,
        keys: &[Arc<KeyCounts>],
        replies: &[Result<WindowCount, Unavailable>],
    ) -> bool {
        if replies.iter().any(Result::is_ok) {
            self.shared.failures.set(0);
            return true;
        }
        let is_news = keys.iter().any(|counts| !counts.is_failing());
        if is_news {
            self.shared.failures.add(1);
        }
        is_news
    }

    /// Ends the charge of one key.
    fn settle(&self, counts: Arc<KeyCounts>, reply: Result<WindowCount, Unavailable>, now: Tick) {
        match reply {
            Ok(window) => {
                counts.set_failing(false);
                counts.pending.acknowledge(window, now);
            }
            Err(why) => {
                // With an open circuit nothing was sent, so nothing is known about the key.
                if why != Unavailable::CircuitOpen {
                    counts.set_failing(true);
                }
                // If cells were admitted meanwhile, the key is already queued.
                if !counts.pending.restore_unsent()
                    && let Some(requeue) = self.requeue.upgrade()
                {
                    let _ = requeue.send(counts);
                }
            }
        }
    }
}

impl<L, C> Drop for Flusher<L, C> {
    fn drop(&mut self) {
        // Requests must not wait for counts that are no longer sent.
        self.receiver.close();
        self.shared.answered.notify_waiters();
    }
}
