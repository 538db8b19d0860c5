//! A limiter that decides by a local copy of the counts, and sends later what it admitted.

use core::fmt;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tollgate::Clock;
use tollgate::clock::QuantaClock;
use tollgate::decision::DecisionParts;

use super::builder::BatchedBuilder;
use super::counter_store::{Charge, CounterStore, WindowCount};
use super::flusher::Flusher;
use super::key_counts::KeyCounts;
use super::pending_counts::AskOutcome;
use crate::answer::{Answer, Origin};
use crate::bounded_map::BoundedMap;
use crate::sync::RelaxedCounter;
use crate::unavailable::Unavailable;

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

/// A limiter of fixed windows for several machines. It admits by the counts it last received and by
/// what it has admitted since. It sends the counts of all keys in one call (in several, one after
/// the other, if there are more than 500 keys), every [`interval`](BatchedBuilder::interval) or when
/// a key has [as many unsent](BatchedBuilder::max_unsent) as it may.
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
/// are lost. A charge that failed is sent again until it is answered, and each call that ended
/// without an answer may have counted it. So a server that pauses for longer than the deadline may
/// count cells several times. The failure of one key changes nothing for the others. The bound
/// does not hold if [`capacity`](BatchedBuilder::capacity) is too small: when a key that had no
/// room finds some, its earlier counts are unknown, so one process alone may admit `limit + n`, and
/// `p` of them `limit + p * n`. The end of a window is timed by the process's clock, from the moment
/// at which an answer arrives. If that clock gains more on the store's than the answer took to
/// arrive, or the store's clock is set back within the window, the process takes the window for
/// ended too early and admits `n` cells more: one process alone then admits `limit + n`.
///
/// ```
/// # use std::time::Duration;
/// # use tollgate_redis::{Batched, Charge, WindowCount, CounterStore, Unavailable};
/// # struct Blank;
/// # impl CounterStore for Blank {
/// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
/// #         vec![Ok(WindowCount { used: 100, ends_after: Duration::from_secs(1) }); charges.len()]
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
    unsent: UnboundedSender<Arc<KeyCounts>>,
}

pub(super) struct Shared<L, C> {
    store: L,
    pub(super) clock: C,
    pub(super) settings: Settings,
    keys: BoundedMap<KeyCounts>,
    /// Notifies the task that a key has as many unsent cells as it may.
    pub(super) full: Notify,
    pub(super) answered: Notify,
    /// Calls in a row for which the store was away. Written by the task alone.
    pub(super) failures: RelaxedCounter,
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
    /// Calls that failed for at least one key.
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
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
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
        let flusher = Flusher::new(Arc::clone(&batched.shared), receiver);
        runtime.spawn(flusher.run());
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
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
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
    /// has as many unsent cells as it may, and ends by the counter store's
    /// [deadline](CounterStore::deadline). It does not wait if the last charge of the key failed, or
    /// if the last call was not answered ([`Unavailable`] other than `Failed`).
    ///
    /// # Errors
    ///
    /// The key has as many unsent cells as it may, and the counter store is unavailable or too
    /// slow. Or it has answered three calls, and each time other requests for the key took the room
    /// ([`Unavailable::TimedOut`]). A request for more than [`max_unsent`](BatchedBuilder::max_unsent)
    /// cells is admitted only while no cell of the key is pending, so that happens to it wherever
    /// smaller requests keep the key busy.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, WindowCount, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
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
        let mut began = None;
        for round in 0..=ROUNDS {
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
            // The task tries again later, and no request waits for that.
            if self.is_failing(key) {
                let why = "as many counts are unsent as may be, and sending them failed";
                return Err(Unavailable::Failed(why.into()));
            }
            self.shared.full.notify_one();
            if round == ROUNDS
                || !self.wait(answered, *began.get_or_insert_with(Instant::now)).await
            {
                break;
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
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
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

    /// Waits for an answer. `false` if the deadline of a request that began then comes first.
    async fn wait(&self, answered: Pin<&mut Notified<'_>>, began: Instant) -> bool {
        if Handle::try_current().is_err() {
            // Without a runtime there are no timers.
            answered.await;
            return true;
        }
        let left = self.shared.store.deadline().saturating_sub(began.elapsed());
        tokio::time::timeout(left, answered).await.is_ok()
    }

    /// Whether the last charge of the key failed, or the last call was not answered.
    fn is_failing(&self, key: &[u8]) -> bool {
        let Shared { keys, failures, .. } = &*self.shared;
        failures.read() > 0 || keys.read(key, |counts| counts.is_failing()).unwrap_or(false)
    }

    fn ask(&self, key: &[u8], n: u64) -> Asked {
        let Shared { settings, stats, full, clock, keys, .. } = &*self.shared;
        loop {
            let (Some(counts), _) = keys.get_or_insert(key, || clock.now()) else {
                return Asked::MapFull;
            };
            let decision =
                match counts.pending.ask(n, settings.limit, settings.max_unsent, clock.now()) {
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
    /// #     async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
    /// #         vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
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
        let mut replies = self.add(&[Charge { key: key.into(), cells }]).await;
        let Some(reply) = replies.pop() else {
            return Err(unanswered());
        };
        let WindowCount { used, ends_after } = reply?;
        decisions.add(1);
        let remaining = limit.saturating_sub(used);
        let parts = DecisionParts { limit, remaining, reset_after: ends_after };
        let decision = match n == 0 || n <= limit && used <= limit {
            true => Ok(parts.permit()),
            false => Err(parts.denied((n <= limit).then_some(ends_after))),
        };
        Ok(Answer { decision, origin: Origin::Server })
    }

    pub(super) async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        self.stats.calls.add(1);
        let mut replies = self.store.add(charges).await;
        if replies.len() != charges.len() {
            replies = vec![Err(unanswered()); charges.len()];
        }
        let answered = charges.iter().zip(&replies).filter(|(_, reply)| reply.is_ok());
        self.stats.cells.add(answered.map(|(charge, _)| charge.cells).sum());
        if replies.iter().any(Result::is_err) {
            self.stats.failed.add(1);
        }
        replies
    }
}

fn unanswered() -> Unavailable {
    Unavailable::Failed("the counter store did not answer for each key".into())
}
