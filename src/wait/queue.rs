//! The queue of one key: which waiter is next, and when its turn comes. Each call passes the time,
//! and collects the wakers for its caller to use.
//!
//! # Guarded by
//!
//! `loom-tests/tests/waiting.rs`, run by `ci/check.sh loom`, with a model of a refund at an old time. The queue itself
//! is under a lock.
//!
//! # Protocol
//!
//! Only the first waiter has cells charged, ahead of time: it is *booked*. Until its turn comes the
//! key owes more than its burst, so no other caller can charge anything, and a refund of the
//! booking restores what was there before. The other waiters are charged nothing, so they leave
//! without a refund.
//!
//! A refund to a caller outside the queue would make the turn earlier. The queue does not learn of it: the waiter
//! keeps its turn, and until then others may be charged. It then goes ahead like a waiter that is late. If it leaves,
//! its refund counts from the booking: see [`charged_at`](GcraParams::charged_at).
//!
//! ```text
//! waiting -> booked -> granted -> gone   it goes ahead, or is dropped before it learns of the grant
//!     \-> denied -> gone                 its turn would come too late
//! ```
//!
//! A booking that is granted late is charged at the time of the grant. So a queue that was not
//! polled for a long time grants no more at once than the limiter would. The turns of the waiters
//! behind it move back by the same time. They are not at fault and have not been overtaken, so
//! their deadlines move back as well.
//!
//! A state can hold a limited debt. The first waiter's turn may lie beyond that, because other callers
//! have overdrawn the key, or charged it by a clock far ahead. The waiter then stays unbooked until its
//! turn is near enough, and so do the waiters behind it.
//!
//! Algorithms other than the token bucket cannot be charged ahead ([`retry`](super::retry)): no waiter is
//! booked, the first asks again when its `retry_after` is over, and the others wait behind it.
//!
//! Every poll, of any waiter in any order, advances the queue: a booking whose turn has come is
//! granted, and the next waiter is booked. Every waiter polls at its own expected turn, so the
//! queue does not depend on any one of them being polled. A waiter is woken if its turn becomes
//! earlier because another one left.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use super::error::WaitError;
use super::source::{KeyProbe, PaidAhead, Target, sealed::LimiterOps};
use super::wakers::Wakers;
use crate::algo::gcra::GcraParams;
use crate::cell::ChargeReceipt;
use crate::time::Tick;

/// The request of a waiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitRequest {
    pub(super) probe: KeyProbe,
    pub(super) n: u64,
    /// `None`: the limiter's own quota.
    pub(super) plan: Option<GcraParams>,
    /// The latest turn that it accepts.
    pub(super) deadline: Tick,
}

impl WaitRequest {
    pub(super) fn target(&self) -> Target<'_> {
        Target { probe: self.probe, plan: self.plan.as_ref() }
    }
}

/// The state of one waiter after a poll.
#[derive(Debug)]
pub(super) enum Progress {
    /// Its turn has come, or will not come in time. It waits no longer.
    Done(Result<(), WaitError>),
    /// When to poll again.
    Until(Tick),
}

/// One call into the queues: the limiter, the time, and the wakers to use after it.
pub(super) struct Call<'a, O> {
    pub(super) ops: &'a O,
    pub(super) now: Tick,
    pub(super) wakers: &'a mut Wakers,
}

impl<'a, O: LimiterOps> Call<'a, O> {
    /// Reads the clock. Call it under the lock: a time read before would be older by the wait for
    /// the lock.
    pub(super) fn begin(ops: &'a O, wakers: &'a mut Wakers) -> Self {
        Self { ops, now: ops.now(), wakers }
    }
}

#[derive(Debug)]
enum Stage {
    Waiting,
    /// It is first, and a state cannot owe its cells before this time.
    First {
        polls_at: Tick,
    },
    Booked {
        paid: PaidAhead,
        turn: Tick,
    },
    Admitted {
        paid: PaidAhead,
    },
    Denied(WaitError),
}

impl Stage {
    fn paid(&self) -> Option<PaidAhead> {
        match self {
            Self::Booked { paid, .. } | Self::Admitted { paid } => Some(*paid),
            Self::Waiting | Self::First { .. } | Self::Denied(_) => None,
        }
    }
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    request: WaitRequest,
    stage: Stage,
    /// The queue's [delay](KeyQueue::delay) when it joined: the turn that it was given includes it.
    joined_at_delay: Duration,
    /// When it intends to poll again.
    polls_at: Tick,
    waker: Option<Waker>,
}

impl Waiter {
    /// The request, its deadline moved back by as much as the queue was delayed since it joined.
    fn request_after(&self, delay: Duration) -> WaitRequest {
        let delayed = delay.saturating_sub(self.joined_at_delay);
        let deadline = self.request.deadline.saturating_add(delayed);
        WaitRequest { deadline, ..self.request }
    }

    /// Wakes the waiter to poll at `at`, unless it polls by then anyway.
    fn wake_by(&mut self, at: Tick, wakers: &mut Wakers) {
        if at < self.polls_at {
            self.polls_at = at;
            wakers.add(self.waker.take());
        }
    }
}

/// The waiters of one key.
#[derive(Debug, Default)]
pub(super) struct KeyQueue {
    /// In order of arrival. After each call the first is booked, if a state can owe that much.
    waiting: VecDeque<Waiter>,
    /// Admitted or denied, and not yet polled since, by ticket. The end of a window may grant all waiters at once.
    finished: BTreeMap<u64, Waiter>,
    /// The total time by which late grants have moved back the turns behind them.
    delay: Duration,
}

impl KeyQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.finished.is_empty()
    }

    /// Whether a newcomer has a waiter before it.
    pub(super) fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How long until the turn of a request behind the first `ahead` waiters.
    fn turn_behind(
        &self,
        call: &Call<'_, impl LimiterOps>,
        ahead: usize,
        request: &WaitRequest,
    ) -> Duration {
        // The cells of a booked waiter are charged already.
        let asked = self.waiting.range(..ahead).map(|Waiter { stage, request, .. }| {
            (request.plan.as_ref(), if stage.paid().is_some() { 0 } else { request.n })
        });
        let asked = asked.chain([(request.plan.as_ref(), request.n)]);
        let wait = call.ops.turn_behind(request.target(), asked, call.now);
        match self.waiting.front().map(|first| &first.stage) {
            // A key without a slot owes nothing. The denial of the first waiter gave its turn.
            Some(Stage::First { polls_at }) if wait.is_zero() => polls_at.since(call.now),
            // Cells that were added to the key, or its reset, leave the booked waiter its turn.
            Some(Stage::Booked { turn, .. }) => wait.max(turn.since(call.now)),
            _ => wait,
        }
    }

    /// Adds a waiter at the end and returns when to poll again; `None` if it need not wait. The
    /// caller has advanced the queue.
    pub(super) fn join(
        &mut self,
        call: &Call<'_, impl LimiterOps>,
        request: WaitRequest,
        ticket: u64,
    ) -> Result<Option<Tick>, WaitError> {
        let (stage, polls_at) = if self.has_waiters() {
            let wait = self.turn_behind(call, self.waiting.len(), &request);
            let turn = call.now.saturating_add(wait);
            if turn > request.deadline {
                return Err(WaitError::TooLate { wait });
            }
            (Stage::Waiting, turn)
        } else {
            match book(call, request)? {
                Booking::Due(_) => return Ok(None),
                Booking::Ahead(paid, turn) => (Stage::Booked { paid, turn }, turn),
                Booking::TooFar(polls_at) => (Stage::First { polls_at }, polls_at),
            }
        };
        let joined_at_delay = self.delay;
        let waiter = Waiter { ticket, request, stage, joined_at_delay, polls_at, waker: None };
        self.waiting.push_back(waiter);
        Ok(Some(polls_at))
    }

    /// Grants all bookings whose turn has come, then books the waiter that is first.
    pub(super) fn advance(&mut self, call: &mut Call<'_, impl LimiterOps>) {
        while let Some(first) = self.waiting.front_mut() {
            let stage = match first.stage {
                Stage::Booked { turn, .. } if turn > call.now => return,
                Stage::First { polls_at } if polls_at > call.now && call.ops.counts_denials() => {
                    return;
                }
                Stage::Booked { mut paid, .. } => {
                    // It goes ahead now, not at its turn: charge it now.
                    let late = call.ops.defer(first.request.target(), &mut paid, call.now);
                    self.delay = self.delay.saturating_add(late);
                    Stage::Admitted { paid }
                }
                _ => match book(call, first.request_after(self.delay)) {
                    Ok(Booking::Due(paid)) => Stage::Admitted { paid },
                    Ok(Booking::Ahead(paid, turn)) => {
                        first.stage = Stage::Booked { paid, turn };
                        first.wake_by(turn, call.wakers);
                        return;
                    }
                    Ok(Booking::TooFar(polls_at)) => {
                        first.stage = Stage::First { polls_at };
                        first.wake_by(polls_at, call.wakers);
                        return;
                    }
                    Err(error) => Stage::Denied(overtaken(error)),
                },
            };
            self.finish_first(stage, call.now, call.wakers);
        }
    }

    /// Moves the first waiter from the queue to the finished ones.
    fn finish_first(&mut self, stage: Stage, now: Tick, wakers: &mut Wakers) {
        if let Some(mut first) = self.waiting.pop_front() {
            first.stage = stage;
            first.wake_by(now, wakers);
            self.finished.insert(first.ticket, first);
        }
    }

    /// Returns the state of one waiter, and keeps its waker for when that changes. The caller has
    /// advanced the queue.
    pub(super) fn poll(
        &mut self,
        call: &mut Call<'_, impl LimiterOps>,
        ticket: u64,
        waker: Waker,
    ) -> Progress {
        if let Some(waiter) = self.finished.remove(&ticket) {
            call.wakers.retire(waiter.waker);
            return Progress::Done(match waiter.stage {
                Stage::Denied(error) => Err(error),
                _ => Ok(()),
            });
        }
        let position = self.position_of(ticket).expect("the waiter of a ticket is in the queue");
        let turn = match self.waiting[position].stage {
            Stage::Booked { turn, .. } => turn,
            Stage::First { polls_at } => polls_at,
            _ => {
                let request = self.waiting[position].request_after(self.delay);
                let wait = self.turn_behind(call, position, &request);
                let turn = call.now.saturating_add(wait);
                if turn > request.deadline {
                    let waiter = self.waiting.remove(position);
                    call.wakers.retire(waiter.and_then(|waiter| waiter.waker));
                    return Progress::Done(Err(WaitError::Overtaken { wait }));
                }
                turn
            }
        };
        let waiter = &mut self.waiting[position];
        waiter.polls_at = turn;
        call.wakers.retire(waiter.waker.replace(waker));
        Progress::Until(turn)
    }

    /// Removes a waiter and restores what was there without it.
    pub(super) fn leave(&mut self, call: &mut Call<'_, impl LimiterOps>, ticket: u64) {
        let leaver = match self.position_of(ticket) {
            Some(position) => self.waiting.remove(position),
            None => self.finished.remove(&ticket),
        };
        if let Some(leaver) = leaver {
            self.refund_booking(call, &leaver);
            call.wakers.retire(leaver.waker);
        }
        self.advance(call);
    }

    /// Refunds the booking of a waiter that left. A waiter booked behind it moves up.
    fn refund_booking(&mut self, call: &mut Call<'_, impl LimiterOps>, leaver: &Waiter) {
        let Some(paid) = leaver.stage.paid() else { return };
        let units = call.ops.refund_booking(leaver.request.target(), &paid);
        // Later ones that were granted, and not polled since.
        for (_, granted) in self.finished.range_mut(leaver.ticket..) {
            if let Stage::Admitted { paid } = &mut granted.stage {
                call.ops.lessen(granted.request.target(), paid, units);
            }
        }
        if let Some(first) = self.waiting.front_mut()
            && let Stage::Booked { paid, turn } = &mut first.stage
        {
            // No waiter behind this one is charged.
            call.ops.lessen(first.request.target(), paid, units);
            call.ops.move_up(first.request.target(), paid, call.now);
            *turn = paid.receipt.charge.at;
            let turn = *turn;
            first.wake_by(turn, call.wakers);
        }
    }

    fn position_of(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }
}

/// The result of charging the first waiter.
enum Booking {
    /// Its turn has come.
    Due(PaidAhead),
    /// Charged; its turn comes at this time.
    Ahead(PaidAhead, Tick),
    /// Nothing is charged: a state cannot owe enough until this time.
    TooFar(Tick),
}

/// Charges what is asked for if the turn comes in time, and returns the turn.
fn book(call: &Call<'_, impl LimiterOps>, request: WaitRequest) -> Result<Booking, WaitError> {
    let Call { ops, now, .. } = *call;
    let WaitRequest { n, deadline, .. } = request;
    let paid = |receipt| PaidAhead { receipt, booked_at: now };
    match ops.book(request.target(), n, now, deadline.since(now)) {
        Ok((receipt, wait)) if wait.is_zero() => Ok(Booking::Due(paid(receipt))),
        Ok((receipt, wait)) => Ok(Booking::Ahead(paid(receipt), now.saturating_add(wait))),
        Err(Some(denied)) => {
            let Some(wait) = ops.turn_after(&denied, request.target(), n, now) else {
                return Err(WaitError::NeverFits { burst: denied.limit() });
            };
            let turn = now.saturating_add(wait);
            if turn > deadline {
                return Err(WaitError::TooLate { wait });
            }
            // It has to be booked before its turn.
            Ok(Booking::TooFar(turn.saturating_sub(ops.ahead_max(request.target()))))
        }
        // A limiter without a slot for the key has no queue: its policy decides. If the key finds a slot now, the
        // quota of its plan does.
        Err(None) => match ops.ask(request.target(), n, now) {
            Ok(_) => Ok(Booking::Due(paid(ChargeReceipt::NOTHING))),
            Err(denied) => Err(WaitError::NoPlace { retry_after: denied.retry_after() }),
        },
    }
}

/// The same error, for a waiter that had been accepted into the queue.
fn overtaken(error: WaitError) -> WaitError {
    match error {
        WaitError::TooLate { wait } => WaitError::Overtaken { wait },
        error => error,
    }
}
