//! One who waits: what a blocked thread and a future have in common.

use core::time::Duration;
use std::sync::PoisonError;
use std::task::Waker;

use super::error::{WaitError, Waited};
use super::queue::{Progress, Queue, Request, Wakers};
use super::source::{Waitable, sealed::Gate};
use super::{Queues, WaitQueue};
use crate::sync::MutexGuard;
use crate::time::Tick;

/// A place in line, given up when dropped.
#[derive(Debug)]
pub(super) struct Ticket<'a, S: Waitable> {
    line: &'a WaitQueue<S>,
    request: Request,
    number: u64,
    joined: Tick,
    nap: Option<Nap>,
    /// It has heard how things ended.
    done: bool,
}

/// Until when it sleeps, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nap {
    turn: Tick,
    /// The same, or later.
    pub(super) end: Tick,
}

/// What comes of asking for cells.
pub(super) enum Entry<'a, S: Waitable> {
    Admitted(Waited),
    MustWait(Ticket<'a, S>),
}

/// What comes of a look.
pub(super) enum Look {
    Ended(Result<Waited, WaitError>),
    /// It should sleep so long.
    Asleep(Nap, Duration),
}

/// The least time to sleep once a sleep has ended too early: for clocks that stand still at times.
const NAP_AGAIN_MIN: Duration = Duration::from_micros(50);

impl<S: Waitable> WaitQueue<S> {
    /// Asks for cells, and joins the line if they are not there.
    pub(super) fn enter(&self, request: Request) -> Result<Entry<'_, S>, WaitError> {
        let gate = self.limiter.gate();
        if request.n == 0 {
            return Ok(Entry::Admitted(Waited { waited: Duration::ZERO }));
        }
        if request.n > gate.burst() {
            return Err(WaitError::NeverFits { burst: gate.burst() });
        }
        let mut wakers = Wakers::default();
        let mut queues = self.lock();
        // Read before, it would be as old as others have held the lock.
        let joined = gate.now();
        let number = queues.join(gate, request, joined, self.max_waiters, &mut wakers);
        drop(queues);
        wakers.wake();
        Ok(match number? {
            None => Entry::Admitted(Waited { waited: Duration::ZERO }),
            Some(number) => Entry::MustWait(Ticket {
                line: self,
                request,
                number,
                joined,
                nap: None,
                done: false,
            }),
        })
    }

    /// A panic leaves nothing half done that matters to others.
    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nap until a turn, with jitter.
    pub(super) fn nap(&self, number: u64, turn: Tick, now: Tick, deadline: Tick) -> Nap {
        let percent = u64::from(self.jitter_percent);
        if percent == 0 {
            return Nap { turn, end: turn };
        }
        let most = turn.since(now).saturating_mul(self.jitter_percent) / 100;
        // A share of 2^32 - 1 parts, of which all are as likely.
        let parts = self.random.hash_one((number, now)) >> 32;
        let late = u128::from(parts) * most.as_nanos() / u128::from(u32::MAX);
        let late = Duration::from_nanos(u64::try_from(late).unwrap_or(u64::MAX));
        Nap { turn, end: turn.saturating_add(late).min(deadline.max(turn)) }
    }
}

impl Queues {
    /// Joins the line of a key; `None` if there is nothing to wait for.
    fn join(
        &mut self,
        gate: &impl Gate,
        request: Request,
        now: Tick,
        waiters_max: usize,
        wakers: &mut Wakers,
    ) -> Result<Option<u64>, WaitError> {
        let key = request.place.hash();
        let number = self.next_ticket;
        let queue = self.by_key.entry(key).or_default();
        queue.move_on(gate, now, wakers);
        let joined = if self.waiters < waiters_max {
            queue.join(gate, request, number, now)
        } else {
            let at_once = Request { deadline: now.min(request.deadline), ..request };
            queue.join(gate, at_once, number, now).map_err(|error| match error {
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
                self.tidy(key);
                ended.map(|_| None)
            }
        }
    }

    /// Moves the line on, and looks how things stand for one of it.
    fn look(
        &mut self,
        gate: &impl Gate,
        request: Request,
        number: u64,
        now: Tick,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Progress {
        let key = request.place.hash();
        let queue = self.by_key.entry(key).or_default();
        queue.move_on(gate, now, wakers);
        let progress = queue.look(gate, number, now, waker, wakers);
        if let Progress::Done(_) = progress {
            self.waiters -= 1;
            self.tidy(key);
        }
        progress
    }

    fn leave(
        &mut self,
        gate: &impl Gate,
        request: Request,
        number: u64,
        now: Tick,
        wakers: &mut Wakers,
    ) {
        let key = request.place.hash();
        if let Some(queue) = self.by_key.get_mut(&key) {
            queue.leave(gate, number, now, wakers);
            self.waiters -= 1;
            self.tidy(key);
        }
    }

    /// Keys for which nobody waits take no memory.
    fn tidy(&mut self, key: u64) {
        if self.by_key.get(&key).is_some_and(Queue::is_empty) {
            self.by_key.remove(&key);
        }
    }
}

impl<S: Waitable> Ticket<'_, S> {
    pub(super) fn look(&mut self, waker: &Waker) -> Look {
        let Self { line, request, number, .. } = *self;
        let gate = line.limiter.gate();
        let (waker, mut wakers) = (waker.clone(), Wakers::default());
        let mut queues = line.lock();
        let now = gate.now();
        let progress = queues.look(gate, request, number, now, waker, &mut wakers);
        drop(queues);
        wakers.wake();
        match progress {
            Progress::Done(ended) => {
                self.done = true;
                Look::Ended(ended.map(|()| Waited { waited: now.since(self.joined) }))
            }
            Progress::Until(turn) => {
                let (nap, least) = match self.nap.filter(|nap| nap.turn == turn) {
                    Some(nap) => (nap, NAP_AGAIN_MIN),
                    None => (line.nap(number, turn, now, request.deadline), Duration::ZERO),
                };
                self.nap = Some(nap);
                Look::Asleep(nap, nap.end.since(now).max(least))
            }
        }
    }
}

impl<S: Waitable> Drop for Ticket<'_, S> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let gate = self.line.limiter.gate();
        let mut wakers = Wakers::default();
        let mut queues = self.line.lock();
        queues.leave(gate, self.request, self.number, gate.now(), &mut wakers);
        drop(queues);
        wakers.wake();
    }
}
