//! The task that sends the counts of a batched limiter.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tollgate::{Clock, Tick};

use super::batched::Shared;
use super::counter_store::{Charge, CounterStore, WindowCount};
use super::key_counts::KeyCounts;
use crate::bounded_map::Entry;
use crate::unavailable::Unavailable;

/// The largest number of keys in a call.
const KEYS_MAX: usize = 500;
/// The longest pause before keys are sent again: until then, full keys among them get no answer.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(100);

/// The task that sends counts.
pub(super) struct Flusher<L, C> {
    shared: Arc<Shared<L, C>>,
    /// Keys with unsent cells. A key is queued here or in `retries`, once.
    receiver: UnboundedReceiver<Arc<KeyCounts>>,
    /// Keys whose last charge failed, the one that has waited longest first.
    retries: VecDeque<Arc<KeyCounts>>,
    retry_at: Instant,
    /// The last call that sent such keys again counted some, so the others need not wait.
    is_recovering: bool,
}

impl<L: CounterStore, C: Clock> Flusher<L, C> {
    pub(super) fn new(
        shared: Arc<Shared<L, C>>,
        receiver: UnboundedReceiver<Arc<KeyCounts>>,
    ) -> Self {
        let (retries, retry_at, is_recovering) = (VecDeque::new(), Instant::now(), false);
        Self { shared, receiver, retries, retry_at, is_recovering }
    }

    pub(super) async fn run(mut self) {
        // Whether the last call had no room for more keys.
        let mut is_full = false;
        loop {
            let mut first = None;
            if self.retries.is_empty() {
                first = self.receiver.recv().await;
                if first.is_none() {
                    return;
                }
            }
            let has_more = is_full || self.is_recovering;
            if !self.receiver.is_closed() && (!has_more || self.is_away()) {
                self.wait().await;
            }
            let was_away = self.is_away();
            let keys = self.fresh_keys(first);
            is_full = keys.len() == KEYS_MAX;
            let is_any_counted = self.flush(keys).await;
            if was_away {
                self.is_recovering = is_any_counted && !self.retries.is_empty();
            }
            let keys = self.due_retries();
            if !keys.is_empty() {
                self.is_recovering = self.flush(keys).await && !self.retries.is_empty();
            }
        }
    }

    /// Gathers counts for an interval. A full key cuts it short, unless the store is away.
    async fn wait(&self) {
        let Shared { settings, full, .. } = &*self.shared;
        let retry_pause = self.retry_pause();
        match self.is_away() {
            true => tokio::time::sleep(retry_pause).await,
            false => {
                let span = if self.retries.is_empty() { settings.interval } else { retry_pause };
                let _ = tokio::time::timeout(span, full.notified()).await;
            }
        }
    }

    fn retry_pause(&self) -> Duration {
        self.shared.settings.interval.min(RETRY_PAUSE_MAX)
    }

    fn is_away(&self) -> bool {
        self.shared.failures.read() > 0
    }

    /// Up to a call of keys that have not failed. While the store is away, nothing is known about a key, and
    /// one call for all keys shows whether it is back.
    fn fresh_keys(&mut self, first: Option<Arc<KeyCounts>>) -> Vec<Arc<KeyCounts>> {
        let is_away = self.is_away();
        let mut keys = Vec::new();
        let mut next = first.or_else(|| self.receiver.try_recv().ok());
        while let Some(counts) = next {
            match counts.is_failing() && !is_away {
                true => self.retries.push_back(counts),
                false => keys.push(counts),
            }
            next = if keys.len() < KEYS_MAX { self.receiver.try_recv().ok() } else { None };
        }
        if is_away {
            keys.extend(self.oldest_retries(KEYS_MAX - keys.len()));
        }
        keys
    }

    /// Up to a call of keys that failed, once in a pause until some are counted. They have a call of their own,
    /// after that of the others: their faults may fail a whole call, and any number of them delays the others by
    /// one call.
    fn due_retries(&mut self) -> Vec<Arc<KeyCounts>> {
        let is_due =
            self.is_recovering || Instant::now() >= self.retry_at || self.receiver.is_closed();
        match is_due && !self.is_away() {
            true => self.oldest_retries(KEYS_MAX),
            false => Vec::new(),
        }
    }

    fn oldest_retries(&mut self, max: usize) -> Vec<Arc<KeyCounts>> {
        self.retry_at = Instant::now() + self.retry_pause();
        self.retries.drain(..self.retries.len().min(max)).collect()
    }

    /// Sends the counts of keys. Returns whether any was counted.
    async fn flush(&mut self, keys: Vec<Arc<KeyCounts>>) -> bool {
        if keys.is_empty() {
            return false;
        }
        let charge = |counts: &Arc<KeyCounts>| Charge {
            key: counts.key().into(),
            cells: counts.pending.take_unsent(),
        };
        let charges: Vec<_> = keys.iter().map(charge).collect();
        let replies = self.shared.add(&charges).await;
        let is_any_counted = replies.iter().any(Result::is_ok);
        let is_news = self.count_failure(&keys, &replies);
        let now = self.shared.clock.now();
        for (counts, reply) in keys.into_iter().zip(replies) {
            self.settle(counts, reply, now);
        }
        // No request waits for keys that go on failing.
        if is_news {
            self.shared.answered.notify_waiters();
        }
        is_any_counted
    }

    /// Counts the call as failed if the store was away. If it answered, each failure is of one key. Keys that
    /// failed before say nothing about the store. Returns `false` if all keys go on failing.
    fn count_failure(
        &self,
        keys: &[Arc<KeyCounts>],
        replies: &[Result<WindowCount, Unavailable>],
    ) -> bool {
        let is_any_new = keys.iter().any(|counts| !counts.is_failing());
        if replies.iter().any(|reply| matches!(reply, Ok(_) | Err(Unavailable::Failed(_)))) {
            self.shared.failures.set(0);
        } else if is_any_new {
            self.shared.failures.add(1);
        }
        is_any_new || replies.iter().any(Result::is_ok)
    }

    /// Ends the charge of one key.
    fn settle(
        &mut self,
        counts: Arc<KeyCounts>,
        reply: Result<WindowCount, Unavailable>,
        now: Tick,
    ) {
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
                if !counts.pending.restore_unsent() && !self.receiver.is_closed() {
                    self.retries.push_back(counts);
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
