//! One waiter: the part that a blocked thread and a future share.

use core::time::Duration;
use std::sync::PoisonError;
use std::task::Waker;

use super::error::{WaitError, Waited};
use super::queue::{Call, KeyQueue, Progress, WaitRequest};
use super::source::{Waitable, sealed::LimiterOps};
use super::wakers::Wakers;
use super::{Queues, WaitQueue};
use crate::sync::MutexGuard;
use crate::time::Tick;

/// A position in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Ticket<'a, S: Waitable> {
    queue: &'a WaitQueue<S>,
    request: WaitRequest,
    number: u64,
    joined: Tick,
    nap: Option<Nap>,
    /// The outcome has been returned.
    done: bool,
}

/// A planned sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nap {
    turn: Tick,
    /// The end of the sleep: `turn`, or later by jitter.
    pub(super) end: Tick,
}

/// The result of asking for cells.
pub(super) enum Entry<'a, S: Waitable> {
    Admitted(Waited),
    MustWait(Ticket<'a, S>),
}

/// The result of a poll.
pub(super) enum PollResult {
    Ended(Result<Waited, WaitError>),
    /// Sleep for this long, then poll again.
    Asleep(Nap, Duration),
}

/// The shortest sleep after a sleep that ended too early. Without it a clock that does not advance
/// would make the waiter spin.
const NAP_AGAIN_MIN: Duration = Duration::from_micros(50);

impl<S: Waitable> WaitQueue<S> {
    /// Asks for cells, and joins the queue if they are not available.
    pub(super) fn enter(&self, request: WaitRequest) -> Result<Entry<'_, S>, WaitError> {
        let ops = self.limiter.ops();
        if request.n == 0 {
            return Ok(Entry::Admitted(Waited { waited: Duration::ZERO }));
        }
        if let Some(burst) = ops.never_fits(request.target(), request.n, ops.now()) {
            return Err(WaitError::NeverFits { burst });
        }
        let mut wakers = Wakers::default();
        let mut queues = self.lock();
        let mut call = Call::begin(ops, &mut wakers);
        let joined = call.now;
        let number = queues.join(&mut call, request, self.max_waiters);
        drop(queues);
        wakers.wake();
        Ok(match number? {
            None => Entry::Admitted(Waited { waited: Duration::ZERO }),
            Some(number) => Entry::MustWait(Ticket {
                queue: self,
                request,
                number,
                joined,
                nap: None,
                done: false,
            }),
        })
    }

    /// A panic under the lock leaves every queue consistent, so a poisoned lock is used as it is.
    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sleep until a turn, with jitter.
    pub(super) fn nap(&self, number: u64, turn: Tick, now: Tick, deadline: Tick) -> Nap {
        let percent = u64::from(self.jitter_percent);
        if percent == 0 {
            return Nap { turn, end: turn };
        }
        let max = turn.since(now).saturating_mul(self.jitter_percent) / 100;
        // A fraction in units of 1 / (2^32 - 1), uniformly distributed.
        let parts = self.random.hash_one((number, now)) >> 32;
        let late = u128::from(parts) * max.as_nanos() / u128::from(u32::MAX);
        let late = Duration::from_nanos(u64::try_from(late).unwrap_or(u64::MAX));
        Nap { turn, end: turn.saturating_add(late).min(deadline.max(turn)) }
    }
}

impl Queues {
    /// Joins the queue of a key; `None` if there is nothing to wait for.
    fn join(
        &mut self,
        call: &mut Call<'_, impl LimiterOps>,
        request: WaitRequest,
        max_waiters: usize,
    ) -> Result<Option<u64>, WaitError> {
        let (key, now) = (request.probe.hash(), call.now);
        let number = self.next_ticket;
        let queue = self.by_key.entry(key).or_default();
        queue.advance(call);
        let joined = if self.waiters < max_waiters {
            queue.join(call, request, number)
        } else {
            let at_once = WaitRequest { deadline: now.min(request.deadline), ..request };
            queue.join(call, at_once, number).map_err(|error| match error {
                WaitError::TooLate { wait } if now.saturating_add(wait) <= request.deadline => {
                    WaitError::Crowded { waiters: self.waiters }
                }
                error => error,
            })
        };
        match joined {
            Ok(Some(_)) => {
                self.next_ticket += 1;
                self.waiters += 1;
                Ok(Some(number))
            }
            ended => {
                self.remove_if_empty(key);
                ended.map(|_| None)
            }
        }
    }

    /// Advances the queue of a key, and polls one of its waiters.
    fn poll(
        &mut self,
        call: &mut Call<'_, impl LimiterOps>,
        request: WaitRequest,
        number: u64,
        waker: Waker,
    ) -> Progress {
        let key = request.probe.hash();
        let queue = self.by_key.entry(key).or_default();
        queue.advance(call);
        let progress = queue.poll(call, number, waker);
        if let Progress::Done(_) = progress {
            self.waiters -= 1;
            self.remove_if_empty(key);
        }
        progress
    }

    fn leave(&mut self, call: &mut Call<'_, impl LimiterOps>, request: WaitRequest, number: u64) {
        let key = request.probe.hash();
        if let Some(queue) = self.by_key.get_mut(&key) {
            queue.leave(call, number);
            self.waiters -= 1;
            self.remove_if_empty(key);
        }
    }

    /// Removes the queue of a key that has no waiters, so that it takes no memory.
    fn remove_if_empty(&mut self, key: u64) {
        if self.by_key.get(&key).is_some_and(KeyQueue::is_empty) {
            self.by_key.remove(&key);
        }
    }
}

impl<S: Waitable> Ticket<'_, S> {
    pub(super) fn poll(&mut self, waker: &Waker) -> PollResult {
        let Self { queue, request, number, .. } = *self;
        let (waker, mut wakers) = (waker.clone(), Wakers::default());
        let mut queues = queue.lock();
        let mut call = Call::begin(queue.limiter.ops(), &mut wakers);
        let progress = queues.poll(&mut call, request, number, waker);
        let now = call.now;
        drop(queues);
        // Set before a waker is dropped, which may panic: the queue has removed this waiter already.
        self.done = matches!(progress, Progress::Done(_));
        wakers.wake();
        match progress {
            Progress::Done(ended) => {
                PollResult::Ended(ended.map(|()| Waited { waited: now.since(self.joined) }))
            }
            Progress::Until(turn) => {
                let (nap, min_sleep) = match self.nap.filter(|nap| nap.turn == turn) {
                    Some(nap) => (nap, NAP_AGAIN_MIN),
                    None => (queue.nap(number, turn, now, request.deadline), Duration::ZERO),
                };
                self.nap = Some(nap);
                PollResult::Asleep(nap, nap.end.since(now).max(min_sleep))
            }
        }
    }
}

impl<S: Waitable> Drop for Ticket<'_, S> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut wakers = Wakers::default();
        let mut queues = self.queue.lock();
        let mut call = Call::begin(self.queue.limiter.ops(), &mut wakers);
        queues.leave(&mut call, self.request, self.number);
        drop(queues);
        wakers.wake();
    }
}
