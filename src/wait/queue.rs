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
//!     \-> denied -> gone                   its turn would come too late
//! ```
//!
//! A booking that is granted late is charged as of then, so that a line that was not looked at for long
//! is granted no more at once than others would be. Those behind then have their turns later by as much.
//! That is no fault of theirs, and nobody has overtaken them: so their deadlines move by as much, too.
//!
//! A state can owe only so much. If that does not reach to the first one's turn (others have overdrawn
//! the key, or it was charged by a clock far ahead), the first waits like those behind it until it does.
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
    Denied(WaitError),
}

impl Stage {
    fn paid(&self) -> Option<Paid> {
        match self {
            Self::Booked { paid, .. } | Self::Granted { paid } => Some(*paid),
            Self::Waiting | Self::Denied(_) => None,
        }
    }
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    request: Request,
    stage: Stage,
    /// The line's [delay](Queue::delay) when it joined, which it has been told of.
    joined_at_delay: Duration,
    /// When it means to look again.
    looks: Tick,
    waker: Option<Waker>,
}

impl Waiter {
    /// What it asks for, by a deadline that is later by as much as the line was delayed meanwhile.
    fn request_after(&self, delay: Duration) -> Request {
        let delayed = delay.saturating_sub(self.joined_at_delay);
        let deadline = self.request.deadline.saturating_add(delayed);
        Request { deadline, ..self.request }
    }

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
    /// In order of arrival. After each call the first of them is booked, if a state can owe so much.
    waiting: VecDeque<Waiter>,
    /// Granted or denied, and not told yet; in the order in which that happened.
    settled: Vec<Waiter>,
    /// By how much bookings that were granted late have delayed the turns of those behind, in all.
    delay: Duration,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.settled.is_empty()
    }

    /// Whether somebody stands before a newcomer.
    pub(super) fn is_standing(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Cells of those up to this place in the queue, exclusive, who have charged none.
    fn cells_not_charged(&self, end: usize) -> u64 {
        let waiting = self.waiting.range(..end).filter(|waiter| waiter.stage.paid().is_none());
        waiting.map(|waiter| waiter.request.n).fold(0, u64::saturating_add)
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
            let ahead = self.cells_not_charged(self.waiting.len());
            let wait = gate.turn_behind(place, ahead.saturating_add(n), now);
            let turn = now.saturating_add(wait);
            if turn > deadline {
                return Err(WaitError::TooLate { wait });
            }
            (Stage::Waiting, turn)
        } else {
            match book(gate, request, now)? {
                Booking::Due(_) => return Ok(None),
                Booking::Ahead(paid, turn) => (Stage::Booked { paid, turn }, turn),
                Booking::TooFar(looks) => (Stage::Waiting, looks),
            }
        };
        let joined_at_delay = self.delay;
        let waiter = Waiter { ticket, request, stage, joined_at_delay, looks, waker: None };
        self.waiting.push_back(waiter);
        Ok(Some(looks))
    }

    /// Grants what is due, and books for whoever is first then.
    pub(super) fn move_on(&mut self, gate: &impl Gate, now: Tick, wakers: &mut Wakers) {
        while let Some(first) = self.waiting.front_mut() {
            let stage = match first.stage {
                Stage::Booked { turn, .. } if turn > now => return,
                Stage::Booked { mut paid, .. } => {
                    // It goes ahead now, and not when it could have.
                    let late = gate.defer(first.request.place, &mut paid, now);
                    self.delay = self.delay.saturating_add(late);
                    Stage::Granted { paid }
                }
                _ => match book(gate, first.request_after(self.delay), now) {
                    Ok(Booking::Due(paid)) => Stage::Granted { paid },
                    Ok(Booking::Ahead(paid, turn)) => {
                        first.stage = Stage::Booked { paid, turn };
                        first.rouse(turn, wakers);
                        return;
                    }
                    Ok(Booking::TooFar(looks)) => {
                        first.rouse(looks, wakers);
                        return;
                    }
                    Err(error) => Stage::Denied(overtaken(error)),
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
                Stage::Denied(error) => Err(error),
                _ => Ok(()),
            });
        }
        let place = self.place_of(ticket).expect("a ticket is held by one who waits");
        let turn = match self.waiting[place].stage {
            Stage::Booked { turn, .. } => turn,
            _ => {
                let waiter = &self.waiting[place];
                let Request { place: key, deadline, .. } = waiter.request_after(self.delay);
                let cells = self.cells_not_charged(place + 1);
                let wait = gate.turn_behind(key, cells, now);
                let turn = now.saturating_add(wait);
                if turn > deadline {
                    let waiter = self.waiting.remove(place);
                    wakers.retire(waiter.and_then(|waiter| waiter.waker));
                    return Progress::Done(Err(WaitError::Overtaken { wait }));
                }
                // The first has to be booked before.
                if place == 0 { bookable_from(gate, turn) } else { turn }
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

/// What comes of charging the first in line.
enum Booking {
    /// Its turn has come.
    Due(Paid),
    /// It will have come then.
    Ahead(Paid, Tick),
    /// Nothing is charged yet: its turn is further away than a state can tell until then.
    TooFar(Tick),
}

/// Charges what is asked for, if its turn comes in time, and tells when.
fn book(gate: &impl Gate, request: Request, now: Tick) -> Result<Booking, WaitError> {
    let Request { place, n, deadline } = request;
    match gate.book(place, n, now, deadline.since(now)) {
        Ok((paid, wait)) if wait.is_zero() => Ok(Booking::Due(paid)),
        Ok((paid, wait)) => Ok(Booking::Ahead(paid, now.saturating_add(wait))),
        Err(Some(_)) => {
            let wait = gate.turn_behind(place, n, now);
            let turn = now.saturating_add(wait);
            if turn > deadline {
                return Err(WaitError::TooLate { wait });
            }
            Ok(Booking::TooFar(bookable_from(gate, turn)))
        }
        // There is no line before a limiter that has no place for the key: its policy decides.
        Err(None) => match gate.ask(place, n, now) {
            Ok(_) => Ok(Booking::Due(Paid::NOTHING)),
            Err(denied) => Err(WaitError::NoPlace { retry_after: denied.retry_after() }),
        },
    }
}

/// From when on a state can owe as much as is charged ahead for that turn.
fn bookable_from(gate: &impl Gate, turn: Tick) -> Tick {
    turn.saturating_sub(gate.algo().ahead_max())
}

/// The same, of one who stood in line already.
fn overtaken(error: WaitError) -> WaitError {
    match error {
        WaitError::TooLate { wait } => WaitError::Overtaken { wait },
        error => error,
    }
}
