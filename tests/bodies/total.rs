//! A step is total, and never favours the caller.

use std::cell::Cell;
use std::time::Duration;

use tollgate::internals::{Liveness, PAYLOAD_BITS, Ring, StateMachine, Step};
use tollgate::{Denied, Tick};

use super::choice::Cost;
use super::grid::nanos;
use super::mistake::{Mistake, planted};

/// The bits of a ring cell that hold the algorithm's content; the table uses the rest.
const CONTENT_BITS: u32 = 54;

/// The content of a ring before the first step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cells<'a> {
    /// Nothing: the word then describes its own latest instant only.
    Empty,
    /// Any values, repeated; the note, too.
    Any(&'a [u64]),
}

/// The bits of a word that are a state. The others are the table's, which no machine sees.
pub(crate) const STATE: u64 = u64::MAX >> (u64::BITS - PAYLOAD_BITS);

/// A word and its ring, kept as the cell of a limiter keeps them.
#[derive(Clone)]
struct State {
    word: u64,
    ring: Vec<u64>,
    has_note: bool,
}

/// A ring as a step reads it. Its note is a word like any other, with no bit reserved.
#[derive(Clone, Copy)]
struct Read<'a>(&'a State);

impl Ring for Read<'_> {
    type Cells = Self;

    fn parts(self) -> (Self, u64) {
        (self, 0)
    }

    fn of_parts(cells: Self, _: u64) -> Self {
        cells
    }

    fn cell(self, index: usize) -> u64 {
        assert!(index < self.0.ring_cells(), "reads beyond the cells, or the note as a cell");
        self.0.ring[index] & (u64::MAX >> (u64::BITS - CONTENT_BITS))
    }

    fn note(self) -> u64 {
        if self.0.has_note { self.0.ring[self.0.ring_cells()] } else { 0 }
    }
}

impl State {
    fn new<P: StateMachine>(params: &P, word: u64, cells: Cells<'_>) -> Self {
        let mut ring = vec![0; params.ring_cells()];
        assert!(P::RINGED || ring.is_empty(), "a ring without RINGED");
        if let Cells::Any(words @ [_, ..]) = cells {
            ring.iter_mut().zip(words.iter().cycle()).for_each(|(cell, word)| *cell = *word);
        }
        Self { word: word & STATE, ring, has_note: params.has_note() }
    }

    fn ring_cells(&self) -> usize {
        self.ring.len() - usize::from(self.has_note)
    }

    fn read<P: StateMachine>(&self, params: &P, now: Tick, n: u64) -> P::View {
        let seen = params.read(self.word, Read(self), now, n);
        self.check_brief_read(params, seen, now, n);
        self.check_read_at_once(params, seen, now, n);
        assert_eq!(params.step_by_branch(seen, now, n), params.step(seen, now, n));
        seen
    }

    /// Checks that a brief read leads to the same decision and the same writes as a full read.
    fn check_brief_read<P: StateMachine>(&self, params: &P, seen: P::View, now: Tick, n: u64) {
        let glanced = params.read_brief(self.word, Read(self), now, n);
        let step = params.step(glanced, now, n);
        assert_eq!(step, params.step(seen, now, n));
        if step != Step::Deny {
            assert_eq!(self.published(params, glanced), self.published(params, seen));
        }
    }

    /// Checks that a decision at once is the same, is explained in the same words, and publishes the same; and
    /// nothing where it has not read the ring.
    fn check_read_at_once<P: StateMachine>(&self, params: &P, seen: P::View, now: Tick, n: u64) {
        for brief in [false, true] {
            let is_ring_read = Cell::new(false);
            let ring = || {
                is_ring_read.set(true);
                Read(self)
            };
            let Some(view) = params.read_at_once(self.word, ring, now, n, brief) else { continue };
            let step = params.step(view, now, n);
            assert_eq!(step, params.step(seen, now, n));
            if step != Step::Deny {
                let published = self.published(params, view);
                assert_eq!(published, self.published(params, seen));
                assert!(is_ring_read.get() || published.is_empty(), "publishes without the ring");
            }
            if !brief {
                assert_eq!(params.answer(view, now, n), params.answer(seen, now, n));
            }
        }
    }

    fn published<P: StateMachine>(&self, params: &P, seen: P::View) -> Vec<(usize, u64)> {
        let mut writes = Vec::new();
        let write = |index, content| {
            writes.push((index, content));
            true
        };
        assert!(params.publish(seen, Read(self), write));
        writes
    }

    fn admits<P: StateMachine>(&self, params: &P, now: Tick, n: u64) -> bool {
        matches!(params.step(self.read(params, now, n), now, n), Step::Admit { .. })
    }

    /// Advances to `next`: first the ring cells, then the word, then the note.
    fn move_on<P: StateMachine>(&mut self, params: &P, seen: P::View, n: u64, next: u64) {
        assert_eq!(next >> PAYLOAD_BITS, 0, "no bit above the payload");
        let mut writes = Vec::new();
        let write = |index, content| {
            writes.push((index, content));
            true
        };
        assert!(params.publish(seen, Read(self), write), "no other thread changed the word");
        for (index, content) in writes {
            assert!(index < self.ring_cells(), "writes beyond the cells, or into the note");
            assert_eq!(content >> CONTENT_BITS, 0, "no bit above the content");
            self.ring[index] = content;
        }
        // A thread that has lost the race for the word stops at the first write.
        let mut denied = 0;
        let stops = params.publish(seen, Read(self), |_, _| {
            denied += 1;
            false
        });
        assert!(stops == (denied == 0) && denied <= 1, "continued after the word had changed");
        if !planted(Mistake::ChargeLost) {
            self.word = next;
        }
        if self.has_note {
            let note = self.ring_cells();
            self.ring[note] = params.note(seen, n);
        }
    }

    /// The debt of the state; zero if it is idle.
    fn debt<P: StateMachine>(&self, params: &P, now: Tick) -> u64 {
        match params.liveness(self.word, params.instant(now)) {
            Liveness::Idle { .. } => 0,
            Liveness::Live { debt } => {
                assert!(debt > 0, "a live key owes something");
                debt
            }
        }
    }
}

/// Asks again and again at one instant, which may grant at most `max`.
///
/// Waits are tried only up to `latest`. If the ring has any content, its cells contradict the word
/// and each other. Then only this is checked: no panic, no bit outside the field, and a sufficient
/// wait.
pub(crate) fn steps_are_total<P: StateMachine>(
    params: &P,
    (word, cells): (u64, Cells<'_>),
    (now, fits, max): (Tick, u64, u64),
    latest: u64,
    asked: &[Cost],
) {
    let mut state = State::new(params, word, cells);
    let sound = matches!(cells, Cells::Empty);
    let (mut granted, mut rest) = (0_u64, fits);
    let _ = state.debt(params, now);
    assert_eq!(params.no_slot(state.word, now, Duration::ZERO).remaining(), 0);
    for cost in asked {
        let n = cost.cells(fits, rest);
        let seen = state.read(params, now, n);
        let before = state.clone();
        match (params.step(seen, now, n), params.answer(seen, now, n)) {
            (Step::Admit { next }, Ok(permit)) => {
                granted = granted.saturating_add(n);
                state.move_on(params, seen, n, next);
                assert_eq!(permit.limit(), fits);
                assert!(permit.remaining() <= fits);
                assert!(
                    permit.delay() <= permit.reset_after(),
                    "the turn is after the bucket has drained"
                );
                rest = permit.remaining();
                if sound {
                    is_charged(params, (&before, &state), now, n);
                }
            }
            (Step::DenyCounted { next }, Err(denied)) => {
                assert!(n <= fits, "a request that can never fit is not counted");
                state.move_on(params, seen, n, next);
                if sound {
                    is_charged(params, (&before, &state), now, n);
                    assert!(
                        !before.admits(params, now, n + 1),
                        "a smaller request was denied than the one admitted"
                    );
                    denial_is_right(params, &state, (now, n, fits), latest, &denied);
                }
                rest = denied.remaining();
            }
            (Step::Deny, Err(denied)) => {
                if sound {
                    denial_is_right(params, &state, (now, n, fits), latest, &denied);
                } else if is_steady(params, &state, now, &denied) {
                    wait_is_enough(params, &state, (now, n), latest, &denied);
                }
                rest = denied.remaining();
            }
            (step, answer) => panic!("{step:?} was answered by {answer:?}"),
        }
        // With a ring of any content a charge may lower the debt, once.
        assert!(!sound || granted <= max, "{granted} of {max} at one instant");
    }
}

/// Whether the stored times keep their meaning until the wait is over: none has wrapped around.
fn is_steady<P: StateMachine>(params: &P, state: &State, now: Tick, denied: &Denied) -> bool {
    let soon = |wait| params.skew_tolerance().is_none_or(|tolerance| wait <= tolerance);
    let live = state.debt(params, now) > 0;
    live && params.grid().ring().is_none() && denied.retry_after().is_none_or(soon)
}

/// A charge never lowers the debt.
fn is_charged<P: StateMachine>(params: &P, (before, after): (&State, &State), now: Tick, n: u64) {
    let (was, is) = (before.debt(params, now), after.debt(params, now));
    // The debt of a log is an end time, not an amount.
    let more = if params.has_note() { is >= was && is > 0 } else { is > was };
    assert!(if n > 0 { more } else { is == was }, "moved back: {was} to {is} by {n}");
}

/// Checks a denial against the state that it left.
fn denial_is_right<P: StateMachine>(
    params: &P,
    state: &State,
    (now, n, fits): (Tick, u64, u64),
    latest: u64,
    denied: &Denied,
) {
    assert_eq!(denied.limit(), fits);
    assert!(denied.remaining() < n, "cells that are left were denied");
    let Some(wait) = denied.retry_after() else {
        assert!(n > fits, "a request that fits is admitted at some time");
        return;
    };
    assert!(n <= fits && !wait.is_zero());
    assert!(wait <= denied.reset_after(), "a fresh bucket admits what fits");
    let Some(then) = wait_is_enough(params, state, (now, n), latest, denied) else { return };
    assert!(!state.admits(params, Tick::from_nanos(then - 1), n), "{wait:?} is too much");
}

/// Checks that the request is admitted at the end of the wait, if that can be tried.
fn wait_is_enough<P: StateMachine>(
    params: &P,
    state: &State,
    (now, n): (Tick, u64),
    latest: u64,
    denied: &Denied,
) -> Option<u64> {
    let wait = denied.retry_after()?;
    let wait = wait - Duration::from_nanos(planted(Mistake::WaitTooShort).into());
    // Times beyond the last tick cannot be tried. Windows of the wall clock stop once its time is
    // beyond that, which is less than a period earlier.
    let then = now.as_nanos().checked_add(nanos(wait)).filter(|then| *then < latest)?;
    assert!(state.admits(params, Tick::from_nanos(then), n), "{wait:?} is not enough");
    Some(then)
}
