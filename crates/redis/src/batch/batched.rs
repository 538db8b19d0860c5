//! A limiter that decides by a local copy, and says later what it admitted.

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
use super::ledger::{Charge, CounterStore, Known};
use super::tab::{Found, Tab};
use crate::places::{Entry, Places};
use crate::sync::RelaxedCounter;
use crate::{Answer, Origin, Unavailable};

/// The most keys of a call.
const KEYS_MAX: usize = 500;
/// How often a request waits for a call.
const ROUNDS: usize = 3;

/// What is chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) limit: u64,
    pub(crate) most_unsent: u64,
    pub(crate) interval: Duration,
    pub(crate) capacity: u64,
}

/// A limiter of fixed windows over many processes, that admits by what it last heard of the counts
/// and by what it has admitted since, and sends its own counts together: those of all keys in one
/// call, every [`interval`](BatchedBuilder::interval) or when a key has
/// [`as many unsent`](BatchedBuilder::most_unsent) as it may.
///
/// Cheaper than a [`Leased`](crate::Leased) for many lukewarm keys, since one call serves all of
/// them; and not exact.
///
/// **Guarantee.** `p` processes with at most `n` cells unsent each admit at most
/// `limit - 1 + p * n` cells of a key in a window; one process alone at most the limit. For `n` may
/// be taken what a process is asked for within an interval and a call, if that is less, and must
/// be taken the largest request, if that is more. Who is denied was denied by counts that
/// were true when they were heard.
///
/// **Not guaranteed.** That a process which ends has said all: its unsent cells are lost, at most
/// `n`. That nothing is counted twice: counts of a call that failed are sent again. The bound where
/// [`capacity`](BatchedBuilder::capacity) is too small: a key that had no place, and then finds
/// one, is known nothing of, so that one process alone may admit `limit + n`, and `p` of them
/// `limit + p * n`.
///
/// ```
/// # use std::time::Duration;
/// # use tollgate_redis::{Batched, Charge, Known, CounterStore, Unavailable};
/// # struct Blank;
/// # impl CounterStore for Blank {
/// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
/// #         Ok(vec![Known { used: 100, ends_after: Duration::from_secs(1) }; charges.len()])
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let batched = Batched::builder(Blank, 100).most_unsent(10).build()?;
/// for _ in 0..10 {
///     assert!(batched.check(b"somebody").await?.decision.is_ok());
/// }
/// // By then it has heard that others have used all.
/// assert!(batched.check(b"somebody").await?.decision.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batched<L, C = QuantaClock> {
    shared: Arc<Shared<L, C>>,
    /// Ends the task when the last one is dropped.
    unsent: UnboundedSender<Arc<Tab>>,
}

struct Shared<L, C> {
    ledger: L,
    clock: C,
    rules: Rules,
    tabs: Places<Tab>,
    /// Somebody has as much unsent as may be.
    full: Notify,
    landed: Notify,
    /// Calls that have failed in a row.
    failures: RelaxedCounter,
    counts: Counts,
}

/// What a request is told without waiting.
enum Asked {
    Answered(Answer),
    Crowded,
    NoPlace,
}

#[derive(Debug, Default)]
struct Counts {
    decisions: RelaxedCounter,
    calls: RelaxedCounter,
    failed: RelaxedCounter,
    cells: RelaxedCounter,
    without_place: RelaxedCounter,
}

/// What a [`Batched`] has counted.
///
/// ```
/// assert_eq!(tollgate_redis::BatchStats::default().calls, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchStats {
    /// Requests that were decided.
    pub decisions: u64,
    /// Calls to the ledger.
    pub calls: u64,
    /// Of these, the ones that failed.
    pub failed: u64,
    /// Cells that the ledger has answered for.
    pub cells: u64,
    /// Requests that found no place for their key, and cost a call each.
    pub without_place: u64,
    /// Keys that counts are kept of.
    pub keys: u64,
}

impl<L, C> Clone for Batched<L, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), unsent: self.unsent.clone() }
    }
}

impl<L, C> fmt::Debug for Batched<L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched").field("rules", &self.shared.rules).finish_non_exhaustive()
    }
}

impl<L: CounterStore> Batched<L> {
    /// A builder for a limiter of `limit` cells in each of the ledger's windows.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let batched = Batched::builder(Blank, 100).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(ledger: L, limit: u64) -> BatchedBuilder<L> {
        BatchedBuilder::new(ledger, limit)
    }
}

impl<L: CounterStore, C: Clock + Send + Sync + 'static> Batched<L, C> {
    pub(crate) fn start(ledger: L, clock: C, rules: Rules, runtime: &Handle) -> Self {
        let (unsent, receiver) = unbounded_channel();
        let tabs = Places::new(rules.capacity);
        let (full, landed) = (Notify::new(), Notify::new());
        let (failures, counts) = (RelaxedCounter::default(), Counts::default());
        let shared = Shared { ledger, clock, rules, tabs, full, landed, failures, counts };
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
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
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

    /// Asks for `n` cells of `key`'s window, all of them or none. It waits only where as much is
    /// unsent as may be.
    ///
    /// # Errors
    ///
    /// As much is unsent as may be, and the ledger is unavailable, or did not keep up.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
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
            // In line before the look: an answer that comes after it is told to those in line.
            let landed = self.shared.landed.notified();
            let mut landed = core::pin::pin!(landed);
            landed.as_mut().enable();
            match self.ask(key, n) {
                Asked::Answered(answer) => return Ok(answer),
                Asked::NoPlace => return self.shared.ask_at_once(key, n).await,
                Asked::Crowded => {}
            }
            if self.unsent.is_closed() {
                return Err(Unavailable::Failed("the task that sends counts has ended".into()));
            }
            self.shared.full.notify_one();
            landed.await;
            if self.shared.failures.read() > 0 {
                let why = "as many counts are unsent as may be, and sending them failed";
                return self.try_check(key, n).ok_or_else(|| Unavailable::Failed(why.into()));
            }
        }
        Err(Unavailable::TimedOut)
    }

    /// The same, if it can be answered without waiting.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let batched = Batched::builder(Blank, 100).most_unsent(2).build()?;
    /// assert!(batched.try_check(b"a", 2).is_some());
    /// assert!(batched.try_check(b"a", 1).is_none()); // as much is unsent as may be
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_check(&self, key: &[u8], n: u64) -> Option<Answer> {
        match self.ask(key, n) {
            Asked::Answered(answer) => Some(answer),
            Asked::NoPlace | Asked::Crowded => None,
        }
    }

    fn ask(&self, key: &[u8], n: u64) -> Asked {
        let Shared { rules, counts, full, clock, tabs, .. } = &*self.shared;
        loop {
            let (Some(tab), _) = tabs.open(key, || clock.now()) else { return Asked::NoPlace };
            let decision = match tab.ask(n, rules.limit, rules.most_unsent, clock.now()) {
                Found::Admitted { parts, first, full: is_full } => {
                    if first {
                        // The task ends after this does, or with the runtime; then nobody is told.
                        let _ = self.unsent.send(tab);
                    }
                    if is_full {
                        full.notify_one();
                    }
                    Ok(parts.permit())
                }
                Found::Denied { parts, after } => {
                    Err(parts.denied((n <= rules.limit).then_some(after)))
                }
                Found::Crowded => return Asked::Crowded,
                Found::GivenUp => {
                    tabs.forget(&tab);
                    continue;
                }
            };
            counts.decisions.add(1);
            return Asked::Answered(Answer { decision, origin: Origin::Memory });
        }
    }

    /// The cells of a window.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
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
        self.shared.rules.limit
    }

    /// What was counted so far.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_redis::{BatchError, Batched, Charge, Known, CounterStore, Unavailable};
    /// # struct Blank;
    /// # impl CounterStore for Blank {
    /// #     async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
    /// #         Ok(vec![Known { used: 0, ends_after: Duration::from_secs(1) }; charges.len()])
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
        let Shared { counts, tabs, .. } = &*self.shared;
        BatchStats {
            decisions: counts.decisions.read(),
            calls: counts.calls.read(),
            failed: counts.failed.read(),
            cells: counts.cells.read(),
            without_place: counts.without_place.read(),
            keys: tabs.len(),
        }
    }
}

impl<L: CounterStore, C: Clock> Shared<L, C> {
    /// Counts first, and then decides: what is denied was counted too.
    async fn ask_at_once(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        let Counts { decisions, without_place, .. } = &self.counts;
        without_place.add(1);
        let limit = self.rules.limit;
        let cells = if n > limit { 0 } else { n };
        let known = self.add(&[Charge { key: key.into(), cells }]).await?;
        let Some(&Known { used, ends_after }) = known.first() else {
            return Err(Unavailable::Failed("the ledger did not answer for the key".into()));
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

    async fn add(&self, charges: &[Charge]) -> Result<Vec<Known>, Unavailable> {
        self.counts.calls.add(1);
        let reply = match self.ledger.add(charges).await {
            Ok(known) if known.len() != charges.len() => {
                Err(Unavailable::Failed("the ledger did not answer for each key".into()))
            }
            reply => reply,
        };
        match &reply {
            Ok(_) => {
                self.counts.cells.add(charges.iter().map(|charge| charge.cells).sum());
                self.failures.put(0);
            }
            Err(_) => {
                self.counts.failed.add(1);
                self.failures.add(1);
            }
        }
        reply
    }
}

/// The task that sends counts.
struct Flusher<L, C> {
    shared: Arc<Shared<L, C>>,
    /// Tabs with something unsent, each once.
    receiver: UnboundedReceiver<Arc<Tab>>,
    requeue: tokio::sync::mpsc::WeakUnboundedSender<Arc<Tab>>,
}

impl<L: CounterStore, C: Clock> Flusher<L, C> {
    async fn run(mut self) {
        while let Some(first) = self.receiver.recv().await {
            if !self.receiver.is_closed() {
                let Shared { rules, full, .. } = &*self.shared;
                // Somebody who is full cuts the time short, unless the ledger failed just now.
                let failed = self.shared.failures.read() > 0;
                match failed {
                    true => tokio::time::sleep(rules.interval).await,
                    false => drop(tokio::time::timeout(rules.interval, full.notified()).await),
                }
            }
            let mut tabs = vec![first];
            while tabs.len() < KEYS_MAX
                && let Ok(tab) = self.receiver.try_recv()
            {
                tabs.push(tab);
            }
            self.flush(&tabs).await;
        }
    }

    async fn flush(&self, tabs: &[Arc<Tab>]) {
        let charge = |tab: &Arc<Tab>| Charge { key: tab.key().into(), cells: tab.send() };
        let charges: Vec<_> = tabs.iter().map(charge).collect();
        match self.shared.add(&charges).await {
            Ok(known) => {
                let now: Tick = self.shared.clock.now();
                for (tab, known) in tabs.iter().zip(known) {
                    tab.land(known, now);
                }
            }
            Err(_) => {
                let requeue = self.requeue.upgrade();
                for tab in tabs {
                    // What came meanwhile has put it in line already.
                    if !tab.fail()
                        && let Some(requeue) = &requeue
                    {
                        let _ = requeue.send(Arc::clone(tab));
                    }
                }
            }
        }
        self.shared.landed.notify_waiters();
    }
}

impl<L, C> Drop for Flusher<L, C> {
    fn drop(&mut self) {
        // Nobody is to wait for what is no longer sent.
        self.receiver.close();
        self.shared.landed.notify_waiters();
    }
}
