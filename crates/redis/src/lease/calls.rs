//! The calls of a limiter to its source: which request makes one, which waits, and for how long.

use core::time::Duration;
use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate::{Clock, Tick};

use super::key_state::{Attempt, CellCounts, Completion, KeyState, PendingCall, Prefetch};
use super::lease_source::{LeaseRequest, LeaseSource};
use super::leased::{Leased, Shared};
use super::stats::Stat;
use crate::answer::Answer;
use crate::bounded_map::Entry;
use crate::unavailable::Unavailable;

/// How often a request waits for a call or makes one before it is denied: at least [`ROUNDS_MIN`]
/// times, and then until it has waited for [`MIN_WAIT`]. Tasks that ask for one key at the same
/// time share each call's cells. When requests were denied after four rounds, 64 tasks lost a tenth
/// of the cells.
const ROUNDS_MIN: usize = 4;
const ROUNDS_MAX: usize = 1_000;
const MIN_WAIT: Duration = Duration::from_millis(10);

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> Leased<B, C> {
    /// Calls the source, or waits for calls in flight, until there is an answer or the source's deadline
    /// is over.
    pub(super) async fn answer_by_calls(
        &self,
        key_state: &Arc<KeyState>,
        n: u64,
    ) -> Result<Answer, Unavailable> {
        let mut is_unanswered = false;
        let rounds = self.rounds(key_state, n, &mut is_unanswered);
        let deadline = self.shared.source.deadline();
        let answered = within(deadline, rounds).await.flatten();
        match answered {
            Some(answered) => answered,
            None if is_unanswered => Err(Unavailable::TimedOut),
            None => Ok(key_state.denied_under_load(n, self.now(), &self.shared.settings)),
        }
    }

    /// Calls the source, or waits for calls in flight. `None` after the last round. `is_unanswered` tells
    /// whether the call in flight would have answered, or answered too late.
    async fn rounds(
        &self,
        key_state: &Arc<KeyState>,
        n: u64,
        is_unanswered: &mut bool,
    ) -> Option<Result<Answer, Unavailable>> {
        let mut is_late = false;
        let began = self.now();
        for round in 0..ROUNDS_MAX {
            let now = self.now();
            if round >= ROUNDS_MIN && now.since(began) > MIN_WAIT {
                break;
            }
            match key_state.try_answer(n, now) {
                Attempt::Answered(answer, prefetch) => {
                    if let Prefetch::Cells(min) = prefetch {
                        self.prefetch(key_state, min, now);
                    }
                    return Some(Ok(answer));
                }
                Attempt::Unavailable(why) => return Some(Err(why)),
                Attempt::Ask => {
                    let Some(pending_call) = key_state.begin(n, n, now, &self.shared.settings)
                    else {
                        continue;
                    };
                    *is_unanswered = true;
                    match self.ask(key_state, pending_call).await {
                        Completion::Answered(answer) => return Some(Ok(answer)),
                        Completion::Unavailable(why) => return Some(Err(why)),
                        // One window may have ended meanwhile. After two late calls, all would be late.
                        Completion::Late if is_late => return None,
                        Completion::Late => is_late = true,
                    }
                }
                Attempt::Wait => {
                    *is_unanswered |= round == 0;
                    self.wait(key_state, n).await;
                    *is_unanswered = is_late;
                }
            }
        }
        None
    }

    /// Waits for the end of a call in flight.
    async fn wait(&self, key_state: &KeyState, n: u64) {
        let _waiting = key_state.waiting_for(n);
        let call_ended = key_state.call_ended.notified();
        let mut call_ended = core::pin::pin!(call_ended);
        // Subscribe before the check: a call that ends after the check wakes subscribers.
        call_ended.as_mut().enable();
        if key_state.is_asking() {
            call_ended.await;
        }
    }

    /// Makes a call in a task of its own, so the call ends even if the request is dropped.
    async fn ask(&self, key_state: &Arc<KeyState>, pending_call: PendingCall) -> Completion {
        let call = Call::new(self.clone(), Arc::clone(key_state), pending_call);
        match Handle::try_current() {
            Ok(runtime) => runtime.spawn(call.make()).await.unwrap_or_else(|error| {
                // The source panicked, or the runtime is shutting down.
                Completion::Unavailable(Unavailable::Failed(error.to_string()))
            }),
            Err(_) => call.make().await,
        }
    }

    #[cold]
    pub(super) fn prefetch(&self, key_state: &Arc<KeyState>, min: u64, now: Tick) {
        if self.spawn_call(key_state, min, now) {
            self.shared.stats.one(Stat::Prefetches);
        }
    }

    /// Makes a call in the background. Returns whether one was begun.
    fn spawn_call(&self, key_state: &Arc<KeyState>, min: u64, now: Tick) -> bool {
        let Ok(runtime) = Handle::try_current() else { return false };
        let Some(pending_call) = key_state.begin(min, 0, now, &self.shared.settings) else {
            return false;
        };
        drop(runtime.spawn(Call::new(self.clone(), Arc::clone(key_state), pending_call).make()));
        true
    }

    /// Calls the source for this request alone.
    pub(super) async fn call_unleased(
        &self,
        key_state: Option<&KeyState>,
        key: &[u8],
        n: u64,
    ) -> Result<Answer, Unavailable> {
        let Shared { source, stats, settings, .. } = &*self.shared;
        let unknown;
        let key_state = match key_state {
            Some(key_state) => key_state,
            None => {
                stats.one(Stat::Untracked);
                unknown = KeyState::new(key);
                &unknown
            }
        };
        stats.one(Stat::Calls);
        let sent = self.now();
        key_state.begin_unleased(n, sent, settings);
        let asking = source.take(key, LeaseRequest { min: n, max: n });
        // A source that ends its calls itself does so first, and counts them.
        let deadline = source.deadline().saturating_add(Duration::from_millis(1));
        let reply = within(deadline, asking).await.unwrap_or(Err(Unavailable::TimedOut));
        let cells = reply.as_ref().map_or(0, |grant| grant.cells);
        stats.add(Stat::CellsTaken, cells);
        match key_state.complete_unleased(n, sent, self.now(), reply, settings) {
            Completion::Answered(answer) => Ok(answer),
            Completion::Unavailable(why) => Err(why),
            Completion::Late => {
                stats.add(Stat::CellsLapsed, cells);
                Err(Unavailable::TimedOut)
            }
        }
    }
}

/// The outcome, or `None` if the deadline comes first.
async fn within<T>(deadline: Duration, asking: impl Future<Output = T>) -> Option<T> {
    // Without a runtime there are no timers.
    match deadline == Duration::MAX || Handle::try_current().is_err() {
        true => Some(asking.await),
        false => tokio::time::timeout(deadline, asking).await.ok(),
    }
}

/// A call to the source. However it ends, waiting requests are woken.
struct Call<B: LeaseSource, C: Clock + Send + Sync + 'static> {
    leased: Leased<B, C>,
    key_state: Arc<KeyState>,
    pending_call: PendingCall,
    /// Cells that it deposited, once it has ended.
    deposited: Option<u64>,
}

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> Call<B, C> {
    fn new(leased: Leased<B, C>, key_state: Arc<KeyState>, pending_call: PendingCall) -> Self {
        Self { leased, key_state, pending_call, deposited: None }
    }

    async fn make(mut self) -> Completion {
        let Shared { source, settings, stats, .. } = &*self.leased.shared;
        stats.one(Stat::Calls);
        let sent = self.leased.now();
        let reply = source.take(self.key_state.key(), self.pending_call.want).await;
        let now = self.leased.now();
        let (completion, counts) =
            self.key_state.complete(self.pending_call, sent, now, reply, settings);
        let CellCounts { taken, lapsed } = counts;
        self.deposited = Some(taken.saturating_sub(self.pending_call.reserved));
        stats.add(Stat::CellsTaken, taken);
        stats.add(Stat::CellsLapsed, lapsed);
        if let Prefetch::Cells(min) = self.key_state.prefetch_after_call(now) {
            self.leased.spawn_call(&self.key_state, min, now);
        }
        completion
    }
}

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> Drop for Call<B, C> {
    fn drop(&mut self) {
        let deposited = self.deposited.unwrap_or_else(|| {
            let now = self.leased.now();
            self.key_state.abandon(self.pending_call, now, &self.leased.shared.settings);
            0
        });
        self.key_state.wake(deposited);
    }
}
