//! The line of one key: who is next, and when. It reads no clock and wakes nobody.
//!
//! # How it goes on
//!
//! Those who wait for a key stand in a queue. Only the first has cells charged, ahead of their time:
//! it is *booked*. Until its turn comes the key owes more than its burst, so that nobody else can
//! charge anything, and taking the booking back leaves what was there before. The others have charged
//! nothing, and leave for nothing.
//!
//! ```text
//! waiting -> booked -> granted -> gone      it goes ahead, or is dropped before it heard of it
//!     \-> refused -> gone                   its turn would come too late
//! ```
//!
//! A booking that is granted late is charged as of then, so that a line that was not looked at for long
//! is granted no more at once than others would be.
//!
//! Whoever looks, in whatever order, moves the line on: a booking whose turn has come is granted, and
//! the next is booked. Everybody looks when its own turn should come, so that the line does not
//! depend on one of them being looked at; and is woken if it comes to be booked for an earlier time,
//! because somebody left.

use core::time::Duration;
use std::collections::VecDeque;
use std::task::Waker;

use super::error::WaitError;
use super::source::{Place, sealed::Gate};
use crate::cell::Paid;
use crate::time::Tick;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) place: Place,
    pub(super) n: u64,
    /// Its turn may come no later.
    pub(super) deadline: Tick,
}

/// How things stand for one who waits.
#[derive(Debug)]
pub(super) enum Progress {
    /// Its turn has come, or will not come in time. It waits no longer.
    Done(Result<(), WaitError>),
    /// When it should look again.
    Until(Tick),
}

/// Wakers to be used, or only dropped, when no lock is held: both may run anything.
#[derive(Default)]
pub(super) struct Wakers {
    wake: Vec<Waker>,
    retired: Vec<Waker>,
}

impl Wakers {
    pub(super) fn wake(self) {
        self.wake.into_iter().for_each(Waker::wake);
    }

    pub(super) fn retire(&mut self, waker: Option<Waker>) {
        self.retired.extend(waker);
    }
}

#[derive(Debug)]
enum Stage {
    Waiting,
    Booked { paid: Paid, turn: Tick },
    Granted { paid: Paid },
    Refused(WaitError),
}

impl Stage {
    fn paid(&self) -> Option<Paid> {
        match self {
            Self::Booked { paid, .. } | Self::Granted { paid } => Some(*paid),
            Self::Waiting | Self::Refused(_) => None,
        }
    }
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    request: Request,
    stage: Stage,
    /// When it means to look again.
    looks: Tick,
    waker: Option<Waker>,
}

impl Waiter {
    /// Has it look, unless it is about to do so by itself.
    fn rouse(&mut self, at: Tick, wakers: &mut Wakers) {
        if at < self.looks {
            self.looks = at;
            wakers.wake.extend(self.waker.take());
        }
    }
}

/// Those who wait for one key.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In order of arrival. After each call the first of them is booked.
    waiting: VecDeque<Waiter>,
    /// Granted or refused, and not told yet; in the order in which that happened.
    settled: Vec<Waiter>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.settled.is_empty()
    }

    /// Whether somebody stands before a newcomer.
    pub(super) fn is_standing(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Cells of those who wait behind the first, up to this place in the queue, exclusive.
    fn cells_behind_first(&self, end: usize) -> u64 {
        let cells = self.waiting.range(..end).skip(1).map(|waiter| waiter.request.n);
        cells.fold(0, u64::saturating_add)
    }

    /// Joins at the end, and says when to look again; `None` if there is nothing to wait for. The line
    /// must have been moved on.
    pub(super) fn join(
        &mut self,
        gate: &impl Gate,
        request: Request,
        ticket: u64,
        now: Tick,
    ) -> Result<Option<Tick>, WaitError> {
        let Request { place, n, deadline } = request;
        let (stage, looks) = if self.is_standing() {
            let ahead = self.cells_behind_first(self.waiting.len());
            let wait = gate.turn_behind(place, ahead.saturating_add(n), now);
            let turn = now.saturating_add(wait);
            if turn > deadline {
                return Err(WaitError::TooLate { wait });
            }
            (Stage::Waiting, turn)
        } else {
            let (paid, wait) = book(gate, request, now)?;
            if wait.is_zero() {
                return Ok(None);
            }
            let turn = now.saturating_add(wait);
            (Stage::Booked { paid, turn }, turn)
        };
        self.waiting.push_back(Waiter { ticket, request, stage, looks, waker: None });
        Ok(Some(looks))
    }

    /// Grants what is due, and books for whoever is first then.
    pub(super) fn move_on(&mut self, gate: &impl Gate, now: Tick, wakers: &mut Wakers) {
        while let Some(first) = self.waiting.front_mut() {
            let stage = match first.stage {
                Stage::Booked { turn, .. } if turn > now => return,
                Stage::Booked { mut paid, .. } => {
                    // It goes ahead now, and not when it could have.
                    gate.defer(first.request.place, &mut paid, now);
                    Stage::Granted { paid }
                }
                _ => match book(gate, first.request, now) {
                    Ok((paid, wait)) if wait.is_zero() => Stage::Granted { paid },
                    Ok((paid, wait)) => {
                        let turn = now.saturating_add(wait);
                        first.stage = Stage::Booked { paid, turn };
                        first.rouse(turn, wakers);
                        return;
                    }
                    Err(error) => Stage::Refused(overtaken(error)),
                },
            };
            self.settle_first(stage, now, wakers);
        }
    }

    /// The first no longer stands in line.
    fn settle_first(&mut self, stage: Stage, now: Tick, wakers: &mut Wakers) {
        if let Some(mut first) = self.waiting.pop_front() {
            first.stage = stage;
            first.rouse(now, wakers);
            self.settled.push(first);
        }
    }

    /// How things stand for one of those in the queue, and whom to wake if that changes. The line
    /// must have been moved on.
    pub(super) fn look(
        &mut self,
        gate: &impl Gate,
        ticket: u64,
        now: Tick,
        waker: Waker,
        wakers: &mut Wakers,
    ) -> Progress {
        if let Some(place) = self.settled_place_of(ticket) {
            let waiter = self.settled.remove(place);
            wakers.retire(waiter.waker);
            return Progress::Done(match waiter.stage {
                Stage::Refused(error) => Err(error),
                _ => Ok(()),
            });
        }
        let place = self.place_of(ticket).expect("a ticket is held by one who waits");
        let turn = match self.waiting[place].stage {
            Stage::Booked { turn, .. } => turn,
            _ => {
                let Request { place: key, deadline, .. } = self.waiting[place].request;
                let cells = self.cells_behind_first(place + 1);
                let wait = gate.turn_behind(key, cells, now);
                let turn = now.saturating_add(wait);
                if turn > deadline {
                    let waiter = self.waiting.remove(place);
                    wakers.retire(waiter.and_then(|waiter| waiter.waker));
                    return Progress::Done(Err(WaitError::Overtaken { wait }));
                }
                turn
            }
        };
        let waiter = &mut self.waiting[place];
        waiter.looks = turn;
        wakers.retire(waiter.waker.replace(waker));
        Progress::Until(turn)
    }

    /// One of those in the queue goes away, and leaves what was there without it.
    pub(super) fn leave(&mut self, gate: &impl Gate, ticket: u64, now: Tick, wakers: &mut Wakers) {
        let leaver = match self.place_of(ticket) {
            Some(place) => self.waiting.remove(place),
            None => self.settled_place_of(ticket).map(|place| self.settled.remove(place)),
        };
        if let Some(leaver) = leaver {
            self.take_back(gate, &leaver, now, wakers);
            wakers.retire(leaver.waker);
        }
        self.move_on(gate, now, wakers);
    }

    /// What was booked is not used: whoever is booked behind it moves up.
    fn take_back(&mut self, gate: &impl Gate, leaver: &Waiter, now: Tick, wakers: &mut Wakers) {
        let Some(paid) = leaver.stage.paid() else { return };
        gate.take_back(leaver.request.place, &paid, now);
        if let Some(first) = self.waiting.front_mut()
            && let Stage::Booked { paid, turn } = &mut first.stage
        {
            // Nobody is charged behind it.
            *turn = gate.turn_of_last(first.request.place, now).min(*turn);
            paid.receipt.at = *turn;
            let turn = *turn;
            first.rouse(turn, wakers);
        }
    }

    fn place_of(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    fn settled_place_of(&self, ticket: u64) -> Option<usize> {
        self.settled.iter().position(|waiter| waiter.ticket == ticket)
    }
}

/// Charges what is asked for, if its turn comes in time, and tells when.
fn book(gate: &impl Gate, request: Request, now: Tick) -> Result<(Paid, Duration), WaitError> {
    let Request { place, n, deadline } = request;
    match gate.book(place, n, now, deadline.since(now)) {
        Ok(booked) => Ok(booked),
        Err(Some(_)) => Err(WaitError::TooLate { wait: gate.turn_behind(place, n, now) }),
        // There is no line before a limiter that has no place for the key: its policy decides.
        Err(None) => match gate.ask(place, n, now) {
            Ok(_) => Ok((Paid::NOTHING, Duration::ZERO)),
            Err(denied) => Err(WaitError::NoPlace { retry_after: denied.retry_after() }),
        },
    }
}

/// The same, of one who stood in line already.
fn overtaken(error: WaitError) -> WaitError {
    match error {
        WaitError::TooLate { wait } => WaitError::Overtaken { wait },
        error => error,
    }
}
