//! A limiter that decides by a local copy of the counts, and sends later what it admitted.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tollgate::clock::QuantaClock;
use tollgate::decision::DecisionParts;
use tollgate::{Clock, Tick};

use super::builder::BatchedBuilder;
use super::counter_store::{Charge, CounterStore, WindowCount};
use super::pending_counts::{AskOutcome, PendingCounts};
use crate::bounded_map::{BoundedMap, Entry};
use crate::sync::RelaxedCounter;
use crate::{Answer, Origin, Unavailable};

/// The largest number of keys in a call.
const KEYS_MAX: usize = 500;
/// How many calls a request waits for.
const ROUNDS: usize = 3;

/// The chosen settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(super) limit: u64,
    pub(super) max_unsent: u64,
    pub(super) interval: Duration,
    pub(super) capacity: u64,
}

/// A limiter of fixed windows over many processes. It admits by the counts it last received and by
/// what it has admitted since. It sends the counts of all keys in one call, every
/// [`interval`](BatchedBuilder::interval) or when a key has [as many
/// unsent](BatchedBuilder::max_unsent) as it may.
///
/// For many lukewarm keys it is cheaper than [`Leased`](crate::Leased), because one call serves all
/// of them. It is not exact.
///
/// **Guarantee.** `p` processes with at most `n` unsent cells each admit at most
/// `limit - 1 + p * n` cells of a key in a window. One process alone admits at most the limit. For
/// `n` you may take the number of cells that a process is asked for within an interval and a call,
/// if that is smaller. You must take the largest request, if that is larger. A denied request was
/// denied by counts that were true when they were received.
///
/// **Not guaranteed.** A process that ends may not have sent everything: at most `n` unsent cells
/// are lost. Cells may be counted twice, because counts of a failed call are sent again. The bound
/// does not hold if [`capacity`](BatchedBuilder::capacity) is too small: when a key that had no
/// room finds some, its earlier counts are unknown, so one process alone may admit `limit + n`, and
/// `p` of them `limit + p * n`.
///
/// ```
/// # use std::time::Duration;
/// # use tollgate_redis::{Batched, Charge, WindowCount, CounterStore, Unavailable};
/// # struct Blank;
/// # impl CounterStore for Blank {
/// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
/// #         Ok(vec![WindowCount { used: 100, ends_after: Duration::from_secs(1) }; charges.len()])
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let batched = Batched::builder(Blank, 100).max_unsent(10).build()?;
/// for _ in 0..10 {
///     assert!(batched.check(b"alice").await?.decision.is_ok());
/// }
/// // By then it has learned that others have used everything.
/// assert!(batched.check(b"alice").await?.decision.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batched<L, C = QuantaClock> {
    shared: Arc<Shared<L, C>>,
    /// Ends the task when the last clone is dropped.
    unsent: UnboundedSender<Arc<PendingCounts>>,
}

struct Shared<L, C> {
    store: L,
    clock: C,
    settings: Settings,
    keys: BoundedMap<PendingCounts>,
    /// Notifies the task that a key has as many unsent cells as it may.
    full: Notify,
    answered: Notify,
    /// Calls that have failed in a row.
    failures: RelaxedCounter,
    stats: StatCounters,
}

/// The answer that a request gets without waiting.
enum Asked {
    Answered(Answer),
    Backlogged,
    MapFull,
}

#[derive(Debug, Default)]
struct StatCounters {
    decisions: RelaxedCounter,
    calls: RelaxedCounter,
    failed: RelaxedCounter,
    cells: RelaxedCounter,
    untracked: RelaxedCounter,
}

/// Counters of a [`Batched`].
///
/// ```
/// assert_eq!(tollgate_redis::BatchStats::default().calls, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchStats {
    /// Requests that were decided.
    pub decisions: u64,
    /// Calls to the counter store.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Cells that the counter store has answered for.
    pub cells: u64,
    /// Requests for keys that found no room. Each cost a call.
    pub untracked: u64,
    /// Keys whose counts are kept.
    pub keys: u64,
}

impl<L, C> Clone for Batched<L, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), unsent: self.unsent.clone() }
    }
}

impl<L, C> fmt::Debug for Batched<L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl<L: CounterStore> Batched<L> {
    /// A builder for a limiter of `limit` cells in each window of the counter store.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
    /// #         Ok(vec![WindowCount { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let batched = Batched::builder(Blank, 100).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(store: L, limit: u64) -> BatchedBuilder<L> {
        BatchedBuilder::new(store, limit)
    }
}

impl<L: CounterStore, C: Clock + Send + Sync + 'static> Batched<L, C> {
    pub(super) fn start(store: L, clock: C, settings: Settings, runtime: &Handle) -> Self {
        let (unsent, receiver) = unbounded_channel();
        let keys = BoundedMap::new(settings.capacity);
        let (full, answered) = (Notify::new(), Notify::new());
        let (failures, stats) = (RelaxedCounter::default(), StatCounters::default());
        let shared = Shared { store, clock, settings, keys, full, answered, failures, stats };
        let batched = Self { shared: Arc::new(shared), unsent };
        let requeue = batched.unsent.downgrade();
        let shared = Arc::clone(&batched.shared);
        runtime.spawn(async move { Flusher { shared, receiver, requeue }.run().await });
        batched
    }

    /// Asks for one cell of `key`'s window.
    ///
    /// # Errors
    ///
    /// As [`check_n`](Self::check_n).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
    /// #         Ok(vec![WindowCount { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let batched = Batched::builder(Blank, 100).build()?;
    /// assert_eq!(batched.check(b"a").await?.decision?.remaining(), 99);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn check(&self, key: &[u8]) -> Result<Answer, Unavailable> {
        self.check_n(key, 1).await
    }

    /// Asks for `n` cells of `key`'s window, all of them or none. The call waits only if the key
    /// has as many unsent cells as it may.
    ///
    /// # Errors
    ///
    /// The key has as many unsent cells as it may, and the counter store is unavailable or too
    /// slow.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
    /// #         Ok(vec![WindowCount { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let batched = Batched::builder(Blank, 100).build()?;
    /// let denied = batched.check_n(b"a", 101).await?.decision.unwrap_err();
    /// assert_eq!(denied.retry_after(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn check_n(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        for _ in 0..ROUNDS {
            // Subscribe before the attempt: an answer that comes after it wakes subscribers.
            let answered = self.shared.answered.notified();
            let mut answered = core::pin::pin!(answered);
            answered.as_mut().enable();
            match self.ask(key, n) {
                Asked::Answered(answer) => return Ok(answer),
                Asked::MapFull => return self.shared.count_then_decide(key, n).await,
                Asked::Backlogged => {}
            }
            if self.unsent.is_closed() {
                return Err(Unavailable::Failed("the task that sends counts has ended".into()));
            }
            self.shared.full.notify_one();
            answered.await;
            if self.shared.failures.read() > 0 {
                let why = "as many counts are unsent as may be, and sending them failed";
                return self.try_check(key, n).ok_or_else(|| Unavailable::Failed(why.into()));
            }
        }
        Err(Unavailable::TimedOut)
    }

    /// The answer of [`check_n`](Self::check_n), if it needs no waiting.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
    /// #         Ok(vec![WindowCount { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let batched = Batched::builder(Blank, 100).max_unsent(2).build()?;
    /// assert!(batched.try_check(b"a", 2).is_some());
    /// assert!(batched.try_check(b"a", 1).is_none()); // as many cells are unsent as may be
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_check(&self, key: &[u8], n: u64) -> Option<Answer> {
        match self.ask(key, n) {
            Asked::Answered(answer) => Some(answer),
            Asked::MapFull | Asked::Backlogged => None,
        }
    }

    fn ask(&self, key: &[u8], n: u64) -> Asked {
        let Shared { settings, stats, full, clock, keys, .. } = &*self.shared;
        loop {
            let (Some(counts), _) = keys.get_or_insert(key, || clock.now()) else {
                return Asked::MapFull;
            };
            let decision = match counts.ask(n, settings.limit, settings.max_unsent, clock.now()) {
                AskOutcome::Admitted { parts, first, full: is_full } => {
                    if first {
                        // The task outlives this limiter unless its runtime ends; then no one sends.
                        let _ = self.unsent.send(counts);
                    }
                    if is_full {
                        full.notify_one();
                    }
                    Ok(parts.permit())
                }
                AskOutcome::Denied { parts, after } => {
                    Err(parts.denied((n <= settings.limit).then_some(after)))
                }
                AskOutcome::Backlogged => return Asked::Backlogged,
                AskOutcome::Retired => {
                    keys.remove(&counts);
                    continue;
                }
            };
            stats.decisions.add(1);
            return Asked::Answered(Answer { decision, origin: Origin::Memory });
        }
    }

    /// The limit of a window.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
    /// #         Ok(vec![WindowCount { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// assert_eq!(Batched::builder(Blank, 600).build()?.limit(), 600);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.shared.settings.limit
    }

    /// Counters so far.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
    /// #         Ok(vec![WindowCount { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// assert_eq!(Batched::builder(Blank, 100).build()?.stats().decisions, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> BatchStats {
        let Shared { stats, keys, .. } = &*self.shared;
        BatchStats {
            decisions: stats.decisions.read(),
            calls: stats.calls.read(),
            failed: stats.failed.read(),
            cells: stats.cells.read(),
            untracked: stats.untracked.read(),
            keys: keys.len(),
        }
    }
}

impl<L: CounterStore, C: Clock> Shared<L, C> {
    /// Counts first and decides then, so a denied request is counted too.
    async fn count_then_decide(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        let StatCounters { decisions, untracked, .. } = &self.stats;
        untracked.add(1);
        let limit = self.settings.limit;
        let cells = if n > limit { 0 } else { n };
        let windows = self.add(&[Charge { key: key.into(), cells }]).await?;
        let Some(&WindowCount { used, ends_after }) = windows.first() else {
            return Err(Unavailable::Failed("the counter store did not answer for the key".into()));
        };
        decisions.add(1);
        let remaining = limit.saturating_sub(used);
        let parts = DecisionParts { limit, remaining, reset_after: ends_after };
        let decision = match n <= limit && used <= limit {
            true => Ok(parts.permit()),
            false => Err(parts.denied((n <= limit).then_some(ends_after))),
        };
        Ok(Answer { decision, origin: Origin::Server })
    }

    async fn add(&self, charges: &[Charge]) -> Result<Vec<WindowCount>, Unavailable> {
        self.stats.calls.add(1);
        let reply = match self.store.add(charges).await {
            Ok(windows) if windows.len() != charges.len() => {
                Err(Unavailable::Failed("the counter store did not answer for each key".into()))
            }
            reply => reply,
        };
        match &reply {
            Ok(_) => {
                self.stats.cells.add(charges.iter().map(|charge| charge.cells).sum());
                self.failures.set(0);
            }
            Err(_) => {
                self.stats.failed.add(1);
                self.failures.add(1);
            }
        }
        reply
    }
}

/// The task that sends counts.
struct Flusher<L, C> {
    shared: Arc<Shared<L, C>>,
    /// Counts with unsent cells, each queued once.
    receiver: UnboundedReceiver<Arc<PendingCounts>>,
    requeue: tokio::sync::mpsc::WeakUnboundedSender<Arc<PendingCounts>>,
}

impl<L: CounterStore, C: Clock> Flusher<L, C> {
    async fn run(mut self) {
        while let Some(first) = self.receiver.recv().await {
            if !self.receiver.is_closed() {
                let Shared { settings, full, .. } = &*self.shared;
                // A full key cuts the interval short, unless the last call failed.
                let failed = self.shared.failures.read() > 0;
                match failed {
                    true => tokio::time::sleep(settings.interval).await,
                    false => drop(tokio::time::timeout(settings.interval, full.notified()).await),
                }
            }
            let mut keys = vec![first];
            while keys.len() < KEYS_MAX
                && let Ok(counts) = self.receiver.try_recv()
            {
                keys.push(counts);
            }
            self.flush(&keys).await;
        }
    }

    async fn flush(&self, keys: &[Arc<PendingCounts>]) {
        let charge = |counts: &Arc<PendingCounts>| Charge {
            key: counts.key().into(),
            cells: counts.take_unsent(),
        };
        let charges: Vec<_> = keys.iter().map(charge).collect();
        match self.shared.add(&charges).await {
            Ok(windows) => {
                let now: Tick = self.shared.clock.now();
                for (counts, window) in keys.iter().zip(windows) {
                    counts.acknowledge(window, now);
                }
            }
            Err(_) => {
                let requeue = self.requeue.upgrade();
                for counts in keys {
                    // If cells were admitted meanwhile, the key is already queued.
                    if !counts.restore_unsent()
                        && let Some(requeue) = &requeue
                    {
                        let _ = requeue.send(Arc::clone(counts));
                    }
                }
            }
        }
        self.shared.answered.notify_waiters();
    }
}

impl<L, C> Drop for Flusher<L, C> {
    fn drop(&mut self) {
        // Requests must not wait for counts that are no longer sent.
        self.receiver.close();
        self.shared.answered.notify_waiters();
    }
}
